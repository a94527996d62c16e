"""Percept model: λ is a probability of the next percept, from a network that predicts every component's code.

    realised   λ_t = Σ_a π(a|x_t) Π_i P̂_i(xⁱ_{t+1} | x_t, a)      the paper's form; depends on the sampled percept
    expected   λ(x) = Σ_a π(a|x) Π_i Σ_k P̂_i(k | x, a)²           depends on the state alone

For Q bootstraps the sum over actions is the action taken: λ(x, a). Components are the codes of `spaces`. Products are
taken in log space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from chunked_td.lambdas.on_device import mixture
from studies.networks.lambdas.base import DeepLambda, Q, SourceSizes, Transitions, in_batches
from studies.networks.networks import Mlp

FORMS = ("realised", "expected")


class PerceptState(NamedTuple):
    """The network, the optimiser's moments, and which code values exist: bool[C, greatest number of values]."""

    network: Mlp
    moments: Any
    exists: jax.Array
    mixes: jax.Array  # float32[A'], 1 per action that the network reads apart; empty where it reads none


@dataclass(frozen=True)
class DeepPercepts(DeepLambda):
    """The percept model.

    Args:
      form: "expected" or "realised". hidden: units of its one hidden layer (tanh).
      learning_rate: of Adam. batches: updates per rollout, each on its part of the transitions.
    """

    form: str = "expected"
    hidden: int = 64
    learning_rate: float = 1e-3
    batches: int = 8

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    def init(self, key: jax.Array, sizes: SourceSizes) -> PerceptState:
        """Every code equally likely."""
        n, most = len(sizes.nvec), max(sizes.nvec)
        reads = sizes.inputs + sizes.n_actions
        bound = reads**-0.5
        first = jax.random.uniform(key, (self.hidden, reads), minval=-bound, maxval=bound)
        network = Mlp(
            (first, jnp.zeros((n * most, self.hidden))),
            (jnp.zeros(self.hidden), jnp.zeros(n * most)),
        )
        exists = jnp.asarray(np.arange(most) < np.asarray(sizes.nvec)[:, None])
        mixes = jnp.ones(sizes.n_actions if sizes.bootstrap != Q else 1)
        return PerceptState(network, self._optimiser.init(network), exists, mixes)  # type: ignore[arg-type]

    def learn(self, state: PerceptState, transitions: Transitions) -> PerceptState:
        """Adam on the mean cross-entropy of the sampled codes."""
        t, actions = transitions, transitions.policy.shape[-1]
        data = in_batches(self.batches, t.inputs, t.next_codes, t.action)

        def loss(network: Mlp, part: tuple[jax.Array, ...]) -> jax.Array:
            inputs, codes, action = part
            return percept_loss(network, state.exists, with_action(inputs, action, actions), codes)

        def one(carry: Any, part: tuple[jax.Array, ...]) -> Any:
            network, moments = carry
            gradient = jax.grad(loss)(network, part)
            change, moments = self._optimiser.update(gradient, moments)
            return (optax.apply_updates(network, change), moments), None

        if len(data[0]) == 1:  # a streaming step: no loop
            carry, _ = one((state.network, state.moments), jax.tree.map(lambda x: x[0], data))
        else:
            carry, _ = jax.lax.scan(one, (state.network, state.moments), data)
        return state._replace(network=carry[0], moments=carry[1])

    def lambdas(self, state: PerceptState, transitions: Transitions) -> jax.Array:
        """λ in this form."""
        return self.both(state, transitions)[FORMS.index(self.form)]

    def both(self, state: PerceptState, transitions: Transitions) -> tuple[jax.Array, jax.Array]:
        """(realised, expected), [T, B] each."""
        actions, t = transitions.policy.shape[-1], transitions
        if len(state.mixes) == actions and actions > 0:  # λ of every action, mixed by the policy
            inputs = jnp.broadcast_to(t.inputs[..., None, :], (*t.policy.shape, t.inputs.shape[-1]))
            asked = jnp.broadcast_to(jnp.arange(actions), t.policy.shape)
            policy = t.policy
        else:
            inputs, asked, policy = t.inputs[..., None, :], t.action[..., None], jnp.ones((*t.action.shape, 1))
        logs = percept_logs(state.network, state.exists, with_action(inputs, asked, actions))
        codes = jnp.broadcast_to(t.next_codes[..., None, :, None], (*logs.shape[:-1], 1))
        realised, expected = jnp.take_along_axis(logs, codes, -1)[..., 0], jax.nn.logsumexp(2 * logs, -1)
        return tuple(jnp.clip(mixture(policy, log_p), 0.0, 1.0) for log_p in (realised, expected))  # type: ignore[return-value]


@dataclass(frozen=True)
class DeepRecurrent(DeepLambda):
    """λ given the whole history, from the memory of the agent (`RecurrentMemory`). Args: form: as above."""

    form: str = "expected"

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """Nothing: the memory learns."""
        return ()

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """λ in this form."""
        assert transitions.recalled is not None, "only agents with a memory have λ from it"
        return transitions.recalled[FORMS.index(self.form)]


def with_action(inputs: jax.Array, action: jax.Array, actions: int) -> jax.Array:
    """Inputs of the network: the observation and, if there are actions, the action as one-hot."""
    return jnp.concatenate([inputs, jax.nn.one_hot(action, actions)], -1) if actions else inputs


def percept_logs(network: Mlp, exists: jax.Array, inputs: jax.Array) -> jax.Array:
    """float32[..., C, values], −1e9 where a value does not exist."""
    hidden = jnp.tanh(inputs @ network.weights[0].T + network.biases[0])
    logits = hidden @ network.weights[1].T + network.biases[1]
    logits = jnp.where(exists, logits.reshape(*logits.shape[:-1], *exists.shape), -1e9)
    return jax.nn.log_softmax(logits, -1)


def percept_loss(network: Mlp, exists: jax.Array, inputs: jax.Array, codes: jax.Array) -> jax.Array:
    """Mean cross-entropy of the sampled codes, per component."""
    picked = jnp.take_along_axis(percept_logs(network, exists, inputs), codes[..., None], -1)[..., 0]
    return -jnp.mean(picked)
