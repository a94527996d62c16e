"""Problems with cycles: a random walk, random problems, and a grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chunked_td.envs.table import TransitionTable
from studies.credit.families.family import family


@family("walk", "Random walk", dial="states", settings=(5, 11, 19), episodes=60)
def walk(*, states: int) -> TransitionTable:
    """Values of the uniform policy on a line of n states, −1 at one end and +1 at the other.

    Sutton's random walk: left or right with equal chances.
    """

    def outcomes(state: int, action: int) -> list[tuple[float, Any, float, bool]]:
        ahead = state + (1 if action else -1)
        return [(1.0, ahead, float((ahead == states) - (ahead == -1)), ahead in (-1, states))]

    return TransitionTable.from_outcomes(outcomes, starts=[states // 2], n_actions=2, horizon=50 * states)


@family("garnet", "Random problems", dial="branching", settings=(1, 3, 10), discount=0.95)
def garnet(*, branching: int, states: int = 30, actions: int = 3, seed: int = 0) -> TransitionTable:
    """Thirty states, three actions, each of which leads to n random states; episodes end at random.

    Rewards belong to (state, action). The probability of termination is 1/20 after each step.
    """
    rng = np.random.default_rng([seed, branching])
    targets = {(s, a): rng.choice(states, branching, replace=False) for s in range(states) for a in range(actions)}
    chances = {pair: rng.dirichlet(np.ones(branching)) for pair in targets}
    rewards = {pair: float(rng.normal()) for pair in targets}

    def outcomes(state: int, action: int) -> list[tuple[float, Any, float, bool]]:
        pair, end = (state, action), 1 / 20
        listed = [
            (p * (1 - end), int(t), rewards[pair], False) for p, t in zip(chances[pair], targets[pair], strict=True)
        ]
        return [*listed, (end, "end", rewards[pair], True)]

    return TransitionTable.from_outcomes(outcomes, starts=list(range(states)), n_actions=actions, horizon=200)


garnet_values = replace(
    garnet,
    id="garnet-values",
    title="Random problems, values",
    text="The values of the uniform policy in the same kind of random problem.",
    fixed={"seed": 1},
    episodes=100,
)


@family("grid", "Grid", dial="slip", settings=(0.0, 0.2, 0.5), discount=0.95, held_out=True)
def grid(*, slip: float, size: int = 5) -> TransitionTable:
    """Five by five, one reward in the far corner; a move goes astray with this probability."""
    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))

    def outcomes(state: tuple[int, int], action: int) -> list[tuple[float, Any, float, bool]]:
        chances: dict[tuple[int, int], float] = {}
        for k, (dx, dy) in enumerate(moves):
            p = slip / 4 + (1 - slip if k == action else 0.0)
            there = min(max(state[0] + dx, 0), size - 1), min(max(state[1] + dy, 0), size - 1)
            if p > 0:
                chances[there] = chances.get(there, 0.0) + p
        goal = (size - 1, size - 1)
        return [(p, there, float(there == goal), there == goal) for there, p in chances.items()]

    return TransitionTable.from_outcomes(outcomes, starts=[(0, 0)], n_actions=4, horizon=100)
