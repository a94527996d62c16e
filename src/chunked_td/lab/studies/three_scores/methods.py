"""The methods that are compared. All are Expected-SARSA with a constant step size unless they say otherwise."""

from __future__ import annotations

from typing import NamedTuple

ACCUMULATING, REPLACING, LINEAGE = range(3)
CONSTANT, TIED, FALLING = range(3)
"""Where λ comes from: a number; 1 below α = ¼ and 0.4 above; 1/√episode."""


class CreditMethod(NamedTuple):
    """What a run of `runs` does.

    Args:
      trace: ACCUMULATING, REPLACING or LINEAGE. source, lambda_: where λ comes from.
      prior, zero: of lineage traces: what first values count for, and whether returns pass nothing.
      steps: of lineage traces: shares are those of single steps, the same for all rows.
      expected: ρ, the weight of the expected TD error.
      averaged: step sizes of max(α, 1/n).
      solved: instead of all that, solve the learned model after every episode; 1/α − 1 visits of value 0 are its prior.
    """

    trace: int = REPLACING
    lambda_: float = 1.0
    source: int = CONSTANT
    prior: float = 0.0
    zero: bool = False
    expected: float = 0.0
    averaged: bool = False
    solved: bool = False
    steps: bool = False


LAMBDAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
FIXED = {
    f"{name}-{value:g}": CreditMethod(kind, value)
    for value in LAMBDAS
    for name, kind in (("accumulating", ACCUMULATING), ("replacing", REPLACING))
}

RULE = "lineage-expected"
"""The registered rule."""

OTHERS = {
    RULE: CreditMethod(LINEAGE, prior=1.0, expected=0.5),
    "lineage": CreditMethod(LINEAGE),
    "lineage-prior": CreditMethod(LINEAGE, prior=1.0),
    "lineage-zero": CreditMethod(LINEAGE, zero=True),
    "lineage-all-expected": CreditMethod(LINEAGE, prior=1.0, expected=1.0),
    "lineage-averaged": CreditMethod(LINEAGE, prior=1.0, averaged=True),
    "replacing-0.9-expected": CreditMethod(REPLACING, 0.9, expected=0.5),
    "tied": CreditMethod(source=TIED),
    "falling": CreditMethod(source=FALLING),
    "monte-carlo-averaged": CreditMethod(averaged=True),
    "solved": CreditMethod(lambda_=0.0, solved=True),
}

STEPS = "lineage-steps-expected"
"""The rule with less memory, which came later and was not run everywhere."""

METHODS = {**FIXED, **OTHERS, STEPS: CreditMethod(LINEAGE, prior=1.0, expected=0.5, steps=True)}

LABELS = {
    RULE: "Lineage, half expected errors (the rule)",
    "lineage": "Lineage, no prior",
    "lineage-prior": "Lineage",
    "lineage-zero": "Lineage, no prior, nothing passes returns",
    "lineage-all-expected": "Lineage, expected errors",
    "lineage-averaged": "Lineage, 1/n at first",
    "replacing-0.9-expected": "λ = 0.9, half expected errors",
    "tied": "λ tied to the step size",
    "falling": "λ = 1/√episode",
    "monte-carlo-averaged": "Monte Carlo, 1/n",
    "solved": "Learned model solved",
    STEPS: "The rule with counts of single steps",
} | {name: f"λ = {method.lambda_:g}, {name.split('-')[0]}" for name, method in FIXED.items()}
