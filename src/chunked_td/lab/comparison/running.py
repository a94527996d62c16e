"""Where the runs of a comparison execute.

`CompiledRuns` plays whole runs without Python, for environments whose dynamics are known (`chunked_td.dynamics_of`).
`GymnasiumRuns` plays in worker processes, for all others. For this package's environments both give the same episodes;
for others the compiled ones have the same distribution, not the same course.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, TypeVar

import numpy as np

from chunked_td.lab.comparison.arms import ComparisonSettings, LearnerArm
from chunked_td.lab.gym_environments import make_environment

T = TypeVar("T")


@dataclass(frozen=True)
class ArmRuns:
    """Runs that are asked for: an arm with some step sizes."""

    arm: LearnerArm
    step_sizes: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """An arm with one step size.

    Attributes:
      means: float64[seeds, checkpoints], mean return since the last checkpoint; NaN once a run has diverged.
      diverged: bool[seeds].
      lambdas: float64[seeds, checkpoints], mean λ since the last checkpoint; NaN where no step had one.
    """

    means: np.ndarray
    diverged: np.ndarray
    lambdas: np.ndarray


def runs_for(settings: ComparisonSettings) -> CompiledRuns | GymnasiumRuns:
    """Compiled runs where possible."""
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    try:
        reason = _why_not(settings)
        if reason:
            return GymnasiumRuns(settings, reason)
        try:
            return CompiledRuns(settings, _dynamics(env, settings))
        except (ValueError, TypeError) as problem:
            return GymnasiumRuns(settings, str(problem))
    finally:
        env.close()


def _why_not(settings: ComparisonSettings) -> str:
    if not settings.compiled:
        return "asked for by --no-compiled"
    if settings.wrappers or settings.bins or settings.indexer:
        return "wrappers, bins and indexers are not part of the compiled dynamics"
    if settings.reward_weights:
        return "compiled runs take no weights of reward components"
    return "" if settings.step_size_schedule is None else "compiled runs take no schedule of step sizes"


def _dynamics(env: Any, settings: ComparisonSettings) -> Any:
    """Compiled dynamics; with the legal actions of Gymnasium's action mask, where that is to be obeyed."""
    from chunked_td import TransitionTable, dynamics_of

    _, info = env.reset(seed=0)
    inner = env.unwrapped
    own = getattr(inner, "dynamics", None) is not None
    if own and "action_mask" in info and not settings.action_mask:
        raise ValueError("its compiled dynamics offer legal actions only, and the mask is to be ignored")
    if own or not ("action_mask" in info and settings.action_mask):
        return dynamics_of(env, horizon=settings.max_steps)
    if not callable(getattr(inner, "action_mask", None)):
        raise ValueError("the environment does not tell the action mask of every state")
    legal = np.array([inner.action_mask(state) for state in range(int(inner.observation_space.n))], bool)
    return TransitionTable.from_env(env, legal=legal)


class CompiledRuns:
    """Whole runs in compiled code, in threads."""

    seeds = 20

    def __init__(self, settings: ComparisonSettings, dynamics: Any):
        self.settings, self.dynamics = settings, dynamics
        self.kinds: list[str] = []

    def describe(self) -> str:
        """Where runs execute, and what that means."""
        return "the environment's dynamics are known: runs are compiled. Episodes have the distribution of Gymnasium's"

    def check(self, jobs: Sequence[ArmRuns]) -> str:
        """Wrong settings fail here, before anything is run. What the first run on a machine has to wait for."""
        from chunked_td.simulation.simulate import check_runs

        for job in jobs:
            check_runs(0, list(job.step_sizes))
        self.kinds = _kinds(jobs)
        return f"{len(self.kinds)} combinations to compile, some seconds each, once per machine"

    def run(self, jobs: Sequence[ArmRuns], seeds: int) -> Iterator[dict[float, Curves]]:
        """The curves of every job, by step size."""
        from chunked_td._numba.caching import NOTICE

        kinds = self.kinds or _kinds(jobs)
        for job in _shown(jobs, "arms", len(jobs)):
            place = f"{kinds.index(job.arm.kind) + 1} of {len(kinds)}"
            with NOTICE.calling(f"{place}: {job.arm.kind}"):
                curves = _interruptible(lambda job=job: self._run(job, seeds))
            yield curves

    def _run(self, job: ArmRuns, seeds: int) -> dict[float, Curves]:
        from chunked_td.learners.divergence import DivergenceWarning
        from chunked_td.learners.schedule import over_episodes
        from chunked_td.simulation.simulate import simulate

        settings, marks = self.settings, self.settings.marks
        epsilon = None if settings.epsilon is None else over_episodes(settings.epsilon, settings.episodes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)
            found = simulate(
                self.dynamics,
                learner=job.arm.bootstrap,
                lambda_source=job.arm.lambda_source,
                planner=job.arm.planner,
                step_sizes=np.repeat(job.step_sizes, seeds),
                seeds=np.tile(np.arange(seeds), len(job.step_sizes)),
                epsilon=epsilon,
                exploration=settings.exploration,
                discount=settings.discount,
                episodes=settings.episodes,
                record_at=marks.tolist(),
                view="traces",
                initial_value=settings.initial_value,
                keep_lambda=True,
            )
        assert found.lambda_at is not None
        shape = len(job.step_sizes), seeds, marks.size
        means, lambdas = (found.returns_at / np.diff(marks, prepend=0)).reshape(shape), found.lambda_at.reshape(shape)
        lost = (found.diverged >= 0).reshape(shape[:2])
        return {size: Curves(*of) for size, *of in zip(job.step_sizes, means, lost, lambdas, strict=True)}


def _kinds(jobs: Sequence[ArmRuns]) -> list[str]:
    """What is compiled for some runs, in order."""
    return list(dict.fromkeys(job.arm.kind for job in jobs))


class GymnasiumRuns:
    """Runs in as many processes as there are cores, step by step in Python."""

    seeds = 10

    def __init__(self, settings: ComparisonSettings, reason: str):
        self.settings, self.reason = settings, reason

    def describe(self) -> str:
        """Where runs execute, and why."""
        return f"runs are played step by step in {os.cpu_count()} processes, not compiled: {self.reason}"

    def check(self, jobs: Sequence[ArmRuns]) -> str:
        """Wrong settings fail here, once, with a clear message. Nothing to say of what the runs wait for."""
        for job in jobs:
            for size in job.step_sizes:
                _environment_and_agent(_Job(self.settings, job.arm, size, 0))[0].close()
        return ""

    def run(self, jobs: Sequence[ArmRuns], seeds: int) -> Iterator[dict[float, Curves]]:
        """The curves of every job, by step size."""
        single = [
            _Job(self.settings, job.arm, size, seed) for job in jobs for size in job.step_sizes for seed in range(seeds)
        ]
        found = iter(_run_jobs(single))
        for job in jobs:
            curves: dict[float, Curves] = {}
            for size in job.step_sizes:
                rows = [next(found) for _ in range(seeds)]
                curves[size] = Curves(*map(np.array, zip(*rows, strict=True)))
            yield curves


@dataclass(frozen=True)
class _Job:
    """One run."""

    settings: ComparisonSettings
    arm: LearnerArm
    step_size: float
    seed: int


def _environment_and_agent(job: _Job) -> tuple[Any, Any]:
    settings = job.settings
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    return env, job.arm.agent(env, settings, job.step_size, job.seed)


def _one_run(job: _Job) -> tuple[np.ndarray, bool, np.ndarray]:
    """Mean return per checkpoint, NaN from where learning diverged; whether it did; mean λ per checkpoint."""
    from chunked_td.learners.divergence import DivergenceWarning
    from chunked_td.learners.loop import train

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        warnings.filterwarnings("ignore", module="gymnasium")  # `check` has shown them once; here, every run would
        env, agent = _environment_and_agent(job)
        watch = _LambdaWatch(agent, job.settings.marks)
        history = train(agent, env, job.settings.episodes, progress=False, watch=watch)
    env.close()
    marks = job.settings.marks
    returns = np.full(job.settings.episodes, np.nan)
    lost = history.diverged is not None
    played = history.diverged if lost else history.returns.size
    returns[:played] = history.returns[:played]
    return np.add.reduceat(returns, np.append(0, marks[:-1])) / np.diff(marks, prepend=0), lost, watch.means


class _LambdaWatch:
    """Adds up λ step by step, between checkpoints."""

    def __init__(self, agent: Any, marks: np.ndarray):
        self.agent, self.marks, self.episode = agent, marks, -1
        self.total, self.steps = np.zeros(marks.size), np.zeros(marks.size)

    def __call__(self, state: int, episode: int) -> None:
        """A step was made; the first of an episode has no λ."""
        if episode != self.episode:
            self.episode = episode
            return
        place = np.searchsorted(self.marks, episode, side="right")
        self.total[place] += self.agent.memory.lambda_t.mean()
        self.steps[place] += 1

    @property
    def means(self) -> np.ndarray:
        """Mean λ per checkpoint; NaN where there was no step."""
        return np.divide(self.total, self.steps, out=np.full(self.total.size, np.nan), where=self.steps > 0)


def _run_jobs(jobs: Sequence[_Job]) -> list[tuple[np.ndarray, bool, np.ndarray]]:
    """Each job in one of as many processes as there are cores; results in order."""
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit the threads of JAX or BLAS half-alive
    pool = None
    try:
        with _interrupts_held():
            pool = fresh.Pool(os.cpu_count())
        return list(_shown(pool.imap(_one_run, jobs), "runs", len(jobs)))
    finally:
        if pool is not None:  # Ctrl-C may come as the first thing after it was made
            pool.terminate()
            pool.join()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the end of the block. Processes begun here never see it; this process ends them."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would let Ctrl-C through again
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))  # another thread may be given it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which new processes inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _shown(things: Iterable[T], what: str, total: int) -> Iterable[T]:
    """The same with a progress bar, if a person is watching."""
    from rich.console import Console
    from rich.progress import track

    hidden = not sys.stderr.isatty()
    return track(things, what, total=total, console=Console(stderr=True), disable=hidden, transient=True)


def _interruptible(work: Callable[[], T]) -> T:
    """`work()` in a thread, so that Ctrl-C does not wait for compiled code to end."""
    found: list[T] = []
    failed: list[BaseException] = []

    def inside() -> None:
        try:
            found.append(work())
        except BaseException as problem:
            failed.append(problem)

    thread = threading.Thread(target=inside, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if failed:
        raise failed[0]
    return found[0]
