"""Which plots a study has. Each is interactive on the page and a figure for print beside it (`figures`).

A study's report.py makes a `FigureChoice` from the building blocks of `plots`. Tables and diagnostics of networks are
drawn for every study that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chunked_td.lab.results.runs import Results

if TYPE_CHECKING:
    from chunked_td.lab.study import Study


@dataclass(frozen=True)
class Plot:
    """A plot, as Plotly's data and layout.

    Args:
      switches: those of "bands", "logx" and "logy" that make sense for it. on: those that are on at first; None is
        bands, if any is visible.
      height: in pixels.
      panels: how many pairs of axes it has (x, x2, … with y, y2, …): side by side in a wide window, one below the other
        in a narrow one.
    """

    id: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    switches: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    height: int = 420
    panels: int = 1

    def is_on(self, switch: str) -> bool:
        """Whether a switch is on at first: named in `on`, or bands of which some are visible."""
        bands = (trace.get("visible", True) for trace in self.data if trace.get("meta") == "band")
        return switch in self.on or (switch == "bands" and any(bands))


@dataclass(frozen=True)
class FigureChoice:
    """The plots of one study.

    Args:
      plots: `plots(study, original)` gives them; `original` is what it is a control of, or None.
      control_of: id of the study that this one is a control of.
    """

    plots: Callable[[Results, Results | None], list[Plot]]
    control_of: str | None = None


def part(study_id: str, name: str, studies: Mapping[str, Study]) -> Any:
    """What a study's report.py says of a name; None for a study that is not known."""
    return studies[study_id].part("report", name) if study_id in studies else None


def original_of(study_id: str, results: Mapping[str, Results], studies: Mapping[str, Study]) -> Results | None:
    """The results that this study is a control of, if there are runs."""
    choice = part(study_id, "FIGURES", studies)
    return results.get(choice.control_of or "") if choice else None
