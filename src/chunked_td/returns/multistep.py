"""λ-returns, n-step returns and TD(λ) errors with a λ per step (Eq. 4); names, order and defaults are rlax's."""

from __future__ import annotations

from numbers import Integral

from chunked_td.returns._arguments import KINDS, Array, Kind, Masked, along, following, read, renamed
from chunked_td.returns._formulas import LAMBDA_RETURNS


@renamed(lambda_t="lambda_")
def lambda_returns(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    lambda_: Array = 1.0,
    stop_target_gradients: bool = False,
    *,
    mask: Array | None = None,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """λ-returns with one λ, or a λ per step (Eq. 4).

        Gₜ₋₁ = rₜ + γₜ[(1 − λₜ)vₜ + λₜGₜ],   G_T = v_T

    λ = 0 is the TD(0) target; λ = 1 is the Monte-Carlo return, bootstrapped at the end if γ_T is not 0. λ_T has no
    effect.

    Args:
      r_t: float[T, ...], rewards for t in 1..T.
      discount_t: float[T, ...] in [0, 1], or one number for all; 0 if s_t is terminal.
      v_t: float[T, ...], values of s_1..s_T.
      lambda_: float[T, ...] in [0, 1], λ_t for t in 1..T, or one number for all; 0 if an episode is truncated at s_t.
      stop_target_gradients: whether the results are constants (JAX and Torch).
      mask: bool[T, ...], true for the steps that exist. masked: "pass" or "stop", whether rewards pass masked steps.
        segment_ids: int[T, ...], the sequence of each step. See the docstring of the package.
      time_axis: axis of time in r_t.

    Returns:
      float[T, ...]: targets for the states at 0..T−1; 0 where masked.
    """
    arguments = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "lambda_": lambda_}
    given = read(arguments, time_axis, mask=mask, masked=masked, segment_ids=segment_ids, bootstraps=True)
    return given.unmasked(given.backend.solve(given, LAMBDA_RETURNS, stop_target_gradients))


def discounted_returns(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    stop_target_gradients: bool = False,
    *,
    mask: Array | None = None,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """Monte-Carlo returns, bootstrapped at the end of the trajectory only.

        Gₜ₋₁ = rₜ + γₜGₜ,   G_T = v_T

    Args:
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      v_t: float[T, ...] or one number; without a mask and segments only the value of s_T is read.
      stop_target_gradients, mask, masked, segment_ids, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: targets for the states at 0..T−1.
    """
    if mask is None and segment_ids is None:
        arguments = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t}
        given = read(arguments, time_axis, kinds=KINDS | {"v_t": Kind.READ})
        r_t, discount_t, v_t = given.arrays.values()
        end = along(v_t, given.axis, -1, None)
        return given.unmasked(lambda_returns(r_t, discount_t, end, 1.0, stop_target_gradients, time_axis=time_axis))
    steps = {"mask": mask, "masked": masked, "segment_ids": segment_ids, "time_axis": time_axis}
    return lambda_returns(r_t, discount_t, v_t, 1.0, stop_target_gradients, **steps)


def n_step_bootstrapped_returns(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    n: int,
    lambda_t: Array = 1.0,
    stop_target_gradients: bool = False,
    *,
    time_axis: int = 0,
) -> Array:
    """n-step returns: the recursion of `lambda_returns`, started at v at most n steps ahead.

        Gₜ₋₁ = rₜ + γₜ(rₜ₊₁ + γₜ₊₁(… (rₜ₊ₙ₋₁ + γₜ₊ₙ₋₁vₜ₊ₙ₋₁)))   for λ = 1

    Args:
      r_t, discount_t, v_t, lambda_t: float[T, ...], as in `lambda_returns`.
      n: number of rewards before bootstrapping; fewer near the end, where the return bootstraps at v_T.
      stop_target_gradients, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: targets for the states at 0..T−1.
    """
    given = read({"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "lambda_t": lambda_t}, time_axis)
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise ValueError(f"n: got {n!r}, takes a positive integer")
    return given.unmasked(given.backend.n_step_returns(given, int(n), stop_target_gradients))


@renamed(lambda_t="lambda_")
def td_lambda(
    v_tm1: Array,
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    lambda_: Array = 1.0,
    stop_target_gradients: bool = True,
    *,
    mask: Array | None = None,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """TD(λ) errors: λ-returns minus the values of the same states.

        eₜ₋₁ = Gₜ₋₁ − vₜ₋₁

    Args:
      v_tm1: float[T, ...], values of s_0..s_{T−1}; their gradient passes through.
      r_t, discount_t, v_t, lambda_: float[T, ...], as in `lambda_returns`.
      stop_target_gradients, mask, masked, segment_ids, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: errors of the states at 0..T−1; 0 where masked.
    """
    arguments = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "lambda_": lambda_, "v_tm1": v_tm1}
    given = read(arguments, time_axis, mask=mask, masked=masked, segment_ids=segment_ids, bootstraps=True)
    given.backend.check(given.with_arrays(v_tm1=given.arrays["v_tm1"]))
    targets = given.backend.solve(given, LAMBDA_RETURNS, stop_target_gradients)
    return given.unmasked(targets - given.arrays["v_tm1"])


def upgo_returns(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    stop_target_gradients: bool = True,
    *,
    mask: Array | None = None,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """Upgoing returns (Vinyals et al., 2019): λ-returns with λ = 1 where the next step is no worse than expected.

        λₜ = 1 if rₜ₊₁ + γₜ₊₁vₜ₊₁ ≥ vₜ, else 0

    Args:
      r_t, discount_t, v_t: float[T, ...], as in `lambda_returns`.
      stop_target_gradients, mask, masked, segment_ids, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: targets for the states at 0..T−1; 0 where masked.
    """
    arguments = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "lambda_": 1.0}
    given = read(arguments, time_axis, mask=mask, masked=masked, segment_ids=segment_ids, bootstraps=True)
    arrays = given.arrays
    seen = arrays["r_t"] + arrays["discount_t"] * arrays["v_t"]
    upward = following(given, seen, 0.0) >= arrays["v_t"]
    if given.mask is not None:
        upward = upward | ~given.mask
    given = given.with_arrays(**(arrays | {"lambda_": arrays["lambda_"] * upward}))
    return given.unmasked(given.backend.solve(given, LAMBDA_RETURNS, stop_target_gradients))
