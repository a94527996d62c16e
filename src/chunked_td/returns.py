"""Forward view: targets for every state of a trajectory, from its rewards, its values and a λ per step.

Names and indices are those of rlax. A trajectory visits s_0, s_1, …, s_T; an argument that ends in `_t` has one
entry for each t in 1..T, and results have one for each of the states s_0..s_{T−1}. The entries at t say how
s_t was entered and what it is worth: the reward r_t on the way in, the discount γ_t (0 if s_t is terminal), the
value v_t = V(s_t), or Q(s_t, a_t) for SARSA, or Σ_a π(a|s_t) Q(s_t, a) for Expected-SARSA.

The λ that belongs to s_t is how predictable the transition *leaving* s_t was: P̂(s_{t+1} | s_t) for state values,
P̂(s_{t+1} | s_t, a_t) π(a_{t+1} | s_{t+1}) for SARSA. λ_T is never used, so any number will do there.

Time is the last axis and every axis before it is a batch; rlax's functions take a single trajectory, for which the
two agree. Arguments may be anything NumPy can read (JAX arrays, Torch tensors on the CPU); results are float64 NumPy
arrays. They are targets, that is constants: no gradient flows through them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from chunked_td.compiled import kernel

__all__ = [
    "chunked_targets",
    "discounted_returns",
    "lambda_returns",
    "n_step_bootstrapped_returns",
    "sample_keep",
    "td_lambda",
    "truncated_generalized_advantage_estimation",
]


def lambda_returns(r_t: ArrayLike, discount_t: ArrayLike, v_t: ArrayLike, lambda_t: ArrayLike = 1.0) -> np.ndarray:
    """λ-returns with one λ, or a λ per step (Eq. 4).

        Gₜ₋₁ = rₜ + γₜ[(1 − λₜ)vₜ + λₜGₜ],   G_T = v_T

    λ = 0 is the TD(0) target; λ = 1 is the Monte-Carlo return, bootstrapped at the end if γ_T is not 0.

    Args:
      r_t: float[..., T], rewards for t in 1..T.
      discount_t: float[..., T] in [0, 1], or one number for all; 0 where s_t is terminal.
      v_t: float[..., T], values of s_1..s_T.
      lambda_t: float[..., T] in [0, 1], or one number for all.

    Returns:
      float64[..., T]: targets for the states at 0..T−1.
    """
    rewards, discounts, values, lambdas = _trajectories(r_t, discount_t, v_t, lambda_t)
    targets = np.empty_like(rewards)
    _each_row(rewards, discounts, values, lambdas, targets)
    return targets.reshape(np.shape(r_t))


def discounted_returns(r_t: ArrayLike, discount_t: ArrayLike, v_t: ArrayLike) -> np.ndarray:
    """Monte-Carlo returns, bootstrapped at the end of the trajectory only.

        Gₜ₋₁ = rₜ + γₜGₜ,   G_T = v_T

    Args:
      r_t, discount_t: float[..., T], as in `lambda_returns`.
      v_t: float[..., T] or one number; only the value of s_T is read.

    Returns:
      float64[..., T]: targets for the states at 0..T−1.
    """
    return lambda_returns(r_t, discount_t, v_t, 1.0)


def n_step_bootstrapped_returns(
    r_t: ArrayLike, discount_t: ArrayLike, v_t: ArrayLike, n: int, lambda_t: ArrayLike = 1.0
) -> np.ndarray:
    """n-step returns: the recursion of `lambda_returns`, started at v no more than n steps ahead.

        Gₜ₋₁ = rₜ + γₜ(rₜ₊₁ + γₜ₊₁(… (rₜ₊ₙ₋₁ + γₜ₊ₙ₋₁vₜ₊ₙ₋₁)))   for λ = 1

    Args:
      r_t, discount_t, v_t, lambda_t: float[..., T], as in `lambda_returns`.
      n: number of rewards to add up before bootstrapping; fewer near the end, where v_T is as far as one can see.

    Returns:
      float64[..., T]: targets for the states at 0..T−1.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n: got {n!r}, takes a positive integer")
    rewards, discounts, values, lambdas = _trajectories(r_t, discount_t, v_t, lambda_t)
    targets = np.empty_like(rewards)
    _each_window(rewards, discounts, values, lambdas, min(int(n), rewards.shape[-1]), targets)
    return targets.reshape(np.shape(r_t))


def td_lambda(
    v_tm1: ArrayLike, r_t: ArrayLike, discount_t: ArrayLike, v_t: ArrayLike, lambda_t: ArrayLike = 1.0
) -> np.ndarray:
    """TD(λ) errors: λ-returns less the values they are targets for.

    Args:
      v_tm1: float[..., T], values of s_0..s_{T−1}.
      r_t, discount_t, v_t, lambda_t: float[..., T], as in `lambda_returns`.

    Returns:
      float64[..., T]: errors of the states at 0..T−1.
    """
    targets = lambda_returns(r_t, discount_t, v_t, lambda_t)
    return targets - _argument("v_tm1", v_tm1, targets.shape)


def truncated_generalized_advantage_estimation(
    r_t: ArrayLike, discount_t: ArrayLike, lambda_: ArrayLike, values: ArrayLike
) -> np.ndarray:
    """Generalized advantage estimates with one λ, or a λ per step.

        Aₜ₋₁ = δₜ₋₁ + γₜλₜAₜ,   δₜ₋₁ = rₜ + γₜvₜ − vₜ₋₁,   A_T = 0

    They are the λ-returns less the values. In an episode that ends or is cut in the middle of the trajectory, set
    γ_t = 0 where it ends; a cut needs its bootstrap added to the reward there.

    Args:
      r_t, discount_t: float[..., T], as in `lambda_returns`.
      lambda_: float[..., T] in [0, 1], or one number for all.
      values: float[..., T+1], values of s_0..s_T.

    Returns:
      float64[..., T]: advantages at 0..T−1.
    """
    shape = np.shape(r_t)
    longer = (*shape[:-1], shape[-1] + 1) if shape else (2,)
    values = _argument("values", values, longer)
    return td_lambda(values[..., :-1], r_t, discount_t, values[..., 1:], lambda_)


def sample_keep(lambda_t: ArrayLike, rng: np.random.Generator) -> np.ndarray:
    """Draw which states of an episode are kept: drop s_t with probability λ_t (§3.1).

    Predictable states drop out and what remains is a shorter episode of chunks. The first state, which has no entry
    here, and the last are always kept.

    Args:
      lambda_t: float[..., T] in [0, 1], for the states at 1..T.
      rng: where the draws come from; T per trajectory, whatever λ is.

    Returns:
      bool[..., T]: whether the states at 1..T are kept.
    """
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng: got {rng!r}, takes a numpy.random.Generator")
    lambdas = _argument("lambda_t", lambda_t, np.shape(lambda_t), unit=True)
    if lambdas.ndim == 0 or lambdas.shape[-1] == 0:
        raise ValueError(f"lambda_t: got shape {lambdas.shape}, takes [..., T] with at least one step")
    keep = rng.random(lambdas.shape) >= lambdas
    keep[..., -1] = True
    return keep


def chunked_targets(r_t: ArrayLike, discount_t: ArrayLike, v_t: ArrayLike, keep_t: ArrayLike) -> np.ndarray:
    """n-step targets that reach to the next kept state, however many steps away it is (§3.1, App. B.1).

        Gₜ₋₁ = rₜ + γₜvₜ if s_t is kept, else rₜ + γₜGₜ

    Every state gets a target, dropped ones too. Over keep/drop patterns drawn by `sample_keep` the expected target is
    the λ-return.

    Args:
      r_t, discount_t, v_t: float[..., T], as in `lambda_returns`.
      keep_t: bool[..., T], whether the states at 1..T are kept; the last one counts as kept.

    Returns:
      float64[..., T]: targets for the states at 0..T−1.
    """
    keep = np.asarray(keep_t)
    if keep.dtype != np.bool_:
        raise TypeError(f"keep_t: got an array of {keep.dtype}, takes bools")
    if keep.shape != np.shape(r_t):
        raise ValueError(f"keep_t: got shape {keep.shape}, takes that of r_t, {np.shape(r_t)}")
    return lambda_returns(r_t, discount_t, v_t, ~keep)


@kernel
def lambda_returns_into(r_t, discount_t, v_t, lambda_t, out):
    """`lambda_returns` of one trajectory, float64[T] each, for use in other kernels: writes `out`."""
    g = v_t[-1]
    for t in range(r_t.shape[0] - 1, -1, -1):
        g = r_t[t] + discount_t[t] * ((1.0 - lambda_t[t]) * v_t[t] + lambda_t[t] * g)
        out[t] = g


@kernel
def _each_row(r_t, discount_t, v_t, lambda_t, out):
    """`lambda_returns` of every row of float64[N, T]."""
    for i in range(r_t.shape[0]):
        lambda_returns_into(r_t[i], discount_t[i], v_t[i], lambda_t[i], out[i])


@kernel
def _each_window(r_t, discount_t, v_t, lambda_t, n, out):
    """The recursion of `lambda_returns` over the next n steps only, from every step of float64[N, T]."""
    steps = r_t.shape[1]
    for i in range(r_t.shape[0]):
        for start in range(steps):
            last = min(start + n, steps) - 1
            g = v_t[i, last]
            for t in range(last, start - 1, -1):
                g = r_t[i, t] + discount_t[i, t] * ((1.0 - lambda_t[i, t]) * v_t[i, t] + lambda_t[i, t] * g)
            out[i, start] = g


def _trajectories(r_t: Any, discount_t: Any, v_t: Any, lambda_t: Any) -> tuple[np.ndarray, ...]:
    """The four arguments, checked and as float64[N, T]."""
    shape = np.shape(r_t)
    if not shape or shape[-1] == 0:
        raise ValueError(f"r_t: got shape {shape}, takes [..., T] with at least one step")
    arguments = (
        _argument("r_t", r_t, shape),
        _argument("discount_t", discount_t, shape, unit=True),
        _argument("v_t", v_t, shape),
        _argument("lambda_t", lambda_t, shape, unit=True),
    )
    return tuple(argument.reshape(-1, shape[-1]) for argument in arguments)


def _argument(name: str, given: Any, shape: tuple[int, ...], *, unit: bool = False) -> np.ndarray:
    """`given` as a float64 array of `shape`: finite, and in [0, 1] if `unit`."""
    array = np.asarray(given)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: got an array of {array.dtype}, takes real numbers")
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name}: got shape {np.shape(given)}, takes {shape} or what broadcasts to it") from None
    # Writable and contiguous, so that the kernels are compiled for one kind of array only.
    array = np.require(array, np.float64, ["C_CONTIGUOUS", "WRITEABLE"])
    if unit:
        wrong = ~((array >= 0.0) & (array <= 1.0))
    else:
        wrong = ~np.isfinite(array)
    if wrong.any():
        takes = "numbers in [0, 1]" if unit else "finite numbers"
        raise ValueError(f"{name}: got {array[wrong][0]}, takes {takes}")
    return array
