"""The interface of a λ source for function approximation: it learns from transitions and returns their λs.

A source is a frozen dataclass of settings with pure functions; its state is a pytree. Agents call

    state = source.learn(state, transitions)       # the model learns first (the timing contract) …
    lambda_ = source.lambdas(state, transitions)   # … then λ of the states that the transitions leave, [T, B]
    state = source.after(state, credit)            # streaming only: after the update

with T = B = 1 in streaming learners and whole rollouts in PPO. Everything maps over runs with `jax.vmap`.

**Dependence of λ.** If the bootstrap is V, λ depends on the state x alone; if it is Q, on (x, a). Otherwise the fixed
point is not the value of the policy. Sources in this package keep to that in the limit, except

- `DeepPercepts(form="realised")`, the form of the paper, and `DeepTrueModel(form="realised")`: λ depends on the sampled
  percept. They are there for comparison;
- `DeepRecurrent`: λ depends on the history, and in its realised form also on the sampled percept.

"In the limit", because a source with a model learns from a transition before it returns its λ. So the next state
enters λ through that one update, the less the smaller the model's step size. It is not nothing where next values are
skewed: a value kernel that learns first gives a mean TD error other than 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

V, Q = "v", "q"
"""Bootstraps: state values or action values."""


@dataclass(frozen=True)
class SourceSizes:
    """Sizes from which a source builds its state.

    Attributes:
      inputs: numbers of an encoded observation. features: of the critic's features. nvec: values per code.
      bootstrap: "v" or "q". batch: B, environments side by side.
    """

    inputs: int
    features: int
    nvec: tuple[int, ...]
    n_actions: int
    bootstrap: str = V
    batch: int = 1


class NextDraws(NamedTuple):
    """K further samples of the next state from the true model, [T, B, K, ...]."""

    codes: jax.Array  # int32[T, B, K, C]
    next_value: jax.Array  # float32[T, B, K], 0 where terminal
    group: jax.Array  # int32[T, B, K]; draws of one group follow one action, drawn once


class Transitions(NamedTuple):
    """Transitions [T, B, ...] as sources see them."""

    inputs: jax.Array  # float32[T, B, inputs], encoded x_t
    next_inputs: jax.Array
    features: jax.Array  # float32[T, B, features], what the critic makes of x_t; constants
    next_features: jax.Array
    codes: jax.Array  # int32[T, B, C]
    next_codes: jax.Array
    action: jax.Array  # int32[T, B]
    policy: jax.Array  # float32[T, B, A], π(·|x_t)
    reward: jax.Array  # float32[T, B]
    next_value: jax.Array  # float32[T, B], the bootstrap B(x_{t+1}); 0 where terminal
    value: jax.Array  # float32[T, B], V(x_t) or Q(x_t, a_t)
    td_error: jax.Array  # float32[T, B]
    start: jax.Array  # bool[T, B], x_t is the first state of an episode
    terminated: jax.Array  # bool[T, B]
    discount: jax.Array  # float32[]
    draws: NextDraws | None = None
    state_value: jax.Array | None = None  # float32[T, B], V(x_t) where `value` is Q(x_t, a_t)
    recalled: tuple[jax.Array, jax.Array] | None = None  # (realised, expected) [T, B], from the agent's own memory
    mix: jax.Array | None = None  # float32[T, B, A'], weights of B(x_t) in the critic; streaming learners only
    next_mix: jax.Array | None = None  # the same for B(x_{t+1})


class StreamCredit(NamedTuple):
    """Update of a streaming learner. Pytrees have the shape of the critic's parameters."""

    trace_before: Any  # before the decay
    trace: Any  # after decay and gradient
    gradient: Any  # of the value that was updated
    td_error: jax.Array
    step_size: jax.Array  # of this update
    discount: jax.Array
    ended: jax.Array  # bool[], the trace is cleared after this update


@dataclass(frozen=True)
class DeepLambda:
    """A λ source for function approximation. Subclasses define `init`, `lambdas` and, as needed, the others."""

    @property
    def needs_draws(self) -> bool:
        """Whether λ requires further samples of the next state."""
        return False

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """A fresh state."""
        raise NotImplementedError

    def with_parameters(self, state: Any, parameters: Any) -> Any:
        """Return the state extended by arrays for the critic's parameters; streaming learners call it once."""
        return state

    def learn(self, state: Any, transitions: Transitions) -> Any:
        """The state after training on transitions; as it was, unless a source learns."""
        return state

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """λ of the states that the transitions leave: float32[T, B]."""
        raise NotImplementedError

    def step(self, state: Any, transitions: Transitions) -> tuple[Any, jax.Array]:
        """Learn, then λ. Override it if both together cost less."""
        state = self.learn(state, transitions)
        return state, self.lambdas(state, transitions)

    def after(self, state: Any, credit: StreamCredit) -> Any:
        """The state after a streaming learner's update."""
        return state


def with_bias(features: jax.Array, inputs: jax.Array) -> jax.Array:
    """Inputs of linear heads: the critic's features, the observation and 1."""
    return jnp.concatenate([features, inputs, jnp.ones((*inputs.shape[:-1], 1))], -1)


def in_batches(most: int, *arrays: jax.Array) -> tuple[jax.Array, ...]:
    """Arrays [T, B, ...] as [batches, T B / batches, ...], in at most `most` batches of one size."""
    count = arrays[0].shape[0] * arrays[0].shape[1]
    batches = next(n for n in range(min(most, count), 0, -1) if count % n == 0)
    return tuple(x.reshape(batches, count // batches, *x.shape[2:]) for x in arrays)


class ErrorScale(NamedTuple):
    """Running mean square of TD errors, and how much of it has been filled."""

    mean_square: jax.Array
    weight: jax.Array

    @classmethod
    def start(cls) -> ErrorScale:
        """Nothing seen."""
        return cls(jnp.zeros(()), jnp.zeros(()))

    def follow(self, transitions: Transitions, memory: float) -> ErrorScale:
        """Average in the errors of T × B transitions; `memory` is how many transitions are remembered."""
        keep = (1 - 1 / memory) ** transitions.td_error.size
        mean = jnp.mean(transitions.td_error**2)
        return ErrorScale(keep * self.mean_square + (1 - keep) * mean, keep * self.weight + (1 - keep))

    def root(self) -> jax.Array:
        """The running root mean square."""
        return jnp.sqrt(self.mean_square / jnp.maximum(self.weight, 1e-8))


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
        """Whether a source requires samples."""
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
