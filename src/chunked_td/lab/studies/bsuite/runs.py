"""Runs of the study: seed k plays setting k of an experiment (modulo their number), as bsuite's id "experiment/k"."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from chunked_td.learners.schedule import Schedule

SLOTS, CLOCK, PERCEPTS = 2, 1, 30_000
"""Of the memory of unexpected percepts, as in the study memory-marks; and the most percepts that one run can meet."""


class Experiment(NamedTuple):
    """An experiment. Args: name: as bsuite writes it. settings: a number each. exploring: episodes with ε above 0."""

    name: str
    settings: tuple[int, ...]
    exploring: int

    @classmethod
    def make(cls, name: str, settings: Sequence[int], exploring: int) -> Experiment:
        """From a protocol."""
        return cls(name, tuple(settings), exploring)

    @property
    def exploration(self) -> Schedule:
        """ε, from 1 to 0 in the first episodes."""
        return Schedule(((0, 1.0), (self.exploring, 0.0)))

    def environment(self, seed: int, memory: bool) -> tuple[Any, Any]:
        """The problem of a seed, and how a learner is shown it: as a table, or with features."""
        from chunked_td import OwnFeatures, make_indexer
        from chunked_td.envs import KeptPercepts
        from chunked_td.lab.studies.bsuite import problems

        value = self.settings[seed % len(self.settings)]
        if self.name == "umbrella_length":
            env = problems.UmbrellaChain(value)
            n = env.observation_space.shape[0]  # type: ignore[index]
            return env, OwnFeatures(problems.numbers_by_time(value, n), n * value, rate=1.0 / n)
        env = problems.MemoryChain(value) if self.name == "memory_len" else problems.MemoryChain(2, value)
        return KeptPercepts(env, SLOTS, clock=CLOCK, percepts=PERCEPTS) if memory else env, make_indexer()


def play(
    experiment: Experiment, *, seeds: Any, step_sizes: Any, record_at: Sequence[int], memory: bool = True, **arm: Any
) -> Any:
    """Play a batch; called as `chunked_td.simulation.simulate` is. Args: memory: whether percepts are kept."""
    table = experiment.name == "discounting_chain"
    runs = _simulated if table else _learned
    pairs = zip(np.asarray(seeds).tolist(), np.asarray(step_sizes).tolist(), strict=True)
    rows = [runs(experiment, seed, step_size, np.asarray(record_at), memory, arm) for seed, step_size in pairs]
    mistakes, returns, lost = map(np.array, zip(*rows, strict=True))
    return SimpleNamespace(misses_at=mistakes, returns_at=returns, diverged=lost)


def _simulated(experiment: Experiment, seed: int, step_size: float, marks: np.ndarray, _: bool, arm: Any) -> Any:
    from chunked_td.lab.studies.bsuite.problems import discounting_chain
    from chunked_td.simulation.simulate import simulate

    table = discounting_chain(experiment.settings[seed % len(experiment.settings)])
    found = simulate(table, seeds=[seed], step_sizes=[step_size], record_at=marks.tolist(), **{"view": "traces", **arm})
    return found.misses_at[0], found.returns_at[0], found.diverged[0]


def _learned(experiment: Experiment, seed: int, step_size: float, marks: np.ndarray, memory: bool, arm: Any) -> Any:
    """Mistakes so far and returns since the last mark, at every mark; the mark at which learning diverged, or −1."""
    from chunked_td import ExpectedSarsaLambda, SarsaLambda

    env, indexer = experiment.environment(seed, memory)
    kept = {name: arm[name] for name in ("lambda_source", "discount", "view", "reward_source") if name in arm}
    kept |= {"epsilon": experiment.exploration, "indexer": indexer, "seed": seed}
    agent = (SarsaLambda if arm["learner"] == "sarsa" else ExpectedSarsaLambda)(env, step_size=step_size, **kept)
    mistakes, returns = np.full(marks.size, np.nan), np.full(marks.size, np.nan)
    for k, episodes in enumerate(np.diff(marks, prepend=0).tolist()):
        history = agent.learn(env, episodes, progress=False)
        if history.diverged is not None:
            return mistakes, returns, int(marks[k])
        mistakes[k], returns[k] = env.unwrapped.mistakes, history.returns.sum()
    return mistakes, returns, -1
