"""`chunked-td bench`: run the benchmarks of the source repository and write down what they found."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from dataclasses import field
from pathlib import Path
from typing import Any

import tyro

from chunked_td._durations import timing_text
from chunked_td.cli._shared import command

NAMES = ("agent_step", "backward_pass", "fused", "start_up")
"""Benchmarks that need a CPU only, in order."""


@command
class Bench:
    """Measure speed against plain NumPy and C, in one run, as ratios.

    For example:
        chunked-td bench
        chunked-td bench agent_step --quick
    """

    only: tyro.conf.Positional[tuple[str, ...]] = field(default=())
    """Names of benchmarks; none means all that run on a CPU."""
    quick: bool = False
    """Smaller sizes."""

    def run(self) -> int:
        """Measure."""
        return bench_command(self.only, self.quick)


def bench_command(only: tuple[str, ...], quick: bool) -> int:
    """Run benchmarks, print a table of ratios and write build/bench.json.

    Args:
      only: names out of `NAMES`; none means all.
      quick: smaller sizes, which show that everything runs rather than how fast.
    Returns:
      An exit code: 0 done, whether or not targets are met; 1 where there are no benchmarks; 2 for an unknown name.
    """
    folder = _folder()
    if folder is None:
        print(
            "error: the benchmarks are in the source repository (tools/benchmarks/), not in the installed package; "
            "run this command in a clone",
            file=sys.stderr,
        )
        return 1
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        print(f"error: no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    print(f"{platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f}")
    print(f"{'':<40} {'ours':>10} {'rival':>10} {'ratio':>9} {'target':>8}")
    records = []
    for name in only or NAMES:
        for row in _load(folder, name).measure(quick):
            print(_line(row), flush=True)
            records.append({"benchmark": name, **row.as_dict()})
    target = folder.parent / "build" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    about = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load": os.getloadavg(), "quick": quick}
    target.write_text(json.dumps({**about, "rows": records}, indent=1, ensure_ascii=False) + "\n")
    print(f"written: {target}")
    return 0


def _folder() -> Path | None:
    """The repository's benchmarks: beside the sources, or in the current folder."""
    candidates = (Path(__file__).resolve().parents[3] / "tools/benchmarks", Path.cwd() / "tools/benchmarks")
    return next((path for path in candidates if (path / "fused.py").exists()), None)


def _load(folder: Path, name: str) -> Any:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name)


def _line(row: Any) -> str:
    """One line of the table."""
    ratio = "" if row.ratio is None else f"{row.ratio:,.2f}" if row.ratio < 100 else f"{row.ratio:,.0f}"
    verdict = {None: "", True: "met", False: "MISSED"}[row.holds]
    times = " ".join(f"{'' if value is None else timing_text(value):>10}" for value in (row.ours, row.rival))
    return f"{row.name:<40} {times} {ratio:>9} {row.target:>8} {verdict:<6} {row.note}"
