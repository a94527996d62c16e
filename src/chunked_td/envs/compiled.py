"""From a Gymnasium environment to dynamics that the simulation plays without Python."""

from __future__ import annotations

from typing import Any

from chunked_td.envs.dynamics import Blackjack, Dynamics, TransitionTable, independent_copy
from chunked_td.envs.table_building import made, time_limit


def dynamics_of(env: Any, *, horizon: int | None = None) -> Dynamics:
    """Compiled dynamics of a Gymnasium environment; a ValueError says why where there are none.

    | environment | dynamics |
    |---|---|
    | this package's, and `table.env()` | their own; none where the environment hides its state, as the T-maze does |
    | `Blackjack-v1` | `Blackjack` |
    | toy-text environments with `env.unwrapped.P`: FrozenLake, CliffWalking, Taxi and their like | `TransitionTable` |

    The simulation draws other random numbers than Gymnasium, except for this package's environments: episodes have the
    same distribution, not the same course.

    Args:
      env: an environment or its id.
      horizon: transitions after which an episode is truncated, for environments without a limit.
    """
    env = made(env)
    inner = env.unwrapped
    own = getattr(inner, "dynamics", None)
    if getattr(inner, "hidden", False) and own is not None:
        raise ValueError(
            f"env must show its state: {type(inner).__name__} shows percepts, and compiled runs would see what they "
            f"hide; hidden=False shows it"
        )
    if own is None and type(inner).__name__ == "BlackjackEnv":
        own = Blackjack.make(bool(inner.sab), bool(inner.natural) and not inner.sab)
    if own is None:
        return TransitionTable.from_env(env, horizon=time_limit(env) or horizon)
    limit = time_limit(env)
    if limit is not None and limit < own.horizon:
        raise ValueError(f"env must not be cut before its own end, after {own.horizon} steps; its TimeLimit is {limit}")
    return independent_copy(own)
