"""λ from the true model, the study's screening test: if it does not help, no learned model will.

The agent samples K further next states from the task itself, in groups that share an action: actions of the policy if
the bootstrap is V, the action taken if it is Q. They are independent of the sampled next state.

    realised     the share of samples that equal the sampled percept
    expected     the share of equal samples among pairs with independent actions: Σ_x' (Σ_a π(a|x) P(x'|x, a))²
    per-action   the share of equal samples among pairs that share an action: Σ_a π(a|x) Σ_x' P(x'|x, a)²
    kernel       the mean of exp(−(y − y')² / 2τ²), 1 for equal percepts, with y = γ B(x'), over pairs as in `expected`

The last three depend on the state alone. If the bootstrap is Q there is one action, and `expected` and `per-action`
are the same. `per-action` is `DeepPercepts("expected")` with the true probabilities, `kernel` is
`DeepValueKernel` with them, but for its Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from studies.networks.lambdas.base import DeepLambda, ErrorScale, SourceSizes, Transitions

TRUE_FORMS = ("realised", "expected", "per-action", "kernel")


@dataclass(frozen=True)
class DeepTrueModel(DeepLambda):
    """λ from samples of the task itself. Args: form; samples: K; c, memory: as in `DeepValueKernel`."""

    form: str = "kernel"
    samples: int = 12
    c: float = 0.3
    memory: float = 2_000.0

    @property
    def needs_draws(self) -> bool:
        """Always."""
        return True

    def init(self, key: jax.Array, sizes: SourceSizes) -> ErrorScale:
        """Only the size of TD errors is learned."""
        return ErrorScale.start()

    def learn(self, state: ErrorScale, transitions: Transitions) -> ErrorScale:
        """Follow the size of TD errors."""
        return state.follow(transitions, self.memory)

    def lambdas(self, state: ErrorScale, transitions: Transitions) -> jax.Array:
        """λ in this form."""
        draws = transitions.draws
        assert draws is not None, "agents make draws of the task for sources that need them"
        if self.form == "realised":
            same = jnp.all(draws.codes == transitions.next_codes[..., None, :], -1)
            return jnp.mean(same.astype(jnp.float32), -1)
        first, second = jnp.triu_indices(draws.codes.shape[-2], 1)
        codes, y = draws.codes, transitions.discount * draws.next_value
        same = jnp.all(codes[..., first, :] == codes[..., second, :], -1)
        together = draws.group[..., first] == draws.group[..., second]
        if self.form == "per-action":
            return jnp.mean(same.astype(jnp.float32), -1, where=together)
        independent = ~together | jnp.all(together, -1, keepdims=True)
        if self.form == "expected":
            return jnp.mean(same.astype(jnp.float32), -1, where=independent)
        tau = jnp.maximum(self.c * state.root(), 1e-8)
        apart = (y[..., first] - y[..., second]) / tau
        return jnp.mean(jnp.where(same, 1.0, jnp.exp(-(apart**2) / 2)), -1, where=independent)
