"""Protocol of the two signs of Accumulated-Charge: every method on both, with the same random numbers."""

from __future__ import annotations

from typing import Any

from chunked_td.lab.studies.charge_signs.tilted import TiltedLambda
from chunked_td.lab.study import Arm, Environment, Protocol, Selection, Size, misses_and_returns
from chunked_td.learners.schedule import Schedule

ORDER = 35
MIRRORED = "-mirrored"
EXPLORED, EPISODES = 1_000, 2_000
BEST = 0.5 * EXPLORED + 0.05 * (EPISODES - EXPLORED)
WORST = 0.5 * EXPLORED + 0.95 * (EPISODES - EXPLORED)


def simulate_sign(dynamics: Any, *, mirrored: bool = False, **settings: Any) -> Any:
    """`simulate`, on the problem or on its mirror image."""
    from chunked_td.simulation.simulate import simulate

    return simulate(dynamics._replace(slope=-dynamics.slope if mirrored else dynamics.slope), **settings)


def _both(name: str, label: str, source: Any, model: str | None = None, note: str = "", **options: Any) -> list[Arm]:
    """A method on both signs."""
    plain = Arm(name, label, "sarsa", source, model, in_paper=False, note=note, options=options)
    turned = Arm(
        f"{name}{MIRRORED}",
        f"{label}, mirrored",
        "sarsa",
        source,
        model,
        in_paper=False,
        options={**options, "mirrored": True},
    )
    return [plain, turned]


ARMS = (
    *_both("fixed", "SARSA(1)", 1.0),
    *_both("tilted", "tilted λ", TiltedLambda(), note="The paper's λ, from a stand-in for the network."),
    *_both("expected", "tilted expected λ", TiltedLambda(expected=True), note="λ that knows no outcome."),
    *_both("averaged", "tilted λ, 1/n", TiltedLambda(), note="Step sizes of 1/n.", view="averaged"),
    *_both("first", "tilted λ, 1/n, λ = 1 at first", TiltedLambda(trial=1),
           note="And λ = 1 on the first visit of a state, which has no value yet.", view="averaged"),
    *_both("five", "tilted λ, 1/n, λ = 1 five times", TiltedLambda(trial=5),
           note="The same for the first five visits.", view="averaged"),
    *_both("five-constant", "tilted λ, λ = 1 five times", TiltedLambda(trial=5),
           note="The same with a constant step size."),
    *_both("n-over-n", "TD(n/n)", "BackwardLambda", "counts", note="The backward model's λ with step sizes of 1/n.",
           view="averaged"),
    *_both("tdc", "TDC", "BackwardLambda", "counts",
           note="The same with values that past targets used brought up to date.", view="corrected"),
)  # fmt: skip

PROTOCOL = Protocol(
    id="charge-signs",
    title="The two signs of Accumulated-Charge",
    description=(
        "Accumulated-Charge and its mirror image, with a stand-in for the network: its λ is 0.975 on quiet steps with "
        "a high charge, 0.94 on those with a low one and 0.015 on charging steps, as was measured in the networks. An "
        "unbiased learner does as well on both. Which changes of the learner remove the difference? The first 1,000 "
        "episodes explore, as in the paper; 1,000 more show what was learned."
    ),
    environment=Environment(
        "chunked_td.envs.dynamics:AccumulatedCharge", {"horizon": 200, "points": 10, "success": 0.5, "bonus": 0.1}
    ),
    arms=ARMS,
    exponents=(-1, -4, -7),
    episodes=EPISODES,
    record=((EPISODES, 100),),
    exploration=Schedule(((0, 1.0), (EXPLORED, 0.1)), hold=True),
    scoring=misses_and_returns,
    score_label="regretful choices",
    selection=Selection("least mean"),
    seeds=150,
    seeds_per_batch=50,
    best=BEST,
    best_label="best possible under the exploration scheme",
    steps_per_episode=200,
    runner=simulate_sign,
    smoke=Size(seeds=2, episodes=40, exponents=(-4,)),
    quick=Size(seeds=10, episodes=EPISODES, exponents=(-4,)),
    deviations=(
        "An experiment of ours: the paper does not have it.",
        "A stand-in for the network, and 2,000 episodes in place of 10,000.",
        "Which methods to try was settled in a trial with other code and other random numbers.",
    ),
)
