"""Gymnasium environments by name, for commands."""

from __future__ import annotations

from typing import Any


def make_environment(name: str, max_steps: int) -> Any:
    """`gymnasium.make`, with an error that says what to do, and with an end to episodes that have none.

    Args:
      max_steps: steps after which an episode is truncated where the environment sets no limit of its own.
    """
    import gymnasium as gym

    module = name.partition(":")[0] if ":" in name else ""
    try:
        env = gym.make(name)
    except gym.error.Error as problem:
        hint = "" if module else "; for an environment of another package write package:Id-v0"
        raise ValueError(f"env: {problem}{hint}") from problem
    except ModuleNotFoundError as problem:
        raise ValueError(f"env: {name} needs a package that is not installed ({problem})") from problem
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    return env if limited else gym.wrappers.TimeLimit(env, max_steps)
