"""The unit of work: a batch of runs of one arm, from settings to plain arrays.

It runs with NumPy and Numba (and what its runner needs) only. A runner says which batches of several arms run as one
program (`BatchRunner.programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td.lab.errors import LabError
from chunked_td.lab.identity import resolve
from chunked_td.lab.store.settings import BatchSettings, family_of
from chunked_td.lab.study import Arm, BatchRunner, Columns, Protocol, Scores


@dataclass(frozen=True)
class Batch:
    """Runs of one arm.

    Args:
      protocol, arm: what is run.
      pairs: (seed, step-size exponent) of each run.
      episodes: length of each run.
      record_at: checkpoints.
    """

    protocol: Protocol
    arm: Arm
    pairs: tuple[tuple[int, int], ...]
    episodes: int
    record_at: tuple[int, ...]

    @cached_property
    def settings(self) -> BatchSettings:
        """Everything that determines the result."""
        return BatchSettings(family_of(self.protocol, self.arm), self.pairs, self.episodes, self.record_at)

    @property
    def name(self) -> str:
        """File name without suffix."""
        return self.settings.name

    @property
    def title(self) -> str:
        """What it is, for messages."""
        return f"{self.protocol.id} {self.arm.id}"

    @property
    def kind(self) -> str:
        """What logs and estimates of time call its arm."""
        return self.protocol.kind_of(self.arm)

    @property
    def seeds(self) -> np.ndarray:
        """Seed of each run, int64[R]."""
        return np.array([seed for seed, _ in self.pairs], dtype=np.int64)

    @property
    def step_sizes(self) -> np.ndarray:
        """Step size of each run, float64[R]."""
        return np.array([self.protocol.step_size(exponent) for _, exponent in self.pairs])

    @property
    def steps(self) -> float:
        """Environment steps in all, about."""
        return len(self.pairs) * self.episodes * self.protocol.steps_per_episode

    @property
    def rows(self) -> int:
        """Rows of its table: runs × checkpoints."""
        return len(self.pairs) * len(self.record_at)

    def columns(self, scores: Scores) -> Columns:
        """The columns of its table. Args: scores: by name, float64[R, K] (runs, checkpoints)."""
        shape, index = (len(self.pairs), len(self.record_at)), self.settings.index()
        columns = {"seed": index["seed"], "exponent": index["exponent"]}
        columns |= {"step_size": np.repeat(self.step_sizes, shape[1]), "episode": index["episode"]}
        if "score" not in scores:
            raise LabError(f"scoring of {self.protocol.id!r} must give a column 'score', got {sorted(scores)}")
        for name, values in scores.items():
            values = np.asarray(values, dtype=np.float64)
            if values.shape != shape:
                wanted = f"must have shape {shape} (runs, checkpoints), got {values.shape}"
                raise LabError(f"scoring of {self.protocol.id!r}: column {name!r} {wanted}")
            columns[name] = np.ascontiguousarray(values).reshape(-1)
        return columns


def split_columns(program: Sequence[Batch], scores: Scores) -> list[Columns]:
    """The columns of every batch. Args: scores: of all runs of a program, by name, float64[R, K]."""
    cuts = np.cumsum([len(batch.pairs) for batch in program])[:-1]
    parts = {name: np.split(values, cuts) for name, values in scores.items()}
    return [batch.columns({name: part[k] for name, part in parts.items()}) for k, batch in enumerate(program)]


def silent(text: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class SimulationRunner(BatchRunner):
    """The compiled simulation, or a function that is called as it is."""

    simulate: Callable[..., Any]

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`; results do not depend on the number of threads."""
        (batch,) = program
        arguments = {**_shared_arguments(batch), **_own_arguments(batch), **batch.arm.options}
        dynamics = batch.protocol.environment.build()
        runs = self.simulate(dynamics, model=batch.arm.model, threads=threads, **arguments)
        return [batch.columns(scores_of(batch, runs))]


@dataclass(frozen=True)
class NetworkRunner(BatchRunner):
    """Arms whose λ comes from a network.

    Args:
      together: whether arms that can share a program do: a GPU hardly takes longer for more networks. Rounding depends
        on the size of a program, so on some devices the numbers are close to those of batches run alone, not equal.
      precision: of matrix products on a GPU, if not the default.
    """

    together: bool = False
    precision: str | None = None

    def packages(self, batch: Batch) -> tuple[str, ...]:
        """See `BatchRunner.packages`."""
        return ("jax",)

    def programs(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """Batches of the same protocol, network, learner, length and block of seeds, as far as they can share."""
        if not self.together:
            return super().programs(batches)
        from chunked_td.simulation.networks import can_share

        groups: dict[Any, list[list[Batch]]] = {}
        for batch in batches:
            arm = batch.arm
            key = (batch.protocol.id, arm.learner, arm.model, batch.episodes, batch.record_at, batch.pairs[0][0])
            programs = groups.setdefault(key, [])
            for program in programs:
                sources = [other.arm.source() for other in (*program, batch)]
                if can_share(sources, arm.learner, batch.protocol.environment.build()):
                    program.append(batch)
                    break
            else:
                programs.append([batch])
        return [program for programs in groups.values() for program in programs]

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`."""
        from chunked_td.simulation.networks import ArmRuns, run_together

        first, total = program[0], f"{program[0].episodes:,}"
        found = run_together(
            first.protocol.environment.build(),
            [ArmRuns(**_own_arguments(batch)) for batch in program],
            config=first.arm.model.config,
            noisy_steps=first.arm.model.noisy_steps,
            report=lambda episode: report(f"{episode:,}/{total} episodes"),
            **({"precision": self.precision} if self.precision else {}),
            **_shared_arguments(first),
        )
        return [batch.columns(scores_of(batch, runs)) for batch, runs in zip(program, found, strict=True)]


def runner_of(batch: Batch, networks: NetworkRunner | None = None) -> BatchRunner:
    """What runs a batch. Args: networks: for arms with networks, if not the default."""
    if (own := batch.protocol.batch_runner) is not None:
        return own
    if batch.arm.kind == "network":
        return networks or NetworkRunner()
    return SimulationRunner(resolve(batch.protocol.runner))


def programs_of(batches: Sequence[Batch], networks: NetworkRunner | None = None) -> list[list[Batch]]:
    """Batches grouped into what runs together, in the order of the first batch of each group."""
    by_runner: dict[BatchRunner | None, list[Batch]] = {}
    for batch in batches:
        alone = batch.protocol.batch_runner is None and batch.arm.kind != "network"
        by_runner.setdefault(None if alone else runner_of(batch, networks), []).append(batch)
    place = {id(batch): k for k, batch in enumerate(batches)}
    groups = [
        program
        for runner, found in by_runner.items()
        for program in ([[batch] for batch in found] if runner is None else runner.programs(found))
    ]
    return sorted(groups, key=lambda program: place[id(program[0])])


def execute(batch: Batch, threads: int | None = None) -> Columns:
    """Run one batch by itself. Args: threads: for the compiled simulation; None is all cores.

    Returns:
      columns of equal length, runs × checkpoints rows: "seed", "exponent", "step_size", "episode", "score" and whatever
      else the protocol's scoring gives.
    """
    return runner_of(batch).run([batch], threads, silent)[0]


def _own_arguments(batch: Batch) -> dict[str, Any]:
    """Arguments of the simulation that differ between arms and runs."""
    return {"lambda_source": batch.arm.source(), "seeds": batch.seeds, "step_sizes": batch.step_sizes}


def _shared_arguments(batch: Batch) -> dict[str, Any]:
    """Arguments of the simulation that arms of a protocol share."""
    return {
        "learner": batch.arm.learner,
        "epsilon": batch.protocol.epsilons(batch.episodes),
        "discount": batch.protocol.discount,
        "episodes": batch.episodes,
        "record_at": batch.record_at,
        "probes": list(batch.protocol.probes),
    }


def scores_of(batch: Batch, runs: Any) -> Scores:
    """What the protocol's scoring gives, and diagnostics. A run whose network broke down has no score from there."""
    record_at = np.asarray(batch.record_at, dtype=np.int64)
    scores, diagnostics = resolve(batch.protocol.scoring)(runs, record_at), getattr(runs, "diagnostics", {})
    if np.any(diagnostics.get("broken", 0)):
        scores = {name: np.where(diagnostics["broken"] > 0, np.nan, values) for name, values in scores.items()}
    diverged = np.asarray(getattr(runs, "diverged", -1)).reshape(-1, 1)
    if "score" in scores and np.any(diverged >= 0):  # the worst score, not none: a step size must not gain by diverging
        after = (diverged >= 0) & (record_at > diverged) & np.isnan(scores["score"])
        scores = {**scores, "score": np.where(after, np.inf, scores["score"])}
    return {**scores, **diagnostics}
