"""Progress of a sweep: a bar on a terminal, a line per batch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from chunked_td._durations import duration_text
from chunked_td.lab.running.batches import Batch
from chunked_td.lab.running.engines import BatchResult

_PRIOR = 10.0
"""Seconds for which the estimate counts as measured, so that compiling the first batch does not look like its pace."""

_AT_LEAST = 0.05
"""The part of a batch that is taken to be left while it runs, however long it has been running."""


class SweepProgress:
    """Shows arms, runs and time left.

    Args:
      batches: what will run.
      seconds: `seconds(batches)` says how long batches should take; the measured pace corrects it.
      stream: where to write; a terminal gets a bar.
      quiet: say nothing but failures.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        seconds: Callable[[Sequence[Batch]], float],
        stream: TextIO | None = None,
        quiet: bool = False,
    ):
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.left = list(batches)
        self.runs_total = sum(len(batch.pairs) for batch in self.left)
        self.arms_total = len({_arm(batch) for batch in self.left})
        self.runs = 0
        self._expected = {id(batch): seconds([batch]) for batch in self.left}
        self._pace: dict[str, tuple[float, float]] = {}  # by kind of arm: seconds expected and seconds taken
        self._begun: set[tuple[str, str]] = set()  # arms of which a batch has finished
        self._compiling: dict[str, list[float]] = {}  # by kind of arm: how much longer the first batch of an arm took
        self._latest = time.perf_counter()
        self._bar: Any = self._open_bar() if self.stream.isatty() and not quiet else None

    def _open_bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text

        said = self.status

        class Status(ProgressColumn):
            """Time left, written anew every second: a batch of networks may run for many minutes."""

            max_refresh = 1.0

            def render(self, task: Any) -> Text:
                return Text(said())

        columns = (TextColumn("{task.description}"), BarColumn(), Status())
        bar = Progress(*columns, console=Console(file=self.stream), transient=False, refresh_per_second=2)
        bar.start()
        bar.add_task(_name(self.left[0]) if self.left else "", total=sum(self._expected.values()))
        return bar

    def status(self) -> str:
        """Arms, runs and time left, in one line."""
        arms_left = len({_arm(batch) for batch in self.left})
        parts = [f"arms {self.arms_total - arms_left}/{self.arms_total}", f"runs {self.runs:,}/{self.runs_total:,}"]
        parts.append(f"{duration_text(self.time_left())} left")
        return " · ".join(parts)

    def time_left(self) -> float:
        """Seconds left: what is expected of each kind of arm, corrected by the pace of that kind so far.

        Arms with networks are estimated by themselves: how fast tables are says nothing about them. The first batch
        of an arm is compiled, so it takes longer, by as much as those of the last arms of its kind did. The batch that
        runs now has been running since the last one ended.
        """
        total, running, begun = 0.0, time.perf_counter() - self._latest, set(self._begun)
        for place, batch in enumerate(self.left):
            seconds = self._corrected(batch)
            if _arm(batch) not in begun:
                begun.add(_arm(batch))
                last = self._compiling.get(batch.kind, [])[-5:]
                seconds += sorted(last)[len(last) // 2] if last else 0.0
            total += max(seconds - running, _AT_LEAST * seconds) if place == 0 else seconds
        return total

    def _corrected(self, batch: Batch) -> float:
        """Seconds that are expected of a batch, corrected by the pace of its kind."""
        expected, taken = self._pace.get(batch.kind, (0.0, 0.0))
        return self._expected.get(id(batch), 0.0) * (taken + _PRIOR) / (expected + _PRIOR)

    def batch_done(self, result: BatchResult) -> None:
        """Count a finished batch and show it."""
        done, now = result.batch, time.perf_counter()
        known, took = self._expected.get(id(done), 0.0), now - self._latest
        if _arm(done) not in self._begun:
            self._begun.add(_arm(done))
            self._compiling.setdefault(done.kind, []).append(max(0.0, took - self._corrected(done)))
        expected, taken = self._pace.get(done.kind, (0.0, 0.0))
        self._pace[done.kind] = (expected + known, taken + took)
        self._latest = now
        self.left = [batch for batch in self.left if batch is not done]
        self.runs += len(done.pairs)
        if result.error is not None:
            self.say(f"FAILED {_name(done)}: {result.error}")
        if self._bar is not None:
            task = self._bar.tasks[0]
            self._bar.update(task.id, advance=known, description=_name(self.left[0]) if self.left else "done")
        elif not self.quiet:
            self.say(f"{_name(done)}: {result.seconds:.1f} s · {self.status()}")

    def say(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _arm(batch: Batch) -> tuple[str, str]:
    return batch.protocol.id, batch.arm.id


def _name(batch: Batch) -> str:
    seeds = [seed for seed, _ in batch.pairs]
    named = f"seed {seeds[0]}" if min(seeds) == max(seeds) else f"seeds {min(seeds)}–{max(seeds)}"
    return f"{batch.protocol.id} {batch.arm.label} {named}"
