"""Learners side by side on any Gymnasium environment: fixed λs against the chunked learners, over several seeds."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunked_td.lab.results.statistics import mean_and_interval


@dataclass(frozen=True)
class ComparisonSettings:
    """What to compare.

    Args:
      env: id of a Gymnasium environment.
      episodes: episodes per run.
      max_steps: steps after which an episode is cut off, where the environment sets no limit.
      seeds: runs per arm and step size.
      lambdas: the grid of fixed λs, for SARSA(λ).
      step_sizes: step sizes to try.
      discount: γ. epsilon: exploration.
    """

    env: str
    episodes: int
    max_steps: int
    seeds: int
    lambdas: tuple[float, ...]
    step_sizes: tuple[float, ...]
    discount: float
    epsilon: float


@dataclass(frozen=True)
class LearnerArm:
    """A learner to compare: its class by name, its settings, and whether its λ comes from a model."""

    label: str
    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    chunked: bool = False


CHUNKED = (
    LearnerArm("Chunked SARSA", "ChunkedSarsa", chunked=True),
    LearnerArm("Chunked Expected-SARSA", "ChunkedExpectedSarsa", chunked=True),
    LearnerArm("Expected-λ Expected-SARSA", "ChunkedExpectedSarsa", {"lambda_source": "ExpectedLambda"}, chunked=True),
)
"""What is set against the fixed λs."""


@dataclass(frozen=True)
class Ranked:
    """An arm at its best step size: mean return with its 95 % bootstrap interval, and the scores of its seeds.

    All of them are −∞ for an arm that diverged at every step size.
    """

    label: str
    step_size: float
    mean: float
    low: float
    high: float
    scores: np.ndarray
    chunked: bool = False


@dataclass(frozen=True)
class Comparison:
    """Results.

    Attributes:
      scores: float64[arms, step sizes, seeds], mean return over all episodes; −∞ for runs that diverged.
      late_scores: the same over the last tenth.
      ranking: best first.
    """

    settings: ComparisonSettings
    arms: tuple[LearnerArm, ...]
    scores: np.ndarray
    late_scores: np.ndarray
    ranking: list[Ranked]


@dataclass(frozen=True)
class _Job:
    """One run."""

    settings: ComparisonSettings
    arm: LearnerArm
    step_size: float
    seed: int


def compare(settings: ComparisonSettings) -> Comparison:
    """Run every arm with every step size and seed, in as many processes as there are cores, and rank the arms."""
    fixed = (LearnerArm(f"SARSA({value:g})", "SarsaLambda", {"lambda_": value}) for value in settings.lambdas)
    arms = (*fixed, *CHUNKED)
    jobs = [
        _Job(settings, arm, step_size, seed)
        for arm in arms
        for step_size in settings.step_sizes
        for seed in range(settings.seeds)
    ]
    for job in jobs[:: settings.seeds]:  # wrong settings fail here, once, with a clear message
        _environment_and_agent(job)[0].close()
    print(
        f"{len(arms)} arms × {len(settings.step_sizes)} step sizes × {settings.seeds} seeds, "
        f"{settings.episodes:,} episodes each"
    )
    shape = (len(arms), len(settings.step_sizes), settings.seeds, settings.episodes)
    curves = np.array(_run_jobs(jobs)).reshape(shape)
    scores = curves.mean(axis=-1)
    late = curves[..., -max(1, settings.episodes // 10) :].mean(axis=-1)
    return Comparison(settings, arms, scores, late, rank(arms, settings.step_sizes, scores))


def rank(arms: Sequence[LearnerArm], step_sizes: Sequence[float], scores: np.ndarray) -> list[Ranked]:
    """Arms by mean return at their best step size, best first, with 95 % bootstrap intervals over seeds.

    Args:
      scores: float64[arms, step sizes, seeds].
    """
    best = scores.mean(axis=2).argmax(axis=1)
    rows = []
    for arm, chosen, of_arm in zip(arms, best, scores, strict=True):
        seeds = of_arm[chosen]
        mean, ends = -np.inf, (-np.inf, -np.inf)
        if np.isfinite(seeds).all():
            mean, interval = mean_and_interval(seeds)
            ends = float(interval.low), float(interval.high)
        rows.append(Ranked(arm.label, float(step_sizes[chosen]), float(mean), *ends, seeds, arm.chunked))
    return sorted(rows, key=lambda row: -row.mean)


def _run_jobs(jobs: Sequence[_Job]) -> list[np.ndarray]:
    """Each job in one of as many processes as there are cores; results in order."""
    from rich.console import Console
    from rich.progress import track

    fresh = multiprocessing.get_context("spawn")  # a fork would inherit the threads of JAX or BLAS half-alive
    with fresh.Pool(os.cpu_count(), initializer=_ignore_interrupts) as pool:
        found = pool.imap(_one_run, jobs)
        show = sys.stderr.isatty()
        return list(
            track(found, "runs", total=len(jobs), console=Console(stderr=True), disable=not show, transient=True)
        )


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _environment_and_agent(job: _Job) -> tuple[Any, Any]:
    import chunked_td
    from chunked_td.lab.gym_environments import make_environment
    from chunked_td.learners.inputs import learner_by_name

    settings = job.settings
    env = make_environment(settings.env, settings.max_steps)
    own = dict(job.arm.settings)
    if isinstance(own.get("lambda_source"), str):
        own["lambda_source"] = getattr(chunked_td, own["lambda_source"])()
    shared = {"step_size": job.step_size, "discount": settings.discount, "epsilon": settings.epsilon}
    return env, learner_by_name(job.arm.learner)(env, seed=job.seed, **own, **shared)


def _one_run(job: _Job) -> np.ndarray:
    """Return per episode, −∞ in all where learning diverged: the comparison shows that, it does not end there."""
    from chunked_td.learners.divergence import DivergenceWarning

    env, agent = _environment_and_agent(job)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        history = agent.learn(env, job.settings.episodes, progress=False)
    return history.returns if history.diverged is None else np.full(job.settings.episodes, -np.inf)
