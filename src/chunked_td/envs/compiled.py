"""Compiled dynamics of a Gymnasium environment, for simulation without Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.envs.dynamics import Dynamics, TransitionTable, independent_copy

_HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "RecordVideo")
"""Wrappers that change neither observations nor rewards nor the effects of actions."""


def dynamics_of(env: Any, *, horizon: int | None = None) -> Dynamics:
    """Compiled dynamics of a Gymnasium environment; a ValueError gives the reason if there are none.

    | environment | dynamics |
    |---|---|
    | this package's, and `table.env()` | its own; none if the environment hides its state, as the T-maze does |
    | toy-text environments with `env.unwrapped.P`, such as FrozenLake, CliffWalking and Taxi | `TransitionTable` |

    For environments of other packages the simulation draws other random numbers than Gymnasium: episodes have the same
    distribution but differ for one seed.

    Args:
      env: an environment or its id.
      horizon: transitions after which an episode is truncated, for environments without a limit.
    """
    env = _made(env)
    inner = env.unwrapped
    own = getattr(inner, "dynamics", None)
    if getattr(inner, "hidden", False) and own is not None:
        raise ValueError(
            f"env must show its state: {type(inner).__name__} shows percepts, and compiled runs would read the hidden "
            f"state; pass hidden=False to show it"
        )
    limit = _time_limit(env)
    if own is None:
        return TransitionTable.from_env(env, horizon=limit or horizon)
    if limit is not None and limit < own.horizon:
        raise ValueError(f"env must have a TimeLimit of at least its own {own.horizon} steps, got {limit}")
    return independent_copy(own)


def _made(env: Any) -> Any:
    """Make an environment from its id, or return the environment itself."""
    if isinstance(env, str):
        import gymnasium

        return gymnasium.make(env)
    if not hasattr(env, "unwrapped"):
        raise TypeError(f"env must be a Gymnasium environment or its id, got {env!r}")
    return env


def _time_limit(env: Any) -> int | None:
    """Smallest limit among the wrappers of an environment; a ValueError for wrappers that may change transitions."""
    limits = []
    while env is not env.unwrapped:
        kind = type(env).__name__
        if kind not in _HARMLESS:
            raise ValueError(
                f"env must not have wrappers that may change its transitions, got {kind}; the simulation plays the "
                f"unwrapped environment, so remove the wrapper"
            )
        if kind == "TimeLimit":
            limits.append(int(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def published(env: Any, starts: Any, horizon: Any) -> dict[str, Any]:
    """Arguments of `TransitionTable.from_outcomes` from the `P` and the start distribution of an environment."""
    env = _made(env)
    limit, inner = _time_limit(env), env.unwrapped
    kind = type(inner).__name__
    if hasattr(inner, "dynamics"):
        raise ValueError(
            "env must publish its transitions as env.unwrapped.P, got an environment with compiled dynamics: use "
            "chunked_td.dynamics_of(env), or TransitionTable.from_dynamics(env.unwrapped.dynamics)"
        )
    if getattr(inner, "P", None) is None:
        raise ValueError(
            f"env must publish its transitions as env.unwrapped.P, got {kind}, which does not; "
            f"TransitionTable.from_outcomes takes a function from (state, action) to outcomes instead"
        )
    if getattr(inner, "fickle_passenger", False):
        raise ValueError(
            "env must have all its transitions in P, got Taxi with fickle_passenger=True: the passenger's change of "
            "mind is not in P"
        )
    if starts is None:
        starts = getattr(inner, "initial_state_distrib", None)
        if starts is None:
            raise ValueError(f"starts must be given: {kind} has no initial_state_distrib")
        starts = np.asarray(starts, np.float64)
    limit = limit if horizon is None else horizon
    return {"outcomes": inner.P, "starts": starts, "n_actions": int(inner.action_space.n), "horizon": limit}
