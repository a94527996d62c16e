"""Runs of the simulation as columns: regretful episodes and returns per checkpoint, and diagnostics of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chunked_td.simulation import Runs

TF32, FLOAT32 = "tf32", "float32-cpu"


def columns(runs: Runs, record_at: Sequence[int], run: int = 0) -> dict[str, Any]:
    """Columns of a run: `score`, the regretful episodes so far; `mean_return` since the last checkpoint; diagnostics.

    A run whose network broke down has no score from there.
    """
    found = {
        "score": np.asarray(runs.misses_at[run], dtype=np.float64),
        "mean_return": runs.returns_at[run] / np.diff(np.asarray(record_at), prepend=0),
    }
    broken = runs.diagnostics["broken"][run] if runs.diagnostics else np.zeros(len(record_at))
    found = {name: np.where(broken > 0, np.nan, values) for name, values in found.items()}
    return {"episode": list(record_at), **found, **{name: each[run] for name, each in runs.diagnostics.items()}}


def networks(
    dynamics: Any,
    step_sizes: np.ndarray,
    seeds: np.ndarray,
    lambda_source: Any,
    config: Callable[[Any], Any],
    noisy_steps: Callable[..., Any],
    *,
    record_at: Sequence[int],
    **settings: Any,
) -> list[Mapping[str, Any]]:
    """The columns of runs whose λ comes from networks, all in one program; GPUs compute in TF32.

    Args:
      config: the network for an environment. noisy_steps: which steps count as noisy in diagnostics.
      settings: of `chunked_td.simulation.networks.run_together`.
    """
    import jax

    from chunked_td.simulation.networks import ArmRuns, run_together

    arms = [ArmRuns(lambda_source, seeds, step_sizes)]
    how = {"config": config, "noisy_steps": noisy_steps, "record_at": record_at, "discount": 1.0}
    (found,) = run_together(dynamics, arms, **how, **settings)
    precision = FLOAT32 if jax.default_backend() == "cpu" else TF32
    return [{"precision": precision, **columns(found, record_at, run)} for run in range(len(seeds))]
