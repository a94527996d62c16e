"""Checks of the arguments that users and environments pass to a learner."""

from __future__ import annotations

import functools
import inspect
import math
from numbers import Integral, Real
from operator import index as as_integer
from typing import Any

import numpy as np

from chunked_td._checks import check_choice, check_numbers, name_hint
from chunked_td.observations.indexers import Indexer


@functools.cache
def settings_of(cls: type) -> tuple[str, ...]:
    """The keyword arguments of a learner class."""
    found: dict[str, None] = {}
    for kind in cls.__mro__:
        if "__init__" in vars(kind) and kind is not object:
            parameters = inspect.signature(vars(kind)["__init__"]).parameters.values()
            found |= {one.name: None for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}
            if not any(one.kind is one.VAR_KEYWORD for one in parameters):
                break  # base classes do not receive further keywords
    return tuple(name for name in found if name != "self")


def refuse_unknown_settings(cls: type, settings: dict[str, Any]) -> None:
    """Raise a TypeError for keywords that a learner does not take, with the nearest valid one."""
    known = settings_of(cls)
    for name in settings:
        if name not in known:
            meant = name_hint(name, known)
            value = f"{meant}={settings[name]!r}"
            hint = f"; did you mean {value}?" if meant else f"; it takes {', '.join(known)}"
            if name in ("lambda_", "lam", "lambda") and meant == "lambda_source":
                fixed = f"SarsaLambda(env, lambda_={settings[name]!r})"
                hint = (
                    f"; its λ comes from a model. For one λ at every step: {fixed} or ExpectedSarsaLambda, or {value}"
                )
            raise TypeError(f"{cls.__name__} has no setting {name!r}{hint}")


def learner_by_name(name: str) -> Any:
    """Return the learner class called `name`; the error for an unknown name suggests the nearest one."""
    import chunked_td

    return getattr(chunked_td, check_choice("learner", name, chunked_td.LEARNERS))


def is_vector_environment(env: Any) -> bool:
    """Return whether `env` is a vector environment of Gymnasium."""
    return hasattr(env, "single_observation_space")


def refuse_vector_environment(env: Any) -> None:
    """Raise a ValueError for a vector environment."""
    if is_vector_environment(env):
        copies = getattr(env, "num_envs", "several")
        raise ValueError(
            f"env: a vector environment of {copies} copies; `learn` takes it, but evaluate and explain follow one "
            f"episode at a time. Pass a single environment (gymnasium.make)"
        )


def count_rewards(env: Any) -> int:
    """Return the number of reward components of an environment, read through its wrappers.

    The outermost layer with a `reward_space` decides. mo-gymnasium's `LinearReward` has none and returns one number.
    """
    layer, seen = env, 0
    while layer is not None and seen < 100:
        if any(base.__name__ == "LinearReward" for base in type(layer).__mro__):
            return 1
        space = getattr(layer, "reward_space", None)
        if space is not None:
            return int(np.prod(space.shape))
        layer, seen = getattr(layer, "env", None), seen + 1
    space = getattr(getattr(env, "unwrapped", env), "reward_space", None)
    return 1 if space is None else int(np.prod(space.shape))


def check_reward_weights(weights: Any, components: int) -> np.ndarray | None:
    """Check the reward weights: a finite factor per reward component, float64[d]."""
    if weights is None:
        return None
    given = np.array(weights, np.float64)
    if given.shape != (components,) or not np.isfinite(given).all():
        raise ValueError(f"reward_weights must be {components} finite numbers, one per component, got {weights!r}")
    return given


def check_action(name: str, action: Any, n_actions: int, start: int, legal: np.ndarray) -> int:
    """Check an action that the learner did not choose; return it counted from 0."""
    try:
        number = as_integer(action) - start
    except TypeError:
        number = -1
    if not 0 <= number < n_actions:
        raise ValueError(f"{name} must be an action, {start}..{start + n_actions - 1}, got {action!r}")
    if not legal[number]:
        raise ValueError(f"{name}: got {action!r}, which info['action_mask'] forbids; action_mask=False ignores it")
    return number


def check_policy_table(policy: Any, indexer: Any, n_actions: int, name: str = "policy") -> np.ndarray:
    """Check a policy table: action probabilities of every state, float64[S, A]."""
    table = check_numbers(name, policy, "rows of probabilities that sum to 1")
    if not indexer.fixed:
        raise ValueError(f"{name}: states get ids on first sight here, so pass a function from observation to float[A]")
    if table.shape != (indexer.size, n_actions):
        raise ValueError(f"{name} must have shape (states, actions) = {(indexer.size, n_actions)}, got {table.shape}")
    if not ((table >= 0.0).all() and (abs(table.sum(axis=1) - 1.0) <= 1e-8).all()):
        raise ValueError(f"{name} must have rows of probabilities that sum to 1")
    return table


def policy_row(given: Any, legal: np.ndarray, name: str = "policy") -> np.ndarray:
    """Check a user's action probabilities in one state; return them normalised over the legal actions, float64[A]."""
    row = check_numbers(name, given, f"{legal.size} probabilities that sum to 1")
    if row.shape != legal.shape or not (row >= 0.0).all() or abs(row.sum() - 1.0) > 1e-8:
        raise ValueError(f"{name} must give {legal.size} probabilities that sum to 1, got {row!r}")
    allowed = np.where(legal, row, 0.0)
    if not allowed.sum() > 0.0:
        raise ValueError(f"{name} must allow a legal action, got {row!r} where info['action_mask'] is {legal!r}")
    return allowed / allowed.sum()


def check_indexer(indexer: Any) -> Any:
    """Check that a user's indexer has every attribute that a learner reads."""
    size = getattr(indexer, "size", None)
    if not callable(indexer) or not isinstance(size, Integral) or isinstance(size, bool) or size < 0:
        raise ValueError(f"indexer must be a chunked_td.observations.Indexer, callable, with a size, got {indexer!r}")
    for name in ("fixed", "nvec", "find", "state"):
        if not hasattr(indexer, name):
            raise ValueError(f"indexer must be a chunked_td.observations.Indexer: {indexer!r} has no {name!r}")
    return indexer


def check_id(state: Any, indexer: Indexer) -> int:
    """Check a state id from an indexer; return an int, which compiled code uses as an array index."""
    number = int(state) if isinstance(state, int | np.integer) and not isinstance(state, bool) else -1
    if 0 <= number < indexer.size:
        return number
    known = f"integers in 0..{indexer.size - 1} (its size is {indexer.size})"
    raise ValueError(f"indexer {type(indexer).__name__} must give {known}, got {state!r}")


def check_end(name: str, value: Any) -> bool:
    """Check `terminated` or `truncated`: a bool, 0 or 1, of Python or NumPy."""
    given = value.item() if isinstance(value, np.ndarray) and value.shape == () else value
    if isinstance(given, bool | np.bool_ | Integral) and given in (0, 1):
        return bool(given)
    none = f"; an environment that never sets it gives {name}=False" if value is None else ""
    raise ValueError(f"{name} must be True or False, got {value!r}{none}")


def check_reward(reward: Any) -> float:
    """Check a scalar reward; return a finite float. NumPy numbers and arrays with one entry are accepted."""
    if type(reward) is float and math.isfinite(reward):
        return reward
    if isinstance(reward, np.ndarray) and reward.shape in ((), (1,)):
        reward = reward.item()
    if isinstance(reward, Real | np.bool_):  # some of Gymnasium's own environments return True and False
        try:
            value = float(reward)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise ValueError(f"reward must be finite, got {reward!r}")
        return value
    if hasattr(reward, "__array__") and not isinstance(reward, np.generic | np.ndarray):  # JAX, Torch on the CPU
        return check_reward(np.asarray(reward))
    raise ValueError(f"reward must be a number, got {reward!r}")


def check_reward_vector(reward: Any, components: int) -> np.ndarray:
    """Check a vector reward: a finite number per component."""
    values = check_numbers("reward", reward, f"{components} of them")
    if values.shape == ():
        raise ValueError(
            f"reward must have {components} components, got the number {reward!r}; if a wrapper makes one number of "
            f"them, give the wrapper a `reward_space` of shape ()"
        )
    if values.shape != (components,):
        raise ValueError(f"reward must have {components} components, got {reward!r} of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"reward must be finite in every component, got {reward!r}")
    return values


def legal_actions(mask: Any, n_actions: int) -> np.ndarray:
    """Check `info["action_mask"]`; return the legal actions, bool[A]."""
    try:
        given = np.asarray(mask)
    except ValueError:  # rows of different lengths
        given = np.zeros(0)
    if given.shape != (n_actions,):
        raise ValueError(f"info['action_mask'] must have shape ({n_actions},), got {mask!r}")
    legal = given.astype(bool) if given.dtype.kind in "biuf" else np.zeros(n_actions, bool)
    if given.dtype != bool and (legal != given).any():
        raise ValueError(f"info['action_mask'] must be {n_actions} times 0 or 1, got {mask!r}")
    if not legal.any():
        raise ValueError(f"info['action_mask'] forbids every action: {mask!r}; at least one must be allowed")
    return legal
