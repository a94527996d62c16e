"""One λ for all states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from chunked_td._checks import check_unit
from chunked_td.deep.lambdas.base import DeepLambda, SourceSizes, Transitions
from chunked_td.lambdas.constant import ConstantLambda


@dataclass(frozen=True)
class DeepConstant(DeepLambda):
    """λ(x) = λ."""

    lambda_: float = 0.95

    like, forms = ConstantLambda, ()  # a number names it

    def __post_init__(self) -> None:
        check_unit("lambda_", self.lambda_)

    def init(self, key: jax.Array, sizes: SourceSizes) -> Any:
        """Nothing to learn."""
        return ()

    def lambdas(self, state: Any, transitions: Transitions) -> jax.Array:
        """λ everywhere."""
        return jnp.full(transitions.reward.shape, self.lambda_)
