"""Three scores as protocols: one per problem and behaviour, with any arms.

Families are those of the atlas on which rules may be designed, and those held out from design.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from chunked_td.lab.studies.atlas.families import PREDICTION, Family, families, family_called
from chunked_td.lab.studies.atlas.families.family import FamilySize, family_protocol
from chunked_td.lab.studies.three_scores.methods import ARMS
from chunked_td.lab.study import Arm, Protocol, Size, Study

BEHAVIOURS = ("given", "bonus", "greedy")
"""Ids of the behaviours that are run (`runner`). Stored runs have a fourth, "error-bonus"."""
EXPONENTS = tuple(range(0, -9, -1))


class CreditProblem:
    """Builds the problem of a protocol."""

    @staticmethod
    @lru_cache(maxsize=4)
    def make(family: str, setting: Any, source: str = "") -> Any:
        """The prepared problem. Args: source: a hash of the code of a family that is not of this package."""
        from chunked_td.lab.studies.three_scores.runner import ScoredProblem, prepare

        found = family_called(family)
        table = found.problem(setting)
        return ScoredProblem(table, prepare(table, found.discount))


def problem_id(family: str, setting: Any, behaviour: str) -> str:
    """Id of a protocol."""
    return f"three-scores-{family}-{setting}-{behaviour}"


def protocol_of(family: Family, setting: Any, behaviour: str, arms: Sequence[Arm], size: FamilySize) -> Protocol:
    """The protocol of one problem and behaviour."""
    from chunked_td.lab.studies.three_scores.runner import ScoreRunner

    return family_protocol(
        family,
        size,
        "chunked_td.lab.studies.three_scores.protocol:CreditProblem",
        {"setting": setting},
        id=problem_id(family.id, setting, behaviour),
        title=f"{family.title}, {family.dial} {setting}, {behaviour}",
        arms=tuple(arms),
        scoring="",
        score_label="minus the error of Q" if behaviour == "given" else "mean discounted return",
        smoke=Size(seeds=2, episodes=family.episodes // 20, exponents=(-2,)),
        record=((family.episodes, family.episodes),),
        exploration=0.1 if family.task == PREDICTION else family.epsilon,
        runner=ScoreRunner(behaviour),
    )


def score_protocols(
    chosen: Sequence[Family], arms: Sequence[Arm], size: FamilySize, behaviours: Sequence[str] = BEHAVIOURS[:2]
) -> list[Protocol]:
    """Protocols of some families."""
    return [
        protocol_of(family, setting, behaviour, arms, size)
        for family in chosen
        for setting in size.settings(family)
        for behaviour in behaviours
    ]


def protocols(profile: str) -> list[Protocol]:
    """The registered comparison: all problems; the middle ones in the quick profile, one in the smallest."""
    chosen, arms = [*families(False).values(), *families(True).values()], list(ARMS.values())
    if profile == "paper":
        return score_protocols(chosen, arms, FamilySize(100, EXPONENTS), BEHAVIOURS)
    seeds, chosen = (10, chosen) if profile == "quick" else (4, chosen[:1])
    return score_protocols(chosen, arms, FamilySize(seeds, EXPONENTS[::2], middle_only=True))


STUDY = Study(
    "three-scores",
    "Credit with exploration held equal",
    protocols,
    order=60,
    table="runs.parquet",
    page="tables/held-out.md",
    by_default=False,
)
