"""Fixed point, bias, variance of the target and contraction rate of a λ method, by linear algebra.

With small steps, a tabular method with traces settles where its expected update over an episode is zero,

    E[Σ_t δ_t e_t] = 0,   e_t = γ λ_t e_{t−1} + 1(row_t),   δ_t = r_{t+1} + γ B(x_{t+1}) − Q(row_t).

Summed by visits this reads Σ_k E[1(row_k) U_k] = 0 with U_k = δ_k + γ λ_{k+1} U_{k+1}, and U = 0 after the end. λ_t may
depend on all of transition t: on x_t, a_t, x_{t+1} and a_{t+1}. Given (x_{k+1}, a_{k+1}), the rest of the episode does
not depend on what was before, so two functions of the pair (x, a) are enough:

    w(x,a) = E[λ_k U_k | x,a] = E[λ (δ + γ w(x',a'))],      h(x,a) = E[U_k | x,a] = E[δ + γ w(x',a')].

Both are linear in the values. The fixed point has h = 0 in every row that is visited: for action values in every pair,
for state values in the mean over a ~ π. If λ depends on (x, a) alone then w = λ h, and h = 0 at Q^π, where
E[δ|x,a] = 0. If it depends on the outcome of the step then E[λ δ] ≠ 0 there, and Q^π is not the fixed point.

A λ may also depend on the way to x_t within the episode: on x_{t−1} (`BackwardLambda`). Then w and h are functions of
the pair and of that memory (`places`). The true values stay a fixed point: E[δ_t | all that was before a_{t+1}] = 0.

Q-learning bootstraps from the best action, so its update is linear only as long as that action stays the same. The
fixed point is found as in policy iteration: solve with the best actions of now, look which are best, and again.

Truncation cuts U short, so near the limit w and h depend on time; this is taken into account. A state that is met only
where episodes are cut is never updated: the values of others bootstrap from its first value, zero.

| file | what it holds |
|---|---|
| `chain` | a problem under a fixed policy, its true values; states with what λ remembers, and all transitions |
| `weights` | λ of every transition, by the source's own kernel; what models and sources that learn tend to |
| `systems` | the linear systems |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td._loading import require
from chunked_td.analysis.fixed_points.chain import LEARNERS, Chain, Places, Problem
from chunked_td.analysis.fixed_points.systems import Update, Weighted, mean_update, variance
from chunked_td.analysis.fixed_points.weights import LambdaFunction, as_weight, lambdas_of, places_for
from chunked_td.bootstraps import Q_LEARNING, STATE
from chunked_td.envs.dynamics import Dynamics
from chunked_td.lambdas.base import LambdaSource

__all__ = ["LEARNERS", "FixedPoint", "LambdaFunction", "fixed_point"]

_MOST_TURNS = 100  # of policy iteration


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The fixed point of a λ method. R rows: S states ("td"), or S·A pairs, state first.

    Attributes:
      values: float64[R, d], the fixed point; NaN in rows that are never visited.
      truth: float64[R, d], V^π or Q^π; for Q-learning Q*.
      visits: float64[R], expected visits per episode.
      variance: float64[R, d], variance of the λ-return at the fixed point, given the row.
      update: float64[V, V, d], the matrix A of the mean update b − A·values in the V rows that are visited, per visit
        of each row. For Q-learning with the best actions as they are at the fixed point.
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
    def mean_variance(self) -> float:
        """Variance of the λ-return, averaged over the visits of an episode, summed over reward components."""
        seen = self.visits > 0
        return float(np.average(self.variance[seen].sum(axis=1), weights=self.visits[seen]))

    @cached_property
    def rate(self) -> float:
        """Spectral radius of the λ-operator values ↦ values + (b − A·values): the error left after each application.

        0 is Monte Carlo; γ is TD(0) on a chain that never ends. Above 1, which λ may cause where Q-learning explores,
        the fixed point may not be reached.
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

    Models and sources that count or learn are taken as they are after ever more episodes: forward and backward
    probabilities are the true ones under the policy, 1/n(x) is 0, n(x)/n(y) is the ratio of expected visits. A source
    whose λ has no such limit (`AdaptiveLambda`, `MetaGradientLambda`, and `GreedyLambda` where it
    forgets) is refused unless `learned` has its arrays.

    Args:
      problem: a `TransitionTable`, or other dynamics that can be listed.
      lambda_source: a source; its λ is computed by its own kernel. A number is a constant λ. A function
        λ(x, a, x', a') of state and action numbers is called for every transition; a' is None on the last one.
      learner: "td", "sarsa", "expected_sarsa" or "q_learning".
      policy: "uniform", or float64[S, A].
      values, epsilon: for the ε-greedy policy of action values, float64[S, A], instead of `policy`. A source that reads
        action values sees these; by default it sees Q^π or Q*, and for state values always V^π.
      discount: γ.
      learned: for a source that learns, its final `arrays` by name; missing ones are zero. None:
        what they tend to.
    """
    require("fixed_point", "scipy")
    setting = Problem.make(problem, learner, discount, policy, values, epsilon)
    source, truth = as_weight(lambda_source), setting.true_values()
    pairs = Chain.make(setting, Places.without_memory(setting.table))
    places = places_for(source, setting)
    chain = pairs if places is None else Chain.make(setting, places)
    seen = np.where(np.bincount(pairs.row, pairs.visits, setting.n_rows)[:, None] > 0, truth, 0.0)
    if values is not None and setting.bootstrap != STATE:  # all in the first component: the policy is greedy in the sum
        seen = np.zeros(truth.shape)
        seen[:, 0] = np.asarray(values, np.float64).ravel()
    lambdas = lambdas_of(source, chain, pairs, seen, learned)
    updates, found, weighted = _settle(chain, lambdas, truth)
    spread = [variance(chain, each, found[:, i], i) for i, each in enumerate(weighted)]
    matrices = [update.matrix for update in updates]
    return FixedPoint(found, truth, updates[0].weight, np.stack(spread, axis=-1), np.stack(matrices, axis=-1))


def _settle(chain: Chain, lambdas: Any, truth: np.ndarray) -> tuple[list[Update], np.ndarray, list[Weighted]]:
    """The mean updates of all reward components, the fixed point, and λ with the policy in the bootstrap there."""
    problem, ahead = chain.problem, chain.problem.ahead(truth)
    for _ in range(_MOST_TURNS):
        each = [Weighted(lambdas[0][:, i], lambdas[1][:, i], ahead) for i in range(truth.shape[1])]
        updates = [mean_update(chain, weighted, i) for i, weighted in enumerate(each)]
        found = np.stack([update.settled() for update in updates], axis=-1)
        better = problem.ahead(np.nan_to_num(found))
        if problem.bootstrap != Q_LEARNING or (better == ahead).all():
            return updates, found, each
        ahead = better
    raise ValueError(
        f"lambda_source: no fixed point was found for Q-learning in {_MOST_TURNS} turns of policy iteration; with this "
        f"λ there may be none"
    )
