"""Run studies and keep every finished batch: plain functions that print, and return an exit code (see `errors`).

reproduce(["my_study.py"], out="runs/mine", profile="paper", seeds=100)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chunked_td._durations import duration_text
from chunked_td.lab import errors
from chunked_td.lab.catalogue import load_all
from chunked_td.lab.errors import UsageError, guarded
from chunked_td.lab.running.batches import Batch
from chunked_td.lab.running.plan import SweepOptions, SweepPlan, expected_seconds, make_plan, record_request, size_of
from chunked_td.lab.running.progress import SweepProgress
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.log import BatchRecord, provenance
from chunked_td.lab.store.tables import save_table
from chunked_td.lab.study import Protocol, Study


@dataclass(frozen=True)
class RunOptions:
    """Where and how batches run. Results do not depend on it.

    Args:
      engine: "local" or "ray".
      address: of a Ray cluster.
      threads: of the local engine, or cores per batch on Ray.
      quiet: print failures only.
    """

    engine: str = "local"
    address: str | None = None
    threads: int | None = None
    quiet: bool = False

    def __post_init__(self):
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads must be a whole number from 1, got {self.threads}")

    def say(self, text: str) -> None:
        """Print, unless `quiet`."""
        if not self.quiet:
            print(text, flush=True)


@guarded
def reproduce(
    experiments: Sequence[str] = (),
    *,
    out: str | Path = "runs/reproduce",
    profile: str = "quick",
    engine: str = "local",
    address: str | None = None,
    arms: Sequence[str] = (),
    seeds: int | None = None,
    episodes: int | None = None,
    networks: bool = True,
    cells: Sequence[str] = (),
    threads: int | None = None,
    dry_run: bool = False,
    quiet: bool = False,
) -> int:
    """Run studies, keeping every finished batch in `out`; what is there already is not repeated.

    Args:
      experiments: ids, .py files or folders (see `chunked_td.lab.catalogue`); empty is all that run by default.
      out: run directory; a study with a table of its own has a folder in it, named by its id.
      profile, arms, seeds, episodes, networks, cells: what of them, see `SweepOptions`.
      engine, address, threads, quiet: where and how, see `RunOptions`.
      dry_run: print the plan and its estimated time, change nothing.
    Returns:
      exit code: 0 done, 1 some batches failed, 2 usage, 3 directory, 4 writing, 130 interrupted.
    """
    studies = load_all(experiments)
    options = SweepOptions(profile, tuple(arms), seeds, episodes, networks, tuple(cells))
    how = RunOptions(engine, address, threads, quiet)
    whole = not (arms or cells or seeds or episodes) and profile != "smoke"  # all that there is
    tables = [study for study in studies if study.table and (experiments or whole)]
    plain = [protocol for study in studies if not study.table for protocol in study.protocols(profile)]
    codes = [_run_or_show(plain, options, Path(out), how, dry_run)] if plain else []
    for study in tables:
        how.say(f"{study.title}:")
        codes.append(run_study(study, options, Path(out) / study.id, how, dry_run))
        if codes[-1] not in (errors.DONE, errors.FAILED):
            break
    return max(codes, default=errors.DONE)


def run_study(study: Study, options: SweepOptions, folder: Path, how: RunOptions, dry_run: bool) -> int:
    """Run a study with a table of its own, and make the table."""
    if (folder / study.table).is_file() and not (folder / "manifest.json").is_file():
        raise UsageError(
            f"{folder / study.table} was collected from runs that are not in {folder}; choose another --out"
        )
    protocols = study.protocols(options.profile)
    _check_lengths(protocols, options, folder)
    code = _run_or_show(protocols, options, folder, how, dry_run)
    if code in (errors.DONE, errors.FAILED) and not dry_run:
        with RunDirectory.for_writing(folder) as directory:
            how.say(f"saved: {save_table(directory, study.table, study.collect(Store(directory)))}")
    return code


def _check_lengths(protocols: Sequence[Protocol], options: SweepOptions, folder: Path) -> None:
    """Refuse a folder with runs of another length: a table must not mix sizes of a study."""
    if not (folder / "manifest.json").is_file():
        return
    stored = RunDirectory.for_reading(folder)
    for protocol in (protocol for protocol in protocols if protocol.id in stored.protocol_ids):
        requests = stored.request(protocol.id).arms
        for arm in (arm for arm in protocol.arms if arm.id in requests):
            size, request = size_of(protocol, arm, options), requests[arm.id]
            if size is not None and size.episodes != request.episodes:
                raise UsageError(
                    f"{folder} holds runs of {request.episodes:,} {protocol.unit}, asked for are {size.episodes:,}: "
                    "choose another --out"
                )


def _run_or_show(
    protocols: Sequence[Protocol], options: SweepOptions, out: Path, how: RunOptions, dry_run: bool
) -> int:
    if not dry_run:
        return run_protocols(protocols, options, out, how)
    store = Store.read(out) if (out / "manifest.json").exists() else None
    show_plan(make_plan(protocols, options, store), store.directory.log.batches() if store else [], how.threads)
    return errors.DONE


def run_protocols(protocols: Sequence[Protocol], options: SweepOptions, out: Path, how: RunOptions) -> int:
    """Run what is missing of some protocols; returns an exit code as `reproduce` does."""
    with RunDirectory.for_writing(out) as directory:
        store = Store(directory)
        store.report_findings()
        plan = make_plan(protocols, options, store)
        for note in plan.notes:
            how.say(f"note: {note}")
        record_request(directory, plan)
        if not plan.batches:
            how.say(f"nothing to do: all {plan.runs_wanted:,} runs are in {out}")
            return errors.DONE
        return run_planned(plan, store, how)


def run_planned(plan: SweepPlan, store: Store, how: RunOptions) -> int:
    """Run the batches of a plan and store each as it comes; returns an exit code as `reproduce` does.

    A batch that fails does not stop the others.
    """
    from chunked_td.lab.running.engines import make_engine

    directory = store.directory
    engine = make_engine(how.engine, address=how.address, threads=how.threads)
    estimate = partial(expected_seconds, log=directory.log.batches(), threads=how.threads)
    known = plan.runs_wanted - plan.runs_left
    how.say(f"{plan.runs_left:,} runs in {len(plan.batches)} batches, {known:,} runs are there already")
    directory.log.write("session", **provenance(), engine=engine.name, threads=how.threads, runs=plan.runs_left)
    start = time.perf_counter()
    progress = SweepProgress(plan.batches, estimate, quiet=how.quiet)
    finished, failures = 0, []
    try:
        for result in engine.run(plan.batches):
            if result.columns is None:
                failures.append(result)
                directory.log.write("failure", batch=result.batch.name, error=result.error)
            else:
                path = store.write(result.batch.settings, result.columns)
                finished += 1
                file = str(path.relative_to(directory.path))
                directory.log.write("batch", file=file, **result.log_line(engine.name))
            progress.batch_done(result)
    finally:
        progress.close()
        engine.close()
    seconds = time.perf_counter() - start
    directory.log.write("end", seconds=round(seconds, 3), finished=finished, failed=len(failures))
    if failures:
        print(f"{len(failures)} of {len(plan.batches)} batches failed:", file=sys.stderr)
        for result in failures:
            print(f"  {result.batch.name}: {result.error}", file=sys.stderr)
        return errors.FAILED
    how.say(f"done: {plan.runs_left:,} runs in {duration_text(seconds)}; stored in {directory.path}")
    return errors.DONE


def show_plan(plan: SweepPlan, log: Sequence[BatchRecord], threads: int | None) -> None:
    """Print what would run, arm by arm, and about how long it would take."""
    width = max((len(batch.title) for batch in plan.wanted), default=0)
    arms: dict[str, list[Batch]] = {}
    for batch in plan.wanted:
        arms.setdefault(batch.title, []).append(batch)
    for name, wanted in arms.items():
        todo = [batch for batch in plan.batches if batch.title == name]
        runs, left = (sum(len(batch.pairs) for batch in part) for part in (wanted, todo))
        cost = duration_text(expected_seconds(todo, log, threads)) if todo else "all stored"
        print(f"{name:{width}}  {runs:6,} runs × {wanted[0].episodes:,} episodes, {left:,} to do, {cost}")
    for note in plan.notes:
        print(f"note: {note}")
    total = expected_seconds(plan.batches, log, threads)
    work = f"{plan.runs_left:,} of {plan.runs_wanted:,} runs to do in {len(plan.batches)} batches"
    print(f"{work}; estimate: {duration_text(total)}")
