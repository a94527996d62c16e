"""Advantages with a λ per step: for rollouts (`gae`), for tokens (`token_gae`), and with rlax's arguments."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from chunked_td.returns._arguments import Array, Masked, along, ends, now_and_later, read
from chunked_td.returns._formulas import GAE, WORTH
from chunked_td.returns.multistep import td_lambda


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array | None,
    discount: Array,
    lambda_: Array,
    *,
    mask: Array | None = None,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = 0,
    stop_target_gradients: bool = True,
) -> Array:
    """Generalised advantage estimation for a rollout in which episodes may end and begin at any step.

        Aₜ = δₜ + γₜ λₜ₊₁ (1 − terminatedₜ)(1 − truncatedₜ) Aₜ₊₁,   A_T = 0
        δₜ = rₜ + γₜ (1 − terminatedₜ) v′ₜ − vₜ

    Every argument is indexed by t in 0..T−1, the state s_t that step t leaves. So `lambda_[t]` is the λ *of the state*
    s_t, the predictability of step t. It is the weight of A_t in A_{t−1}; the first entry of an episode is not used.
    The λ-return, a target for a critic, is A_t + values[t].

    Args:
      rewards: float[T, ...], of step t.
      values: float[T, ...], V(s_t).
      next_values: float[T, ...], the value of the state that step t led to: V(s_{t+1}). If an episode is truncated,
        this is the value of its last state, not of the first state of the next episode. Not read if terminated.
      terminated: bool[T, ...], whether step t terminated the episode.
      truncated: bool[T, ...], whether the episode was truncated after step t; it bootstraps from `next_values`. None
        if no episode was truncated.
      discount: float in [0, 1], or float[T, ...].
      lambda_: float[T, ...] in [0, 1], or one number for all.
      mask, masked, segment_ids, time_axis: as in `lambda_returns`. An episode counts as truncated at the end of a
        segment and, with masked="stop", before masked steps.
      stop_target_gradients: whether the results are constants (JAX and Torch).

    Returns:
      float[T, ...]: advantages of steps 0..T−1; 0 where masked.
    """
    truncated = False if truncated is None else truncated
    first = (rewards, values, next_values, terminated, truncated, discount, lambda_)
    if getattr(rewards, "is_cuda", False) and mask is None and segment_ids is None and stop_target_gradients:
        from chunked_td.returns import _torch

        found = _torch.gae_on_gpu(first, time_axis)
        if found is not None:
            return found
    arguments = dict(zip(GAE.names, first, strict=True))
    cut = ("truncated", True)
    given = read(arguments, time_axis, mask=mask, masked=masked, segment_ids=segment_ids, cut=cut)
    return given.unmasked(given.backend.solve(given, GAE, stop_target_gradients))


class TokenAdvantages(NamedTuple):
    """Result of `token_gae`."""

    advantages: Array
    targets: Array


def token_gae(
    rewards: Array,
    values: Array,
    mask: Array | None,
    lambda_policy: Array,
    lambda_value: Array,
    *,
    discount: Array = 1.0,
    last_values: Array = 0.0,
    masked: Masked = "pass",
    segment_ids: Array | None = None,
    time_axis: int = -1,
    stop_target_gradients: bool = True,
) -> TokenAdvantages:
    """Advantages for a policy and targets for its critic, each with its own λ, in one pass over sequences of tokens.

        Gₜ = rₜ + γₜ[(1 − λₜ₊₁)vₜ₊₁ + λₜ₊₁Gₜ₊₁];   advantage: Gₜ − vₜ with the policy's λ;   target: Gₜ with the other

    Everything is indexed by tokens: v_t is the value of the state before token t, and λ_t is the λ of that state. t + 1
    is the next unmasked token. The value after the last one is `last_values`: 0 if the sequence is complete.

    Args:
      rewards, values: float[B, T].
      mask: bool[B, T], true for the tokens to use; None for all.
      lambda_policy, lambda_value: in [0, 1]; float[B, T], float[B, 1] for one per sequence, or one number.
      discount: in [0, 1], in the same shapes.
      last_values: float[B, 1] or one number, the value after the last token of truncated sequences.
      masked: "pass": masked tokens, such as a tool's output, are skipped; a reward there belongs to the last unmasked
        token before it. "stop": a sequence ends before them, and their rewards are not read.
      segment_ids: int[B, T], the sequence of each token if several share a row. Each ends with value 0, the last one
        of a row with `last_values`.
      time_axis: axis of time in rewards.
      stop_target_gradients: whether the results are constants (JAX and Torch).

    Returns:
      (advantages, targets), float[B, T] each; 0 where masked.
    """
    plain = masked == "pass" and segment_ids is None and stop_target_gradients
    if plain and getattr(rewards, "is_cuda", False):
        from chunked_td.returns import _torch

        first = (rewards, values, mask, lambda_policy, lambda_value, discount, last_values)
        found = _torch.token_gae_on_gpu(first, time_axis)
        if found is not None:
            return TokenAdvantages(*found)
    arguments = {"rewards": rewards, "values": values, "discount": discount, "last_values": last_values}
    arguments |= {"lambda_policy": lambda_policy, "lambda_value": lambda_value}
    if plain:
        given = read(arguments | {"mask": True if mask is None else mask}, time_axis)
        found = given.backend.token_gae(given)
        if found is not None:
            return TokenAdvantages(*found)
    given = read(arguments, time_axis, mask=mask, masked=masked, segment_ids=segment_ids, cut=("discount", 0.0))
    backend, xp, axis, arrays = given.backend, given.backend.xp, given.axis, given.arrays
    backend.check(given)
    lambdas = [xp.broadcast_to(arrays.pop(name), given.shape) for name in ("lambda_policy", "lambda_value")]
    both = dataclasses.replace(
        given,
        arrays={name: array[None] for name, array in arrays.items()} | {"lambda_": xp.stack(lambdas)},
        shape=(2, *given.shape),
        axis=axis + 1,
    )
    worth = backend.solve(both, WORTH, stop_target_gradients)
    last = along(both.arrays["last_values"], axis + 1, -1, None)
    last = xp.broadcast_to(last, along(worth, axis + 1, -1, None).shape)
    later = xp.concatenate([along(worth, axis + 1, 1, None), last], axis=axis + 1)
    targets = both.arrays["rewards"] + both.arrays["discount"] * later
    found = (targets[0] - arrays["values"], targets[1])
    if stop_target_gradients:
        found = (backend.stop_gradient(x) for x in found)
    return TokenAdvantages(*(given.unmasked(x) for x in found))


class TurnCoefficients(NamedTuple):
    """Result of `turn_lambda`."""

    lambda_: Array
    discount: Array


def turn_lambda(
    turn_ids: Array, lambda_: Array, discount: Array = 1.0, mask: Array | None = None, *, time_axis: int = -1
) -> TurnCoefficients:
    """λ and γ per token with which `token_gae` counts turns: λ at the first token of a turn, γ at its last, else 1.

    A turn's first token then has the advantage of generalised advantage estimation over turns, computed from the sum
    of the turn's rewards and the values of the states in which turns begin.

    Args:
      turn_ids: int[B, T], the turn of each token; equal for consecutive tokens of one turn.
      lambda_: in [0, 1], of the state in which a turn begins: one number, or float[B, T], read at first tokens.
      discount: in [0, 1], from one turn to the next: one number, or float[B, T], read at last tokens.
      mask: bool[B, T], true for the tokens to use; None for all. Ids of masked tokens are not read.
      time_axis: axis of time.

    Returns:
      (lambda_, discount), float[B, T] each.
    """
    arguments = {"turn_ids": turn_ids, "lambda_": lambda_, "discount": discount}
    given = read(arguments, time_axis, mask=True if mask is None else mask)
    given.backend.check(given)
    xp, axis, ids = given.backend.xp, given.axis, given.arrays["turn_ids"]
    turned = given.with_arrays(), xp.flip(ids, (axis,))
    backwards = dataclasses.replace(turned[0], mask=xp.flip(given.mask, (axis,)))
    last, first = ends(given, ids, True), xp.flip(ends(backwards, turned[1], True), (axis,))
    one = xp.ones_like(given.arrays["lambda_"])
    return TurnCoefficients(
        xp.where(first & given.mask, given.arrays["lambda_"], one),
        xp.where(last & given.mask, given.arrays["discount"], one),
    )


def truncated_generalized_advantage_estimation(
    r_t: Array,
    discount_t: Array,
    lambda_: Array,
    values: Array,
    stop_target_gradients: bool = False,
    *,
    time_axis: int = 0,
) -> Array:
    """Advantages with the arguments of rlax's function of this name.

        Aₜ₋₁ = δₜ₋₁ + γₜλₜAₜ,   δₜ₋₁ = rₜ + γₜvₜ − vₜ₋₁,   A_T = 0

    They are the λ-returns minus the values. γ_t is 0 if an episode terminates at t within the trajectory. One array of
    values cannot hold the last state of a truncated episode: use `gae` for rollouts with truncation.

    Args:
      r_t, discount_t: float[T, ...], as in `lambda_returns`.
      lambda_: float[T, ...] in [0, 1], λ_t for t in 1..T, or one number for all.
      values: float[T+1, ...], values of s_0..s_T.
      stop_target_gradients, time_axis: as in `lambda_returns`.

    Returns:
      float[T, ...]: advantages at 0..T−1.
    """
    now, later = now_and_later(r_t, values, time_axis)
    errors = td_lambda(now, r_t, discount_t, later, lambda_, False, time_axis=time_axis)
    return read({"errors": errors}, 0).backend.stop_gradient(errors) if stop_target_gradients else errors


def masked_whiten(values: Array, mask: Array | None = None, shift_mean: bool = True, *, eps: float = 1e-8) -> Array:
    """Values scaled to mean 0 and variance 1 where not masked, such as advantages of a batch; 0 where masked.

    Args:
      values: float[...]. mask: bool[...], true for the values to use; None for all.
      shift_mean: whether the mean becomes 0; if false it does not change.
      eps: added to the sample variance (the sum of squares over n − 1).
    """
    given = read({"values": values}, 0, mask=mask)
    given.backend.check(given)
    x, xp = given.arrays["values"], given.backend.xp
    kept = xp.ones_like(x) if given.mask is None else xp.where(given.mask, xp.ones_like(x), 0.0)
    count = kept.sum().clip(1)
    mean = x.sum() / count
    centred = (x - mean) * kept
    scale = ((centred**2).sum() / (count - 1).clip(1) + eps) ** 0.5
    return given.unmasked(centred / scale if shift_mean else centred / scale + mean)


def length_mask(lengths: Array, steps: int) -> Array:
    """bool[..., steps] from int[...]: mask of sequences that fill the first `lengths` of `steps` steps."""
    given = read({"lengths": lengths}, 0)
    xp, ends = given.backend.xp, given.arrays["lengths"][..., None]
    return xp.cumsum(xp.ones_like(xp.broadcast_to(ends, (*given.shape, steps))), -1) <= ends
