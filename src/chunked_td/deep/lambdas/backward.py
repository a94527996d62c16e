"""Backward model: λ is the probability of where we came from, given where we are (§3.2). Its network is `percepts`'.

    V    λ_t = Π_i P̂_i(xⁱ_{t−1} | x_t, π(·|x_t))
    Q    λ_t = P̂_1(x¹_{t−1}, a_{t−1} | x_t, a_t) Π_{i>1} P̂_i(xⁱ_{t−1} | x_t, a_t)

Such a model depends on the policy, so the network reads what the policy does here: its chances, or the action taken. λ
is known on arrival in x_t: it does not depend on what comes next, and the fixed point stays the value of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chunked_td._checks import check_positive, check_whole
from chunked_td.deep.lambdas.base import DeepLambda, Q, SourceSizes, Transitions
from chunked_td.deep.lambdas.percepts import DeepPercepts, PerceptState
from chunked_td.lambdas.backward import BackwardLambda


class BackwardState(NamedTuple):
    """The network, and what was left last in every environment."""

    model: PerceptState
    left: jax.Array  # int32[B, C], codes, the first with the action where the bootstrap is Q; after the latest rollout
    earlier: jax.Array  # before it
    actions: jax.Array  # int32[], how many share a first code: 1 where the bootstrap is V


@dataclass(frozen=True)
class DeepBackward(DeepLambda):
    """The backward model. Args: hidden, learning_rate, batches: as in `DeepPercepts`."""

    hidden: int = 64
    learning_rate: float = 1e-3
    batches: int = 8

    like = BackwardLambda
    needs_codes = True

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, 1)
        check_whole("batches", self.batches, 1)
        check_positive("learning_rate", self.learning_rate)

    @property
    def _percepts(self) -> DeepPercepts:
        return DeepPercepts("realised", self.hidden, self.learning_rate, self.batches)

    def init(self, key: jax.Array, sizes: SourceSizes) -> BackwardState:
        """Every predecessor equally likely."""
        actions = sizes.n_actions if sizes.bootstrap == Q else 1
        left = jnp.zeros((sizes.batch, len(sizes.nvec)), jnp.int32)
        nvec = (sizes.nvec[0] * actions, *sizes.nvec[1:])
        model = self._percepts.init(key, SourceSizes(sizes.inputs + sizes.n_actions, 0, nvec, 0))
        return BackwardState(model, left, left, jnp.asarray(actions, jnp.int32))

    def learn(self, state: BackwardState, transitions: Transitions) -> BackwardState:
        """From every step that is not the first of its episode: what was left before, given what is left now."""
        left = _left(state, state.left, transitions)
        model = self._percepts.learn(state.model, _turned(left, transitions))
        return state._replace(model=model, left=left[-1], earlier=state.left)

    def rewind(self, state: BackwardState, before: BackwardState) -> BackwardState:
        """With what was left before the rollout."""
        return state._replace(left=before.left)

    def lambdas(self, state: BackwardState, transitions: Transitions) -> jax.Array:
        """The probability of the predecessor; 0 in first states, where there is none."""
        return self._both(state, state.earlier, transitions)[0]

    def check(self, state: BackwardState, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        """(expected, realised) as in `DeepPercepts.check`, of a rollout that has not been learned."""
        realised, expected = self._both(state, state.left, transitions)
        return expected, realised

    def _both(self, state: BackwardState, before: jax.Array, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        turned = _turned(_left(state, before, transitions), transitions)
        realised, expected = self._percepts.both(state.model, turned)
        return turned.valid * realised, turned.valid * expected


def _left(state: BackwardState, before: jax.Array, t: Transitions) -> jax.Array:
    """What every step leaves, and first what was left before: int32[1 + T, B, C]."""
    first = t.codes[..., 0] * state.actions + jnp.where(state.actions > 1, t.action, 0)
    return jnp.concatenate([before[None], t.codes.at[..., 0].set(first)])


def _turned(left: jax.Array, t: Transitions) -> Transitions:
    """Transitions as `DeepPercepts` reads them, with the predecessor in place of the next percept."""
    known = jnp.where(t.start, 0.0, 1.0)
    return t._replace(
        inputs=jnp.concatenate([t.inputs, t.policy], -1),
        next_codes=left[:-1],
        policy=t.policy[..., :0],
        valid=known,
        seen=known,
    )
