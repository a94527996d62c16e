"""Studies and their stored runs.

A study is a folder here with study.py and README.md, its page. Its runs are `runs.parquet`, one row per run and
checkpoint, and `provenance.json`, a list of {arms, seeds, session}: where the rows come from.
"""

from __future__ import annotations

import functools
import importlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from chunked_td._files import write_atomically, write_table

HERE = Path(__file__).parents[1]
STORED = {"compression": "zstd", "compression_level": 19}


def known() -> list[str]:
    """Return the ids of all studies."""
    return sorted(path.parent.name for path in HERE.glob("*/study.py"))


def load_studies(ids: Sequence[str] = ()) -> dict[str, ModuleType]:
    """{id: module} of these studies, or of all."""
    if unknown := sorted(set(ids) - set(known())):
        sys.exit(f"ID must be one of {', '.join(known())}, got {', '.join(unknown)}")
    return {name: importlib.import_module(f"{HERE.name}.{name}.study") for name in ids or known()}


def folder(study: ModuleType) -> Path:
    """Return the folder of a study."""
    return Path(str(study.__file__)).parent


def title(study: ModuleType) -> str:
    """The first sentence of a study: its question."""
    return " ".join(str(study.__doc__).split("\n\n")[0].split())


def stored(study: ModuleType) -> pl.DataFrame:
    """The stored runs of a study. A study with more than one table defines `load(folder)`."""
    here = folder(study)
    if not (here / "runs.parquet").exists():
        sys.exit(f"{here.name} has no stored runs; make them with: python -m studies store {here.name}")
    return study.load(here) if hasattr(study, "load") else pl.read_parquet(here / "runs.parquet")


def of_latest(function: Callable[[pl.DataFrame], Any]) -> Callable[[pl.DataFrame], Any]:
    """Decorator: keep the result for the latest table, because claims, tables and figures of a study share it."""
    kept: list[Any] = []

    @functools.wraps(function)
    def cached(table: pl.DataFrame) -> Any:
        if not kept or kept[0] is not table:
            kept[:] = table, function(table)
        return kept[1]

    return cached


def provenance(study: ModuleType) -> list[dict[str, Any]]:
    """Sources of the stored rows: arms, seeds and session of each part."""
    return json.loads((folder(study) / "provenance.json").read_text("utf-8"))


def store(study: ModuleType, table: pl.DataFrame, command: str) -> int:
    """Add new rows to the stored ones; return their number. Stored rows are unchanged.

    Raises:
      ValueError: if a row is stored with other values. Nothing is written in that case.
    """
    path, keys = folder(study) / "runs.parquet", list(study.KEY)
    old = pl.read_parquet(path) if path.exists() else table.clear()
    table = table.cast({name: kind for name, kind in old.schema.items() if name in table.columns})
    both = old.join(table, on=keys, how="semi"), table.join(old, on=keys, how="semi")
    columns = [name for name in old.columns if name in table.columns]
    one, two = (part.select(columns).sort(keys) for part in both)
    if not one.equals(two):
        raise ValueError(f"runs of {folder(study).name} must equal the stored ones: {different(one, two)}")
    new = table.join(old, on=keys, how="anti")
    if new.height:
        write_table(path, pl.concat([old, new], how="diagonal_relaxed"), **STORED)
        entry = {"arms": sorted(set(new["arm"])), "seeds": sorted(set(new["seed"])), "session": session(command)}
        sources = [*(provenance(study) if old.height else []), entry]
        write_atomically(folder(study) / "provenance.json", json.dumps(sources, indent=1, ensure_ascii=False).encode())
    return new.height


def different(one: pl.DataFrame, two: pl.DataFrame) -> str:
    """Return the difference between two tables as text."""
    if one.height != two.height:
        return f"{one.height:,} rows and {two.height:,}"
    names = [name for name in one.columns if not one[name].equals(two[name], null_equal=True)]
    return f"{', '.join(names)} differ"


def session(command: str) -> dict[str, str]:
    """Session that made runs: command, commit, date, machine, precision."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return {
        "command": command,
        "commit": git.stdout.strip(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "precision": "float64",
    }
