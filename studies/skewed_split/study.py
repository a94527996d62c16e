"""Skewed split, ours: does the paper's λ converge to the true value?

The smallest problem in which it does not. After a certain step, outcome A (probability 0.9) pays nothing and B pays 10,
so V(s₀) = 1. A λ that is the probability of the outcome itself weighs A's error of −1 by 0.9 and B's of +9 by 0.1
before it reaches s₀: V(s₀) → 1 + 0.9·0.9·(−1) + 0.1·0.1·9 = 0.28. A λ that depends on the state alone keeps 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from chunked_td import ExpectedLambda, ForwardLambda, sweep
from chunked_td.envs.dynamics import SkewedSplit
from chunked_td.simulation import simulate
from studies.runner import criteria, paper, plots
from studies.runner.arrays import Results
from studies.runner.criteria import Verdict, source

TRUTH, BIASED_FIXED_POINT, EPISODES = 1.0, 0.28, 50_000
CLOSE = 0.05  # how near V(s₀) must come to a fixed point
ARMS = {
    "td-0": {"lambda_source": 0.0},
    "td-0.9": {"lambda_source": 0.9},
    "td-1": {"lambda_source": 1.0},
    "chunked": {"lambda_source": ForwardLambda()},
    "chunked-oracle": {"lambda_source": ForwardLambda(), "model": "oracle"},
    "expected": {"lambda_source": ExpectedLambda()},
}
FIXED = ("td-0", "td-0.9", "td-1")
LABELS = {
    "td-0": "TD(0)",
    "td-0.9": "TD(0.9)",
    "td-1": "TD(1)",
    "chunked": "Chunked-TD",
    "chunked-oracle": "Chunked-TD, true model",
    "expected": "Expected-λ TD",
}
STEP_SIZES = [0.1 * 2.0**j for j in (-3, -5, -7)]
RECORD = list(range(500, EPISODES + 1, 500))
KEY = ("arm", "step_size", "seed", "episode")


def run(
    step_size: float, seed: int, *, lambda_source: Any, model: str = "counts", episodes: int = EPISODES
) -> dict[str, Any]:
    """One run: V(s₀) at every checkpoint."""
    record_at = [each for each in RECORD if each <= episodes]
    found = simulate(
        SkewedSplit.make(probability=0.9, reward=10.0, length=1),
        learner="td",
        lambda_source=lambda_source,
        model=model,
        step_sizes=step_size,
        seeds=seed,
        episodes=episodes,
        record_at=record_at,
        probes=[(0, 0)],
        threads=1,
    )
    return {"episode": record_at, "score": found.probes_at[0, :, 0]}


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """All runs, with 20 seeds. Quick: ten."""
    return sweep(run, ARMS, STEP_SIZES, range(10 if quick else 20), out=out, **how)


def results(table: pl.DataFrame) -> Results:
    """The table as arrays. No step size is selected: figures show the smallest."""
    about: dict[str, Any] = {"score": "V(s₀)", "best": TRUTH, "fixed": FIXED, "ours": tuple(LABELS)}
    return Results.of(table, LABELS, episodes=EPISODES, **about)


@source("ours")
def forward_is_biased(table: pl.DataFrame) -> Verdict:
    """Chunked-TD settles at 0.28, not at the true value 1: its λ knows the outcome that it weighs.

    At the smallest step size the interval of V(s₀) over the second half of the runs lies within 0.05 of 0.28.
    """
    return criteria.settles_at(results(table), "chunked", BIASED_FIXED_POINT, CLOSE)


@source("ours")
def expected_is_not(table: pl.DataFrame) -> Verdict:
    """With the expected probability as λ, V(s₀) settles at the true value 1.

    The same, within 0.05 of 1.
    """
    return criteria.settles_at(results(table), "expected", TRUTH, CLOSE)


CLAIMS = (forward_is_biased, expected_is_not)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """V(s₀) after 50,000 episodes, at the step size with the least mean."""
    return {"results": paper.results_table(results(table), selects=False)}


def figure(table: pl.DataFrame) -> Figure:
    """V(s₀) over training at the smallest step size, and its error for every step size."""
    found = results(table)
    smallest = {arm: float(runs.step_sizes[-1]) for arm, runs in found.arms.items()}
    drawn, (left, right) = plots.new_figure(2, height=3.0)
    plots.curves(left, found, step_sizes=smallest)
    plots.level(left, TRUTH, "true value 1")
    plots.level(left, BIASED_FIXED_POINT, "predicted fixed point 0.28", plots.VERMILION)
    left.set_ylim(0, 1.35)
    plots.errors(right, found, TRUTH, labelled=False)
    plots.legend_below(drawn, 3)
    return drawn
