"""Key-to-Door (§4.3, App. A.3): does a λ per state component find a late reward among distractors?

Pick the key up in the first of 100 steps, unlock the door in the last, and collect 0.01; in between four coins pay as
much at random. The reward has one number per state component. The score counts episodes without treasure, of 5,000.
`scalar.py` has the same problem with one number as the reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td import FactoredLambda, ForwardLambda, linear, sweep
from chunked_td.envs.dynamics import KeyToDoor
from chunked_td.simulation import simulate
from chunked_td.statistics import mean_sd
from studies.key_to_door import scalar
from studies.key_to_door.network import config_for, noisy_steps
from studies.runner import criteria, paper, plots, simulated
from studies.runner.arrays import Published, Results, preferred
from studies.runner.criteria import Verdict, source
from studies.runner.text import number_text

EPISODES, BEST, PROBLEM = 5_000, 668.0, "given"
NEAR = 1.05  # near the best possible number: at most 5 % above it
LAMBDAS = (0.0, 0.1, 0.5, 0.9, 1.0)
FIXED = {f"expected-sarsa-{value:g}": {"lambda_source": value} for value in LAMBDAS}
ORACLE = {
    "c-default-oracle": {"lambda_source": ForwardLambda(), "model": "oracle"},
    "c-factored-oracle": {"lambda_source": FactoredLambda(), "model": "oracle"},
}
NETWORKS = {"c-default": {"lambda_source": ForwardLambda()}, "c-factored": {"lambda_source": FactoredLambda()}}
LABELS = {
    **{f"expected-sarsa-{value:g}": f"Expected-SARSA({value:g})" for value in LAMBDAS},
    "c-default": "C-default",
    "c-factored": "C-factored",
    "c-default-oracle": "C-default, true model",
    "c-factored-oracle": "C-factored, true model",
}
SIZES = [0.1 * 2.0**j for j in range(2, -10, -1)]
STEP_SIZES = {arm: SIZES[:6] if arm.startswith("c-factored") else SIZES for arm in LABELS}
RECORD = list(range(100, EPISODES + 1, 100))
KEY = ("problem", "precision", "arm", "step_size", "seed", "episode")
PAPER = {  # episodes without treasure: mean, standard deviation (Table 1), at the selected step size (Table 5)
    "expected-sarsa-0": Published(0.1 * 2.0**1, 1881, 1950),
    "expected-sarsa-0.1": Published(0.1 * 2.0**2, 2277, 2068),
    "expected-sarsa-0.5": Published(0.1 * 2.0**0, 2273, 2076),
    "expected-sarsa-0.9": Published(0.1 * 2.0**0, 2688, 2119),
    "expected-sarsa-1": Published(0.1 * 2.0**-3, 2261, 582),
    "c-default": Published(0.1 * 2.0**0, 2285, 2061),
    "c-factored": Published(0.1 * 2.0**-1, 669, 17),
}


def settings(episodes: int) -> dict[str, Any]:
    """Settings of all runs: ε goes from 1 to 0.1 over 500 episodes."""
    record_at = [each for each in RECORD if each <= episodes]
    epsilon = linear(1.0, 0.1, 500).over(np.arange(episodes))
    return {"learner": "expected_sarsa", "epsilon": epsilon, "episodes": episodes, "record_at": record_at}


def run(
    step_size: float, seed: int, *, lambda_source: Any, model: str = "counts", episodes: int = EPISODES
) -> dict[str, Any]:
    """One run with a fixed λ or the true model."""
    dynamics, shared = KeyToDoor.make(horizon=100, distractors=4), settings(episodes)
    how = {"lambda_source": lambda_source, "model": model, "threads": 1}
    found = simulate(dynamics, step_sizes=step_size, seeds=seed, **shared, **how)
    return {"precision": "float64", **simulated.columns(found, shared["record_at"])}


def run_networks(
    step_size: np.ndarray, seed: np.ndarray, *, lambda_source: Any, episodes: int = EPISODES
) -> list[Mapping[str, Any]]:
    """Several runs whose λ comes from networks, as one program."""
    dynamics = KeyToDoor.make(horizon=100, distractors=4)
    how = {"config": config_for, "noisy_steps": noisy_steps, **settings(episodes)}
    return simulated.networks(dynamics, step_size, seed, lambda_source, **how)


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """100 seeds, 40 of networks, which want a GPU; and `scalar`.

    Quick: ten seeds at the paper's step size, and networks with two seeds for 600 episodes.
    """
    sizes: dict[str, Any] = {arm: [PAPER[arm].step_size] for arm in (*FIXED, *NETWORKS)} if quick else STEP_SIZES
    sizes |= {f"{arm}-oracle": sizes[arm] for arm in NETWORKS}
    networks = {arm: own | {"episodes": 600} for arm, own in NETWORKS.items()} if quick else NETWORKS
    table = sweep(run, FIXED | ORACLE, sizes, range(10 if quick else 100), out=out / PROBLEM, **how)
    how_networks = how | {"out": out / f"{PROBLEM}-networks", "engine": "threads", "jobs": 1}
    seeds = range(2 if quick else 40)
    trained = sweep(run_networks, networks, sizes, seeds, together=120, **how_networks)
    both = pl.concat([table, trained], how="diagonal_relaxed")
    given = both.select(pl.lit(PROBLEM).alias("problem"), "precision", pl.exclude("precision"))
    return pl.concat([given, scalar.runs(out, quick, **how)], how="diagonal_relaxed")


def results(table: pl.DataFrame) -> Results:
    """The runs with one reward per component as arrays. Selection: least mean (App. A.3)."""
    about: dict[str, Any] = {"best": BEST, "fixed": tuple(FIXED), "paper": PAPER, "ours": tuple(ORACLE)}
    rows = preferred(table.filter(problem=PROBLEM))
    return Results.of(rows, LABELS, episodes=EPISODES, score="episodes without treasure", **about)


@source("§4.3, Table 1")
def no_fixed_reliable(table: pl.DataFrame) -> Verdict:
    """No fixed λ reliably learns to collect the treasure.

    A run learns if it misses fewer than twice the best possible number; an arm is reliable if 90% of its runs do (or
    all of ten or more). Holds if the interval of the share lies below that, for every fixed λ at its selected step
    size.
    """
    return criteria.none_reliable(results(table), tuple(FIXED))


@source("§4.3, Table 1")
def nor_is_default(table: pl.DataFrame) -> Verdict:
    """C-default does not reliably learn either.

    A run learns if it misses fewer than twice the best possible number; an arm is reliable if 90% of its runs do (or
    all of ten or more). Holds if the interval of the share lies below that.
    """
    return criteria.none_reliable(results(table), ["c-default"])


@source("§4.3, Table 1")
def factored_near_the_best(table: pl.DataFrame) -> Verdict:
    """C-factored comes near the best possible number, 668.

    The interval of the mean lies below 1.05 × 668.
    """
    found = results(table)
    scores = found.at_selected("c-factored")[:, -1]
    sd = number_text(float(mean_sd(scores)[1]), 100)
    text = f"{{}}, standard deviation {sd}; {criteria.reliability(found, 'c-factored').evidence}"
    return criteria.within(scores, -np.inf, NEAR * BEST, text)


@source("§4.3, Table 1")
def factored_is_best(table: pl.DataFrame) -> Verdict:
    """C-factored misses fewer treasures than every other arm.

    Paired tests against every other arm of the paper, each at its selected step size (Holm).
    """
    found, others = results(table), [arm for arm in PAPER if arm != "c-factored"]
    scores = [curves[:, -1] for curves in found.selected_together("c-factored", *others)]
    return criteria.smaller(scores[0], {LABELS[arm]: each for arm, each in zip(others, scores[1:], strict=True)})


@source("App. A.3, Figure 8")
def factored_at_many_step_sizes(table: pl.DataFrame) -> Verdict:
    """C-factored does well at many step sizes.

    At 3 or more of its step sizes the interval of the mean lies below twice 668.
    """
    return criteria.low_at_several_step_sizes(results(table), "c-factored", 2.0)


@source("App. A.3, Table 5")
def same_step_sizes(table: pl.DataFrame) -> Verdict:
    """The selected step sizes are the paper's.

    The selected exponents are equal. It does not hold if for some arm the paper's step size is shown to be worse than
    ours by the measure of selection (paired test, Holm); undecided otherwise.
    """
    return criteria.same_step_sizes(results(table))


CLAIMS = (
    no_fixed_reliable,
    nor_is_default,
    factored_near_the_best,
    factored_is_best,
    factored_at_many_step_sizes,
    same_step_sizes,
    *scalar.CLAIMS,
)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Our Tables 1 and 5 with the paper's, and the runs from the scalar reward."""
    found = results(table)
    shown = {"results": paper.results_table(found), "step-sizes": paper.step_size_table(found)}
    shown |= {"early": paper.reduced_table(found)} if found.reduced else {}
    return shown | {"scalar": paper.results_table(scalar.results(table))}


def figures(table: pl.DataFrame) -> dict[str, Figure]:
    """Scores against the step size (Figure 8), every seed, λ of the networks; and the same from the scalar reward."""
    found = results(table)
    return {
        "figure": plots.sweep_figure(found),
        "seeds": plots.seeds_figure(found),
        "networks": plots.networks_figure({"Key-to-Door": found}),
        "scalar": plots.seeds_figure(scalar.results(table)),
    }
