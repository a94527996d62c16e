"""Three scores as protocols: one per problem and behaviour, one arm per method.

Design families are those of the atlas on which rules may be designed. Held-out families stand in `held_out.py`
(FAMILIES, a tuple of `Family`); whoever designs a rule must not have seen them.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from chunked_td.lab.study import Arm, BatchRunner, Columns, Environment, Protocol, Size, Study

if TYPE_CHECKING:
    from chunked_td.lab.running.batches import Batch
    from chunked_td.lab.studies.atlas.families import Family
    from chunked_td.lab.studies.three_scores.problems import SolvedProblem

BEHAVIOURS = ("given", "greedy", "bonus", "error-bonus")
"""Ids, in the order of the numbers in `runs`."""
EXPONENTS = tuple(range(0, -9, -1))
HELD_OUT = "chunked_td.lab.studies.three_scores.held_out"


@cache
def families(held_out: bool) -> dict[str, Family]:
    """The families of one kind, by id."""
    from chunked_td.lab.studies.atlas.families import FAMILIES

    if not held_out:
        return {name: family for name, family in FAMILIES.items() if not family.held_out}
    if importlib.util.find_spec(HELD_OUT) is None:
        return {}
    return {family.id: family for family in importlib.import_module(HELD_OUT).FAMILIES}


def family_called(name: str) -> Family:
    """The family with this id."""
    return {**families(False), **families(True)}[name]


class CreditProblem:
    """Builds the problem of a protocol."""

    @staticmethod
    @lru_cache(maxsize=4)
    def make(family: str, setting: Any) -> SolvedProblem:
        """The prepared problem."""
        from chunked_td.lab.studies.three_scores.problems import prepare

        found = family_called(family)
        epsilon = 0.1 if found.task == "prediction" else found.epsilon
        return prepare(found.problem(setting), found.discount, epsilon)


@dataclass(frozen=True)
class CreditRunner(BatchRunner):
    """Runs of `runs`: means over checkpoints where the behaviour is given, else the mean return of all episodes.

    Args: behaviour: an id of `BEHAVIOURS`.
    """

    behaviour: str

    kind = "fixed"

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`."""
        from chunked_td.lab.studies.three_scores.methods import METHODS
        from chunked_td.lab.studies.three_scores.problems import checkpoints
        from chunked_td.lab.studies.three_scores.runs import scores

        found = []
        for batch in program:
            problem, at = batch.protocol.environment.build(), checkpoints(batch.record_at[-1])
            behaviour = BEHAVIOURS.index(self.behaviour)
            each = scores(problem, METHODS[batch.arm.id], behaviour, batch.step_sizes, batch.seeds, at, threads)
            each = each.mean(1, keepdims=True) if self.behaviour == "given" else each[:, -1:]
            found.append(batch.columns({"score": each[:, :, 0], "decision": each[:, :, 1]}))
        return found


def problem_id(family: str, setting: Any, behaviour: str) -> str:
    """Id of a protocol."""
    return f"three-scores-{family}-{setting}-{behaviour}"


def protocol_of(family: Family, setting: Any, behaviour: str, profile: str) -> Protocol:
    """The protocol of one problem and behaviour."""
    from chunked_td.lab.studies.three_scores.methods import FIXED, LABELS, METHODS

    arms = [
        Arm(name, LABELS[name], "expected_sarsa", name, in_paper=False, group="fixed λ" if name in FIXED else "rules")
        for name in METHODS
    ]
    seeds = {"paper": 100, "quick": 10}.get(profile, 4)
    return Protocol(
        id=problem_id(family.id, setting, behaviour),
        title=f"{family.title}, {family.dial} {setting}, {behaviour}",
        environment=Environment(
            "chunked_td.lab.studies.three_scores.protocol:CreditProblem", {"family": family.id, "setting": setting}
        ),
        arms=tuple(arms),
        exponents=EXPONENTS if profile == "paper" else EXPONENTS[::2],
        episodes=family.episodes,
        scoring="",
        score_label="minus the error of Q" if behaviour == "given" else "mean return",
        smoke=Size(seeds=2, episodes=family.episodes // 20, exponents=(-2,)),
        record=((family.episodes, family.episodes),),
        discount=family.discount,
        seeds=seeds,
        seeds_per_batch=seeds,
        step_size_base=1.0,
        steps_per_episode=20.0,
        runner=CreditRunner(behaviour),
    )


def protocols(profile: str) -> list[Protocol]:
    """All problems; the middle setting of every family in the quick profile, one problem in the smallest."""
    behaviours = BEHAVIOURS if profile == "paper" else BEHAVIOURS[:1] + BEHAVIOURS[2:3]
    chosen = [*families(False).values(), *families(True).values()]
    if profile not in ("paper", "quick"):
        chosen = chosen[:1]
    found = []
    for family in chosen:
        settings = family.settings if profile == "paper" else family.settings[1:2]
        found += [protocol_of(family, setting, each, profile) for setting in settings for each in behaviours]
    return found


STUDY = Study(
    "three-scores",
    "Credit with exploration held equal",
    protocols,
    order=60,
    table="runs.parquet",
    page="tables/held-out.md",
    by_default=False,
)
