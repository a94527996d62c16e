"""Three scores as protocols: one per problem and behaviour, with any arms.

Design families are those of the atlas on which rules may be designed. Held-out families stand in `held_out.py`
(FAMILIES, a tuple of `Family`); whoever designs a rule must not have seen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chunked_td.lab.errors import UsageError
from chunked_td.lab.identity import is_ours, source_hash
from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study

if TYPE_CHECKING:
    from chunked_td.lab.studies.atlas.families import Family
    from chunked_td.lab.studies.three_scores.runner import ScoredProblem

BEHAVIOURS = ("given", "bonus", "greedy")
"""Ids of the behaviours that are run (`runner`). Stored runs have a fourth, "error-bonus"."""
EXPONENTS = tuple(range(0, -9, -1))


def all_families() -> dict[str, Family]:
    """Every family by id: the atlas's, and those of `held_out`."""
    from chunked_td.lab.studies.atlas.families import FAMILIES
    from chunked_td.lab.studies.three_scores.held_out import FAMILIES as HELD_OUT

    return {**FAMILIES, **{family.id: family for family in HELD_OUT}}


def families(held_out: bool) -> dict[str, Family]:
    """The families of one kind, by id; without those that the first atlas held out, and ran."""
    from chunked_td.lab.studies.atlas.families import FAMILIES

    return {
        name: family
        for name, family in all_families().items()
        if family.held_out == held_out and not (held_out and name in FAMILIES)
    }


def family_called(name: str) -> Family:
    """The family with this id."""
    if (found := all_families().get(name)) is None:
        raise UsageError(f"--families: the runs hold the family {name!r}, which is not of this package; name its file")
    return found


class CreditProblem:
    """Builds the problem of a protocol."""

    @staticmethod
    @lru_cache(maxsize=4)
    def make(family: str, setting: Any, source: str = "") -> ScoredProblem:
        """The prepared problem. Args: source: a hash of the code of a family that is not of this package."""
        from chunked_td.lab.studies.three_scores.problems import prepare
        from chunked_td.lab.studies.three_scores.runner import ScoredProblem

        found = family_called(family)
        table = found.problem(setting)
        return ScoredProblem(table, prepare(table, found.discount))


@dataclass(frozen=True)
class ScoreSize:
    """How much is run: seeds, step sizes 2^j, and whether of every family only the middle position of its dial."""

    seeds: int
    exponents: tuple[int, ...] = EXPONENTS
    middle_only: bool = False


def problem_id(family: str, setting: Any, behaviour: str) -> str:
    """Id of a protocol."""
    return f"three-scores-{family}-{setting}-{behaviour}"


def protocol_of(family: Family, setting: Any, behaviour: str, arms: Sequence[Arm], size: ScoreSize) -> Protocol:
    """The protocol of one problem and behaviour."""
    from chunked_td.lab.studies.three_scores.runner import ScoreRunner

    own = {} if is_ours(family.make) else {"source": source_hash(family.make)}
    return Protocol(
        id=problem_id(family.id, setting, behaviour),
        title=f"{family.title}, {family.dial} {setting}, {behaviour}",
        environment=Environment(
            "chunked_td.lab.studies.three_scores.protocol:CreditProblem",
            {"family": family.id, "setting": setting, **own},
        ),
        arms=tuple(arms),
        exponents=size.exponents,
        episodes=family.episodes,
        scoring="",
        score_label="minus the error of Q" if behaviour == "given" else "mean discounted return",
        smoke=Size(seeds=2, episodes=family.episodes // 20, exponents=(-2,)),
        record=((family.episodes, family.episodes),),
        exploration=0.1 if family.task == "prediction" else family.epsilon,
        discount=family.discount,
        seeds=size.seeds,
        seeds_per_batch=size.seeds,
        step_size_base=1.0,
        steps_per_episode=20.0,
        runner=ScoreRunner(behaviour),
    )


def score_protocols(
    chosen: Sequence[Family], arms: Sequence[Arm], size: ScoreSize, behaviours: Sequence[str] = BEHAVIOURS[:2]
) -> list[Protocol]:
    """Protocols of some families."""
    return [
        protocol_of(family, setting, behaviour, arms, size)
        for family in chosen
        for setting in (family.settings[1:2] if size.middle_only else family.settings)
        for behaviour in behaviours
    ]


def protocols(profile: str) -> list[Protocol]:
    """The registered comparison: all problems; the middle ones in the quick profile, one in the smallest."""
    from chunked_td.lab.studies.three_scores.methods import ARMS

    chosen, arms = [*families(False).values(), *families(True).values()], list(ARMS.values())
    if profile == "paper":
        return score_protocols(chosen, arms, ScoreSize(100), BEHAVIOURS)
    seeds, chosen = (10, chosen) if profile == "quick" else (4, chosen[:1])
    return score_protocols(chosen, arms, ScoreSize(seeds, EXPONENTS[::2], middle_only=True))


STUDY = Study(
    "three-scores",
    "Credit with exploration held equal",
    protocols,
    order=60,
    table="runs.parquet",
    page="tables/held-out.md",
    by_default=False,
)
