"""Methods by id: a rule for λ and the share ρ of the TD error that is its expectation under the counted model.

All are Expected-SARSA that learns at every step; the step size is tuned on other seeds, for all alike.
"""

from __future__ import annotations

from typing import Any

import chunked_td as ctd

LAMBDAS = (0.0, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
SHARES = (0.0, 0.5, 0.75, 1.0)
Methods = dict[str, dict[str, Any]]


def _rules() -> Methods:
    """The rules for λ, without expected errors. λ = 0 is one method: its traces never meet themselves."""
    fixed = {f"accumulating-{value:g}": {"lambda_source": value} for value in LAMBDAS}
    fixed |= {f"replacing-{value:g}": {"lambda_source": value, "replacing": True} for value in LAMBDAS[1:]}
    return fixed | {
        "lineage": {"lambda_source": 1.0, "view": ctd.Lineage(prior=1.0)},
        "expected": {"lambda_source": ctd.ExpectedLambda()},
        "forward": {"lambda_source": ctd.ForwardLambda()},
    }


RULES = _rules()
FIXED = tuple(name for name in RULES if name.startswith(("accumulating", "replacing")))
PLANNERS: Methods = {
    "dyna": {"lambda_source": 0.0, "planner": ctd.Dyna(steps=5)},
    "sweeping": {"lambda_source": 0.0, "planner": ctd.PrioritisedSweeping(steps=5)},
    "certainty-equivalence": {"lambda_source": 0.0, "planner": ctd.CertaintyEquivalence(sweeps=50, tolerance=1e-6)},
}


def named(rule: str, share: float) -> str:
    """The id of a rule with a share of expected errors."""
    return f"{rule}+{share:g}"


def with_share(settings: dict[str, Any], share: float) -> dict[str, Any]:
    """A method with a share of expected errors."""
    return settings | ({"reward_source": ctd.ExpectedError(share)} if share else {})


METHODS: Methods = {
    name: {"learner": "expected_sarsa", "view": "traces", **settings}
    for name, settings in (
        {named(rule, share): with_share(own, share) for rule, own in RULES.items() for share in SHARES} | PLANNERS
    ).items()
}
"""64 methods that learn from every step once, and three planners."""
LABELS = {
    "lineage": "lineage",
    "expected": "`ExpectedLambda`",
    "forward": "the paper's λ",
    "dyna": "Dyna, 5 updates a step",
    "sweeping": "Prioritised sweeping, 5 updates a step",
    "certainty-equivalence": "Certainty equivalence",
}
SHARE_TEXT = {0.0: "no expected errors", 0.5: "ρ = ½", 0.75: "ρ = ¾", 1.0: "ρ = 1"}


def label(name: str) -> str:
    """Label of a method in tables."""
    rule, _, share = name.partition("+")
    text = LABELS.get(rule) or f"λ = {rule.partition('-')[2]}, {rule.partition('-')[0]}"
    return f"{text}, {SHARE_TEXT[float(share)]}" if share else text
