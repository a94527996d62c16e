"""Off-policy targets with a λ per step: Retrace (Munos et al., 2016) and V-trace (Espeholt et al., 2018).

Both multiply the trace by γ λ min(1, π/μ). With a constant λ they are rlax's functions of the same names.
"""

from __future__ import annotations

import dataclasses

from chunked_td.returns._arguments import Array, Kind, read, shaped


def retrace(
    q_tm1: Array,
    q_t: Array,
    a_tm1: Array,
    a_t: Array,
    r_t: Array,
    discount_t: Array,
    pi_t: Array,
    mu_t: Array,
    lambda_t: Array,
    eps: float = 1e-8,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """Retrace errors for action values, with a λ per step.

        Gₜ₋₁ = rₜ + γₜ[Σ_a π(a|sₜ)Q(sₜ, a) + cₜ(Gₜ − Q(sₜ, aₜ))],   cₜ = λₜ min(1, π(aₜ|sₜ)/μ(aₜ|sₜ)),   c_T = 0
        eₜ₋₁ = Gₜ₋₁ − Q(sₜ₋₁, aₜ₋₁)

    Args:
      q_tm1, q_t: float[T, ..., A], action values at 0..T−1 and at 1..T; actions are the last axis.
      a_tm1, a_t: int[T, ...], actions taken there.
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      pi_t: float[T, ..., A], probabilities of the target policy π at 1..T.
      mu_t: float[T, ...], the behaviour policy's probabilities of the actions a_t.
      lambda_t: float[T, ...] in [0, 1], or one number for all; may depend on (s_t, a_t).
      eps: added to μ, against division by zero.
      time_axis: which axis of r_t is time.
      stop_target_gradients: whether only the gradient of q_tm1 passes (JAX and Torch).

    Returns:
      float[T, ...]: errors of Q(s_t, a_t) at 0..T−1.
    """
    arguments = {
        "r_t": (r_t, Kind.REAL),
        "discount_t": (discount_t, Kind.UNIT),
        "q_tm1": (q_tm1, Kind.REAL),
        "q_t": (q_t, Kind.REAL),
        "a_tm1": (a_tm1, Kind.INDEX),
        "a_t": (a_t, Kind.INDEX),
        "pi_t": (pi_t, Kind.UNIT),
        "mu_t": (mu_t, Kind.POSITIVE),
        "lambda_t": (lambda_t, Kind.UNIT),
    }
    given = read(arguments, time_axis, check=arguments, extra_axes=("q_tm1", "q_t", "pi_t"))
    backend, arrays = given.backend, given.arrays
    per_action = (*given.shape, *tuple(arrays["q_t"].shape)[-1:])
    q_tm1, q_t, pi_t = (shaped(name, arrays[name], per_action) for name in ("q_tm1", "q_t", "pi_t"))
    a_tm1, a_t = (shaped(name, arrays[name], given.shape) for name in ("a_tm1", "a_t"))

    ratio = backend.pick("a_t", pi_t, a_t) / (arrays["mu_t"] + eps)
    coefficients = {
        "r_t": arrays["r_t"],
        "discount_t": arrays["discount_t"],
        "v_t": (pi_t * q_t).sum(-1),
        "q_t": backend.pick("a_t", q_t, a_t),
        "c_t": arrays["lambda_t"] * backend.minimum(ratio, 1.0),
    }
    targets = backend.retrace(dataclasses.replace(given, arrays=coefficients), stop_target_gradients)
    return targets - backend.pick("a_tm1", q_tm1, a_tm1)


def vtrace(
    v_tm1: Array,
    v_t: Array,
    r_t: Array,
    discount_t: Array,
    rho_tm1: Array,
    lambda_t: Array = 1.0,
    clip_rho_threshold: float = 1.0,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """V-trace errors for state values, with a λ per step.

        eₜ₋₁ = min(ρ̄, ρₜ₋₁)(rₜ + γₜvₜ − vₜ₋₁) + γₜ λₜ min(1, ρₜ₋₁) eₜ,   e_T = 0

    The target is v_tm1 + e. λ_t belongs to the state s_t, as in `lambda_returns`; ρ_{t−1} to the action that led to it.

    Args:
      v_tm1, v_t: float[T, ...], values at 0..T−1 and at 1..T.
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      rho_tm1: float[T, ...], ratios π(a|s)/μ(a|s) of the actions at 0..T−1.
      lambda_t: float[T, ...] in [0, 1], or one number for all.
      clip_rho_threshold: ρ̄, the largest weight of a TD error.
      time_axis: which axis of r_t is time.
      stop_target_gradients: whether only the gradient of v_tm1 passes, as −1 per error (JAX and Torch).

    Returns:
      float[T, ...]: errors at 0..T−1.
    """
    if not clip_rho_threshold > 0.0:
        raise ValueError(f"clip_rho_threshold: got {clip_rho_threshold}, takes a number > 0")
    arguments = {
        "r_t": (r_t, Kind.REAL),
        "discount_t": (discount_t, Kind.UNIT),
        "v_t": (v_t, Kind.REAL),
        "v_tm1": (v_tm1, Kind.REAL),
        "rho_tm1": (rho_tm1, Kind.POSITIVE),
        "lambda_t": (lambda_t, Kind.UNIT),
    }
    given = read(arguments, time_axis, check=arguments)
    errors = given.backend.vtrace(given, clip_rho_threshold, stop_target_gradients)
    values = given.arrays["v_tm1"]
    return given.backend.stop_gradient(errors + values) - values if stop_target_gradients else errors
