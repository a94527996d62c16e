"""A protocol as a manifest holds it and a report reads it: plain values, no code.

`describe(protocol)` makes a `Description`; `to_json` and `from_json` carry it through a run directory's manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from chunked_td.lab.identity import check_id, schedule_parts
from chunked_td.lab.json_fields import read_json
from chunked_td.lab.study import Arm, Protocol, Published, Selection
from chunked_td.learners.schedule import Schedule


@dataclass(frozen=True)
class ArmDescription:
    """An arm; `lambda_source` is a number or a name, as text, and `kind` is `Arm.kind`."""

    id: str
    label: str
    kind: str
    learner: str
    lambda_source: str
    exponents: tuple[int, ...]
    in_paper: bool
    note: str

    @property
    def fixed_lambda(self) -> float | None:
        """λ of an arm with a constant one."""
        try:
            return float(self.lambda_source)
        except ValueError:
            return None

    def __post_init__(self):
        check_id("id of an arm", self.id)


@dataclass(frozen=True)
class Description:
    """What tables, figures, claims and reports need to know about a protocol. Fields as in `Protocol`."""

    id: str
    title: str
    description: str
    environment: str
    arguments: Mapping[str, Any]
    arms: tuple[ArmDescription, ...]
    exponents: tuple[int, ...]
    step_size_base: float
    seeds: int
    episodes: int
    exploration: Schedule
    score_label: str
    selection: Selection | None
    best: float | None
    best_label: str
    published: tuple[Published, ...]
    deviations: tuple[str, ...]
    references: tuple[str, ...]

    def __post_init__(self):
        check_id("id of an experiment", self.id)
        for name in ("seeds", "episodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of a description must be a whole number from 1, got {getattr(self, name)}")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, in the order of the fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["arguments"] = dict(self.arguments)
        values["arms"] = [{**asdict(arm), "exponents": list(arm.exponents)} for arm in self.arms]
        values["exploration"] = schedule_parts(self.exploration) or {
            "points": [list(point) for point in self.exploration.points],
            "hold": self.exploration.hold,
        }
        values["selection"] = None if self.selection is None else asdict(self.selection)
        values["published"] = [asdict(number) for number in self.published]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_json(cls, values: Any) -> Description:
        """Read it from a manifest; ValueError says what is wrong."""
        return read_json(cls, values, "a description", {Schedule: _schedule})


def describe(protocol: Protocol) -> Description:
    """The description of a protocol."""
    own = {
        "environment": str(protocol.environment.dynamics),
        "arguments": dict(protocol.environment.arguments),
        "arms": tuple(describe_arm(protocol, arm) for arm in protocol.arms),
        "exploration": protocol.schedule,
    }
    names = [field.name for field in fields(Description)]
    return Description(**{name: own[name] if name in own else getattr(protocol, name) for name in names})


def describe_arm(protocol: Protocol, arm: Arm) -> ArmDescription:
    """The description of an arm."""
    return ArmDescription(
        id=arm.id,
        label=arm.label,
        kind=protocol.kind_of(arm),
        learner=arm.learner,
        lambda_source=str(arm.lambda_source),
        exponents=protocol.exponents_of(arm),
        in_paper=arm.in_paper,
        note=arm.note,
    )


@dataclass(frozen=True)
class _Points:
    points: tuple[tuple[int, float], ...]
    hold: bool


@dataclass(frozen=True)
class _Parts:
    """A schedule as `schedule_parts` gives it."""

    first: float
    last: float
    hold: int
    anneal: int


def _schedule(values: Any) -> Schedule:
    if isinstance(values, Mapping) and "points" in values:
        return Schedule(**vars(read_json(_Points, values, "exploration")))
    parts = read_json(_Parts, values, "exploration")
    points = [(0, parts.first)]
    if parts.anneal:
        points += [(parts.hold, parts.first)] if parts.hold else []
        points.append((parts.hold + parts.anneal, parts.last))
    elif parts.hold:
        points.append((parts.hold, parts.last))
    elif parts.first != parts.last:
        points = [(0, parts.last)]
    return Schedule(tuple(points), hold=bool(parts.hold and not parts.anneal))
