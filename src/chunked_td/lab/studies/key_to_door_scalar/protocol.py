"""Protocol of Key-to-Door from the scalar reward, ours: the decomposition of the reward is learned.

Alg. 4 is told one reward per state component. Here the environment pays their sum, and `LearnedComponents` divides it
by least squares. Everything else is the paper's (App. A.3), with counts as the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chunked_td.lab.studies.key_to_door.protocol import PROTOCOL as ORIGINAL
from chunked_td.lab.study import Arm, Environment, Size

ORDER = 45
RIDGE = 0.01
EXPONENTS = (0, -1, -2)
SHIFT = 4  # moves every coin's reward to the λ of a component that is no coin


def simulate_rewards(dynamics: Any, *, division: str = "none", ridge: float = RIDGE, **settings: Any) -> Any:
    """`simulate`, with a choice of what is known about the reward.

    Args:
      division: "none": one number. "given": one number per state component, as in the paper. "learned": one number,
        divided by `LearnedComponents`. "shifted": the same, but part i has the λ of component i + SHIFT (modulo c).
      ridge: of `LearnedComponents`.
    """
    from chunked_td.lambdas import FactoredLambda
    from chunked_td.learners.learned_components import LearnedComponents
    from chunked_td.simulation.simulate import simulate

    if division in ("learned", "shifted"):
        settings["reward_source"] = LearnedComponents(ridge)
    if division == "shifted":
        c = len(dynamics.nvec)
        shifted = ((i + SHIFT) % c for i in range(c))
        settings["lambda_source"] = FactoredLambda(components=(*shifted, tuple(range(c))))
    return simulate(dynamics._replace(scalar_reward=division != "given"), **settings)


def _factored(
    arm_id: str, label: str, division: str, note: str, exponents: tuple[int, ...] = EXPONENTS, **options: Any
) -> Arm:
    return Arm(
        arm_id,
        label,
        "expected_sarsa",
        "FactoredLambda",
        "counts",
        exponents,
        in_paper=False,
        note=note,
        options={"division": division, **options},
    )


ARMS = (
    Arm("expected-sarsa-1", "Expected-SARSA(1)", "expected_sarsa", 1.0, exponents=(-2, -3, -4), in_paper=False),
    Arm("c-default", "C-default", "expected_sarsa", "ForwardLambda", "counts", in_paper=False),
    _factored("c-factored", "C-factored, reward given in parts", "given", "The paper's method, with counts."),
    _factored("c-learned", "C-factored, parts learned", "learned", "From the scalar reward.", ridge=RIDGE),
    _factored("c-shifted", "C-factored, parts learned, λ shifted", "shifted",
              "A control: the same parts, each with the λ of another component, at the middle step size.",
              exponents=(-1,), ridge=RIDGE),
)  # fmt: skip

PROTOCOL = replace(
    ORIGINAL,
    id="key-to-door-scalar",
    title="Key-to-Door from the scalar reward",
    description=(
        "Key-to-Door, but the reward is one number: the sum of what the coins and the treasure pay. A learner that is "
        "to give every state component a λ of its own has to find out which part of the reward belongs to which."
    ),
    environment=Environment(
        "chunked_td.envs.dynamics:KeyToDoor", {"horizon": 100, "distractors": 4, "scalar_reward": True}
    ),
    arms=ARMS,
    exponents=EXPONENTS,
    seeds=30,
    runner=simulate_rewards,
    network_quick=None,
    published=(),
    references=(),
    smoke=Size(seeds=2, episodes=60, exponents=(-1,)),
    quick=Size(seeds=2, episodes=5_000, exponents=(-1,)),
    deviations=(
        "An experiment of ours: the paper does not have it.",
        "Counts instead of a network, and 30 seeds.",
        "The step sizes were chosen after a trial with seeds 0 to 3, which these runs contain.",
    ),
)
