"""Accumulated-Charge (§4.2, App. A.2): does λ from a network assign a reward delayed by 200 noisy steps?

Only the first of 200 actions matters. Ten steps, drawn once per seed, add a binomial charge; the last transition pays
for it. The first action a₁ is worth 0.1 more than a₂ in expectation. The score counts the regretful choices: episodes
that did not begin with a₁.

The control is the mirror image: the sign of the charge's reward is reversed. Every expected return is unchanged, so an
unbiased learner has the same score. `signs.py` tests causes of the difference between the two signs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td import ExpectedLambda, ForwardLambda, Schedule, sweep
from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.simulation import simulate
from chunked_td.statistics import detectable_mean, paired_test
from studies.accumulated_charge import inputs_claims, signs
from studies.accumulated_charge.network import config_for, noisy_steps
from studies.runner import criteria, paper, plots, simulated
from studies.runner.arrays import Results, preferred, shared
from studies.runner.criteria import FAILS, HOLDS, LEVEL, NOT_SHOWN, Verdict, source
from studies.runner.text import number_text

EPISODES, EXPLORED, BEST = 10_000, 1_000, 950.0
PROBLEMS = ("original", "mirrored")
NEAR = 1.05  # near the best possible number: at most 5 % above it
SIGN_MARGIN = 500  # regretful choices of 10,000 that we call no difference

LAMBDAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
FIXED = {f"sarsa-{value:g}": {"lambda_source": value} for value in LAMBDAS}
MODELS: dict[str, dict[str, Any]] = {
    "chunked-counts": {"lambda_source": ForwardLambda()},
    "expected-counts": {"lambda_source": ExpectedLambda()},
    "chunked-oracle": {"lambda_source": ForwardLambda(), "model": "oracle"},
}
NETWORKS = {"chunked": {"lambda_source": ForwardLambda()}, "expected": {"lambda_source": ExpectedLambda()}}
LABELS = {
    **{f"sarsa-{value:g}": f"SARSA({value:g})" for value in LAMBDAS},
    "chunked": "Chunked SARSA",
    "expected": "Expected-λ SARSA",
    "chunked-counts": "Chunked SARSA, counts",
    "expected-counts": "Expected-λ SARSA, counts",
    "chunked-oracle": "Chunked SARSA, true model",
}
OURS = ("expected", *MODELS)
STEP_SIZES = [0.1 * 2.0**j for j in (3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -10, -12)]
RECORD = list(range(500, EPISODES + 1, 500))
KEY = ("problem", "precision", "arm", "step_size", "seed", "episode")


def settings(mirrored: bool, episodes: int) -> tuple[Any, dict[str, Any]]:
    """The problem, and what all its runs share. ε is 1 for 1,000 episodes, then 0.1."""
    dynamics = AccumulatedCharge.make(horizon=200, points=10, success=0.5, bonus=0.1, mirrored=mirrored)
    epsilon = Schedule(((0, 1.0), (EXPLORED, 0.1)), hold=True).over(np.arange(episodes))
    record_at = [each for each in RECORD if each <= episodes]
    return dynamics, {"learner": "sarsa", "epsilon": epsilon, "episodes": episodes, "record_at": record_at}


def run(
    step_size: float, seed: int, *, mirrored: bool, lambda_source: Any, model: str = "counts", episodes: int = EPISODES
) -> dict[str, Any]:
    """One run with a fixed λ, or one from counts or the true model."""
    dynamics, common = settings(mirrored, episodes)
    common |= {"lambda_source": lambda_source, "model": model, "threads": 1}
    found = simulate(dynamics, step_sizes=step_size, seeds=seed, **common)
    return {"precision": "float64", **simulated.columns(found, common["record_at"])}


def run_networks(
    step_size: np.ndarray, seed: np.ndarray, *, mirrored: bool, lambda_source: Any, episodes: int = EPISODES
) -> list[Mapping[str, Any]]:
    """Several runs whose λ comes from networks, as one program."""
    dynamics, common = settings(mirrored, episodes)
    common |= {"config": config_for, "noisy_steps": noisy_steps}
    return simulated.networks(dynamics, step_size, seed, lambda_source, **common)


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """Both problems and `signs`: 30 seeds of fixed λs on the original, else 10. Networks want a GPU.

    Quick: 10 seeds, four step sizes, three fixed λs; one network for 1,500 episodes.
    """
    sizes = STEP_SIZES[3:9:2] if quick else STEP_SIZES
    fixed = {arm: FIXED[arm] for arm in ("sarsa-0", "sarsa-0.9", "sarsa-1")} if quick else FIXED
    found = []
    for problem in PROBLEMS:
        where = {"out": out / problem, "mirrored": problem == "mirrored", **how}
        seeds = range(30) if problem == "original" and not quick else range(10)
        tables = [sweep(run, fixed, sizes, seeds, **where), sweep(run, MODELS, sizes, range(10), **where)]
        where |= {"out": out / f"{problem}-networks", "engine": "threads", "jobs": 1}
        if quick:
            chunked = {"chunked": NETWORKS["chunked"] | {"episodes": 1_500}}
            tables.append(sweep(run_networks, chunked, STEP_SIZES[6:7], range(1), together=2, **where))
        else:
            tables.append(sweep(run_networks, NETWORKS, STEP_SIZES, range(10), together=120, **where))
        table = pl.concat(tables, how="diagonal_relaxed")
        found.append(table.select(pl.lit(problem).alias("problem"), "precision", pl.exclude("precision")))
    return pl.concat([*found, signs.runs(out, quick, **how)], how="diagonal_relaxed")


def results(table: pl.DataFrame, problem: str = "original") -> Results:
    """The runs on one of the problems as arrays."""
    rows = preferred(table.filter(problem=problem))
    about: dict[str, Any] = {"best": BEST, "fixed": tuple(FIXED), "ours": OURS if problem == "original" else (*LABELS,)}
    return Results.of(rows, LABELS, episodes=EPISODES, score="regretful choices", **about)


@source("§4.2, Figure 5", controls=("survives_a_change_of_sign",))
def best_across_step_sizes(table: pl.DataFrame) -> Verdict:
    """Chunked SARSA performs best across several step sizes.

    At 3 or more step sizes its mean is below that of the best fixed λ at that step size (paired test, Holm over step
    sizes). It does not hold if its mean is least at fewer than 3.
    """
    return criteria.best_across_step_sizes(results(table), "chunked")


@source("§4.2, Figure 5", controls=("as_well_with_either_sign",))
def near_the_best(table: pl.DataFrame) -> Verdict:
    """Chunked SARSA comes near the best possible number, 950, at several step sizes.

    At 3 or more step sizes the interval of the mean lies below 1.05 × 950.
    """
    return criteria.low_at_several_step_sizes(results(table), "chunked", NEAR)


@source("§4.2, App. A.2")
def no_fixed_reliable(table: pl.DataFrame) -> Verdict:
    """No fixed λ reliably prefers a₁.

    A run learns if it misses fewer than twice the best possible number; an arm is reliable if 90% of its runs do (or
    all of ten or more). Holds if the interval of the share lies below that, for every fixed λ at its best step size.
    """
    return criteria.none_reliable(results(table), tuple(FIXED))


@source("ours, a control")
def survives_a_change_of_sign(table: pl.DataFrame) -> Verdict:
    """The advantage of Chunked SARSA survives when the sign of the charge's reward is turned round.

    At 3 or more step sizes its mean is below that of the best fixed λ at that step size (paired test, Holm over step
    sizes). It does not hold if its mean is least at fewer than 3.
    """
    return criteria.best_across_step_sizes(results(table, "mirrored"), "chunked")


@source("ours, a control")
def as_well_with_either_sign(table: pl.DataFrame) -> Verdict:
    """Chunked SARSA does as well with either sign, as an unbiased learner would.

    The interval of the difference, averaged over step sizes, lies within ±500; it does not hold if it does not and a
    paired test says that they differ.
    """
    both = shared(*(results(table, problem).runs("chunked") for problem in PROBLEMS))
    plain, mirrored = (runs.at().mean(axis=0) for runs in both)
    low, high, text = criteria.interval_text(mirrored - plain)
    p = paired_test(mirrored, plain)
    even = low >= -SIGN_MARGIN and high <= SIGN_MARGIN
    status = HOLDS if even else FAILS if p < LEVEL else NOT_SHOWN
    seen = f"a mean difference of {number_text(detectable_mean(mirrored - plain))}" if status == NOT_SHOWN else ""
    means = [number_text(float(np.mean(values))) for values in (plain, mirrored)]
    evidence = f"mean over step sizes {means[0]}, mirrored {means[1]}; difference {text}, p = {p:.2g}"
    return Verdict(status, evidence, seen)


CLAIMS = (
    best_across_step_sizes,
    near_the_best,
    no_fixed_reliable,
    survives_a_change_of_sign,
    as_well_with_either_sign,
    *signs.CLAIMS,
    *inputs_claims.CLAIMS,
)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Both problems at the best step sizes, and the two signs method by method."""
    both = {problem: results(table, problem) for problem in PROBLEMS}
    shown = {problem: paper.results_table(found, selects=False) for problem, found in both.items()}
    shown |= {f"{problem}-early": paper.reduced_table(found) for problem, found in both.items() if found.reduced}
    if (table["problem"] == inputs_claims.PLAIN).any():
        shown["inputs"] = inputs_claims.table_of(table)
    return shown | {"signs": signs.table_of(table), "signs-arms": paper.results_table(signs.results(table))}


def figures(table: pl.DataFrame) -> dict[str, Figure]:
    """Both problems against the step size (Figures 5 and 7), every fixed λ, every seed, and λ of the networks."""
    both = {problem: results(table, problem) for problem in PROBLEMS}
    found = {
        "figure": plots.both_signs_figure(both, ("chunked", "expected", "chunked-counts", "chunked-oracle")),
        "sweep": plots.sweep_figure(both["original"]),
        "seeds": plots.seeds_figure(both["original"]),
    }
    return found | {"networks": plots.networks_figure(both)}


def headline(table: pl.DataFrame) -> str:
    """Return the sentence that quick runs support."""
    return signs.headline(table)
