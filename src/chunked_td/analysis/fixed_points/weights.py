"""λ of every transition, by the source's own kernel: with the true model, and what sources that learn tend to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from chunked_td._checks import check_choice
from chunked_td._link import Packed, Program, kernel, number, slot, static
from chunked_td.analysis.fixed_points.chain import Chain, Moves, Places, Problem
from chunked_td.analysis.fixed_points.systems import Weighted, mean_update, td_errors, variance
from chunked_td.bootstraps import Q_LEARNING, SARSA, STATE
from chunked_td.lambdas.base import MANY, LambdaSource, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.step import Transition, make_step
from chunked_td.learners.count_models import component_parts
from chunked_td.learners.state import Tables
from chunked_td.models.oracle import TableOracle

LambdaFunction = Callable[[int, int, int, int | None], float]
"""λ(x, a, x', a'), where a' is None on the last transition."""


def as_weight(given: Any) -> LambdaSource | LambdaFunction:
    """A λ source or a function from what `fixed_point` was given."""
    if callable(given) and not isinstance(given, (LambdaSource, type)):
        function: Any = given
        return function
    return as_lambda_source(given, ConstantLambda(0.0))


def places_for(source: LambdaSource | LambdaFunction, problem: Problem) -> Places | None:
    """The nodes of a λ that depends on the path; None if it depends on the transition alone."""
    if not isinstance(source, LambdaSource):
        return None
    if "predecessors" in source.inputs(problem.bootstrap):
        return Places.after_pairs(problem, actions=problem.bootstrap == SARSA)
    return None


_lambda_of = slot("source", "lambda_t")
read = slot("arrays", "read")


class Choices(NamedTuple):
    """Facts of the learner at a step."""

    bootstrap: Any
    n_actions: int
    discount: float
    per_component: Any


class Asked(NamedTuple):
    """Transitions whose λ is computed."""

    source: Any
    rule: Choices
    tables: Any
    model: Any
    policy: Annotated[np.ndarray, "float64[N, A]"]  # N = S + 1: the last row is scratch
    epsilon: float
    unknown: Annotated[np.ndarray, "float64[d]"]  # stands for the reward and the TD error
    steps: Annotated[np.ndarray, "int64[n, 6]"]  # s, a, x, next a, previous pair, node
    out: Annotated[np.ndarray, "float64[n, d]"]  # written


def fill_lambda(address):
    """λ of every transition by the source's own kernel."""
    asked = read(address)
    scratch, unknown, out = asked.policy[asked.policy.shape[0] - 1], asked.unknown, asked.out
    for j in range(out.shape[0]):
        here = asked.steps[j]
        s, x = here[0], here[2]
        asked.model.node[0] = here[5]
        transition = Transition(
            state=s,
            action=here[1],
            reward=unknown,
            next_state=x,
            components=None,
            percept=x,
            next_action=here[3],
            previous=here[4],
            ended=0,
        )
        policies, rule = (asked.policy[s], asked.policy[x]), asked.rule
        step = make_step(transition, policies, unknown, scratch, asked.epsilon, rule, asked.tables, asked.model, None)
        for i in range(out.shape[1]):
            out[j, i] = number(_lambda_of(asked.source, step, i if rule.per_component else 0))
    return 0


def lambdas_of(
    source: LambdaSource | LambdaFunction, chain: Chain, pairs: Chain, values: np.ndarray, learned: Any
) -> tuple[np.ndarray, np.ndarray]:
    """λ of the transitions that continue and of truncating ones, float64[n, d] each.

    Args:
      chain: with the memory that the source has. pairs: without.
      values: float64[rows, d], as the source reads them. learned: see `fixed_point`.
    """
    if not isinstance(source, LambdaSource):
        return _asked(source, chain, chain.going), _asked(source, chain, chain.cut)
    problem = chain.problem
    table, A, d = problem.table, problem.table.n_actions, problem.table.n_rewards
    _check_known(source, problem)
    form = source.compiled({"S": table.n_states, "A": A, "d": d, "rows": len(values)})
    arrays = source.settled(Limits(pairs, values)) if learned is None else learned
    for name, given in arrays.items():
        getattr(form, check_choice("learned", name, source.arrays))[:] = given
    legal = table.legal_actions if "legal" in source.inputs(problem.bootstrap) else np.zeros((0, A), bool)
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
        columns += (chain.places.previous[place], steps.node)
        listed = np.stack(columns, axis=1).astype(np.int64)
        asked = Packed(Asked(form, rule, tables, model, policy, epsilon, unknown, listed, out))
        parts = {"source": type(source), "model": LimitModel}
        Program(asked.tree, parts)(fill_lambda, 0)(asked.address)
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
    if "legal" in source.inputs(problem.bootstrap) and np.isnan(problem.epsilon):
        raise ValueError(f"policy must be uniform or ε-greedy (values=, epsilon=) for {name} with this learner")


# ---- what models and sources tend to after ever more episodes


class LimitModel(NamedTuple):
    """The true model forwards (`TableOracle`), and what counts of predecessors and visits tend to."""

    start: Annotated[np.ndarray, "int64[pairs]"]
    targets: Annotated[np.ndarray, "int64[n]"]
    weights: Annotated[np.ndarray, "float64[n]"]
    visited: Annotated[np.ndarray, "float64[S]"]
    came: Annotated[np.ndarray, "float64[N]"]  # P^π of the predecessor of each node
    node: Annotated[np.ndarray, "int64[1]"]  # the one in question

    chance, overlap = staticmethod(TableOracle.chance), staticmethod(TableOracle.overlap)
    following, target = staticmethod(TableOracle.following), staticmethod(TableOracle.target)
    weight = staticmethod(TableOracle.weight)

    @classmethod
    def make(cls, chain: Chain, pairs: Chain) -> LimitModel:
        """For the nodes of a chain; `pairs` is the chain without memory."""
        oracle = TableOracle.make(*chain.problem.table.transition_lists())
        node = np.zeros(1, np.int64)
        return cls(*oracle, state_visits(pairs) * MANY, _predecessors(chain, pairs), node)

    @kernel
    def came_from(step):
        """P^π(x_{t−1}|x_t), or for SARSA P^π(x_{t−1},a_{t−1}|x_t,a_t)."""
        return step.model.came[step.model.node[0]]

    @kernel
    def visits(step, state):
        """n(state), after ever more episodes."""
        return step.model.visited[state]


def state_visits(pairs: Chain) -> np.ndarray:
    """Expected number of steps from each state in an episode, float64[S]."""
    return pairs.visits.reshape(pairs.problem.policy.shape).sum(axis=1)


def _predecessors(chain: Chain, pairs: Chain) -> np.ndarray:
    """The share of all ways into a node's state (SARSA: pair) that come from where the node remembers; 0 at the start.

    As the backward counts have it: state values count every transition, SARSA those after which an action is drawn.
    """
    from scipy import sparse

    table, A, S = chain.problem.table, chain.problem.table.n_actions, chain.problem.table.n_states
    state, previous = np.repeat(chain.places.state, A), np.repeat(chain.places.previous, A)
    if chain.problem.bootstrap == SARSA:
        j = np.flatnonzero(pairs.going.later >= 0)
        flow = (pairs.visits - pairs.cut_visits)[pairs.going.node[j]] * pairs.going.chance[j]
        ways = sparse.csr_array((flow, (pairs.going.node[j], pairs.going.later[j])), (S * A, S * A))
        origin, target = previous, state * A + np.arange(state.size) % A
    else:
        pair = np.repeat(np.arange(S * A), np.diff(table.first))
        ways = sparse.csr_array((pairs.visits[pair] * table.chance, (pair // A, table.target)), (S, S))
        origin, target = previous // A, state
    came, into = np.zeros(state.size), np.asarray(ways.sum(axis=0)).ravel()
    known = np.flatnonzero((previous >= 0) & (into[target] > 0))
    came[known] = np.asarray(ways[origin[known], target[known]]).ravel() / into[target[known]]
    return np.minimum(came, 1.0)


class Limits:
    """Inputs of learned λ sources at the true values; see `chunked_td.lambdas.base.Settled`."""

    def __init__(self, pairs: Chain, values: np.ndarray) -> None:
        self._chain, self._values = pairs, values
        self._ahead = pairs.problem.ahead(values)

    @property
    def visits(self) -> np.ndarray:
        """float64[S], per episode."""
        return state_visits(self._chain)

    @cached_property
    def _errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ_t P(node at t) E[δ^m], float64[N] each, for m = 1 and 2; reward components summed."""
        chain, sums = self._chain, np.zeros((2, self._chain.visits.size))
        weights = (chain.visits - chain.cut_visits, chain.going), (chain.cut_visits, chain.cut)
        for weight, steps in weights:
            parts = range(self._values.shape[1])
            error = sum(td_errors(chain, steps, self._values[:, i], self._ahead, i) for i in parts)
            for m in (1, 2):
                sums[m - 1] += np.bincount(steps.node, weight[steps.node] * steps.chance * error**m, weight.size)
        return sums[0], sums[1]

    @property
    def mean_square_error(self) -> float:
        """E[δ²] over the transitions of an episode."""
        return float(self._errors[1].sum() / self._chain.visits.sum())

    @property
    def errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the TD errors of the transitions that leave a state (SARSA: a pair), float64[S, A]."""
        shape, visits = self._chain.problem.policy.shape, self._chain.visits
        sums = [part.reshape(shape) for part in (*self._errors, visits)]
        if self._chain.problem.bootstrap != SARSA:
            sums = [np.repeat(part.sum(axis=1, keepdims=True), shape[1], axis=1) for part in sums]
        mean, square = (part / np.where(sums[2] > 0, sums[2], 1.0) for part in sums[:2])
        return mean, _cleaned(square - mean**2, square.max())

    @property
    def returns(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the returns from a state (SARSA: a pair), float64[S, A]; reward components summed.

        With λ = 1 the λ-return is the return, for any values that it is compared with.
        """
        problem = self._chain.problem
        reward = problem.table.reward.sum(axis=1, keepdims=True)
        shape, summed = problem.policy.shape, problem.table._replace(reward=reward)
        by_pair = problem.bootstrap == SARSA
        problem = problem._replace(table=summed, bootstrap=SARSA if by_pair else STATE)
        chain = Chain.make(problem, Places.without_memory(summed))
        ones = Weighted(np.ones(chain.going.node.size), np.ones(chain.cut.node.size), problem.policy)
        update = mean_update(chain, ones, 0)
        values = np.zeros(update.weight.size)
        values[update.seen] = self._bootstrapped(by_pair)[update.seen]
        error = np.zeros(values.size)
        error[update.seen] = update.constant - update.matrix @ values[update.seen]
        square = np.nan_to_num(variance(chain, ones, values, 0))
        mean, spread = values + error, _cleaned(square - error**2, square.max(initial=0.0))
        if by_pair:
            return mean.reshape(shape), spread.reshape(shape)
        return np.repeat(mean[:, None], shape[1], axis=1), np.repeat(spread[:, None], shape[1], axis=1)

    def _bootstrapped(self, by_pair: bool) -> np.ndarray:
        """B(x) of every state, or Q of every pair."""
        total, problem = self._values.sum(axis=1), self._chain.problem
        if by_pair or problem.bootstrap == STATE:
            return total
        assert problem.bootstrap == Q_LEARNING or self._ahead is problem.policy
        return (total.reshape(problem.policy.shape) * self._ahead).sum(axis=1)


def _cleaned(spread: np.ndarray, scale: float) -> np.ndarray:
    """Variances, with rounding errors set to zero."""
    return np.where(spread > 1e-12 * scale, spread, 0.0)
