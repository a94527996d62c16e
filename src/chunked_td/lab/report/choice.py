"""Which figures an experiment has: figures for print (`Drawing`) and interactive plots (`Plot`).

An experiment's folder makes a `FigureChoice` from the building blocks of `curves`, `sweeps` and `plots`. Tables and
diagnostics of networks are drawn for every experiment that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chunked_td.lab.results.runs import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from chunked_td.lab.study import Study


@dataclass(frozen=True)
class Drawing:
    """A figure for print: its file name, the study it belongs to, and a caption that says what it shows."""

    name: str
    study: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Plot:
    """An interactive plot, as Plotly's data and layout.

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
    """The figures of one experiment.

    Args:
      drawings: `drawings(study, control)` gives the figures for print; `control` is the study of its control, or None.
      plots: `plots(study, original)` gives the interactive plots; `original` is what it is a control of, or None.
      control_of: id of the experiment that this one is a control of. Its figures for print are then part of that
        one's, if both have runs.
    """

    drawings: Callable[[Results, Results | None], list[Drawing]]
    plots: Callable[[Results, Results | None], list[Plot]]
    control_of: str | None = None


def _default_drawings(study: Results, control: Results | None) -> list[Drawing]:
    from chunked_td.lab.report.sweeps import sweep_drawings

    return sweep_drawings(study, control)


def _default_plots(study: Results, original: Results | None) -> list[Plot]:
    from chunked_td.lab.report.plots import sweep_plots

    return sweep_plots(study, original)


DEFAULT = FigureChoice(_default_drawings, _default_plots)
"""The score against the step size, and runs seed by seed."""


def choice_of(study_id: str, experiments: Mapping[str, Study]) -> FigureChoice:
    """The choice of figures of a study; the default for one that makes none."""
    return part(study_id, "FIGURES", experiments) or DEFAULT


def part(study_id: str, name: str, experiments: Mapping[str, Study]) -> Any:
    """What a study's report.py says of a name; None for a study that is not known."""
    return experiments[study_id].part("report", name) if study_id in experiments else None


def original_of(study_id: str, studies: Mapping[str, Results], experiments: Mapping[str, Study]) -> Results | None:
    """The study that this one is a control of, if it has runs."""
    return studies.get(choice_of(study_id, experiments).control_of or "")


def control_of(study_id: str, studies: Mapping[str, Results], experiments: Mapping[str, Study]) -> Results | None:
    """The study of this one's control, if it has runs."""
    return next((s for s in studies.values() if choice_of(s.id, experiments).control_of == study_id), None)
