"""Many simulated runs: `simulate` returns their results from their settings.

A run plays thousands of episodes in compiled code. It calls the kernels of `agent.step` in the same order with the same
random numbers, so both give the same values bit for bit. Runs are independent, so threads do not change results.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunked_td._checks import (
    as_array,
    check_choice,
    check_episodes,
    check_finite,
    check_flag,
    check_numbers,
    check_unit,
    check_whole,
)
from chunked_td.bootstraps import BOOTSTRAPS
from chunked_td.envs.protocol import Dynamics
from chunked_td.lambdas.base import COUNTED, MODEL, LambdaSource, as_lambda_source
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.learners.exploration import EPSILON, Exploration, check_exploration
from chunked_td.learners.planning.base import Planner, RewardSource, check_planner, check_reward_source
from chunked_td.learners.schedule import over_episodes
from chunked_td.learners.state import NO_NUMBER, DivergenceWarning, divergence_text
from chunked_td.learners.views import check_view
from chunked_td.models import KernelModel
from chunked_td.models.errors import ModelError
from chunked_td.simulation.run import Run
from chunked_td.traces import View


@dataclass(frozen=True)
class Runs:
    """Results of R runs, recorded K times, with P probed values.

    Attributes:
      misses: int64[R], number of misses (see `chunked_td.envs.dynamics`). Episodes that a run did not play because it
        diverged count as misses.
      misses_at: int64[R, K], misses among the first `record_at[k]` episodes.
      probes_at: float64[R, K, P], Σ_i Q^i at the probed rows after `record_at[k]` episodes; NaN after divergence.
      returns_at: float64[R, K], sum of episode returns since the previous record; NaN after divergence.
      steps: int64[R], transitions.
      values: float64[R, rows, d] with `keep_values`, else None. Of a run that diverged: the values when it stopped.
      diverged: int64[R], the episode (from 0) in which a run diverged and stopped; −1 for none.
      lambda_at: float64[R, K] with `keep_lambda`, else None: mean λ of the steps since the previous record. The first
        step of an episode has no λ. NaN if there was no step.
      discounted_at: float64[R, K], as `returns_at`, discounted; None for runs with λ from networks.
      diagnostics: of runs with λ from networks, float64[R, K] each: training loss, λ on predictable and on noisy steps,
        calibration by tenths of predicted probability, and `broken`, the transition at which a run stopped because its
        loss was not finite, 0 for none. `calibration_count_3`, `calibration_predicted_3` and `calibration_observed_3`
        belong to predictions between 0.3 and 0.4. Empty for other runs.
    """

    misses: np.ndarray
    misses_at: np.ndarray
    probes_at: np.ndarray
    returns_at: np.ndarray
    steps: np.ndarray
    values: np.ndarray | None
    diverged: np.ndarray
    lambda_at: np.ndarray | None = None
    discounted_at: np.ndarray | None = None
    diagnostics: dict[str, np.ndarray] = field(default_factory=dict)


def simulate(
    dynamics: Dynamics,
    *,
    learner: str = "sarsa",
    lambda_source: LambdaSource | float | None = None,
    model: str | ModelError | KernelModel | None = "counts",
    planner: Planner | None = None,
    reward_source: RewardSource | None = None,
    step_sizes: float | Sequence[float] | np.ndarray,
    seeds: int | Sequence[int] | np.ndarray,
    epsilon: float | np.ndarray | None = None,
    exploration: Exploration | None = None,
    discount: float = 1.0,
    episodes: int,
    record_at: Sequence[int] = (),
    probes: Sequence[tuple[int, int]] = (),
    view: str | View = "offline",
    replacing: bool = False,
    initial_value: float = 0.0,
    threads: int | None = None,
    keep_values: bool = False,
    keep_lambda: bool = False,
) -> Runs:
    """Run a learner on compiled dynamics, once per (seed, step size).

    Args:
      dynamics: a dynamics NamedTuple, see `chunked_td.envs.dynamics`.
      learner: "sarsa", "expected_sarsa", "q_learning" (all act ε-greedily) or "td" (values of the uniform policy).
      lambda_source: the λ source; a number is a constant λ. Default: the paper's forward model. A source in plain
        Python makes the whole run hundreds of times slower.
      model: of the λ source: "counts" (learned), "oracle" (the true dynamics), or counts with an error
        (`chunked_td.models.errors`), which also applies to the planner's model; or a user-defined `KernelModel`.
      planner: extra value updates from a count model, such as `Dyna`; None for none.
      reward_source: `ExpectedError` or `LearnedComponents`, as in `Learner`.
      step_sizes, seeds: broadcast against each other; one run each.
      epsilon: exploration rate, a number or one per episode. Default: 0.1.
      exploration: `CountBonus(scale)` or another exploration; None for ε-greedy.
      discount: γ.
      episodes: episodes per run.
      record_at: numbers of finished episodes at which to record; the end is always added.
      probes: (state id, action) pairs whose values are recorded.
      view: "offline" (O(1) per step; exact if no state recurs within an episode), "traces", "lineage", "true_online",
        "sampled", or a `View` with settings; see `chunked_td.learners.views`.
      replacing: replacing instead of accumulating traces, with view "traces".
      initial_value: initial value of all states or actions, in every reward component. Terminal states have value 0.
      threads: concurrent runs. Default: one per core. Results do not depend on it.
      keep_values: also return the final tables.
      keep_lambda: also return the mean λ between records.

    A run whose learning diverges stops with a `DivergenceWarning`; the others continue.
    """
    model, error = ("counts", model) if isinstance(model, ModelError) else (model, None)
    numbers = EPSILON if epsilon is None else epsilon
    settings = check_settings(dynamics, learner, lambda_source, model, view, discount, numbers, episodes, replacing)
    settings |= {"planner": check_planner(planner), "reward_source": check_reward_source(reward_source), "error": error}
    settings |= exploration_settings(exploration, epsilon, settings)
    check_flag("keep_values", keep_values)
    settings["sum_lambda"] = check_flag("keep_lambda", keep_lambda)
    seeds_, sizes = check_runs(seeds, step_sizes)
    marks = record_marks(record_at, episodes)
    rows = probe_rows(dynamics, learner, probes)
    begin = check_finite("initial_value", initial_value)

    def one(index: int) -> tuple[Any, ...]:
        seed, step_size = int(seeds_[index]), float(sizes[index])
        run = Run(dynamics, seed=seed, step_size=step_size, **settings)
        if begin:
            run.values[:] = begin
        return record_run(run, marks, rows, keep_values)

    workers = min(check_threads(threads), len(sizes))
    if workers <= 1:
        results = [one(i) for i in range(len(sizes))]
    else:
        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(one, range(len(sizes))))
    misses, probed, returned, discounted, steps, values, diverged, watches, lambdas = zip(*results, strict=True)
    warn_of_divergence(diverged, watches, seeds_, sizes, settings["lambda_source"])
    return Runs(
        np.array([m[-1] for m in misses]),
        np.array(misses),
        np.array(probed).reshape(len(sizes), len(marks), len(rows)),
        np.array(returned),
        np.array(steps),
        np.array(values) if keep_values else None,
        np.array(diverged),
        np.array(lambdas) if keep_lambda else None,
        np.array(discounted),
    )


def check_threads(threads: int | None) -> int:
    """Check and return the number of threads; None is one per core."""
    return os.cpu_count() or 1 if threads is None else check_whole("threads", threads, 1)


def warn_of_divergence(diverged: Any, watches: Any, seeds: Any, step_sizes: Any, lambda_source: LambdaSource) -> None:
    """Warn of diverged runs, with the reason for the first of them."""
    lost = [k for k, episode in enumerate(diverged) if episode >= 0]
    if lost:
        first = lost[0]
        more = f" {len(lost)} of {len(diverged)} runs diverged; see `Runs.diverged`." if len(lost) > 1 else ""
        reason = divergence_text(int(watches[first]), float(step_sizes[first]), lambda_source)
        warnings.warn(
            f"the run with seed {seeds[first]} and step_size {step_sizes[first]:g} diverged in episode "
            f"{diverged[first]} and was stopped: {reason}.{more}",
            DivergenceWarning,
            stacklevel=3,
        )


def check_runs(seeds: Any, step_sizes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check and broadcast seeds and step sizes, one of each per run."""
    sizes = np.atleast_1d(check_numbers("step_sizes", step_sizes, "positive and finite"))
    if not np.all(np.isfinite(sizes)) or np.any(sizes <= 0):
        raise ValueError(f"step_sizes must be positive and finite, got {step_sizes!r}")
    seeds_ = np.atleast_1d(as_array(seeds))
    if seeds_.dtype.kind not in "iu" or np.any(seeds_ < 0):
        raise ValueError(f"seeds must be whole numbers from 0, got {seeds!r}")
    if 0 in (seeds_.size, sizes.size) or max(seeds_.ndim, sizes.ndim) > 1:
        raise ValueError(f"seeds and step_sizes must be numbers or lists of them, got {seeds!r} and {step_sizes!r}")
    try:
        return tuple(np.broadcast_arrays(seeds_, sizes))  # type: ignore[return-value]
    except ValueError:
        raise ValueError(
            f"seeds and step_sizes must have equal numbers of entries, or one, got {seeds_.size} and {sizes.size}"
        ) from None


def probe_rows(dynamics: Dynamics, learner: str, probes: Sequence[tuple[int, int]]) -> np.ndarray:
    """Rows of the value table for (state id, action) pairs."""
    states = int(np.prod(dynamics.nvec))
    try:
        pairs = [(check_whole("probes", s, 0), check_whole("probes", a, 0)) for s, a in probes]
    except (TypeError, ValueError):
        raise ValueError(f"probes must be pairs of a state id and an action, got {probes!r}") from None
    for s, a in pairs:
        if not (0 <= s < states and 0 <= a < dynamics.n_actions):
            actions = f"0..{dynamics.n_actions - 1}"
            raise ValueError(f"probes must be (state id in 0..{states - 1}, action in {actions}), got {(s, a)}")
    return np.array([s if learner == "td" else s * dynamics.n_actions + a for s, a in pairs], np.int64)


def record_run(run: Run, marks: Sequence[int], rows: np.ndarray, keep_values: bool) -> tuple[Any, ...]:
    """Play a run and record it at its marks; return its entries of `Runs`, and its `watch` for a divergence."""
    misses, probed, returned, discounted, lambdas = [], [], [], [], []
    for mark in marks:
        run.play_to(mark)
        lost = run.diverged >= 0
        misses.append(int(run.totals.misses[0]) + mark - run.episode)
        probed.append(np.full(rows.size, np.nan) if lost else run.values[rows].sum(axis=1))
        returned.append(np.nan if lost else float(run.totals.returned[0]))
        discounted.append(np.nan if lost else float(run.totals.discounted[0]))
        run.totals.returned[0] = run.totals.discounted[0] = 0.0
        if run.stage.lambdas is not None:
            lambdas.append(run.take_lambda())
    if run.diverged < 0 and not np.isfinite(run.values).all():  # written through large traces and never read
        run.diverged, run.agent.watch[0] = run.episode - 1, NO_NUMBER
        probed[-1], returned[-1], discounted[-1] = np.full(rows.size, np.nan), np.nan, np.nan
    values = run.values if keep_values else None
    steps, watch = int(run.totals.steps[0]), int(run.agent.watch[0])
    return misses, probed, returned, discounted, steps, values, run.diverged, watch, lambdas


def record_marks(record_at: Sequence[int], episodes: int) -> list[int]:
    """Sorted record marks, including the end."""
    try:
        return sorted({check_whole("record_at", mark, 0, episodes) for mark in record_at} | {int(episodes)})
    except (TypeError, ValueError):
        raise ValueError(f"record_at must be in 0..{episodes} (the number of episodes), got {record_at!r}") from None


def exploration_settings(exploration: Any, epsilon: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of an exploration other than ε-greedy, with its rate in every episode."""
    if exploration is None:
        return {}
    epsilons, bootstrap = settings["epsilons"], BOOTSTRAPS[settings["learner"]]
    least = None if epsilon is None else float(epsilons.min())
    check_exploration(exploration, least, bootstrap, settings["planner"])
    rates = over_episodes(exploration.rate_with(epsilons), epsilons.size)
    return {"exploration": exploration, "epsilons": np.broadcast_to(rates, epsilons.shape).copy()}


def check_source(source: LambdaSource) -> None:
    """Raise ValueError for a λ source in plain Python, which networks in lockstep do not support."""
    if not source.is_compiled:
        raise ValueError(
            f"lambda_source must have a kernel lambda_t(source, step, i) under @chunked_td.kernel with networks, got "
            f"{source!r}, which is plain Python; use counts, or make lambda_t a kernel"
        )


def check_settings(
    dynamics: Dynamics,
    learner: str,
    lambda_source: LambdaSource | float | None,
    model: str | KernelModel | None,
    view: str | View,
    discount: float,
    epsilon: float | np.ndarray,
    episodes: int,
    replacing: bool = False,
) -> dict[str, Any]:
    """Validate the settings that all runs share; return keyword arguments for `Run`."""
    check_choice("learner", learner, BOOTSTRAPS)
    view = check_view(view)
    check_episodes(episodes, 1)
    required = ("_fields", "nvec", "n_actions", "n_rewards", "draws", "horizon", "reset", "step", "legal")
    lacking = [name for name in required if not hasattr(dynamics, name)]
    if lacking or isinstance(dynamics, type):
        raise ValueError(
            f"dynamics must be a NamedTuple as in chunked_td.envs.dynamics, got {dynamics!r}, "
            f"which lacks {', '.join(lacking) or 'values'}"
        )
    source = as_lambda_source(lambda_source, ForwardLambda())
    inputs = source.inputs(BOOTSTRAPS[learner]) & MODEL
    if not inputs:
        model = None
    elif model is None:
        raise ValueError(f"model must be 'counts' or 'oracle' for {source!r}, got None")
    elif not isinstance(model, KernelModel):
        check_choice("model", model, ("counts", "oracle"))
    if model == "oracle" and inputs & COUNTED:
        raise ValueError(f"model must be 'counts' for {source!r}, which reads counts, got 'oracle'")
    given = check_numbers("epsilon", epsilon, "in [0, 1]")
    if given.shape not in ((), (episodes,)):
        raise ValueError(f"epsilon must be one number or one per episode ({episodes}), got shape {given.shape}")
    epsilons = np.broadcast_to(given, (episodes,)).copy()
    if not np.all((epsilons >= 0.0) & (epsilons <= 1.0)):
        raise ValueError(f"epsilon must be in [0, 1], got {epsilon!r}")
    return {
        "replacing": check_flag("replacing", replacing),
        "learner": learner,
        "lambda_source": source,
        "model": model,
        "view": view,
        "discount": check_unit("discount", discount),
        "epsilons": epsilons,
    }
