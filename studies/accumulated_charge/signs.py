"""The two signs of Accumulated-Charge: what makes them differ, and what removes the difference.

A stand-in for the network, `TiltedLambda`, has the λ that was measured in the networks and nothing else. Every method
runs on both signs with the same random numbers. The first 1,000 episodes explore, as in the paper; 1,000 more show what
was learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chunked_td import BackwardLambda, Schedule, sweep
from chunked_td.envs.dynamics import AccumulatedCharge
from chunked_td.simulation import simulate
from chunked_td.statistics import mean_and_interval
from studies.accumulated_charge.tilted import TiltedLambda
from studies.runner import criteria
from studies.runner.arrays import Results
from studies.runner.averaged import Averaged, Corrected
from studies.runner.criteria import Claim, Verdict, judged, source
from studies.runner.simulated import columns
from studies.runner.text import markdown, number_text, step_size_text

PLAIN, MIRRORED = "signs", "signs-mirrored"
EXPLORED, EPISODES = 1_000, 2_000
BEST = 0.5 * EXPLORED + 0.05 * (EPISODES - EXPLORED)
WORST = 0.5 * EXPLORED + 0.95 * (EPISODES - EXPLORED)
MARGIN = (WORST - BEST) / 3  # regretful choices that we call no difference
LARGE = 2 * (WORST - BEST) / 3
STEP_SIZES = [0.1 * 2.0**j for j in (-1, -4, -7)]
RECORD = list(range(100, EPISODES + 1, 100))

ARMS: dict[str, dict[str, Any]] = {
    "fixed": {"lambda_source": 1.0},
    "tilted": {"lambda_source": TiltedLambda()},
    "expected": {"lambda_source": TiltedLambda(expected=True)},
    "averaged": {"lambda_source": TiltedLambda(), "view": Averaged()},
    "first": {"lambda_source": TiltedLambda(trial=1), "view": Averaged()},
    "five": {"lambda_source": TiltedLambda(trial=5), "view": Averaged()},
    "five-constant": {"lambda_source": TiltedLambda(trial=5)},
    "n-over-n": {"lambda_source": BackwardLambda(), "view": Averaged()},
    "tdc": {"lambda_source": BackwardLambda(), "view": Corrected()},
}
LABELS = {
    "fixed": "SARSA(1)",
    "tilted": "tilted λ",
    "expected": "tilted expected λ",
    "averaged": "tilted λ, 1/n",
    "first": "tilted λ, 1/n, λ = 1 at first",
    "five": "tilted λ, 1/n, λ = 1 five times",
    "five-constant": "tilted λ, λ = 1 five times",
    "n-over-n": "TD(n/n)",
    "tdc": "TDC",
}
CHANGES = {
    "tilted": "the paper's λ, from the stand-in",
    "expected": "λ does not depend on the outcome: p² in place of p",
    "averaged": "step sizes of 1/n",
    "first": "and λ = 1 on the first visit of a state",
    "five": "the same for five visits",
    "five-constant": "the same with a constant step size",
    "n-over-n": "no stand-in: the backward model's λ, 1/n",
    "tdc": "the same with its correction",
    "fixed": "no stand-in: λ = 1",
}


def run(step_size: float, seed: int, *, mirrored: bool, lambda_source: Any, view: Any = "offline") -> dict[str, Any]:
    """One run of 2,000 episodes."""
    dynamics = AccumulatedCharge.make(horizon=200, points=10, success=0.5, bonus=0.1, mirrored=mirrored)
    epsilon = Schedule(((0, 1.0), (EXPLORED, 0.1)), hold=True).over(np.arange(EPISODES))
    how = {"epsilon": epsilon, "episodes": EPISODES, "record_at": RECORD, "threads": 1}
    found = simulate(dynamics, lambda_source=lambda_source, view=view, step_sizes=step_size, seeds=seed, **how)
    return columns(found, RECORD)


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """All methods on both signs with 150 seeds. Quick: three of them at one step size with 10 seeds."""
    arms = {arm: ARMS[arm] for arm in ("fixed", "tilted", "five")} if quick else ARMS
    step_sizes, seeds = (STEP_SIZES[1:2], range(10)) if quick else (STEP_SIZES, range(150))
    found = []
    for problem in (PLAIN, MIRRORED):
        table = sweep(run, arms, step_sizes, seeds, out=out / problem, mirrored=problem == MIRRORED, **how)
        found.append(table.select(pl.lit(problem).alias("problem"), pl.lit("float64").alias("precision"), pl.all()))
    return pl.concat(found)


def results(table: pl.DataFrame) -> Results:
    """Every method on both signs as an arm of its own."""
    rows = table.filter(pl.col("problem").is_in([PLAIN, MIRRORED]))
    sign = pl.when(problem=MIRRORED).then(pl.lit("-mirrored")).otherwise(pl.lit(""))
    labels = {name: text for arm, label in LABELS.items() for name, text in both(arm, label)}
    about: dict[str, Any] = {"score": "regretful choices", "best": BEST, "ours": tuple(labels)}
    return Results.of(rows.with_columns(pl.col("arm") + sign), labels, episodes=EPISODES, **about)


def both(arm: str, label: str) -> list[tuple[str, str]]:
    """Id and label of an arm on either sign."""
    return [(arm, label), (f"{arm}-mirrored", f"{label}, mirrored")]


def chosen(found: Results, arm: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores by seed on the problem and on its mirror image, at the step size that is best for both; that step size."""
    plain, mirrored = found.together(arm, f"{arm}-mirrored")
    place = int(np.argmin((plain.at() + mirrored.at()).mean(axis=1)))
    return plain.at()[place], mirrored.at()[place], float(plain.step_sizes[place])


def difference(table: pl.DataFrame, arm: str, least: float = -MARGIN, most: float = MARGIN) -> Verdict:
    """Whether the difference between the signs lies within [least, most]."""
    plain, mirrored, step_size = chosen(results(table), arm)
    means = [number_text(float(np.mean(values))) for values in (plain, mirrored)]
    text = f"{means[0]}, mirrored {means[1]}; difference {{}}, α = {step_size_text(step_size)}, {plain.size} seeds"
    return criteria.within(mirrored - plain, least, most, text)


@source("ours")
def the_tilt_is_enough(table: pl.DataFrame) -> Verdict:
    """A λ that is larger where the charge is high, by as much as the network's, is enough to make the two signs differ.

    At the step size with the least mean over both signs, the interval of the difference lies above 600, two thirds of
    what lies between the best possible and the worst.
    """
    return difference(table, "tilted", LARGE, np.inf)


def no_difference(arm: str, text: str) -> Claim:
    """The claim that the two signs do not differ with a method."""

    def claim(table: pl.DataFrame) -> Verdict:
        return difference(table, arm)

    claim.__name__ = f"no_difference_{arm.replace('-', '_')}"
    claim.__doc__ = f"""{text}

    At the step size with the least mean over both signs, the interval of the difference between the signs, seed by
    seed, lies within ±{MARGIN:g}, a third of what lies between the best possible and the worst; it does not hold if
    the interval lies outside.
    """
    return source("ours")(claim)


@source("ours")
def worth_it(table: pl.DataFrame) -> Verdict:
    """With the difference removed by λ = 1 on the first five visits, chunking is better than SARSA(1) over both signs.

    Paired test of the mean over both signs, each at the step size that is best for it.
    """
    found = results(table)
    five, fixed = ((plain + mirrored) / 2 for plain, mirrored, _ in (chosen(found, arm) for arm in ("five", "fixed")))
    return criteria.smaller(five, {"SARSA(1)": fixed})


REMOVES = {
    "fixed": no_difference("fixed", "With λ = 1 the two signs do not differ."),
    "expected": no_difference("expected", "A λ that does not know the outcome removes the difference."),
    "averaged": no_difference("averaged", "Step sizes of 1/n remove the difference."),
    "first": no_difference("first", "Step sizes of 1/n, and λ = 1 on the first visit of a state, remove it."),
    "five": no_difference("five", "Step sizes of 1/n, and λ = 1 on the first five visits of a state, remove it."),
    "five-constant": no_difference(
        "five-constant", "λ = 1 on the first five visits removes it with a constant step size."
    ),
    "n-over-n": no_difference("n-over-n", "TD(n/n), the backward model's λ with step sizes of 1/n, does not have it."),
    "tdc": no_difference("tdc", "TDC does not have it."),
}
CLAIMS: tuple[Claim, ...] = (the_tilt_is_enough, *REMOVES.values(), worth_it)


def table_of(table: pl.DataFrame) -> str:
    """Both signs, method by method, at the step size that is best for both together."""
    found, rows = results(table), []
    for arm, change in CHANGES.items():
        if arm in found.present:
            plain, mirrored, _ = chosen(found, arm)
            mean, low, high = (f"{float(x):,.0f}".replace("-", "−") for x in mean_and_interval(mirrored - plain))
            right = f"{100 * np.mean((plain < 1_000) & (mirrored < 1_000)):.0f} %"
            verdict = "" if arm == "tilted" else judged([REMOVES[arm]], table)[0].verdict.status
            means = f"{plain.mean():,.0f}", f"{mirrored.mean():,.0f}"
            rows.append((LABELS[arm], change, *means, f"{mean} [{low}, {high}]", right, verdict))
    columns = (
        "method",
        "what it changes",
        "original",
        "mirrored",
        "difference [95 %]",
        "right on both",
        "no difference?",
    )
    return markdown(columns, rows)


def headline(table: pl.DataFrame) -> str:
    """Return the sentence on the two signs that the stand-in's runs support."""
    plain, mirrored, _ = chosen(results(table), "tilted")
    _, _, text = criteria.interval_text(mirrored - plain)
    return (
        f"Chunked SARSA with the λ that was measured in the networks makes {plain.mean():,.0f} regretful choices of "
        f"{EPISODES:,} on Accumulated-Charge and {mirrored.mean():,.0f} on its mirror image, which differs in one sign "
        f"and in no expected return: a difference of {text} over {plain.size} seeds, "
        f"where {BEST:,.0f} is the best possible and {WORST:,.0f} the worst."
    )
