"""Rollouts as others give them, read into checked NumPy arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

_SLACK = 0.01  # of sums of probabilities, which may come in 16 bits


class DeepRollout(NamedTuple):
    """One rollout, time first: arrays [T, B, ...]."""

    observations: Any
    """Of the states that steps leave."""
    actions: Any
    """int[T, B], discrete; not read where there is no `policy`."""
    rewards: Any
    next_observations: Any
    """Of the states that steps led to, also where an episode ended; not read where `seen` is False."""
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
    """bool[T, B], False where a step teaches nothing, such as padding; None: all steps teach."""
    seen: Any = None
    """bool[T, B], False where the next observation is not known: percept models do not learn from the step, sources
    that read values do. None: all are known."""
    starts: Any = None
    """bool[B], whether the first observations begin episodes; None: where the rollout before ended one, or in the first
    rollout."""


def check_rollout(rollout: DeepRollout, space: Any, n_actions: int) -> DeepRollout:
    """A rollout as NumPy arrays of the right shapes and kinds, or an error that names what is wrong."""
    shape = _array("rewards", rollout.rewards).shape
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"rewards: got shape {shape}, takes [T, B] with at least one step and one environment")
    reals = {name: _real(name, getattr(rollout, name), shape) for name in ("rewards", "values")}
    flags = {name: _flag(name, getattr(rollout, name), shape) for name in ("terminated", "truncated")}
    known = {
        name: np.ones(shape, bool) if getattr(rollout, name) is None else _flag(name, getattr(rollout, name), shape)
        for name in ("valid", "seen")
    }
    next_values = _real("next_values", rollout.next_values, shape, ~flags["terminated"])
    observations = _observations("observations", rollout.observations, shape, space)
    space.check("observations", observations)
    following = _observations("next_observations", rollout.next_observations, shape, space)
    following = np.where(known["seen"].reshape(*shape, *(1,) * len(space.shape)), following, observations)
    space.check("next_observations", following)
    if (rollout.policy is None) != (n_actions == 0):
        raise ValueError(f"policy: got {'none' if rollout.policy is None else 'one'} with n_actions = {n_actions}")
    actions, policy = np.zeros(shape, np.int32), np.zeros((*shape, 0), np.float32)
    if n_actions:
        actions, policy = _actions(rollout.actions, shape, n_actions), _policy(rollout.policy, shape, n_actions)
    features = np.zeros((*shape, 0), np.float32)
    if rollout.features is not None:
        width = _array("features", rollout.features).shape[2:]
        features = _real("features", rollout.features, (*shape, *(width if len(width) == 1 else ("K",))))
    starts = None if rollout.starts is None else _flag("starts", rollout.starts, shape[1:])
    said = {"next_values": next_values, "policy": policy, "features": features, "starts": starts}
    return DeepRollout(observations, actions, next_observations=following, **said, **reals, **flags, **known)


def _array(name: str, value: Any, shape: tuple[Any, ...] | None = None) -> np.ndarray:
    """An argument as a NumPy array of numbers or bools, of this shape."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.name == "bfloat16":  # of JAX; no kind of number to NumPy
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: got {type(value).__name__}, takes an array of numbers")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: got shape {array.shape}, takes {shape}".replace("'", ""))
    return array


def _refuse(name: str, array: np.ndarray, wrong: np.ndarray, takes: str) -> None:
    if wrong.any():
        raise ValueError(f"{name}: got {array[wrong][0]}, takes {takes}")


def _real(name: str, value: Any, shape: tuple[Any, ...], where: Any = True) -> np.ndarray:
    array = _array(name, value, shape).astype(np.float32)
    _refuse(name, array, ~np.isfinite(array) & where, "finite numbers")
    return array


def _flag(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = _array(name, value, shape)
    _refuse(name, array, (array != 0) & (array != 1), "bools, or the numbers 0 and 1")
    return array != 0


def _observations(name: str, value: Any, shape: tuple[int, ...], space: Any) -> np.ndarray:
    """Observations [T, B, ...]; a last axis of 1 may be in excess, axes are joined where the space has one."""
    if isinstance(value, dict):
        raise TypeError(f"{name}: got a dict of {', '.join(map(str, value))}, takes one array [T, B, ...]")
    array, takes = _array(name, value), (*shape, *space.shape)
    flat = len(space.shape) == 1 and array.shape[:2] == shape and math.prod(array.shape[2:]) == space.shape[0]
    if array.shape not in (takes, (*takes, 1)) and not flat:
        raise ValueError(f"{name}: got shape {array.shape}, takes {takes} = [T, B, ...]")
    return array.reshape(takes)


def _actions(value: Any, shape: tuple[int, ...], n_actions: int) -> np.ndarray:
    array = _array("actions", value)
    array = _array("actions", array.reshape(shape) if array.shape == (*shape, 1) else array, shape)
    wrong = ~((array == np.floor(array)) & (array >= 0) & (array < n_actions))
    _refuse("actions", array, wrong, f"whole numbers in 0..{n_actions - 1}")
    return array.astype(np.int32)


def _policy(value: Any, shape: tuple[int, ...], n_actions: int) -> np.ndarray:
    array = _array("policy", value, (*shape, n_actions)).astype(np.float32)
    _refuse("policy", array, ~((array >= 0) & (array <= 1 + _SLACK)), "probabilities")
    total = array.sum(-1)
    if (wrong := np.abs(total - 1) > _SLACK).any():
        raise ValueError(f"policy: got probabilities that add up to {total[wrong][0]}, takes 1")
    return array


def from_episode_starts(rollout: Any) -> DeepRollout:
    """A rollout as Stable-Baselines3's buffer has it: what follows a row is the next row.

    Where an episode ended, and after the last row, the next observation is not known: `seen` is False there. The next
    value is: 0 at an end, that of `last_values` after the last row. Cuts look like terminations, with γ V of the state
    that was cut in added to the reward, so TD errors are right there too, and the next value that a source sees is 0.
    Actions are left out: there is no policy.
    """
    if isinstance(rollout.observations, dict):
        raise TypeError(f"observations: got a dict of {', '.join(map(str, rollout.observations))}, takes one array")
    starts, ended = np.asarray(rollout.episode_starts) != 0, np.asarray(rollout.last_dones) != 0
    shape = _array("rewards", rollout.rewards).shape
    if len(shape) != 2 or 0 in shape or starts.shape != shape:
        raise ValueError(f"episode_starts: got shape {starts.shape} with rewards {shape}, takes [T, B], T and B from 1")
    terminated = np.concatenate([starts[1:], ended.reshape(1, -1)])
    observations, values = np.asarray(rollout.observations), np.asarray(rollout.values)
    seen = ~terminated
    seen[-1] = False
    following = np.concatenate([observations[1:], observations[-1:]])
    next_values = np.concatenate([values[1:], np.asarray(rollout.last_values).reshape(1, -1)])
    steps = (observations, None, rollout.rewards, following, values, next_values, terminated, np.zeros_like(terminated))
    return DeepRollout(*steps, seen=seen, starts=starts[0])
