"""The algorithms of Sutton and Singh (1994) as App. C restates them: state values, step size 1/n(s), no α to choose.

| name | trace factor after step t | TD error |
|---|---|---|
| `NaiveTD0` (App. C.1) | 0 | δ |
| `TDOneOverN` (Alg. 5) | 1/n(S_t) | δ |
| `CorrectedTD` (Alg. 6) | n(S_{t+1},S_t)/n(S_t) | δ' |
| `TDNOverN` | n(S_{t+1},S_t)/n(S_t) | δ |

with δ' = δ + γ(n(S_{t+1},S_t) − 1)[V(S_{t+1}) − V(S_{t+1},S_t)], where V(S_{t+1},S_t) is the value that S_{t+1} had at
the end of the latest episode with that transition. The paper names TD(n/n) without listing it; we read it as TDC's
traces and step sizes with the plain TD error. Traces are multiplied *after* the update here, by a factor known at step
t: that is the next step's γλ of the other learners. The paper's γ is 1; ours multiplies the trace and the next value.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from chunked_td.compiled import kernel
from chunked_td.lambdas import STATE, ConstantLambda
from chunked_td.learners.base import Learner
from chunked_td.learners.recursion import Rule, arrive
from chunked_td.learners.setup import make_rule
from chunked_td.models.counts import Counts, increment
from chunked_td.policies import GIVEN, UNIFORM
from chunked_td.traces import clear, decay, mark, reinforce

NAIVE, ONE_OVER_N, N_OVER_N, CORRECTED = range(4)


@kernel
def sutton_singh_step(values, trace, counts, stale, factor, algorithm, discount, s, s2, reward, terminated):
    """One step of Alg. 5, Alg. 6 and their relatives.

    Args:
      values: float64[S, 1], updated.
      counts: n(s → s'), with room for one pair more.
      stale: float64[capacity of counts]: V(s',s) per counted pair (CORRECTED).
      factor: float64[1], scratch.
    Returns:
      The counted pair.
    """
    pair = increment(counts, s, -1 if terminated else s2)  # the end is a state of its own, whatever is shown there
    n = counts.total[s]
    mark(trace, s, True)
    ahead = 0.0 if terminated else values[s2, 0]
    delta = reward[0] + discount * ahead - values[s, 0]
    if algorithm == CORRECTED and not terminated:
        delta += discount * (counts.number[pair] - 1) * (ahead - stale[pair])
    factor[0] = delta
    reinforce(values, trace, 1.0 / n, factor)
    factor[0] = 0.0
    if algorithm == ONE_OVER_N:
        factor[0] = 1.0 / n
    elif algorithm != NAIVE:
        factor[0] = counts.number[pair] / n
    decay(trace, discount, factor, 0.0)
    return pair


class _SuttonSingh(Learner):
    """State values of a given policy, averaged rather than stepped.

    Args:
      env: a Gymnasium environment with scalar rewards.
      policy, discount, seed, indexer: see `Learner`.
    """

    bootstrap = STATE
    default_source = ConstantLambda(0.0)
    algorithm: ClassVar[int] = NAIVE

    def __init__(self, env: Any, *, discount: float = 1.0, seed: int = 0, policy: Any = None, indexer: Any = None):
        super().__init__(env, discount=discount, seed=seed, policy=policy, indexer=indexer)
        if self.rewards != 1:
            raise ValueError(f"{type(self).__name__} takes scalar rewards, this environment pays {self.rewards}")

    def _make_rule(self) -> Rule:
        policy = UNIFORM if isinstance(self.policy, str) else GIVEN
        return make_rule(STATE, self.lambda_source, 0, self.actions, self.discount, policy=policy)

    def _allocate(self) -> None:
        super()._allocate()
        self.counts = Counts.empty(self._capacity)
        self.stale = np.zeros(self.counts.origin.size)
        self.visited: list[tuple[int, int]] = []
        self._factor = np.zeros(1)

    def _make_room(self) -> None:
        super()._make_room()
        self._match_stale()

    def _grow_states(self) -> None:
        super()._grow_states()
        self.counts = self.counts.grown(self._capacity, self.counts.origin.size)
        self._match_stale()

    def _match_stale(self) -> None:
        if self.stale.size < self.counts.origin.size:
            self.stale = np.concatenate([self.stale, np.zeros(self.counts.origin.size - self.stale.size)])

    def _update(self, state: int, percept: int, legal: np.ndarray, ended: int) -> int:
        action = -1
        if ended != 1:
            rng = self.policy_draws.reserve(1)
            action = arrive(self.rule, self.tables, self.memory, rng, state, legal, 0.0, ended == 0)
        pair = sutton_singh_step(
            self.tables.values,
            self.trace,
            self.counts,
            self.stale,
            self._factor,
            self.algorithm,
            self.discount,
            self.state,
            state,
            self._reward,
            ended == 1,
        )
        if self.algorithm == CORRECTED and ended != 1:
            self.visited.append((int(pair), state))
        return action

    def _abandon(self) -> None:
        """What an unfinished episode has taught is in the values already: it ends here."""
        if self.state >= 0:
            self._finish()

    def _finish(self) -> None:
        clear(self.trace)
        for pair, state in self.visited:
            self.stale[pair] = self.tables.values[state, 0]
        self.visited.clear()
        self.state = self.action = -1
        self.episode += 1


class NaiveTD0(_SuttonSingh):
    """TD(0) with step size 1/n(s) (App. C.1): the plain average of the targets seen."""

    algorithm = NAIVE


class TDOneOverN(_SuttonSingh):
    """TD(1/n) (Alg. 5): targets use the values at the end of the episode."""

    algorithm = ONE_OVER_N


class TDNOverN(_SuttonSingh):
    """TD(n/n) (Related Work): TDC's traces and step sizes with the plain TD error."""

    algorithm = N_OVER_N


class CorrectedTD(_SuttonSingh):
    """TDC (Alg. 6): also replaces the out-of-date values that past targets used."""

    algorithm = CORRECTED
