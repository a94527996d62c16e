"""From a Gymnasium environment to dynamics that the simulation plays without Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.envs.dynamics import Dynamics, TransitionTable, independent_copy

_HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "RecordVideo")
"""Wrappers that change neither observations nor rewards nor what actions do."""


def dynamics_of(env: Any, *, horizon: int | None = None) -> Dynamics:
    """Compiled dynamics of a Gymnasium environment; a ValueError says why where there are none.

    | environment | dynamics |
    |---|---|
    | this package's, and `table.env()` | their own; none where the environment hides its state, as the T-maze does |
    | toy-text environments with `env.unwrapped.P`: FrozenLake, CliffWalking, Taxi and their like | `TransitionTable` |

    The simulation draws other random numbers than Gymnasium, except for this package's environments: episodes have the
    same distribution, not the same course.

    Args:
      env: an environment or its id.
      horizon: transitions after which an episode is truncated, for environments without a limit.
    """
    env = _made(env)
    inner = env.unwrapped
    own = getattr(inner, "dynamics", None)
    if getattr(inner, "hidden", False) and own is not None:
        raise ValueError(
            f"env must show its state: {type(inner).__name__} shows percepts, and compiled runs would see what they "
            f"hide; hidden=False shows it"
        )
    limit = _time_limit(env)
    if own is None:
        return TransitionTable.from_env(env, horizon=limit or horizon)
    if limit is not None and limit < own.horizon:
        raise ValueError(f"env must not be cut before its own end, after {own.horizon} steps; its TimeLimit is {limit}")
    return independent_copy(own)


def _made(env: Any) -> Any:
    """An environment from its id, or itself."""
    if isinstance(env, str):
        import gymnasium

        return gymnasium.make(env)
    if not hasattr(env, "unwrapped"):
        raise TypeError(f"env must be a Gymnasium environment or its id, got {env!r}")
    return env


def _time_limit(env: Any) -> int | None:
    """The least limit among the wrappers of an environment. Refuses wrappers that may change what happens."""
    limits = []
    while env is not env.unwrapped:
        kind = type(env).__name__
        if kind not in _HARMLESS:
            raise ValueError(
                f"env must not have wrappers that change what happens: {kind} may, and the transitions of the "
                f"environment inside do not show it"
            )
        if kind == "TimeLimit":
            limits.append(int(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def published(env: Any, starts: Any, horizon: Any) -> dict[str, Any]:
    """What `TransitionTable.from_outcomes` takes, from the `P` and the start distribution of an environment."""
    env = _made(env)
    limit, inner = _time_limit(env), env.unwrapped
    kind = type(inner).__name__
    if hasattr(inner, "dynamics"):
        raise ValueError(
            "env must publish its transitions; this package's environments have compiled dynamics already: "
            "chunked_td.dynamics_of(env), or TransitionTable.from_dynamics(env.unwrapped.dynamics)"
        )
    if getattr(inner, "P", None) is None:
        raise ValueError(
            f"env: {kind} does not publish its transitions as env.unwrapped.P; "
            f"TransitionTable.from_outcomes takes a function from (state, action) to outcomes instead"
        )
    if getattr(inner, "fickle_passenger", False):
        raise ValueError(
            "env must do what its P says, and Taxi with fickle_passenger=True does not: the passenger's change of mind "
            "is not in P"
        )
    if starts is None:
        starts = getattr(inner, "initial_state_distrib", None)
        if starts is None:
            raise ValueError(f"starts must be given: {kind} has no initial_state_distrib to begin in")
        starts = np.asarray(starts, np.float64)
    limit = limit if horizon is None else horizon
    return {"outcomes": inner.P, "starts": starts, "n_actions": int(inner.action_space.n), "horizon": limit}
