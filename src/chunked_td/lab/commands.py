"""What the command line calls: plain functions that print, and return an exit code (see `errors`).

reproduce(["key-to-door"], out="runs/kd", profile="paper", seeds=100)
import_batches("results-from-the-gpu", out="runs/kd")
summarise("runs/kd")
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from chunked_td.lab import errors
from chunked_td.lab.directory import Directory
from chunked_td.lab.errors import LabError
from chunked_td.lab.experiments import CATALOGUE, load, load_all
from chunked_td.lab.progress import Progress, in_words
from chunked_td.lab.provenance import provenance
from chunked_td.lab.store import Store
from chunked_td.lab.sweep import Options, Plan, expected_seconds, make_plan, record_request, run_plan


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
    threads: int | None = None,
    log: Sequence[str] = (),
    dry_run: bool = False,
    quiet: bool = False,
) -> int:
    """Run experiments, keeping every finished batch in `out`; what is there already is not repeated.

    Args:
      experiments: ids ("key-to-door") or paths of protocol files (ending in .py); empty is all of the catalogue.
      out: run directory.
      profile: "quick" (network arms reduced), "paper" (full) or "smoke" (tiny).
      engine: "local" or "ray".
      address: of a Ray cluster.
      arms: ids, patterns or groups (see `Options`).
      seeds: how many, instead of the protocol's.
      episodes: how many, instead of the protocol's.
      networks: False leaves network arms out.
      threads: of the local engine, or cores per batch on Ray.
      log: "wandb" and/or "tensorboard".
      dry_run: print the plan and its estimated time, change nothing.
      quiet: print failures only.
    Returns:
      exit code: 0 done, 1 some batches failed, 2 usage, 3 directory, 4 writing, 130 interrupted.
    """
    options = partial(Options, profile, tuple(arms), seeds, episodes, networks)
    work = partial(_reproduce, list(experiments), options, Path(out), engine, address, threads, tuple(log))
    return guarded(partial(work, dry_run=dry_run, quiet=quiet))


def guarded(work: Any) -> int:
    """Call `work()`; turn errors that a user can act on into a message and an exit code."""
    try:
        return work()
    except LabError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.code
    except KeyboardInterrupt:
        text = "interrupted; every finished batch is kept, the same command goes on from there"
        print(text, file=sys.stderr, flush=True)
        return errors.INTERRUPTED


def leave(code: int) -> NoReturn:
    """End the process now with this exit code, also while compiled code is busy in other threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code == errors.INTERRUPTED:
        os._exit(code)
    sys.exit(code)


def _reproduce(names, options, out, engine_name, address, threads, log, *, dry_run, quiet) -> int:
    protocols = load_all(names)
    options = options()
    if threads is not None and threads < 1:
        raise errors.UsageError(f"--threads {threads}: a whole number from 1")
    say = partial(_say, quiet)
    if dry_run:
        store = Store.read(out) if (out / "manifest.json").exists() else None
        show_plan(make_plan(protocols, options, store), store.directory.diary() if store else [], threads)
        return errors.DONE
    with Directory.for_writing(out) as directory:
        store = Store(directory)
        _report_findings(directory, store)
        plan = make_plan(protocols, options, store)
        for note in plan.notes:
            say(f"note: {note}")
        record_request(directory, plan)
        if not plan.batches:
            say(f"nothing to do: all {plan.runs_wanted:,} runs are in {out}")
            return errors.DONE
        return _run(plan, store, engine_name, address, threads, log, quiet)


def _run(plan: Plan, store: Store, engine_name, address, threads, log, quiet) -> int:
    from chunked_td.lab.engines import make_engine
    from chunked_td.lab.live import listeners

    directory = store.directory
    engine = make_engine(engine_name, address=address, threads=threads)
    watching = listeners(log, directory.path)
    estimate = partial(expected_seconds, diary=directory.diary(), threads=threads)
    known = plan.runs_wanted - plan.runs_left
    _say(quiet, f"{plan.runs_left:,} runs in {len(plan.batches)} batches, {known:,} runs are there already")
    directory.log("session", **provenance(), engine=engine.name, threads=threads, runs=plan.runs_left)
    start = time.perf_counter()
    progress = Progress(plan.batches, estimate, quiet=quiet)
    try:
        outcome = run_plan(plan, store, engine, progress, watching)
    finally:
        progress.close()
        for listener in watching:
            listener.close()
        engine.close()
    seconds = time.perf_counter() - start
    directory.log("end", seconds=round(seconds, 3), finished=outcome.finished, failed=len(outcome.failures))
    if outcome.failures:
        print(f"{len(outcome.failures)} of {len(plan.batches)} batches failed:", file=sys.stderr)
        for result in outcome.failures:
            print(f"  {result.batch.name}: {result.error}", file=sys.stderr)
        return errors.FAILED
    _say(quiet, f"done: {plan.runs_left:,} runs in {in_words(seconds)}; stored in {directory.path}")
    return errors.DONE


def show_plan(plan: Plan, diary: Sequence[dict[str, Any]], threads: int | None) -> None:
    """Print what would run, arm by arm, and about how long it would take."""
    width = max((len(f"{batch.protocol.id} {batch.arm.id}") for batch in plan.wanted), default=0)
    arms: dict[str, list[Any]] = {}
    for batch in plan.wanted:
        arms.setdefault(f"{batch.protocol.id} {batch.arm.id}", []).append(batch)
    for name, wanted in arms.items():
        todo = [batch for batch in plan.batches if f"{batch.protocol.id} {batch.arm.id}" == name]
        runs, left = (sum(len(batch.pairs) for batch in part) for part in (wanted, todo))
        cost = in_words(expected_seconds(todo, diary, threads)) if todo else "all stored"
        print(f"{name:{width}}  {runs:6,} runs × {wanted[0].episodes:,} episodes, {left:,} to do, {cost}")
    for note in plan.notes:
        print(f"note: {note}")
    total = expected_seconds(plan.batches, diary, threads)
    work = f"{plan.runs_left:,} of {plan.runs_wanted:,} runs to do in {len(plan.batches)} batches"
    print(f"{work}; estimate: {in_words(total)}")


def import_batches(source: str | Path, *, out: str | Path, experiments: Sequence[str] = (), quiet: bool = False) -> int:
    """Take batches that another host ran (`python -m chunked_td.lab.remote`) into a run directory.

    Args:
      source: folder with .npz files.
      out: run directory.
      experiments: protocol files the batches belong to, if not in the catalogue.
    """
    return guarded(partial(_import, Path(source), Path(out), list(experiments), quiet))


def _import(source: Path, out: Path, names: list[str], quiet: bool) -> int:
    from chunked_td.lab.importing import request_of_settings
    from chunked_td.lab.remote import read_log

    files = sorted(source.rglob("*.npz"))
    if not files:
        raise errors.UsageError(f"{source} holds no .npz files")
    protocols = {protocol.id: protocol for name in [*CATALOGUE, *names] for protocol in load(name)}
    failed = taken = 0
    with Directory.for_writing(out) as directory:
        store = Store(directory)
        _report_findings(directory, store)
        settings = []
        for file in files:
            try:
                path, found = store.import_npz(file)
            except LabError as error:
                print(f"error: {error}", file=sys.stderr)
                failed += 1
                continue
            settings.append(found)
            taken += path is not None
        directory.notes.clear()
        request_of_settings(directory, protocols, settings)
        for note in dict.fromkeys(directory.notes):
            print(f"note: {note}", file=sys.stderr)
        for line in read_log(source) if taken else ():
            directory.log(line.pop("event", "batch"), **{**line, "imported": True})
    _say(quiet, f"{taken} batches imported into {out}, {len(files) - taken - failed} were there, {failed} unusable")
    return errors.FAILED if failed else errors.DONE


def _report_findings(directory: Directory, store: Store) -> None:
    for note in directory.notes:
        print(f"note: {note}", file=sys.stderr)
    for damage in store.damaged:
        print(f"damaged: {damage.path}: {damage.reason}; set aside, its runs will be done again", file=sys.stderr)


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        print(text, flush=True)
