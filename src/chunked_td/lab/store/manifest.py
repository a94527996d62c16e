"""The manifest of a run directory, `manifest.json`: what was last requested, and descriptions of the protocols.

A report needs nothing else beside the batches: a `Description` has plain values, no code. A checksum tells a file that
was edited by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from chunked_td.lab.identity import check_id, schedule_parts
from chunked_td.lab.json_fields import keyed, read_json
from chunked_td.lab.store.settings import BatchSettings, digest_of
from chunked_td.lab.study import Arm, Protocol, Published, Selection
from chunked_td.learners.schedule import Schedule

FORMAT = 1


def _at_least_one(what: str, **values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} of {what} must be a whole number from 1, got {value}")


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
        _at_least_one("a description", seeds=self.seeds, episodes=self.episodes)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, in the order of the fields."""
        return {**asdict(self), "exploration": schedule_parts(self.exploration) or asdict(self.exploration)}

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
    kind, source, exponents = protocol.kind_of(arm), str(arm.lambda_source), protocol.exponents_of(arm)
    return ArmDescription(arm.id, arm.label, kind, arm.learner, source, exponents, arm.in_paper, arm.note)


def _schedule(values: Any) -> Schedule:
    """A schedule from its points, or from its parts as `schedule_parts` gives them."""
    what = "exploration"
    given = dict(keyed(values, what))
    if "points" in given:
        keyed(values, what, ("points", "hold"))
        points = read_json(tuple[tuple[int, float], ...], given["points"], f"points of {what}")
        return Schedule(points, read_json(bool, given["hold"], f"hold of {what}"))
    keyed(values, what, ("first", "last", "hold", "anneal"))
    first, last = (read_json(float, given[name], f"{name} of {what}") for name in ("first", "last"))
    hold, anneal = (read_json(int, given[name], f"{name} of {what}") for name in ("hold", "anneal"))
    if not hold and not anneal:
        return Schedule(((0, last),))
    middle = ((hold, first),) if hold and anneal else ()
    return Schedule(((0, first), *middle, (hold + anneal, last)), hold=not anneal)


@dataclass(frozen=True)
class ArmRequest:
    """Runs that were requested of one arm.

    Args:
      family: hash of the arm's `BatchSettings.family`.
      seeds, exponents: every combination is one run.
      episodes: length of a run.
      record_at: checkpoints.
    """

    family: str
    seeds: tuple[int, ...]
    exponents: tuple[int, ...]
    episodes: int
    record_at: tuple[int, ...]

    def __post_init__(self):
        _at_least_one("a request", episodes=self.episodes)

    @classmethod
    def of(cls, batch: BatchSettings, before: ArmRequest | None = None) -> ArmRequest:
        """The runs of a batch, beside those requested before, which are as long."""
        old = before or cls(batch.family_key, (), (), batch.episodes, batch.record_at)
        seeds = {*old.seeds, *(seed for seed, _ in batch.pairs)}
        exponents = {*old.exponents, *(exponent for _, exponent in batch.pairs)}
        return replace(old, seeds=tuple(sorted(seeds)), exponents=tuple(sorted(exponents, reverse=True)))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(seed, exponent) of each run."""
        return tuple((seed, exponent) for seed in self.seeds for exponent in self.exponents)


@dataclass(frozen=True)
class Request:
    """What was requested of one protocol: its description, and the runs per arm id."""

    description: Description
    arms: Mapping[str, ArmRequest]

    @classmethod
    def from_json(cls, values: Any) -> Request:
        """Read it from a manifest."""
        for name, _ in keyed(dict(keyed(values, "a protocol")).get("arms", {}), "arms of a protocol"):
            check_id("id of an arm", name)
        return read_json(cls, values, "a protocol", {Description: Description.from_json})


@dataclass(frozen=True)
class Manifest:
    """{protocol id: request}, in the order in which they were first requested."""

    protocols: Mapping[str, Request] = field(default_factory=dict)

    def with_request(self, request: Request) -> Manifest:
        """The manifest with a request added. Arms that it does not name stay as they were requested before."""
        name = request.description.id
        before = self.protocols.get(name)
        arms = {**(before.arms if before else {}), **request.arms}
        return Manifest({**self.protocols, name: Request(request.description, arms)})

    def to_text(self) -> str:
        """The content of the file."""
        protocols = {
            name: {
                "description": request.description.to_json(),
                "arms": {arm: asdict(runs) for arm, runs in request.arms.items()},
            }
            for name, request in self.protocols.items()
        }
        values = {"format": FORMAT, "protocols": protocols}
        return json.dumps({**values, "checksum": digest_of(values)}, indent=1, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Manifest:
        """Read the content of the file; ValueError says what is wrong."""
        values = json.loads(text)
        if not isinstance(values, dict) or not {"checksum", "format", "protocols"} <= values.keys():
            raise ValueError("it must be a JSON object with the keys checksum, format and protocols")
        if values.pop("checksum") != digest_of(values):
            raise ValueError("it was edited: its checksum does not match")
        if values["format"] != FORMAT:
            raise ValueError(f"its format must be {FORMAT}, got {values['format']!r}")
        found = {name: Request.from_json(value) for name, value in keyed(values["protocols"], "protocols")}
        for name, request in found.items():
            if request.description.id != name:
                raise ValueError(f"protocol {name!r} must have its own description, got {request.description.id!r}")
        return cls(found)
