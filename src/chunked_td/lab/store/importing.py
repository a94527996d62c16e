"""Import of batches that another host ran, and their entry in the manifest."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from chunked_td.lab.description import describe
from chunked_td.lab.errors import DONE, FAILED, LabError, UsageError
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.family import family_of
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.store.manifest import ArmRequest, Request
from chunked_td.lab.store.settings import BatchSettings, digest_of
from chunked_td.lab.study import Protocol


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
    with RunDirectory.for_writing(out) as directory:
        store = Store(directory)
        store.report_findings()
        found, added, failed = _take(store, files)
        notes = enter_into_manifest(directory, protocols, found)
        for note in dict.fromkeys(notes):
            print(f"note: {note}", file=sys.stderr)
        for line in RunLog(source).lines() if added else ():
            directory.log.write_line({"event": "batch", **line, "imported": True})
    if not quiet:
        print(f"{added} batches imported into {out}, {len(files) - added - failed} were there, {failed} unusable")
    return FAILED if failed else DONE


def _take(store: Store, files: Sequence[Path]) -> tuple[list[BatchSettings], int, int]:
    """Store files; returns the settings of the good ones, how many are new, and how many are unusable."""
    found, added, failed = [], 0, 0
    for file in files:
        try:
            path, settings = store.import_npz(file)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
        else:
            found.append(settings)
            added += path is not None
    return found, added, failed


def enter_into_manifest(
    directory: RunDirectory, protocols: Mapping[str, Protocol], batches: Sequence[BatchSettings]
) -> list[str]:
    """Request, in the manifest, the runs that these batches hold, beside those requested before.

    Batches of an arm are taken together, the longest runs first. Batches of an unknown protocol, or of another version
    of a known one, are kept in the store but not requested.

    Returns:
      notes about those that are not requested.
    """
    notes: list[str] = []
    arms: dict[str, dict[str, ArmRequest]] = {}
    for batch in sorted(batches, key=lambda b: (-b.episodes, b.pairs)):
        if _family_now(protocols.get(batch.protocol), batch.arm) != batch.family_key:
            notes.append(f"{batch.protocol} {batch.arm}: made with other settings; kept, but not shown")
            continue
        requests = arms.setdefault(batch.protocol, {})
        requested = requests.get(batch.arm) or _requested_before(directory, batch)
        requests[batch.arm] = _extended(requested, batch)
    for protocol_id, requests in arms.items():
        directory.add_request(Request(describe(protocols[protocol_id]), requests))
    return notes


def _requested_before(directory: RunDirectory, batch: BatchSettings) -> ArmRequest:
    """What the manifest asks for of a batch's arm, if that is as long as the batch; else nothing yet."""
    request = directory.manifest.protocols.get(batch.protocol)
    requested = request.arms.get(batch.arm) if request else None
    if requested is not None and requested.family == batch.family_key and requested.episodes >= batch.episodes:
        return requested
    return ArmRequest(batch.family_key, (), (), batch.episodes, batch.record_at)


def _extended(requested: ArmRequest, batch: BatchSettings) -> ArmRequest:
    """A request with the runs of a batch added; shorter batches add nothing."""
    if requested.episodes != batch.episodes:
        return requested
    return replace(
        requested,
        seeds=tuple(sorted({*requested.seeds, *(seed for seed, _ in batch.pairs)})),
        exponents=tuple(sorted({*requested.exponents, *(j for _, j in batch.pairs)}, reverse=True)),
    )


def _family_now(protocol: Protocol | None, arm_id: str) -> str | None:
    """The family of an arm as this installation would run it."""
    if protocol is None or all(arm.id != arm_id for arm in protocol.arms):
        return None
    return digest_of(family_of(protocol, protocol.arm(arm_id)))
