"""A protocol is a length of the corridor; one more has apples that always pay the same."""

from __future__ import annotations

from typing import Any

from chunked_td.envs.linear_key_to_door.dynamics import APPLES, linear_key_to_door
from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study, misses_and_returns
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.planning.base import ExpectedError
from chunked_td.learners.schedule import Schedule

LENGTHS = (23, 43, 63, 83, 103)
EPISODES, LAST = 10_000, 1_000
CHOOSING, JUDGED = 6, 14
"""Seeds on which step sizes are chosen; seeds after them, which are scored."""
APPLE_SEED = 2022
FALLING, ALWAYS, GRADIENT = "ε falling", "ε = 0.1", "policy gradient"
FIXED = ("fixed-0", "fixed-0.5", "fixed-0.9", "fixed-1")
RULE = "rule"

_VALUE_ARMS: dict[str, tuple[str, Any, str | None, dict[str, Any]]] = {
    **{name: (f"λ = {name[6:]}", float(name[6:]), None, {}) for name in FIXED},
    "chunked": ("Chunked (the paper)", "ForwardLambda", "counts", {}),
    "expected": ("Expected λ", "ExpectedLambda", "counts", {}),
    "lineage": ("Lineage", 1.0, None, {"view": Lineage(prior=1.0)}),
    RULE: ("Lineage, half expected errors (the rule)", 1.0, None,
           {"view": Lineage(prior=1.0), "reward_source": ExpectedError(0.5)}),
}  # fmt: skip
_FORMS = {"reinforce": ("REINFORCE", "none"), "state": ("Hindsight, state form", "state"),
          "reward": ("COCOA, reward form", "reward")}  # fmt: skip


def arms_of(length: int) -> tuple[Arm, ...]:
    """All arms; the reward of entropy depends on the length."""
    found, entropy = [], 0.03 * (20 / max(length - 3, 1)) ** 0.68260619448
    for way, more in ((FALLING, {}), (ALWAYS, {"epsilon": 0.1})):
        for name, (label, source, model, options) in _VALUE_ARMS.items():
            if way == ALWAYS and name in ("lineage", "expected"):
                continue
            arm = name if way == FALLING else f"{name}-always"
            found.append(
                Arm(arm, label, "expected_sarsa", source, model, in_paper=False, options={**options, **more}, group=way)
            )
    for name, (label, form) in _FORMS.items():
        found.append(
            Arm(name, label, "policy_gradient", 0.0, exponents=tuple(range(2, -6, -1)), in_paper=False,
                options={"form": form, "entropy": entropy}, group=GRADIENT)
        )  # fmt: skip
    return tuple(found)


ARMS = arms_of(LENGTHS[0])


class Corridor:
    """Builds the problem of a protocol."""

    @staticmethod
    def make(length: int, sure: bool = False) -> Any:
        """The table. Args: sure: whether an apple always pays 0.5."""
        return linear_key_to_door(length, seed=APPLE_SEED, worth=(0.5,) if sure else APPLES)


def protocol_of(length: int, sure: bool = False, episodes: int = EPISODES) -> Protocol:
    """The protocol of one length."""
    seeds, before = CHOOSING + JUDGED, episodes - min(LAST, episodes // 2)
    return Protocol(
        id=f"linear-key-to-door-{length}{'-sure' if sure else ''}",
        title=f"Linear key-to-door, L = {length}{', apples that always pay the same' if sure else ''}",
        environment=Environment(
            "chunked_td.lab.studies.linear_key_to_door.protocol:Corridor", {"length": length, "sure": sure}
        ),
        arms=tuple(arm for arm in arms_of(length) if not (sure and arm.group == GRADIENT)),
        exponents=tuple(range(-1, -9, -1)),
        episodes=episodes,
        scoring=misses_and_returns,
        score_label="episodes without treasure",
        smoke=Size(seeds=2, episodes=episodes, exponents=(-3,)),
        record=((before, before), (episodes, episodes - before)),
        exploration=Schedule(((0, 1.0), (2_000, 0.0))),
        seeds=seeds,
        seeds_per_batch=seeds,
        step_size_base=1.0,
        steps_per_episode=float(length),
        runner="chunked_td.lab.studies.linear_key_to_door.gradients:learned_runs",
    )


def protocols(profile: str) -> list[Protocol]:
    """All lengths and the control; two short corridors of few episodes where the profile is not "paper"."""
    if profile != "paper":
        return [protocol_of(length, episodes=40) for length in (5, 6)]
    return [*(protocol_of(length) for length in LENGTHS), protocol_of(LENGTHS[0], sure=True)]


STUDY = Study(
    "linear-key-to-door",
    "The linear key-to-door of the COCOA paper",
    protocols,
    order=67,
    table="runs.parquet",
    by_default=False,
)
