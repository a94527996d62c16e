"""λ-returns, n-step returns and TD(λ) errors with a λ per step (Eq. 4); names, order and indices are rlax's."""

from __future__ import annotations

import dataclasses
import operator

from chunked_td.returns._arguments import Array, Kind, along, read


def lambda_returns(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    lambda_t: Array = 1.0,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """λ-returns with one λ, or a λ per step (Eq. 4).

        Gₜ₋₁ = rₜ + γₜ[(1 − λₜ)vₜ + λₜGₜ],   G_T = v_T

    λ = 0 is the TD(0) target; λ = 1 is the Monte-Carlo return, bootstrapped at the end if γ_T is not 0. λ_T does not
    matter.

    Args:
      r_t: float[T, ...], rewards for t in 1..T.
      discount_t: float[T, ...] in [0, 1], or one number for all; 0 where s_t is terminal.
      v_t: float[T, ...], values of s_1..s_T.
      lambda_t: float[T, ...] in [0, 1], or one number for all; 0 where an episode was cut at s_t.
      time_axis: which axis of r_t is time.
      stop_target_gradients: whether the results are constants (JAX and Torch).

    Returns:
      float[T, ...]: targets for the states at 0..T−1.
    """
    given = read(
        {
            "r_t": (r_t, Kind.REAL),
            "discount_t": (discount_t, Kind.UNIT),
            "v_t": (v_t, Kind.REAL),
            "lambda_t": (lambda_t, Kind.UNIT),
        },
        time_axis,
    )
    return given.backend.lambda_returns(given, stop_target_gradients)


def discounted_returns(
    r_t: Array, discount_t: Array, v_t: Array, *, time_axis: int = 0, stop_target_gradients: bool = True
) -> Array:
    """Monte-Carlo returns, bootstrapped at the end of the trajectory only.

        Gₜ₋₁ = rₜ + γₜGₜ,   G_T = v_T

    Args:
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      v_t: float[T, ...] or one number; only the value of s_T is read.
      time_axis, stop_target_gradients: as in `lambda_returns`.

    Returns:
      float[T, ...]: targets for the states at 0..T−1.
    """
    given = read({"r_t": (r_t, Kind.REAL), "v_t": (v_t, Kind.READ)}, time_axis)
    last = along(given.arrays["v_t"], given.axis, -1, None)
    return lambda_returns(r_t, discount_t, last, 1.0, time_axis=time_axis, stop_target_gradients=stop_target_gradients)


def n_step_bootstrapped_returns(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    n: int,
    lambda_t: Array = 1.0,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """n-step returns: the recursion of `lambda_returns`, started at v no more than n steps ahead.

        Gₜ₋₁ = rₜ + γₜ(rₜ₊₁ + γₜ₊₁(… (rₜ₊ₙ₋₁ + γₜ₊ₙ₋₁vₜ₊ₙ₋₁)))   for λ = 1

    Args:
      r_t, discount_t, v_t, lambda_t: float[T, ...], as in `lambda_returns`.
      n: number of rewards to add up before bootstrapping; fewer near the end, where v_T is as far as one can see.
      time_axis, stop_target_gradients: as in `lambda_returns`.

    Returns:
      float[T, ...]: targets for the states at 0..T−1.
    """
    arguments = {
        "r_t": (r_t, Kind.REAL),
        "discount_t": (discount_t, Kind.UNIT),
        "v_t": (v_t, Kind.REAL),
        "lambda_t": (lambda_t, Kind.UNIT),
    }
    given = read(arguments, time_axis, check=arguments)
    return given.backend.n_step_returns(given, _positive(n), stop_target_gradients)


def td_lambda(
    v_tm1: Array,
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    lambda_t: Array = 1.0,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """TD(λ) errors: λ-returns less the values they are targets for.

        eₜ₋₁ = Gₜ₋₁ − vₜ₋₁

    Args:
      v_tm1: float[T, ...], values of s_0..s_{T−1}; their gradient passes through.
      r_t, discount_t, v_t, lambda_t: float[T, ...], as in `lambda_returns`.
      time_axis, stop_target_gradients: as in `lambda_returns`.

    Returns:
      float[T, ...]: errors of the states at 0..T−1.
    """
    given = read(
        {
            "r_t": (r_t, Kind.REAL),
            "discount_t": (discount_t, Kind.UNIT),
            "v_t": (v_t, Kind.REAL),
            "lambda_t": (lambda_t, Kind.UNIT),
            "v_tm1": (v_tm1, Kind.REAL),
        },
        time_axis,
        check=("v_tm1",),
    )
    *arguments, v_tm1 = given.arrays.items()
    given = dataclasses.replace(given, arrays=dict(arguments))
    return given.backend.lambda_returns(given, stop_target_gradients) - v_tm1[1]


def _positive(n: int) -> int:
    try:
        number = -1 if isinstance(n, bool) else operator.index(n)
    except TypeError:
        number = -1
    if number < 1:
        raise ValueError(f"n: got {n!r}, takes a positive integer")
    return number
