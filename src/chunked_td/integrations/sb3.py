"""Rollout buffers for Stable-Baselines3 (PPO, A2C) that compute advantages with a λ per step.

    PPO("MlpPolicy", env, rollout_buffer_class=LambdaRolloutBuffer, rollout_buffer_kwargs={"lambda_source": source})

With a constant λ the advantages equal those of Stable-Baselines3's own buffer up to the rounding of float32.

**Truncation.** Stable-Baselines3 records one type of end, the start of the next episode. If a time limit truncates an
episode at s_T, it adds γ V(s_T) to the reward of the last step, and then treats the end as a termination. So the TD
error of that step is r + γ V(s_T) − V(s), and no later reward passes the end. For any λ per step this equals `gae` with
that step marked as truncated and V(s_T) as its next value. The rewards in a `Rollout` include γ V(s_T).
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from gymnasium import spaces

from chunked_td._loading import with_extra
from chunked_td.returns import gae

try:
    from stable_baselines3.common.buffers import (  # pyright: ignore[reportMissingImports]  (an extra)
        DictRolloutBuffer,
        RolloutBuffer,
    )
except ModuleNotFoundError as error:
    raise with_extra("chunked_td.integrations.sb3", error) from error


class Rollout(NamedTuple):
    """Input of a λ source: arrays [T, n_envs, ...] of one rollout, and the values and ends after its last step."""

    observations: Any
    """Observations of the states that steps leave; a dict of arrays for dict spaces."""
    actions: np.ndarray
    rewards: np.ndarray
    episode_starts: np.ndarray
    """1 for the first observation of an episode."""
    values: np.ndarray
    last_values: np.ndarray
    """[n_envs], values after the last step."""
    last_dones: np.ndarray
    """[n_envs], whether the last step ended an episode."""


@runtime_checkable
class UpdatingSource(Protocol):
    """A λ source that learns from each rollout before it returns λ."""

    def update(self, rollout: Rollout) -> Any:
        """λ[T, n_envs] in [0, 1]: entry t belongs to the state that step t leaves."""
        ...


LambdaSource: TypeAlias = float | Callable[[Rollout], Any] | UpdatingSource
"""One number, a function from a rollout to λ[T, n_envs], or an object with `update(rollout) -> λ[T, n_envs]`."""


class _LambdaAdvantages(RolloutBuffer):
    """Base class of both buffers: advantages from a λ source."""

    lambdas: np.ndarray
    """λ of the latest rollout, float[T, n_envs]."""

    def __init__(self, *arguments: Any, lambda_source: LambdaSource | None = None, **settings: Any):
        super().__init__(*arguments, **settings)
        self.lambda_source = self.gae_lambda if lambda_source is None else lambda_source
        computes = callable(self.lambda_source) or isinstance(self.lambda_source, UpdatingSource)
        is_class = isinstance(self.lambda_source, type)
        if isinstance(self.lambda_source, bool) or is_class or not (computes or isinstance(self.lambda_source, Real)):
            raise TypeError(
                f"lambda_source: got {lambda_source!r}, takes a number, a function from a rollout to λ[T, n_envs], "
                "or an object with update(rollout) -> λ[T, n_envs]" + (", not its class" if is_class else "")
            )
        if not computes:
            _checked(self.lambda_source, (self.buffer_size, self.n_envs))

    def compute_returns_and_advantage(self, last_values: Any, dones: np.ndarray) -> None:
        """Compute advantages and λ-returns of the rollout; the algorithm calls this when the buffer is full.

        Args:
          last_values: float[n_envs] tensor, values of the observations after the last step.
          dones: bool[n_envs], whether the last step ended an episode.
        """
        last = last_values.detach().cpu().numpy().reshape(1, -1)
        ended = np.asarray(dones).reshape(1, -1) != 0
        rollout = Rollout(
            self.observations, self.actions, self.rewards, self.episode_starts, self.values, last[0], ended[0]
        )
        source: Any = self.lambda_source
        if isinstance(source, UpdatingSource):
            given = source.update(rollout)
        else:
            given = source(rollout) if callable(source) else source
        self.lambdas = _checked(given, self.rewards.shape)
        advantages = gae(
            self.rewards,
            self.values,
            np.concatenate([self.values[1:], last]),
            np.concatenate([self.episode_starts[1:] != 0, ended]),
            False,
            self.gamma,
            self.lambdas,
        )
        self.advantages = advantages.astype(np.float32)
        self.returns = self.advantages + self.values


class LambdaRolloutBuffer(_LambdaAdvantages):
    """Rollout buffer with a λ per step, for `rollout_buffer_class=` of PPO and A2C.

    Args:
      lambda_source: in `rollout_buffer_kwargs`. One number; a function from a `Rollout` to λ[T, n_envs]; or an object
        with `update(rollout) -> λ[T, n_envs]`, called once per rollout. Entry t is the λ of the state that step t
        leaves. Default: the algorithm's `gae_lambda`.
      arguments, settings: of Stable-Baselines3's `RolloutBuffer`; the algorithm passes them.
    """

    def __init__(self, *arguments: Any, lambda_source: LambdaSource | None = None, **settings: Any):
        space = settings.get("observation_space", arguments[1] if len(arguments) > 1 else None)
        if isinstance(space, spaces.Dict):
            raise TypeError(
                f"observation_space: got {space}, takes a space other than Dict; use LambdaDictRolloutBuffer"
            )
        super().__init__(*arguments, lambda_source=lambda_source, **settings)


class LambdaDictRolloutBuffer(_LambdaAdvantages, DictRolloutBuffer):
    """`LambdaRolloutBuffer` for `Dict` observation spaces."""


def _checked(lambdas: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Check the result of a source and return it as float64[T, n_envs] in [0, 1]."""
    if hasattr(lambdas, "detach"):  # a Torch tensor
        lambdas = lambdas.detach().cpu()
    if np.asarray(lambdas).dtype.kind not in "biuf" and np.asarray(lambdas).dtype.name != "bfloat16":
        raise TypeError(f"lambda_source: returned {lambdas!r}, takes an array of numbers {shape} = [T, n_envs]")
    array = np.asarray(lambdas, dtype=np.float64)
    if array.shape not in ((), shape):
        raise ValueError(f"lambda_source: got an array of shape {array.shape}, takes {shape} = [T, n_envs]")
    wrong = ~((array >= 0.0) & (array <= 1.0))
    if wrong.any():
        raise ValueError(f"lambda_source: got {array[wrong][0]}, takes numbers in [0, 1]")
    return np.broadcast_to(array, shape)
