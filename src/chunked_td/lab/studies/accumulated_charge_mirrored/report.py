"""Figures and text of the mirrored Accumulated-Charge: beside those of the original."""

from __future__ import annotations

import numpy as np

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import control_plot, sweep_plots
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.studies.accumulated_charge_mirrored.claims import SIGN_MARGIN

PUBLISHED = "Nothing: this control is ours. Without it one cannot say why an arm wins on the original problem."

CAPTION = (
    "The same arms on both problems. An unbiased learner has the same line twice; where the two differ, success "
    "owes something to the sign of the reward."
)
WHY = "So its success there is not due to better credit assignment."


def plots(study: Results, original: Results | None) -> list[Plot]:
    """The default plots, and the arms with a model on both problems."""
    found = sweep_plots(study, None)
    return found if original is None else [*found, control_plot(original, study, "mirrored", CAPTION)]


def headline(study: Results, original: Results | None) -> str:
    """Chunked SARSA on both problems, at the step size that is best on the original."""
    here, there = study.runs("chunked"), None if original is None else original.runs("chunked")
    if original is None or original.best is None or here is None or there is None:
        return ""
    exponent = original.selected["chunked"]
    if exponent not in here.exponents:
        return ""
    plain, mirrored = (float(np.nanmean(runs.of(exponent)[:, -1])) for runs in (there, here))
    text = (
        f"Chunked SARSA makes {plain:,.0f} regretful choices of {study.length:,} on Accumulated-Charge, where "
        f"{original.best:,.0f} is the best possible, and {mirrored:,.0f} on its mirror image, which differs in one "
        "sign and in no expected return."
    )
    return f"{text} {WHY}" if mirrored - plain > SIGN_MARGIN else text


HEADLINE = headline
FIGURES = FigureChoice(plots, control_of=ORIGINAL.id)
