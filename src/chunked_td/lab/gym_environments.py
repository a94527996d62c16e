"""Gymnasium environments by name, for commands."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any


def make_environment(
    name: str, max_steps: int, settings: Mapping[str, Any] | None = None, wrappers: Sequence[str] = ()
) -> Any:
    """`gymnasium.make`, with an error that says what to do, and with an end to episodes that have none.

    Args:
      max_steps: steps after which an episode is truncated where the environment sets no limit of its own.
      settings: keyword arguments of the environment.
      wrappers: "module:Class" each, innermost first.
    """
    import gymnasium as gym

    module = name.partition(":")[0] if ":" in name else ""
    try:
        env = gym.make(name, **(settings or {}))
    except gym.error.Error as problem:
        hint = "" if module else "; for an environment of another package write package:Id-v0"
        raise ValueError(f"env: {problem}{hint}") from problem
    except ModuleNotFoundError as problem:
        raise ValueError(f"env: {name} needs a package that is not installed ({problem})") from problem
    except TypeError as problem:
        if not settings:
            raise
        raise ValueError(f"--env-kwargs: {name} does not take {dict(settings)!r} ({problem})") from problem
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    env = env if limited else gym.wrappers.TimeLimit(env, max_steps)
    for wrapper in wrappers:
        env = _class_named(wrapper)(env)
    return env


def _class_named(name: str) -> Any:
    module, _, cls = name.partition(":")
    try:
        return getattr(importlib.import_module(module), cls)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(f"--wrappers must be module:Class each, got {name!r} ({problem})") from problem
