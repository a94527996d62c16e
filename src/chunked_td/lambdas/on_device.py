"""Queries of λ sources to networks, computed on the networks' device (§3 and App. B).

A `Reading` converts a network's logits to the inputs of one λ source. "sarsa", "expected_sarsa" and "factored" are the
queries of `chunked_td.lambdas.step` in JAX, for sources that need one number per step (or one per part):

| query | forward: probability of the sampled percept | expected: its mean over next percepts |
|---|---|---|
| "sarsa" | P̂(x'|x,a) | Πᵢ Σᵥ P̂ᵢ(v|x,a)² |
| "expected_sarsa" | Σₐ π(a|x) Πᵢ P̂ᵢ(x'ⁱ|x,a) | Σₐ Σ_b π(a|x) π(b|x) Πᵢ Σᵥ P̂ᵢ(v|x,a) P̂ᵢ(v|x,b) |
| "factored" | Σₐ π(a|x) P̂ᵢ(x'ⁱ|x,a), per part | the same with one sum over v, per part |
| "mean" | – | Σₐ π(a|x) Πᵢ Σᵥ P̂ᵢ(v|x,a)² |
| "both" | the parts, then the whole, for runs of both kinds in one program | the same |

"chances" and "outcomes" return the probabilities for every other source: P̂ᵢ(x'ⁱ|x,a) of the sampled percept, and
P̂ᵢ(v|x,a) of every possible one, for every action or (`only_taken`) the one taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from chunked_td._checks import check_choice
from chunked_td.models.neural.networks import NetworkConfig, log_likelihood, log_overlap, outcome_probabilities

QUESTIONS = ("sarsa", "expected_sarsa", "factored", "mean", "both", "chances", "outcomes")

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Reading:
    """Query to a network, evaluated at every step.

    Args:
      question: one of `QUESTIONS`.
      expected: whether to return the expected probability instead of that of the sampled percept.
      groups: the state components of each part, for "factored" and "both". None: each component is a part.
      only_taken: whether to evaluate the action taken only ("chances" and "outcomes"; "sarsa" always does).
    """

    question: str = "sarsa"
    expected: bool = False
    groups: Groups | None = None
    only_taken: bool = False

    def __post_init__(self) -> None:
        check_choice("question", self.question, QUESTIONS)
        if self.question == "mean" and not self.expected:
            raise ValueError("expected must be True for the question 'mean', got False")
        if self.question == "sarsa":
            object.__setattr__(self, "only_taken", True)

    def width(self, config: NetworkConfig) -> int:
        """Return the number of outputs per step."""
        parts, rows = len(config.nvec if self.groups is None else self.groups), 1 if self.only_taken else config.actions
        lengths = {"factored": parts, "both": parts + 1, "chances": rows * len(config.nvec)}
        lengths["outcomes"] = rows * sum(head.outcomes for head in config.heads)
        return lengths.get(self.question, 1)

    def __call__(self, config: NetworkConfig, logits: jax.Array, outcome: jax.Array, policy: jax.Array) -> jax.Array:
        """Return the outputs of every step.

        Args:
          logits: float32[..., rows, outputs]; rows is 1 for the action taken, else one per action.
          outcome: int32[..., c], the sampled percept. policy: float32[..., actions]; unused with `only_taken`.
        Returns:
          float32[...] if a step has one number, else float32[..., width].
        """
        if self.question == "outcomes":
            each = outcome_probabilities(config, logits)
            return each.reshape(*each.shape[:-2], -1)
        if self.question == "chances":
            each = jnp.exp(log_likelihood(config, logits, outcome[..., None, :]))
            return each.reshape(*each.shape[:-2], -1)
        ask, asked = _expected if self.expected else _realised, (self.groups, config, logits, outcome, policy)
        if self.question == "both":
            return jnp.concatenate([ask("factored", *asked), ask("expected_sarsa", *asked)[..., None]], -1)
        return ask(self.question, *asked)


def _grouped(log_p: jax.Array, groups: Groups | None) -> jax.Array:
    """Log-probability of each group from those of the components, on the last axis."""
    if groups is None:
        return log_p
    return jnp.stack([jnp.sum(log_p[..., list(group)], -1) for group in groups], -1)


def _realised(question: str, groups: Groups | None, config: NetworkConfig, logits, outcome, policy) -> jax.Array:
    """Probability of the sampled percept."""
    log_p = log_likelihood(config, logits, outcome[..., None, :])
    if question == "sarsa":
        return jnp.exp(jnp.sum(log_p[..., 0, :], -1))
    if question == "factored":
        return jnp.sum(policy[..., None] * jnp.exp(_grouped(log_p, groups)), -2)
    return mixture(policy, log_p)


def mixture(policy: jax.Array, log_p: jax.Array) -> jax.Array:
    """Σₐ π(a|x) Πᵢ Pᵢ(a). Args: policy: [..., A]. log_p: log Pᵢ(a), [..., A, parts]."""
    return jnp.sum(policy * jnp.exp(jnp.sum(log_p, -1)), -1)


def _expected(question: str, groups: Groups | None, config: NetworkConfig, logits, outcome, policy) -> jax.Array:
    """Expected probability of the next percept: the mean of `_realised` over x'."""
    if question == "sarsa":
        return jnp.exp(jnp.sum(log_overlap(config, logits, logits)[..., 0, :], -1))
    if question == "mean":
        return mixture(policy, log_overlap(config, logits, logits))
    overlap = log_overlap(config, logits[..., :, None, :], logits[..., None, :, :])
    pairs = policy[..., :, None] * policy[..., None, :]
    if question == "factored":
        return jnp.sum(pairs[..., None] * jnp.exp(_grouped(overlap, groups)), (-3, -2))
    return jnp.sum(pairs * jnp.exp(jnp.sum(overlap, -1)), (-2, -1))
