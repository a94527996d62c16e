"""`agent.step`: against SARSA(λ) with dictionaries, and as the number of states grows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import chunked_td as ctd
from benchmarks.python_rivals import DictSarsa
from benchmarks.timing import Row, at_least, at_most, fastest

SIDE = 71  # a frozen lake of 71 × 71 = 5,041 states


class Discrete:
    """The space {0, …, n−1}, for learners that are driven by recorded transitions."""

    def __init__(self, n: int):
        self.n, self.start = n, 0


def spaces(states: int, actions: int = 4) -> SimpleNamespace:
    """As much of an environment as a learner asks for."""
    return SimpleNamespace(observation_space=Discrete(states), action_space=Discrete(actions))


def lake_walk(steps: int, seed: int = 0) -> list[int]:
    """States visited on a slippery lake without holes by a policy that moves at random."""
    moves = np.random.default_rng(seed).integers(0, 4, steps)
    row = column = SIDE // 2
    states = [row * SIDE + column]
    for move in moves:
        row = min(max(row + (move == 1) - (move == 3), 0), SIDE - 1)
        column = min(max(column + (move == 2) - (move == 0), 0), SIDE - 1)
        states.append(int(row * SIDE + column))
    return states


def drive(agent, states: list[int]):
    """A function that takes the agent through the states, without the environment's own cost."""

    def turn() -> int:
        agent.start(states[0])
        for state in states[1:]:
            agent.step(0.0, state, False)
        return len(states) - 1

    return turn


def against_dictionaries(quick: bool) -> list[Row]:
    """One long episode on 5,041 states: at λ = 0.9 every pair visited keeps its trace."""
    rows = []
    settings = {"step_size": 0.1, "discount": 0.99, "epsilon": 0.1}
    for lambda_, steps, least in ((0.9, 500 if quick else 3_000, 10.0), (0.0, 2_000 if quick else 20_000, 1.0)):
        states = lake_walk(steps)
        ours = ctd.SarsaLambda(spaces(SIDE * SIDE), lambda_=lambda_, **settings)
        rival = DictSarsa(4, lambda_=lambda_, **settings)
        drive(ours, states[:3])()
        times = fastest(2 if quick else 3, drive(ours, states), drive(rival, states))
        rows.append(at_least(f"agent.step, λ = {lambda_:g}", *times, least, "SARSA(λ) with dictionaries"))
    return rows


def as_states_grow(quick: bool) -> list[Row]:
    """A walk over 64 distinct states spread over the table: the memory touched is the same for every size."""
    sizes = (100, 10_000, 1_000_000)
    turns = []
    for size in sizes:
        states = (np.random.default_rng(1).integers(0, 64, 500 if quick else 5_000) * (size // 64)).tolist()
        agent = ctd.SarsaLambda(spaces(size), lambda_=0.9, step_size=0.1)
        drive(agent, states[:3])()
        turns.append(drive(agent, states))
    times = fastest(3 if quick else 7, *turns)
    note = f"{sizes[0]:,} states; most over least of " + ", ".join(f"{t * 1e6:.2f} µs" for t in times)
    return [at_most(f"agent.step, {sizes[-1]:,} states", max(times), min(times), 1.5, note)]


def measure(quick: bool) -> list[Row]:
    """All rows."""
    return against_dictionaries(quick) + as_states_grow(quick)
