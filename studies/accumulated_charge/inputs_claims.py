"""Claims about the network's inputs, and their tables. Runs: `inputs` and `many_seeds`.

Registered on 2026-11-19 before any of these runs was looked at. Seeds are 0 to 19 in order, as far as the networks of
all three kinds are trained when the session's time is up, and at least ten. The main score is that of 2,000 episodes;
the margin is that of `signs`, 300 regretful choices, a third of what lies between the best possible and the worst.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from chunked_td.statistics import mean_and_interval
from studies.accumulated_charge.inputs import KINDS
from studies.accumulated_charge.signs import EPISODES, MARGIN
from studies.runner import criteria
from studies.runner.arrays import NotRun
from studies.runner.criteria import Claim, Verdict, source
from studies.runner.text import markdown, number_text, step_size_text

PLAIN, MIRRORED = "inputs", "inputs-mirrored"
SEEDS = 300
NO_TILT = 0.01
"""Difference of λ that we call no tilt: over the twenty steps between two charging steps a factor of 1.2 at most."""
LABELS = {"scaled": "divided by the maximum (the paper's)", "one-hot": "one-hot", "time-one-hot": "time one-hot"}
BESIDE = {"sarsa-1": "SARSA(1)", "chunked-oracle": "Chunked SARSA, true model"}


def both_signs(table: pl.DataFrame, arm: str, episode: int = EPISODES) -> tuple[np.ndarray, np.ndarray]:
    """Scores on the problem and on its mirror image, float64[step sizes, seeds], on the seeds of the networks."""
    problems = (PLAIN, MIRRORED) if arm.split("-expected")[0] in KINDS else ("original", "mirrored")
    seeds = table.filter(problem=PLAIN)["seed"].unique()
    found = []
    for problem in problems:
        rows = table.filter(pl.col("seed").is_in(seeds.implode()), problem=problem, arm=arm, episode=episode)
        rows = rows.sort("step_size", "seed", descending=[True, False])
        if rows.is_empty():
            raise NotRun(f"no runs of {arm} on {problem}")
        found.append(rows["score"].to_numpy().reshape(rows["step_size"].n_unique(), -1))
    return found[0], found[1]


def at_best(table: pl.DataFrame, arm: str, episode: int = EPISODES) -> np.ndarray:
    """Scores float64[seeds], the mean over both signs, at the step size with the least mean."""
    each = np.mean(both_signs(table, arm, episode), axis=0)
    return each[np.argmin(each.mean(axis=1))]


def difference(table: pl.DataFrame, arm: str, least: float = -MARGIN, most: float = MARGIN) -> Verdict:
    """Whether mirrored less original, averaged over step sizes, lies within [least, most]."""
    plain, mirrored = (each.mean(axis=0) for each in both_signs(table, arm))
    means = [number_text(float(each.mean())) for each in (plain, mirrored)]
    text = f"mean over step sizes {means[0]}, mirrored {means[1]}; difference {{}}, {plain.size} seeds"
    return criteria.within(mirrored - plain, least, most, text)


def tilts(arm: str, last: bool = True) -> np.ndarray:
    """λ of quiet steps at high charges less that at low ones, float64[seeds], in episodes 501 to 1,000 or 1 to 500."""
    rows = pl.read_parquet(Path(__file__).with_name("inputs.parquet")).filter(arm=arm)
    rows = rows.filter(pl.col("episode") > 500 if last else pl.col("episode") <= 500).sort("seed", "episode")
    each = (rows["quiet_high"] - rows["quiet_low"]).to_numpy().reshape(rows["seed"].n_unique(), -1)
    return each.mean(axis=1)


def tilt(arm: str, least: float = -NO_TILT, most: float = NO_TILT) -> Verdict:
    """Whether the tilt lies within [least, most]."""
    found = tilts(arm)
    mean, low, high = (float(x) for x in mean_and_interval(found))
    text = f"{mean:+.4f} [{low:+.4f}, {high:+.4f}], {found.size} seeds".replace("-", "−")
    return Verdict(criteria.inside(low, high, least, most), text)


@source("ours, a control")
def left_alone_is_enough(table: pl.DataFrame) -> Verdict:
    """Networks with the paper's inputs that train for 1,000 episodes tell the signs apart, as those trained on do.

    The interval of the difference between the signs, averaged over step sizes, lies above 300.
    """
    return difference(table, "scaled", MARGIN, np.inf)


@source("ours", controls=("left_alone_is_enough",))
def one_hot_is_even(table: pl.DataFrame) -> Verdict:
    """With one-hot inputs Chunked SARSA does as well with either sign.

    The interval of the difference between the signs, averaged over step sizes, lies within ±300; it does not hold if
    the interval lies outside.
    """
    return difference(table, "one-hot")


@source("ours", controls=("left_alone_is_enough",))
def time_one_hot_is_even(table: pl.DataFrame) -> Verdict:
    """With the time one-hot and the charge as it is, Chunked SARSA does as well with either sign.

    The interval of the difference between the signs, averaged over step sizes, lies within ±300; it does not hold if
    the interval lies outside.
    """
    return difference(table, "time-one-hot")


@source("ours")
def scaled_inputs_tilt(table: pl.DataFrame) -> Verdict:
    """With the paper's inputs, λ of quiet steps is larger where the charge is high.

    The interval of the mean difference of λ in episodes 501 to 1,000 lies above 0.01.
    """
    return tilt("scaled", NO_TILT, np.inf)


def no_tilt(kind: str, text: str) -> Claim:
    """The claim that a kind of input has no tilt."""

    def claim(table: pl.DataFrame) -> Verdict:
        return tilt(kind)

    claim.__name__ = f"no_tilt_{kind.replace('-', '_')}"
    claim.__doc__ = f"""{text}

    The interval of the mean difference of λ in episodes 501 to 1,000 lies within ±{NO_TILT:g}; it does not hold if the
    interval lies outside.
    """
    return source("ours")(claim)


@source("ours")
def one_hot_is_worth_it(table: pl.DataFrame) -> Verdict:
    """With one-hot inputs Chunked SARSA is better than SARSA(1) over both signs.

    Paired test of the mean over both signs on the same seeds, each at the step size that is best for it.
    """
    return criteria.smaller(at_best(table, "one-hot"), {"SARSA(1)": at_best(table, "sarsa-1")})


@source("ours")
def true_model_is_worth_it(table: pl.DataFrame) -> Verdict:
    """With the true model Chunked SARSA is better than SARSA(1) over both signs, after 10,000 episodes.

    300 seeds. Step sizes are chosen on one half of the seeds and scored on the other, and the other way round. Paired
    test of the mean over both signs.
    """
    seeds = [table.filter(problem=problem, arm=arm, precision="float64", episode=10_000)["seed"].n_unique()
             for arm in ("chunked-oracle", "sarsa-1") for problem in ("original", "mirrored")]  # fmt: skip
    if min(seeds) < SEEDS:
        return Verdict(criteria.NOT_RUN, f"{min(seeds)} seeds of {SEEDS}")
    ours, theirs = (cross_fitted(many(table, arm)) for arm in ("chunked-oracle", "sarsa-1"))
    return criteria.smaller(ours, {"SARSA(1)": theirs}, f"{ours.mean():,.0f}; {{}}, {ours.size} seeds")


def many(table: pl.DataFrame, arm: str, problems: tuple[str, ...] = ("original", "mirrored")) -> np.ndarray:
    """Scores of 10,000 episodes, the mean over signs, float64[step sizes, seeds], on all seeds."""
    found = []
    for problem in problems:
        rows = table.filter(problem=problem, arm=arm, precision="float64", episode=10_000)
        rows = rows.sort("step_size", "seed", descending=[True, False])
        found.append(rows["score"].to_numpy().reshape(rows["step_size"].n_unique(), -1))
    return np.mean(found, axis=0)


def cross_fitted(scores: np.ndarray) -> np.ndarray:
    """Scores float64[seeds] at step sizes chosen on the other half. Args: scores: float64[step sizes, seeds]."""
    half = scores.shape[1] // 2
    chosen = [int(np.argmin(part.mean(axis=1))) for part in (scores[:, half:], scores[:, :half])]
    return np.concatenate([scores[chosen[0], :half], scores[chosen[1], half:]])


CLAIMS: tuple[Claim, ...] = (
    left_alone_is_enough,
    one_hot_is_even,
    time_one_hot_is_even,
    scaled_inputs_tilt,
    no_tilt("one-hot", "With one-hot inputs λ of quiet steps does not depend on the charge."),
    no_tilt("time-one-hot", "With the time one-hot λ of quiet steps does not depend on the charge."),
    one_hot_is_worth_it,
    true_model_is_worth_it,
)


def table_of(table: pl.DataFrame) -> str:
    """Table of every kind of input, SARSA(1) and the true model, after 2,000 episodes."""
    rows = []
    for arm, label in {**LABELS, **{f"{kind}-expected": f"{LABELS[kind]}, expected λ" for kind in KINDS}}.items():
        rows.append((label, tilt_text(arm), *cells(table, arm)))
    rows += [(label, "–", *cells(table, arm)) for arm, label in BESIDE.items()]
    return markdown(("inputs", "tilt of λ", "original", "mirrored", "difference [95 %]", "both signs at best α"), rows)


def tilt_text(arm: str) -> str:
    """The tilt with its interval."""
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*map(float, mean_and_interval(tilts(arm)))).replace("-", "−")


def cells(table: pl.DataFrame, arm: str) -> tuple[str, ...]:
    """Means over step sizes, their difference, and the mean over both signs at the step size that is best for it."""
    plain, mirrored = both_signs(table, arm)
    mean, low, high = mean_and_interval((mirrored - plain).mean(axis=0))
    each = (plain + mirrored) / 2
    size = np.sort(table.filter(arm=arm)["step_size"].unique().to_numpy())[::-1][np.argmin(each.mean(axis=1))]
    best, *interval = mean_and_interval(at_best(table, arm))
    text = f"{mean:,.0f} [{low:,.0f}, {high:,.0f}]".replace("-", "−")
    at = f"{best:,.0f} [{interval[0]:,.0f}, {interval[1]:,.0f}] at {step_size_text(float(size))}"
    return f"{plain.mean():,.0f}", f"{mirrored.mean():,.0f}", text, at
