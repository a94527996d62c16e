"""λ from a policy or its critic.

Where every transition is deterministic, as in text, the policy is the model of what comes next.

| λ of a state | formula | depends on what came |
|---|---|---|
| realised | π(aₜ\\|sₜ), as in the paper | yes: the values that are learned are no longer those of the policy |
| expected | Σ_a π(a\\|sₜ)² | no |
| entropy | exp(−H(π(·\\|sₜ))) | no |
| length | 1 − 1/(α l), VAPO's rule for a sequence of l tokens | on the length alone |
| value kernel | (1 + 2v/τ²)^(−½), v the variance of the next value | no |
| unexplained | the share of the variance of returns that a critic's values leave unexplained | on the batch |

λ at t belongs to the state that step t leaves, as `gae` and `token_gae` take it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

from chunked_td._checks import check_positive
from chunked_td.returns._arguments import KINDS, Array, Given, Kind, backend_of, read, shaped

PolicyLambda: TypeAlias = Literal["expected", "realised", "entropy"]


class LogProbsAndLambda(NamedTuple):
    """What `log_probs_and_lambda` returns."""

    log_probs: Array
    lambda_: Array


def log_probs_and_lambda(logits: Array, actions: Array, kind: PolicyLambda = "expected") -> LogProbsAndLambda:
    """log π(aₜ|sₜ), which a trainer needs anyway, and λₜ from the same exponentials.

    Args:
      logits: float[..., A], any real numbers; −∞ for actions that cannot be taken.
      actions: int[...], those taken.
      kind: which λ; see the docstring of the module.

    Returns:
      (log_probs, lambda_), float[...] each, in float32 where logits have 16 bits. The gradient of log_probs passes;
      λ is a constant.
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
    """λ = 1 − 1/(α l) for sequences of l tokens that are not masked (VAPO, Yue et al., 2025); at least 0.

    Args:
      mask: bool[B, T]. alpha: larger is nearer to 1.

    Returns:
      float[B, 1]: one λ per sequence.
    """
    given, alpha = read({"mask": mask}, time_axis), check_positive("alpha", alpha)
    lengths = given.arrays["mask"].sum(given.axis)[(slice(None),) * given.axis + (None,)]
    return given.backend.xp.clip(1.0 - 1.0 / (alpha * given.backend.xp.clip(lengths, 1, None)), 0.0, None)


def value_kernel_lambda(variance: Array, tau: Array) -> Array:
    """λ = (1 + 2v/τ²)^(−½): the chance that two draws of a Gaussian next value, of variance v, cannot be told apart.

    Args:
      variance: float[...], of γV(s′) given the state, as a critic tells it: over next tokens, or across an ensemble.
      tau: float[...] or one number, which differences matter: a share, such as 0.3, of the TD errors' root mean square.
    """
    arguments = {"variance": variance, "tau": tau}
    backend, kinds = backend_of(arguments), {name: KINDS[name] for name in arguments}
    arrays, dtype = backend.convert(arguments, kinds)
    backend.check(Given(backend, arrays, kinds, (), 0, dtype))
    return (1.0 + 2.0 * arrays["variance"] / arrays["tau"] ** 2) ** -0.5


def unexplained_lambda(values: Array, returns: Array, mask: Array | None = None) -> Array:
    """λ = Σ(G − v)² / Σ(G − Ḡ)², at most 1: whole returns beside a critic that knows nothing, less the more it knows.

    Args:
      values: float[...], of a critic that has not learned from these returns yet.
      returns: float[...], what followed; [B, 1] for one per sequence. mask: bool[...], which steps count; all if None.

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
