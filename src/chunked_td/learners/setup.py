"""Checked settings: from what a user writes to what the kernels read."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from chunked_td.lambdas import (
    BACKWARD,
    EXPECTED,
    EXTERNAL,
    FACTORED,
    FORWARD,
    SARSA,
    SOURCES,
    STATE,
    VISIT,
    ConstantLambda,
    FactoredLambda,
    LambdaSource,
)
from chunked_td.learners.recursion import Rule
from chunked_td.policies import GREEDY, UNIFORM


def check_choice(name: str, value: Any, choices: Iterable[str]) -> Any:
    """Return `value` if it is one of `choices`; otherwise an error that names the nearest one."""
    names = list(choices)
    if value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}{hint}")


def check_unit(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    return _check_number(name, value, 0.0, 1.0, "a number in [0, 1]")


def check_positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    return _check_number(name, value, math.ulp(0.0), math.inf, "a positive finite number")


def _check_number(name: str, value: Any, low: float, high: float, accepted: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not low <= number <= high or math.isinf(number):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return number


def as_lambda_source(value: Any, default: LambdaSource) -> LambdaSource:
    """A λ source from a source, a number (constant λ) or None (the default)."""
    if value is None:
        return default
    if isinstance(value, LambdaSource):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ConstantLambda(check_unit("lambda_source", value))
    raise ValueError(f"lambda_source must be a number in [0, 1] or one of {', '.join(SOURCES)}, got {value!r}")


def make_rule(
    bootstrap: int,
    source: LambdaSource,
    view: int,
    actions: int,
    discount: float,
    *,
    external: bool = False,
    policy: int | None = None,
    cutoff: float = 0.0,
    replacing: bool = False,
) -> Rule:
    """The recursion's choices for one learner."""
    if source.code == FACTORED and bootstrap == SARSA:
        raise ValueError("lambda_source FactoredLambda() goes with state values and Expected-SARSA, not with SARSA")
    code = EXTERNAL if external else source.code
    if policy is None:
        policy = UNIFORM if bootstrap == STATE else GREEDY
    return Rule(
        bootstrap, code, view, policy, source.constant, float(discount), float(cutoff), bool(replacing), actions
    )


def count_origins(rule: Rule, states: int, components: int) -> int:
    """How many origins the count model of this rule has; 0 where it counts nothing."""
    if rule.source == BACKWARD:
        return states * rule.actions if rule.bootstrap == SARSA else states
    if rule.source == FACTORED:
        return states * rule.actions * components
    return states * rule.actions if rule.source in (FORWARD, EXPECTED, VISIT) else 0


def component_groups(source: LambdaSource, rewards: int, components: int) -> np.ndarray:
    """bool[d, c]: which state components decide reward i (Alg. 4). All false rows where the source is not factored."""
    groups = np.zeros((rewards, components), bool)
    if not isinstance(source, FactoredLambda):
        return groups
    chosen = source.components
    if chosen is None:
        if rewards != components:
            raise ValueError(
                f"lambda_source FactoredLambda() needs as many rewards as state components, or components=… that says "
                f"which state components decide each reward; got {rewards} rewards and {components} state components"
            )
        chosen = tuple(range(rewards))
    if len(chosen) != rewards:
        raise ValueError(f"FactoredLambda components must have one entry per reward ({rewards}), got {chosen!r}")
    for i, members in enumerate(chosen):
        for j in (members,) if isinstance(members, int) else members:
            if not 0 <= j < components:
                raise ValueError(f"FactoredLambda components must lie in 0..{components - 1}, got {j!r} for reward {i}")
            groups[i, j] = True
    return groups
