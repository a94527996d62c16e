"""λ from counts of learned codes (`Codebook`) beside counts of cells, 64 each, on MountainCar with the same tiles.

    python docs/evidence/codebook.py

Criterion, stated before the run: mean return of all of 100 training episodes; the mean difference over 10 seeds with a
95 % bootstrap interval. The codebook is better (worse) if the interval lies above (below) 0.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import chunked_td as ctd


def mean_returns(learned: bool) -> np.ndarray:
    """The mean return of every seed."""
    found = []
    for seed in range(10):
        env = gym.make("MountainCar-v0")
        tiles = ctd.TileCoding(env, codes=ctd.Codebook(env, 64) if learned else None)
        settings = {"step_size": 0.8, "discount": 1.0, "epsilon": 0.0, "indexer": tiles, "seed": seed}
        agent = ctd.SarsaLambda(env, lambda_source=ctd.ExpectedLambda(), **settings)
        found.append(agent.learn(env, episodes=100, progress=False).returns.mean())
    return np.array(found)


if __name__ == "__main__":
    cells, codes = mean_returns(learned=False), mean_returns(learned=True)
    apart = codes - cells
    low, high = np.percentile(np.random.default_rng(0).choice(apart, (10_000, apart.size)).mean(axis=1), [2.5, 97.5])
    print(f"cells {cells.mean():.1f}, codebook {codes.mean():.1f}: {apart.mean():+.1f} ({low:+.1f} to {high:+.1f})")
