"""Maturity in networks: a second head on the critic's last layer learns the weight I of initial values.

    λ'(x) = 1 − (1 − λ(x))(1 − I(x)),   I = 1 at first, learned as a value with reward 0

I is linear in what the critic's last layer reads. Streaming learners move it with the trace and the step size of that
layer, so without hidden layers it is I ← I + α e (γ I(x') − I(x)) with a table of I. Rollouts have neither, so
there the head moves towards its own λ'-returns, in a few batches per rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chunked_td.returns import gae
from studies.networks.lambdas.base import DeepLambda, Q, SourceSizes, StreamCredit, Transitions, in_batches

_CHUNKS = 8  # updates per rollout


class MatureState(NamedTuple):
    """The state of the source, the head's weights (A' = 1 for V), and its TD error of the present transition."""

    inner: Any
    head: jax.Array  # float32[A', features + 1]
    error: jax.Array  # float32[]; streaming learners only


@dataclass(frozen=True)
class DeepMature(DeepLambda):
    """Any source, with λ raised towards 1 while values are immature: 1 − (1 − λ)(1 − I). Maturity is 1 − I.

    Args:
      source: the λ source. batch_rate: of the head's normalised least-mean-squares update per batch of a rollout; by
      default a third of I goes per rollout at first, as a critic needs a few rollouts to learn its first values.
    """

    source: DeepLambda
    batch_rate: float = 0.05

    @property
    def needs_draws(self) -> bool:
        """Whether the source does."""
        return self.source.needs_draws

    @property
    def sources(self) -> tuple[DeepLambda]:
        """The source, as a switch has them."""
        return (self.source,)

    def init(self, key: jax.Array, sizes: SourceSizes) -> MatureState:
        """I = 1 everywhere: weights 0, bias 1."""
        outputs, width = sizes.n_actions if sizes.bootstrap == Q else 1, sizes.features or sizes.inputs
        head = jnp.zeros((outputs, width + 1)).at[:, -1].set(1.0)
        return MatureState(self.source.init(key, sizes), head, jnp.zeros(()))

    def with_parameters(self, state: MatureState, parameters: Any) -> MatureState:
        """Room for the source."""
        return state._replace(inner=self.source.with_parameters(state.inner, parameters))

    def step(self, state: MatureState, transitions: Transitions) -> tuple[MatureState, jax.Array]:
        """The source learns, then the head."""
        inner, lambda_ = self.source.step(state.inner, transitions)
        state = state._replace(inner=inner)
        if transitions.mix is None:
            state = state._replace(head=self._fitted(state.head, transitions, lambda_))
        else:
            state = state._replace(error=_error(state.head, transitions))
        return state, raised(lambda_, guess(state.head, transitions))

    def learn(self, state: MatureState, transitions: Transitions) -> MatureState:
        """The state after `step`."""
        return self.step(state, transitions)[0]

    def lambdas(self, state: MatureState, transitions: Transitions) -> jax.Array:
        """1 − (1 − λ)(1 − I)."""
        return raised(self.source.lambdas(state.inner, transitions), guess(state.head, transitions))

    def after(self, state: MatureState, credit: StreamCredit) -> MatureState:
        """The head moves as the critic's last layer does, by its own TD error."""
        trace = jnp.concatenate([credit.trace.weights[-1], credit.trace.biases[-1][:, None]], -1)
        head = state.head + credit.step_size * state.error * trace
        return MatureState(self.source.after(state.inner, credit), head, state.error)

    def _fitted(self, head: jax.Array, t: Transitions, lambda_: jax.Array) -> jax.Array:
        """The head after a rollout: moved towards the λ'-returns of I."""
        here = guess(head, t)
        ahead = jnp.clip(_answers(head, t.next_features, t.next_inputs)[..., 0], 0.0, 1.0)
        cut = jnp.concatenate([t.start[1:], jnp.ones_like(t.start[:1])])
        weights = raised(lambda_, here)
        target = here + gae(jnp.zeros_like(here), here, ahead, t.terminated, cut, t.discount, weights)
        parts = in_batches(_CHUNKS, _read(t.features, t.inputs), target)

        def one(w: jax.Array, part: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            phi, target = part
            share = (target - phi @ w) / jnp.sum(phi**2, -1) / len(target)
            return w + self.batch_rate * share @ phi, None

        return jax.lax.scan(one, head[0], parts)[0][None]


def raised(lambda_: jax.Array, guess: jax.Array) -> jax.Array:
    """1 − (1 − λ)(1 − I)."""
    return 1.0 - (1.0 - lambda_) * (1.0 - guess)


def guess(head: jax.Array, t: Transitions) -> jax.Array:
    """I(x) of the states that transitions leave, kept within [0, 1]: float32[T, B]."""
    return _mixed(_answers(head, t.features, t.inputs), t.mix)


def _error(head: jax.Array, t: Transitions) -> jax.Array:
    """The TD error of I at the only transition: γ I(x') − I(x, a)."""
    ahead = jnp.where(t.terminated, 0.0, _mixed(_answers(head, t.next_features, t.next_inputs), t.next_mix))
    answers = _answers(head, t.features, t.inputs)
    taken = jax.nn.one_hot(t.action if len(head) > 1 else 0 * t.action, len(head))
    return (t.discount * ahead - jnp.sum(taken * answers, -1))[0, 0]


def _mixed(answers: jax.Array, mix: jax.Array | None) -> jax.Array:
    return jnp.clip(answers[..., 0] if mix is None else jnp.sum(mix * answers, -1), 0.0, 1.0)


def _answers(head: jax.Array, features: jax.Array, inputs: jax.Array) -> jax.Array:
    return _read(features, inputs) @ head.T


def _read(features: jax.Array, inputs: jax.Array) -> jax.Array:
    """Inputs of the head: those of the critic's last layer, or the observation if it has no hidden layer; and 1."""
    read = features if features.shape[-1] else inputs
    return jnp.concatenate([read, jnp.ones((*read.shape[:-1], 1))], -1)
