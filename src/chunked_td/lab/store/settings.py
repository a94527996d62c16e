"""What determines the numbers of a batch, as plain JSON values; its hash names the stored file.

The form of these values is a contract with every stored file: the same settings give the same hash for ever. The part
that describes the code (`family`) is kept as it was written and never interpreted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunked_td.lab.identity import check_id, identity, schedule_text
from chunked_td.lab.json_fields import keyed, read_json
from chunked_td.lab.study import Arm, Columns, Protocol

# Raise this when a change to the algorithms, the environments or the random streams changes results:
# stored batches of the old version are then no longer used.
ALGORITHM_VERSION = 1


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a batch.

    Args:
      family: what `family_of` gives. Batches of one family mean the same by a row.
      pairs: (seed, step-size exponent) of each run.
      episodes: length of each run.
      record_at: checkpoints.
    """

    family: Mapping[str, Any]
    pairs: tuple[tuple[int, int], ...]
    episodes: int
    record_at: tuple[int, ...]

    @property
    def protocol(self) -> str:
        """Id of the protocol."""
        return self.family["protocol"]

    @property
    def arm(self) -> str:
        """Id of the arm."""
        return self.family["arm"]

    @cached_property
    def family_key(self) -> str:
        """Hash of `family`."""
        return digest_of(self.family)

    @cached_property
    def key(self) -> str:
        """Hash of all settings, 64 hexadecimal digits."""
        return digest_of(self.to_json())

    @property
    def name(self) -> str:
        """File name without suffix: a readable part and the beginning of the hash."""
        seeds = [seed for seed, _ in self.pairs]
        return f"{self.arm}-seeds{min(seeds)}to{max(seeds)}-{self.episodes}-{self.key[:16]}"

    def index(self) -> Columns:
        """Seed, exponent and checkpoint of every row of the table: runs × checkpoints."""
        seeds, exponents = np.array(self.pairs, np.int64).T
        record_at = np.array(self.record_at, np.int64)
        rows = {"seed": np.repeat(seeds, record_at.size), "exponent": np.repeat(exponents, record_at.size)}
        return {**rows, "episode": np.tile(record_at, seeds.size)}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        runs = {"pairs": list(map(list, self.pairs)), "episodes": self.episodes, "record_at": list(self.record_at)}
        return {**self.family, **runs}

    @classmethod
    def from_json(cls, values: Any) -> BatchSettings:
        """Read them from a file; ValueError says what is wrong."""
        what = "settings of a batch"
        given = dict(keyed(values, what))
        runs = {name: given.pop(name, None) for name in ("pairs", "episodes", "record_at")}
        for name in ("protocol", "arm"):
            check_id(f"{name} in the {what}", given.get(name))
        found = read_json(cls, {"family": given, **runs}, what)
        if not found.pairs or found.episodes < 1:
            raise ValueError(f"{what} must have pairs and episodes from 1, got {found.pairs} and {found.episodes}")
        return found


def family_of(protocol: Protocol, arm: Arm) -> dict[str, Any]:
    """What determines a run of an arm apart from seed, step size, length and checkpoints, as plain JSON values.

    Code is named as `chunked_td.lab.identity` says.
    """
    options = {name: identity(value) for name, value in arm.options.items()}
    return {
        "version": ALGORITHM_VERSION,
        "protocol": protocol.id,
        "arm": arm.id,
        "environment": identity(protocol.environment.dynamics),
        "arguments": json.loads(json.dumps(dict(protocol.environment.arguments), sort_keys=True)),
        "learner": arm.learner,
        "lambda_source": identity(arm.lambda_source),
        "model": arm.stored_model,
        "step_size_base": protocol.step_size_base,
        "discount": protocol.discount,
        "exploration": schedule_text(protocol.schedule),
        "probes": [list(probe) for probe in protocol.probes],
        "scoring": identity(protocol.scoring),
        "runner": identity(protocol.runner),
        **({"options": options} if options else {}),
        **({"step_sizes": list(protocol.step_sizes)} if protocol.step_sizes else {}),
    }


def digest_of(values: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values in a canonical form."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def digest_columns(columns: Columns) -> str:
    """SHA-256 of names, types and values of a batch's numbers."""
    digest = hashlib.sha256()
    for name in columns:
        values = np.ascontiguousarray(columns[name])
        digest.update(f"{name}:{values.dtype.str}:{values.size};".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
