"""Protocol of Chain-and-Split (§5.1, App. A.1): evaluate the uniform policy with certain and noisy branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.lab.study import Arm, Environment, Protocol, Published, Scores, Selection, Size

ORDER = 10
ACTIONS = 10
TRUTH = 0.01


def action_gap(runs: Any, record_at: np.ndarray) -> Scores:
    """ΔQ = Q(s₀, a₁) − max_{j>1} Q(s₀, a_j), from probes of every action in the start state."""
    values = np.asarray(runs.probes_at)
    return {"score": values[..., 0] - values[..., 1:].max(axis=-1), "q_first": values[..., 0]}


ARMS = (
    Arm("sarsa-0", "SARSA(0)", "sarsa", 0.0),
    Arm("sarsa-1", "SARSA(1)", "sarsa", 1.0),
    Arm("chunked", "Chunked SARSA", "sarsa", "ForwardLambda", "counts"),
    Arm("expected", "Expected-λ SARSA", "sarsa", "ExpectedLambda", "counts", in_paper=False, episodes=100_000,
        note="λ is the expected probability of the step, which leaves the true values as the fixed point. It sums "
        "over 101 outcomes at the split; 100,000 episodes are enough to select and compare."),
    Arm("chunked-oracle", "Chunked SARSA, true model", "sarsa", "ForwardLambda", "oracle", in_paper=False),
)  # fmt: skip

PROTOCOL = Protocol(
    id="chain-and-split",
    title="Chain-and-Split",
    description=(
        "One action leads through a chain of 20 certain steps to a reward of 0.01; nine others lead to one "
        "state and then to one of 101 rewards that average zero. The uniform policy is evaluated. The gap ΔQ "
        "is positive where the certain reward is valued above all others, and 0.01 in truth."
    ),
    environment=Environment(
        "chunked_td.envs.dynamics:ChainAndSplit", {"horizon": 20, "actions": ACTIONS, "width": 101}
    ),
    arms=ARMS,
    exponents=tuple(range(-2, -14, -1)),
    episodes=1_000_000,
    record=((100_000, 1_000), (1_000_000, 20_000)),
    exploration=1.0,
    probes=tuple((0, action) for action in range(ACTIONS)),
    scoring=action_gap,
    score_label="ΔQ",
    selection=Selection("least squared error", at=100_000, truth=TRUTH, exceptions={"sarsa-1": 1_000_000}),
    best=TRUTH,
    best_label="true value",
    steps_per_episode=0.1 * 20 + 0.9 * 2,
    smoke=Size(seeds=2, episodes=2_000, exponents=(-4, -8)),
    published=(
        Published("sarsa-0", "exponent", -5, "Table 2"),
        Published("sarsa-1", "exponent", -11, "Table 2"),
        Published("chunked", "exponent", -8, "Table 2"),
    ),
    references=("Figure 4 (to 100,000 episodes)", "Figure 6 (to 1,000,000 episodes)", "Table 2"),
    deviations=(
        "The paper selects the step size with the least squared error of ΔQ without saying over what it is averaged; "
        "we take the mean over seeds of (ΔQ − 0.01)².",
        "The 101 rewards are evenly spaced on [−1, 1]; the paper says only that they lie in that range and "
        "average zero.",
        "Every step size runs for 1,000,000 episodes, not only the selected ones.",
    ),
)
