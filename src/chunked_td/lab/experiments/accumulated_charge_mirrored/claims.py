"""Claims about the mirrored Accumulated-Charge: whether an advantage owes something to the sign of the reward."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chunked_td.lab.experiments.accumulated_charge.claims import FIXED
from chunked_td.lab.experiments.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.results.claims import Claim
from chunked_td.lab.results.criteria import (
    FAILS,
    HOLDS,
    LEVEL,
    NOT_RUN,
    SEVERAL_TEXT,
    UNDECIDED,
    Verdict,
    best_across_step_sizes,
    interval_text,
    runs_of,
    shared,
)
from chunked_td.lab.results.statistics import paired_test
from chunked_td.lab.results.studies import Study
from chunked_td.lab.results.wording import number_text

SIGN_MARGIN = 500  # regretful choices of 10,000 that we call no difference


def sign_does_not_matter(study: Study, studies: Mapping[str, Study]) -> Verdict:
    """Compare Chunked SARSA here with the original problem, averaged over step sizes."""
    original = studies.get(ORIGINAL.id)
    if original is None or original.find("chunked") is None:
        return Verdict(NOT_RUN, "no runs of the original problem")
    pair = shared(runs_of(study, "chunked"), runs_of(original, "chunked"))
    mirrored, plain = (runs.at().mean(axis=0) for runs in pair)
    low, high, text = interval_text(mirrored - plain)
    p = paired_test(mirrored, plain)
    status = UNDECIDED
    if low >= -SIGN_MARGIN and high <= SIGN_MARGIN:
        status = HOLDS
    elif p < LEVEL:
        status = FAILS
    means = [number_text(float(np.mean(values))) for values in (plain, mirrored)]
    return Verdict(status, f"mean over step sizes {means[0]}, mirrored {means[1]}; difference {text}, p = {p:.2g}")


CLAIMS = (
    Claim(
        "charge-mirrored",
        "ours, a control",
        "The advantage of Chunked SARSA survives when the sign of the charge's reward is turned round.",
        SEVERAL_TEXT,
        ("chunked", *FIXED),
        lambda study, _: best_across_step_sizes(study, "chunked"),
        short="its advantage survives a change of sign",
        figure="accumulated-charge-mirrored-control",
    ),
    Claim(
        "charge-sign",
        "ours, a control",
        "Chunked SARSA does as well with either sign, as an unbiased learner would.",
        f"The interval of the difference, averaged over step sizes, lies within ±{SIGN_MARGIN}; it does not hold if it "
        "does not and a paired test says that they differ.",
        ("chunked",),
        sign_does_not_matter,
        short="does as well with either sign",
        figure="accumulated-charge-mirrored-control",
    ),
)
