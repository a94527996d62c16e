"""Protocol of Accumulated-Charge (§5.2, App. A.2), a reward delayed by 200 noisy steps; and its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.study import Arm, Environment, NetworkSpec, Protocol, Size, constant_arms, misses_and_returns
from chunked_td.learners.schedule import Schedule

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


NETWORK = NetworkSpec("accumulated-charge", config_for, noisy_steps)


ORDER = 20
LAMBDAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
ARGUMENTS = {"horizon": 200, "points": 10, "success": 0.5, "bonus": 0.1}

ARMS = (
    *constant_arms("sarsa", "SARSA", LAMBDAS, "sarsa"),
    Arm("chunked", "Chunked SARSA", "sarsa", "ForwardLambda", NETWORK),
    Arm("expected", "Expected-λ SARSA", "sarsa", "ExpectedLambda", NETWORK, in_paper=False,
        note="λ is the expected probability of the step, which leaves the true values as the fixed point.",
        quick=False),
    Arm("chunked-counts", "Chunked SARSA, counts", "sarsa", "ForwardLambda", "counts", in_paper=False),
    Arm("expected-counts", "Expected-λ SARSA, counts", "sarsa", "ExpectedLambda", "counts", in_paper=False),
    Arm("chunked-oracle", "Chunked SARSA, true model", "sarsa", "ForwardLambda", "oracle", in_paper=False,
        note="What remains when nothing about the model has to be learned."),
)  # fmt: skip

PROTOCOL = Protocol(
    id="accumulated-charge",
    title="Accumulated-Charge",
    description=(
        "Only the first of 200 actions matters. Ten steps, drawn once per seed, add a binomial charge; the "
        "last transition pays for it. The first action a₁ is worth 0.1 more than a₂ in expectation. The score"
        " counts the episodes that did not begin with a₁."
    ),
    environment=Environment("chunked_td.envs.dynamics:AccumulatedCharge", ARGUMENTS),
    arms=ARMS,
    exponents=(3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -10, -12),
    episodes=10_000,
    record=((10_000, 500),),
    exploration=Schedule(((0, 1.0), (1_000, 0.1)), hold=True),
    scoring=misses_and_returns,
    score_label="regretful choices",
    best=950.0,
    best_label="best possible under the exploration scheme",
    steps_per_episode=200,
    smoke=Size(seeds=2, episodes=40, exponents=(0, -4)),
    network_quick=Size(seeds=1, episodes=1_500, exponents=(-3,)),
    references=("Figure 5", "Figure 7 (with intervals)"),
    deviations=(
        "The paper gives no table for this experiment, only figures; there are no published numbers to compare with.",
        "The final reward is fixed by its text (App. A.2); the times of charging are drawn from 1..H−1.",
    ),
)
