"""Runs with λ from networks: all runs of one or several arms in lockstep, and one program on the device.

Per episode: every run plays (host, compiled), the networks train on its transitions and return predictions (device),
every run computes its λs and learns (host). Arms with the same environment, learner and network share a program,
because the time on the device depends little on the number of networks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from chunked_td._link import COMPILED
from chunked_td._link.cache import elsewhere
from chunked_td.bootstraps import BOOTSTRAPS
from chunked_td.envs.protocol import independent_copy, legal_masks
from chunked_td.lambdas.base import COUNTED, LambdaSource
from chunked_td.learners.count_models import component_parts
from chunked_td.seeding import Draws
from chunked_td.simulation.lockstep import LockstepRuns, turn_many
from chunked_td.simulation.readers import ChanceReader, NumberReader, OutcomeReader
from chunked_td.simulation.simulate import (
    Runs,
    check_settings,
    check_source,
    probe_rows,
    record_marks,
    warn_of_divergence,
)

PRECISION = "tf32"
"""Default precision of matrix products on a GPU; CPUs use float32, and two studies compare both."""

Config = Any
"""A `NetworkConfig`, or a function `config(dynamics)` that returns one; it runs while another process compiles."""

NoisySteps = Callable[[Any, Any, int], np.ndarray]
"""(dynamics, environments of all runs, number of runs) -> bool[B, T]: steps that count as noisy in the diagnostics."""


@dataclass(frozen=True)
class ArmRuns:
    """Runs of one arm: its λ source, and a seed and a step size for each run."""

    lambda_source: LambdaSource
    seeds: np.ndarray
    step_sizes: np.ndarray


def run_together(
    dynamics: Any,
    arms: Sequence[ArmRuns],
    *,
    config: Config,
    learner: str,
    epsilon: float | np.ndarray,
    discount: float,
    episodes: int,
    record_at: Sequence[int],
    probes: Sequence[tuple[int, int]] = (),
    noisy_steps: NoisySteps | None = None,
    precision: str = PRECISION,
    report: Callable[[int], None] | None = None,
) -> list[Runs]:
    """Run several arms as one program, or as several if they do not fit on the device; return a result for each arm.

    Other arguments: as in `chunked_td.simulation.simulate`.

    Args:
      arms: λ source, seeds and step sizes of each arm.
      precision: of matrix products on a GPU, one of `chunked_td.models.neural.world.PRECISIONS`.
      report: called at every record with the number of finished episodes.
    """
    settings = check_settings(
        dynamics, learner, arms[0].lambda_source, "counts", "offline", discount, epsilon, episodes
    )
    check_source(settings["lambda_source"])
    question = question_of([arm.lambda_source for arm in arms], learner, dynamics)
    marks = record_marks(record_at, episodes)
    rows = probe_rows(dynamics, learner, probes)

    def run(arms: Sequence[ArmRuns]) -> list[Runs]:
        world, lockstep = _assemble(dynamics, arms, config, question, settings, precision)
        if noisy_steps is not None:
            world.mark_noisy(noisy_steps(dynamics, lockstep.envs, lockstep.size))
        records = _train(world, lockstep, dynamics, marks, rows, report)
        bounds = np.cumsum([0, *(len(arm.seeds) for arm in arms)])
        parts = [slice(first, last) for first, last in pairwise(bounds)]
        for arm, part in zip(arms, parts, strict=True):
            lost = lockstep.diverged[part], lockstep.watch[part]
            warn_of_divergence(*lost, arm.seeds, arm.step_sizes, arm.lambda_source)
        return [_result(lockstep, records, part) for part in parts]

    try:
        return run(arms)
    except NoRoom as problem:
        if problem.fit < 1:
            raise
        print(f"note: {problem}; running {problem.fit} at a time", file=sys.stderr)
        fit = problem.fit
    found: list[list[Runs]] = [[] for _ in arms]
    for portion in portions([len(arm.seeds) for arm in arms], fit):
        parts = [
            ArmRuns(arms[i].lambda_source, arms[i].seeds[part], arms[i].step_sizes[part]) for i, part in portion.items()
        ]
        for i, runs in zip(portion, run(parts), strict=True):
            found[i].append(runs)
    return [_joined(parts) for parts in found]


def portions(sizes: Sequence[int], most: int) -> list[dict[int, slice]]:
    """Split arms of these sizes into programs of at most `most` runs: {arm: slice of its runs} for each program."""
    bounds = np.cumsum([0, *sizes])
    result = []
    for first in range(0, int(bounds[-1]), most):
        last = min(first + most, int(bounds[-1]))
        inside = [(i, max(first, low) - low, min(last, high) - low) for i, (low, high) in enumerate(pairwise(bounds))]
        result.append({i: slice(int(low), int(high)) for i, low, high in inside if low < high})
    return result


def _joined(parts: Sequence[Runs]) -> Runs:
    """Concatenate runs of one arm from several programs."""
    names = ("misses", "misses_at", "probes_at", "returns_at", "steps", "diverged")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    numbers = {name: np.concatenate([part.diagnostics[name] for part in parts]) for name in parts[0].diagnostics}
    return Runs(**arrays, values=None, diagnostics=numbers)


def _train(
    world: Any,
    lockstep: LockstepRuns,
    dynamics: Any,
    marks: Sequence[int],
    rows: np.ndarray,
    report: Callable[[int], None] | None,
) -> list[Any]:
    """Play to the last of `marks`; return a record for each mark."""
    records: list[Any] = []
    lockstep.roll_out()
    for episode in range(1, marks[-1] + 1):
        if ((lockstep.lengths != dynamics.horizon) & (lockstep.diverged < 0)).any():
            lengths = sorted(set(lockstep.lengths.tolist()))
            raise ValueError(f"networks in lockstep need episodes of length {dynamics.horizon}, got lengths {lengths}")
        answer = world.episode(lockstep.states, lockstep.actions, lockstep.policies)
        answer.copy_to_host_async()
        due = episode == marks[len(records)]
        lockstep.learn(np.asarray(answer), roll_on=not due)
        if due:
            records.append(_record(world, lockstep, rows, episode))
            if report is not None:
                report(episode)
            if episode < marks[-1]:
                lockstep.roll_out()
    return records


@dataclass(frozen=True)
class Question:
    """Numbers that the device computes for some arms, and the column for each arm.

    Attributes:
      name, expected, groups, only_taken: of a `chunked_td.lambdas.on_device.Reading`.
      whole: column of the number for the whole percept, for arms with one λ.
    """

    name: str
    expected: bool = False
    groups: tuple[tuple[int, ...], ...] | None = None
    only_taken: bool = False
    whole: int = 0


_NUMBERS = {
    "chance": ("sarsa", False),
    "mixture": ("expected_sarsa", False),
    "overlap": ("sarsa", True),
    "mean_overlap": ("mean", True),
    "expected_mixture": ("expected_sarsa", True),
    "expected_choice": ("sarsa", True),
}
"""Questions that a network answers by one number where it runs: name, and whether it is expected before the step."""


def number_asked(source: LambdaSource, bootstrap: int) -> tuple[str, bool] | None:
    """The one number that answers a source; None where the network hands out the probabilities themselves.

    A formula from outside the package gets the probabilities: it may ask about several actions.
    """
    asked = source.asks(bootstrap)
    formula = next(cls for cls in type(source).__mro__ if "lambda_t" in vars(cls))
    if len(asked) != 1 or not formula.__module__.startswith("chunked_td."):
        return None
    if source.per_component:
        return ("factored", False) if asked == ("mixture",) else None
    return _NUMBERS.get(asked[0])


def question_of(sources: Sequence[LambdaSource], learner: str, dynamics: Any) -> Question:
    """The `Question` that all these λ sources share; a ValueError if there is none."""
    bootstrap = BOOTSTRAPS[learner]
    inputs = [source.inputs(bootstrap) for source in sources]
    for source in sources:
        if source.learns:
            raise ValueError(
                f"lambda_source must not learn between steps with networks in lockstep, where λ is computed after the "
                f"episode, got {source!r}; use counts or the true model, or a NeuralModel in agent.learn"
            )
    if any(one & COUNTED for one in inputs):
        raise ValueError(
            f"lambda_source must need only predictions of the next state with networks, got {sources}, which ask "
            f"{[source.asks(bootstrap) for source in sources]}; use counts"
        )
    questions = {number_asked(source, bootstrap) for source in sources}
    questions |= {None for one in inputs if "legal" in one and _has_choices(dynamics)}
    parts = {_groups(source, dynamics) for source in sources if source.per_component}
    if len(parts) > 1:
        raise ValueError("lambda_source: arms with different components cannot share a program; run them separately")
    groups = parts.pop() if parts else None
    if None not in questions:
        names, expected = {name for name, _ in questions}, {flag for _, flag in questions}  # type: ignore[misc]
        whole = {getattr(source, "policy_noise", True) for source in sources if not source.per_component}
        if len(expected) == 1 and len(names) == 1 and len(whole) <= 1:  # runs with one λ share one formula
            return Question(names.pop(), expected.pop(), groups)
        if expected == {False} and names == {"factored", "expected_sarsa"}:
            return Question("both", False, groups, whole=dynamics.n_rewards)
    if len(set(sources)) > 1:
        raise ValueError(f"lambda_source: {sources} need different predictions; run these arms separately")
    every, realised = inputs[0] & {"overlaps", "outcomes"}, inputs[0] & {"outcome", "parts"}
    if every and realised:
        raise ValueError(
            f"lambda_source must need the sampled next state or all possible ones with networks, not both, got "
            f"{sources[0]!r}"
        )
    if not every and not realised:
        raise ValueError(f"lambda_source must need a model with networks, got {sources[0]!r}, which needs none")
    return Question("outcomes" if every else "chances", only_taken=bool(every) and "policy" not in inputs[0])


def can_share(sources: Sequence[LambdaSource], learner: str, dynamics: Any) -> bool:
    """Whether arms with these λ sources can run as one program."""
    try:
        question_of(sources, learner, dynamics)
    except ValueError:
        return False
    return True


def _has_choices(dynamics: Any) -> bool:
    """Whether a state after the first has several legal actions in one of three random episodes."""
    env, rng, masks = independent_copy(dynamics), np.random.default_rng(0), legal_masks(dynamics)
    stream = Draws.of(np.random.SeedSequence(0)).stream
    state, reward = np.zeros(len(dynamics.nvec), np.int64), np.zeros(dynamics.n_rewards)
    if hasattr(env, "prepare"):
        env.prepare(env, stream)
    for _ in range(3):
        env.reset(env, stream, state)
        legal = np.flatnonzero(masks[env.legal(env, state)])
        for _ in range(dynamics.horizon):
            if env.step(env, stream, state, int(rng.choice(legal)), reward):
                break
            legal = np.flatnonzero(masks[env.legal(env, state)])
            if legal.size > 1:
                return True
    return False


def _groups(source: LambdaSource, dynamics: Any) -> tuple[tuple[int, ...], ...] | None:
    """State components that determine each reward; None if reward i belongs to component i."""
    table = component_parts(source, dynamics.n_rewards, len(dynamics.nvec))
    groups = tuple(tuple(np.flatnonzero(row).tolist()) for row in table)
    return None if groups == tuple((i,) for i in range(len(dynamics.nvec))) else groups


def _assemble(
    dynamics: Any, arms: Sequence[ArmRuns], config: Config, question: Question, settings: dict[str, Any], precision: str
) -> tuple[Any, LockstepRuns]:
    """Program of the device and runs of the host. They compile at the same time, each in its own process."""
    seeds = np.concatenate([arm.seeds for arm in arms])
    first = {**settings, "epsilons": settings["epsilons"][:1]}
    one_each = [ArmRuns(arm.lambda_source, arm.seeds[:1], arm.step_sizes[:1]) for arm in arms]
    with _elsewhere(warm_up, dynamics, one_each, config, question, first):
        from chunked_td.lambdas.on_device import Reading
        from chunked_td.models.neural.world import World

        config = _resolved(config, dynamics)
        check_memory(config, dynamics.horizon, len(seeds))
        reading = Reading(question.name, question.expected, question.groups, question.only_taken)
        numbers = [int(seed) for seed in seeds]
        world = World(config, numbers, dynamics.horizon, reading=reading, precision=precision)
        world.compile()
        lockstep = _lockstep(dynamics, arms, config, question, settings)
    return world, lockstep


def _resolved(config: Config, dynamics: Any) -> Any:
    return config(dynamics) if callable(config) else config


def _lockstep(
    dynamics: Any, arms: Sequence[ArmRuns], config: Config, question: Question, settings: dict[str, Any]
) -> LockstepRuns:
    sources = [arm.lambda_source for arm in arms]
    whole = next((source for source in sources if not source.per_component), sources[0])
    parts = next((source for source in sources if source.per_component), None)
    reader: Any = NumberReader()
    if question.name in ("chances", "outcomes"):
        config = _resolved(config, dynamics)
    if question.name == "chances":
        reader = ChanceReader.make(len(config.nvec), config.actions)
    elif question.name == "outcomes":
        reader = OutcomeReader.make(config, question.only_taken)
    return LockstepRuns(
        dynamics,
        learner=settings["learner"],
        lambda_source=whole,
        part_source=parts,
        discount=settings["discount"],
        epsilons=settings["epsilons"],
        seeds=np.concatenate([arm.seeds for arm in arms]).tolist(),
        step_sizes=np.concatenate([arm.step_sizes for arm in arms]).tolist(),
        reader=reader,
        columns=[-1 if arm.lambda_source.per_component else question.whole for arm in arms for _ in arm.seeds],
    )


def warm_up(
    dynamics: Any, arms: Sequence[ArmRuns], config: Config, question: Question, settings: dict[str, Any]
) -> None:
    """Compile the kernels of the runs into the cache on disk, with a throw-away run."""
    _lockstep(dynamics, arms, config, question, settings).roll_out()


def _elsewhere(work: Callable[..., None], dynamics: Any, *arguments: Any) -> AbstractContextManager[Any]:
    """Call `work` in another process during the `with` block; a thread would compete with JAX for Python's lock.

    It is called once per process: compiled kernels stay in memory.
    """
    known = turn_many in _WARM or not COMPILED or not type(dynamics).__module__.startswith("chunked_td.")
    _WARM.add(turn_many)
    return nullcontext() if known else elsewhere(work, dynamics, *arguments)


_WARM: set[Any] = set()
"""Entries that this process has compiled already, or is about to."""


class NoRoom(MemoryError):
    """Error of a program that does not fit on the device; `fit` networks do."""

    def __init__(self, message: str, fit: int) -> None:
        super().__init__(message)
        self.fit = fit


def check_memory(config: Config, horizon: int, runs: int) -> None:
    """Raise NoRoom before the start of a program that does not fit on the device."""
    import jax

    from chunked_td.models.neural import replay

    device = jax.devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    rows = replay.slots(config.capacity, horizon) * replay.row_width(config) * replay.row_dtype(config).itemsize
    batches = (horizon // config.train_every) * config.batch_size * (len(config.nvec) + config.actions) * 4
    network = 4 * 4 * config.parameters  # parameters, gradient and two moments in float32
    each = 2 * network + rows + 3 * batches
    if limit is not None and runs * each > 0.9 * limit:
        raise NoRoom(
            f"{runs} networks need about {runs * each / 2**30:.1f} GiB, {device.device_kind} has "
            f"{limit / 2**30:.1f} GiB",
            int(0.9 * limit / each),
        )
    if device.platform == "cpu" and runs > 64:
        print(f"note: {runs} networks on a CPU are slow; a GPU trains them together (extra: cuda)", file=sys.stderr)


def _record(world: Any, lockstep: LockstepRuns, rows: np.ndarray, episode: int) -> tuple[Any, ...]:
    """Record of every run: misses, probed values, returns, and diagnostics of its network since the last record.

    Runs that diverged count as in `Runs`: a miss for every episode not played, NaN for the other numbers.
    """
    seen = world.diagnostics()
    numbers = {
        "loss": seen.loss,
        "lambda_predictable": _mean_lambda(seen.lambda_predictable, lockstep.columns),
        "lambda_noisy": _mean_lambda(seen.lambda_noisy, lockstep.columns),
        "broken": world.broken_at.astype(float),
    }
    for k in range(seen.counted.shape[1]):
        numbers[f"calibration_count_{k}"] = seen.counted[:, k]
        numbers[f"calibration_predicted_{k}"] = seen.predicted[:, k]
        numbers[f"calibration_observed_{k}"] = seen.observed[:, k]
    misses, returned = lockstep.totals.misses[:, 0].copy(), lockstep.totals.returned[:, 0].copy()
    lockstep.totals.returned[:] = 0.0
    probed, lost = lockstep.values[:, rows].sum(axis=2), lockstep.diverged >= 0
    misses[lost] += episode - 1 - lockstep.diverged[lost]
    probed[lost], returned[lost] = np.nan, np.nan
    return misses, probed, returned, numbers


def _mean_lambda(lambdas: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """float[B]: the λ of each run; if it has one per component, their mean."""
    each = lambdas if columns.max() < 1 else lambdas[:, :-1]
    return np.where(columns < 0, each.mean(axis=1), lambdas[np.arange(len(columns)), np.maximum(columns, 0)])


def _result(lockstep: LockstepRuns, records: Sequence[Any], part: slice) -> Runs:
    """Results of the runs of one arm."""
    misses, probed, returned, numbers = zip(*records, strict=True)
    misses_at = np.stack(misses, axis=1)[part]
    return Runs(
        misses_at[:, -1],
        misses_at,
        np.stack(probed, axis=1)[part],
        np.stack(returned, axis=1)[part],
        lockstep.totals.steps[part, 0].copy(),
        None,
        lockstep.diverged[part].copy(),
        diagnostics={
            name: np.stack([np.asarray(n[name], np.float64) for n in numbers], axis=1)[part] for name in numbers[0]
        },
    )


__all__ = ["ArmRuns", "NoRoom", "can_share", "run_together"]
