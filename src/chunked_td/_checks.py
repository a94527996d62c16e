"""Checks of arguments, with errors of one form: "<name> must be <accepted values>, got <value>".

A value out of range is a ValueError. A value of the wrong type is a TypeError in the checks of environment settings
(`check_whole`, `check_finite`, `check_probability`, `check_flag`) and a ValueError in the others.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def did_you_mean(value: Any, names: Iterable[str], cutoff: float = 0.4) -> str:
    """Hint to append to an error: "; did you mean 'x'?", or "" if no name is similar."""
    near = difflib.get_close_matches(str(value), list(names), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


SYNONYMS = {
    "step_size": ("lr", "learning_rate", "alpha", "stepsize", "eta"),
    "step_sizes": ("lr", "lrs", "learning_rate", "learning_rates", "alpha", "alphas", "stepsize", "eta"),
    "discount": ("gamma", "discount_factor"),
    "lambda_": ("lambda", "lam", "lmbda", "lambd", "gae_lambda", "trace_decay"),
    "lambdas": ("lambda_", "lambda"),
    "lambda_source": ("lambda_", "lambda", "lam", "lmbda", "lambd", "gae_lambda", "source"),
    "epsilon": ("eps", "exploration_rate", "exploration"),
    "episodes": ("n_episodes", "num_episodes", "max_episodes", "total_episodes", "total_timesteps", "epochs"),
    "env": ("environment", "env_id", "env_name"),
    "env_kwargs": ("env_args", "kwargs"),
    "max_steps": ("max_episode_steps", "time_limit"),
    "initial_value": ("q_init", "init_value", "optimistic"),
    "learner": ("agent", "algo", "algorithm", "method"),
    "bins": ("n_bins", "num_bins"),
    "out": ("output", "save", "folder", "logdir", "log_dir"),
    "seeds": ("n_seeds", "num_seeds", "runs"),
}
"""Names of settings in other libraries."""


def name_hint(name: str, known: Iterable[str]) -> str:
    """The known setting that a synonym or a similar name means; "" if there is none."""
    names, plain = list(known), name.strip("-").replace("-", "_").lower()
    meant = next((ours for ours, others in SYNONYMS.items() if ours in names and plain in others), None)
    near = difflib.get_close_matches(plain, names, n=1, cutoff=0.75)
    return meant or (near[0] if near else "")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> Any:
    """Return `value` if it is one of `choices`; the error suggests a similar one."""
    names = list(choices)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}{did_you_mean(value, names)}")


def check_text(name: str, value: Any) -> str:
    """Return a text that UTF-8 can encode; half a surrogate pair, such as "\\ud800", cannot be written to a file."""
    if isinstance(value, str) and value.encode("utf-8", "replace").decode() == value:
        return value
    raise ValueError(f"{name} must be text that UTF-8 can write, got {value!r}")


def check_seed(seed: Any) -> int:
    """Return an integer ≥ 0 as an int."""
    if not _is_whole(seed) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0, got {seed!r}")
    return int(seed)


def check_episodes(episodes: Any, least: int) -> int:
    """Return a number of episodes, from `least` to 10⁹, as an int."""
    most = 10**9
    if not _is_whole(episodes) or not least <= episodes <= most:
        raise ValueError(f"episodes must be a whole number from {least} to {most:,}, got {episodes!r}")
    return int(episodes)


def check_unit(name: str, value: Any) -> float:
    """Return a number in [0, 1] as a float."""
    return _check_number(name, value, 0.0, 1.0, "a number in [0, 1]")


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above zero as a float."""
    return _check_number(name, value, math.ulp(0.0), math.inf, "a positive finite number")


def check_not_negative(name: str, value: Any) -> float:
    """Return a finite number ≥ 0 as a float."""
    return _check_number(name, value, 0.0, math.inf, "a finite number from 0")


def _check_number(name: str, value: Any, low: float, high: float, accepted: str) -> float:
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not low <= number <= high or math.isinf(number):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return number


def as_array(value: Any) -> np.ndarray:
    """NumPy array of a value; an array of None if its rows have different lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.array(None)


def check_numbers(name: str, value: Any, accepted: str) -> np.ndarray:
    """Return real numbers of any shape as float64; `accepted` describes them in the error."""
    given = as_array(value)
    if given.dtype.kind not in "fiu":  # strings would be converted, and so would True and 10**400 fail later
        raise ValueError(f"{name} must be numbers, {accepted}, got {value!r}")
    return given.astype(np.float64)


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return an integer in [least, most] as an int; without `most` there is no upper limit."""
    accepted = f"an integer >= {least}" if most is None else f"an integer in [{least}, {most}]"
    if not _is_whole(value):
        raise _wrong_type(name, value, accepted)
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} must be {accepted}, got {value!r}")
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: Any) -> int:
    """Return an integer ≥ 1 as an int."""
    return check_whole(name, value, 1)


def check_finite(name: str, value: Any) -> float:
    """Return a finite number as a float."""
    return _check_real(name, value, -math.inf, math.inf, "a finite number")


def check_probability(name: str, value: Any) -> float:
    """Return a probability as a float."""
    return _check_real(name, value, 0.0, 1.0, "a probability in [0, 1]")


def _check_real(name: str, value: Any, low: float, high: float, accepted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wrong_type(name, value, accepted)
    return _check_number(name, value, low, high, accepted)


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool):
        raise _wrong_type(name, value, "True or False")
    return value


def _wrong_type(name: str, value: Any, accepted: str) -> TypeError:
    return TypeError(f"{name} must be {accepted}, got {value!r} ({type(value).__name__})")
