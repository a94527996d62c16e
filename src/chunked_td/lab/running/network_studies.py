"""The studies of networks by name, `chunked-td reproduce deep` and `hidden`: cell by cell, each kept once it is done.

They are no protocols of `chunked_td.lab.studies`, because those run tabular learners, and these whole fleets in
JAX, made for a GPU: so they run only where they are named. Their claims are in `chunked_td.lab.results.further`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._durations import duration_text
from chunked_td._files import write_atomically
from chunked_td.lab import errors
from chunked_td.lab.errors import UsageError, guarded
from chunked_td.lab.results.further import TITLES, further_claims

SIZES = {"smoke": "quick", "quick": "quick", "paper": "full"}
"""Which size of a study belongs to which profile of `reproduce`."""
STUDIES = ("deep", "hidden")
"""Their names, and those of their folders."""

Cell = tuple[str, ...]
"""What is run at a time: agent and task, for hidden state also memory and length."""


@dataclass(frozen=True)
class NetworkStudy:
    """A study at one size.

    Attributes:
      settings: of the size, for study.json.
      columns: of runs.parquet that name a cell. cells: all of them.
      run: the runs of a cell, so far, after each program.
      keep: takes files of runs into the folder. write: tables and verdicts from what is in it.
      needs: the package without which a cell cannot run, "" if there is none.
    """

    settings: dict[str, Any]
    columns: tuple[str, ...]
    cells: list[Cell]
    run: Callable[[Cell], Iterator[dict[str, np.ndarray]]]
    keep: Callable[[list[Path], Path], None]
    write: Callable[[list[str]], None]
    needs: Callable[[Cell], str]


def make_study(name: str, size: str) -> NetworkStudy:
    """A study by its name. Args: size: "quick" or "full"."""
    return _deep(size) if name == "deep" else _hidden(size)


def _deep(size: str) -> NetworkStudy:
    from chunked_td.deep import study, tables
    from chunked_td.envs.tasks import OTHERS

    chosen = study.SIZES[size]
    tasks = (*chosen.tasks, *(OTHERS if size == "full" else ()))
    return NetworkStudy(
        {**dataclasses.asdict(chosen), "tasks": tasks},
        ("agent", "task"),
        list(itertools.product(study.GRIDS, tasks)),
        lambda cell: study.study(chosen, cell[:1], cell[1:]),
        tables.import_runs,
        tables.main,
        lambda cell: {"gymnax": "gymnax", "xland": "xminigrid"}.get(cell[1].split("-")[0], ""),
    )


def _hidden(size: str) -> NetworkStudy:
    from chunked_td.deep import hidden_study, hidden_tables
    from chunked_td.deep.memory import READS

    chosen = hidden_study.SIZES[size]
    lengths = tuple(str(n) for n in chosen.lengths)

    def run(cell: Cell) -> Iterator[dict[str, np.ndarray]]:
        agent, memory, task, length = cell
        one = dataclasses.replace(chosen, tasks=(task,), lengths=(int(length),))
        return hidden_study.hidden_study(one, (agent,), (memory,))

    return NetworkStudy(
        dataclasses.asdict(chosen),
        ("agent", "memory", "task", "length"),
        list(itertools.product(("sarsa", "actor-critic", "ppo"), READS, chosen.tasks, lengths)),
        run,
        hidden_tables.import_runs,
        hidden_tables.main,
        lambda cell: "gymnax" if cell[2] == "memory-chain" else "",
    )


def reproduce_study(name: str, *, out: str | Path, profile: str = "quick", dry_run: bool = False) -> int:
    """Run what is missing of a study in the folder `out`/`name`, write its tables there and print its claims.

    Args:
      name: "deep" or "hidden". profile: "paper" is the whole study, the others a tiny one.
      dry_run: print what would run.
    Returns:
      exit code, as `chunked_td.lab.running.reproduce.reproduce`.
    """

    def work() -> int:
        folder, size = Path(out) / name, SIZES[profile]
        study = make_study(name, size)
        stored = _stored(folder, study, size)
        missing = [cell for cell in study.cells if cell not in stored]
        absent = {study.needs(cell) for cell in missing if study.needs(cell)}
        absent = {package for package in absent if importlib.util.find_spec(package) is None}
        todo = [cell for cell in missing if study.needs(cell) not in absent]
        print(f"{TITLES[name]}, size {size}: {len(stored)} of {len(study.cells)} cells are in {folder}", flush=True)
        if absent:
            left = len(missing) - len(todo)
            print(f"note: {left} cells need {' and '.join(sorted(absent))} (pip install 'chunked-td[jax-tasks]')")
        if dry_run:
            print("\n".join(", ".join(cell) for cell in todo))
            return errors.DONE
        _run(study, todo, folder, size)
        if (folder / "runs.parquet").is_file():
            study.write(["--out", str(folder)])
        for claim in further_claims(Path(out)):
            if claim.study == name:
                print(f"{claim.status.upper():14}{claim.text} ({claim.evidence})")
        return errors.DONE

    return guarded(work)


def _stored(folder: Path, study: NetworkStudy, size: str) -> set[Cell]:
    """The cells in the folder; an error if they are of another size."""
    import polars as pl

    if not (folder / "runs.parquet").is_file():
        return set()
    about = folder / "study.json"
    there = json.loads(about.read_text(encoding="utf-8")).get("size", "full") if about.is_file() else "full"
    if there != size:
        raise UsageError(f"{folder} holds the study at size {there!r}, asked for is {size!r}: choose another --out")
    cells = pl.read_parquet(folder / "runs.parquet", columns=list(study.columns)).unique()
    return {tuple(str(value) for value in row) for row in cells.rows()}


def _run(study: NetworkStudy, cells: list[Cell], folder: Path, size: str) -> None:
    """Run cells one after the other; each is kept before the next begins."""
    import jax

    folder.mkdir(parents=True, exist_ok=True)
    about = folder / "study.json"
    if not about.is_file():
        known = {"device": str(jax.devices()[0].device_kind), "jax": jax.__version__, "size": size}
        text = json.dumps({**known, "settings": study.settings}, indent=1)
        write_atomically(about, f"{text}\n".encode())
    for k, cell in enumerate(cells, 1):
        began, part = time.perf_counter(), folder / "part.npz"
        *_, table = study.run(cell)
        np.savez(part, **table)  # type: ignore[arg-type]
        study.keep([part], folder)
        part.unlink()
        took = duration_text(time.perf_counter() - began)
        print(f"{k} of {len(cells)}: {', '.join(cell)}, {took}", flush=True)
