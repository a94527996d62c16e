"""Requests made from stored settings: what imported batches amount to, entered into the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chunked_td.lab.batches import digest_of, family_settings
from chunked_td.lab.directory import Directory
from chunked_td.lab.protocols import Protocol, describe


def request_of_settings(
    directory: Directory, protocols: Mapping[str, Protocol], settings: Sequence[dict[str, Any]]
) -> None:
    """Ask, in the manifest, for the runs that these settings describe, beside those asked for before.

    Batches of an arm are taken together, the longest runs first. Batches of an unknown protocol, or of another version
    of a known one, are kept in the store but not asked for; a note says so.
    """
    arms: dict[tuple[str, str], dict[str, Any]] = {}
    for part in sorted(settings, key=lambda s: (-s["episodes"], json.dumps(s["pairs"]))):
        family, place = _family_of(part), (part["protocol"], part["arm"])
        if _family_now(protocols.get(part["protocol"]), part["arm"]) != family:
            directory.notes.append(f"{part['protocol']} {part['arm']}: made with other settings; kept, but not shown")
            continue
        if place not in arms:
            size = {"episodes": part["episodes"], "record_at": part["record_at"]}
            fresh = {"family": family, "seeds": [], "exponents": [], **size}
            asked = directory.manifest.get("protocols", {}).get(place[0], {}).get("arms", {}).get(place[1], fresh)
            longer = asked["family"] == family and asked["episodes"] >= part["episodes"]
            arms[place] = dict(asked) if longer else fresh
        entry = arms[place]
        if entry["episodes"] == part["episodes"]:
            entry["seeds"] = sorted({*entry["seeds"], *(seed for seed, _ in part["pairs"])})
            entry["exponents"] = sorted({*entry["exponents"], *(j for _, j in part["pairs"])}, reverse=True)
    for protocol_id in dict.fromkeys(protocol_id for protocol_id, _ in arms):
        chosen = {arm: entry for (owner, arm), entry in arms.items() if owner == protocol_id}
        directory.ask(protocol_id, describe(protocols[protocol_id]), chosen)


def _family_now(protocol: Protocol | None, arm_id: str) -> str | None:
    """The family of an arm as this installation would run it."""
    if protocol is None or all(arm.id != arm_id for arm in protocol.arms):
        return None
    return digest_of(family_settings(protocol, protocol.arm(arm_id)))


def _family_of(settings: dict[str, Any]) -> str:
    shape = ("pairs", "episodes", "record_at")
    return digest_of({key: value for key, value in settings.items() if key not in shape})
