"""Views of the update: when values change, and through which kind of trace.

| view | values change | trace |
|---|---|---|
| "traces" | at every step | accumulating or replacing (`chunked_td.traces.Trace`) |
| "true_online" | at every step | dutch (`learners.true_online.DutchTrace`) |
| "averaged" | at every step | accumulating, with step sizes of 1/n (`learners.averaged.AveragedTrace`) |
| "corrected" | at every step | the same with TDC's correction (`learners.averaged.CorrectedTrace`) |
| "lineage", or `Lineage(…)` | at every step | a λ per row (`learners.lineage.LineageTrace`) |
| "offline" | at the end of an episode, towards λ-returns (Eq. 2 and 4) | none |
| "sampled" | at the end of an episode, towards targets of sampled chunks (§3.1) | none |

A kind of trace is a NamedTuple with two kernels, `update` and `end`, which `learners.update` calls by its type.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from chunked_td._checks import check_choice
from chunked_td._numba import zeros
from chunked_td.learners.averaged import AveragedTrace, CorrectedTrace
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.true_online import DutchTrace
from chunked_td.traces import Trace

View = str | Lineage

_TRACES: dict[str, Any] = {"traces": Trace, "true_online": DutchTrace, "lineage": Lineage()}
_TRACES |= {"averaged": AveragedTrace, "corrected": CorrectedTrace, "offline": None, "sampled": None}

VIEWS = tuple(_TRACES)


def check_view(view: Any) -> View:
    """Return a view, or say which ones there are."""
    if isinstance(view, Lineage):
        return view
    view = check_choice("view", view, VIEWS)
    return _TRACES[view] if dataclasses.is_dataclass(_TRACES[view]) else view


def trace_with_room(trace: Any, rows: int, entries: int) -> Any:
    """The same trace with room for so many more steps; there are at most `rows` live entries."""
    live = getattr(trace, "entries", trace)
    if live.rows.size < min(int(live.count[0]) + entries, rows):
        trace = trace.grown(rows, 2 * live.rows.size + entries)
    return trace.with_room(entries) if hasattr(trace, "with_room") else trace


def view_settings(view: View) -> Any:
    """A view as plain values, for a file; see `view_from`."""
    return view if isinstance(view, str) else dataclasses.asdict(view)


def view_from(settings: Any) -> View:
    """The view of these plain values."""
    return Lineage(**settings) if isinstance(settings, dict) else settings


def empty_trace(view: View, rows: int, components: int, capacity: int) -> Any:
    """A trace of the view's kind with no live entry; None for updates at the end of an episode.

    Args:
      rows: of the table of values. components: d. capacity: live entries to make room for.
    """
    kind = _TRACES[view] if isinstance(view, str) else view
    if kind is None or hasattr(kind, "empty"):
        return None if kind is None else kind.empty(rows, components, capacity)
    entries = Trace.empty(rows, components, capacity)
    return zeros(kind, {"rows": rows, "d": components}, entries=entries)
