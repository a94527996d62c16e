"""The unit of work: a batch of runs of one arm, from settings to plain arrays.

`Batch.settings()` is everything that determines the result; its hash, `Batch.key`, names the stored file.
`execute` runs a batch with NumPy and Numba (and JAX for network arms) only, and returns `dict[str, np.ndarray]`;
`save_npz` and `load_npz` carry such results between hosts.

Network arms (model "network:NAME") are run by `chunked_td.lab.neural.run_batch(dynamics, *, model=NAME, …)`, which
takes the other keywords of `chunked_td.simulate.simulate` (but threads), returns the same record of arrays and may
add `diagnostics: dict[str, float64[R, K]]`, which become columns.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.errors import LabError
from chunked_td.lab.protocols import Arm, Protocol, lambda_source_of, resolve

# Raise this when a change to the algorithms, the environments or the random streams changes results:
# stored batches of the old version are then no longer used.
ALGORITHM_VERSION = 1

# A batch is all step sizes of an arm for one block of seeds: seeds 0–9, 10–19, …
SEEDS_PER_BATCH = 10


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
    def family(self) -> str:
        """Hash of everything but the runs, their length and the checkpoints: one family, one meaning of a row."""
        return digest_of(family_settings(self.protocol, self.arm))

    def settings(self) -> dict[str, Any]:
        """Everything that determines the result, as plain JSON values."""
        return {
            **family_settings(self.protocol, self.arm),
            "pairs": [list(pair) for pair in self.pairs],
            "episodes": self.episodes,
            "record_at": list(self.record_at),
        }

    @cached_property
    def key(self) -> str:
        """Hash of `settings()`, 64 hexadecimal digits."""
        return digest_of(self.settings())

    @property
    def name(self) -> str:
        """File name without suffix: readable part and hash."""
        return file_stem(self.settings())

    @property
    def steps(self) -> float:
        """Environment steps in all, about."""
        return len(self.pairs) * self.episodes * self.protocol.steps_per_episode

    @property
    def rows(self) -> int:
        """Rows of its table: runs × checkpoints."""
        return len(self.pairs) * len(self.record_at)


def family_settings(protocol: Protocol, arm: Arm) -> dict[str, Any]:
    """What determines one run of `arm`, apart from seed, step size, length and checkpoints."""
    return {
        "version": ALGORITHM_VERSION,
        "protocol": protocol.id,
        "arm": arm.id,
        "environment": identity(protocol.environment.dynamics),
        "arguments": json.loads(json.dumps(dict(protocol.environment.arguments), sort_keys=True)),
        "learner": arm.learner,
        "lambda_source": identity(arm.lambda_source),
        "model": arm.model,
        "step_size_base": protocol.step_size_base,
        "discount": protocol.discount,
        "exploration": repr(protocol.exploration),
        "probes": [list(probe) for probe in protocol.probes],
        "scoring": identity(protocol.scoring),
        "runner": identity(protocol.runner),
    }


def identity(thing: Any) -> str:
    """A text that changes when `thing` does: an address inside the package, else the source or the repr."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, (int, float)):
        return repr(float(thing))
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return repr(thing)
    if thing.__module__.startswith("chunked_td."):
        return f"{thing.__module__}:{thing.__qualname__}"
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return thing.__qualname__
    return f"{thing.__qualname__}@{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def digest_of(settings: dict[str, Any]) -> str:
    """SHA-256 of settings in a canonical form."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def file_stem(settings: dict[str, Any]) -> str:
    """File name of a batch without suffix: a readable part and the beginning of its key."""
    seeds = [seed for seed, _ in settings["pairs"]]
    readable = f"{settings['arm']}-seeds{min(seeds)}to{max(seeds)}-{settings['episodes']}"
    return f"{readable}-{digest_of(settings)[:16]}"


def execute(batch: Batch, threads: int | None = None) -> dict[str, np.ndarray]:
    """Run a batch.

    Args:
      batch: what to run.
      threads: for the compiled simulation; None is all cores. Results do not depend on it.
    Returns:
      columns of equal length, runs × checkpoints rows: "seed", "exponent", "step_size", "episode", "score" and
      whatever else the protocol's scoring gives.
    """
    protocol, arm = batch.protocol, batch.arm
    dynamics, arguments = protocol.environment.build(), {**_shared_arguments(batch), **_own_arguments(batch)}
    if arm.kind == "network":
        runs = resolve("chunked_td.lab.neural:run_batch")(dynamics, model=_network(arm), **arguments)
    else:
        runs = resolve(protocol.runner)(dynamics, model=arm.model, threads=threads, **arguments)
    return _columns(batch, runs)


def execute_together(
    batches: Sequence[Batch], report: Callable[[int], None] | None = None, **settings: Any
) -> list[dict[str, np.ndarray]]:
    """Run network batches of several arms as one program: a GPU hardly takes longer for more networks.

    Args:
      batches: that agree in everything `together_key` names.
      report: called with the number of finished episodes at every checkpoint.
      settings: further arguments of `chunked_td.lab.neural.run_together`.
    Returns:
      what `execute` gives, for each batch. Rounding depends on the size of a program, so on some devices the numbers
      are close to those of batches run alone, not equal.
    """
    from chunked_td.lab.neural import Crew, run_together

    crews = [Crew(**_own_arguments(batch)) for batch in batches]
    first = batches[0]
    dynamics, model = first.protocol.environment.build(), _network(first.arm)
    found = run_together(dynamics, crews, model=model, report=report, **_shared_arguments(first), **settings)
    return [_columns(batch, runs) for batch, runs in zip(batches, found, strict=True)]


def together_key(batch: Batch) -> tuple[Any, ...]:
    """Batches with equal keys can run as one program. (Expected λ asks networks another question than the paper's.)"""
    source = lambda_source_of(batch.arm)
    asks = "ExpectedLambda" in identity(batch.arm.lambda_source), getattr(source, "components", None)
    return (batch.protocol.id, batch.arm.learner, batch.arm.model, *asks, batch.episodes, batch.record_at)


def _network(arm: Arm) -> str:
    return (arm.model or "").removeprefix("network:")


def _own_arguments(batch: Batch) -> dict[str, Any]:
    """Arguments of the simulation that differ between arms and runs."""
    exponents = np.array([exponent for _, exponent in batch.pairs], dtype=np.int64)
    return {
        "lambda_source": lambda_source_of(batch.arm),
        "seeds": np.array([seed for seed, _ in batch.pairs], dtype=np.int64),
        "step_sizes": batch.protocol.step_size_base * 2.0**exponents,
    }


def _shared_arguments(batch: Batch) -> dict[str, Any]:
    """Arguments of the simulation that arms of a protocol share."""
    return {
        "learner": batch.arm.learner,
        "epsilon": batch.protocol.exploration.epsilons(batch.episodes),
        "discount": batch.protocol.discount,
        "episodes": batch.episodes,
        "record_at": batch.record_at,
        "probes": list(batch.protocol.probes),
    }


def _columns(batch: Batch, runs: Any) -> dict[str, np.ndarray]:
    """Columns from what a simulation gave: one row per run and checkpoint."""
    seeds, exponents = np.array(batch.pairs, dtype=np.int64).T
    record_at = np.asarray(batch.record_at, dtype=np.int64)
    scores, diagnostics = resolve(batch.protocol.scoring)(runs, record_at), getattr(runs, "diagnostics", {})
    if np.any(diagnostics.get("broken", 0)):  # stopped: what its learner does without a network is no score
        scores = {name: np.where(diagnostics["broken"] > 0, np.nan, values) for name, values in scores.items()}
    scores = {**scores, **diagnostics}
    shape = (len(seeds), len(record_at))
    if "score" not in scores:
        raise LabError(f"scoring of {batch.protocol.id!r} must give a column 'score', it gave {sorted(scores)}")
    columns = {
        "seed": np.repeat(seeds, shape[1]),
        "exponent": np.repeat(exponents, shape[1]),
        "step_size": np.repeat(batch.protocol.step_size_base * 2.0**exponents, shape[1]),
        "episode": np.tile(record_at, shape[0]),
    }
    for name, values in scores.items():
        values = np.asarray(values, dtype=np.float64)
        if values.shape != shape:
            raise LabError(
                f"scoring of {batch.protocol.id!r}: column {name!r} has shape {values.shape}, expected {shape} "
                "(runs, checkpoints)"
            )
        columns[name] = np.ascontiguousarray(values).reshape(-1)
    return columns


def digest_columns(columns: dict[str, np.ndarray]) -> str:
    """SHA-256 of names, types and values of a result."""
    digest = hashlib.sha256()
    for name in columns:
        values = np.ascontiguousarray(columns[name])
        digest.update(f"{name}:{values.dtype.str}:{values.size};".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def save_npz(columns: dict[str, np.ndarray], settings: dict[str, Any]) -> bytes:
    """A result and its settings as the bytes of an .npz file."""
    header = json.dumps({"settings": settings, "digest": digest_columns(columns), "columns": list(columns)})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{"__header__": np.array(header)}, **columns)  # type: ignore[arg-type]
    return buffer.getvalue()


def load_npz(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Columns and settings of a file written by `save_npz`; raises LabError if it is torn or foreign."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            header = json.loads(str(archive["__header__"]))
            columns = {name: archive[name] for name in header["columns"]}
    except Exception as error:  # zip, key, value and JSON errors all mean the same here
        raise LabError(f"{path}: not a batch result, or cut short ({error})") from error
    if digest_columns(columns) != header["digest"]:
        raise LabError(f"{path}: its numbers do not match its checksum; run that batch again")
    return columns, header["settings"]
