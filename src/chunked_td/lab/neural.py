"""Network arms: all runs of one or several arms as one fleet on the host and one program on the device.

Per episode: every run plays (host, compiled), the networks train on what each has seen and give λ (device), every
run learns (host). Arms that share environment, learner and network travel together: the device takes hardly longer
for more networks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td.fleet import Fleet
from chunked_td.lab.errors import LabError
from chunked_td.lambdas import EXPECTED, FACTORED, SARSA, LambdaSource
from chunked_td.run import BOOTSTRAPS
from chunked_td.simulate import check_settings, record_marks

PRECISION = "tf32"
"""Of matrix products on a GPU; `benchmarks/networks.py` measures what that does to λ. CPUs use float32."""


@dataclass(frozen=True)
class NetworkRuns:
    """What `chunked_td.simulate.Runs` has, of runs whose λ came from networks, and how the networks did.

    Attributes:
      diagnostics: float64[R, K] each: training loss, λ on predictable and on noisy steps, calibration by tenths of
        predicted probability (`calibration_count_3`, `calibration_predicted_3`, `calibration_observed_3` hold the
        predictions between 0.3 and 0.4), and `broken`, 1 once the run's loss was not finite.
    """

    misses: np.ndarray
    misses_at: np.ndarray
    probes_at: np.ndarray
    returns_at: np.ndarray
    steps: np.ndarray
    values: None
    diagnostics: dict[str, np.ndarray]


@dataclass(frozen=True)
class Crew:
    """The runs of one arm within a fleet."""

    lambda_source: LambdaSource
    seeds: np.ndarray
    step_sizes: np.ndarray


def config_for(model: str, dynamics: Any) -> Any:
    """The network configuration called `model`, in the sizes of this environment."""
    from chunked_td.models import networks

    if model == "accumulated-charge":
        return networks.accumulated_charge(dynamics.nvec, dynamics.actions, dynamics.trials)
    if model == "key-to-door":
        return networks.key_to_door(dynamics.nvec, dynamics.actions)
    raise LabError(f"model: no network called {model!r}; there are 'accumulated-charge' and 'key-to-door'")


def noisy_steps(dynamics: Any, envs: Any, runs: int) -> np.ndarray:
    """bool[B, T]: transitions whose outcome is random, for the diagnostics."""
    T = dynamics.horizon
    if hasattr(envs, "charging"):
        return np.asarray(envs.charging, bool)[:, :T]
    noisy = np.zeros(T, bool)
    noisy[: T - 2] = True  # Key-to-Door: coins are thrown on the way, not at the door and not at the end
    return np.broadcast_to(noisy, (runs, T))


def run_batch(
    dynamics: Any,
    *,
    model: str,
    learner: str,
    lambda_source: LambdaSource,
    step_sizes: np.ndarray,
    seeds: np.ndarray,
    epsilon: float | np.ndarray,
    discount: float,
    episodes: int,
    record_at: Sequence[int],
    probes: Sequence[tuple[int, int]] = (),
) -> NetworkRuns:
    """Runs of one arm; arguments as in `chunked_td.simulate.simulate`, `model` names a network configuration."""
    crew = Crew(lambda_source, np.asarray(seeds), np.asarray(step_sizes, np.float64))
    return run_together(
        dynamics,
        [crew],
        model=model,
        learner=learner,
        epsilon=epsilon,
        discount=discount,
        episodes=episodes,
        record_at=record_at,
        probes=probes,
    )[0]


def run_together(
    dynamics: Any,
    crews: Sequence[Crew],
    *,
    model: str,
    learner: str,
    epsilon: float | np.ndarray,
    discount: float,
    episodes: int,
    record_at: Sequence[int],
    probes: Sequence[tuple[int, int]] = (),
    report: Callable[[int], None] | None = None,
) -> list[NetworkRuns]:
    """Runs of several arms as one program; a result for each arm.

    Args:
      crews: λ source, seeds and step sizes of each arm.
      report: called with the number of finished episodes at every record.
    """
    checked = check_settings(
        dynamics, learner, crews[0].lambda_source, "counts", "offline", discount, epsilon, episodes
    )
    world, fleets = _assemble(dynamics, crews, model, checked)
    marks = record_marks(record_at, episodes)
    rows = np.array([s * dynamics.actions + a for s, a in probes], np.int64)
    records: list[list[Any]] = [[] for _ in crews]
    for episode in range(1, episodes + 1):
        for fleet in fleets:
            fleet.roll_out()
        states, actions, policies = (
            np.concatenate([getattr(fleet, name) for fleet in fleets]) for name in ("states", "actions", "policies")
        )
        lambdas = np.asarray(world.episode(states, actions, policies))
        begin = 0
        for fleet, crew in zip(fleets, crews, strict=True):
            fleet.take_lambda(_own(lambdas[begin : begin + fleet.size], crew, len(crews) > 1))
            begin += fleet.size
        if episode == marks[len(records[0])]:
            _record(world, fleets, rows, records)
            if report is not None:
                report(episode)
    return [_result(fleet, found) for fleet, found in zip(fleets, records, strict=True)]


def _assemble(dynamics: Any, crews: Sequence[Crew], model: str, checked: dict[str, Any]) -> tuple[Any, list[Fleet]]:
    """The device's program and the host's fleets. Both compile at the same time."""
    from chunked_td.models.world import World

    expected = {crew.lambda_source.code == EXPECTED for crew in crews}
    if len(expected) > 1:
        raise LabError("arms with and without ExpectedLambda() cannot share a program: run them one after the other")
    config = config_for(model, dynamics)
    seeds = np.concatenate([crew.seeds for crew in crews])
    check_memory(config, dynamics.horizon, len(seeds))
    with ThreadPoolExecutor(1) as pool:
        warm = pool.submit(_warm_up, dynamics, crews, checked)
        world = World(
            config,
            [int(seed) for seed in seeds],
            dynamics.horizon,
            reading=reading_of(crews, checked["learner"]),
            expected=expected.pop(),
            precision=PRECISION,
            merged=False,
        )
        world.compile()
        warm.result()
    fleets = [_fleet(dynamics, crew, checked) for crew in crews]
    world.mark_noisy(np.concatenate([noisy_steps(dynamics, fleet.envs, fleet.size) for fleet in fleets]))
    return world, fleets


def _fleet(dynamics: Any, crew: Crew, checked: dict[str, Any]) -> Fleet:
    return Fleet(
        dynamics,
        learner=checked["learner"],
        lambda_source=crew.lambda_source,
        discount=checked["discount"],
        epsilons=checked["epsilons"],
        seeds=crew.seeds.tolist(),
        step_sizes=crew.step_sizes.tolist(),
    )


def _warm_up(dynamics: Any, crews: Sequence[Crew], checked: dict[str, Any]) -> None:
    """Compile what the fleets will call, with a throw-away run."""
    for crew in crews:
        fleet = _fleet(dynamics, Crew(crew.lambda_source, crew.seeds[:1], crew.step_sizes[:1]), checked)
        fleet.roll_out()
        fleet.take_lambda(np.zeros((1, dynamics.horizon), np.float32))


def reading_of(crews: Sequence[Crew], learner: str) -> str:
    """Which probabilities the device has to give for these arms."""
    if BOOTSTRAPS[learner] == SARSA:
        return "sarsa"
    factored = {crew.lambda_source.code == FACTORED for crew in crews}
    return "both" if len(factored) > 1 else ("factored" if factored.pop() else "expected_sarsa")


def _own(lambdas: np.ndarray, crew: Crew, together: bool) -> np.ndarray:
    """An arm's part of what the device gave: with "both", the components come first and the whole percept last."""
    if not together or lambdas.ndim == 2:
        return lambdas
    return lambdas[..., :-1] if crew.lambda_source.code == FACTORED else lambdas[..., -1]


def check_memory(config: Any, horizon: int, runs: int) -> None:
    """Refuse a batch that cannot fit on the device, before it is begun."""
    import jax

    from chunked_td.models import networks, replay

    device = jax.devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    rows = replay.slots(config.capacity, horizon) * replay.row_width(config) * replay.row_dtype(config).itemsize
    batches = (horizon // config.train_every) * config.batch_size * (len(config.nvec) + config.actions) * 4
    needed = runs * (2 * networks.network_bytes(config) + rows + 3 * batches)
    if limit is not None and needed > 0.9 * limit:
        raise LabError(
            f"{runs} networks need about {needed / 2**30:.1f} GiB, {device.device_kind} has {limit / 2**30:.1f} GiB: "
            f"run fewer seeds at a time (--seeds) or fewer arms (--arms)"
        )
    if device.platform == "cpu" and runs > 64:
        print(f"note: {runs} networks on a CPU are slow; a GPU trains them together (extra: cuda)", file=sys.stderr)


def _record(world: Any, fleets: Sequence[Fleet], rows: np.ndarray, records: list[list[Any]]) -> None:
    """Note where every run stands."""
    seen, broken = world.diagnostics(), world.broken_at
    begin = 0
    for fleet, found in zip(fleets, records, strict=True):
        part = slice(begin, begin + fleet.size)
        begin += fleet.size
        numbers = {
            "loss": seen.loss[part],
            "lambda_predictable": seen.lambda_predictable[part].mean(axis=1),
            "lambda_noisy": seen.lambda_noisy[part].mean(axis=1),
            "broken": (broken[part] > 0).astype(float),
        }
        for k in range(seen.counted.shape[1]):
            numbers[f"calibration_count_{k}"] = seen.counted[part, k]
            numbers[f"calibration_predicted_{k}"] = seen.predicted[part, k]
            numbers[f"calibration_observed_{k}"] = seen.observed[part, k]
        misses = fleet.progress.misses[:, 0].copy()
        returned = fleet.progress.returned[:, 0].copy()
        fleet.progress.returned[:] = 0.0
        probed = fleet.tables.values[:, rows].sum(axis=2)
        found.append((misses, probed, returned, numbers))


def _result(fleet: Fleet, found: Sequence[Any]) -> NetworkRuns:
    misses, probed, returned, numbers = zip(*found, strict=True)
    misses_at = np.stack(misses, axis=1)
    return NetworkRuns(
        misses_at[:, -1],
        misses_at,
        np.stack(probed, axis=1),
        np.stack(returned, axis=1),
        fleet.progress.steps[:, 0].copy(),
        None,
        {name: np.stack([np.asarray(n[name], np.float64) for n in numbers], axis=1) for name in numbers[0]},
    )


__all__ = ["Crew", "NetworkRuns", "run_batch", "run_together"]
