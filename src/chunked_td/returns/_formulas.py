"""Recursions of this package as coefficients b, a and a start value of one linear recursion.

    xₜ₋₁ = bₜ + aₜ xₜ,   x_T given

The formulas use functions that NumPy, JAX and Torch share; `xp` is one of the three. Arrays have the same rank and
broadcast; `axis` is time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from chunked_td.returns._arguments import Array, along


class Formula(NamedTuple):
    """A recursion of this package."""

    coefficients: Callable[..., tuple[Array, Array]]
    """(b, a) from `xp` and the arguments of a step."""
    names: tuple[str, ...]
    """Arguments, in order."""
    start: str | None = None
    """Argument whose last entry is x_T; x_T = 0 if None."""
    ahead: str | None = None
    """Argument that is read at the next step."""


def _lambda_returns(xp: Any, r_t: Array, discount_t: Array, v_t: Array, lambda_: Array) -> tuple[Array, Array]:
    """Gₜ₋₁ = rₜ + γₜ[(1 − λₜ)vₜ + λₜGₜ],   G_T = v_T."""
    return r_t + discount_t * ((1 - lambda_) * v_t), discount_t * lambda_


def _gae(
    xp: Any,
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    discount: Array,
    next_lambda: Array,
) -> tuple[Array, Array]:
    """Aₜ = δₜ + γₜ λₜ₊₁ (1 − dₜ) Aₜ₊₁,   δₜ = rₜ + γₜ (1 − terminatedₜ) v′ₜ − vₜ,   A_T = 0."""
    delta = rewards + discount * xp.where(terminated, 0.0, next_values) - values
    return delta, xp.where(terminated | truncated, 0.0, discount * next_lambda)


def _off_policy(xp: Any, r_t: Array, discount_t: Array, v_t: Array, q_t: Array, c_t: Array) -> tuple[Array, Array]:
    """Gₜ₋₁ = rₜ + γₜ[vₜ + cₜ(Gₜ − qₜ)],   G_T = q_T."""
    return r_t + discount_t * (v_t - c_t * q_t), discount_t * c_t


def _vtrace(
    xp: Any, r_t: Array, discount_t: Array, v_t: Array, v_tm1: Array, rho_tm1: Array, c_t: Array
) -> tuple[Array, Array]:
    """eₜ₋₁ = ρₜ₋₁(rₜ + γₜvₜ − vₜ₋₁) + γₜ cₜ eₜ,   e_T = 0; both weights are already clipped."""
    return rho_tm1 * (r_t + discount_t * v_t - v_tm1), discount_t * c_t


def _worth(xp: Any, rewards: Array, discount: Array, values: Array, lambda_: Array) -> tuple[Array, Array]:
    """Uₜ = (1 − λₜ)vₜ + λₜ(rₜ + γₜUₜ₊₁): the term that the step before uses; rₜ + γₜUₜ₊₁ is the λ-return."""
    return (1 - lambda_) * values + lambda_ * rewards, lambda_ * discount


def _hold(xp: Any, x: Array, through: Array) -> tuple[Array, Array]:
    """x of this step, plus that of the next step if `through`."""
    return x, xp.where(through, xp.ones_like(x), xp.zeros_like(x))


LAMBDA_RETURNS = Formula(_lambda_returns, ("r_t", "discount_t", "v_t", "lambda_"), start="v_t")
GAE = Formula(
    _gae,
    ("rewards", "values", "next_values", "terminated", "truncated", "discount", "lambda_"),
    ahead="lambda_",
)
OFF_POLICY = Formula(_off_policy, ("r_t", "discount_t", "v_t", "q_t", "c_t"), start="q_t")
VTRACE = Formula(_vtrace, ("r_t", "discount_t", "v_t", "v_tm1", "rho_tm1", "c_t"))
WORTH = Formula(_worth, ("rewards", "discount", "values", "lambda_"), start="last_values")
HOLD = Formula(_hold, ("x", "through"), start="start")


def windows(xp: Any, b: Array, a: Array, v: Array, n: int, axis: int) -> Array:
    """n steps of the recursion from every t, started at v: x_t = f_t(f_{t+1}(… f_{t+n−1}(v_{t+n−1}))).

    Windows of length 2k are composed of two of length k, so there are log₂(n) rounds. Windows that reach the end of
    the trajectory stop there.
    """
    n = min(n, b.shape[axis])
    power, length = (b, a), 1
    total, covered = (xp.zeros_like(b), xp.ones_like(b)), 0
    while covered < n:
        if n & length:
            total = _compose(total, _later(xp, power, covered, axis))
            covered += length
        power = _compose(power, _later(xp, power, length, axis))
        length *= 2
    start = xp.concatenate([along(v, axis, n - 1, None)] + [along(v, axis, -1, None)] * (n - 1), axis=axis)
    return total[0] + total[1] * start


def _compose(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """x ↦ b₁ + a₁(b₂ + a₂x), as coefficients."""
    return first[0] + first[1] * second[0], first[1] * second[1]


def _later(xp: Any, maps: tuple[Array, Array], steps: int, axis: int) -> tuple[Array, Array]:
    """The maps `steps` later; the identity past the end."""
    if steps == 0:
        return maps
    b, a = maps
    pad = along(b, axis, 0, steps)
    return (
        xp.concatenate([along(b, axis, steps, None), xp.zeros_like(pad)], axis=axis),
        xp.concatenate([along(a, axis, steps, None), xp.ones_like(pad)], axis=axis),
    )
