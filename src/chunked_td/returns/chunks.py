"""Sampled chunks: n-step targets that reach to the next kept state (§3.1, App. B.1)."""

from __future__ import annotations

from typing import Any

from chunked_td.returns._arguments import Array, along, read, shaped
from chunked_td.returns.multistep import lambda_returns


def sample_keep(lambda_t: Array, rng: Any, *, time_axis: int = 0) -> Array:
    """Sample which states of an episode are kept: drop s_t with probability λ_t (§3.1).

    Predictable states are dropped; the rest is a shorter episode of chunks. The first state, which has no entry here,
    and the last are always kept.

    Args:
      lambda_t: float[T, ...] in [0, 1], for the states at 1..T.
      rng: source of the random numbers, one per entry: a `numpy.random.Generator` for NumPy arrays, a key for JAX
        arrays, a `torch.Generator` for Torch tensors.
      time_axis: axis of time in lambda_t.

    Returns:
      bool[T, ...]: whether the states at 1..T are kept.
    """
    given = read({"lambda_t": lambda_t}, time_axis)
    given.backend.check(given)
    keep, xp = given.backend.sample(given.arrays["lambda_t"], rng), given.backend.xp
    last = xp.ones_like(along(keep, given.axis, -1, None))
    return xp.concatenate([along(keep, given.axis, 0, -1), last], axis=given.axis)


def chunked_targets(
    r_t: Array,
    discount_t: Array,
    v_t: Array,
    keep_t: Array,
    *,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """n-step targets that bootstrap at the next kept state (§3.1, App. B.1).

        Gₜ₋₁ = rₜ + γₜvₜ if s_t is kept, else rₜ + γₜGₜ

    Every state has a target, including dropped ones. The expected target over the patterns of `sample_keep` is the
    λ-return.

    Args:
      r_t, discount_t, v_t: float[T, ...], as in `lambda_returns`.
      keep_t: bool[T, ...], true for kept states among those at 1..T; the last one counts as kept.
      time_axis, stop_target_gradients: as in `lambda_returns`.

    Returns:
      float[T, ...]: targets for the states at 0..T−1.
    """
    given = read({"r_t": r_t, "keep_t": keep_t}, time_axis)
    dropped = ~shaped("keep_t", given.arrays["keep_t"], given.shape)
    return lambda_returns(
        r_t, discount_t, v_t, dropped, time_axis=time_axis, stop_target_gradients=stop_target_gradients
    )
