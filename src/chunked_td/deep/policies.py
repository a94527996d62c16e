"""What the outputs of a policy network mean: chances of discrete actions, or a Gaussian over real numbers.

    discrete     outputs float32[..., A] are logits, actions int32[...]
    continuous   outputs float32[..., 2A] are means and logarithms of standard deviations, actions float32[..., A]

The kind is that of the actions: whole numbers or real ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

LOG_DEVIATIONS = (-3.0, 1.0)
"""Standard deviations stay between e⁻³ and e; the bounds of an action are −1 and 1."""


@dataclass(frozen=True)
class Discrete:
    """Softmax over n actions."""

    n: int

    @property
    def n_outputs(self) -> int:
        """Numbers that the network gives."""
        return self.n

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Actions of the policy."""
        return jax.random.categorical(key, outputs)

    def mode(self, outputs: jax.Array) -> jax.Array:
        """The likeliest action."""
        return jnp.argmax(outputs, -1)

    def log_probability(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        """ln π(a|x)."""
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), jnp.asarray(action)[..., None], -1)[..., 0]

    def entropy(self, outputs: jax.Array) -> jax.Array:
        """−Σ_a π ln π."""
        logs = jax.nn.log_softmax(outputs)
        return -jnp.sum(jnp.exp(logs) * logs, -1)

    def chances(self, outputs: jax.Array) -> jax.Array:
        """π(·|x), for λ sources."""
        return jax.nn.softmax(outputs)

    def index(self, action: jax.Array) -> jax.Array:
        """The action as λ sources read it."""
        return action


@dataclass(frozen=True)
class Gaussian:
    """n real numbers, independent of each other. λ sources are not told the action: their models leave it out."""

    n: int

    @property
    def n_outputs(self) -> int:
        """Numbers that the network gives."""
        return 2 * self.n

    def sample(self, key: jax.Array, outputs: jax.Array) -> jax.Array:
        """Actions of the policy."""
        mean, log_deviation = self._parts(outputs)
        return mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)

    def mode(self, outputs: jax.Array) -> jax.Array:
        """The mean."""
        return self._parts(outputs)[0]

    def log_probability(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        """ln π(a|x), a density: Σ_i −½((a_i − m_i)/σ_i)² − ln σ_i − ½ ln 2π."""
        mean, log_deviation = self._parts(outputs)
        away = (action - mean) * jnp.exp(-log_deviation)
        return jnp.sum(-0.5 * away**2 - log_deviation - 0.5 * math.log(2 * math.pi), -1)

    def entropy(self, outputs: jax.Array) -> jax.Array:
        """Σ_i ln σ_i + ½ ln 2πe."""
        return jnp.sum(self._parts(outputs)[1] + 0.5 * math.log(2 * math.pi * math.e), -1)

    def chances(self, outputs: jax.Array) -> jax.Array:
        """None: float32[..., 0]."""
        return outputs[..., :0]

    def index(self, action: jax.Array) -> jax.Array:
        """0."""
        return jnp.zeros(action.shape[:-1], jnp.int32)

    def _parts(self, outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        return outputs[..., : self.n], jnp.clip(outputs[..., self.n :], *LOG_DEVIATIONS)


Policy = Discrete | Gaussian


def policy_of(task: Any) -> Policy:
    """The policy that a task asks for: Gaussian where it has `n_reals`, real numbers per action."""
    reals = getattr(task, "n_reals", 0)
    return Gaussian(reals) if reals else Discrete(task.n_actions)


def policy_behind(outputs: jax.Array, action: Any) -> Policy:
    """The policy that drew an action from outputs of its network."""
    real = jnp.issubdtype(jnp.result_type(action), jnp.floating)
    return Gaussian(outputs.shape[-1] // 2) if real else Discrete(outputs.shape[-1])
