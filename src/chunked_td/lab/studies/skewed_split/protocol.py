"""Protocol of the skewed split, ours: the smallest problem in which the paper's λ converges to the wrong value.

After a certain step, outcome A (probability 0.9) pays nothing and B pays 10: V(s₀) = 1. A λ that is the probability of
the outcome itself weighs A's error of −1 by 0.9 and B's of +9 by 0.1 before it reaches s₀:
V(s₀) → 1 + 0.9·0.9·(−1) + 0.1·0.1·9 = 0.28. A λ that depends on the state alone keeps 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.lab.study import Arm, Environment, Protocol, Scores, Size

ORDER = 50
TRUTH = 1.0
BIASED_FIXED_POINT = 0.28


def start_value(runs: Any, record_at: np.ndarray) -> Scores:
    """V(s₀)."""
    return {"score": np.asarray(runs.probes_at)[..., 0]}


PROTOCOL = Protocol(
    id="skewed-split",
    title="Skewed split: the bias of the paper's λ",
    description=(
        "A certain step, then a branch: nothing with probability 0.9, ten with probability 0.1, so V(s₀) = 1."
        " Weighing each TD error by the probability of its own outcome moves the fixed point of Chunked-TD to"
        " 0.28, even with a perfect model. The expected probability, or any λ that depends on the state "
        "alone, keeps the true value."
    ),
    environment=Environment("chunked_td.envs.dynamics:SkewedSplit", {"probability": 0.9, "reward": 10.0, "length": 1}),
    arms=(
        Arm("td-0", "TD(0)", "td", 0.0, in_paper=False),
        Arm("td-0.9", "TD(0.9)", "td", 0.9, in_paper=False),
        Arm("td-1", "TD(1)", "td", 1.0, in_paper=False),
        Arm("chunked", "Chunked-TD", "td", "ForwardLambda", "counts", in_paper=False),
        Arm("chunked-oracle", "Chunked-TD, true model", "td", "ForwardLambda", "oracle", in_paper=False),
        Arm("expected", "Expected-λ TD", "td", "ExpectedLambda", "counts", in_paper=False),
    ),
    exponents=(-3, -5, -7),
    episodes=50_000,
    record=((50_000, 500),),
    probes=((0, 0),),
    scoring=start_value,
    score_label="V(s₀)",
    seeds=20,
    best=TRUTH,
    best_label="true value (the biased fixed point is 0.28)",
    steps_per_episode=2,
    smoke=Size(seeds=2, episodes=1_000, exponents=(-5,)),
    deviations=("An experiment of ours: the paper does not have it.",),
)
