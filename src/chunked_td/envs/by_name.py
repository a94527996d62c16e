"""Gymnasium environments and their states by name: for commands, and for runs in other processes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._checks import check_choice
from chunked_td._loading import load_file, real_file
from chunked_td.lambdas.names import classes_of


def make_environment(
    name: str, max_steps: int, settings: Mapping[str, Any] | None = None, wrappers: Sequence[str] = ()
) -> Any:
    """`gymnasium.make`, with an error that says what to do, and with an end to episodes that have none.

    Args:
      name: an id, "module:Id-v0", or a Python file with an environment class, "maze.py" or "maze.py:Maze".
      max_steps: steps after which an episode is truncated where the environment sets no limit of its own.
      settings: keyword arguments of the environment.
      wrappers: "module:Class" each, innermost first.
    """
    import gymnasium as gym

    module = name.partition(":")[0] if ":" in name else ""
    if module:
        _look_here()
    try:
        make = class_in_file(name) if is_file(name) else lambda **given: gym.make(name, **given)
        env = make(**(settings or {}))
    except gym.error.Error as problem:
        hint = "" if module else "; for an environment of another package write package:Id-v0"
        raise ValueError(f"env: {str(problem).rstrip('.')}{hint}") from problem
    except ModuleNotFoundError as problem:
        raise ValueError(f"env: {name} needs a package that is not installed ({problem})") from problem
    except TypeError as problem:
        if not settings:
            raise
        raise ValueError(f"--env-kwargs: {name} cannot be made with {dict(settings)!r} ({problem})") from problem
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    env = env if limited else gym.wrappers.TimeLimit(env, max_steps)
    for wrapper in wrappers:
        env = _named(wrapper, "--wrappers must be module:Class each")(env)
    return env


def is_file(name: str) -> bool:
    """Whether the name of an environment is that of a Python file."""
    return name.endswith(".py") or ".py:" in name


def class_in_file(name: str) -> Any:
    """The environment class in a Python file, "maze.py"; one of several by its name, "maze.py:Maze"."""
    import gymnasium as gym

    path, _, wanted = name.partition(".py:")
    file = real_file(path.removesuffix(".py") + ".py", "env")
    if not file.is_file():
        raise ValueError(f"env must be an id, package:Id-v0 or a Python file, got {name!r}, which is not there")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    found = {cls.__name__: cls for cls in classes_of(load_file(file, "env"), gym.Env)}  # type: ignore[type-var]
    if not found:
        raise ValueError(f"env: {name} must define a class that derives from gymnasium.Env, got none")
    if not wanted and len(found) > 1:
        raise ValueError(f"env: {name} defines {', '.join(found)}; say which one, as in {name}:{next(iter(found))}")
    return found[check_choice("env", wanted, found) if wanted else next(iter(found))]


def make_indexer_for(
    env: Any, bins: Sequence[int] = (), low: Sequence[Any] = (), high: Sequence[Any] = (), name: str | None = None
) -> Any:
    """How observations become ids, as commands say it; None leaves it to the learner.

    Args:
      bins, low, high: bins of a Box, see `chunked_td.Discretise`; one number for all dimensions, or one each.
      name: "hash" gives every observation an id on first sight; "tiles" is tile coding, for linear values;
        "module:function" is called with the environment.
    """
    import chunked_td

    check_indexing(bins, low, high, name)
    if name == "tiles" or (name is None and not bins and has_features(env)):
        return chunked_td.TileCoding(env, one_or_all(bins or (8,)), 8, *map(one_or_all, (low, high)))
    if bins:
        return chunked_td.Discretise(env, one_or_all(bins), *map(one_or_all, (low, high)))
    if name is None:
        return None
    if name == "hash":
        return chunked_td.make_indexer()
    return _named(name, "--indexer must be hash or module:function")(env)


def check_indexing(bins: Sequence[int], low: Sequence[Any], high: Sequence[Any], name: str | None) -> None:
    """Refuse options for `make_indexer_for` that contradict each other."""
    if name == "tiles":
        return
    if bins and name is not None:
        raise ValueError(f"--bins and --indexer both say how observations become ids; got {name!r} and {bins}")
    if (low or high) and not bins:
        raise ValueError("--low and --high are bounds of --bins or --indexer tiles, which were not given")


def has_features(env: Any) -> bool:
    """Whether an environment is learned with features unless told otherwise: its observations are a bounded Box."""
    space = env.observation_space
    bounds = [getattr(space, name, np.inf) for name in ("low", "high")]
    kind = np.dtype(getattr(space, "dtype", None) or int).kind
    return kind == "f" and hasattr(space, "low") and all(bool((np.abs(bound) < 1e30).all()) for bound in bounds)


def one_or_all(values: Sequence[Any]) -> Any:
    """One number for all dimensions, one per dimension, or None where none was given."""
    return None if not values else values[0] if len(values) == 1 else list(values)


def _look_here() -> None:
    """Let modules in the current folder be found, after installed ones: a command by itself does not look there."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _named(name: str, accepted: str) -> Any:
    """What `module:name` stands for."""
    _look_here()
    module, _, thing = name.partition(":")
    try:
        return getattr(importlib.import_module(module), thing)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(f"{accepted}, got {name!r} ({problem})") from problem
