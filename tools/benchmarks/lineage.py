"""Lineage traces and the rule with half expected errors against accumulating traces, on Taxi; and their memory.

    python tools/benchmarks/lineage.py

One run each, step by step in turns, in processor time per step, compilation left out. The same transitions for all: a
policy that acts at random (ε = 1), so that episodes have 200 steps and every row visited stays live.
"""

from __future__ import annotations

import gymnasium as gym

import chunked_td as ctd
from chunked_td.simulation import simulate
from timing import Row, at_most, fastest

ARMS = {
    "accumulating": {"lambda_source": 0.95, "view": "traces"},
    "lineage": {"lambda_source": 1.0, "view": "lineage"},
    "lineage, single steps": {"lambda_source": 1.0, "view": ctd.Lineage(counts="steps")},
    "luck": {"lambda_source": 0.95, "view": "traces", "reward_source": ctd.ExpectedError(0.5)},
    "lineage + luck": {"lambda_source": 1.0, "view": "lineage", "reward_source": ctd.ExpectedError(0.5)},
}


def benchmark(quick: bool = False) -> list[Row]:
    """A row per arm but the first."""
    table, episodes = ctd.TransitionTable.from_env(gym.make("Taxi-v4")), 20 if quick else 300

    def turn(arm):
        def play():
            common = {"learner": "expected_sarsa", "step_sizes": 0.05, "seeds": [0], "epsilon": 1.0, "discount": 0.99}
            return float(simulate(table, episodes=episodes, threads=1, **common, **arm).steps.sum())

        return play

    turns = [turn(arm) for arm in ARMS.values()]
    for one in turns:
        one()  # compiles
    first, *others = fastest(2 if quick else 5, *turns)
    names = list(ARMS)[1:]
    return [
        at_most(f"{name} on Taxi", ours, first, 3.0, "accumulating traces")
        for name, ours in zip(names, others, strict=True)
    ]


def memory(counts: str, episodes: int = 500) -> str:
    """Pairs, or single steps, that occurred after so many episodes of acting at random."""
    env, view = gym.make("Taxi-v4"), ctd.Lineage(counts=counts)
    agent = ctd.ExpectedSarsaLambda(env, lambda_=1.0, view=view, epsilon=1.0, step_size=0.05, seed=0)
    agent.learn(env, episodes)
    pairs, rows, states = int(agent.trace.clock[1]), agent.tables.values.shape[0], env.observation_space.n
    size = agent.trace.shared.nbytes / 1e6
    return f"memory after {episodes} random episodes: {pairs:,} {counts} of {rows * states:,} occurred, {size:.2f} MB"


if __name__ == "__main__":
    for row in benchmark():
        print(f"{row.name:28} {row.ours * 1e9:7.0f} ns a step, {row.ratio:.2f} of {row.note}, target {row.target}")
    for counts in ("pairs", "steps"):
        print(memory(counts))
