"""Checked settings: from what a user writes to what the kernels read."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from chunked_td._checks import check_choice, check_unit
from chunked_td.lambdas import (
    BACKWARD,
    EXPECTED,
    EXPECTED_SARSA,
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
from chunked_td.learners.recursion import SAMPLED, Rule, Tables
from chunked_td.policies import GREEDY, UNIFORM


def learner_by_name(name: str) -> Any:
    """The learner class called `name`; an unknown name is an error that offers the nearest one."""
    import chunked_td

    return getattr(chunked_td, check_choice("learner", name, chunked_td.LEARNERS))


def check_policy_table(policy: Any, indexer: Any, actions: int) -> np.ndarray:
    """Action probabilities of every state, float64[S, A]."""
    table = np.array(policy, np.float64)
    if not indexer.fixed:
        raise ValueError("policy: states get ids on first sight here, so pass a function from observation to float[A]")
    if table.shape != (indexer.size, actions):
        raise ValueError(f"policy must have shape (states, actions) = {(indexer.size, actions)}, got {table.shape}")
    if not ((table >= 0.0).all() and (abs(table.sum(axis=1) - 1.0) <= 1e-8).all()):
        raise ValueError("policy must have rows of probabilities that sum to 1")
    return table


def check_reward_vector(reward: Any, components: int) -> np.ndarray:
    """A finite number per reward component."""
    try:
        values = np.asarray(reward, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"reward must have {components} numbers, got {reward!r}") from None
    if values.shape != (components,):
        raise ValueError(f"reward must have {components} components, got {reward!r} of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"reward must be finite in every component, got {reward!r}")
    return values


def as_lambda_source(value: Any, default: LambdaSource) -> LambdaSource:
    """A λ source from a source, a number (constant λ) or None (the default)."""
    if value is None:
        return default
    if isinstance(value, LambdaSource):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
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
    if view == SAMPLED and bootstrap == EXPECTED_SARSA:
        raise ValueError("view 'sampled' goes with state values and SARSA (§3.1, App. B.1), not with Expected-SARSA")
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


def count_outcomes(rule: Rule, tables: Tables, states: int) -> list[int]:
    """How many outcomes an origin of the count model has, for origins in turn: what a prior spreads over."""
    if rule.source == FACTORED:
        return [int(np.prod(tables.nvec[group])) for group in tables.groups]
    return [states * rule.actions if rule.source == BACKWARD and rule.bootstrap == SARSA else states]


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
        listed: Any = (members,) if isinstance(members, Integral) else members
        for j in listed:
            if not 0 <= j < components:
                raise ValueError(f"FactoredLambda components must lie in 0..{components - 1}, got {j!r} for reward {i}")
            groups[i, j] = True
    return groups
