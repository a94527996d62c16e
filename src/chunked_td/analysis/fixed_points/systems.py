"""The linear systems: mean update, fixed point and variance for one reward component."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chunked_td.analysis.fixed_points.chain import Chain, Moves
from chunked_td.bootstraps import SARSA, STATE


class Weighted(NamedTuple):
    """λ of the transitions of a chain for one reward component, and the policy in the bootstrap."""

    going: np.ndarray
    cut: np.ndarray
    ahead: np.ndarray  # float64[S, A]


class Update(NamedTuple):
    """The mean update b − A·values, per visit of a row, in the rows that are visited."""

    matrix: np.ndarray
    constant: np.ndarray
    seen: np.ndarray  # the rows
    weight: np.ndarray  # float64[R], visits of all rows

    def settled(self) -> np.ndarray:
        """Values at which the mean update is zero, float64[R]; NaN in rows that are never visited."""
        values = np.full(self.weight.size, np.nan)
        values[self.seen] = np.linalg.solve(self.matrix, self.constant)
        return values


class _Means(NamedTuple):
    """E[λ^m δ] = paid − read·values, and γ E[λ^m ·(later)] = move, per node."""

    paid: np.ndarray
    read: Any  # sparse, nodes × rows
    move: Any  # sparse, nodes × nodes


def mean_update(chain: Chain, lambdas: Weighted, i: int) -> Update:
    """A and b of the expected update over an episode, for reward component i."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    nodes, to_rows = chain.row.size, chain.to_rows
    plain = _means(chain, chain.going, np.ones(chain.going.node.size), lambdas.ahead, i)
    traced = _means(chain, chain.going, lambdas.going, lambdas.ahead, i)
    if chain.occupied is None:
        carried = splu(sparse.csc_array(sparse.eye_array(nodes) - traced.move))
        matrix = plain.read + plain.move @ carried.solve(traced.read.toarray())
        constant = plain.paid + plain.move @ carried.solve(traced.paid)
        matrix, constant = to_rows @ (chain.visits[:, None] * matrix), to_rows @ (chain.visits * constant)
    else:
        factors = np.ones(chain.cut.node.size), lambdas.cut
        ends = [_means(chain, chain.cut, factor, lambdas.ahead, i) for factor in factors]
        matrix, constant = _truncated_update(plain, traced, ends, chain.occupied, to_rows)
    weight = to_rows @ chain.visits
    seen = np.flatnonzero(weight > 0)
    return Update(matrix[seen][:, seen] / weight[seen, None], constant[seen] / weight[seen], seen, weight)


def _means(chain: Chain, steps: Moves, factor: np.ndarray, ahead: np.ndarray, i: int) -> _Means:
    """The expectations that are weighed with `factor`, which is 1 or λ."""
    from scipy import sparse

    nodes, discount = chain.row.size, chain.problem.discount
    weight, size = steps.chance * factor, (nodes, chain.problem.n_rows)
    entry, column, coefficient = _bootstrap_terms(chain, steps, ahead)
    read = sparse.csr_array((weight, (steps.node, chain.row[steps.node])), size)
    read = read - sparse.csr_array((discount * weight[entry] * coefficient, (steps.node[entry], column)), size)
    paid = np.bincount(steps.node, weight * steps.reward[:, i], nodes)
    return _Means(paid, read, steps.matrix(discount * weight, nodes))


def _bootstrap_terms(chain: Chain, steps: Moves, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B(x') as a sum over rows: the entry of `steps` that each term belongs to, its row, its coefficient."""
    A, bootstrap = ahead.shape[1], chain.problem.bootstrap
    entry = np.flatnonzero(~steps.ended)
    if bootstrap == STATE:
        return entry, steps.next_state[entry], np.ones(entry.size)
    if bootstrap == SARSA and (steps.next_action[entry] >= 0).all():
        return entry, steps.next_state[entry] * A + steps.next_action[entry], np.ones(entry.size)
    taken = ahead[steps.next_state[entry]]
    which, action = np.nonzero(taken)
    return entry[which], steps.next_state[entry[which]] * A + action, taken[which, action]


def _truncated_update(
    plain: _Means, traced: _Means, ends: list[_Means], occupied: np.ndarray, to_rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """A and b of the expected update over an episode that is cut after T steps: from the last step to the first."""
    last = occupied[-1]
    matrix = to_rows @ (last[:, None] * ends[0].read.toarray())
    constant = to_rows @ (last * ends[0].paid)
    read, paid = ends[1].read.toarray(), ends[1].paid
    for now in occupied[-2::-1]:
        matrix += to_rows @ (now[:, None] * (plain.read + plain.move @ read))
        constant += to_rows @ (now * (plain.paid + plain.move @ paid))
        read, paid = traced.read + traced.move @ read, traced.paid + traced.move @ paid
    return np.asarray(matrix), constant


def variance(chain: Chain, lambdas: Weighted, values: np.ndarray, i: int) -> np.ndarray:
    """Variance of the λ-return given the row, float64[R], at values for which its mean is that of the row.

    E[U²|node] = E[δ² + 2γ δ w(later) + γ² z(later)] with z = E[λ²U²], for which the same holds with λ² in front.

    Args:
      values: float64[R]; NaN in rows that are never visited.
    """
    known = np.where(np.isnan(values), 0.0, values)
    to_rows, weight = chain.to_rows, chain.to_rows @ chain.visits
    errors = [td_errors(chain, steps, known, lambdas.ahead, i) for steps in (chain.going, chain.cut)]
    squares = (_endless_squares if chain.occupied is None else _cut_squares)(chain, lambdas, errors)
    found = np.full(weight.size, np.nan)
    found[weight > 0] = (to_rows @ squares)[weight > 0] / weight[weight > 0]
    return found


def _moments(chain: Chain, steps: Moves, errors: np.ndarray, factor: Any, w: Any, z: Any) -> np.ndarray:
    """E[factor^m U^m | node] for m = 1 and 2."""
    going, discount, nodes = steps.later >= 0, chain.problem.discount, chain.row.size
    ahead_w = np.where(going, w[steps.later], 0.0) * discount
    ahead_z = np.where(going, z[steps.later], 0.0) * discount**2
    mean = np.bincount(steps.node, steps.chance * factor * (errors + ahead_w), nodes)
    square = errors**2 + 2 * errors * ahead_w + ahead_z
    return np.stack([mean, np.bincount(steps.node, steps.chance * factor**2 * square, nodes)])


def _endless_squares(chain: Chain, lambdas: Weighted, errors: list[np.ndarray]) -> np.ndarray:
    """Σ_t P(node at t) E[U²] per node, where episodes are not cut."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    steps, nodes = chain.going, chain.row.size
    factors = [(chain.problem.discount * lambdas.going) ** m * steps.chance for m in (1, 2)]
    moves = [sparse.eye_array(nodes) - steps.matrix(factor, nodes) for factor in factors]
    first, second = (splu(sparse.csc_array(move)) for move in moves)
    nothing = np.zeros(nodes)
    w = first.solve(_moments(chain, steps, errors[0], lambdas.going, nothing, nothing)[0])
    z = second.solve(_moments(chain, steps, errors[0], lambdas.going, w, nothing)[1])
    return chain.visits * _moments(chain, steps, errors[0], 1.0, w, z)[1]


def _cut_squares(chain: Chain, lambdas: Weighted, errors: list[np.ndarray]) -> np.ndarray:
    """The same where episodes are cut after T steps: from the last step to the first."""
    assert chain.occupied is not None
    nothing = np.zeros(chain.row.size)
    total = chain.occupied[-1] * _moments(chain, chain.cut, errors[1], 1.0, nothing, nothing)[1]
    w, z = _moments(chain, chain.cut, errors[1], lambdas.cut, nothing, nothing)
    for now in chain.occupied[-2::-1]:
        total += now * _moments(chain, chain.going, errors[0], 1.0, w, z)[1]
        w, z = _moments(chain, chain.going, errors[0], lambdas.going, w, z)
    return total


def td_errors(chain: Chain, steps: Moves, values: np.ndarray, ahead: np.ndarray, i: int) -> np.ndarray:
    """δ of every transition."""
    entry, column, coefficient = _bootstrap_terms(chain, steps, ahead)
    later = np.bincount(entry, coefficient * values[column], steps.node.size)
    return steps.reward[:, i] + chain.problem.discount * later - values[chain.row[steps.node]]
