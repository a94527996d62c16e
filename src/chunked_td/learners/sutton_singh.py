"""The algorithms of Sutton and Singh (1994) as in App. C: state values, step size 1/n(s), no α to choose.

| name | trace factor after step t | TD error |
|---|---|---|
| `NaiveTD0` (App. C.1) | 0 | δ |
| `TDOneOverN` (Alg. 5) | 1/n(S_t) | δ |
| `CorrectedTD` (Alg. 6) | n(S_{t+1},S_t)/n(S_t) | δ' |
| `TDNOverN` | n(S_{t+1},S_t)/n(S_t) | δ |

with δ' = δ + γ(n(S_{t+1},S_t) − 1)[V(S_{t+1}) − V(S_{t+1},S_t)], where V(S_{t+1},S_t) is the value that S_{t+1} had at
the end of the latest episode with that transition. The paper names TD(n/n) without listing it; we implement it as TDC's
traces and step sizes with the plain TD error. Traces are multiplied *after* the update, by a factor known at step t; it
corresponds to γλ of the next step in other learners. The paper's γ is 1; ours multiplies the trace and the next value.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from chunked_td._link import compiled
from chunked_td.bootstraps import STATE
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.learners import core
from chunked_td.learners.core import FREE, NONE, ONGOING, TERMINATED
from chunked_td.learners.learner import Learner
from chunked_td.learners.state import NO_NUMBER
from chunked_td.models.counts import NUMBER, Counts, increment
from chunked_td.traces import LIMIT, Trace, decay, mark, reinforce

NAIVE, ONE_OVER_N, N_OVER_N, CORRECTED = range(4)


class Averages(NamedTuple):
    """Learned arrays of these algorithms."""

    values: Annotated[np.ndarray, "float64[S, d]"]
    trace: Trace
    counts: Counts  # n(s → s')
    stale: Annotated[np.ndarray, "float64[capacity]"]  # V(s',s) per counted pair (CORRECTED)
    scratch: Annotated[np.ndarray, "float64[one]"]
    watch: Annotated[np.ndarray, "int64[one]"]  # see `AgentState`


def sutton_singh_step(averages, algorithm, discount, s, s2, reward, terminated):
    """Make one update of Alg. 5, Alg. 6 or a variant; return the counted pair. Requires room for one more pair."""
    values, trace, counts, scratch = averages.values, averages.trace, averages.counts, averages.scratch
    pair = increment(counts, s, -1 if terminated else s2)  # termination is a state of its own
    n = counts.total[s]
    mark(trace, s, True)
    ahead = 0.0 if terminated else values[s2, 0]
    delta = reward[0] + discount * ahead - values[s, 0]
    if algorithm == CORRECTED and not terminated:
        delta += discount * (counts.pairs[pair, NUMBER] - 1) * (ahead - averages.stale[pair])
    if not abs(delta) <= LIMIT:  # also true of NaN; the step size is at most 1
        averages.watch[0] |= NO_NUMBER
    scratch[0] = delta
    reinforce(values, trace, 1.0 / n, scratch)
    scratch[0] = 0.0
    if algorithm == ONE_OVER_N:
        scratch[0] = 1.0 / n
    elif algorithm != NAIVE:
        scratch[0] = counts.pairs[pair, NUMBER] / n
    decay(trace, discount, scratch, 0.0)
    return pair


class SuttonSingh(Learner):
    """State values of a given policy, averaged rather than stepped.

    Args:
      env: a Gymnasium environment with scalar rewards.
      policy, discount, seed, indexer, action_mask: see `Learner`.
    """

    bootstrap = STATE
    default_source = ConstantLambda(0.0)
    takes_features = False
    algorithm: ClassVar[int] = NAIVE

    def __init__(
        self,
        env: Any,
        *,
        discount: float = 1.0,
        seed: int = 0,
        policy: Any = None,
        indexer: Any = None,
        action_mask: bool | None = None,
    ):
        super().__init__(env, discount=discount, seed=seed, policy=policy, indexer=indexer, action_mask=action_mask)
        if self.n_rewards != 1:
            raise ValueError(f"env: {type(self).__name__} requires scalar rewards, got {self.n_rewards} components")

    def _allocate(self) -> None:
        super()._allocate()
        self._counts = Counts.empty(self._capacity)
        self.stale = np.zeros(self._counts.pairs.shape[0])
        self.visited: list[tuple[int, int]] = []
        self._scratch = np.zeros(1)

    @property
    def counts(self) -> Counts:
        """n(s → s')."""
        return self._counts

    def _make_room(self) -> None:
        super()._make_room()
        if self._counts.room < self._room + 1:
            self._grow_counts(self._counts.head.size, 2 * self._counts.pairs.shape[0])

    def _grow_states(self) -> None:
        super()._grow_states()
        self._grow_counts(self._capacity, self._counts.pairs.shape[0])

    def _grow_counts(self, origins: int, capacity: int) -> None:
        self._counts = self._counts.grown(origins, capacity)
        self.stale = np.concatenate([self.stale, np.zeros(capacity - self.stale.size)])

    def _begin(self, state: int, given: int) -> int:
        return self._select(state, True) if given == FREE else given

    def _select(self, state: int, acting: bool) -> int:
        return int(self._entry(core.select, 2)(self._address(), state, int(acting)))

    def _update(self, state: int, percept: int, ended: int, given: int) -> int:
        action = given if given != FREE else NONE
        if ended != TERMINATED and given == FREE:
            action = self._select(state, ended == ONGOING)
        learned: Any = self.tables.values, self.trace, self._counts, self.stale
        averages = Averages(*learned, scratch=self._scratch, watch=self._state.watch)
        terminated = ended == TERMINATED
        learn = compiled(sutton_singh_step)
        pair = learn(averages, self.algorithm, self.discount, self.state, state, self._reward, terminated)
        if self.algorithm == CORRECTED and not terminated:
            self.visited.append((int(pair), state))
        return action

    def _abandon(self) -> None:
        """End an unfinished episode here: its updates are already in the values."""
        if self.state >= 0:
            self._finish()

    def _finish(self) -> None:
        self._check_watch()
        for pair, state in self.visited:
            self.stale[pair] = self.tables.values[state, 0]
        self.visited.clear()
        self._forget()


class NaiveTD0(SuttonSingh):
    """TD(0) with step size 1/n(s) (App. C.1): the mean of the past targets."""

    algorithm = NAIVE


class TDOneOverN(SuttonSingh):
    """TD(1/n) (Alg. 5): targets use the values at the end of the episode."""

    algorithm = ONE_OVER_N


class TDNOverN(SuttonSingh):
    """TD(n/n) (Related Work): TDC's traces and step sizes with the plain TD error."""

    algorithm = N_OVER_N


class CorrectedTD(SuttonSingh):
    """TDC (Alg. 6): also corrects past targets for values that have changed since."""

    algorithm = CORRECTED
