"""Finished batches on disk: one Parquet file each, written atomically, named by the hash of its settings.

A run directory holds

    manifest.json                 what was asked for last, per protocol, with a checksum (see `manifest`)
    log.jsonl                     how it was made: one JSON line per session and per batch (see `log`)
    lock, owner.json              the one process that may write (see `lock`)
    batches/PROTOCOL/NAME.parquet one file per finished batch

Schema of a table, the same in every file and in what `Store.table(protocol_id)` returns (a polars DataFrame,
sorted by arm in protocol order, exponent, seed, episode): one row per run and checkpoint.

    column       type     meaning
    arm          String   arm id
    seed         Int64    seed of the run (environment, policy and model streams all come from it)
    exponent     Int64    j of the step size 0.1 × 2^j
    step_size    Float64  the step size
    episode      Int64    checkpoint: this many episodes are done
    score        Float64  the protocol's score at that checkpoint
    …            Float64  further columns of the protocol's scoring

The docs page of each experiment says what its score is.
Network arms add diagnostics (loss, lambda_predictable, lambda_noisy, broken, calibration_…); they are null elsewhere.
The last checkpoint of a run is its length; arms may differ in it (network arms are shorter in the quick profile).

Parquet metadata: "chunked_td" holds {"settings", "key", "rows", "digest"}. Same results, same bytes: no times inside.
A file is good if its footer reads, its key is the hash of its settings, and rows and checksum agree. A file that is
not is reported, left out, and renamed (suffix .damaged) when the directory is open for writing.

Reuse: a request is covered by any good file of the same family (see `BatchSettings`) that is at least as long and has
the checkpoints asked for. So fewer seeds, arms, step sizes or episodes (if a checkpoint is there) are read from what
is stored, and more of them run only what is missing. Runs are not continued: longer ones start from the beginning.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td.lab.errors import LabError
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.manifest import ArmRequest
from chunked_td.lab.store.npz import load_npz
from chunked_td.lab.store.settings import BatchSettings, Columns, digest_columns, digest_of

if TYPE_CHECKING:
    import polars as pl

METADATA_KEY = "chunked_td"
SCHEMA = {"arm": str, "seed": int, "exponent": int, "step_size": float, "episode": int, "score": float}


@dataclass(frozen=True)
class StoredBatch:
    """A good file: where it is, its settings, and what it covers."""

    path: Path
    settings: BatchSettings
    pairs: frozenset[tuple[int, int]]
    record_at: frozenset[int]

    @classmethod
    def at(cls, path: Path, settings: BatchSettings) -> StoredBatch:
        """The batch with these settings in this file."""
        return cls(path, settings, frozenset(settings.pairs), frozenset(settings.record_at))


@dataclass(frozen=True)
class Wanted:
    """Rows of one arm that are asked for: these runs, at these checkpoints."""

    arm: str
    family: str
    pairs: tuple[tuple[int, int], ...]
    episodes: int
    record_at: tuple[int, ...]

    @classmethod
    def from_settings(cls, settings: BatchSettings) -> Wanted:
        """What a batch gives."""
        return cls(settings.arm, settings.family_key, settings.pairs, settings.episodes, settings.record_at)

    @classmethod
    def from_request(cls, arm_id: str, request: ArmRequest) -> Wanted:
        """What an arm's entry in the manifest asks for."""
        pairs = tuple((seed, exponent) for seed in request.seeds for exponent in request.exponents)
        return cls(arm_id, request.family, pairs, request.episodes, request.record_at)


@dataclass
class Damage:
    """A file in the store that cannot be used, and why."""

    path: Path
    reason: str


@dataclass
class Store:
    """The batches of a run directory.

    Args:
      directory: an open `RunDirectory`; a read-only one never changes anything on disk.
    """

    directory: RunDirectory
    damaged: list[Damage] = field(default_factory=list)
    _index: dict[str, list[StoredBatch]] = field(default_factory=dict)

    def __post_init__(self):
        for path in sorted(self.folder.glob("*/*.parquet")):
            try:
                self._remember(inspect_file(path))
            except LabError as error:
                self._set_aside(path, str(error))

    @classmethod
    def read(cls, path: str | Path) -> Store:
        """The store of a run directory, for reading only (no lock taken)."""
        return cls(RunDirectory.for_reading(path))

    @property
    def folder(self) -> Path:
        """Where the Parquet files are."""
        return self.directory.path / "batches"

    def _remember(self, stored: StoredBatch) -> None:
        self._index.setdefault(stored.settings.family_key, []).append(stored)

    def _set_aside(self, path: Path, reason: str) -> None:
        if self.directory.writable:
            path.replace(path.with_suffix(".parquet.damaged"))
        self.damaged.append(Damage(path, reason))

    def report_findings(self) -> None:
        """Tell the user about a previous owner that crashed, and about damaged files."""
        for note in self.directory.notes:
            print(f"note: {note}", file=sys.stderr)
        for damage in self.damaged:
            print(f"damaged: {damage.path}: {damage.reason}; set aside, its runs will be done again", file=sys.stderr)

    def covering(self, wanted: Wanted) -> list[StoredBatch]:
        """Good files of the same family that are long enough and have the checkpoints, in order of name."""
        found = [
            stored
            for stored in self._index.get(wanted.family, ())
            if stored.settings.episodes >= wanted.episodes and stored.record_at.issuperset(wanted.record_at)
        ]
        return sorted(found, key=lambda stored: stored.path.name)

    def missing(self, wanted: Wanted) -> tuple[tuple[int, int], ...]:
        """The (seed, exponent) pairs that no stored file covers, in the order asked."""
        covered: set[tuple[int, int]] = set()
        for stored in self.covering(wanted):
            covered |= stored.pairs
        return tuple(pair for pair in wanted.pairs if pair not in covered)

    def write(self, settings: BatchSettings, columns: Columns) -> Path:
        """Store a finished batch; on return it survives a crash."""
        path = self.folder / settings.protocol / f"{settings.name}.parquet"
        self.directory.write(path, encode(settings, columns))
        self._remember(StoredBatch.at(path, settings))
        return path

    def import_npz(self, path: Path) -> tuple[Path | None, BatchSettings]:
        """Store a result that another host saved with `save_npz`.

        Returns:
          where it is now (None if it was here already), and its settings.
        """
        columns, settings = load_npz(path)
        if any(settings == known.settings for known in self._index.get(settings.family_key, ())):
            return None, settings
        return self.write(settings, columns), settings

    def frame(self, wanted: Sequence[Wanted]) -> pl.DataFrame:
        """Stored rows of exactly these runs and checkpoints; arms in the order given."""
        import polars as pl

        frames = [pl.DataFrame(schema=SCHEMA)]
        for rank, part in enumerate(wanted):
            left = set(part.pairs)
            for stored in self.covering(part):
                found = left & stored.pairs
                left -= found
                if found:
                    pairs = pl.DataFrame(sorted(found), schema=["seed", "exponent"], orient="row")
                    rows = pl.read_parquet(stored.path).filter(pl.col("episode").is_in(part.record_at))
                    rows = rows.join(pairs, on=["seed", "exponent"], how="semi")
                    frames.append(rows.with_columns(pl.lit(rank).alias("__rank")))
        table = pl.concat(frames, how="diagonal")
        if "__rank" not in table.columns:
            return table
        return table.sort("__rank", "exponent", "seed", "episode").drop("__rank")

    def wanted(self, protocol_id: str) -> list[Wanted]:
        """What was last asked for of a protocol, arm by arm."""
        arms = self.directory.request(protocol_id).arms
        return [Wanted.from_request(arm_id, request) for arm_id, request in arms.items()]

    def table(self, protocol_id: str) -> pl.DataFrame:
        """The rows of a protocol that are stored, of what was last asked for."""
        return self.frame(self.wanted(protocol_id))


def encode(settings: BatchSettings, columns: Columns) -> bytes:
    """The bytes of a batch's Parquet file: a pure function of settings and numbers."""
    import polars as pl

    rows = len(columns["seed"])
    digest = digest_columns(columns)
    header = {"settings": settings.to_json(), "key": settings.key, "rows": rows, "digest": digest}
    arm = pl.Series("arm", [settings.arm] * rows, dtype=pl.String)
    table = pl.DataFrame([arm, *(pl.Series(name, values) for name, values in columns.items())])
    buffer = io.BytesIO()
    metadata = {METADATA_KEY: json.dumps(header, sort_keys=True)}
    table.write_parquet(buffer, compression="zstd", compression_level=9, metadata=metadata)
    return buffer.getvalue()


def inspect_file(path: Path) -> StoredBatch:
    """Check a Parquet file of the store; raises LabError that says what is wrong with it."""
    import polars as pl

    try:
        metadata = pl.read_parquet_metadata(path)
        table = pl.read_parquet(path)
    except Exception as error:  # polars raises several kinds for files that were cut short
        raise LabError(f"not a readable Parquet file, cut short perhaps ({_first_line(error)})") from error
    try:
        header = json.loads(metadata[METADATA_KEY])
        values, key, rows, digest = (header[k] for k in ("settings", "key", "rows", "digest"))
        settings = BatchSettings.from_json(values)
    except (KeyError, ValueError, TypeError) as error:
        raise LabError("a Parquet file that this lab did not write") from error
    if digest_of(values) != key or key[:16] not in path.name:
        raise LabError("its name, its key and its settings do not belong together")
    if table.height != rows or digest_columns(_numbers(table)) != digest:
        raise LabError("its rows do not match its checksum")
    return StoredBatch.at(path, settings)


def _numbers(table: pl.DataFrame) -> Columns:
    return {name: table[name].to_numpy() for name in table.columns if name != "arm"}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
