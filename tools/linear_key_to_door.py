"""Share of episodes that find the treasure in the linear key-to-door of the COCOA paper, method by method.

    python tools/linear_key_to_door.py          # what it printed: linear_key_to_door.txt

10,000 episodes, apples where seed 0 puts them. Value learners: Expected-SARSA, 5 seeds, ε = 0.1, so that at most
(1 − 0.075)² = 0.86 of the episodes take the key and open the door; step sizes 2⁻¹, 2⁻³, 2⁻⁵, 2⁻⁷. Once more with a
bonus of 0.1/√n(s, a), because where ε alone explores, noisy values do. Policy gradients have no ε; 2 seeds, step sizes
0.03, 0.1 and 0.3, length 23 only. Each method at its best step size, chosen on the same runs: for orientation,
and no claim rests on them. The figures of the paper are for networks and policy gradients with baselines.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import chunked_td as ctd
from chunked_td.envs.dynamics import linear_key_to_door
from chunked_td.simulation import simulate

EPISODES, SEEDS, SIZES = 10_000, range(5), (0.5, 0.125, 0.03125, 0.0078125)
LUCK = ctd.ExpectedError(0.5)
METHODS = {
    "λ = 0": {"lambda_source": 0.0, "view": "traces"},
    "λ = 0.9": {"lambda_source": 0.9, "view": "traces"},
    "λ = 1": {"lambda_source": 1.0, "view": "traces"},
    "chunked (the paper)": {"lambda_source": ctd.ForwardLambda(), "view": "traces"},
    "expected chunking": {"lambda_source": ctd.ExpectedLambda(), "view": "traces"},
    "lineage": {"lambda_source": 1.0, "view": "lineage"},
    "lineage + luck": {"lambda_source": 1.0, "view": "lineage", "reward_source": LUCK},
    "lineage, mature + luck": {"lambda_source": ctd.Mature(1.0), "view": "lineage", "reward_source": LUCK},
}


def by_values(length: int, exploration=None) -> None:
    """Value learners, compiled."""
    table = linear_key_to_door(length)
    for name, settings in METHODS.items():
        runs = [(seed, size) for size in SIZES for seed in SEEDS]
        found = simulate(
            table, learner="expected_sarsa", seeds=[seed for seed, _ in runs], step_sizes=[size for _, size in runs],
            episodes=EPISODES, record_at=[EPISODES - 1000], discount=1.0, epsilon=0.1, threads=1,
            exploration=exploration, **settings,
        )  # fmt: skip
        misses = np.asarray(found.misses_at).reshape(len(SIZES), len(SEEDS), -1)
        name = name if exploration is None else f"{name}, bonus"
        say(length, name, SIZES, 1 - misses[:, :, -1] / EPISODES, 1 - np.diff(misses, axis=2)[:, :, -1] / 1000)


def by_gradients(length: int, sizes=(0.03, 0.1, 0.3), seeds=range(2)) -> None:
    """Policy gradients, step by step. The last reward of an episode is the treasure's."""
    for form in ("none", "state", "reward"):
        found = np.zeros((len(sizes), len(seeds), EPISODES))
        for place, size in enumerate(sizes):
            for seed in seeds:
                env = gym.make("ChunkedTD/LinearKeyToDoor-v0", length=length)
                agent = ctd.HindsightPolicyGradient(env, form=form, step_size=size, least_weight=0.01, seed=seed)
                learn = agent.learn_episode

                def noted(states, actions, rewards, policies, learn=learn, out=found[place, seed], agent=agent):
                    out[agent.episode] = rewards[-1] > 0.0
                    learn(states, actions, rewards, policies)

                agent.learn_episode = noted
                agent.learn(env, EPISODES)
        name = {"none": "REINFORCE", "state": "hindsight (state)", "reward": "COCOA (reward)"}[form]
        say(length, name, sizes, found.mean(axis=2), found[:, :, -1000:].mean(axis=2))


def say(length: int, name: str, sizes, share: np.ndarray, last: np.ndarray) -> None:
    """Means over seeds at the step size with the largest share, with the standard error."""
    best = int(share.mean(axis=1).argmax())
    error = share[best].std(ddof=1) / share.shape[1] ** 0.5
    text = f"{share[best].mean():.2f} ± {error:.2f}, of the last 1,000 {last[best].mean():.2f}"
    print(f"L = {length:3}  {name:30} {text}  (α = {sizes[best]:g})", flush=True)


if __name__ == "__main__":
    for cells in (23, 103):
        by_values(cells)
    by_gradients(23)
    by_values(23, ctd.CountBonus(0.1))
