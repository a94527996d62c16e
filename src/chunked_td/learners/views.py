"""Views of the update: the time of the update and the type of trace.

| view | values change | trace |
|---|---|---|
| "traces" | at every step | accumulating or replacing (`chunked_td.traces.Trace`) |
| "true_online" | at every step | dutch (`learners.true_online.DutchTrace`) |
| "lineage", or `Lineage(…)` | at every step | a λ per row (`learners.lineage.LineageTrace`) |
| "offline" | at the end of an episode, towards λ-returns (Eq. 2 and 4) | none |
| "sampled" | at the end of an episode, towards targets of sampled chunks (§3.1) | none |

Your own view is a subclass of `chunked_td.traces.View`: `view=Mine(…)`.
"""

from __future__ import annotations

from typing import Any

from chunked_td._checks import check_choice
from chunked_td._link import zeros
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.true_online import DutchTrace
from chunked_td.traces import Trace, View

_TRACES: dict[str, Any] = {"traces": Trace, "true_online": DutchTrace, "lineage": Lineage()}
_TRACES |= {"offline": None, "sampled": None}

VIEWS = tuple(_TRACES)


def check_view(view: Any) -> str | View:
    """Check a view; the error for an unknown name lists all views."""
    if isinstance(view, View):
        return view
    view = check_choice("view", view, VIEWS)
    return _TRACES[view] if isinstance(_TRACES[view], View) else view


def trace_with_room(trace: Any, rows: int, entries: int) -> Any:
    """Return the same trace with room for n more steps; there are at most `rows` live entries."""
    live = getattr(trace, "entries", trace)
    if hasattr(live, "rows") and live.rows.size < min(int(live.count[0]) + entries, rows):
        trace = trace.grown(rows, 2 * live.rows.size + entries)
    return trace.with_room(entries) if hasattr(trace, "with_room") else trace


def empty_trace(view: str | View, rows: int, components: int, capacity: int) -> Any:
    """Return a trace of the view's type with no live entry; None for updates at the end of an episode.

    Args:
      rows: of the table of values. components: d. capacity: initial room for live entries.
    """
    kind = _TRACES[view] if isinstance(view, str) else view
    if kind is None or hasattr(kind, "empty"):
        return None if kind is None else kind.empty(rows, components, capacity)
    entries = Trace.empty(rows, components, capacity)
    return zeros(kind, {"rows": rows, "d": components}, entries=entries)
