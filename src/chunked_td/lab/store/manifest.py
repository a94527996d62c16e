"""The manifest of a run directory, `manifest.json`: what was last requested, and descriptions of the protocols.

A report needs nothing else beside the batches. A checksum tells a file that was edited by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from chunked_td.lab.description import Description
from chunked_td.lab.identity import check_id
from chunked_td.lab.json_fields import keyed, read_json
from chunked_td.lab.store.settings import digest_of

FORMAT = 1


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
        if self.episodes < 1:
            raise ValueError(f"episodes of a request must be a whole number from 1, got {self.episodes}")


@dataclass(frozen=True)
class Request:
    """What was requested of one protocol: its description, and the runs per arm id."""

    description: Description
    arms: Mapping[str, ArmRequest]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        arms = {name: {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(arm).items()}
                for name, arm in self.arms.items()}  # fmt: skip
        return {"description": self.description.to_json(), "arms": arms}

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
        values = {"format": FORMAT, "protocols": {name: r.to_json() for name, r in self.protocols.items()}}
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
        found = {}
        for name, value in keyed(values["protocols"], "protocols"):
            found[name] = Request.from_json(value)
            if found[name].description.id != name:
                raise ValueError(f"protocol {name!r} must have its own description, got {found[name].description.id!r}")
        return cls(found)
