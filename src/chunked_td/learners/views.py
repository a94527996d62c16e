"""Views of the update: when values change, and through which kind of trace.

| view | values change | trace |
|---|---|---|
| "traces" | at every step | accumulating or replacing (`chunked_td.traces.Trace`) |
| "true_online" | at every step | dutch (`learners.true_online.DutchTrace`) |
| "offline" | at the end of an episode, towards λ-returns (Eq. 2 and 4) | none |
| "sampled" | at the end of an episode, towards targets of sampled chunks (§3.1) | none |

A kind of trace is a NamedTuple with two kernels, `update` and `end`, which `learners.update` calls by its type.
"""

from __future__ import annotations

from typing import Any

from chunked_td._checks import check_choice
from chunked_td.learners.true_online import DutchTrace
from chunked_td.traces import Trace

View = str

_TRACES: dict[str, Any] = {"traces": Trace, "true_online": DutchTrace, "offline": None, "sampled": None}

VIEWS = tuple(_TRACES)


def check_view(view: Any) -> View:
    """Return a view, or say which ones there are."""
    return check_choice("view", view, VIEWS)


def empty_trace(view: View, rows: int, components: int, capacity: int) -> Any:
    """A trace of the view's kind with no live entry; None for updates at the end of an episode.

    Args:
      rows: of the table of values. components: d. capacity: live entries to make room for.
    """
    kind = _TRACES[view]
    return None if kind is None else kind.empty(rows, components, capacity)
