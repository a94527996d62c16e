"""λ [T, B] for anybody's rollouts: a source of this room behind `update(rollout) -> λ`, with calibration and histogram.

    source = RolloutLambda(DeepValueKernel(), env.observation_space, discount=0.99)
    lambda_ = source.update(DeepRollout(...))                     # NumPy arrays [T, B, ...]
    advantages = chunked_td.gae(..., lambda_=lambda_)

It is also a `lambda_source` for the rollout buffers of `chunked_td.integrations.sb3`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_unit, check_whole
from chunked_td.deep.lambdas.base import DeepLambda, SourceSizes, Transitions, V
from chunked_td.deep.spaces import read_space


class DeepRollout(NamedTuple):
    """One rollout, time first: arrays [T, B, ...]."""

    observations: Any
    """Of the states that steps leave."""
    actions: Any
    """int[T, B], discrete."""
    rewards: Any
    next_observations: Any
    """Of the states that steps led to, also where an episode ended."""
    values: Any
    """V of the states that steps leave."""
    next_values: Any
    """V of the states that steps led to; not read where terminated."""
    terminated: Any
    truncated: Any
    policy: Any = None
    """float[T, B, A], π(·|x_t); None leaves actions out of percept models."""
    features: Any = None
    """float[T, B, K], the critic's last layer, for heads; None: heads read observations only."""
    valid: Any = None
    """False where the next observation is not known; such steps teach nothing."""


class RolloutLambda:
    """A λ source that learns from each rollout before it answers.

    Args:
      source: `DeepValueKernel`, `DeepPercepts`, `DeepLambdaGreedy` or `DeepConstant`.
      space: of observations: one of `chunked_td.deep.spaces`, or a Gymnasium space that can be read as one.
      discount: γ. n_actions: needed where rollouts have a `policy`. passes: over each rollout. seed: of first weights.
    """

    def __init__(
        self,
        source: DeepLambda,
        space: Any,
        *,
        discount: float = 0.99,
        n_actions: int = 0,
        passes: int = 1,
        seed: int = 0,
    ):
        if not isinstance(source, DeepLambda):
            raise TypeError(f"source: got {source!r}, takes a λ source of chunked_td.deep, such as DeepValueKernel()")
        if source.streaming_only or source.needs_draws:
            raise ValueError(f"source: {type(source).__name__} cannot learn from rollouts alone")
        self.source, self.space = source, read_space(space)
        self.discount = check_unit("discount", discount)
        self.n_actions = check_whole("n_actions", n_actions, 0)
        self.passes = check_whole("passes", passes, 1)
        self._key = jax.random.key(check_whole("seed", seed, 0))
        self._state: Any = None
        self._checked: tuple[np.ndarray, np.ndarray] | None = None
        self._lambdas: np.ndarray | None = None
        self._learn, self._ask, self._check = (jax.jit(f) for f in (source.learn, source.lambdas, source.check))

    def update(self, rollout: Any) -> np.ndarray:
        """Learn from a rollout, then λ of the states its steps leave: float32[T, B].

        What the model said *before* it learned from this rollout is kept for `calibration`.
        """
        transitions = self._transitions(rollout)
        if self._state is None:
            inputs, features = transitions.inputs.shape[-1], transitions.features.shape[-1]
            batch = transitions.reward.shape[1]
            sizes = SourceSizes(inputs, features, self.space.nvec, self.n_actions, V, batch)
            self._state = self.source.init(self._key, sizes)
        else:
            checked = self._check(self._state, transitions)
            if checked is not None:
                known = np.asarray(transitions.valid) > 0
                self._checked = tuple(np.asarray(x)[known] for x in checked)  # type: ignore[assignment]
        for _ in range(self.passes):
            self._state = self._learn(self._state, transitions)
        return self.lambdas(rollout)

    def lambdas(self, rollout: Any) -> np.ndarray:
        """λ without learning."""
        if self._state is None:
            raise ValueError("lambdas: the model has not learned from any rollout; call update first")
        self._lambdas = np.asarray(self._ask(self._state, self._transitions(rollout)))
        return self._lambdas

    def calibration(self, bins: int = 10) -> dict[str, np.ndarray]:
        """What was predicted of the latest rollout before learning from it, and what came true, in equal bins.

        For percept models: the expected probability and the probability of the percept that came. For the value kernel:
        the variance and the squared error. Equal means calibrated.
        """
        if self._checked is None:
            raise ValueError("calibration: needs a model and two rollouts, one to learn from and one to check on")
        predicted, true = self._checked
        parts = np.array_split(np.argsort(predicted, kind="stable"), min(check_whole("bins", bins, 1), predicted.size))
        means = [(predicted[p].mean(), true[p].mean(), p.size) for p in parts]
        return {
            name: np.array(column)
            for name, column in zip(("predicted", "true", "count"), zip(*means, strict=True), strict=True)
        }

    def histogram(self, bins: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """How often λ fell into each part of [0, 1] in the latest answer: (counts[bins], edges[bins + 1])."""
        if self._lambdas is None:
            raise ValueError("histogram: λ has not been asked for; call update first")
        return np.histogram(self._lambdas, check_whole("bins", bins, 1), (0.0, 1.0))

    def _transitions(self, rollout: Any) -> Transitions:
        r = from_episode_starts(rollout) if hasattr(rollout, "episode_starts") else rollout
        shape = np.shape(r.rewards)
        if len(shape) != 2:
            raise ValueError(f"rewards: got shape {shape}, takes [T, B]")
        for name in ("values", "next_values", "terminated", "truncated"):
            if np.shape(getattr(r, name)) != shape:
                raise ValueError(f"{name}: got shape {np.shape(getattr(r, name))}, takes {shape} like rewards")
        for name in ("observations", "next_observations"):
            got = np.shape(getattr(r, name))
            if got not in ((*shape, *self.space.shape), (*shape, *self.space.shape, 1)) and got != shape:
                raise ValueError(f"{name}: got shape {got}, takes {(*shape, *self.space.shape)} = [T, B, ...]")
        observations, following = (
            jnp.asarray(x).reshape(*shape, *self.space.shape) for x in (r.observations, r.next_observations)
        )
        terminated = jnp.asarray(r.terminated, bool)
        values, rewards = (jnp.asarray(x, jnp.float32) for x in (r.values, r.rewards))
        next_values = jnp.where(terminated, 0.0, jnp.asarray(r.next_values, jnp.float32))
        for name, array in (("values", values), ("next_values", next_values), ("rewards", rewards)):
            if not bool(jnp.all(jnp.isfinite(array))):
                raise ValueError(f"{name}: got a number that is not finite")
        if (r.policy is None) != (self.n_actions == 0):
            raise ValueError(f"policy: got {'none' if r.policy is None else 'one'} with n_actions = {self.n_actions}")
        policy = jnp.zeros((*shape, 0)) if r.policy is None else jnp.asarray(r.policy, jnp.float32)
        if policy.shape != (*shape, self.n_actions):
            raise ValueError(f"policy: got shape {policy.shape}, takes {(*shape, self.n_actions)} = [T, B, A]")
        features = jnp.zeros((*shape, 0)) if r.features is None else jnp.asarray(r.features, jnp.float32)
        over = terminated | jnp.asarray(r.truncated, bool)
        start = jnp.concatenate([jnp.ones((1, shape[1]), bool), over[:-1]])
        valid = jnp.ones(shape) if r.valid is None else jnp.asarray(r.valid, jnp.float32)
        return Transitions(
            inputs=self.space.inputs(observations),
            next_inputs=self.space.inputs(following),
            features=features,
            next_features=jnp.concatenate([features[1:], features[-1:]]),
            codes=self.space.codes(observations),
            next_codes=self.space.codes(following),
            action=jnp.asarray(r.actions, jnp.int32).reshape(shape),
            policy=policy,
            reward=rewards,
            next_value=next_values,
            value=values,
            td_error=valid * (rewards + self.discount * next_values - values),
            start=start,
            terminated=terminated,
            valid=valid,
            discount=jnp.asarray(self.discount, jnp.float32),
        )


def from_episode_starts(rollout: Any) -> DeepRollout:
    """A rollout as Stable-Baselines3's buffer has it: the next observation is that of the next row.

    Where an episode ended, and after the last row, it is not known; those steps are marked as not valid.
    """
    starts, ended = np.asarray(rollout.episode_starts) != 0, np.asarray(rollout.last_dones) != 0
    terminated = np.concatenate([starts[1:], ended[None]])
    observations = np.asarray(rollout.observations)
    values = np.asarray(rollout.values)
    valid = ~terminated
    valid[-1] = False
    return DeepRollout(
        observations,
        np.asarray(rollout.actions).reshape(terminated.shape),
        rollout.rewards,
        np.concatenate([observations[1:], observations[-1:]]),
        values,
        np.concatenate([values[1:], np.asarray(rollout.last_values)[None]]),
        terminated,
        np.zeros_like(terminated),
        valid=valid,
    )
