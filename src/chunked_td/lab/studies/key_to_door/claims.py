"""Claims about Key-to-Door: the paper's table, its figure and its table of step sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chunked_td.lab.results import criteria
from chunked_td.lab.results.runs import Results
from chunked_td.lab.studies.key_to_door.protocol import BEST, LAMBDAS
from chunked_td.lab.study import Claim, Verdict
from chunked_td.lab.wording import number_text
from chunked_td.statistics import mean_sd

NEAR = 1.05  # near the best possible number: at most 5 % above it
FIXED = tuple(f"expected-sarsa-{value:g}" for value in LAMBDAS)


def _near_floor(study: Results, _: Mapping[str, Results]) -> Verdict:
    scores = criteria.scores_of(study, "c-factored")
    sd = number_text(float(mean_sd(scores)[1]), 100)
    text = f"{{}}, standard deviation {sd}; {criteria.reliability(study, 'c-factored').evidence}"
    return criteria.within(scores, -np.inf, NEAR * BEST, text)


def _factored_best(study: Results, _: Mapping[str, Results]) -> Verdict:
    rivals = [arm for arm in study.present if arm.in_paper and arm.id != "c-factored"]
    ours, *others = (
        curves[:, -1] for curves in criteria.selected_of(study, ("c-factored", *(arm.id for arm in rivals)))
    )
    return criteria.smaller(ours, {arm.label: scores for arm, scores in zip(rivals, others, strict=True)})


CLAIMS = (
    Claim("treasure-fixed", "§5.3, Table 1", "No fixed λ reliably learns to collect the treasure.",
          criteria.RELIABLE_TEXT + ", for every fixed λ at its selected step size.", FIXED,
          lambda study, _: criteria.no_fixed_reliable(study), short="no fixed λ is reliable",
          figure="key-to-door-seeds"),
    Claim("treasure-default", "§5.3, Table 1", "C-default does not reliably learn either.",
          criteria.RELIABLE_TEXT + ".", ("c-default",), lambda study, _: criteria.none_reliable(study, ["c-default"]),
          short="nor is C-default", figure="key-to-door-seeds"),
    Claim("treasure-floor", "§5.3, Table 1", "C-factored comes near the best possible number, 668.",
          f"The interval of the mean lies below {NEAR:g} × 668.", ("c-factored",), _near_floor,
          short="C-factored near the best possible, 668", figure="table-key-to-door-results"),
    Claim("treasure-best", "§5.3, Table 1", "C-factored misses fewer treasures than every other arm.",
          "Paired tests against every other arm of the paper, each at its selected step size (Holm).",
          ("c-default", "c-factored", *FIXED), _factored_best, short="C-factored misses fewest",
          figure="key-to-door-seeds"),
    Claim("treasure-robust", "App. A.3, Figure 8", "C-factored does well at many step sizes.",
          f"At {criteria.SEVERAL} or more of its step sizes the interval of the mean lies below twice 668.",
          ("c-factored",), lambda study, _: criteria.low_at_several_step_sizes(study, "c-factored", 2.0),
          short="C-factored good at many step sizes"),
    Claim("treasure-step-sizes", "App. A.3, Table 5", "The selected step sizes are the paper's.", criteria.SAME_TEXT,
          ("c-default", "c-factored", *FIXED), lambda study, _: criteria.same_step_sizes(study),
          short="the paper's step sizes", figure="table-key-to-door-step-sizes"),
)  # fmt: skip


PUBLISHED = (
    "A table of episodes without treasure for Expected-SARSA(λ) with five λ, C-default and C-factored, "
    "ten seeds, mean ± standard deviation at selected step sizes; the table of those; a figure over all "
    "step sizes. Only C-factored learns reliably, and it does so at many step sizes."
)
