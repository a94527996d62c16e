"""Plan, run, keep: from protocols and options to batches that are not stored yet, and their results into the store."""

from __future__ import annotations

import difflib
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from chunked_td.lab.batches import SEEDS_PER_BATCH, Batch, digest_of, family_settings
from chunked_td.lab.directory import Directory
from chunked_td.lab.engines import Engine, Result
from chunked_td.lab.errors import UsageError
from chunked_td.lab.progress import Progress
from chunked_td.lab.protocols import Arm, Protocol, Size, describe
from chunked_td.lab.store import Store, Wanted

PROFILES = ("quick", "paper", "smoke")
GROUPS = ("fixed", "counts", "oracle", "network")

# Steps per second of one core, for estimates before anything has been measured in the directory.
TYPICAL_SPEED = {"fixed": 2e7, "counts": 1e7, "oracle": 1.2e7, "network": 1e3}


@dataclass(frozen=True)
class Options:
    """What of the protocols to run.

    Args:
      profile: "paper" is the full protocol; "quick" the same with the paper's network arms at a reduced size and
        without our own; "smoke" tiny.
      arms: ids or patterns ("sarsa-*"), the groups "fixed", "counts", "oracle", "network", or "paper" (the
        paper's own); empty is all.
      seeds, episodes: instead of the protocol's.
      networks: False leaves network arms out.
    """

    profile: str = "quick"
    arms: tuple[str, ...] = ()
    seeds: int | None = None
    episodes: int | None = None
    networks: bool = True

    def __post_init__(self):
        if self.profile not in PROFILES:
            raise UsageError(f"--profile {self.profile!r}: it is one of {', '.join(PROFILES)}")
        for name in ("seeds", "episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} {value}: it must be at least 1")


@dataclass(frozen=True)
class Plan:
    """What there is to do: `wanted` is all that was asked for, `batches` what is not stored yet."""

    wanted: tuple[Batch, ...]
    batches: tuple[Batch, ...]
    notes: tuple[str, ...] = ()

    @property
    def runs_wanted(self) -> int:
        """Runs asked for."""
        return sum(len(batch.pairs) for batch in self.wanted)

    @property
    def runs_left(self) -> int:
        """Runs to do."""
        return sum(len(batch.pairs) for batch in self.batches)


@dataclass
class Outcome:
    """What became of a sweep."""

    finished: int = 0
    failures: list[Result] = field(default_factory=list)


def size_of(protocol: Protocol, arm: Arm, options: Options) -> Size | None:
    """Seeds, episodes and step sizes of an arm under a profile; None if the profile leaves it out."""
    size: Size | None = Size(protocol.seeds, arm.episodes or protocol.episodes)
    if options.profile == "smoke":
        size = protocol.smoke
    elif options.profile == "quick" and arm.kind == "network":
        size = protocol.network_quick if arm.quick else None
    if size is None:
        return None
    return Size(
        options.seeds or size.seeds,
        options.episodes or size.episodes,
        size.exponents or protocol.exponents_of(arm),
    )


def choose_arms(protocol: Protocol, options: Options) -> list[Arm]:
    """The arms of `protocol` that `options` ask for."""

    def chosen(arm: Arm) -> bool:
        if arm.kind == "network" and not options.networks:
            return False
        return not options.arms or any(_matches(arm, pattern) for pattern in options.arms)

    return [arm for arm in protocol.arms if chosen(arm)]


def _matches(arm: Arm, pattern: str) -> bool:
    return arm.kind == pattern or (pattern == "paper" and arm.in_paper) or fnmatchcase(arm.id, pattern)


def check_patterns(protocols: Sequence[Protocol], options: Options) -> None:
    """Complain about arm patterns that match nothing anywhere."""
    arms = [arm for protocol in protocols for arm in protocol.arms]
    for pattern in options.arms:
        if pattern not in (*GROUPS, "paper") and not any(_matches(arm, pattern) for arm in arms):
            known, groups = sorted({arm.id for arm in arms}), [*GROUPS, "paper"]
            close = difflib.get_close_matches(pattern, [*known, *groups], n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            listed = f"There are {', '.join(known)}, and the groups {', '.join(groups)}"
            raise UsageError(f"--arms {pattern!r} matches no arm{hint} {listed}")


def batches_of(protocol: Protocol, arm: Arm, size: Size) -> list[Batch]:
    """Batches of an arm: blocks of seeds, all step sizes of each."""
    record_at = protocol.record_at(size.episodes)
    exponents = size.exponents or protocol.exponents_of(arm)
    blocks = []
    for start in range(0, size.seeds, SEEDS_PER_BATCH):
        seeds = range(start, min(start + SEEDS_PER_BATCH, size.seeds))
        pairs = tuple((seed, exponent) for seed in seeds for exponent in exponents)
        blocks.append(Batch(protocol, arm, pairs, size.episodes, record_at))
    return blocks


def make_plan(protocols: Sequence[Protocol], options: Options, store: Store | None = None) -> Plan:
    """What to run, given what is stored."""
    check_patterns(protocols, options)
    wanted: list[Batch] = []
    left_out: list[str] = []
    for protocol in protocols:
        for arm in choose_arms(protocol, options):
            batches = _batches_asked_for(protocol, arm, options, store)
            if arm.kind == "network" and not network_support() and (store is None or _missing(store, batches)):
                left_out.append(f"{protocol.id} {arm.id}")
                continue
            wanted += batches
    left = wanted if store is None else _missing(store, wanted)
    notes = [f"network arms need chunked_td.lab.neural, which is not here; left out: {', '.join(left_out)}"]
    return Plan(tuple(wanted), tuple(left), tuple(notes if left_out else ()))


def _batches_asked_for(protocol: Protocol, arm: Arm, options: Options, store: Store | None) -> list[Batch]:
    """Batches of an arm under a profile. A network arm that is stored in full is not asked for in less."""
    if arm.kind == "network" and options.profile == "quick" and store is not None:
        full = size_of(protocol, arm, replace(options, profile="paper"))
        batches = batches_of(protocol, arm, full) if full else []
        if batches and not _missing(store, batches):
            return batches
    size = size_of(protocol, arm, options)
    return batches_of(protocol, arm, size) if size else []


def network_support() -> bool:
    """Whether network arms can run here."""
    return importlib.util.find_spec("chunked_td.lab.neural") is not None


def _missing(store: Store, wanted: Sequence[Batch]) -> list[Batch]:
    left = []
    for batch in wanted:
        pairs = store.missing(Wanted.from_batch(batch))
        if pairs:
            left.append(replace(batch, pairs=pairs))
    return left


def record_request(directory: Directory, plan: Plan) -> None:
    """Write what was asked for into the manifest."""
    by_protocol: dict[str, tuple[Protocol, dict[str, dict[str, Any]]]] = {}
    for batch in plan.wanted:
        arms = by_protocol.setdefault(batch.protocol.id, (batch.protocol, {}))[1]
        seeds = [seed for seed, _ in batch.pairs]
        if batch.arm.id in arms:
            arms[batch.arm.id]["seeds"] = sorted({*arms[batch.arm.id]["seeds"], *seeds})
        else:
            arms[batch.arm.id] = {
                "family": digest_of(family_settings(batch.protocol, batch.arm)),
                "seeds": sorted(set(seeds)),
                "exponents": sorted({exponent for _, exponent in batch.pairs}, reverse=True),
                "episodes": batch.episodes,
                "record_at": list(batch.record_at),
            }
    for protocol, arms in by_protocol.values():
        directory.ask(protocol.id, describe(protocol), arms)


def expected_seconds(batches: Sequence[Batch], diary: Sequence[dict[str, Any]], threads: int | None = None) -> float:
    """About how long batches will take: from speeds measured in this directory, else typical ones."""
    cores = threads or os.cpu_count() or 1
    total = 0.0
    for batch in batches:
        past = [line for line in diary if line.get("event") == "batch" and line.get("kind") == batch.arm.kind]
        same = [line for line in past if line.get("protocol") == batch.protocol.id] or past
        seconds = sum(line["seconds"] for line in same)
        speed = sum(line["steps"] for line in same) / seconds if seconds > 0 else TYPICAL_SPEED[batch.arm.kind] * cores
        total += batch.steps / speed
    return total


def run_plan(plan: Plan, store: Store, engine: Engine, progress: Progress, listeners: Sequence[Any] = ()) -> Outcome:
    """Run the batches of a plan and store each result as it comes. A batch that fails does not stop the others."""
    outcome = Outcome()
    for result in engine.run(plan.batches):
        if result.columns is None:
            outcome.failures.append(result)
            store.directory.log("failure", batch=result.batch.name, error=result.error)
        else:
            path = store.write(result.batch.settings(), result.columns)
            outcome.finished += 1
            store.directory.log("batch", file=str(path.relative_to(store.directory.path)), **log_entry(result, engine))
            for listener in listeners:
                listener.batch_done(result)
        progress.batch_done(result)
    return outcome


def log_entry(result: Result, engine: Engine) -> dict[str, Any]:
    """The diary's line about a finished batch."""
    return {
        "protocol": result.batch.protocol.id,
        "arm": result.batch.arm.id,
        "kind": result.batch.arm.kind,
        "runs": len(result.batch.pairs),
        "steps": result.batch.steps,
        "seconds": round(result.seconds, 3),
        "host": result.host,
        "engine": engine.name,
    }
