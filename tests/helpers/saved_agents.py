"""A second process for the fuzz tests of saved agents, in which compiled code checks every index.

    CHUNKED_TD_BOUNDSCHECK=1 python saved_agents.py make FOLDER    one file of every kind, in the middle of an episode
    CHUNKED_TD_BOUNDSCHECK=1 python saved_agents.py walk FOLDER    200 steps with each file, by the kind in its name

A walk may end in an error that a learner raises by itself; an index out of its array is an IndexError, and fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import chunked_td as ctd


def world(observation, rewards=1):
    shape = () if rewards == 1 else (rewards,)
    spaces = {
        "observation_space": observation,
        "action_space": Discrete(3),
        "reward_space": SimpleNamespace(shape=shape),
    }
    space = SimpleNamespace(**spaces)
    space.unwrapped = space
    return space


STATES, GRID, LINE = world(Discrete(16)), world(MultiDiscrete((4, 4)), 2), world(Box(0.0, 1.0, (1,)))
KINDS = {
    "sarsa": (STATES, lambda env: ctd.ChunkedSarsa(env, seed=1, epsilon=ctd.linear(1.0, 0.1, 30))),
    "offline": (STATES, lambda env: ctd.ChunkedExpectedSarsa(env, seed=1, view="offline", percept="reward-state")),
    "averages": (STATES, lambda env: ctd.CorrectedTD(env, seed=1)),
    "learns": (STATES, lambda env: ctd.SarsaLambda(env, lambda_source=ctd.MetaGradientLambda(per_state=True))),
    "values": (STATES, lambda env: ctd.ChunkedSarsa(env, lambda_source=ctd.ValueLambda(), view="true_online")),
    "hashed": (STATES, lambda env: ctd.ChunkedTD(env, lambda_source=ctd.BackwardLambda(), indexer=ctd.make_indexer())),
    "lineage": (STATES, lambda env: ctd.LineageExpectedSarsa(env, seed=1, planner=ctd.PrioritisedSweeping())),
    "greedy": (
        STATES,
        lambda env: ctd.SarsaLambda(env, lambda_source=ctd.GreedyLambda(), exploration=ctd.CountBonus()),
    ),
    "factored": (GRID, lambda env: ctd.FactoredChunkedExpectedSarsa(env, lambda_source=ctd.FactoredLambda((0, 1)))),
    "tiles": (LINE, lambda env: ctd.SarsaLambda(env, indexer=ctd.TileCoding(env, 4, 2), view="true_online")),
}


def play(agent, env, steps, rng, ends=0.05):
    """Go on by so many steps, as the environment might."""
    for _ in range(steps):
        seen = env.observation_space.low[0] + rng.random(1) if isinstance(env.observation_space, Box) else None
        seen = rng.integers(env.observation_space.nvec) if isinstance(env.observation_space, MultiDiscrete) else seen
        seen = int(rng.integers(16)) if seen is None else seen
        reward = float(rng.integers(3)) if env.reward_space.shape == () else rng.random(2)
        if agent.state < 0:
            agent.start(seen)
        else:
            agent.step(reward, seen, rng.random() < ends)


def make(folder: Path) -> None:
    for kind, (env, build) in KINDS.items():
        agent, rng = build(env), np.random.default_rng(0)
        play(agent, env, 60, rng)
        play(agent, env, 6, rng, ends=0.0)
        agent.save(folder / f"{kind}.ctd")


def walk(folder: Path) -> None:
    whole = 0
    for path in sorted(folder.iterdir()):
        agent = ctd.load(path)
        try:
            play(agent, KINDS[path.name.partition(".")[0]][0], 200, np.random.default_rng(1))
            whole += 1
        except (ValueError, ctd.Diverged):
            pass
    print(whole)


if __name__ == "__main__":
    {"make": make, "walk": walk}[sys.argv[1]](Path(sys.argv[2]))
