"""A protocol as a manifest holds it and a report reads it: plain values, no code.

`describe(protocol)` makes a `Description`; `to_json` and `from_json` carry it through a run directory's manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from chunked_td.lab.identity import check_id, schedule_parts
from chunked_td.lab.json_fields import JsonObject, is_number, is_whole
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
        read = JsonObject("an arm", values, [field.name for field in fields(cls)])
        return cls(
            id=check_id("id of an arm", read.text("id")),
            label=read.text("label"),
            kind=read.text("kind"),
            learner=read.text("learner"),
            lambda_source=read.text("lambda_source"),
            exponents=read.wholes("exponents"),
            in_paper=read.flag("in_paper"),
            note=read.text("note"),
        )


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

    def published_number(self, arm_id: str, quantity: str) -> Published | None:
        """The paper's number for an arm, if there is one."""
        return next((p for p in self.published if p.arm == arm_id and p.quantity == quantity), None)

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
        read = JsonObject("a description", values, [field.name for field in fields(cls)])
        selection = None if read.values["selection"] is None else _selection(read.object("selection"))
        return cls(
            id=check_id("id of an experiment", read.text("id")),
            title=read.text("title"),
            description=read.text("description"),
            environment=read.text("environment"),
            arguments=read.object("arguments"),
            arms=read.items("arms", ArmDescription.from_json),
            exponents=read.wholes("exponents"),
            step_size_base=read.number("step_size_base"),
            seeds=read.whole("seeds", 1),
            episodes=read.whole("episodes", 1),
            exploration=_schedule(read.object("exploration")),
            score_label=read.text("score_label"),
            selection=selection,
            best=read.number_or_none("best"),
            best_label=read.text("best_label"),
            published=read.items("published", _published),
            deviations=read.texts("deviations"),
            references=read.texts("references"),
        )


def describe(protocol: Protocol) -> Description:
    """The description of a protocol."""
    return Description(
        id=protocol.id,
        title=protocol.title,
        description=protocol.description,
        environment=str(protocol.environment.dynamics),
        arguments=dict(protocol.environment.arguments),
        arms=tuple(describe_arm(protocol, arm) for arm in protocol.arms),
        exponents=protocol.exponents,
        step_size_base=protocol.step_size_base,
        seeds=protocol.seeds,
        episodes=protocol.episodes,
        exploration=protocol.schedule,
        score_label=protocol.score_label,
        selection=protocol.selection,
        best=protocol.best,
        best_label=protocol.best_label,
        published=protocol.published,
        deviations=protocol.deviations,
        references=protocol.references,
    )


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
    read = JsonObject("selection", values, [field.name for field in fields(Selection)])
    exceptions = JsonObject("exceptions", read.object("exceptions"))
    return Selection(
        rule=read.text("rule"),
        at=read.whole_or_none("at"),
        truth=read.number_or_none("truth"),
        exceptions={arm: exceptions.whole(arm, 1) for arm in exceptions.values},
    )


def _published(values: Any) -> Published:
    read = JsonObject("a published number", values, [field.name for field in fields(Published)])
    return Published(
        arm=read.text("arm"),
        quantity=read.text("quantity"),
        value=read.number("value"),
        source=read.text("source"),
        spread=read.number_or_none("spread"),
    )
