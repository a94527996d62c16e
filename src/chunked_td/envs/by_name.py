"""Gymnasium environments and indexers by name, for commands and for runs in other processes."""

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
    """Make a Gymnasium environment; errors name the next step, and episodes without a limit are truncated.

    Args:
      name: an id, "module:Id-v0", or a Python file with an environment class, "maze.py" or "maze.py:Maze".
      max_steps: steps after which an episode is truncated if the environment sets no limit of its own.
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
        hint = "" if module else "; write package:Id-v0 for an environment of another package"
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
    """Whether the name of an environment is a Python file."""
    return name.endswith(".py") or ".py:" in name


def class_in_file(name: str) -> Any:
    """Environment class in a Python file, "maze.py", or one of several classes by name, "maze.py:Maze"."""
    import gymnasium as gym

    path, _, wanted = name.partition(".py:")
    file = real_file(path.removesuffix(".py") + ".py", "env")
    if not file.is_file():
        raise ValueError(f"env must be an id, package:Id-v0 or a Python file, got {name!r}, which does not exist")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    found = {cls.__name__: cls for cls in classes_of(load_file(file, "env"), gym.Env)}  # type: ignore[type-var]
    if not found:
        raise ValueError(f"env: {name} must define a class that derives from gymnasium.Env, got none")
    if not wanted and len(found) > 1:
        raise ValueError(f"env: {name} defines {', '.join(found)}; name one of them, as in {name}:{next(iter(found))}")
    return found[check_choice("env", wanted, found) if wanted else next(iter(found))]


def make_indexer_for(
    env: Any, bins: Sequence[int] = (), low: Sequence[Any] = (), high: Sequence[Any] = (), name: str | None = None
) -> Any:
    """Indexer for the options of a command; None if the learner chooses it.

    Args:
      bins, low, high: bins of a Box, see `chunked_td.Discretise`; one number for all dimensions, or one each.
      name: "hash" assigns ids to observations on first sight; "tiles" is tile coding, for linear values;
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
    """Raise ValueError if options of `make_indexer_for` contradict each other."""
    if name == "tiles":
        return
    if bins and name is not None:
        raise ValueError(f"--bins and --indexer both define state ids: give one of them, got {bins} and {name!r}")
    if (low or high) and not bins:
        raise ValueError("--low and --high are bounds of bins or tiles: add --bins or --indexer tiles")


def has_features(env: Any) -> bool:
    """Whether learning uses features by default: the observations are a bounded Box."""
    space = env.observation_space
    bounds = [getattr(space, name, np.inf) for name in ("low", "high")]
    kind = np.dtype(getattr(space, "dtype", None) or int).kind
    return kind == "f" and hasattr(space, "low") and all(bool((np.abs(bound) < 1e30).all()) for bound in bounds)


def one_or_all(values: Sequence[Any]) -> Any:
    """One number for all dimensions, a list with one per dimension, or None if there are none."""
    return None if not values else values[0] if len(values) == 1 else list(values)


def _look_here() -> None:
    """Add the current folder to the module path, after installed modules; a console command does not have it there."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _named(name: str, accepted: str) -> Any:
    """The object that `module:name` refers to."""
    _look_here()
    module, _, thing = name.partition(":")
    try:
        return getattr(importlib.import_module(module), thing)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(f"{accepted}, got {name!r} ({problem})") from problem
