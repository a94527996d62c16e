"""`chunked-td reproduce`: run experiments and build the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chunked_td.cli._shared import command
from chunked_td.cli.problem import EngineOptions
from chunked_td.cli.report import build, say_if_stale
from chunked_td.lab.errors import guarded


@command
class Reproduce(EngineOptions):
    """Run the paper's experiments, and build the report. Finished work is never repeated.

    For example:
        chunked-td reproduce
        chunked-td reproduce key-to-door --seeds 5 --no-networks
    """

    experiments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Study ids, or files and folders of your own with a PROTOCOL; none means all of the paper's. compression, deep and
    hidden run only where they are named, into folders of these names in the run directory: with profile paper in full
    (made for a GPU), else tiny."""
    profile: Literal["quick", "paper", "smoke"] = "quick"
    """quick: network arms reduced, all else at the full protocol; paper: everything in full; smoke: tiny."""
    out: Path = Path("runs/quick")
    """Run directory: stored runs, figures and report.html."""
    arms: tuple[str, ...] = ()
    """Only these arms: ids, patterns such as 'sarsa-*', or groups (fixed, counts, oracle, network)."""
    seeds: int | None = None
    """Number of seeds instead of the protocol's; runs that are stored are reused."""
    episodes: int | None = None
    """Episodes per run instead of the protocol's."""
    cells: tuple[str, ...] = ()
    """Only these protocols of studies that have many: patterns of ids such as 'deep-ppo-*' or 'compression-known-*'."""
    networks: bool = True
    """Include arms whose λ comes from a network."""
    import_from: Annotated[Path | None, tyro.conf.arg(name="import")] = None
    """First take in batches that another host ran with python -m chunked_td.lab.running.remote."""
    dry_run: bool = False
    """Print the plan and its estimated time; change nothing."""
    report: bool = True
    """Build figures and report.html at the end."""
    open: bool = False
    """Open the report in a browser."""

    def run(self) -> int:
        """Run it."""
        from chunked_td.lab.running.reproduce import reproduce

        if self.import_from is not None and (code := self._import(self.import_from)):
            return code
        names = ("out", "profile", "engine", "address", "arms", "seeds", "episodes", "networks", "cells", "threads")
        options = {name: getattr(self, name) for name in (*names, "dry_run")}
        code = reproduce(self.experiments, **options)
        if code not in (0, 1) or self.dry_run or not self.report:
            if not self.dry_run:
                say_if_stale(self.out)
            return code
        return build(self.out, self.experiments, only_if_stale=True, open_it=self.open) or code

    @guarded
    def _import(self, source: Path) -> int:
        from chunked_td.lab.catalogue import known, load_all
        from chunked_td.lab.store.importing import import_batches

        named = load_all(self.experiments) if self.experiments else tuple(known().values())
        tables = [study for study in named if study.table] if self.experiments else []
        folders = {study.id: self.out / study.id for study in tables} or {"": self.out}
        codes = []
        for name, folder in folders.items():
            studies = [study for study in named if study.id == name or not (name or study.table)]
            protocols = {protocol.id: protocol for study in studies for protocol in study.protocols("paper")}
            codes.append(import_batches(source, folder, protocols))
        return max(codes)
