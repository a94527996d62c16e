"""Agents of version 0.1 and what they become: run with that version to make the files of this folder.

`walk` is a fixed sequence of observations and rewards; the agents' own actions do not matter to it.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

FOLDER = Path(__file__).parent


class Discrete:
    def __init__(self, n):
        self.n, self.start = n, 0


class MultiDiscrete:
    def __init__(self, nvec):
        self.nvec, self.shape, self.start = np.array(nvec), (len(nvec),), np.zeros(len(nvec), int)
        self.dtype = np.dtype(np.int64)


def spaces(observation, rewards=None):
    space = SimpleNamespace(observation_space=observation, action_space=Discrete(3))
    if rewards:
        space.reward_space = SimpleNamespace(shape=(rewards,))
    space.unwrapped = space
    return space


AGENTS = {
    "chunked-sarsa": ("ChunkedSarsa", spaces(Discrete(40)), {"seed": 3}),
    "expected-offline": ("ChunkedExpectedSarsa", spaces(Discrete(40)), {"seed": 4, "view": "offline", "prior": 0.5}),
    "n-step": ("NStepChunkedTD", spaces(Discrete(40)), {"seed": 5}),
    "corrected": ("CorrectedTD", spaces(Discrete(40)), {"seed": 6}),
    "factored": ("FactoredChunkedExpectedSarsa", spaces(MultiDiscrete((5, 8)), 2), {"seed": 7}),
    "watkins": ("SarsaLambda", spaces(Discrete(40)), {"seed": 8, "lambda_": 0.8, "replacing": True}),
}


def walk(agent, steps, start, vector):
    """Drive an agent through some steps; an episode is left unfinished at the end."""
    rng = np.random.default_rng(start)
    place = 0
    fresh = start == 0
    for t in range(steps):
        if fresh:
            agent.start(observation(place, vector))
        place = int((place * 3 + rng.integers(1, 7)) % 40)
        reward = [float(place % 3), float(t % 2)] if vector else float(place % 3)
        fresh = t % 9 == 8 and t < steps - 1
        agent.step(np.array(reward) if vector else reward, observation(place, vector), fresh)


def observation(place, vector):
    return np.array([place // 8, place % 8]) if vector else place


def main():
    import chunked_td as ctd

    after = {}
    for name, (cls, env, settings) in AGENTS.items():
        agent = getattr(ctd, cls)(env, **settings)
        walk(agent, 60, 0, name == "factored")
        agent.save(FOLDER / f"{name}.ctd")
        walk(agent, 60, 1, name == "factored")
        rows = agent.tables.values
        after[name] = rows[np.abs(rows).sum(axis=1) > 0].tolist()
    (FOLDER / "after.json").write_text(json.dumps(after))


if __name__ == "__main__":
    sys.exit(main())
