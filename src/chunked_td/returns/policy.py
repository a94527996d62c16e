"""λ from a policy or its critic.

If every transition is deterministic, as in text, the policy is the model of the next state.

| λ of a state | formula | depends on the sampled action |
|---|---|---|
| realised | π(aₜ\\|sₜ), as in the paper | yes: the learned values are no longer those of the policy |
| expected | Σ_a π(a\\|sₜ)² | no |
| entropy | exp(−H(π(·\\|sₜ))) | no |
| length | 1 − 1/(α l), VAPO's rule for a sequence of l tokens | only on the length |
| value kernel | (1 + 2v/τ²)^(−½), v the variance of the next value | no |
| unexplained | 1 − explained variance of a critic's values | on the batch |

λ at t belongs to the state that step t leaves, as in `gae` and `token_gae`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from chunked_td._checks import check_positive
from chunked_td.returns._arguments import KINDS, Array, Given, Kind, backend_of, read, shaped

PolicyLambda: TypeAlias = Literal["expected", "realised", "entropy"]


class LogProbsAndLambda(NamedTuple):
    """Result of `log_probs_and_lambda`."""

    log_probs: Array
    lambda_: Array


def log_probs_and_lambda(logits: Array, actions: Array, kind: PolicyLambda = "expected") -> LogProbsAndLambda:
    """log π(aₜ|sₜ), as a trainer needs it, and λₜ from the same exponentials.

    Args:
      logits: float[..., A], any real numbers; −∞ for illegal actions.
      actions: int[...], the actions taken.
      kind: the type of λ; see the docstring of the module.

    Returns:
      (log_probs, lambda_), float[...] each, in float32 if logits have 16 bits. log_probs has a gradient; λ is a
      constant.
    """
    if kind not in ("expected", "realised", "entropy"):
        raise ValueError(f"kind: got {kind!r}, takes 'expected', 'realised' or 'entropy'")
    given = read({"logits": logits, "actions": actions}, 0, extra_axes=("actions",))
    backend, xp = given.backend, given.backend.xp
    actions = shaped("actions", given.arrays["actions"], given.shape[:-1])
    x = given.arrays["logits"]
    greatest = backend.stop_gradient(xp.amax(x, axis=-1, keepdims=True))
    backend.check(replace(given, arrays={"logits": greatest}, kinds={"logits": Kind.LARGEST}))
    x = x - greatest
    z = xp.exp(x)
    total = z.sum(-1)
    log_probs = backend.pick("actions", x, actions) - xp.log(total)
    if kind == "realised":
        return LogProbsAndLambda(log_probs, xp.exp(backend.stop_gradient(log_probs)))
    x, z, total = (backend.stop_gradient(array) for array in (x, z, total))
    if kind == "expected":
        return LogProbsAndLambda(log_probs, (z * z).sum(-1) / total**2)
    negative_entropy = (z * xp.where(z > 0, x, 0.0)).sum(-1) / total - xp.log(total)
    return LogProbsAndLambda(log_probs, xp.exp(negative_entropy))


def length_lambda(mask: Array, alpha: float = 0.05, *, time_axis: int = -1) -> Array:
    """λ = 1 − 1/(α l), at least 0, for sequences of l unmasked tokens (VAPO, Yue et al., 2025).

    Args:
      mask: bool[B, T]. alpha: a larger α gives a λ nearer to 1.

    Returns:
      float[B, 1]: one λ per sequence.
    """
    given, alpha = read({"mask": mask}, time_axis), check_positive("alpha", alpha)
    lengths = given.arrays["mask"].sum(given.axis)[(slice(None),) * given.axis + (None,)]
    return given.backend.xp.clip(1.0 - 1.0 / (alpha * given.backend.xp.clip(lengths, 1, None)), 0.0, None)


def value_kernel_lambda(variance: Array, tau: Array) -> Array:
    """λ = (1 + 2v/τ²)^(−½): mean Gaussian kernel, of width τ, between two samples of a next value with variance v.

    Args:
      variance: float[...], of γV(s′) given the state, from a critic: over next tokens, or across an ensemble.
      tau: float[...] or one number, the scale of differences that matter: for example 0.3 times the root mean square
        of the TD errors.
    """
    arguments = {"variance": variance, "tau": tau}
    backend, kinds = backend_of(arguments), {name: KINDS[name] for name in arguments}
    arrays, dtype = backend.convert(arguments, kinds)
    backend.check(Given(backend, arrays, kinds, (), 0, dtype))
    return (1.0 + 2.0 * arrays["variance"] / arrays["tau"] ** 2) ** -0.5


def unexplained_lambda(values: Array, returns: Array, mask: Array | None = None) -> Array:
    """λ = 1 − explained variance = Σ(G − v)² / Σ(G − Ḡ)², at most 1: full returns for an uninformative critic.

    Args:
      values: float[...], of a critic that has not yet been trained on these returns.
      returns: float[...]; [B, 1] for one per sequence. mask: bool[...], true for the steps to use; None for all.

    Returns:
      One number for the batch, of rank 0; 1 if all returns are equal up to rounding.
    """
    given = read({"values": values, "returns": returns}, 0, mask=mask)
    given.backend.check(given)
    values, returns = given.arrays["values"], given.arrays["returns"]
    xp, kept = given.backend.xp, given.backend.xp.ones_like(values)
    kept = kept if given.mask is None else xp.where(given.mask, kept, 0.0)
    spread = (kept * (returns - (kept * returns).sum() / kept.sum().clip(1)) ** 2).sum()
    left = (kept * (returns - values) ** 2).sum()
    rounding = 8 * xp.finfo(returns.dtype).eps
    differ = spread > rounding**2 * (kept * returns**2).sum()
    share = left / xp.where(differ, spread, 1.0)
    return given.backend.stop_gradient(xp.where(differ & (share < 1), share, 1.0))
