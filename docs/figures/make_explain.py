"""Draw docs/figures/explain.png: where the credit of the treasure goes on a short Key-to-Door.

Run: python docs/figures/make_explain.py
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym

import chunked_td as ctd
from chunked_td._figures import as_png


def main() -> None:
    """Train two learners, find an episode with the treasure, and draw it."""
    agents = []
    for learner in (ctd.FactoredChunkedExpectedSarsa, ctd.ChunkedExpectedSarsa):
        env = gym.make("ChunkedTD/KeyToDoor-v0", horizon=30)
        agents.append(learner(env, discount=1.0, epsilon=ctd.linear(1.0, 0.1, episodes=500), seed=0))
        agents[-1].learn(env, episodes=1_500)
    env = gym.make("ChunkedTD/KeyToDoor-v0", horizon=30)
    factored, whole = agents
    episodes = (factored.explain(env, seed, against=(whole, 0.9)) for seed in range(50))
    told = next(one for one in episodes if one.rewards[-1].any())
    Path(__file__).with_name("explain.png").write_bytes(as_png(told.figure()))
    print(told)


if __name__ == "__main__":
    main()
