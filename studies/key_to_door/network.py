"""The network of Key-to-Door (App. A.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from chunked_td.models.neural.networks import NetworkConfig


def network_config(nvec: Sequence[int] = (2,) * 7 + (101,), actions: int = 2) -> NetworkConfig:
    """Bernoulli heads for the Booleans and a softmax for the time; by default in the paper's size.

    The paper gives the time H categories; the time runs over 0..H, so ours has H + 1.

    Args:
      nvec: sizes of (key, door, distractors…, treasure, time).
      actions: how many actions there are.
    """
    from chunked_td.models.neural.networks import NetworkConfig, boolean, categorical

    heads = (*(boolean() for _ in nvec[:-1]), categorical(nvec[-1]))
    return NetworkConfig(
        tuple(nvec), actions, heads, hidden=(128, 128), embedding=4, learning_rate=2e-4, batch_size=64, capacity=10_000
    )


def config_for(dynamics: Any) -> NetworkConfig:
    """The network in the sizes of an environment."""
    return network_config(dynamics.nvec, dynamics.n_actions)


def noisy_steps(dynamics: Any, envs: Any, runs: int) -> np.ndarray:
    """bool[runs, T]: the steps that toss the distractors' coins; those into the door state and the last one do not."""
    noisy = np.zeros(dynamics.horizon, bool)
    noisy[: dynamics.horizon - 2] = True
    return np.broadcast_to(noisy, (runs, dynamics.horizon))
