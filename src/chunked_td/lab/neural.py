"""Network arms: all runs of one or several arms as one fleet on the host and one program on the device.

Per episode: every run plays (host, compiled), the networks train on what each has seen and give λ (device), every
run learns (host). Arms that share environment, learner and network travel together: the device takes hardly longer
for more networks.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from chunked_td.compiled import code
from chunked_td.fleet import Fleet, turn_many
from chunked_td.lab.errors import LabError
from chunked_td.lambdas import EXPECTED, FACTORED, SARSA, ForwardLambda, LambdaSource
from chunked_td.learners.setup import component_groups
from chunked_td.run import BOOTSTRAPS, compiled_for
from chunked_td.simulate import check_settings, record_marks

PRECISION = "tf32"
"""Of matrix products on a GPU, unless told; `results/README.md` says what that does to results. CPUs use float32."""


@dataclass(frozen=True)
class NetworkRuns:
    """What `chunked_td.simulate.Runs` has, of runs whose λ came from networks, and how the networks did.

    Attributes:
      diagnostics: float64[R, K] each: training loss, λ on predictable and on noisy steps, calibration by tenths of
        predicted probability (`calibration_count_3`, `calibration_predicted_3`, `calibration_observed_3` hold the
        predictions between 0.3 and 0.4), and `broken`, the transition at which the run's loss was not finite and
        the run was stopped, 0 for none.
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


Config = Any
"""A `NetworkConfig`, or a function `config(dynamics)` that gives one: it is called while Numba compiles elsewhere."""

NoisySteps = Callable[[Any, Any, int], np.ndarray]
"""`noisy_steps(dynamics, envs, runs)` gives bool[runs, T]: transitions whose outcome is random, for the diagnostics."""


def can_share(sources: Sequence[LambdaSource]) -> bool:
    """Whether arms with these λ sources can run as one program.

    They can if all are equal, or if each is ForwardLambda() or one and the same FactoredLambda: then the device reads
    off the probability of the whole percept beside those of its components.
    """
    different = {source for source in sources if source != ForwardLambda()}
    together = ForwardLambda() in sources
    return len(different) <= 1 and (not together or all(source.code == FACTORED for source in different))


def run_batch(
    dynamics: Any,
    *,
    config: Config,
    noisy_steps: NoisySteps | None = None,
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
    """Runs of one arm; arguments as in `chunked_td.simulate.simulate` and `run_together`."""
    crew = Crew(lambda_source, np.asarray(seeds), np.asarray(step_sizes, np.float64))
    return run_together(
        dynamics,
        [crew],
        config=config,
        noisy_steps=noisy_steps,
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
    config: Config,
    noisy_steps: NoisySteps | None = None,
    learner: str,
    epsilon: float | np.ndarray,
    discount: float,
    episodes: int,
    record_at: Sequence[int],
    probes: Sequence[tuple[int, int]] = (),
    precision: str = PRECISION,
    report: Callable[[int], None] | None = None,
) -> list[NetworkRuns]:
    """Runs of several arms as one program, or as several where the device has no room; a result for each arm.

    Args:
      crews: λ source, seeds and step sizes of each arm.
      config: the network, see `Config`.
      noisy_steps: which steps are noisy, see `NoisySteps`; None: none are.
      precision: of matrix products on a GPU, one of `chunked_td.models.world.PRECISIONS`.
      report: called with the number of finished episodes at every record.
    """
    checked = check_settings(
        dynamics, learner, crews[0].lambda_source, "counts", "offline", discount, epsilon, episodes
    )
    marks = record_marks(record_at, episodes)
    rows = np.array([s * dynamics.actions + a for s, a in probes], np.int64)

    def run(crews: Sequence[Crew]) -> list[NetworkRuns]:
        world, fleet = _assemble(dynamics, crews, config, noisy_steps, checked, precision)
        records = _train(world, fleet, dynamics, marks, rows, report)
        bounds = np.cumsum([0, *(len(crew.seeds) for crew in crews)])
        return [_result(fleet, records, slice(first, last)) for first, last in pairwise(bounds)]

    try:
        return run(crews)
    except NoRoom as problem:
        if problem.fit < 1:
            raise
        print(f"note: {problem}; {problem.fit} at a time, then", file=sys.stderr)
        fit = problem.fit
    found: list[list[NetworkRuns]] = [[] for _ in crews]
    for portion in portions([len(crew.seeds) for crew in crews], fit):
        parts = [
            Crew(crews[i].lambda_source, crews[i].seeds[part], crews[i].step_sizes[part]) for i, part in portion.items()
        ]
        for i, runs in zip(portion, run(parts), strict=True):
            found[i].append(runs)
    return [_joined(parts) for parts in found]


def portions(sizes: Sequence[int], most: int) -> list[dict[int, slice]]:
    """Arms of these sizes cut into programs of at most `most` runs: which part of which arm is in each."""
    bounds = np.cumsum([0, *sizes])
    result = []
    for first in range(0, int(bounds[-1]), most):
        last = min(first + most, int(bounds[-1]))
        inside = [(i, max(first, low) - low, min(last, high) - low) for i, (low, high) in enumerate(pairwise(bounds))]
        result.append({i: slice(int(low), int(high)) for i, low, high in inside if low < high})
    return result


def _joined(parts: Sequence[NetworkRuns]) -> NetworkRuns:
    """Runs of one arm that came from several programs."""
    names = ("misses", "misses_at", "probes_at", "returns_at", "steps")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    numbers = {name: np.concatenate([part.diagnostics[name] for part in parts]) for name in parts[0].diagnostics}
    return NetworkRuns(**arrays, values=None, diagnostics=numbers)


def _train(
    world: Any,
    fleet: Fleet,
    dynamics: Any,
    marks: Sequence[int],
    rows: np.ndarray,
    report: Callable[[int], None] | None,
) -> list[Any]:
    """Play up to the last of `marks`; a record at each."""
    records: list[Any] = []
    fleet.roll_out()
    if fleet.squared and code(fleet.rule.bootstrap) == SARSA and fleet.has_choices():
        raise LabError("ExpectedLambda() with SARSA and networks needs states without a choice after the first")
    for episode in range(1, marks[-1] + 1):
        if (fleet.memory.length != dynamics.horizon).any():
            raise LabError(f"network arms need episodes of one length, {dynamics.horizon}; this environment's differ")
        answer = world.episode(fleet.states, fleet.actions, fleet.policies)
        answer.copy_to_host_async()
        due = episode == marks[len(records)]
        if not due:
            fleet.draw_ahead()  # while the device is at work
        fleet.take_lambda(np.asarray(answer), roll_on=not due)
        if due:
            records.append(_record(world, fleet, rows))
            if report is not None:
                report(episode)
            if episode < marks[-1]:
                fleet.roll_out()
    return records


def _assemble(
    dynamics: Any,
    crews: Sequence[Crew],
    config: Config,
    noisy_steps: NoisySteps | None,
    checked: dict[str, Any],
    precision: str,
) -> tuple[Any, Fleet]:
    """The device's program and the host's fleet. Both compile at the same time, in a process each."""
    expected = {crew.lambda_source.code == EXPECTED for crew in crews}
    if len(expected) > 1:
        raise LabError("arms with and without ExpectedLambda() cannot share a program: run them one after the other")
    reading, groups = reading_of(crews, checked["learner"]), groups_of(crews, dynamics)
    seeds = np.concatenate([crew.seeds for crew in crews])
    with _elsewhere(warm_up, dynamics, crews[0], {**checked, "epsilons": checked["epsilons"][:1]}):
        from chunked_td.models.world import World

        config = config(dynamics) if callable(config) else config
        check_memory(config, dynamics.horizon, len(seeds))
        world = World(
            config,
            [int(seed) for seed in seeds],
            dynamics.horizon,
            reading=reading,
            expected=expected.pop(),
            precision=precision,
            groups=groups,
        )
        world.compile()
        fleet = _fleet(dynamics, crews, reading, checked)
    shape = (fleet.size, dynamics.horizon)
    world.mark_noisy(np.zeros(shape, bool) if noisy_steps is None else noisy_steps(dynamics, fleet.envs, fleet.size))
    return world, fleet


def groups_of(crews: Sequence[Crew], dynamics: Any) -> tuple[tuple[int, ...], ...] | None:
    """Which state components decide each reward, for the arms with a λ per reward; None where it is one each."""
    found = set()
    for crew in crews:
        if crew.lambda_source.code == FACTORED:
            table = component_groups(crew.lambda_source, dynamics.rewards, len(dynamics.nvec))
            found.add(tuple(tuple(np.flatnonzero(row).tolist()) for row in table))
    if len(found) > 1:
        raise LabError("arms with different components of FactoredLambda() cannot share a program")
    alone = tuple((i,) for i in range(len(dynamics.nvec)))
    groups = found.pop() if found else alone
    return None if groups == alone else groups


def _fleet(dynamics: Any, crews: Sequence[Crew], reading: str, checked: dict[str, Any]) -> Fleet:
    return Fleet(
        dynamics,
        learner=checked["learner"],
        lambda_source=crews[0].lambda_source,
        discount=checked["discount"],
        epsilons=checked["epsilons"],
        seeds=np.concatenate([crew.seeds for crew in crews]).tolist(),
        step_sizes=np.concatenate([crew.step_sizes for crew in crews]).tolist(),
        columns=[_column(crew, reading, dynamics) for crew in crews for _ in crew.seeds],
    )


def _column(crew: Crew, reading: str, dynamics: Any) -> int:
    """Where an arm finds its λ in what the device gives: one per reward (−1), or the whole percept's, last."""
    if crew.lambda_source.code == FACTORED:
        return -1
    return dynamics.rewards if reading == "both" else 0


def warm_up(dynamics: Any, crew: Crew, checked: dict[str, Any]) -> None:
    """Compile what the fleet will call, into the cache on disk, with a throw-away run."""
    fleet = _fleet(dynamics, [Crew(crew.lambda_source, crew.seeds[:1], crew.step_sizes[:1])], "", checked)
    fleet.roll_out()


@contextmanager
def _elsewhere(work: Callable[..., None], dynamics: Any, *arguments: Any) -> Iterator[None]:
    """Call `work` in a process of its own meanwhile; a thread would fight JAX for the interpreter's lock.

    For work that saves time and that nothing depends on: if it cannot be done there, it is not done. The code of an
    environment that is not ours is not kept on disk, and what this process has compiled it need not look up.
    """
    try:
        letter = pickle.dumps((work, (dynamics, *arguments)))
    except Exception:
        letter = b""
    if not letter or compiled_for(dynamics, turn_many) is not turn_many or getattr(turn_many, "signatures", True):
        yield
        return
    command = "import pickle, sys; work, arguments = pickle.load(sys.stdin.buffer); work(*arguments)"
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, **quiet) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(letter)
        try:
            yield
        except BaseException:
            process.kill()
            raise


def reading_of(crews: Sequence[Crew], learner: str) -> str:
    """Which probabilities the device has to give for these arms."""
    if BOOTSTRAPS[learner] == SARSA:
        return "sarsa"
    factored = {crew.lambda_source.code == FACTORED for crew in crews}
    return "both" if len(factored) > 1 else ("factored" if factored.pop() else "expected_sarsa")


class NoRoom(LabError):
    """A program that the device has no room for; `fit` is how many networks it has room for."""

    def __init__(self, message: str, fit: int) -> None:
        super().__init__(message)
        self.fit = fit


def check_memory(config: Any, horizon: int, runs: int) -> None:
    """Refuse a program that cannot fit on the device, before it is begun."""
    import jax

    from chunked_td.models import networks, replay

    device = jax.devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    rows = replay.slots(config.capacity, horizon) * replay.row_width(config) * replay.row_dtype(config).itemsize
    batches = (horizon // config.train_every) * config.batch_size * (len(config.nvec) + config.actions) * 4
    each = 2 * networks.network_bytes(config) + rows + 3 * batches
    if limit is not None and runs * each > 0.9 * limit:
        raise NoRoom(
            f"{runs} networks need about {runs * each / 2**30:.1f} GiB, {device.device_kind} has "
            f"{limit / 2**30:.1f} GiB",
            int(0.9 * limit / each),
        )
    if device.platform == "cpu" and runs > 64:
        print(f"note: {runs} networks on a CPU are slow; a GPU trains them together (extra: cuda)", file=sys.stderr)


def _record(world: Any, fleet: Fleet, rows: np.ndarray) -> tuple[Any, ...]:
    """Where every run stands: misses, probed values, returns, and how its network did since the last record."""
    seen = world.diagnostics()
    numbers = {
        "loss": seen.loss,
        "lambda_predictable": _mean_lambda(seen.lambda_predictable, fleet.columns),
        "lambda_noisy": _mean_lambda(seen.lambda_noisy, fleet.columns),
        "broken": world.broken_at.astype(float),
    }
    for k in range(seen.counted.shape[1]):
        numbers[f"calibration_count_{k}"] = seen.counted[:, k]
        numbers[f"calibration_predicted_{k}"] = seen.predicted[:, k]
        numbers[f"calibration_observed_{k}"] = seen.observed[:, k]
    misses, returned = fleet.progress.misses[:, 0].copy(), fleet.progress.returned[:, 0].copy()
    fleet.progress.returned[:] = 0.0
    return misses, fleet.tables.values[:, rows].sum(axis=2), returned, numbers


def _mean_lambda(lambdas: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """float[B]: the λ that each run uses, averaged over components where it uses one each."""
    each = lambdas if columns.max() < 1 else lambdas[:, :-1]
    return np.where(columns < 0, each.mean(axis=1), lambdas[np.arange(len(columns)), np.maximum(columns, 0)])


def _result(fleet: Fleet, records: Sequence[Any], part: slice) -> NetworkRuns:
    """The runs of one arm."""
    misses, probed, returned, numbers = zip(*records, strict=True)
    misses_at = np.stack(misses, axis=1)[part]
    return NetworkRuns(
        misses_at[:, -1],
        misses_at,
        np.stack(probed, axis=1)[part],
        np.stack(returned, axis=1)[part],
        fleet.progress.steps[part, 0].copy(),
        None,
        {name: np.stack([np.asarray(n[name], np.float64) for n in numbers], axis=1)[part] for name in numbers[0]},
    )


__all__ = ["Crew", "NetworkRuns", "run_batch", "run_together"]
