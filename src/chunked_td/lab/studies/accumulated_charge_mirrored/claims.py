"""Claims about the mirrored Accumulated-Charge: whether an advantage owes something to the sign of the reward."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chunked_td.lab.results.criteria import LEVEL, SEVERAL_TEXT, best_across_step_sizes, interval_text, runs_of, shared
from chunked_td.lab.results.runs import Results
from chunked_td.lab.statistics import detectable_mean, paired_test
from chunked_td.lab.studies.accumulated_charge.claims import FIXED
from chunked_td.lab.studies.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.study import FAILS, HOLDS, NOT_RUN, NOT_SHOWN, Claim, Verdict
from chunked_td.lab.wording import number_text

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
