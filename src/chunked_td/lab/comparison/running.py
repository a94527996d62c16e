"""How a batch of a comparison runs: compiled where the environment's dynamics are known, else in worker processes.

`play` is the runner of the comparison's protocol and `returns_and_lambda` its scoring. For this package's environments
both ways give the same episodes; for others the compiled ones have the same distribution, not the same course.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import SimpleNamespace
from typing import Any

import numpy as np

from chunked_td.lab.comparison.arms import VALUES, ComparisonSettings, learner_for, problem_arguments, why_not_compiled
from chunked_td.lab.gym_environments import make_environment
from chunked_td.lab.study import Scores
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.maturity import Mature
from chunked_td.lambdas.reading import MATURE, read_source
from chunked_td.learners.schedule import over_episodes


@dataclass(frozen=True)
class ComparisonProblem:
    """An environment to compare on.

    Attributes:
      settings: what makes the environment and its states.
      dynamics: compiled dynamics; None where runs are played step by step.
      reason: why they are.
    """

    settings: ComparisonSettings
    dynamics: Any
    reason: str = ""

    @staticmethod
    def make(**arguments: Any) -> ComparisonProblem:
        """The problem of a protocol."""
        return _problem(json.dumps(arguments, sort_keys=True))

    @classmethod
    def of(cls, settings: ComparisonSettings) -> ComparisonProblem:
        """The problem of a comparison."""
        found = cls.make(**problem_arguments(settings))
        return cls(settings, found.dynamics, why_not_compiled(settings) or found.reason)

    @functools.cached_property
    def exact(self) -> Any:
        """The exact model, for the question of values; an error where the environment's table is not known."""
        from chunked_td.analysis.exact import ExactModel

        if self.dynamics is None:
            raise ValueError(f"question: exact values are not available here: {self.reason}")
        return ExactModel(self.dynamics)

    def describe(self, plain: Sequence[str] = ()) -> str:
        """Where runs execute, and why. Args: plain: labels of arms whose λ source is plain Python."""
        if self.dynamics is None:
            why = self.reason.partition(";")[0]
            return f"runs are played step by step in {os.cpu_count()} processes; they are not compiled ({why})"
        but = f", but those of {', '.join(plain)}, which are plain Python" if plain else ""
        known = f"the environment's dynamics are known: runs are compiled{but}"
        return f"{known}. Episodes have the distribution of Gymnasium's"


@functools.lru_cache(maxsize=2)
def _problem(text: str) -> ComparisonProblem:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(text).items()
    }
    settings = ComparisonSettings(episodes=1, **values)
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    try:
        return ComparisonProblem(settings, _dynamics(env, settings) if settings.compiled else None)
    except (ValueError, TypeError) as problem:
        return ComparisonProblem(settings, None, str(problem))
    finally:
        env.close()


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


def returns_and_lambda(runs: Any, record_at: np.ndarray) -> Scores:
    """Mean return of all episodes so far ("score", −∞ once a run has diverged), and means since the last checkpoint."""
    means = np.asarray(runs.returns_at) / np.diff(record_at, prepend=0)
    lost = np.asarray(runs.diverged)[:, None] >= 0
    total = np.cumsum(runs.returns_at, axis=1) / np.asarray(record_at)
    return {
        "score": np.where(lost, -np.inf, total),
        "mean_return": means,
        "mean_lambda": np.asarray(runs.lambda_at),
        "diverged": np.broadcast_to(lost, means.shape).astype(np.float64),
    }


def play(problem: ComparisonProblem, *, probes: Any, threads: int | None = None, **runs: Any) -> Any:
    """Play a batch of runs; called as `chunked_td.simulation.simulate` is, with `problem` for the dynamics."""
    if problem.settings.question == VALUES:
        return _play_values(problem, threads, **runs)
    if problem.dynamics is not None and runs["lambda_source"].is_compiled:
        return _play_compiled(problem, threads, **runs)
    seeds, step_sizes, marks = (np.asarray(runs.pop(name)) for name in ("seeds", "step_sizes", "record_at"))
    del runs["episodes"]
    arm = {**runs, "lambda_source": _to_send(runs["lambda_source"])}
    pairs = zip(step_sizes.tolist(), seeds.tolist(), strict=True)
    rows = _in_workers([_Run(problem.settings, arm, *pair, marks) for pair in pairs])
    returns, lost, lambdas = map(np.array, zip(*rows, strict=True))
    return SimpleNamespace(returns_at=returns, diverged=lost, lambda_at=lambdas)


def _play_values(problem: ComparisonProblem, threads: int | None, **runs: Any) -> Any:
    """As `play`; minus the root mean square error of V(s) = Σ_a Q(s,a)/|legal| at a checkpoint stands for returns."""
    model = problem.exact
    rows, actions = np.nonzero(model.mask)
    probes = list(zip(model.ids[rows].tolist(), actions.tolist(), strict=True))
    played = _play_compiled(problem, threads, probes=probes, **runs)
    states = np.flatnonzero(model.legal)
    mean = (rows[:, None] == states) / model.legal[states]
    truth = model.evaluate("uniform", runs["discount"]).v.sum(axis=1)[states]
    errors = np.sqrt(((np.asarray(played.probes_at) @ mean - truth) ** 2).mean(axis=-1))
    returns = -errors * np.diff(np.asarray(runs["record_at"]), prepend=0)
    return SimpleNamespace(returns_at=returns, diverged=played.diverged, lambda_at=played.lambda_at)


def _play_compiled(
    problem: ComparisonProblem,
    threads: int | None,
    epsilon: Any,
    model: Any,
    step_size_schedule: None = None,
    **runs: Any,
) -> Any:
    from chunked_td.learners.state import DivergenceWarning
    from chunked_td.simulation.simulate import simulate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        return simulate(
            problem.dynamics,
            threads=threads,
            epsilon=None if epsilon is None else over_episodes(epsilon, runs["episodes"]),
            model=model or "counts",
            keep_lambda=True,
            **{"view": "traces", **runs},
        )


def _to_send(source: LambdaSource) -> LambdaSource | str:
    """A λ source for another process; one in a file of the user's goes as its address."""
    if isinstance(source, Mature):
        inner = _to_send(source.source)
        return source if isinstance(inner, LambdaSource) else f"{inner}{MATURE}"
    module: Any = sys.modules[type(source).__module__]
    file = getattr(module, "_loaded_from", None)
    return source if file is None else f"{file[0]}:{type(source).__name__}"


@dataclass(frozen=True)
class _Run:
    """One run in Gymnasium's loop."""

    settings: ComparisonSettings
    arm: dict[str, Any]
    step_size: float
    seed: int
    marks: np.ndarray


def check_agents(problem: ComparisonProblem, arms: Sequence[Any], step_sizes: Sequence[float]) -> None:
    """Wrong settings fail here, once, with a clear message, before anything is run.

    Args:
      arms: of the lab.
    """
    from chunked_td.simulation.simulate import check_runs

    check_runs(0, list(step_sizes))
    if problem.dynamics is None:
        for arm in arms:
            settings = {"learner": arm.learner, "lambda_source": arm.source(), "discount": 1.0, **arm.options}
            _environment_and_agent(_Run(problem.settings, settings, step_sizes[0], 0, np.ones(1)))[0].close()


def _environment_and_agent(run: _Run) -> tuple[Any, Any]:
    settings, arm = run.settings, dict(run.arm)
    arm.pop("model", None)
    if isinstance(arm["lambda_source"], str):
        arm["lambda_source"] = read_source(arm["lambda_source"])
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    return env, learner_for(env, settings, step_size=run.step_size, seed=run.seed, **arm)


def _one_run(run: _Run) -> tuple[np.ndarray, int, np.ndarray]:
    """Return per stretch, NaN from where learning diverged; the episode in which it did; mean λ per stretch."""
    from chunked_td.learners.loop import train
    from chunked_td.learners.state import DivergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        warnings.filterwarnings("ignore", module="gymnasium")  # `check_agents` has shown them once
        env, agent = _environment_and_agent(run)
        means, episodes = _MeanLambda(agent, run.marks), int(run.marks[-1])
        history = train(agent, env, episodes, progress=False, watch=means)
    env.close()
    returns = np.full(episodes, np.nan)
    played = history.returns.size if history.diverged is None else history.diverged
    returns[:played] = history.returns[:played]
    lost = -1 if history.diverged is None else int(history.diverged)
    return np.add.reduceat(returns, np.append(0, run.marks[:-1])), lost, means.means


class _MeanLambda:
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


_POOL: list[Any] = []
_MAKING, _BUSY, _ENDED = threading.Lock(), threading.Lock(), threading.Event()


_NO_MORE = "the processes that play runs were ended"


def _in_workers(runs: Sequence[_Run]) -> list[tuple[np.ndarray, int, np.ndarray]]:
    """Each run in one of as many processes as there are cores; results in order."""
    with _BUSY:
        result = _workers().map_async(_one_run, runs, chunksize=1)
        try:
            while not result.ready():
                if not _POOL:
                    raise RuntimeError(_NO_MORE)
                result.wait(0.1)
            return result.get()
        finally:
            result = None  # it holds the pool


def _workers() -> Any:
    """A pool of processes, kept until `no_workers_left` ends."""
    with _MAKING:
        if _ENDED.is_set():
            raise RuntimeError(_NO_MORE)
        if not _POOL:
            fresh = multiprocessing.get_context("spawn")  # a fork would inherit the threads of JAX or BLAS half-alive
            with _deaf_to_interrupts():
                _POOL.append(fresh.Pool(os.cpu_count()))
        return _POOL[0]


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Threads and processes begun here never see Ctrl-C, from their first instruction on: the main thread ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start, otherwise in `Pool`, lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def no_workers_left() -> Iterator[None]:
    """Afterwards the processes that play runs are ended; after Ctrl-C a thread that is late begins no others."""
    _ENDED.clear()
    try:
        yield
    except BaseException:
        _ENDED.set()
        raise
    finally:
        _end_workers()


def _end_workers() -> None:
    with _MAKING:
        pool = _POOL.pop() if _POOL else None
    if pool is not None:
        pool.terminate()
        pool.join()
        if _BUSY.acquire(timeout=2.0):  # nothing refers to the pool any longer, so it gives back its semaphores
            _BUSY.release()
