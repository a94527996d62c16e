"""Claims about the two signs of Accumulated-Charge."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chunked_td.lab.results.criteria import runs_of, shared, smaller, within
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.charge_signs.protocol import BEST, MIRRORED, WORST
from chunked_td.lab.study import Claim, Verdict
from chunked_td.lab.wording import number_text, step_size_text

MARGIN = (WORST - BEST) / 3  # regretful choices that we call no difference
LARGE = 2 * (WORST - BEST) / 3

CRITERION = (
    "At the step size with the least mean over both signs, the interval of the difference between the signs, seed by "
    f"seed, lies within ±{MARGIN:g}, a third of what lies between the best possible and the worst; it does not hold if "
    "the interval lies outside."
)


def chosen(study: Results, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores by seed on the problem and on its mirror image, at the step size that is best for both; its exponent."""
    plain, mirrored = shared(runs_of(study, name), runs_of(study, f"{name}{MIRRORED}"))
    place = int(np.argmin((plain.at() + mirrored.at()).mean(axis=1)))
    return plain.at()[place], mirrored.at()[place], int(plain.exponents[place])


def difference(study: Results, name: str, least: float, most: float) -> Verdict:
    """Whether the difference between the signs lies within [least, most]."""
    plain, mirrored, exponent = chosen(study, name)
    means = [number_text(float(np.mean(values))) for values in (plain, mirrored)]
    size = step_size_text(exponent, study.about.step_size_base)
    text = f"{means[0]}, mirrored {means[1]}; difference {{}}, α = {size}, {plain.size} seeds"
    return within(mirrored - plain, least, most, text)


def still_better(study: Results, _: Mapping[str, Results]) -> Verdict:
    """Chunking without the difference against a fixed λ, mean over both signs."""
    five, fixed = ((plain + mirrored) / 2 for plain, mirrored, _ in (chosen(study, n) for n in ("five", "fixed")))
    return smaller(five, {"SARSA(1)": fixed})


def _claim(claim_id: str, text: str, name: str, short: str) -> Claim:
    arms = (name, f"{name}{MIRRORED}")
    return Claim(
        claim_id, "ours", text, CRITERION, arms, lambda study, _: difference(study, name, -MARGIN, MARGIN), short=short
    )


CLAIMS = (
    Claim("sign-tilt", "ours", "A λ that is larger where the charge is high, by as much as the network's, is enough "
          "to make the two signs differ.",
          f"At the step size with the least mean over both signs, the interval of the difference lies above {LARGE:g}, "
          "two thirds of what lies between the best possible and the worst.", ("tilted", f"tilted{MIRRORED}"),
          lambda study, _: difference(study, "tilted", LARGE, np.inf), short="the tilt makes the signs differ"),
    _claim("sign-fixed", "With λ = 1 the two signs do not differ.", "fixed", "λ = 1: no difference"),
    _claim("sign-expected", "A λ that does not know the outcome removes the difference.", "expected",
           "removed by the expected λ"),
    _claim("sign-averaged", "Step sizes of 1/n remove the difference.", "averaged", "removed by 1/n"),
    _claim("sign-first", "Step sizes of 1/n, and λ = 1 on the first visit of a state, remove it.", "first",
           "removed by 1/n and λ = 1 at first"),
    _claim("sign-five", "Step sizes of 1/n, and λ = 1 on the first five visits of a state, remove it.", "five",
           "removed by 1/n and λ = 1 five times"),
    _claim("sign-constant", "λ = 1 on the first five visits removes it with a constant step size.", "five-constant",
           "removed by λ = 1 five times, α constant"),
    _claim("sign-n-over-n", "TD(n/n), the backward model's λ with step sizes of 1/n, does not have it.", "n-over-n",
           "TD(n/n): no difference"),
    _claim("sign-tdc", "TDC does not have it.", "tdc", "TDC: no difference"),
    Claim("sign-worth", "ours", "With the difference removed by λ = 1 on the first five visits, chunking is better "
          "than SARSA(1) over both signs.",
          "Paired test of the mean over both signs, each at the step size that is best for it.",
          ("five", f"five{MIRRORED}", "fixed", f"fixed{MIRRORED}"), still_better,
          short="better than λ = 1 without it"),
)  # fmt: skip


PUBLISHED = (
    "Nothing: this experiment is ours. It asks where the difference between the signs, which the network has, comes "
    "from, and what removes it."
)
