"""One λ for all states; and several sources in one program, in which every run computes all and uses one.

Runs of different arms are cheaper side by side than one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from studies.networks.lambdas.base import DeepLambda, SourceSizes, StreamCredit, Transitions


@dataclass(frozen=True)
class DeepConstant(DeepLambda):
    """λ(x) = λ."""

    lambda_: float = 0.95

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """Nothing to learn."""
        return ()

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """λ everywhere."""
        return jnp.full(transitions.reward.shape, self.lambda_)


class SwitchState(NamedTuple):
    """Index of the source (0 is the fixed λ, k the k-th source), and the states of all."""

    which: jax.Array
    fixed: jax.Array
    states: tuple[Any, ...]


@dataclass(frozen=True)
class DeepSwitch(DeepLambda):
    """A fixed λ per run, or one of several sources."""

    sources: tuple[DeepLambda, ...]

    @property
    def needs_draws(self) -> bool:
        """Whether a source requires draws."""
        return any(source.needs_draws for source in self.sources)

    def init(self, key: jax.Array, sizes: SourceSizes) -> SwitchState:
        """Fixed λ 0.95, until `which` and `fixed` are set."""
        states = tuple(s.init(jax.random.fold_in(key, k), sizes) for k, s in enumerate(self.sources))
        return SwitchState(jnp.zeros((), jnp.int32), jnp.full((), 0.95), states)

    def with_parameters(self, state: SwitchState, parameters: Any) -> SwitchState:
        """Room for every source."""
        return self._each("with_parameters", state, parameters)

    def learn(self, state: SwitchState, transitions: Transitions) -> SwitchState:
        """All sources learn."""
        return self._each("learn", state, transitions)

    def lambdas(self, state: SwitchState, transitions: Transitions) -> jax.Array:
        """λ of the chosen one."""
        fixed = jnp.broadcast_to(state.fixed, transitions.reward.shape)
        each = [s.lambdas(old, transitions) for s, old in zip(self.sources, state.states, strict=True)]
        return jnp.stack([fixed, *each])[state.which]

    def after(self, state: SwitchState, credit: StreamCredit) -> SwitchState:
        """Pass the update with the chosen λ to all sources."""
        return self._each("after", state, credit)

    def _each(self, method: str, state: SwitchState, argument: Any) -> SwitchState:
        """The state after a method of every source."""
        both = zip(self.sources, state.states, strict=True)
        return state._replace(states=tuple(getattr(source, method)(old, argument) for source, old in both))
