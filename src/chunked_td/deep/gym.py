"""Gymnasium environments as the agents of this room read them: one or several copies, stepped in Python.

A round is one step of every copy. The true next observation and the first one of a new episode are told apart, however
a vector environment begins episodes. Copies that are in this process can be brought back to where a saved run left
them: the random numbers are set to those at the beginning of the episode, and its actions are taken again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_numbers
from chunked_td._files import plain
from chunked_td.envs.spaces import Categories, Grid, Unbounded, read_inputs, read_space
from chunked_td.learners.copies import one_copy, reset_mode
from chunked_td.learners.inputs import check_end, check_reward, count_rewards, is_vector_environment
from chunked_td.learners.loop import generator_of, random_state, reset, set_random_state, step

_FARTHEST = 10.0  # standard deviations of a normalised observation


@dataclass(frozen=True)
class GymTask:
    """What agents know of an environment: its observations, and how many actions or real numbers an action has."""

    space: Any
    n_actions: int = 0
    n_reals: int = 0
    normalised: bool = False  # observations come normalised


class Round(NamedTuple):
    """One step of B copies; arrays lead with [B]."""

    observation: np.ndarray  # of the true next states, also where episodes end
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    fresh: np.ndarray  # first observations of new episodes, where episodes ended
    valid: np.ndarray | None = None  # False where a copy only began an episode; None: nowhere


def read_task(env: Any, *, codes: bool, space: Any = None, normalise: bool | None = False) -> GymTask:
    """The task of an environment.

    Args:
      codes: percept models predict its observations. space: instead of its own.
      normalise: whether observations will come normalised; None: if they are real numbers that nothing predicts.
    """
    one = one_copy(env)
    if count_rewards(one) > 1:
        raise ValueError(f"env: it pays {count_rewards(one)} rewards a step; networks learn from one number")
    given = one.observation_space if space is None else space
    try:
        found = (read_space if codes else read_inputs)(given)
    except ValueError as problem:
        hint = "gymnasium.wrappers.FlattenObservation makes one row of numbers of other spaces"
        raise ValueError(f"{problem}; {hint}") from None
    predicted = codes or isinstance(found, Categories | Grid)
    normalised = normalise is True or (normalise is None and not predicted and space is None)
    if normalised:
        if predicted:
            raise ValueError("normalise: goes with observations of real numbers and a λ source without percept model")
        far = (np.inf,) * found.shape[0]
        found = Unbounded(tuple(-x for x in far), far)
    actions = one.action_space
    if isinstance(getattr(actions, "n", None), int | np.integer) and not actions.shape:
        return GymTask(found, n_actions=int(actions.n), normalised=normalised)
    if hasattr(actions, "low") and np.issubdtype(actions.dtype, np.floating):
        return GymTask(found, n_reals=int(np.prod(actions.shape)), normalised=normalised)
    raise ValueError(f"env: its actions must be Discrete or a Box of real numbers, got {actions}")


class ActionScale:
    """Actions of agents as an environment takes them: whole numbers from its first one, −1 and 1 as its bounds."""

    def __init__(self, env: Any):
        space = one_copy(env).action_space
        self.shape, self.dtype, self.start = space.shape, space.dtype, getattr(space, "start", 0)
        self.reals = hasattr(space, "low")
        if self.reals:
            low, high = (np.ravel(x).astype(np.float64) for x in (space.low, space.high))
            self.bounded = np.isfinite(low) & np.isfinite(high)
            low, high = np.where(self.bounded, low, -1.0), np.where(self.bounded, high, 1.0)
            self.middle, self.half = (low + high) / 2, (high - low) / 2

    def __call__(self, action: np.ndarray) -> Any:
        """Actions [B] or [B, n] for the copies, or one for one."""
        if not self.reals:
            return action + self.start
        inside = np.where(self.bounded, np.clip(action, -1.0, 1.0), action)
        return (self.middle + self.half * inside).astype(self.dtype).reshape(*np.shape(action)[:-1], *self.shape)


class Environments:
    """The copies of an environment, and where each is in its episode.

    Args:
      env: a Gymnasium environment, or a vector of them. space: of one observation, as the task has it.
    """

    def __init__(self, env: Any, space: Any):
        self.env, self.space, self.scale = env, space, ActionScale(env)
        vector = is_vector_environment(env)
        self.size = int(env.num_envs) if vector else 1
        in_row = vector and type(env).__name__ == "SyncVectorEnv"
        self.singles = list(env.envs) if in_row else None if vector else [env]
        self.mode = "" if self.singles is not None else reset_mode(env)
        self.waiting = np.zeros(self.size, bool)  # the next step begins an episode (NEXT_STEP)
        self.begun: list[Any] = [None] * self.size  # random numbers before the episode's reset; None: the first one
        self.actions: list[list[Any]] = [[] for _ in range(self.size)]  # of the episode under way
        self.totals = np.zeros((2, self.size))  # return and length of the episode under way

    def start(self, seed: int | None) -> np.ndarray:
        """First observations; copy k has the seed `seed + k`."""
        if self.singles is None:
            return self._read(self.env.reset(seed=seed)[0])
        seeds = [None if seed is None else seed + k for k in range(self.size)]
        return self._read([reset(one, s)[0] for one, s in zip(self.singles, seeds, strict=True)])

    def step(self, actions: np.ndarray) -> Round:
        """One step of every copy."""
        return self._vector_step(actions) if self.singles is None else self._single_steps(actions)

    def _single_steps(self, actions: np.ndarray) -> Round:
        taken = self.scale(actions)
        shown: list[tuple[Any, ...]] = []
        fresh: list[Any] = []
        for k, one in enumerate(self.singles or ()):
            observation, reward, terminated, truncated, _ = step(one, taken[k])
            shown.append((observation, check_reward(reward), terminated, truncated))
            self.actions[k].append(actions[k].tolist())
            if terminated or truncated:
                self.begun[k], self.actions[k] = plain(random_state(one)), []
                observation = reset(one)[0]
            fresh.append(observation)
        observations, rewards, terminated, truncated = zip(*shown, strict=True)
        return self._round(self._read(observations), rewards, terminated, truncated, self._read(fresh))

    def _vector_step(self, actions: np.ndarray) -> Round:
        shown, rewards, terminated, truncated, infos = self.env.step(self.scale(actions))
        terminated, truncated = _flags("terminated", terminated), _flags("truncated", truncated)
        waited = self.waiting
        fresh, observation, ended = self._read(shown), self._read(shown), terminated | truncated
        if self.mode == "same_step" and ended.any():
            observation = fresh.copy()
            observation[ended] = self._read([infos["final_obs"][k] for k in np.flatnonzero(ended)])
        elif self.mode == "disabled" and ended.any():
            fresh = self._read(self.env.reset(options={"reset_mask": ended})[0])
        elif self.mode == "next_step":
            self.waiting = ended & ~waited
            truncated, terminated = truncated | waited, terminated & ~waited
            rewards = np.where(waited, 0.0, rewards)
            return self._round(observation, rewards, terminated, truncated, fresh, ~waited)
        return self._round(observation, rewards, terminated, truncated, fresh)

    def _round(self, observation: Any, reward: Any, terminated: Any, truncated: Any, *more: Any) -> Round:
        reward = check_numbers("env: rewards", reward, "one per copy").astype(np.float32)
        if not np.isfinite(reward).all():
            raise ValueError(f"env: rewards must be finite numbers that float32 has, got {reward.tolist()}")
        return Round(observation, reward, np.asarray(terminated, bool), np.asarray(truncated, bool), *more)

    def _read(self, observations: Any) -> np.ndarray:
        return read_observations(observations, self.space)

    def position(self) -> list[Any] | None:
        """What brings the copies back to where they are; None where nothing does."""
        if self.singles is None or any(generator_of(one) is None for one in self.singles):
            return None
        return [
            {"random": random, "actions": list(taken)} for random, taken in zip(self.begun, self.actions, strict=True)
        ]

    def return_to(self, position: list[Any], seed: int) -> np.ndarray:
        """Begin the episodes of a saved run again and take their actions; the observations that came last."""
        last = []
        for k, (one, saved) in enumerate(zip(self.singles or (), position, strict=True)):
            observation = reset(one, seed + k)[0]
            generator = generator_of(one)
            if saved["random"] is not None and generator is not None:
                set_random_state(generator, saved["random"])
                observation = reset(one)[0]
            for action in saved["actions"]:
                observation, reward, *_ = step(one, self.scale(np.asarray([action]))[0])
                self.totals[0, k] += np.float32(reward)
                self.totals[1, k] += 1
            self.begun[k], self.actions[k] = saved["random"], list(saved["actions"])
            last.append(observation)
        return self._read(last)


def read_observations(observations: Any, space: Any) -> np.ndarray:
    """Observations [B, ...] of an environment as arrays; an error where they are not of the space."""
    try:
        array = np.asarray(observations)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"env: observations must be numbers, got {observations!r}")
    if array.dtype in (np.float64, np.bool_):
        array = array.astype(np.float32 if array.dtype == np.float64 else np.int32)
    if array.size != len(array) * math.prod(space.shape):
        raise ValueError(f"env: observations must have shape {space.shape}, got {array.shape[1:]}")
    array = array.reshape(len(array), *space.shape)
    space.check("env: observations", array)
    return array


def _flags(name: str, values: Any) -> np.ndarray:
    """What a vector environment says of its copies' ends, bool[B]."""
    return np.array([check_end(name, value) for value in values])


class Normaliser:
    """Observations less their mean over their standard deviation so far; rewards over the size of discounted returns.

    As is usual with PPO, and in streaming learners after Elsayed, Vasan and Mahmood (2024). Others divide rewards by
    the standard deviation of discounted returns. It is near 0 at first where every step pays the same; their root
    mean square is not.

    Args:
      size: numbers of an observation; 0 leaves observations as they are. copies, discount: of the rewards.
    """

    def __init__(self, size: int, copies: int, discount: float):
        self.discount = discount
        self.seen = {"count": np.zeros(1), "mean": np.zeros(size), "square": np.zeros(size)}
        self.paid = {"count": np.zeros(1), "mean": np.zeros(1), "square": np.zeros(1)}
        self.returns = np.zeros(copies)

    def first(self, observations: np.ndarray) -> np.ndarray:
        """Observations at the beginning, counted."""
        self._see(observations)
        return self.apply(observations)

    def _see(self, observations: np.ndarray) -> None:
        if self.seen["mean"].size:
            _count(self.seen, observations)

    def follow(self, given: Round) -> Round:
        """A round with normalised numbers, after counting it."""
        valid = np.ones(len(given.reward), bool) if given.valid is None else given.valid
        if valid.any():
            self.returns = np.where(valid, self.discount * self.returns + given.reward, self.returns)
            self._see(given.observation[valid])
            _count(self.paid, self.returns[valid][:, None])
        self.returns[given.terminated | given.truncated] = 0.0
        scale = np.sqrt(_variance(self.paid)[0] + self.paid["mean"][0] ** 2 + 1e-8)
        reward = np.clip(given.reward / scale, -_FARTHEST, _FARTHEST).astype(np.float32)
        return given._replace(observation=self.apply(given.observation), fresh=self.apply(given.fresh), reward=reward)

    def apply(self, observations: np.ndarray) -> np.ndarray:
        """Without counting."""
        if not self.seen["mean"].size:
            return observations
        apart = (observations - self.seen["mean"]) / np.sqrt(_variance(self.seen) + 1e-8)
        return np.clip(apart, -_FARTHEST, _FARTHEST).astype(np.float32)

    def state(self) -> dict[str, Any]:
        """For a file."""
        return {"seen": plain(self.seen), "paid": plain(self.paid), "returns": self.returns.tolist()}

    def restore(self, saved: dict[str, Any]) -> None:
        """What `state` gave."""
        self.seen, self.paid = ({k: np.array(v) for k, v in saved[name].items()} for name in ("seen", "paid"))
        self.returns = np.array(saved["returns"])


def _count(moments: dict[str, np.ndarray], rows: np.ndarray) -> None:
    """Chan's update of count, mean and sum of squared deviations with rows [n, D]."""
    rows = rows.astype(np.float64)
    n, before, mean = len(rows), moments["count"][0], rows.mean(0)
    apart = mean - moments["mean"]
    moments["square"] = moments["square"] + ((rows - mean) ** 2).sum(0) + apart**2 * before * n / (before + n)
    moments["mean"] = moments["mean"] + apart * n / (before + n)
    moments["count"] = moments["count"] + n


def _variance(moments: dict[str, np.ndarray]) -> np.ndarray:
    """1 before there are two numbers."""
    count = moments["count"][0]
    return moments["square"] / (count - 1) if count > 1 else np.ones_like(moments["square"])
