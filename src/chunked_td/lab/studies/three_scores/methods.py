"""Methods of the registered comparison as arms of the lab. All are Expected-SARSA; only the step size is tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunked_td._numba import kernel
from chunked_td.lab.study import Arm
from chunked_td.lambdas.base import LambdaSource, Needs
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.planning.expected_error import ExpectedError

LAMBDAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
QUICK_LAMBDAS = (0.0, 0.4, 0.8, 0.95, 1.0)
FIXED_LAMBDA, RULES, NULL = "fixed λ", "rules", "null baselines"


def scored_arm(
    id: str, label: str, group: str, lambda_: Any = 1.0, *, quick: bool = True, exponents: Any = None, **options: Any
) -> Arm:
    """An arm on traces, unless its options say otherwise."""
    options = {"view": "traces", **options}
    return Arm(id, label, "expected_sarsa", lambda_, None, exponents, False, quick=quick, options=options, group=group)


FIXED = {
    f"{kind}-{value:g}": scored_arm(
        f"{kind}-{value:g}",
        f"λ = {value:g}, {kind}",
        FIXED_LAMBDA,
        value,
        quick=value in QUICK_LAMBDAS and (kind == "accumulating" or value > 0.0),  # without λ, both kinds are one
        **({"replacing": True} if kind == "replacing" else {}),
    )
    for value in LAMBDAS
    for kind in ("accumulating", "replacing")
}
"""Fixed λs, among them the best and the worst in hindsight, which scores refer to."""


@dataclass(frozen=True)
class FallingLambda(LambdaSource):
    """λ = 1/√k in episode k: the schedule after Kearns and Singh (2000), whose λ falls as values become known."""

    id, label, group = "falling", "λ = 1/√episode", NULL
    needs = Needs.NOTHING
    arrays: ClassVar[Mapping[str, str]] = {"episodes": "float64[1]"}

    @kernel
    def lambda_t(source, step, i):
        """1/√k; the first step of an episode has no λ."""
        return 1.0 / max(source.episodes[0], 1.0) ** 0.5

    @kernel
    def after_step(source, step, reward, td_error, ended):
        """Count episodes at their first step."""
        if step.previous < 0:
            source.episodes[0] += 1.0


RULE = "lineage-expected"
"""The registered rule."""
_LINEAGE, _HALF = Lineage(prior=1.0), ExpectedError(0.5)

OTHERS = {
    arm.id: arm
    for arm in (
        scored_arm(RULE, "Lineage, half expected errors (the rule)", RULES, view=_LINEAGE, reward_source=_HALF),
        scored_arm("lineage", "Lineage, no prior", RULES, quick=False, view=Lineage(prior=0.0)),
        scored_arm("lineage-prior", "Lineage", RULES, quick=False, view=_LINEAGE),
        scored_arm(
            "lineage-zero",
            "Lineage, no prior, nothing passes returns",
            RULES,
            quick=False,
            view=Lineage(prior=0.0, returns="zero"),
        ),
        scored_arm(
            "lineage-all-expected",
            "Lineage, expected errors",
            RULES,
            quick=False,
            view=_LINEAGE,
            reward_source=ExpectedError(1.0),
        ),
        scored_arm(
            "replacing-0.9-expected",
            "λ = 0.9, half expected errors",
            RULES,
            0.9,
            quick=False,
            replacing=True,
            reward_source=_HALF,
        ),
        scored_arm("falling", FallingLambda.label, NULL, FallingLambda(), quick=False),
        scored_arm("monte-carlo-averaged", "Monte Carlo, 1/n", NULL, quick=False, view="averaged"),
    )
}
"""Rules, and baselines that know nothing of the problem."""

TIED = "tied"
"""λ tied to the step size: 1 below α = ¼, else 0.4, replacing. No arm: its runs are those of these two fixed λs."""

STEPS = "lineage-steps-expected"
"""The rule with less memory, which came later and was not run everywhere."""
_STEPS = scored_arm(
    STEPS,
    "The rule with counts of single steps",
    RULES,
    quick=False,
    view=Lineage(prior=1.0, counts="steps"),
    reward_source=_HALF,
)
ARMS = {**FIXED, **OTHERS, STEPS: _STEPS}
"""All that can be run."""

STORED = {
    TIED: "λ tied to the step size",
    "lineage-averaged": "Lineage, 1/n at first",
    "solved": "Learned model solved",
}
"""Methods that stored runs have, and no arm here."""

COMPARED = (*OTHERS, *STORED)
"""What the tables of the stored runs list."""

LABELS = {**{name: arm.label for name, arm in ARMS.items()}, **STORED}
