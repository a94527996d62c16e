"""Advantages with a λ per step: of a rollout (`gae`), of tokens (`token_gae`), and with rlax's arguments."""

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
        None: nowhere.
      discount: float in [0, 1], or float[T, ...].
      lambda_: float[T, ...] in [0, 1], or one number for all.
      mask, masked, segment_ids, time_axis: as in `lambda_returns`; an episode counts as truncated where a segment ends
        and, with masked="stop", before masked steps.
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
    """What `token_gae` returns."""

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

    Everything is indexed by the token that a step writes: v_t is the value before it, λ_t that of the state it is
    written in. t + 1 is the next token that is not masked. After the last one stands `last_values`: 0 where the
    sequence is complete.

    Args:
      rewards, values: float[B, T].
      mask: bool[B, T], which tokens count; all if None.
      lambda_policy, lambda_value: in [0, 1]; float[B, T], float[B, 1] for one per sequence, or one number.
      discount: in [0, 1], in the same shapes.
      last_values: float[B, 1] or one number, the value after the last token of sequences that were cut.
      masked: "pass": masked tokens, such as a tool's output, are passed by; a reward there counts as one of the last
        token before that is not masked. "stop": a sequence ends before them, and their rewards are not read.
      segment_ids: int[B, T], which sequence a token belongs to, where several share a row. Each ends with value 0, the
        last one of a row with `last_values`.
      time_axis: which axis of rewards is time.
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
    """What `turn_lambda` returns."""

    lambda_: Array
    discount: Array


def turn_lambda(
    turn_ids: Array, lambda_: Array, discount: Array = 1.0, mask: Array | None = None, *, time_axis: int = -1
) -> TurnCoefficients:
    """λ and γ per token that make `token_gae` count turns: λ at the first token of a turn, γ at its last, else 1.

    A turn's first token then gets the advantage of generalised advantage estimation over turns: of the turn's rewards,
    added up, and values of the states in which turns begin.

    Args:
      turn_ids: int[B, T], which turn a token belongs to; equal for tokens of one turn that follow each other.
      lambda_: in [0, 1], of the state in which a turn begins: one number, or float[B, T], read at first tokens.
      discount: in [0, 1], from one turn to the next: one number, or float[B, T], read at last tokens.
      mask: bool[B, T], which tokens count; all if None. Ids of masked tokens are not read.
      time_axis: which axis is time.

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

    They are the λ-returns less the values. γ_t = 0 where an episode ends in the middle of the trajectory. One array of
    values has no room for the state an episode was cut in: for rollouts with truncation use `gae`.

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
    """Numbers with mean 0 and variance 1 where not masked, such as advantages of a batch; 0 where masked.

    Args:
      values: float[...]. mask: bool[...], which count; all if None.
      shift_mean: whether the mean becomes 0; it stays if not.
      eps: added to the variance (that of a sample: the sum of squares over n − 1).
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
    """bool[..., steps] from int[...]: the mask of sequences that fill the first `lengths` of `steps` places."""
    given = read({"lengths": lengths}, 0)
    xp, ends = given.backend.xp, given.arrays["lengths"][..., None]
    return xp.cumsum(xp.ones_like(xp.broadcast_to(ends, (*given.shape, steps))), -1) <= ends
