"""From a network's logits to λ: the probability of the step that was taken, in the forms of §3 and App. B.

A reading says which probability: of the next percept given the action ("sarsa"), under the policy's mixture of
actions ("expected_sarsa"), the latter for each component by itself ("factored"), or "both": the components and then
the whole percept, for runs of both kinds in one program. Each also has an expected form,
which asks how probable the next percept will be on average: it depends on the present state alone, and so leaves
the true values as the fixed point.

`groups` says which components belong together in "factored" and "both" (`FactoredLambda(components=…)`): a λ is then
the probability of a group. By default each component stands alone.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from chunked_td.models.networks import NetworkConfig, log_likelihood, log_overlap

READINGS = ("sarsa", "expected_sarsa", "factored", "both")

Groups = tuple[tuple[int, ...], ...] | None


def rows_per_step(config: NetworkConfig, reading: str) -> int:
    """How many (state, action) pairs the network must see for one step's λ."""
    return 1 if reading == "sarsa" else config.actions


def width(config: NetworkConfig, reading: str, groups: Groups = None) -> int:
    """How many λs one step has: one, one per group of components, or both."""
    parts = len(config.nvec if groups is None else groups)
    return {"factored": parts, "both": parts + 1}.get(reading, 1)


def _grouped(log_p: jax.Array, groups: Groups) -> jax.Array:
    """log of the probability of each group, from those of the components, on the last axis."""
    if groups is None:
        return log_p
    return jnp.stack([jnp.sum(log_p[..., list(group)], -1) for group in groups], -1)


def read(
    config: NetworkConfig,
    reading: str,
    logits: jax.Array,
    outcome: jax.Array,
    policy: jax.Array | None,
    groups: Groups = None,
):
    """λ of the steps that happened.

        sarsa            P̂(x'|x, a), to be multiplied by π(a'|x')
        expected_sarsa   Σₐ π(a|x) Πᵢ P̂ᵢ(x'ⁱ|x, a)
        factored         Σₐ π(a|x) P̂ᵢ(x'ⁱ|x, a), per component

    Args:
      logits: float32[..., rows, outputs]; rows is 1 for "sarsa" (the action taken), else one per action.
      outcome: int32[..., c]. policy: float32[..., actions], not used by "sarsa".
    Returns:
      float32[...], float32[..., c] for "factored", float32[..., c + 1] for "both"; c is the number of groups.
    """
    if reading == "both":
        parts, whole = (read(config, kind, logits, outcome, policy, groups) for kind in ("factored", "expected_sarsa"))
        return jnp.concatenate([parts, whole[..., None]], -1)
    log_p = log_likelihood(config, logits, outcome[..., None, :])
    if reading == "sarsa":
        return jnp.exp(jnp.sum(log_p[..., 0, :], -1))
    assert policy is not None
    if reading == "factored":
        return jnp.sum(policy[..., None] * jnp.exp(_grouped(log_p, groups)), -2)
    return jnp.sum(policy * jnp.exp(jnp.sum(log_p, -1)), -1)


def read_expected(
    config: NetworkConfig, reading: str, logits: jax.Array, policy: jax.Array | None, groups: Groups = None
):
    """λ expected before the step: E over x' of what `read` would give.

        sarsa            Πᵢ Σᵥ P̂ᵢ(v|x, a)²
        expected_sarsa   Σₐ Σ_b π(a|x) π(b|x) Πᵢ Σᵥ P̂ᵢ(v|x, a) P̂ᵢ(v|x, b)
        factored         Σₐ Σ_b π(a|x) π(b|x) Σᵥ P̂ᵢ(v|x, a) P̂ᵢ(v|x, b), per component

    Arguments and result as for `read`.
    """
    if reading == "both":
        parts, whole = (read_expected(config, kind, logits, policy, groups) for kind in ("factored", "expected_sarsa"))
        return jnp.concatenate([parts, whole[..., None]], -1)
    if reading == "sarsa":
        return jnp.exp(jnp.sum(log_overlap(config, logits, logits)[..., 0, :], -1))
    assert policy is not None
    overlap = log_overlap(config, logits[..., :, None, :], logits[..., None, :, :])
    pairs = policy[..., :, None] * policy[..., None, :]
    if reading == "factored":
        return jnp.sum(pairs[..., None] * jnp.exp(_grouped(overlap, groups)), (-3, -2))
    return jnp.sum(pairs * jnp.exp(jnp.sum(overlap, -1)), (-2, -1))
