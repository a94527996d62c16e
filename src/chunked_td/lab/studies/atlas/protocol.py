"""The first atlas: every way of assigning credit on families of problems with dials, acting ε-greedily.

One protocol per problem. Its scores mix exploration with credit; `chunked-td atlas` takes three scores instead (`run`),
and `chunked-td reproduce atlas` runs this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chunked_td.lab.identity import is_ours, source_hash
from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study

if TYPE_CHECKING:
    from chunked_td.lab.studies.atlas.families import Family


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
        family = _families()[self.family]
        return f"{family.title}, {family.dial} {self.setting}{', control' if self.control else ''}"


def _families() -> dict[str, Family]:
    """Every family; imported when it is needed, so that listing studies stays fast."""
    from chunked_td.lab.studies.atlas.families import FAMILIES

    return FAMILIES


class AtlasProblem:
    """Builds the problem of a protocol."""

    @staticmethod
    def make(family: str, setting: Any, control: bool, source: str = "") -> Any:
        """The transition table. Args: source: a hash of the code of a family that is not of this package."""
        return _families()[family].problem(setting, control=control)


def problems(profile: AtlasProfile) -> list[ProblemKey]:
    """The problems that a profile runs."""
    chosen = [family for family in _families().values() if profile.families is None or family.id in profile.families]
    keys = []
    for family in chosen:
        settings = family.settings[1:2] if profile.middle_only else family.settings
        keys += [ProblemKey(family.id, setting) for setting in settings]
        if family.control_for and not profile.middle_only:
            keys += [ProblemKey(family.id, setting, control=True) for setting in settings]
    return keys


def protocol_of(key: ProblemKey, methods: Sequence[Arm], profile: AtlasProfile) -> Protocol:
    """The protocol of one problem."""
    from chunked_td.lab.studies.atlas.families import PREDICTION
    from chunked_td.lab.studies.atlas.methods import on_traces, runs_on

    family = _families()[key.family]
    every = max(1, family.episodes // 8)
    own = {} if is_ours(family.make) else {"source": source_hash(family.make)}
    return Protocol(
        id=key.id,
        title=key.name,
        environment=Environment(
            "chunked_td.lab.atlas.protocols:AtlasProblem",
            {"family": key.family, "setting": key.setting, "control": key.control, **own},
        ),
        arms=tuple(on_traces(arm) for arm in methods if runs_on(arm, key.family, key.control)),
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
    from chunked_td.lab.studies.atlas.families import CHOICE, PREDICTION
    from chunked_td.lab.studies.atlas.scoring import Accuracy, mean_return, right_choices

    if family.task == PREDICTION:
        return Accuracy(key.family, key.setting)
    return right_choices if family.task == CHOICE else mean_return


def protocols(profile: str) -> list[Protocol]:
    """The protocols of a profile of `chunked-td reproduce`."""
    from chunked_td.lab.studies.atlas.methods import builtin_methods

    size = PROFILES["full" if profile == "paper" else "quick"]
    methods = [arm for arm in builtin_methods() if arm.quick or not size.middle_only]
    return [protocol_of(key, methods, size) for key in problems(size)]


STUDY = Study(
    "atlas", "The first atlas: which method where", protocols, order=100, table="scores.parquet", page="atlas.html"
)
