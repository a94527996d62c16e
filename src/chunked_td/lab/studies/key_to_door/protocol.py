"""Protocol of Key-to-Door (§5.3, App. A.3), with a reward per state component, among distractors; and its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.study import (
    Arm,
    Environment,
    NetworkSpec,
    Protocol,
    Published,
    Selection,
    Size,
    constant_arms,
    misses_and_returns,
)
from chunked_td.learners.schedule import linear

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


NETWORK = NetworkSpec("key-to-door", config_for, noisy_steps)


ORDER = 40
LAMBDAS = (0.0, 0.1, 0.5, 0.9, 1.0)
BEST = 668.0
FACTORED_EXPONENTS = (2, 1, 0, -1, -2, -3)

# arm -> (episodes without treasure of 5,000: mean, standard deviation; exponent of the selected step size)
_PAPER = {
    "expected-sarsa-0": (1881, 1950, 1),
    "expected-sarsa-0.1": (2277, 2068, 2),
    "expected-sarsa-0.5": (2273, 2076, 0),
    "expected-sarsa-0.9": (2688, 2119, 0),
    "expected-sarsa-1": (2261, 582, -3),
    "c-default": (2285, 2061, 0),
    "c-factored": (669, 17, -1),
}

ARMS = (
    *constant_arms("expected_sarsa", "Expected-SARSA", LAMBDAS, "expected-sarsa"),
    Arm("c-default", "C-default", "expected_sarsa", "ForwardLambda", NETWORK),
    Arm("c-factored", "C-factored", "expected_sarsa", "FactoredLambda", NETWORK, FACTORED_EXPONENTS),
    Arm("c-default-oracle", "C-default, true model", "expected_sarsa", "ForwardLambda", "oracle", in_paper=False,
        note="What remains when nothing about the model has to be learned."),
    Arm("c-factored-oracle", "C-factored, true model", "expected_sarsa", "FactoredLambda", "oracle",
        FACTORED_EXPONENTS, in_paper=False),
)  # fmt: skip

PROTOCOL = Protocol(
    id="key-to-door",
    title="Key-to-Door",
    description=(
        "Pick the key up in the first of 100 steps, unlock the door in the last, and collect 0.01; in between"
        " four coins pay as much at random. The reward has one number per state component. The score counts "
        "episodes without treasure."
    ),
    environment=Environment("chunked_td.envs.dynamics:KeyToDoor", {"horizon": 100, "distractors": 4}),
    arms=ARMS,
    exponents=tuple(range(2, -10, -1)),
    episodes=5_000,
    record=((5_000, 100),),
    exploration=linear(1.0, 0.1, 500),
    scoring=misses_and_returns,
    score_label="episodes without treasure",
    selection=Selection("least mean"),
    best=BEST,
    best_label="best possible under the exploration scheme",
    steps_per_episode=100,
    smoke=Size(seeds=2, episodes=60, exponents=(0, -1)),
    network_quick=Size(seeds=2, episodes=600, exponents=(-1,)),
    published=tuple(
        published
        for arm, (mean, sd, exponent) in _PAPER.items()
        for published in (Published(arm, "score", mean, "Table 1", sd), Published(arm, "exponent", exponent, "Table 5"))
    ),
    references=("Table 1", "Table 5", "Figure 8"),
    deviations=(
        "Distractors are 0 in the final state whether or not there is treasure; the paper speaks only of "
        "treasure, door and start states. Fair coins there would not give its selected step size and spread "
        "for λ = 1.",
        "Ten seeds, as in the paper, say little where scores are bimodal over seeds; see also the runs with 100.",
    ),
)
