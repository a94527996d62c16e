"""Finished batches on disk: one Parquet file each, written atomically, named by the hash of its settings.

A run directory holds

    manifest.json                 what was requested last, per protocol, with a checksum (see `manifest`)
    log.jsonl                     how it was made: one JSON line per session and per batch (see `log`)
    lock, owner.json              the one process that may write (see `directory`)
    digests.sha256                digest of the bytes of every batch, apart from it (see `certify`)
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

Network arms add diagnostics (loss, lambda_predictable, lambda_noisy, broken, calibration_…); they are null elsewhere.
The last checkpoint of a run is its length; arms may differ in it (network arms are shorter in the quick profile).

Parquet metadata: "chunked_td" holds {"settings", "key", "rows", "digest"}. Same results, same bytes: no times inside.
A file is good if its bytes have the recorded digest; then it is parsed, and its key must be the hash of its settings,
its rows those that the settings say, its arm theirs, and its checksum must agree. A file that is not good is reported,
left out, and renamed (suffix .damaged) when the directory is open for writing. Files without a recorded digest (see
`certify`) are read in full first, elsewhere; a directory that is open for writing records them then.

Reuse: a request is covered by any good file of the same family (see `BatchSettings`) that is at least as long and has
the requested checkpoints. So fewer seeds, arms, step sizes or episodes (if a checkpoint is there) are read from what
is stored, and more of them run only what is missing. Runs are not continued: longer ones start from the beginning.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chunked_td._files import read_regular
from chunked_td.lab.errors import FAILED, DirectoryError, LabError
from chunked_td.lab.store.certify import AGAIN, Digests, certify, parsed, sha256
from chunked_td.lab.store.directory import RunDirectory, refuse, write_error
from chunked_td.lab.store.manifest import ArmRequest
from chunked_td.lab.store.settings import BatchSettings, digest_columns, digest_of
from chunked_td.lab.study import Columns

if TYPE_CHECKING:
    import polars as pl

METADATA_KEY = "chunked_td"
ROOM, RATIO = 64 << 20, 1_000
"""A table may take so many bytes, and so many times its file more. (Stored results take up to 31 times theirs.)"""
SCHEMA = {"arm": str, "seed": int, "exponent": int, "step_size": float, "episode": int, "score": float}


@dataclass(frozen=True)
class StoredBatch:
    """A good file: where it is, its settings, and the digest of its bytes."""

    path: Path
    settings: BatchSettings
    digest: str

    @cached_property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """(seed, exponent) of the runs that it has."""
        return frozenset(self.settings.pairs)

    def table(self) -> pl.DataFrame:
        """The table, if the file still has the bytes that were checked; LabError names the file if not."""
        try:
            content = _read(self.path)
            if sha256(content) != self.digest:
                raise LabError("it has changed since it was checked; run the command again")
            return read_table(self.path, content)
        except LabError as error:
            raise LabError(f"{self.path}: {error}") from error


class Damage(NamedTuple):
    """A file in the store that cannot be used, and why."""

    path: Path
    reason: str


class Store:
    """The batches of a run directory.

    Args:
      directory: an open `RunDirectory`; a read-only one never changes anything on disk.
    """

    def __init__(self, directory: RunDirectory):
        self.directory, self.folder = directory, directory.path / "batches"
        self.damaged: list[Damage] = []
        self._index: dict[str, list[StoredBatch]] = {}
        with refuse(DirectoryError):
            self._digests = Digests(directory.path)
        recorded = {path: self._digests.of(path) for path in self._files()}
        for path, digests in recorded.items():
            if digests:
                self._take(path, digests, "its bytes do not match its digest in digests.sha256")
        twice = sum(len(digests) > 1 for digests in recorded.values())
        if twice:
            directory.notes.append(f"{twice} stored files have {AGAIN}")
        self._adopt([path for path, digests in recorded.items() if not digests])

    @classmethod
    def read(cls, path: str | Path) -> Store:
        """The store of a run directory, for reading only (no lock taken)."""
        return cls(RunDirectory.for_reading(path))

    def _files(self) -> list[Path]:
        """The stored files, in order of name; links among the folders are refused."""
        for folder in (self.folder, *(sorted(self.folder.iterdir()) if self.folder.is_dir() else ())):
            if folder.is_symlink():
                raise DirectoryError(f"{folder} is a symbolic link; a run directory keeps its files in itself")
        return sorted(self.folder.glob("*/*.parquet"))

    def _take(self, path: Path, digests: Collection[str], otherwise: str) -> bool:
        """Take in a file with one of these digests; set it aside, and say why, if it has another or cannot be read."""
        try:
            content = _read(path)
            digest = sha256(content)
            if digest not in digests:
                raise LabError(otherwise)
            self._remember(StoredBatch(path, read_header(path, content)[0], digest))
        except LabError as error:
            self._set_aside(path, str(error))
            return False
        return True

    def _adopt(self, paths: Sequence[Path]) -> None:
        """Take in files that have no digest: each is read in full, elsewhere, before it is read here."""
        adopted, writable = 0, self.directory.writable
        for path, digest, reason in certify(paths):
            if reason:
                self._set_aside(path, reason)
            elif self._take(path, (digest,), "it changed while it was read"):
                if writable:
                    self._record(path, digest)
                adopted += 1
        if adopted:
            how = "recorded now" if writable else "`chunked-td reproduce` on this directory records one"
            self.directory.notes.append(
                f"{adopted} stored files had no digest in {self._digests.path.name}; they were read in full; {how}"
            )

    def _record(self, path: Path, digest: str) -> None:
        try:
            self._digests.record(path, digest)
        except OSError as error:
            raise write_error(self._digests.path, error) from error

    def _remember(self, stored: StoredBatch) -> None:
        self._index.setdefault(stored.settings.family_key, []).append(stored)

    def _set_aside(self, path: Path, reason: str) -> None:
        if self.directory.writable:
            path.replace(path.with_suffix(".parquet.damaged"))
        self.damaged.append(Damage(path, reason))

    def report_findings(self) -> int:
        """Tell the user about a previous owner that crashed, and about damaged files.

        Returns:
          exit code: 1 if some files are damaged and stay so, since the directory is open for reading only.
        """
        for note in self.directory.notes:
            print(f"note: {note}", file=sys.stderr)
        writable = self.directory.writable
        what = (
            "set aside, its runs will be done again" if writable else "left out; `chunked-td reproduce` makes it again"
        )
        for damage in self.damaged:
            print(f"damaged: {damage.path}: {damage.reason}; {what}", file=sys.stderr)
        return FAILED if self.damaged and not writable else 0

    def settings(self, protocol_id: str) -> list[BatchSettings]:
        """The settings of every good file of a protocol."""
        every = (stored.settings for batches in self._index.values() for stored in batches)
        return [settings for settings in every if settings.protocol == protocol_id]

    def has(self, settings: BatchSettings) -> bool:
        """Whether there is a good file with exactly these settings."""
        return any(stored.settings == settings for stored in self._index.get(settings.family_key, ()))

    def _covering(self, wanted: ArmRequest) -> list[StoredBatch]:
        """Good files of the same family that are long enough and have the checkpoints, in order of name."""
        found = [
            stored
            for stored in self._index.get(wanted.family, ())
            if stored.settings.episodes >= wanted.episodes and set(stored.settings.record_at) >= set(wanted.record_at)
        ]
        return sorted(found, key=lambda stored: stored.path.name)

    def missing(self, settings: BatchSettings) -> tuple[tuple[int, int], ...]:
        """The (seed, exponent) pairs of a batch that no stored file covers, in its order."""
        covered = frozenset().union(*(stored.pairs for stored in self._covering(ArmRequest.of(settings))))
        return tuple(pair for pair in settings.pairs if pair not in covered)

    def write(self, settings: BatchSettings, columns: Columns) -> Path:
        """Store a finished batch; on return it survives a crash."""
        path = self.folder / settings.protocol / f"{settings.name}.parquet"
        content = encode(settings, columns)
        digest = sha256(content)
        with refuse(DirectoryError):
            self._record(path, digest)
        self.directory.write(path, content)
        self._remember(StoredBatch(path, settings, digest))
        return path

    def frame(self, wanted: Iterable[ArmRequest]) -> pl.DataFrame:
        """Stored rows of exactly these runs and checkpoints; arms in the order given."""
        import polars as pl

        frames = [pl.DataFrame(schema=SCHEMA)]
        for rank, part in enumerate(wanted):
            left = set(part.pairs)
            for stored in self._covering(part):
                found = left & stored.pairs
                left -= found
                if found:
                    pairs = pl.DataFrame(sorted(found), schema=["seed", "exponent"], orient="row")
                    rows = stored.table().filter(pl.col("episode").is_in(part.record_at))
                    rows = rows.join(pairs, on=["seed", "exponent"], how="semi")
                    frames.append(rows.with_columns(pl.lit(rank).alias("__rank")))
        table = pl.concat(frames, how="diagonal")
        if "__rank" not in table.columns:
            return table
        return table.sort("__rank", "exponent", "seed", "episode").drop("__rank")

    def table(self, protocol_id: str) -> pl.DataFrame:
        """The rows of a protocol that are stored, of what was last requested."""
        return self.frame(self.directory.request(protocol_id).arms.values())


def encode(settings: BatchSettings, columns: Columns) -> bytes:
    """The bytes of a batch's Parquet file: a pure function of settings and numbers."""
    import polars as pl

    rows = len(columns["seed"])
    digest = digest_columns(columns)
    header = {"settings": settings.to_json(), "key": settings.key, "rows": rows, "digest": digest}
    arm = pl.Series("arm", [settings.arm], dtype=pl.String).new_from_index(0, rows)
    table = pl.DataFrame([arm, *(pl.Series(name, values) for name, values in columns.items())])
    buffer = io.BytesIO()
    metadata = {METADATA_KEY: json.dumps(header, sort_keys=True)}
    table.write_parquet(buffer, compression="zstd", compression_level=9, metadata=metadata)
    return buffer.getvalue()


def inspect_file(path: Path) -> StoredBatch:
    """Check a Parquet file of the store in full; LabError says what is wrong with it."""
    content = _read(path)
    read_table(path, content)
    return StoredBatch(path, read_header(path, content)[0], sha256(content))


def _read(path: Path) -> bytes:
    """The bytes of a stored file; LabError if it is none."""
    try:
        return read_regular(path, links=False)
    except (ValueError, OSError) as error:
        raise LabError(str(error)) from error


def read_header(path: Path, content: bytes) -> tuple[BatchSettings, str]:
    """Settings and checksum of a stored file; LabError if its name and settings do not belong together."""
    import polars as pl

    metadata = parsed(lambda: pl.read_parquet_metadata(io.BytesIO(content)))
    try:
        header = json.loads(metadata[METADATA_KEY])
        values, key, rows, digest = (header[k] for k in ("settings", "key", "rows", "digest"))
        settings = BatchSettings.from_json(values)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise LabError("a Parquet file that this lab did not write") from error
    if digest_of(values) != key or path.name != f"{settings.name}.parquet" or path.parent.name != settings.protocol:
        raise LabError("its name, its key and its settings do not belong together")
    if rows != len(settings.pairs) * len(settings.record_at):
        raise LabError(f"it says that it has {rows} rows, its settings say otherwise")
    return settings, digest


def read_table(path: Path, content: bytes) -> pl.DataFrame:
    """The table of a stored file, checked against its header: rows, arm, checksum. LabError says what is wrong."""
    import polars as pl

    settings, digest = read_header(path, content)
    rows = len(settings.pairs) * len(settings.record_at)
    scan = parsed(lambda: pl.scan_parquet(io.BytesIO(content)))
    columns = parsed(scan.collect_schema)
    if parsed(lambda: scan.select(pl.len()).collect().item()) != rows:
        raise LabError(f"it must have {rows} rows")
    if rows * len(columns) * 8 > ROOM + RATIO * len(content):
        raise LabError(f"{rows:,} rows are too many for a file of {len(content):,} bytes")
    if list(columns)[:1] != ["arm"] or not all(kind in (pl.Int64, pl.Float64) for kind in list(columns.values())[1:]):
        raise LabError("its columns must be the arm and numbers")
    table = parsed(lambda: pl.read_parquet(io.BytesIO(content)))
    if table.height != rows or digest_columns(_numbers(table)) != digest:
        raise LabError("its rows do not match its checksum")
    if table["arm"].null_count() or (table["arm"] != settings.arm).any():
        raise LabError(f"its rows must be those of arm {settings.arm!r}")
    return table


def _numbers(table: pl.DataFrame) -> Columns:
    return {name: table[name].to_numpy() for name in table.columns if name != "arm"}
