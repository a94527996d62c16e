"""Figures and text of the mirrored Accumulated-Charge: beside those of the original."""

from __future__ import annotations

import numpy as np

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import control_plot, sweep_plots
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.studies.accumulated_charge_mirrored.claims import SIGN_MARGIN
from chunked_td.lab.wording import seeds_text

PUBLISHED = "Nothing: this control is ours. Without it one cannot say why an arm wins on the original problem."

CAPTION = (
    "The same arms on both problems. An unbiased learner has the same line twice; where the two differ, success "
    "owes something to the sign of the reward."
)
WHY = "so its success there is not due to better credit assignment"


def plots(study: Results, original: Results | None) -> list[Plot]:
    """The default plots, and the arms with a model on both problems."""
    found = sweep_plots(study, None)
    return found if original is None else [*found, control_plot(original, study, "mirrored", CAPTION)]


def headline(study: Results, original: Results | None) -> str:
    """Chunked SARSA on both problems, at the step size that is best on the original; also of reduced size."""
    if original is None or "chunked" not in original.selected or "chunked" not in study.selected:
        return ""
    arms = [next(arm.require_runs() for arm in part.arms if arm.id == "chunked") for part in (original, study)]
    exponent, episodes = original.selected["chunked"], min(runs.length for runs in arms)
    if exponent not in arms[1].exponents or not all(runs.has(episodes) for runs in arms):
        return ""
    ends = [runs.of(exponent)[:, list(runs.episodes).index(episodes)] for runs in arms]
    plain, mirrored = map(float, map(np.nanmean, ends))
    whole = original.best is not None and episodes == original.length
    best = f", where {original.best:,.0f} is the best possible," if whole else ""
    text = (
        f"Chunked SARSA makes {plain:,.0f} regretful choices of {episodes:,} on Accumulated-Charge{best} and "
        f"{mirrored:,.0f} on its mirror image, which differs in one sign and in no expected return"
    )
    text += f", {WHY}" if mirrored - plain > SIGN_MARGIN * episodes / study.about.episodes else ""
    return f"{text}." if whole else f"{text} ({seeds_text(min(map(len, ends)))} of reduced length)."


HEADLINE = headline
FIGURES = FigureChoice(plots, control_of=ORIGINAL.id)
