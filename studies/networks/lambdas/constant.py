"""One λ for all states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from chunked_td._checks import check_unit
from studies.networks.lambdas.base import DeepLambda, SourceSizes, Transitions


@dataclass(frozen=True)
class DeepConstant(DeepLambda):
    """λ(x) = λ."""

    lambda_: float = 0.95

    def __post_init__(self) -> None:
        check_unit("lambda_", self.lambda_)

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """Nothing to learn."""
        return ()

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """λ everywhere."""
        return jnp.full(transitions.reward.shape, self.lambda_)
