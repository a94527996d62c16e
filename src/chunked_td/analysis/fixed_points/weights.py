"""λ of every transition, by the source's own kernel, with the true model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_choice
from chunked_td._numba import code, dispatch, kernel, static
from chunked_td.analysis.fixed_points.limits import LimitModel, Limits
from chunked_td.analysis.fixed_points.places import Chain, Moves, Places
from chunked_td.analysis.fixed_points.problem import Problem
from chunked_td.bootstraps import SARSA
from chunked_td.lambdas.base import LambdaSource, Needs, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.step import Transition, make_step
from chunked_td.learners.count_models import component_parts
from chunked_td.learners.state import Tables

LambdaFunction = Callable[[int, int, int, int | None], float]
"""λ(x, a, x', a'), where a' is None on the last transition."""


def as_weight(given: Any) -> LambdaSource | LambdaFunction:
    """A λ source or a function from what `fixed_point` was given."""
    if callable(given) and not isinstance(given, (LambdaSource, type)):
        function: Any = given
        return function
    return as_lambda_source(given, ConstantLambda(0.0))


def places_for(source: LambdaSource | LambdaFunction, problem: Problem) -> Places | None:
    """Where a λ that depends on the way has to be followed; None if it depends on the transition alone."""
    if not isinstance(source, LambdaSource):
        return None
    if hasattr(type(source), "recall"):
        return Places.after_ways(problem)
    if Needs.PREDECESSORS in source.needs_with(problem.bootstrap):
        return Places.after_pairs(problem, actions=problem.bootstrap == SARSA)
    return None


_lambda_of, _recall = dispatch("lambda_t"), dispatch("recall", None)


class Choices(NamedTuple):
    """What a step tells of the learner."""

    bootstrap: Any
    n_actions: int
    discount: float
    per_component: Any


@kernel
def fill_lambda(source, rule, tables, model, policy, epsilon, unknown, steps, out):
    """λ of every transition by the source's own kernel.

    Args:
      rule: Choices.
      policy: float64[S + 1, A]; the last row is scratch.
      unknown: float64[d], what stands for the reward and the TD error.
      steps: int64[n] each: state, action, next state, next action, previous pair, whether x was left before, node.
      out: float64[n, d], written.
    """
    scratch = policy[policy.shape[0] - 1]
    for j in range(out.shape[0]):
        s, x = steps[0][j], steps[2][j]
        model.node[0] = steps[6][j]
        transition = Transition(
            state=s,
            action=steps[1][j],
            reward=unknown,
            next_state=x,
            components=None,
            percept=x,
            next_action=steps[3][j],
            previous=steps[4][j],
        )
        step = make_step(transition, (policy[s], policy[x]), unknown, scratch, epsilon, rule, tables, model, None)
        _recall(source, step, steps[5][j] != 0)
        for i in range(out.shape[1]):
            out[j, i] = _lambda_of(source, step, i if code(rule.per_component) else 0)


def lambdas_of(
    source: LambdaSource | LambdaFunction, chain: Chain, pairs: Chain, values: np.ndarray, learned: Any
) -> tuple[np.ndarray, np.ndarray]:
    """λ of the transitions that go on and of those at which an episode is cut, float64[n, d] each.

    Args:
      chain: with the memory that the source has. pairs: without.
      values: float64[rows, d], those that the source sees. learned: see `fixed_point`.
    """
    if not isinstance(source, LambdaSource):
        return _asked(source, chain, chain.going), _asked(source, chain, chain.cut)
    problem = chain.problem
    table, A, d = problem.table, problem.table.n_actions, problem.table.n_rewards
    _check_known(source, problem)
    compiled = source.compiled({"S": table.n_states, "A": A, "d": d, "rows": len(values)})
    arrays = source.settled(Limits(pairs, values)) if learned is None else learned
    for name, given in arrays.items():
        getattr(compiled, check_choice("learned", name, source.arrays))[:] = given
    legal = table.legal_actions if Needs.LEGAL in source.needs_with(problem.bootstrap) else np.zeros((0, A), bool)
    nvec = np.array(table.nvec, np.int64)
    tables = Tables(np.ascontiguousarray(values), legal, nvec, component_parts(source, d, nvec.size))
    model = LimitModel.make(chain, pairs)
    epsilon = 0.0 if np.isnan(problem.epsilon) else problem.epsilon
    policy = np.append(problem.policy, np.zeros((1, A)), axis=0)
    rule = Choices(static(problem.bootstrap), A, problem.discount, static(int(source.per_component)))
    found, unknown = [], np.full(d, np.nan)
    for steps in (chain.going, chain.cut):
        place, out = steps.node // A, np.zeros((steps.node.size, d))
        columns = (steps.state, steps.action, steps.next_state, steps.next_action)
        columns += (chain.places.previous[place], chain.places.left[place], steps.node)
        columns = tuple(np.ascontiguousarray(column, np.int64) for column in columns)
        fill_lambda(compiled, rule, tables, model, policy, epsilon, unknown, columns, out)
        if np.isnan(out).any():
            raise ValueError(
                f"lambda_source {source!r} must give a number, without the reward or δ of its own transition; got nan"
            )
        if (wrong := out[np.abs(out - 0.5) > 0.5 + 1e-6]).size:
            raise ValueError(f"lambda_source {source!r} must give a λ in [0, 1], got {wrong[0]:g}")
        found.append(out)
    return found[0], found[1]


def _asked(function: LambdaFunction, chain: Chain, steps: Moves) -> np.ndarray:
    """λ by a function of the transition."""
    columns = zip(
        *(part.tolist() for part in (steps.state, steps.action, steps.next_state, steps.next_action)), strict=True
    )
    given = [function(s, a, x, None if b < 0 else b) for s, a, x, b in columns]
    out = np.array(given, np.float64).reshape(-1, 1)
    if not ((out >= 0) & (out <= 1)).all():
        raise ValueError("lambda_source must give numbers in [0, 1]")
    return np.repeat(out, chain.problem.table.n_rewards, axis=1)


def _check_known(source: LambdaSource, problem: Problem) -> None:
    """Refuse a source whose λ cannot be computed here."""
    name = type(source).__name__
    if not source.is_compiled:
        raise ValueError(
            f"lambda_source must be compiled, a number or a function λ(x, a, x', a'), got {name}, which is plain Python"
        )
    if Needs.LEGAL in source.needs_with(problem.bootstrap) and np.isnan(problem.epsilon):
        raise ValueError(f"policy must be uniform or ε-greedy (values=, epsilon=) for {name} with this learner")
