"""Run batches on a bare host (NumPy and Numba, JAX for network arms) and save them as .npz files to carry home.

    python -m chunked_td.lab.remote --protocol key-to-door --arms network --out from-the-gpu
    chunked-td reproduce --import from-the-gpu --out runs/kd          # at home

Finished batches are not repeated; each file is written whole or not at all. Network arms that share
environment, learner and network run as one program.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chunked_td.lab.batches import Batch, execute_together, load_npz, save_npz, together_key
from chunked_td.lab.directory import Directory
from chunked_td.lab.engines import LocalEngine, Result
from chunked_td.lab.errors import DONE, FAILED, LabError, UsageError
from chunked_td.lab.experiments import load_all
from chunked_td.lab.provenance import provenance
from chunked_td.lab.sweep import Options, log_entry, make_plan


def run_here(protocols: Sequence[str], options: Options, out: Path, threads: int | None = None, **networks: Any) -> int:
    """Run what `options` ask of `protocols`; results go to `out` as .npz files. Returns an exit code.

    Args:
      networks: further arguments of `chunked_td.lab.neural.run_together`.
    """
    plan = make_plan(load_all(list(protocols)), options)
    for note in plan.notes:
        print(f"note: {note}", file=sys.stderr)
    failures = 0
    with Directory.for_writing(out) as directory:
        todo = [batch for batch in plan.batches if not _is_done(out / f"{batch.name}.npz")]
        _check_precision(directory, networks.get("precision"), {batch.name for batch in plan.batches})
        print(f"{len(todo)} of {len(plan.batches)} batches to do", flush=True)
        directory.log("session", **provenance(), engine="remote", threads=threads)
        engine = LocalEngine(threads)
        alone = [batch for batch in todo if batch.arm.kind != "network"]
        for result in itertools.chain(engine.run(alone), run_networks(todo, **networks)):
            if result.columns is None:
                failures += 1
                print(f"FAILED {result.batch.name}: {result.error}", file=sys.stderr, flush=True)
                continue
            name = f"{result.batch.name}.npz"
            directory.write_atomically(out / name, save_npz(result.columns, result.batch.settings()))
            how = _device(**networks) if result.batch.arm.kind == "network" else {}
            directory.log("batch", file=name, **log_entry(result, engine), **how)
            print(f"{name}: {len(result.batch.pairs)} runs in {result.seconds:.1f} s", flush=True)
    return FAILED if failures else DONE


def _device(precision: str | None = None) -> dict[str, str]:
    """What the networks ran on, and in which precision."""
    import jax

    from chunked_td.lab.neural import PRECISION

    device = jax.devices()[0]
    used = "float32" if device.platform == "cpu" else precision or PRECISION
    return {"device": device.device_kind, "precision": used}


def _check_precision(directory: Directory, precision: str | None, names: set[str]) -> None:
    """Keep apart what is asked for in different precisions: not the files say how they were rounded, the diary does."""
    for line in directory.diary():
        used = line.get("precision")
        if precision and used and used != precision and line.get("file", "").removesuffix(".npz") in names:
            raise UsageError(f"{directory.path} holds {line['file']} in {used}: name another folder for {precision}")


def run_networks(batches: Sequence[Batch], **networks: Any) -> Iterator[Result]:
    """Network batches, arms that can share a program together; the time of a program is shared out by runs."""
    groups: dict[Any, list[Batch]] = {}
    for batch in batches:
        if batch.arm.kind == "network":
            groups.setdefault((together_key(batch), batch.pairs[0][0]), []).append(batch)
    for group in groups.values():
        begun, total = time.perf_counter(), sum(len(batch.pairs) for batch in group)

        def report(episode: int, begun: float = begun, group: list[Batch] = group) -> None:
            names = "+".join(batch.arm.id for batch in group)
            spent = time.perf_counter() - begun
            print(
                f"{group[0].protocol.id} {names}: {episode:,}/{group[0].episodes:,} episodes, {spent:.0f} s", flush=True
            )

        try:
            found, error = execute_together(group, report, **networks), None
        except Exception as problem:
            found, error = [None] * len(group), f"{type(problem).__name__}: {problem}"
        seconds = time.perf_counter() - begun
        for batch, columns in zip(group, found, strict=True):
            yield Result(batch, columns, error, seconds * len(batch.pairs) / total, socket.gethostname())


def _is_done(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        load_npz(path)
    except LabError as error:
        print(f"damaged: {error}; doing it again", file=sys.stderr)
        return False
    return True


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The diary of a folder of results."""
    path = folder / "log.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `python -m chunked_td.lab.remote`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", action="append", default=[], help="experiment id or .py file; may be repeated")
    parser.add_argument("--arms", nargs="*", default=[], help="ids, patterns or groups (fixed, counts, network, …)")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--profile", default="paper")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision", help="of networks' matrix products on a GPU: tf32 (default), tf32x3, float32")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        options = Options(given.profile, tuple(given.arms), given.seeds, given.episodes)
        networks = {"precision": given.precision} if given.precision else {}
        return run_here(given.protocol, options, given.out, given.threads, **networks)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    code = 130
    try:
        code = main()
    except KeyboardInterrupt:
        print("interrupted; finished batches are kept", file=sys.stderr)
    sys.stdout.flush()
    os._exit(code)
