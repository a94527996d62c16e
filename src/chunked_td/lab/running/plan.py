"""Planning: from protocols and options to the batches that are not stored yet."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from chunked_td._checks import did_you_mean
from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.batches import Batch, runner_of
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.store.log import BatchRecord
from chunked_td.lab.store.manifest import ArmRequest, Request, describe
from chunked_td.lab.study import Arm, Protocol, Size

PROFILES = ("quick", "paper", "smoke")
GROUPS = ("fixed", "counts", "oracle", "network", "paper")
"""Groups of arms: by where λ comes from, and "paper", the paper's own."""

_PACKAGES = {"jax": "JAX", "xminigrid": "XLand-MiniGrid"}
TYPICAL_SPEED = {"fixed": 2e7, "counts": 1e7, "oracle": 1.2e7, "network": 1e3}
"""Steps per second of one core, for estimates before anything has been measured in the directory."""


@dataclass(frozen=True)
class SweepOptions:
    """What of the protocols to run.

    Args:
      profile: "paper" is the full protocol; "quick" the same with the paper's network arms at a reduced size and
        without our own; "smoke" tiny.
      arms: ids, patterns ("sarsa-*") or names of `GROUPS`; empty is all.
      seeds, episodes: instead of the protocol's.
      networks: False leaves network arms out.
      cells: patterns of protocol ids ("deep-ppo-*"), for studies of many protocols; empty is all.
    """

    profile: str = "quick"
    arms: tuple[str, ...] = ()
    seeds: int | None = None
    episodes: int | None = None
    networks: bool = True
    cells: tuple[str, ...] = ()

    def __post_init__(self):
        if self.profile not in PROFILES:
            raise UsageError(f"--profile must be one of {', '.join(PROFILES)}, got {self.profile!r}")
        for name in ("seeds", "episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be a whole number from 1, got {value}")


@dataclass(frozen=True)
class SweepPlan:
    """What there is to do: `wanted` is all that was requested, `batches` what is not stored yet."""

    wanted: tuple[Batch, ...]
    batches: tuple[Batch, ...]
    notes: tuple[str, ...] = ()

    @property
    def runs_wanted(self) -> int:
        """Requested runs."""
        return sum(len(batch.pairs) for batch in self.wanted)

    @property
    def runs_left(self) -> int:
        """Runs to do."""
        return sum(len(batch.pairs) for batch in self.batches)


def make_plan(protocols: Sequence[Protocol], options: SweepOptions, store: Store | None = None) -> SweepPlan:
    """What to run, given what is stored."""
    check_patterns(protocols, options)
    if options.cells:
        protocols = [p for p in protocols if any(fnmatchcase(p.id, pattern) for pattern in options.cells)]
    wanted: list[Batch] = []
    left_out: dict[str, list[str]] = {}
    for protocol in protocols:
        for arm in (arm for arm in protocol.arms if _chosen(protocol, arm, options)):
            batches = requested_batches(protocol, arm, options, store)
            absent = missing_packages(batches[0]) if batches else ""
            if absent and (store is None or _missing(store, batches)):
                left_out.setdefault(absent, []).append(f"{protocol.id} {arm.id}")
                continue
            wanted += batches
    left = wanted if store is None else _missing(store, wanted)
    notes = [f"{absent} not installed; left out: {', '.join(names)}" for absent, names in left_out.items()]
    return SweepPlan(tuple(wanted), tuple(left), tuple(notes))


def check_patterns(protocols: Sequence[Protocol], options: SweepOptions) -> None:
    """Refuse patterns that match no protocol, or no arm of any."""
    cells = {protocol.id for protocol in protocols}
    arms = {arm.id for protocol in protocols for arm in protocol.arms}
    for name, what, known, groups in (("cells", "protocol", cells, ()), ("arms", "arm", arms, GROUPS)):
        for pattern in getattr(options, name):
            if pattern not in groups and not any(fnmatchcase(each, pattern) for each in known):
                hint = did_you_mean(pattern, [*sorted(known), *groups], cutoff=0.6) or "."
                listed = ", ".join([*sorted(known), "patterns of them", *groups])
                raise UsageError(f"--{name} {pattern!r} matches no {what}{hint} Accepted are {listed}")


def _chosen(protocol: Protocol, arm: Arm, options: SweepOptions) -> bool:
    if protocol.kind_of(arm) == "network" and not options.networks:
        return False
    return not options.arms or any(_matches(arm, pattern) for pattern in options.arms)


def _matches(arm: Arm, pattern: str) -> bool:
    return arm.kind == pattern or (pattern == "paper" and arm.in_paper) or fnmatchcase(arm.id, pattern)


def size_of(protocol: Protocol, arm: Arm, options: SweepOptions) -> Size | None:
    """Seeds, episodes and step sizes of an arm under a profile; None if the profile leaves it out."""
    size: Size | None = Size(protocol.seeds, arm.episodes or protocol.episodes)
    if options.profile == "smoke":
        size = protocol.smoke
    elif options.profile == "quick" and arm.kind == "network":
        size = protocol.network_quick if arm.quick else None
    elif options.profile == "quick" and protocol.quick is not None:
        size = protocol.quick
    if size is None:
        return None
    return Size(
        options.seeds or size.seeds, options.episodes or size.episodes, size.exponents or protocol.exponents_of(arm)
    )


def batches_of(protocol: Protocol, arm: Arm, size: Size) -> list[Batch]:
    """Batches of an arm: blocks of seeds, all step sizes of each."""
    record_at = protocol.record_at(size.episodes)
    exponents = size.exponents or protocol.exponents_of(arm)
    blocks = []
    for start in range(0, size.seeds, protocol.seeds_per_batch):
        seeds = range(start, min(start + protocol.seeds_per_batch, size.seeds))
        pairs = tuple((seed, exponent) for seed in seeds for exponent in exponents)
        blocks.append(Batch(protocol, arm, pairs, size.episodes, record_at))
    return blocks


def requested_batches(protocol: Protocol, arm: Arm, options: SweepOptions, store: Store | None) -> list[Batch]:
    """Batches of an arm under a profile. A network arm that is stored in full is not requested in less."""
    if arm.kind == "network" and options.profile == "quick" and store is not None:
        full = size_of(protocol, arm, replace(options, profile="paper"))
        batches = batches_of(protocol, arm, full) if full else []
        if batches and not _missing(store, batches):
            return batches
    size = size_of(protocol, arm, options)
    return batches_of(protocol, arm, size) if size else []


def missing_packages(batch: Batch) -> str:
    """The packages that a batch needs and that are not installed, as words; "" if there are none."""
    if batch.kind != "network" and batch.protocol.batch_runner is None:
        return ""
    absent = [name for name in runner_of(batch).packages(batch) if importlib.util.find_spec(name) is None]
    names = [_PACKAGES.get(name, name) for name in absent]
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}" if names else ""


def _missing(store: Store, wanted: Sequence[Batch]) -> list[Batch]:
    left = [(batch, store.missing(batch.settings)) for batch in wanted]
    return [replace(batch, pairs=pairs) for batch, pairs in left if pairs]


def record_request(directory: RunDirectory, plan: SweepPlan) -> None:
    """Write what was requested into the manifest."""
    protocols = {batch.protocol.id: batch.protocol for batch in plan.wanted}
    requests: dict[str, dict[str, ArmRequest]] = {name: {} for name in protocols}
    for batch in plan.wanted:
        arms = requests[batch.protocol.id]
        arms[batch.arm.id] = ArmRequest.of(batch.settings, arms.get(batch.arm.id))
    for name, protocol in protocols.items():
        directory.add_request(Request(describe(protocol), requests[name]))


def expected_seconds(batches: Sequence[Batch], log: Sequence[BatchRecord], threads: int | None = None) -> float:
    """About how long batches will take: from speeds measured in this directory, else typical ones."""
    cores = threads or os.cpu_count() or 1
    total = 0.0
    for batch in batches:
        past = [record for record in log if record.kind == batch.kind]
        same = [record for record in past if record.protocol == batch.protocol.id] or past
        seconds = sum(record.seconds for record in same)
        typical = TYPICAL_SPEED.get(batch.kind, TYPICAL_SPEED["fixed"]) * cores
        total += batch.steps / (sum(record.steps for record in same) / seconds if seconds > 0 else typical)
    return total
