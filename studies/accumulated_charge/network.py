"""The network of Accumulated-Charge (App. A.2), and runs whose λ it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from chunked_td.models.neural.networks import NetworkConfig


def network_config(nvec: Sequence[int] = (2, 201, 201), actions: int = 2, largest: int = 20) -> NetworkConfig:
    """A softmax over 0..largest for the change of each component; by default in the paper's size.

    Args:
      nvec: sizes of (first action was a₁, charge, time).
      actions: how many actions there are.
      largest: the greatest change of a component in one step, H/k.
    """
    from chunked_td.models.neural.networks import NetworkConfig, difference

    heads = tuple(difference(0, largest) for _ in nvec)
    return NetworkConfig(tuple(nvec), actions, heads, weight_decay=1e-6, train_every=4)


def config_for(dynamics: Any) -> NetworkConfig:
    """The network in the sizes of an environment."""
    return network_config(dynamics.nvec, dynamics.n_actions, dynamics.trials)


def noisy_steps(dynamics: Any, envs: Any, runs: int) -> np.ndarray:
    """bool[runs, T]: the steps that add a random charge."""
    return np.asarray(envs.charging, bool)[:, : dynamics.horizon]
