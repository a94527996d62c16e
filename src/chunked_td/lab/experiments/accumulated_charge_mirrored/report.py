"""Figures and text of the mirrored Accumulated-Charge: beside those of the original."""

from __future__ import annotations

from chunked_td.lab.experiments.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import control_plot, sweep_plots
from chunked_td.lab.report.sweeps import sweep_drawings
from chunked_td.lab.results.studies import Study

PUBLISHED = "Nothing: this control is ours. Without it one cannot say why an arm wins on the original problem."

CAPTION = (
    "The same arms on both problems. An unbiased learner has the same line twice; where the two differ, success "
    "owes something to the sign of the reward."
)


def plots(study: Study, original: Study | None) -> list[Plot]:
    """The default plots, and the arms with a model on both problems."""
    found = sweep_plots(study, None)
    return found if original is None else [*found, control_plot(original, study, "mirrored", CAPTION)]


FIGURES = FigureChoice(sweep_drawings, plots, control_of=ORIGINAL.id)
