"""The atlas as protocols of the lab: one per problem, one arm per method. So it is stored, resumed and sent to Ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chunked_td.lab.atlas.methods import Method
from chunked_td.lab.atlas.problems import CHOICE, FAMILIES, PREDICTION, Family
from chunked_td.lab.atlas.scoring import Accuracy, mean_return, right_choices
from chunked_td.lab.study import Arm, Environment, Protocol, Size


@dataclass(frozen=True)
class AtlasProfile:
    """How much of the atlas runs.

    Args:
      seeds: per method, step size and problem.
      exponents: step sizes 2^j.
      middle_only: only the middle position of every dial, no controls, and the methods marked `quick`.
      families: ids of families; all if None.
    """

    seeds: int
    exponents: tuple[int, ...]
    middle_only: bool = False
    families: tuple[str, ...] | None = None


PROFILES = {
    "quick": AtlasProfile(seeds=5, exponents=(0, -2, -4, -6), middle_only=True),
    "full": AtlasProfile(seeds=30, exponents=tuple(range(0, -12, -1))),
}


@dataclass(frozen=True)
class ProblemKey:
    """A problem of the atlas: a family, a position of its dial, and whether it is the control."""

    family: str
    setting: Any
    control: bool = False

    @property
    def id(self) -> str:
        """Id of its protocol."""
        return f"atlas-{self.family}-{self.setting}{'-control' if self.control else ''}"

    @property
    def name(self) -> str:
        """For tables: the family and the position of the dial."""
        family = FAMILIES[self.family]
        return f"{family.title}, {family.dial} {self.setting}{', control' if self.control else ''}"


class AtlasProblem:
    """Builds the problem of a protocol."""

    @staticmethod
    def make(family: str, setting: Any, control: bool) -> Any:
        """The transition table."""
        return FAMILIES[family].problem(setting, control=control)


def problems(profile: AtlasProfile) -> list[ProblemKey]:
    """The problems that a profile runs."""
    chosen = [family for family in FAMILIES.values() if profile.families is None or family.id in profile.families]
    keys = []
    for family in chosen:
        settings = family.settings[1:2] if profile.middle_only else family.settings
        keys += [ProblemKey(family.id, setting) for setting in settings]
        if family.control_for and not profile.middle_only:
            keys += [ProblemKey(family.id, setting, control=True) for setting in settings]
    return keys


def protocol_of(key: ProblemKey, methods: Sequence[Method], profile: AtlasProfile) -> Protocol:
    """The protocol of one problem."""
    family = FAMILIES[key.family]
    there = [method for method in methods if method.families is None or family.id in method.families]
    every = max(1, family.episodes // 8)
    return Protocol(
        id=key.id,
        title=key.name,
        environment=Environment(
            "chunked_td.lab.atlas.protocols:AtlasProblem",
            {"family": key.family, "setting": key.setting, "control": key.control},
        ),
        arms=tuple(_arm(method) for method in there if method.on_controls or not key.control),
        exponents=profile.exponents,
        episodes=family.episodes,
        scoring=_scoring(key, family),
        score_label="score",
        smoke=Size(seeds=1, episodes=every, exponents=profile.exponents[1:2]),
        record=((family.episodes, every),),
        exploration=1.0 if family.task == PREDICTION else family.epsilon,
        discount=family.discount,
        probes=family.pairs(key.setting) if family.task == PREDICTION else (),
        seeds=profile.seeds,
        seeds_per_batch=profile.seeds,
        step_size_base=1.0,
        steps_per_episode=20.0,
    )


def _scoring(key: ProblemKey, family: Family) -> Any:
    if family.task == PREDICTION:
        return Accuracy(key.family, key.setting)
    return right_choices if family.task == CHOICE else mean_return


def _arm(method: Method) -> Arm:
    return Arm(
        method.id,
        method.label,
        method.learner,
        method.lambda_source,
        method.model,
        method.exponents,
        in_paper=False,
        options={"view": "traces", **method.options},
    )
