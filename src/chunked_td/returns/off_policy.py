"""Off-policy targets with a λ per step: Retrace (Munos et al., 2016) and V-trace (Espeholt et al., 2018).

Both multiply the trace by γ λ min(1, π/μ). Names, order and defaults are rlax's.
"""

from __future__ import annotations

from typing import NamedTuple

from chunked_td.returns._arguments import Array, Given, Masked, along, following, now_and_later, read, renamed, shaped
from chunked_td.returns._formulas import OFF_POLICY, VTRACE


@renamed(lambda_t="lambda_")
def retrace(
    q_tm1: Array,
    q_t: Array,
    a_tm1: Array,
    a_t: Array,
    r_t: Array,
    discount_t: Array,
    pi_t: Array,
    mu_t: Array,
    lambda_: Array,
    eps: float = 1e-8,
    stop_target_gradients: bool = True,
    *,
    mask: Array | None = None,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """Retrace errors for action values, with a λ per step.

        Gₜ₋₁ = rₜ + γₜ[Σ_a π(a|sₜ)Q(sₜ, a) + cₜ(Gₜ − Q(sₜ, aₜ))],   cₜ = λₜ min(1, π(aₜ|sₜ)/μ(aₜ|sₜ)),   c_T = 0
        eₜ₋₁ = Gₜ₋₁ − Q(sₜ₋₁, aₜ₋₁)

    Args:
      q_tm1, q_t: float[T, ..., A], action values at 0..T−1 and at 1..T; actions are the last axis.
      a_tm1, a_t: int[T, ...], the actions taken at 0..T−1 and at 1..T.
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      pi_t: float[T, ..., A], probabilities of the target policy π at 1..T.
      mu_t: float[T, ...], the behaviour policy's probabilities of the actions a_t.
      lambda_: float[T, ...] in [0, 1], or one number for all; may depend on (s_t, a_t).
      eps: added to μ to avoid division by zero.
      stop_target_gradients: whether only the gradient of q_tm1 passes (JAX and Torch).
      mask, masked, segment_ids, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: errors of Q(s_t, a_t) at 0..T−1; 0 where masked.
    """
    arguments = {"r_t": r_t, "discount_t": discount_t, "q_tm1": q_tm1, "q_t": q_t, "a_tm1": a_tm1, "a_t": a_t}
    arguments |= {"pi_t": pi_t, "mu_t": mu_t, "lambda_": lambda_}
    steps = {"mask": mask, "masked": masked, "segment_ids": segment_ids}
    given = read(arguments, time_axis, extra_axes=("q_tm1", "q_t", "pi_t"), bootstraps=True, **steps)
    backend, arrays = given.backend, given.arrays
    backend.check(given)
    per_action = (*given.shape, *tuple(arrays["q_t"].shape)[-1:])
    q_tm1, q_t, pi_t = (shaped(name, arrays[name], per_action) for name in ("q_tm1", "q_t", "pi_t"))
    a_tm1, a_t = (shaped(name, arrays[name], given.shape) for name in ("a_tm1", "a_t"))
    ratio = backend.pick("a_t", pi_t, a_t) / (arrays["mu_t"] + eps)
    c_t = arrays["lambda_"] * backend.xp.clip(ratio, None, 1.0)
    if mask is not None:  # π of a masked step does not add up to 1
        c_t = backend.xp.where(given.mask, c_t, 1.0)
    expected = {"v_t": (pi_t * q_t).sum(-1), "q_t": backend.pick("a_t", q_t, a_t), "c_t": c_t}
    step = given.with_arrays(r_t=arrays["r_t"], discount_t=arrays["discount_t"], **expected)
    targets = backend.solve(step, OFF_POLICY, stop_target_gradients)
    return given.unmasked(targets - backend.pick("a_tm1", q_tm1, a_tm1))


def retrace_continuous(
    q_tm1: Array,
    q_t: Array,
    v_t: Array,
    r_t: Array,
    discount_t: Array,
    log_rhos: Array,
    lambda_: Array,
    stop_target_gradients: bool = True,
    *,
    time_axis: int = 0,
) -> Array:
    """Retrace errors for continuous actions: from Q of the actions taken and the values of the states.

        Gₜ₋₁ = rₜ + γₜ[vₜ + cₜ(Gₜ − qₜ)],   cₜ = λₜ min(1, ρₜ),   c_T = 0;   eₜ₋₁ = Gₜ₋₁ − qₜ₋₁

    Args:
      q_tm1: float[T, ...], Q at 0..T−1. v_t, r_t, discount_t: float[T, ...], at 1..T.
      q_t, log_rhos: float[T−1, ...], Q and log(π/μ) of the actions taken at 1..T−1.
      lambda_: float[T−1, ...] in [0, 1], or one number for all.
      stop_target_gradients: whether only the gradient of q_tm1 passes (JAX and Torch).
      time_axis: axis of time in r_t.

    Returns:
      float[T, ...]: errors at 0..T−1.
    """
    given = read({"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "q_tm1": q_tm1}, time_axis)
    inner = read({"q_t": q_t, "log_rhos": log_rhos, "lambda_": lambda_}, time_axis)
    backend, xp, axis, arrays = given.backend, given.backend.xp, given.axis, given.arrays
    backend.check(given)
    backend.check(inner)
    shape = tuple(length - (k == axis) for k, length in enumerate(given.shape))
    shaped("q_t", inner.arrays["q_t"], shape)
    c_t = inner.arrays["lambda_"] * xp.exp(xp.clip(inner.arrays["log_rhos"], None, 0.0))
    end = xp.zeros_like(along(arrays["r_t"], axis, -1, None))
    ended = {"q_t": inner.arrays["q_t"], "c_t": xp.broadcast_to(c_t, shape)}
    ended = {name: xp.concatenate([array, end], axis=axis) for name, array in ended.items()}
    step = given.with_arrays(r_t=arrays["r_t"], discount_t=arrays["discount_t"], v_t=arrays["v_t"], **ended)
    return backend.solve(step, OFF_POLICY, stop_target_gradients) - arrays["q_tm1"]


@renamed(lambda_t="lambda_")
def vtrace(
    v_tm1: Array,
    v_t: Array,
    r_t: Array,
    discount_t: Array,
    rho_tm1: Array,
    lambda_: Array = 1.0,
    clip_rho_threshold: float = 1.0,
    stop_target_gradients: bool = True,
    sample_mask: Array | None = None,
    *,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """V-trace errors for state values, with a λ per step.

        eₜ₋₁ = min(ρ̄, ρₜ₋₁)(rₜ + γₜvₜ − vₜ₋₁) + γₜ λₜ min(1, ρₜ₋₁) eₜ,   e_T = 0

    The target is v_tm1 + e. λ_t belongs to the state s_t, as in `lambda_returns`, and ρ_{t−1} to the action before it.

    Args:
      v_tm1, v_t: float[T, ...], values at 0..T−1 and at 1..T.
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      rho_tm1: float[T, ...], ratios π(a|s)/μ(a|s) of the actions at 0..T−1.
      lambda_: float[T, ...] in [0, 1], or one number for all.
      clip_rho_threshold: ρ̄, the largest weight of a TD error.
      stop_target_gradients: whether only the gradient of v_tm1 passes, as −1 per error (JAX and Torch).
      sample_mask: bool[T, ...], true for the steps that exist: `mask` of the other functions, with its name in rlax.
        The result at a masked step is 0; in rlax it is the error of the next unmasked step.
      masked, segment_ids, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: errors at 0..T−1; 0 where masked.
    """
    arguments = v_tm1, v_t, r_t, discount_t, rho_tm1, 1.0, lambda_, clip_rho_threshold, stop_target_gradients
    return leaky_vtrace(*arguments, sample_mask, masked=masked, segment_ids=segment_ids, time_axis=time_axis)


def leaky_vtrace(
    v_tm1: Array,
    v_t: Array,
    r_t: Array,
    discount_t: Array,
    rho_tm1: Array,
    alpha_: float = 1.0,
    lambda_: Array = 1.0,
    clip_rho_threshold: float = 1.0,
    stop_target_gradients: bool = True,
    sample_mask: Array | None = None,
    *,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> Array:
    """V-trace with a mixture of clipped and unclipped ratios (Zahavy et al., 2020).

    Args:
      alpha_: weight of the clipped ratios. Other arguments: as in `vtrace`.

    Returns:
      float[T, ...]: errors at 0..T−1; 0 where masked.
    """
    _check_clip("clip_rho_threshold", clip_rho_threshold)
    arguments = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "v_tm1": v_tm1, "rho_tm1": rho_tm1}
    arguments["lambda_"] = lambda_
    given = read(arguments, time_axis, mask=sample_mask, masked=masked, segment_ids=segment_ids)
    return given.unmasked(_vtrace(given, alpha_, clip_rho_threshold, stop_target_gradients))


class VTraceOutput(NamedTuple):
    """Result of `vtrace_td_error_and_advantage`, as in rlax."""

    errors: Array
    pg_advantage: Array
    q_estimate: Array


@renamed(lambda_t="lambda_")
def vtrace_td_error_and_advantage(
    v_tm1: Array,
    v_t: Array,
    r_t: Array,
    discount_t: Array,
    rho_tm1: Array,
    lambda_: Array = 1.0,
    clip_rho_threshold: float = 1.0,
    clip_pg_rho_threshold: float = 1.0,
    stop_target_gradients: bool = True,
    sample_mask: Array | None = None,
    *,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
) -> VTraceOutput:
    """V-trace errors, and advantages for a policy gradient.

        qₜ₋₁ = rₜ + γₜ[(1 − λₜ)vₜ + λₜ(vₜ + eₜ)],   Aₜ₋₁ = min(ρ̄_pg, ρₜ₋₁)(qₜ₋₁ − vₜ₋₁)

    e_t is 0 if no step follows. The results equal rlax's if v_t is v_tm1 one step later.

    Args:
      clip_pg_rho_threshold: ρ̄_pg. Other arguments: as in `vtrace`.

    Returns:
      errors, pg_advantage and q_estimate, float[T, ...] each; 0 where masked.
    """
    _check_clip("clip_rho_threshold", clip_rho_threshold)
    _check_clip("clip_pg_rho_threshold", clip_pg_rho_threshold)
    arguments = {"r_t": r_t, "discount_t": discount_t, "v_t": v_t, "v_tm1": v_tm1, "rho_tm1": rho_tm1}
    arguments["lambda_"] = lambda_
    given = read(arguments, time_axis, mask=sample_mask, masked=masked, segment_ids=segment_ids, bootstraps=True)
    errors = _vtrace(given, 1.0, clip_rho_threshold, stop_target_gradients)
    r_t, discount_t, v_t, v_tm1, rho_tm1, lambda_ = given.arrays.values()
    v_t = given.backend.xp.broadcast_to(v_t, given.shape)
    targets = following(given, errors + v_tm1, along(v_t, given.axis, -1, None), stop_target_gradients)
    q_estimate = r_t + discount_t * ((1 - lambda_) * v_t + lambda_ * targets)
    advantages = given.backend.xp.clip(rho_tm1, None, clip_pg_rho_threshold) * (q_estimate - v_tm1)
    return VTraceOutput(*(given.unmasked(x) for x in (errors, advantages, q_estimate)))


def importance_corrected_td_errors(
    r_t: Array,
    discount_t: Array,
    rho_tm1: Array,
    lambda_: Array,
    values: Array,
    stop_target_gradients: bool = False,
    *,
    time_axis: int = 0,
) -> Array:
    """TD(λ) errors with importance sampling per decision: V-trace without clipping.

        eₜ₋₁ = ρₜ₋₁(rₜ + γₜvₜ − vₜ₋₁ + γₜ λₜ eₜ),   e_T = 0

    Args:
      values: float[T+1, ...], values of s_0..s_T. Other arguments: as in `vtrace`.

    Returns:
      float[T, ...]: errors at 0..T−1.
    """
    v_tm1, v_t = now_and_later(r_t, values, time_axis)
    return leaky_vtrace(
        v_tm1, v_t, r_t, discount_t, rho_tm1, 0.0, lambda_, 1.0, stop_target_gradients, time_axis=time_axis
    )


def _vtrace(given: Given, alpha: float, clip_rho: float, stop: bool) -> Array:
    backend, arrays = given.backend, given.arrays
    backend.check(given)
    rho, v_tm1 = arrays["rho_tm1"], arrays["v_tm1"]
    weight, c = ((1 - alpha) * rho + alpha * backend.xp.clip(rho, None, limit) for limit in (clip_rho, 1.0))
    step = given.with_arrays(**(arrays | {"rho_tm1": weight, "c_t": arrays["lambda_"] * c}))
    errors = backend.solve(step, VTRACE, stop)
    return backend.stop_gradient(errors + v_tm1) - v_tm1 if stop else errors


def _check_clip(name: str, limit: float) -> None:
    if not limit > 0.0:
        raise ValueError(f"{name}: got {limit}, takes a number > 0")
