"""The first atlas: every way of assigning credit on families of problems with dials, acting ε-greedily.

One protocol per problem. Its scores mix exploration with credit; `chunked-td atlas` takes three scores instead (`run`),
and `chunked-td reproduce atlas` runs this one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from chunked_td.lab.studies.atlas.families import CHOICE, FAMILIES, FIRST, PREDICTION
from chunked_td.lab.studies.atlas.families.family import FamilySize, family_protocol
from chunked_td.lab.studies.atlas.methods import builtin_methods, on_traces, runs_on
from chunked_td.lab.studies.atlas.scoring import Accuracy, mean_return, right_choices
from chunked_td.lab.study import Arm, Protocol, Size, Study

SIZES = {
    "quick": FamilySize(seeds=5, exponents=(0, -2, -4, -6), middle_only=True),
    "full": FamilySize(seeds=30, exponents=tuple(range(0, -12, -1))),
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
    def make(family: str, setting: Any, control: bool, source: str = "") -> Any:
        """The transition table. Args: source: a hash of the code of a family that is not of this package."""
        return FAMILIES[family].problem(setting, control=control)


def problems(size: FamilySize, families: Collection[str] = tuple(FIRST)) -> list[ProblemKey]:
    """The problems of families; controls only where all positions of the dials are run."""
    return [
        ProblemKey(family.id, setting, control)
        for family in (FIRST[name] for name in FIRST if name in families)
        for control in ((False, True) if family.control_for and not size.middle_only else (False,))
        for setting in size.settings(family)
    ]


def protocol_of(key: ProblemKey, methods: Sequence[Arm], size: FamilySize) -> Protocol:
    """The protocol of one problem."""
    family = FAMILIES[key.family]
    every, predicts = max(1, family.episodes // 8), family.task == PREDICTION
    scoring = Accuracy(key.family, key.setting) if predicts else mean_return
    return family_protocol(
        family,
        size,
        "chunked_td.lab.atlas.protocols:AtlasProblem",
        {"setting": key.setting, "control": key.control},
        id=key.id,
        title=key.name,
        arms=tuple(on_traces(arm) for arm in methods if runs_on(arm, key.family, key.control)),
        scoring=right_choices if family.task == CHOICE else scoring,
        score_label="score",
        smoke=Size(seeds=1, episodes=every, exponents=size.exponents[1:2]),
        record=((family.episodes, every),),
        exploration=1.0 if predicts else family.epsilon,
        probes=family.pairs(key.setting) if predicts else (),
    )


def protocols(profile: str) -> list[Protocol]:
    """The protocols of a profile of `chunked-td reproduce`."""
    size = SIZES["full" if profile == "paper" else "quick"]
    methods = [arm for arm in builtin_methods() if arm.quick or not size.middle_only]
    return [protocol_of(key, methods, size) for key in problems(size)]


STUDY = Study(
    "atlas", "The first atlas: which method where", protocols, order=100, table="scores.parquet", page="atlas.html"
)
