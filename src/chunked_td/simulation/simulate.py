"""From settings to the results of many runs.

A run plays thousands of episodes without touching Python. It calls the kernels that `agent.step` calls, in the same
order, on the same random numbers, so both give the same values bit for bit. Runs are independent; threads only
decide where each one executes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td._checks import check_choice, check_flag, check_unit
from chunked_td.bootstraps import BOOTSTRAPS
from chunked_td.envs.dynamics.protocol import Dynamics
from chunked_td.lambdas.base import COUNTED, MODEL, LambdaSource, as_lambda_source
from chunked_td.lambdas.forward import ForwardLambda
from chunked_td.learners.planning.base import Planner, check_planner
from chunked_td.learners.planning.smoothed_reward import SmoothedReward, check_reward_source
from chunked_td.learners.views import View, check_view
from chunked_td.models.errors import ModelError
from chunked_td.simulation.run import Run


@dataclass(frozen=True)
class Runs:
    """Results of R runs, recorded K times, with P probed values.

    Attributes:
      misses: int64[R], regretful episodes in all.
      misses_at: int64[R, K], regretful episodes among the first `record_at[k]`.
      probes_at: float64[R, K, P], Σ_i Q^i at the probed rows after `record_at[k]` episodes.
      returns_at: float64[R, K], sum of episode returns since the previous record.
      steps: int64[R], transitions.
      values: float64[R, rows, d], or None unless asked for.
    """

    misses: np.ndarray
    misses_at: np.ndarray
    probes_at: np.ndarray
    returns_at: np.ndarray
    steps: np.ndarray
    values: np.ndarray | None


def simulate(
    dynamics: Dynamics,
    *,
    learner: str = "sarsa",
    lambda_source: LambdaSource | float | None = None,
    model: str | ModelError | None = "counts",
    planner: Planner | None = None,
    reward_source: SmoothedReward | None = None,
    step_sizes: float | Sequence[float] | np.ndarray,
    seeds: int | Sequence[int] | np.ndarray,
    epsilon: float | np.ndarray = 0.1,
    discount: float = 1.0,
    episodes: int,
    record_at: Sequence[int] = (),
    probes: Sequence[tuple[int, int]] = (),
    view: View = "offline",
    replacing: bool = False,
    threads: int | None = None,
    keep_values: bool = False,
) -> Runs:
    """Run a learner on compiled dynamics, once per (seed, step size).

    Args:
      dynamics: a dynamics NamedTuple, see `chunked_td.envs.dynamics`.
      learner: "sarsa", "expected_sarsa", "q_learning" (all act ε-greedily) or "td" (values of the uniform policy).
      lambda_source: where λ comes from; a number is a constant λ. Default: the paper's forward model.
      model: of the λ source: "counts" (learned), "oracle" (the true dynamics), or counts with an error, such as
        `CorruptedModel`, which holds for the planner's model, too.
      planner: what the learner makes of a count model besides λ, such as `Dyna`; None for nothing.
      reward_source: `SmoothedReward` to read rewards off the planner's model; None for the rewards that come.
      step_sizes, seeds: broadcast against each other; one run each.
      epsilon: exploration, a number or one per episode.
      discount: γ.
      episodes: episodes per run.
      record_at: numbers of finished episodes at which to record; the end is always added.
      probes: (state id, action) pairs whose values are recorded.
      view: "offline" (O(1) per step; exact for acyclic problems), "traces", "true_online", "expected_traces" or
        "sampled"; see `chunked_td.learners.views`.
      replacing: replacing instead of accumulating traces, with view "traces".
      threads: runs at a time; default: one per core. Results do not depend on it.
      keep_values: return the final tables too.
    """
    model, error = ("counts", model) if isinstance(model, ModelError) else (model, None)
    settings = check_settings(dynamics, learner, lambda_source, model, view, discount, epsilon, episodes, replacing)
    settings |= {"planner": check_planner(planner), "reward_source": check_reward_source(reward_source), "error": error}
    seeds_, sizes = check_runs(seeds, step_sizes)
    marks = record_marks(record_at, episodes)
    rows = probe_rows(dynamics, learner, probes)

    def one(index: int) -> tuple[Any, ...]:
        seed, step_size = int(seeds_[index]), float(sizes[index])
        run = Run(dynamics, seed=seed, step_size=step_size, **settings)
        return record_run(run, marks, rows, keep_values)

    workers = min(threads or os.cpu_count() or 1, len(sizes))
    if workers <= 1:
        results = [one(i) for i in range(len(sizes))]
    else:
        with ThreadPoolExecutor(workers) as pool:
            results = list(pool.map(one, range(len(sizes))))
    misses, probed, returned, steps, values = zip(*results, strict=True)
    return Runs(
        np.array([m[-1] for m in misses]),
        np.array(misses),
        np.array(probed).reshape(len(sizes), len(marks), len(rows)),
        np.array(returned),
        np.array(steps),
        np.array(values) if keep_values else None,
    )


def check_runs(seeds: Any, step_sizes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Seeds and step sizes, one of each per run."""
    seeds_, sizes = np.atleast_1d(np.asarray(seeds)), np.atleast_1d(np.asarray(step_sizes, np.float64))
    if seeds_.dtype.kind not in "iu" or np.any(seeds_ < 0):
        raise ValueError(f"seeds must be whole numbers from 0, got {seeds!r}")
    if not np.all(np.isfinite(sizes)) or np.any(sizes <= 0):
        raise ValueError(f"step_sizes must be positive and finite, got {step_sizes!r}")
    try:
        return tuple(np.broadcast_arrays(seeds_, sizes))  # type: ignore[return-value]
    except ValueError:
        raise ValueError(
            f"seeds and step_sizes must have as many entries as each other (or one), got {seeds_.size} and {sizes.size}"
        ) from None


def probe_rows(dynamics: Dynamics, learner: str, probes: Sequence[tuple[int, int]]) -> np.ndarray:
    """Rows of the value table for (state id, action) pairs."""
    states = int(np.prod(dynamics.nvec))
    for s, a in probes:
        if not (0 <= s < states and 0 <= a < dynamics.n_actions):
            raise ValueError(
                f"probes must be (state id in 0..{states - 1}, action in 0..{dynamics.n_actions - 1}), got {(s, a)}"
            )
    return np.array([s if learner == "td" else s * dynamics.n_actions + a for s, a in probes], np.int64)


def record_run(run: Run, marks: Sequence[int], rows: np.ndarray, keep_values: bool) -> tuple[Any, ...]:
    """Play a run through its marks; returns misses, probes and returns at each, steps and final values."""
    misses, probed, returned = [], [], []
    for mark in marks:
        run.play_to(mark)
        misses.append(int(run.totals.misses[0]))
        probed.append(run.probe(rows))
        returned.append(float(run.totals.returned[0]))
        run.totals.returned[0] = 0.0
    return misses, probed, returned, int(run.totals.steps[0]), run.values if keep_values else None


def record_marks(record_at: Sequence[int], episodes: int) -> list[int]:
    """Sorted recording points; the end is always one."""
    marks = sorted({int(m) for m in record_at} | {episodes})
    if marks[0] < 0 or marks[-1] > episodes:
        raise ValueError(f"record_at must lie in 0..{episodes} (the number of episodes), got {sorted(record_at)}")
    return marks


def check_source(source: LambdaSource) -> None:
    """Refuse a λ source that is plain Python."""
    if not source.is_compiled:
        raise ValueError(
            f"lambda_source {source!r} is plain Python, which `agent.learn` takes; the simulation takes sources whose "
            f"lambda_t is a kernel: a static method lambda_t(source, step, i) under @chunked_td.kernel"
        )


def check_settings(
    dynamics: Dynamics,
    learner: str,
    lambda_source: LambdaSource | float | None,
    model: str | None,
    view: View,
    discount: float,
    epsilon: float | np.ndarray,
    episodes: int,
    replacing: bool = False,
) -> dict[str, Any]:
    """Validate what all runs share; returns keyword arguments for `Run`."""
    check_choice("learner", learner, BOOTSTRAPS)
    view = check_view(view)
    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
        raise ValueError(f"episodes must be a whole number from 1, got {episodes!r}")
    source = as_lambda_source(lambda_source, ForwardLambda())
    check_source(source)
    needs = source.needs_with(BOOTSTRAPS[learner]) & MODEL
    if not needs:
        model = None
    elif model is None:
        raise ValueError(f"model must be 'counts' or 'oracle' for {source!r}, got None")
    else:
        check_choice("model", model, ("counts", "oracle"))
    if model == "oracle" and needs & COUNTED:
        raise ValueError(f"model 'oracle' gives probabilities; {source!r} counts, it takes model 'counts'")
    given = np.asarray(epsilon, np.float64)
    if given.shape not in ((), (episodes,)):
        raise ValueError(f"epsilon must be one number or one per episode ({episodes}), got shape {given.shape}")
    epsilons = np.broadcast_to(given, (episodes,)).copy()
    if not np.all((epsilons >= 0.0) & (epsilons <= 1.0)):
        raise ValueError(f"epsilon must lie in [0, 1], got {epsilon!r}")
    return {
        "replacing": check_flag("replacing", replacing),
        "learner": learner,
        "lambda_source": source,
        "model": model,
        "view": view,
        "discount": check_unit("discount", discount),
        "epsilons": epsilons,
    }
