"""Claims and figures of the mirrored Accumulated-Charge: does an advantage owe something to the sign of the reward?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chunked_td.lab.report.choice import FigureChoice, Plot
from chunked_td.lab.report.plots import control_plot, sweep_plots
from chunked_td.lab.results.criteria import LEVEL, SEVERAL_TEXT, best_across_step_sizes, interval_text, runs_of, shared
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.accumulated_charge.claims import FIXED
from chunked_td.lab.studies.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.study import FAILS, HOLDS, NOT_RUN, NOT_SHOWN, Claim, Verdict
from chunked_td.lab.wording import number_text, seeds_text
from chunked_td.statistics import detectable_mean, paired_test

SIGN_MARGIN = 500  # regretful choices of 10,000 that we call no difference


def _sign_does_not_matter(study: Results, studies: Mapping[str, Results]) -> Verdict:
    original = studies.get(ORIGINAL.id)
    if original is None or original.find("chunked") is None:
        return Verdict(NOT_RUN, "no runs of the original problem")
    pair = shared(runs_of(study, "chunked"), runs_of(original, "chunked"))
    mirrored, plain = (runs.at().mean(axis=0) for runs in pair)
    low, high, text = interval_text(mirrored - plain)
    p = paired_test(mirrored, plain)
    even = low >= -SIGN_MARGIN and high <= SIGN_MARGIN
    status = HOLDS if even else FAILS if p < LEVEL else NOT_SHOWN
    seen = f"a mean difference of {number_text(detectable_mean(mirrored - plain))}" if status == NOT_SHOWN else ""
    means = [number_text(float(np.mean(values))) for values in (plain, mirrored)]
    return Verdict(
        status, f"mean over step sizes {means[0]}, mirrored {means[1]}; difference {text}, p = {p:.2g}", seen
    )


CLAIMS = (
    Claim("charge-mirrored", "ours, a control",
          "The advantage of Chunked SARSA survives when the sign of the charge's reward is turned round.",
          SEVERAL_TEXT, ("chunked", *FIXED), lambda study, _: best_across_step_sizes(study, "chunked"),
          short="its advantage survives a change of sign", figure="accumulated-charge-mirrored-control"),
    Claim("charge-sign", "ours, a control",
          "Chunked SARSA does as well with either sign, as an unbiased learner would.",
          f"The interval of the difference, averaged over step sizes, lies within ±{SIGN_MARGIN}; it does not hold if "
          "it does not and a paired test says that they differ.", ("chunked",), _sign_does_not_matter,
          short="does as well with either sign", figure="accumulated-charge-mirrored-control"),
)  # fmt: skip


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
