"""The unit of work: a batch of runs of one arm, from settings to plain arrays.

`execute` runs a batch with NumPy and Numba (and JAX for network arms) only. `execute_together` runs network batches of
several arms as one program; `shared_programs` says which can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td.lab.errors import LabError
from chunked_td.lab.identity import resolve
from chunked_td.lab.protocol import Arm, Protocol, Scores
from chunked_td.lab.store.family import family_of
from chunked_td.lab.store.settings import BatchSettings, Columns


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
        """File name without suffix: readable part and hash."""
        return self.settings.name

    @property
    def title(self) -> str:
        """What it is, for messages."""
        return f"{self.protocol.id} {self.arm.id}"

    @property
    def steps(self) -> float:
        """Environment steps in all, about."""
        return len(self.pairs) * self.episodes * self.protocol.steps_per_episode

    @property
    def rows(self) -> int:
        """Rows of its table: runs × checkpoints."""
        return len(self.pairs) * len(self.record_at)


def execute(batch: Batch, threads: int | None = None) -> Columns:
    """Run a batch.

    Args:
      batch: what to run.
      threads: for the compiled simulation; None is all cores. Results do not depend on it.
    Returns:
      columns of equal length, runs × checkpoints rows: "seed", "exponent", "step_size", "episode", "score" and
      whatever else the protocol's scoring gives.
    """
    if batch.arm.kind == "network":
        return execute_together([batch])[0]
    dynamics = batch.protocol.environment.build()
    arguments = {**_shared_arguments(batch), **_own_arguments(batch), **batch.arm.options}
    runs = resolve(batch.protocol.runner)(dynamics, model=batch.arm.model, threads=threads, **arguments)
    return columns_of(batch, runs)


def execute_together(
    batches: Sequence[Batch], report: Callable[[int], None] | None = None, **settings: Any
) -> list[Columns]:
    """Run network batches of several arms as one program: a GPU hardly takes longer for more networks.

    Args:
      batches: that may share a program, see `shared_programs`.
      report: called with the number of finished episodes at every checkpoint.
      settings: further arguments of `chunked_td.simulation.networks.run_together`.
    Returns:
      what `execute` gives, for each batch. Rounding depends on the size of a program, so on some devices the numbers
      are close to those of batches run alone, not equal.
    """
    from chunked_td.simulation.networks import Crew, run_together

    crews = [Crew(**_own_arguments(batch)) for batch in batches]
    first = batches[0]
    network = first.arm.network
    found = run_together(
        first.protocol.environment.build(),
        crews,
        config=network.config,
        noisy_steps=network.noisy_steps,
        report=report,
        **_shared_arguments(first),
        **settings,
    )
    return [columns_of(batch, runs) for batch, runs in zip(batches, found, strict=True)]


def shared_programs(batches: Sequence[Batch]) -> list[list[Batch]]:
    """Network batches grouped into programs: same protocol, network, learner, length and block of seeds."""
    from chunked_td.simulation.networks import can_share

    groups: dict[Any, list[list[Batch]]] = {}
    for batch in batches:
        arm = batch.arm
        key = (batch.protocol.id, arm.learner, arm.network, batch.episodes, batch.record_at, batch.pairs[0][0])
        programs = groups.setdefault(key, [])
        for program in programs:
            sources = [other.arm.source() for other in (*program, batch)]
            if can_share(sources, arm.learner, batch.protocol.environment.build()):
                program.append(batch)
                break
        else:
            programs.append([batch])
    return [program for programs in groups.values() for program in programs]


def _own_arguments(batch: Batch) -> dict[str, Any]:
    """Arguments of the simulation that differ between arms and runs."""
    return {
        "lambda_source": batch.arm.source(),
        "seeds": np.array([seed for seed, _ in batch.pairs], dtype=np.int64),
        "step_sizes": np.array([batch.protocol.step_size(exponent) for _, exponent in batch.pairs]),
    }


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


def columns_of(batch: Batch, runs: Any) -> Columns:
    """Columns from what a simulation gave: one row per run and checkpoint."""
    seeds, exponents = np.array(batch.pairs, dtype=np.int64).T
    record_at = np.asarray(batch.record_at, dtype=np.int64)
    shape = (len(seeds), len(record_at))
    columns = {
        "seed": np.repeat(seeds, shape[1]),
        "exponent": np.repeat(exponents, shape[1]),
        "step_size": np.repeat([batch.protocol.step_size(exponent) for exponent in exponents.tolist()], shape[1]),
        "episode": np.tile(record_at, shape[0]),
    }
    for name, values in _scores(batch, runs, record_at).items():
        values = np.asarray(values, dtype=np.float64)
        if values.shape != shape:
            raise LabError(
                f"scoring of {batch.protocol.id!r}: column {name!r} must have shape {shape} (runs, checkpoints), "
                f"got {values.shape}"
            )
        columns[name] = np.ascontiguousarray(values).reshape(-1)
    return columns


def _scores(batch: Batch, runs: Any, record_at: np.ndarray) -> Scores:
    """What the protocol's scoring gives, and diagnostics. A run whose network broke down has no score from there."""
    scores, diagnostics = resolve(batch.protocol.scoring)(runs, record_at), getattr(runs, "diagnostics", {})
    if np.any(diagnostics.get("broken", 0)):
        scores = {name: np.where(diagnostics["broken"] > 0, np.nan, values) for name, values in scores.items()}
    lost = np.asarray(getattr(runs, "diverged", -1)).reshape(-1, 1)
    if "score" in scores and np.any(lost >= 0):  # the worst score, not none: a step size must not gain by diverging
        gone = (lost >= 0) & (record_at > lost) & np.isnan(scores["score"])
        scores = {**scores, "score": np.where(gone, np.inf, scores["score"])}
    if "score" not in {**scores, **diagnostics}:
        raise LabError(f"scoring of {batch.protocol.id!r} must give a column 'score', got {sorted(scores)}")
    return {**scores, **diagnostics}
