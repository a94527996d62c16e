"""What a λ method converges to, by linear algebra: its fixed point, bias, variance of the target, contraction rate.

With small steps, a tabular method with traces settles where its expected update over an episode is zero,

    E[Σ_t δ_t e_t] = 0,   e_t = γ λ_t e_{t−1} + 1(row_t),   δ_t = r_{t+1} + γ B(x_{t+1}) − Q(row_t).

Summed by visits this reads Σ_k E[1(row_k) U_k] = 0 with U_k = δ_k + γ λ_{k+1} U_{k+1}, and U = 0 after the end. λ_t may
depend on all of transition t: on x_t, a_t, x_{t+1} and a_{t+1}. Given (x_{k+1}, a_{k+1}), the rest of the episode does
not depend on what was before, so two functions of the pair (x, a) are enough:

    w(x,a) = E[λ_k U_k | x,a] = E[λ (δ + γ w(x',a'))],      h(x,a) = E[U_k | x,a] = E[δ + γ w(x',a')].

Both are linear in the values. The fixed point has h = 0 in every row that is visited: for action values in every pair,
for state values in the mean over a ~ π. If λ depends on (x, a) alone then w = λ h, and h = 0 at Q^π, where
E[δ|x,a] = 0. If it depends on what came of the step then E[λ δ] ≠ 0 there, and Q^π is not the fixed point.

Truncation cuts U short, so near the limit w and h depend on time; this is taken into account. A state that is met only
where episodes are cut is never updated: the values of others bootstrap from its first value, zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_choice, check_unit
from chunked_td._numba import by_type, code, kernel, static
from chunked_td.analysis.exact import ExactModel
from chunked_td.bootstraps import BOOTSTRAPS, SARSA, STATE
from chunked_td.envs.dynamics import Dynamics, TransitionTable
from chunked_td.lambdas.base import COUNTED, LambdaSource, Needs, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.step import Step
from chunked_td.learners.count_models import component_parts
from chunked_td.learners.state import Tables
from chunked_td.models.oracle import TableOracle

#: λ(x, a, x', a'), where a' is None on the last transition
LambdaFunction = Callable[[int, int, int, int | None], float]

LEARNERS = ("td", "sarsa", "expected_sarsa")
"""Learners whose update is linear in the values; that of Q-learning is not."""

_MOST_PAIRS = 12_000  # dense matrices of this size fit into memory

_SURVIVING = 1e-12  # episodes that are cut less often than this are taken to end by themselves


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Where a λ method settles. R rows: S states ("td"), or S·A pairs, state first.

    Attributes:
      values: float64[R, d], the fixed point; NaN in rows that are never visited.
      truth: float64[R, d], V^π or Q^π.
      visits: float64[R], expected visits per episode.
      variance: float64[R, d], variance of the λ-return at the fixed point, given the row.
      update: float64[V, V, d], the matrix A of the mean update b − A·values in the V rows that are visited.
    """

    values: np.ndarray
    truth: np.ndarray
    visits: np.ndarray
    variance: np.ndarray
    update: np.ndarray

    @property
    def bias(self) -> np.ndarray:
        """float64[R, d]: fixed point − truth."""
        return self.values - self.truth

    @property
    def max_bias(self) -> float:
        """The largest error of a visited row, over all reward components."""
        return float(np.nanmax(np.abs(self.bias)))

    @property
    def mean_bias(self) -> float:
        """Root mean square error over the visits of an episode, of the values summed over reward components."""
        seen = self.visits > 0
        errors = self.bias[seen].sum(axis=1)
        return float(np.sqrt(np.average(errors**2, weights=self.visits[seen])))

    @property
    def mean_variance(self) -> float:
        """Variance of the λ-return, averaged over the visits of an episode, summed over reward components."""
        seen = self.visits > 0
        return float(np.average(self.variance[seen].sum(axis=1), weights=self.visits[seen]))

    @cached_property
    def rate(self) -> float:
        """Spectral radius of the λ-operator values ↦ values + (b − A·values): the error left after each application.

        0 is Monte Carlo; γ is TD(0) on a chain that never ends.
        """
        d = self.update.shape[2]
        eye = np.eye(self.update.shape[0])
        return float(max(np.abs(np.linalg.eigvals(eye - self.update[:, :, i])).max() for i in range(d)))


def fixed_point(
    problem: Dynamics,
    lambda_source: LambdaSource | float | LambdaFunction,
    *,
    learner: str = "td",
    discount: float = 1.0,
    policy: np.ndarray | str = "uniform",
    values: np.ndarray | None = None,
    epsilon: float | None = None,
    learned: Mapping[str, Any] | None = None,
) -> FixedPoint:
    """Find where a λ method settles on a finite problem under a fixed policy, with a perfect model.

    Args:
      problem: a `TransitionTable`, or other dynamics that can be listed.
      lambda_source: a source whose λ follows from model and policy; it is computed by the source's own kernel. A number
        is a constant λ. A function λ(x, a, x', a') of state and action numbers is asked for every transition; a' is
        None on the last one.
      learner: "td", "sarsa" or "expected_sarsa".
      policy: "uniform", or float64[S, A].
      values, epsilon: for the ε-greedy policy of action values, float64[S, A], instead of `policy`. A source that reads
        values sees these; by default it sees V^π or Q^π.
      discount: γ.
      learned: for a source that learns, its `arrays` as they are in the end, by name; those left out are zero.
    """
    table = problem if isinstance(problem, TransitionTable) else TransitionTable.from_dynamics(problem)
    bootstrap = BOOTSTRAPS[check_choice("learner", learner, LEARNERS)]
    discount = check_unit("discount", discount)
    if table.n_states * table.n_actions > _MOST_PAIRS:
        raise ValueError(
            f"problem must have at most {_MOST_PAIRS:,} pairs of state and action, "
            f"got {table.n_states:,} × {table.n_actions}"
        )
    pi, epsilon_used = _policy(table, policy, values, epsilon)
    truth = _true_values(table, pi, discount, bootstrap)
    chain = _Chain.make(table, pi)
    cut = _Chain.make(table, pi, truncated=True)
    given = truth
    if values is not None:  # all in the first component: the policy is greedy in the sum
        given = np.zeros((pi.size, table.n_rewards))
        given[:, 0] = np.asarray(values, np.float64).ravel()
    lambdas = [
        _lambdas(table, lambda_source, bootstrap, discount, pi, epsilon_used, given, steps, learned)
        for steps in (chain, cut)
    ]
    parts = [
        _settle(table, chain, cut, bootstrap, pi, discount, i, [lambda_[:, i] for lambda_ in lambdas])
        for i in range(table.n_rewards)
    ]
    found, variance, update = (np.stack([part[k] for part in parts], axis=-1) for k in range(3))
    return FixedPoint(found, truth, parts[0][3], variance, update)


def _policy(table: TransitionTable, policy: Any, values: Any, epsilon: Any) -> tuple[np.ndarray, float]:
    """float64[S, A], and ε where it is an ε-greedy one; NaN where the policy cannot be said that way."""
    legal = table.legal_actions
    count = np.maximum(legal.sum(axis=1, keepdims=True), 1)
    if (values is None) != (epsilon is None):
        raise ValueError("values and epsilon must be given together")
    if values is not None:
        epsilon = check_unit("epsilon", epsilon)
        q = np.asarray(values, np.float64)
        if q.shape != legal.shape:
            raise ValueError(f"values must have the shape {legal.shape}, got {q.shape}")
        masked = np.where(legal, q, -np.inf)
        greedy = legal & (masked == masked.max(axis=1, keepdims=True))
        return legal * epsilon / count + greedy * (1 - epsilon) / np.maximum(greedy.sum(1, keepdims=True), 1), epsilon
    if isinstance(policy, str):
        check_choice("policy", policy, ["uniform"])
        return legal / count, 1.0
    pi = np.asarray(policy, np.float64)
    if pi.shape != legal.shape:
        raise ValueError(f"policy must have the shape {legal.shape}, got {pi.shape}")
    wrong = legal.any(axis=1) & ~(np.isclose(np.where(legal, pi, 0).sum(axis=1), 1) & (pi >= 0).all(axis=1))
    if wrong.any():
        s = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"policy must sum to 1 over the legal actions, got {pi[s]} in state {s}")
    return np.where(legal, pi, 0.0), np.nan


def _true_values(table: TransitionTable, pi: np.ndarray, discount: float, bootstrap: int) -> np.ndarray:
    """V^π or Q^π, float64[rows, d]; zero in rows that cannot be reached."""
    model = ExactModel(table)
    exact = model.evaluate(pi[model.ids], discount)
    if bootstrap == STATE:
        v = np.zeros((table.n_states, table.n_rewards))
        v[model.ids] = exact.v
        return v
    return exact.table().reshape(-1, table.n_rewards)


class _Chain(NamedTuple):
    """Every transition from pair to pair that the policy can make: one entry per (x, a, outcome, a')."""

    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    next_action: np.ndarray  # −1 on the last transition
    ended: np.ndarray
    reward: np.ndarray  # float64[n, d]
    chance: np.ndarray  # P(outcome|x, a) π(a'|x')

    @classmethod
    def make(cls, table: TransitionTable, pi: np.ndarray, truncated: bool = False) -> _Chain:
        """All transitions; with `truncated` those of the step at which an episode is cut, where no a' is drawn."""
        A = table.n_actions
        pair = np.repeat(np.arange(table.first.size - 1), np.diff(table.first))
        used = (pi.ravel() > 0)[pair]
        k = np.flatnonzero(used)
        ends = table.ends[k] | truncated
        going = np.flatnonzero(~ends)
        row, a = np.nonzero(pi[table.target[k[going]]] > 0)
        outcome = np.concatenate([k[ends], k[going][row]])
        following = np.concatenate([np.full(ends.sum(), -1), a])
        chance = table.chance[outcome]
        later = following >= 0
        chance[later] *= pi[table.target[outcome[later]], following[later]]
        return cls(
            pair[outcome] // A, pair[outcome] % A, table.target[outcome], following, table.ends[outcome],
            table.reward[outcome], chance,
        )  # fmt: skip


# ---- λ of every transition


_lambda_of = by_type("lambda_t")


@kernel
def fill_lambda(source, per_component, bootstrap, n_actions, discount, tables, model, policy, epsilon, chain, out):
    """λ of every transition by the source's own kernel.

    Args:
      policy: float64[S + 1, A]; the last row is scratch. chain: the arrays of a `_Chain`. out: float64[n, d], written.
    """
    scratch = policy[policy.shape[0] - 1]
    for j in range(out.shape[0]):
        s, x = chain[0][j], chain[2][j]
        step = Step(
            s,
            chain[1][j],
            x,
            None,
            x,
            chain[3][j],
            -1,
            policy[s],
            policy[x],
            scratch,
            epsilon,
            bootstrap,
            n_actions,
            discount,
            tables,
            model,
            None,
        )
        for i in range(out.shape[1]):
            out[j, i] = _lambda_of(source, step, i if code(per_component) else 0)


def _lambdas(
    table: TransitionTable,
    source: Any,
    bootstrap: int,
    discount: float,
    pi: np.ndarray,
    epsilon: float,
    values: np.ndarray,
    chain: _Chain,
    learned: Mapping[str, Any] | None,
) -> np.ndarray:
    """λ of every transition, float64[n, d]."""
    n, d, A = chain.state.size, table.n_rewards, table.n_actions
    if callable(source) and not isinstance(source, LambdaSource):
        columns = zip(*(column.tolist() for column in chain[:4]), strict=True)
        given = [source(s, a, x, None if b < 0 else b) for s, a, x, b in columns]
        out = np.array(given, np.float64).reshape(n, 1)
        if not ((out >= 0) & (out <= 1)).all():
            raise ValueError("lambda_source must give numbers in [0, 1]")
        return np.repeat(out, d, axis=1)
    source = as_lambda_source(source, ConstantLambda(0.0))
    _check_known(source, bootstrap, epsilon, learned)
    legal = table.legal_actions if Needs.LEGAL in source.needs_with(bootstrap) else np.zeros((0, A), bool)
    nvec = np.array(table.nvec, np.int64)
    tables = Tables(np.ascontiguousarray(values), legal, nvec, component_parts(source, d, nvec.size))
    model = TableOracle.make(*table.transition_lists())
    out = np.zeros((n, d))
    compiled = source.compiled({"S": table.n_states, "A": A, "d": d, "rows": len(values)})
    for name, given in (learned or {}).items():
        getattr(compiled, check_choice("learned", name, source.arrays))[:] = given
    arrays = tuple(np.ascontiguousarray(column, np.int64) for column in chain[:4])
    fill_lambda(
        compiled, static(int(source.per_component)), static(bootstrap), A, discount, tables, model,
        np.append(pi, np.zeros((1, A)), axis=0), 0.0 if np.isnan(epsilon) else epsilon, arrays, out,
    )  # fmt: skip
    return out


def _check_known(source: LambdaSource, bootstrap: int, epsilon: float, learned: Any) -> None:
    """Refuse a source whose λ does not follow from the model and the policy."""
    needs, name = source.needs_with(bootstrap), type(source).__name__
    if needs & COUNTED or not source.is_compiled:
        raise ValueError(
            f"lambda_source must follow from model and policy, and be compiled; {name} counts or is plain Python. "
            f"Give a function λ(x, a, x', a') for what it comes to"
        )
    if source.learns and learned is None:
        raise ValueError(
            f"learned must be given for {name}: its arrays {', '.join(source.arrays)} as they are in the end"
        )
    if Needs.LEGAL in needs and np.isnan(epsilon):
        raise ValueError(f"policy must be uniform or ε-greedy (values=, epsilon=) for {name} with this learner")


# ---- the linear systems


class _Parts(NamedTuple):
    """E[λ^m δ] = paid − read·values, and γ E[λ^m ·(x', a')] = move, per pair."""

    paid: np.ndarray
    read: Any  # sparse, pairs × rows
    move: Any  # sparse, pairs × pairs


def _settle(
    table: TransitionTable,
    chain: _Chain,
    cut: _Chain,
    bootstrap: int,
    pi: np.ndarray,
    discount: float,
    i: int,
    lambdas: list[np.ndarray],
) -> tuple[np.ndarray, ...]:
    """Fixed point, variance, update matrix and visits for reward component i."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    A, S = table.n_actions, table.n_states
    occupied = _occupancy(table, chain, pi)
    stops = occupied is None or occupied[-1].sum() <= _SURVIVING
    visits = _total_visits(table, chain, pi) if occupied is None else occupied.sum(axis=0)
    rows = np.arange(S * A) // A if bootstrap == STATE else np.arange(S * A)
    to_rows = sparse.csr_array((np.ones(S * A), (rows, np.arange(S * A))), (rows.max() + 1, S * A))
    weight = to_rows @ visits
    seen = np.flatnonzero(weight > 0)
    plain = _parts(chain, np.ones(chain.state.size), bootstrap, pi, discount, i)
    traced = _parts(chain, lambdas[0], bootstrap, pi, discount, i)
    ends = [_parts(cut, lambda_, bootstrap, pi, discount, i) for lambda_ in (np.ones(cut.state.size), lambdas[1])]
    if occupied is None or stops:
        carried = splu(sparse.csc_array(sparse.eye_array(S * A) - traced.move))
        A_ = plain.read + plain.move @ carried.solve(traced.read.toarray())
        b = plain.paid + plain.move @ carried.solve(traced.paid)
        A_, b = to_rows @ (visits[:, None] * A_), to_rows @ (visits * b)
    else:
        A_, b = _truncated_update(plain, traced, ends, occupied, to_rows)
    A_, b = A_[seen][:, seen] / weight[seen, None], b[seen] / weight[seen]
    values = np.full(weight.size, np.nan)
    values[seen] = np.linalg.solve(A_, b)
    filled = np.where(np.isnan(values), 0.0, values)
    variance = np.full(weight.size, np.nan)
    spread = _variance(chain, cut, lambdas, filled, bootstrap, pi, discount, i, A, None if stops else occupied, visits)
    variance[seen] = (to_rows @ spread)[seen] / weight[seen]
    return values, variance, A_, weight


def _parts(chain: _Chain, factor: np.ndarray, bootstrap: int, pi: np.ndarray, discount: float, i: int) -> _Parts:
    """The expectations that are weighed with `factor`, which is 1 or λ."""
    from scipy import sparse

    S, A = pi.shape
    pair, weight = chain.state * A + chain.action, chain.chance * factor
    going = np.flatnonzero(chain.next_action >= 0)
    later = chain.next_state[going] * A + chain.next_action[going]
    move = sparse.csr_array((discount * weight[going], (pair[going], later)), (S * A, S * A))
    entry, column, coefficient = _bootstrap_terms(chain, bootstrap, pi)
    own = chain.state if bootstrap == STATE else pair
    size = (S * A, S if bootstrap == STATE else S * A)
    read = sparse.csr_array((weight, (pair, own)), size)
    read = read - sparse.csr_array((discount * weight[entry] * coefficient, (pair[entry], column)), size)
    return _Parts(np.bincount(pair, weight * chain.reward[:, i], S * A), read, move)


def _bootstrap_terms(chain: _Chain, bootstrap: int, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B(x') as a sum over rows: the entry of `chain` that each term belongs to, its row, its coefficient."""
    A = pi.shape[1]
    entry = np.flatnonzero(~chain.ended)
    if bootstrap == STATE:
        return entry, chain.next_state[entry], np.ones(entry.size)
    if bootstrap == SARSA and (chain.next_action[entry] >= 0).all():
        return entry, chain.next_state[entry] * A + chain.next_action[entry], np.ones(entry.size)
    ahead = pi[chain.next_state[entry]]
    which, action = np.nonzero(ahead)
    return entry[which], chain.next_state[entry[which]] * A + action, ahead[which, action]


def _occupancy(table: TransitionTable, chain: _Chain, pi: np.ndarray, most: int = 20_000) -> np.ndarray | None:
    """P(x_t, a_t) for t = 0 .. T − 1, float64[T, S·A]; shorter if all episodes end before, None if it were too long."""
    step = _pair_steps(chain, pi)
    now, found = _first_pairs(table, pi), []
    for _ in range(table.horizon):
        if len(found) * now.size > 50_000_000 or len(found) > most:
            return None
        found.append(now)
        if now.sum() <= _SURVIVING:
            break
        now = now @ step
    return np.array(found)


def _first_pairs(table: TransitionTable, pi: np.ndarray) -> np.ndarray:
    start = np.bincount(table.start, table.start_chance, table.n_states)
    return (start[:, None] * pi).ravel()


def _pair_steps(chain: _Chain, pi: np.ndarray) -> Any:
    from scipy import sparse

    going = np.flatnonzero(chain.next_action >= 0)
    A = pi.shape[1]
    source = chain.state[going] * A + chain.action[going]
    target = chain.next_state[going] * A + chain.next_action[going]
    return sparse.csr_array((chain.chance[going], (source, target)), (pi.size, pi.size))


def _total_visits(table: TransitionTable, chain: _Chain, pi: np.ndarray) -> np.ndarray:
    """Expected visits of every pair where episodes are not cut: d = d₀ + dP."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    return splu(sparse.csc_array(sparse.eye_array(pi.size) - _pair_steps(chain, pi).T)).solve(_first_pairs(table, pi))


def _truncated_update(
    plain: _Parts, traced: _Parts, ends: list[_Parts], occupied: np.ndarray, to_rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """A and b of the expected update over an episode that is cut after T steps: from the last step to the first."""
    last = occupied[-1]
    A_ = to_rows @ (last[:, None] * ends[0].read.toarray())
    b = to_rows @ (last * ends[0].paid)
    read, paid = ends[1].read.toarray(), ends[1].paid
    for now in occupied[-2::-1]:
        A_ += to_rows @ (now[:, None] * (plain.read + plain.move @ read))
        b += to_rows @ (now * (plain.paid + plain.move @ paid))
        read, paid = traced.read + traced.move @ read, traced.paid + traced.move @ paid
    return np.asarray(A_), b


def _variance(
    chain: _Chain, cut: _Chain, lambdas: list[np.ndarray], values: np.ndarray, bootstrap: int, pi: np.ndarray,
    discount: float, i: int, A: int, occupied: np.ndarray | None, visits: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Σ_t P(x_t, a_t) E[(U_t − mean)²] per pair, at the given values. The mean of a row is 0 at the fixed point.

    E[U²|x,a] = E[δ² + 2γ δ w(x',a') + γ² z(x',a')] with z = E[λ²U²], for which the same holds with λ² in front.
    """
    from scipy import sparse
    from scipy.sparse.linalg import splu

    def moments(steps: _Chain, factor: np.ndarray, w: np.ndarray, z: np.ndarray) -> np.ndarray:
        """E[factor · U^m] for m = 1 and 2."""
        errors, later = deltas[id(steps)], steps.next_state * A + steps.next_action
        ahead_w = np.where(steps.next_action >= 0, w[later], 0.0) * discount
        ahead_z = np.where(steps.next_action >= 0, z[later], 0.0) * discount**2
        pair, first = steps.state * A + steps.action, steps.chance * factor
        mean = np.bincount(pair, first * (errors + ahead_w), pi.size)
        square = np.bincount(pair, steps.chance * factor**2 * (errors**2 + 2 * errors * ahead_w + ahead_z), pi.size)
        return np.stack([mean, square])

    deltas = {id(steps): _td_errors(steps, values, bootstrap, pi, discount, i) for steps in (chain, cut)}
    ones, nothing = [np.ones(steps.state.size) for steps in (chain, cut)], np.zeros(pi.size)
    if occupied is None:
        pair = chain.state * A + chain.action
        going = np.flatnonzero(chain.next_action >= 0)
        later = chain.next_state[going] * A + chain.next_action[going]
        moves = [
            sparse.csc_array(((discount * lambdas[0][going]) ** m * chain.chance[going], (pair[going], later)),
                             (pi.size, pi.size))
            for m in (1, 2)
        ]  # fmt: skip
        w = splu(sparse.csc_array(sparse.eye_array(pi.size) - moves[0])).solve(
            moments(chain, lambdas[0], nothing, nothing)[0]
        )
        z = splu(sparse.csc_array(sparse.eye_array(pi.size) - moves[1])).solve(
            moments(chain, lambdas[0], w, nothing)[1]
        )
        return visits * moments(chain, ones[0], w, z)[1]
    total = occupied[-1] * moments(cut, ones[1], nothing, nothing)[1]
    w, z = moments(cut, lambdas[1], nothing, nothing)
    for now in occupied[-2::-1]:
        total += now * moments(chain, ones[0], w, z)[1]
        w, z = moments(chain, lambdas[0], w, z)
    return total


def _td_errors(
    chain: _Chain, values: np.ndarray, bootstrap: int, pi: np.ndarray, discount: float, i: int
) -> np.ndarray:
    """δ of every transition."""
    entry, column, coefficient = _bootstrap_terms(chain, bootstrap, pi)
    ahead = np.bincount(entry, coefficient * values[column], chain.state.size)
    own = chain.state if bootstrap == STATE else chain.state * pi.shape[1] + chain.action
    return chain.reward[:, i] + discount * ahead - values[own]
