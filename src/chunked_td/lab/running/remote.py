"""Run batches on a host with few packages (NumPy and Numba, JAX for network arms) and save them as .npz files.

    python -m chunked_td.lab.running.remote --protocol STUDY --arms network --out from-the-gpu
    chunked-td reproduce --import from-the-gpu --out runs/mine          # on the host with the run directory

Finished batches are not repeated; each file is written whole or not at all. Network arms that share
environment, learner and network run as one program.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from chunked_td.lab.catalogue import load_protocols
from chunked_td.lab.errors import DONE, FAILED, LabError, UsageError
from chunked_td.lab.running.batches import Batch, NetworkRunner
from chunked_td.lab.running.engines import BatchResult, LocalEngine
from chunked_td.lab.running.plan import SweepOptions, make_plan
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.importing import load_npz, save_npz
from chunked_td.lab.store.log import provenance


def run_here(
    protocols: Sequence[str], options: SweepOptions, out: Path, threads: int | None = None, precision: str | None = None
) -> int:
    """Run what `options` choose of `protocols`; results go to `out` as .npz files. Returns an exit code.

    Args:
      precision: of networks' matrix products on a GPU, if not the default.
    """
    plan = make_plan(load_protocols(protocols, options.profile), options)
    for note in plan.notes:
        print(f"note: {note}", file=sys.stderr)
    with RunDirectory.for_writing(out) as directory:
        todo = [batch for batch in plan.batches if not _is_done(out / f"{batch.name}.npz")]
        _check_precision(directory, precision, {batch.name for batch in plan.batches})
        print(f"{len(todo)} of {len(plan.batches)} batches to do", flush=True)
        directory.log.write("session", **provenance(), engine="remote", threads=threads)
        engine = LocalEngine(
            threads, NetworkRunner(together=True, precision=precision), partial(_report, time.perf_counter())
        )
        failures = sum(not _keep(result, directory, engine, precision) for result in engine.run(todo))
    return FAILED if failures else DONE


def _keep(result: BatchResult, directory: RunDirectory, engine: LocalEngine, precision: str | None) -> bool:
    """Save a result; False if the batch failed."""
    batch = result.batch
    if result.columns is None:
        print(f"FAILED {batch.name}: {result.error}", file=sys.stderr, flush=True)
        return False
    name = f"{batch.name}.npz"
    directory.write(directory.path / name, save_npz(result.columns, batch.settings))
    how = _device(precision) if batch.kind == "network" else {}
    directory.log.write("batch", file=name, **result.log_line(engine.name), **how)
    print(f"{name}: {len(batch.pairs)} runs in {result.seconds:.1f} s", flush=True)
    return True


def _device(precision: str | None) -> dict[str, str]:
    """What the networks ran on, and in which precision."""
    import jax

    from chunked_td.simulation.networks import PRECISION

    device = jax.devices()[0]
    used = "float32" if device.platform == "cpu" else precision or PRECISION
    return {"device": device.device_kind, "precision": used}


def _check_precision(directory: RunDirectory, precision: str | None, names: set[str]) -> None:
    """Refuse a folder with results of another precision; the precision is recorded in the log only."""
    for record in directory.log.batches():
        used = record.precision
        if precision and used and used != precision and record.file.removesuffix(".npz") in names:
            raise UsageError(f"{directory.path} holds {record.file} in {used}: name another folder for {precision}")


def _report(begun: float, program: Sequence[Batch], text: str) -> None:
    """Print how far a program has come."""
    names = "+".join(batch.arm.id for batch in program)
    print(f"{program[0].protocol.id} {names}: {text}, {time.perf_counter() - begun:.0f} s", flush=True)


def _is_done(path: Path) -> bool:
    try:
        return path.exists() and bool(load_npz(path))
    except LabError as error:
        print(f"damaged: {error}; doing it again", file=sys.stderr)
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `python -m chunked_td.lab.running.remote`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", action="append", default=[], help="study id, .py file or folder; may be repeated")
    parser.add_argument("--arms", nargs="*", default=[], help="ids, patterns or groups (fixed, counts, network, …)")
    parser.add_argument("--cells", nargs="*", default=[], help="patterns of protocol ids, such as 'deep-ppo-*'")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--profile", default="paper")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision", help="of networks' matrix products on a GPU: tf32 (default), tf32x3, float32")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        options = SweepOptions(given.profile, tuple(given.arms), given.seeds, given.episodes, cells=tuple(given.cells))
        return run_here(given.protocol, options, given.out, given.threads, given.precision)
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
