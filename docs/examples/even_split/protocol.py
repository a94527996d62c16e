"""The split with equal chances: both outcomes have probability ½, so the paper's λ should be unbiased."""

import numpy as np

from chunked_td.lab.study import Arm, Environment, Protocol, Selection, Size

ORDER = 100
TRUTH = 5.0


def start_value(runs, record_at: np.ndarray) -> dict[str, np.ndarray]:
    """V(s₀), from the probe of the start state."""
    return {"score": np.asarray(runs.probes_at)[..., 0]}


PROTOCOL = Protocol(
    id="even-split",
    title="Even split",
    description="A certain step, then a branch: 0 or 10 with equal chances, so V(s₀) = 5.",
    environment=Environment("chunked_td.envs.dynamics:SkewedSplit", {"probability": 0.5, "reward": 10.0}),
    arms=(
        Arm("td-0", "TD(0)", "td", 0.0, in_paper=False),
        Arm("td-1", "TD(1)", "td", 1.0, in_paper=False),
        Arm("chunked", "Chunked-TD", "td", "ForwardLambda", "counts", in_paper=False),
    ),
    exponents=(-3, -5),
    episodes=5_000,
    record=((5_000, 250),),
    probes=((0, 0),),
    scoring=start_value,
    score_label="V(s₀)",
    selection=Selection("least squared error", truth=TRUTH),
    best=TRUTH,
    best_label="true value",
    steps_per_episode=2,
    smoke=Size(seeds=2, episodes=250, exponents=(-3,)),
)
