"""`chunked-td bench`: run the benchmarks of the source repository and write down what they found."""

from __future__ import annotations

import importlib
import sys
from dataclasses import field
from pathlib import Path

import tyro

from chunked_td.cli._shared import command


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
        folder = _folder()
        if folder is None:
            print(
                "error: the benchmarks are in the source repository (tools/benchmarks/), not in the installed package; "
                "run this command in a clone",
                file=sys.stderr,
            )
            return 1
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        return importlib.import_module("bench").run(self.only, self.quick)


def _folder() -> Path | None:
    """The repository's benchmarks: beside the sources, or in the current folder."""
    candidates = (Path(__file__).resolve().parents[3] / "tools/benchmarks", Path.cwd() / "tools/benchmarks")
    return next((path for path in candidates if (path / "bench.py").exists()), None)
