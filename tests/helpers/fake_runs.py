"""Run directories filled with made-up scores of the real experiments: right shape, known answers, no simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chunked_td.lab.catalogue import load_protocols
from chunked_td.lab.running.batches import Batch
from chunked_td.lab.running.plan import SweepPlan, record_request
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.directory import RunDirectory
from chunked_td.lab.study import Arm, Protocol

BINS = 10


def fill(path: Path, experiments=None, *, seeds=10, networks=True, diagnostics=True, length=None, reduced=None) -> Path:
    """Fill a run directory with made-up runs that show what the paper reports.

    Args:
      experiments: ids; None is all of the catalogue.
      networks: False leaves the network arms out.
      diagnostics: whether network arms have columns of diagnostics.
      length: episodes, instead of the protocol's.
      reduced: episodes of the network arms, instead of the protocol's.
    """
    names = experiments or (
        "chain-and-split",
        "accumulated-charge",
        "accumulated-charge-mirrored",
        "key-to-door",
        "skewed-split",
    )
    batches = []
    for name in names:
        protocol = load_protocols([name])[0]
        for arm in protocol.arms:
            network = arm.kind == "network"
            if networks or not network:
                episodes = (reduced if network else None) or length or protocol.episodes
                pairs = tuple((seed, j) for seed in range(seeds) for j in protocol.exponents_of(arm))
                batches.append(Batch(protocol, arm, pairs, episodes, _thin(protocol.record_at(episodes))))
    with RunDirectory.for_writing(path) as directory:
        store = Store(directory)
        record_request(directory, SweepPlan(tuple(batches), ()))
        directory.log.write("session", command="reproduce --profile paper", commit="abc", python="3.11", cores=2,
                      versions={"numpy": "2"}, processor="a processor", system="Linux", host="here")  # fmt: skip
        for batch in batches:
            columns = columns_of(batch, diagnostics)
            store.write(batch.settings, columns)
            directory.log.write("batch", protocol=batch.protocol.id, arm=batch.arm.id, kind=batch.arm.kind, seconds=1.5,
                          runs=len(batch.pairs), steps=batch.steps, host="here", engine="local")  # fmt: skip
        directory.log.write("end", seconds=12.0, finished=len(batches), failed=0)
    return path


def _thin(record_at):
    """Fewer checkpoints, so that filling is quick; those that selection reads stay."""
    wanted = set(record_at[:: max(1, len(record_at) // 40)]) | {record_at[-1], 100_000, 1_500, 1_000}
    return tuple(point for point in record_at if point in wanted)


def columns_of(batch: Batch, diagnostics: bool = True) -> dict[str, np.ndarray]:
    """Made-up scores of a batch."""
    record_at = np.asarray(batch.record_at, dtype=np.float64)
    seeds = np.array([seed for seed, _ in batch.pairs], dtype=np.int64)
    exponents = np.array([j for _, j in batch.pairs], dtype=np.int64)
    rng = np.random.default_rng([len(batch.arm.id), *batch.arm.id.encode(), *batch.protocol.id.encode()])
    score = np.stack([_score(batch.protocol, batch.arm, j, record_at, rng) for j in exponents])  # [R, K]
    columns = {
        "seed": np.repeat(seeds, len(record_at)),
        "exponent": np.repeat(exponents, len(record_at)),
        "step_size": np.repeat(batch.protocol.step_size_base * 2.0**exponents, len(record_at)),
        "episode": np.tile(np.asarray(batch.record_at, dtype=np.int64), len(seeds)),
        "score": score.ravel(),
    }
    if diagnostics and batch.arm.kind == "network":
        columns |= _diagnostics(len(seeds), record_at, rng)
    return columns


def _score(protocol: Protocol, arm: Arm, j: int, record_at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    share = record_at / protocol.episodes
    if protocol.id == "chain-and-split":
        best = {"sarsa-0": -5, "sarsa-1": -11}.get(arm.id, -8)
        speed = {"sarsa-0": 20, "sarsa-1": 4}.get(arm.id, 60)
        noise = 0.001 * (2.0 ** abs(j - best)) * rng.normal(size=len(record_at))
        start = {"sarsa-0": -0.005, "sarsa-1": -0.02}.get(arm.id, 0.0)
        return 0.01 + (start - 0.01) * np.exp(-speed * share) + noise
    if protocol.id == "skewed-split":
        limit = 0.28 if arm.lambda_source == "ForwardLambda" else 1.0
        return limit * (1 - np.exp(-20 * share)) + 0.02 * rng.normal(size=len(record_at))
    floor = protocol.best or 0.0
    bad = 0.9 if "mirrored" in protocol.id or protocol.id == "key-to-door" else 0.5
    good = arm.id in ("c-factored", "c-learned") or (
        arm.id.startswith(("chunked", "expected")) and "mirrored" not in protocol.id
    )
    if good and arm.kind != "fixed":
        return np.round(share * floor * (1 + 0.01 * abs(rng.normal())))
    return np.round(share * (bad * protocol.episodes if rng.random() < 0.6 else floor * 1.3))


def _diagnostics(runs: int, record_at: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    time = np.tile(record_at / record_at[-1], runs)
    found = {
        "loss": 2 * np.exp(-3 * time) + 0.1 + 0.01 * rng.random(len(time)),
        "lambda_predictable": 1 - np.exp(-6 * time),
        "broken": np.zeros(len(time)),
        "lambda_noisy": 0.1 + 0.05 * np.exp(-6 * time),
    }
    for b in range(BINS):
        middle = (b + 0.5) / BINS
        found[f"calibration_predicted_{b}"] = np.full(len(time), middle)
        found[f"calibration_observed_{b}"] = np.clip(middle + 0.03 * rng.normal(size=len(time)), 0, 1)
        found[f"calibration_count_{b}"] = np.full(len(time), 10.0 * (b + 1))
    return found
