"""Generalized advantage estimates with a λ per step: from a rollout buffer (`gae`), and with rlax's arguments."""

from __future__ import annotations

from chunked_td.returns._arguments import Array, Kind, along, read
from chunked_td.returns.multistep import td_lambda


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    discount: Array,
    lambda_: Array,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """Advantages of the steps of a rollout, in which episodes may end and begin anywhere.

        Aₜ = δₜ + γₜ λₜ₊₁ (1 − terminatedₜ)(1 − truncatedₜ) Aₜ₊₁,   A_T = 0
        δₜ = rₜ + γₜ (1 − terminatedₜ) v′ₜ − vₜ

    Every argument is indexed by t in 0..T−1, the state s_t that step t leaves. So `lambda_[t]` is the λ *of the state*
    s_t, the predictability of step t, and it weighs what s_{t−1} takes from A_t; the first entry of an episode is not
    used. The λ-return, a target for a critic, is A_t + values[t].

    Args:
      rewards: float[T, ...], of step t.
      values: float[T, ...], V(s_t).
      next_values: float[T, ...], the value of the state that step t really led to: V(s_{t+1}), and where an episode was
        cut, that of the state it was cut in, not of the first state of the next episode. Not read where terminated.
      terminated: bool[T, ...], whether step t ended the episode; nothing is to come after it.
      truncated: bool[T, ...], whether the episode was cut after step t; it bootstraps from `next_values`.
      discount: float in [0, 1], or float[T, ...].
      lambda_: float[T, ...] in [0, 1], or one number for all.
      time_axis: which axis of rewards is time.
      stop_target_gradients: whether the results are constants (JAX and Torch).

    Returns:
      float[T, ...]: advantages of steps 0..T−1.
    """
    given = read(
        {
            "rewards": (rewards, Kind.REAL),
            "values": (values, Kind.REAL),
            "next_values": (next_values, Kind.READ),
            "terminated": (terminated, Kind.FLAG),
            "truncated": (truncated, Kind.FLAG),
            "discount": (discount, Kind.UNIT),
            "lambda_": (lambda_, Kind.UNIT),
        },
        time_axis,
    )
    return given.backend.gae(given, stop_target_gradients)


def truncated_generalized_advantage_estimation(
    r_t: Array,
    discount_t: Array,
    lambda_: Array,
    values: Array,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """Advantages with the arguments of rlax's function of this name.

        Aₜ₋₁ = δₜ₋₁ + γₜλₜAₜ,   δₜ₋₁ = rₜ + γₜvₜ − vₜ₋₁,   A_T = 0

    They are the λ-returns less the values. γ_t = 0 where an episode ends in the middle of the trajectory. One array of
    values has no room for the state an episode was cut in: for rollouts with truncation use `gae`.

    Args:
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      lambda_: float[T, ...] in [0, 1], λ_t for t in 1..T, or one number for all.
      values: float[T+1, ...], values of s_0..s_T.
      time_axis, stop_target_gradients: as in `lambda_returns`.

    Returns:
      float[T, ...]: advantages at 0..T−1.
    """
    rewards = read({"r_t": (r_t, Kind.REAL)}, time_axis)
    given = read({"values": (values, Kind.REAL)}, time_axis)
    shape = list(rewards.shape)
    shape[rewards.axis] += 1
    if given.shape != tuple(shape):
        raise ValueError(f"values: got shape {given.shape}, takes {tuple(shape)}, one step more than r_t")
    values = given.arrays["values"]
    now, later = along(values, given.axis, 0, -1), along(values, given.axis, 1, None)
    errors = td_lambda(now, r_t, discount_t, later, lambda_, time_axis=time_axis, stop_target_gradients=False)
    return given.backend.stop_gradient(errors) if stop_target_gradients else errors
