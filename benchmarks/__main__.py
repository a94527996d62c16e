"""`python -m benchmarks [NAME ...] [--quick]`: benchmarks as a table of ratios, and as build/bench.json."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chunked_td._durations import timing_text

NAMES = ("agent_step", "backward_pass", "fused", "sweep", "start_up")
"""Benchmarks that need a CPU only, in order."""
ROOT = Path(__file__).parents[1]


def run(only: Sequence[str], quick: bool, out: Path = ROOT / "build") -> int:
    """Run benchmarks, print a table of ratios and write bench.json.

    Args:
      only: names out of `NAMES`; none means all.
      quick: smaller sizes, which show that everything runs rather than how fast.
    Returns:
      An exit code: 0 done, whether or not targets are met; 2 for an unknown name.
    """
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        print(f"error: no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    print(f"{platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f}")
    print(f"{'':<40} {'ours':>10} {'rival':>10} {'ratio':>9} {'target':>8}")
    records = []
    for name in only or NAMES:
        for row in importlib.import_module(f"benchmarks.{name}").measure(quick):
            print(_line(row), flush=True)
            records.append({"benchmark": name, **row.as_dict()})
    out.mkdir(exist_ok=True)
    about = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load": os.getloadavg(), "quick": quick}
    (out / "bench.json").write_text(json.dumps({**about, "rows": records}, indent=1, ensure_ascii=False) + "\n")
    print(f"written: {out / 'bench.json'}")
    return 0


def _line(row: Any) -> str:
    """One line of the table."""
    ratio = "" if row.ratio is None else f"{row.ratio:,.2f}" if row.ratio < 100 else f"{row.ratio:,.0f}"
    verdict = {None: "", True: "met", False: "MISSED"}[row.holds]
    times = " ".join(f"{'' if value is None else timing_text(value):>10}" for value in (row.ours, row.rival))
    return f"{row.name:<40} {times} {ratio:>9} {row.target:>8} {verdict:<6} {row.note}"


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed, as ratios.")
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"out of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    given = parser.parse_args(words)
    return run(given.only, given.quick)


if __name__ == "__main__":
    sys.exit(main())
