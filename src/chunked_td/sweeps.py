"""Sweeps: arms × step sizes × seeds, in parallel and resumable.

    def run(step_size, seed, *, lambda_, episodes):          # any plain function
        ...
        return {"episode": checkpoints, "score": scores}     # columns of one length

    arms = {"TD(0)": {"lambda_": 0.0}, "Monte Carlo": {"lambda_": 1.0}}
    table = sweep(run, arms, step_sizes=[0.1, 0.2], seeds=range(10), out="runs", episodes=1_000)

The table has the columns arm, step_size and seed, and those of `run`. The folder `out` has settings.json and parts:
Parquet files of finished runs, each written whole or not at all. The rows identify the runs; file names have no
meaning. The same call resumes a sweep, and a folder may be extended by arms, step sizes and seeds. If its runs were
made with other settings or other code, the call raises an error that names the difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import polars as pl

from chunked_td._checks import check_choice, check_whole
from chunked_td._durations import duration_text
from chunked_td._files import write_atomically, write_table
from chunked_td._sources import CodeDigests

Settings = Mapping[str, Any]
Run = Callable[..., Any]
Key = tuple[str, float, int]

KEYS = {"arm": pl.String, "step_size": pl.Float64, "seed": pl.Int64}
ENGINES = ("threads", "processes", "ray")
LINE_EVERY = 10.0
"""Seconds between two lines of progress if the output is not a terminal."""


class Call(NamedTuple):
    """One call of `run`: one run, or several of one arm together."""

    run: Run
    settings: Settings
    keys: tuple[Key, ...]
    together: bool


def sweep(
    run: Run,
    arms: Mapping[str, Settings],
    step_sizes: Iterable[float] | Mapping[str, Iterable[float]],
    seeds: Iterable[int],
    *,
    out: str | os.PathLike[str] | None = None,
    engine: str = "threads",
    jobs: int = -1,
    together: int = 1,
    save_every: float = 10.0,
    gpus: float = 0.0,
    retries: int = 5,
    quiet: bool = False,
    **settings: Any,
) -> pl.DataFrame:
    """Call `run(step_size=…, seed=…, **settings)` once per arm, step size and seed, and return one table.

    Args:
      run: returns columns of one length, equal for equal arguments. A single number or text is repeated.
      arms: {name: settings}.
      step_sizes, seeds: every arm runs with every pair of them. Step sizes may be a mapping, {arm: step sizes}.
      out: folder for finished runs; None stores nothing.
      engine: "threads" for compiled runs, "processes" for Python loops, "ray" for a cluster: that of RAY_ADDRESS, or
        one started on this machine.
      jobs: concurrent runs; −1 is one per core. Ray schedules by its own resources.
      together: runs per call. From 2, `run` takes arrays step_size and seed of up to `together` runs of one arm and
        returns a list of their columns: for networks in lockstep.
      save_every: seconds of work in a part. A killed process loses at most that much finished work and the runs in
        progress.
      gpus: GPUs of each Ray task. retries: repetitions of a Ray task whose worker or node died.
      quiet: show no progress.
      settings: shared by all arms.
    Returns:
      arm, step_size, seed and the columns of `run`, in the order of arms, step sizes and seeds. A column that an arm
      does not report is null.
    """
    check_choice("engine", engine, ENGINES)
    by_arm = check_arms(arms, settings)
    keys = keys_of(by_arm, step_sizes, seeds)
    digests = CodeDigests(run)
    folder = Parts(keys, None if out is None else open_folder(Path(out), digests, by_arm), save_every)
    left = [key for key in keys if key not in folder.done]
    calls = bunched(run, by_arm, left, check_whole("together", together, 1))
    made = contextlib.closing(results(calls, engine, jobs, gpus, retries, digests.modules))
    with folder, progress(len(keys), len(left), quiet) as advance, made as found:
        for tables, seconds in found:
            folder.add(tables, seconds)
            advance(len(tables))
    return folder.table()


def check_arms(arms: Mapping[str, Settings], settings: Settings) -> dict[str, dict[str, Any]]:
    """Settings of every arm, including the shared ones."""
    if not isinstance(arms, Mapping) or not all(isinstance(own, Mapping) for own in arms.values()):
        raise ValueError(f"arms must be {{name: settings}} with a mapping of settings for each, got {arms!r}")
    if not arms or not all(isinstance(arm, str) for arm in arms):
        raise ValueError(f"arms must have at least one entry, with strings as names, got {list(arms)!r}")
    by_arm = {arm: {**settings, **own} for arm, own in arms.items()}
    for arm, own in by_arm.items():
        if taken := sorted({"step_size", "seed"} & own.keys()):
            raise ValueError(f"settings of arm {arm!r} must not have {' or '.join(taken)}: the sweep passes them")
    return by_arm


def keys_of(
    arms: Mapping[str, Any], step_sizes: Iterable[float] | Mapping[str, Iterable[float]], seeds: Iterable[int]
) -> list[Key]:
    """(arm, step size, seed) of every run, in order, without repetitions."""
    seeds = [check_whole("seeds", seed, 0) for seed in seeds]
    shared = None if isinstance(step_sizes, Mapping) else list(step_sizes)
    by_arm: Any = step_sizes if shared is None else {arm: shared for arm in arms}
    keys: dict[Key, None] = {}
    for arm in arms:
        if arm not in by_arm:
            raise ValueError(f"step_sizes must be given for every arm, got none for {arm!r}")
        keys |= dict.fromkeys(product([arm], map(float, by_arm[arm]), seeds))
    if not keys:
        raise ValueError(f"step_sizes and seeds must have at least one entry each, got {step_sizes!r} and {seeds}")
    if strange := [key for key in keys if not np.isfinite(key[1])]:
        raise ValueError(f"step_sizes must be finite, got {strange[0][1]}")
    return list(keys)


def bunched(run: Run, by_arm: Mapping[str, Settings], keys: Sequence[Key], together: int) -> list[Call]:
    """Calls that make these runs: up to `together` runs of one arm each."""
    calls = []
    for arm, settings in by_arm.items():
        own = [key for key in keys if key[0] == arm]
        calls += [Call(run, settings, tuple(own[k : k + together]), together > 1) for k in range(0, len(own), together)]
    return calls


def results(
    calls: Sequence[Call], engine: str, jobs: int, gpus: float, retries: int, modules: Sequence[Any]
) -> Generator[tuple[list[pl.DataFrame], float]]:
    """Yield the result of `make` for each call, in the order in which they finish."""
    if not calls:
        return
    if engine == "ray":
        from chunked_td._ray import results_from_ray

        yield from results_from_ray(make, calls, gpus=gpus, retries=retries, modules=modules)
        return
    backend = {"threads": "threading", "processes": "loky"}[engine]
    parallel = joblib.Parallel(n_jobs=jobs, backend=backend, return_as="generator_unordered")
    work = make if engine == "threads" else make_with_parent
    yield from parallel(joblib.delayed(work)(call, os.getpid()) for call in calls)  # type: ignore[misc]


def make(call: Call, parent: int = 0) -> tuple[list[pl.DataFrame], float]:
    """Rows of each run of a call, and the seconds they took; `parent` is not used."""
    start = time.perf_counter()
    arms, step_sizes, seeds = zip(*call.keys, strict=True)
    try:
        if call.together:
            found = call.run(step_size=np.array(step_sizes), seed=np.array(seeds), **call.settings)
            if not isinstance(found, Sequence) or len(found) != len(seeds):
                what = f"{len(found)} of them" if isinstance(found, Sequence) else type(found).__name__
                raise ValueError(f"run must return a list of the columns of {len(seeds)} runs, got {what}")
        else:
            found = [call.run(step_size=step_sizes[0], seed=seeds[0], **call.settings)]
        tables = [as_table(key, columns) for key, columns in zip(call.keys, found, strict=True)]
    except Exception as error:
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        error.add_note(f"in the run with arm {arms[0]!r}, step_size {step_sizes[0]} and {which}")
        raise
    return tables, time.perf_counter() - start


def as_table(key: Key, columns: Any) -> pl.DataFrame:
    """Rows of one run."""
    if not isinstance(columns, Mapping) or not columns:
        raise ValueError(f"run must return {{column: values}}, got {columns!r}")
    if taken := sorted(KEYS.keys() & columns.keys()):
        raise ValueError(f"run must not return {' or '.join(taken)}: the sweep adds these columns")
    lengths = {name: len(each) for name, each in columns.items() if np.ndim(each)}
    rows = next(iter(lengths.values()), 1)
    if rows < 1 or any(length != rows for length in lengths.values()):
        raise ValueError(f"run must return columns of one length, at least 1, got {lengths}")
    named = [pl.Series(name, [value] * rows, dtype) for value, (name, dtype) in zip(key, KEYS.items(), strict=True)]
    for name, each in columns.items():
        values = each if isinstance(each, pl.Series) or np.ndim(each) else np.repeat(each, rows)
        named.append(pl.Series(name, values if isinstance(values, pl.Series) else np.array(values)))
    return pl.DataFrame(named)


def make_with_parent(call: Call, parent: int) -> tuple[list[pl.DataFrame], float]:
    """`make` in a worker process that ends with its parent."""
    watch(parent)
    return make(call)


def watch(parent: int) -> None:
    """Start one thread that ends this process when `parent` has ended: a killed sweep leaves no workers behind."""
    name = "ends with its parent"
    in_worker = hasattr(os, "getppid") and os.getpid() != parent  # one job runs in the caller's own process
    if in_worker and all(each.name != name for each in threading.enumerate()):

        def wait() -> None:
            while os.getppid() == parent:
                time.sleep(0.5)
            os._exit(1)

        threading.Thread(target=wait, name=name, daemon=True).start()


@dataclass
class Parts:
    """Finished runs of a folder and of this call. Runs of one part have the same columns.

    On exit, the context manager writes the remaining runs, including after an error or Ctrl-C.

    Args:
      keys: the requested runs. folder: None stores nothing. save_every: seconds of work in a part.
    """

    keys: Sequence[Key]
    folder: Path | None
    save_every: float
    parts: list[pl.DataFrame] = field(default_factory=list)
    fresh: list[pl.DataFrame] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        paths = [] if self.folder is None else sorted(self.folder.glob("part-*.parquet"))
        self.parts = [read_part(path) for path in paths]
        self.done = {key for part in self.parts for key in part.select(*KEYS).unique().rows()}

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()

    def add(self, tables: Sequence[pl.DataFrame], seconds: float) -> None:
        """Add finished runs; write a part after `save_every` seconds of work."""
        self.fresh += tables
        self.seconds += seconds
        if self.seconds >= self.save_every:
            self.save()

    def save(self) -> None:
        """Write the new runs, one part for each set of columns."""
        kinds: dict[Any, list[pl.DataFrame]] = {}
        for table in self.fresh:
            kinds.setdefault(tuple(table.schema.items()), []).append(table)
        for tables in kinds.values():
            part = pl.concat(tables)
            if self.folder is not None:
                try:
                    write_table(self.folder / f"part-{uuid.uuid4().hex}.parquet", part)
                except OSError as error:
                    error.add_note(f"{len(tables):,} finished runs are not in {self.folder}; the parts before them are")
                    self.fresh = []
                    raise
            self.parts.append(part)
        self.fresh, self.seconds = [], 0.0

    def table(self) -> pl.DataFrame:
        """The requested runs, in order. Runs made by two sweeps count once."""
        place = {key: k for k, key in enumerate(self.keys)}
        first = [min(place.get(key, len(place)) for key in part.select(*KEYS).unique().rows()) for part in self.parts]
        order = sorted(range(len(first)), key=lambda k: (first[k], self.parts[k].columns))
        numbered = [self.parts[k].with_columns(_part=pl.lit(k)) for k in order if first[k] < len(place)]
        once = pl.col("_part") == pl.col("_part").first().over(*KEYS)
        table = pl.concat(numbered, how="diagonal_relaxed").filter(once).drop("_part")
        requested = pl.DataFrame(self.keys, KEYS, orient="row")
        return requested.join(table, on=list(KEYS), how="inner", maintain_order="left_right")


def read_part(path: Path) -> pl.DataFrame:
    """Read a part of a folder."""
    try:
        part = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); delete it to repeat its runs") from error
    if lacking := KEYS.keys() - part.schema.keys():
        raise ValueError(f"{path} is not part of a sweep: it lacks the columns {', '.join(sorted(lacking))}")
    return part


def open_folder(folder: Path, digests: CodeDigests, by_arm: Mapping[str, Settings]) -> Path:
    """Record the settings of new arms in a folder; raise ValueError if its runs have other settings or code."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    now = {"code": digests.code, "arms": {arm: texts_of(arm, own, digests) for arm, own in by_arm.items()}}
    with locked(folder):
        stored = json.loads(path.read_text("utf-8")) if path.exists() else {"code": now["code"], "arms": {}}
        if found := differences(stored, now):
            more = f" and {len(found) - 4} more" if len(found) > 4 else ""
            raise ValueError(
                f"out must be a folder whose runs have these settings, got {folder}: {'; '.join(found[:4])}{more}. "
                f"Name another folder, or delete this one."
            )
        merged = {"code": now["code"], "arms": stored["arms"] | now["arms"]}
        if merged != stored or not path.exists():
            write_atomically(path, json.dumps(merged, indent=1, ensure_ascii=False).encode())
    return folder


def texts_of(arm: str, settings: Settings, digests: CodeDigests) -> dict[str, Any]:
    """Settings of an arm in the form of settings.json."""
    try:
        return {name: digests.text(value) for name, value in settings.items()}
    except TypeError as error:
        raise ValueError(f"settings of arm {arm!r} must have values that can be compared: {error}") from error


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Descriptions of the differences from stored runs: code first, then the settings of common arms."""
    found = []
    for name in {**stored["code"], **now["code"]}:
        before, after = (each["code"].get(name) for each in (stored, now))
        if before is not None and after is not None and before != after:
            plain = "#" not in f"{before}{after}"
            found.append(f"{name} was {before}, is {after}" if plain else f"{name} has changed")
        elif before != after:
            found.append(f"{name} is {'new' if before is None else 'gone'}")
    for arm in stored["arms"].keys() & now["arms"].keys():
        old, own = stored["arms"][arm], now["arms"][arm]
        for name in {**old, **own}:
            before, after = old.get(name, "missing"), own.get(name, "missing")
            if before != after:
                found.append(f"{name} of {arm} was {before}, is {after}")
    return found


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock if the system supports it; any end of the process releases it."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def progress(total: int, left: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of new runs: a bar on a terminal, else a line every ten seconds."""
    if quiet or not left:
        yield lambda runs: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("runs", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=total, completed=total - left)
            yield lambda runs: bar.advance(task, runs)
    else:
        yield Lines(total, left)


class Lines:
    """Progress as at most one line every ten seconds. The pace excludes the first run, which may compile."""

    def __init__(self, total: int, left: int):
        self.total, self.left, self.done, self.at_first = total, left, 0, 0
        self.first = self.last = time.monotonic()

    def __call__(self, runs: int) -> None:
        """Count new runs."""
        now = time.monotonic()
        if not self.done:
            self.first, self.at_first = now, runs
        self.done += runs
        if now - self.last >= LINE_EVERY:
            self.last, since = now, self.done - self.at_first
            rest = (now - self.first) / since * (self.left - self.done) if since else None
            text = "" if rest is None else f", {duration_text(rest)} left"
            print(f"{self.total - self.left + self.done:,} of {self.total:,} runs{text}", file=sys.stderr, flush=True)
