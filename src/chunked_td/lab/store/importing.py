"""Batches as .npz files, which carry results between hosts that have NumPy only, and their import.

A file may come from anybody: its digest and its sizes are checked first (`chunked_td._archives`), then every column.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from chunked_td._archives import Archive, pack
from chunked_td._files import read_regular
from chunked_td.lab.errors import DONE, FAILED, LabError, UsageError
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.store.manifest import ArmRequest, Request, describe
from chunked_td.lab.store.settings import BatchSettings, digest_columns, digest_of, family_of
from chunked_td.lab.study import Columns, Protocol

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def save_npz(columns: Columns, settings: BatchSettings) -> bytes:
    """A batch's numbers and settings as the bytes of an .npz file."""
    header = {"settings": settings.to_json(), "digest": digest_columns(columns), "columns": list(columns)}
    return pack({"__header__": np.array(json.dumps(header)), **columns})


def load_npz(path: Path) -> tuple[Columns, BatchSettings]:
    """Numbers and settings of a file written by `save_npz`; LabError if it is cut short or of another kind."""
    try:
        archive = Archive(read_regular(path, links=False))
        header = json.loads(str(archive["__header__"]))
        columns = {str(name): archive[name] for name in header["columns"]}
        digest, settings = header["digest"], BatchSettings.from_json(header["settings"])
        archive.check_all_read()
        _check_columns(columns, settings)
    except Exception as error:  # zip, key, value and JSON errors all mean the same here
        raise LabError(f"{path}: not a batch result, or cut short ({error})") from error
    if digest_columns(columns) != digest:
        raise LabError(f"{path}: its numbers do not match its checksum; run that batch again")
    return columns, settings


def _check_columns(columns: Columns, settings: BatchSettings) -> None:
    """Refuse columns that are not those of a batch with these settings: ValueError says which."""
    wanted = settings.index()
    for name, values in wanted.items():
        if columns[name].dtype != np.int64 or not np.array_equal(columns[name], values):
            raise ValueError(f"column {name} must be that of its settings")
    for name in columns.keys() - wanted.keys():
        if not _COLUMN.fullmatch(name) or name == "arm":
            raise ValueError(f"a column must have a name of letters and digits, got {name!r}")
        if columns[name].dtype != np.float64 or columns[name].shape != wanted["seed"].shape:
            raise ValueError(f"column {name} must be float64[{wanted['seed'].size}]")
    if not {"step_size", "score"} <= columns.keys():
        raise ValueError("columns must have step_size and score")


def import_batches(source: Path, out: Path, protocols: Mapping[str, Protocol], *, quiet: bool = False) -> int:
    """Take batches that another host saved (`python -m chunked_td.lab.running.remote`) into a run directory.

    Args:
      source: folder with .npz files.
      out: run directory.
      protocols: by id, those that the batches may belong to.
    Returns:
      exit code: 0 done, 1 some files are unusable.
    """
    files = sorted(source.rglob("*.npz"))
    if not files:
        raise UsageError(f"{source} holds no .npz files")
    found, added, failed = [], 0, 0
    with RunDirectory.for_writing(out) as directory:
        store = Store(directory)
        store.report_findings()
        for file in files:
            try:
                columns, settings = load_npz(file)
            except LabError as error:
                print(f"error: {error}", file=sys.stderr)
                failed += 1
                continue
            found.append(settings)
            if not store.has(settings):
                store.write(settings, columns)
                added += 1
        for note in dict.fromkeys(_enter_into_manifest(directory, protocols, found)):
            print(f"note: {note}", file=sys.stderr)
        for line in RunLog(source).lines() if added else ():
            directory.log.write_line({"event": "batch", **line, "imported": True})
    if not quiet:
        print(f"{added} batches imported into {out}, {len(files) - added - failed} were there, {failed} unusable")
    return FAILED if failed else DONE


def _enter_into_manifest(
    directory: RunDirectory, protocols: Mapping[str, Protocol], batches: Sequence[BatchSettings]
) -> list[str]:
    """Request, in the manifest, the runs that these batches hold, beside those requested before.

    Batches of an arm are taken together, the longest runs first; shorter ones add nothing. Batches of an unknown
    protocol, or of another version of a known one, are kept in the store but not requested: notes say so.
    """
    notes: list[str] = []
    arms: dict[str, dict[str, ArmRequest]] = {}
    for batch in sorted(batches, key=lambda b: (-b.episodes, b.pairs)):
        if _family_now(protocols.get(batch.protocol), batch.arm) != batch.family_key:
            notes.append(f"{batch.protocol} {batch.arm}: made with other settings; kept, but not shown")
            continue
        requests = arms.setdefault(batch.protocol, {})
        before = requests.get(batch.arm) or _requested_before(directory, batch)
        if before is None or before.episodes == batch.episodes:
            requests[batch.arm] = ArmRequest.of(batch, before)
        else:
            requests[batch.arm] = before
    for protocol_id, requests in arms.items():
        directory.add_request(Request(describe(protocols[protocol_id]), requests))
    return notes


def _requested_before(directory: RunDirectory, batch: BatchSettings) -> ArmRequest | None:
    """What the manifest asks for of a batch's arm, if that is as long as the batch."""
    request = directory.manifest.protocols.get(batch.protocol)
    requested = request.arms.get(batch.arm) if request else None
    same = requested is not None and requested.family == batch.family_key and requested.episodes >= batch.episodes
    return requested if same else None


def _family_now(protocol: Protocol | None, arm_id: str) -> str | None:
    """The family of an arm as this installation would run it."""
    if protocol is None or all(arm.id != arm_id for arm in protocol.arms):
        return None
    return digest_of(family_of(protocol, protocol.arm(arm_id)))
