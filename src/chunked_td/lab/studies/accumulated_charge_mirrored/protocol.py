"""Protocol of the mirrored Accumulated-Charge, our control: the sign of the charge's reward is turned round."""

from __future__ import annotations

from dataclasses import replace

from chunked_td.lab.studies.accumulated_charge.protocol import ARGUMENTS
from chunked_td.lab.studies.accumulated_charge.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.study import Environment

ORDER = 30

PROTOCOL = replace(
    ORIGINAL,
    id="accumulated-charge-mirrored",
    title="Accumulated-Charge, mirrored",
    description=(
        "The same problem with the sign of the charge's reward turned round. Every expected return is "
        "unchanged, so an unbiased learner does as well as before. Where an arm does not, its success owes "
        "something to the sign."
    ),
    environment=Environment("chunked_td.envs.dynamics:AccumulatedCharge", {**ARGUMENTS, "mirrored": True}),
    arms=tuple(replace(arm, in_paper=False) for arm in ORIGINAL.arms),
    references=(),
    deviations=("A control of ours: the paper does not have it.",),
)
