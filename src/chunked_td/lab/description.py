"""A protocol as a manifest holds it and a report reads it: plain values, no code.

`describe(protocol)` makes a `Description`; `to_json` and `from_json` carry it through a run directory's manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from chunked_td.lab.identity import check_id, schedule_parts
from chunked_td.lab.json_fields import JsonObject, is_number, is_whole, read_fields
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

    @classmethod
    def from_json(cls, values: Any) -> ArmDescription:
        """Read it from a manifest."""
        return read_fields(cls, "an arm", values, id=lambda read: check_id("id of an arm", read.text("id")))


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
        return read_fields(
            cls,
            "a description",
            values,
            id=lambda read: check_id("id of an experiment", read.text("id")),
            arms=lambda read: read.items("arms", ArmDescription.from_json),
            seeds=lambda read: read.whole("seeds", 1),
            episodes=lambda read: read.whole("episodes", 1),
            exploration=lambda read: _schedule(read.object("exploration")),
            selection=lambda read: None if read.values["selection"] is None else _selection(read.object("selection")),
            published=lambda read: read.items("published", lambda v: read_fields(Published, "a published number", v)),
        )


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


def _schedule(values: Mapping[str, Any]) -> Schedule:
    if "points" in values:
        read = JsonObject("exploration", values, ("points", "hold"))
        return Schedule(read.items("points", _point), read.flag("hold"))
    read = JsonObject("exploration", values, ("first", "last", "hold", "anneal"))
    first, last, hold, anneal = (
        read.number("first"),
        read.number("last"),
        read.whole("hold", 0),
        read.whole("anneal", 0),
    )
    points = [(0, first)]
    if anneal:
        points += [(hold, first)] if hold else []
        points.append((hold + anneal, last))
    elif hold:
        points.append((hold, last))
    elif first != last:
        points = [(0, last)]
    return Schedule(tuple(points), hold=bool(hold and not anneal))


def _point(value: Any) -> tuple[int, float]:
    if isinstance(value, list) and len(value) == 2 and is_whole(value[0]) and is_number(value[1]):
        return value[0], value[1]
    raise ValueError(f"each of points of exploration must be [episode, number], got {value!r}")


def _selection(values: Mapping[str, Any]) -> Selection:
    def exceptions(read: JsonObject) -> dict[str, int]:
        by_arm = JsonObject("exceptions", read.object("exceptions"))
        return {arm: by_arm.whole(arm, 1) for arm in by_arm.values}

    return read_fields(Selection, "selection", values, exceptions=exceptions)
