"""Key-to-Door with Q networks: does a head per reward component, with a λ each, learn what one head does not?

Alg. 4 gives each reward component values and a λ of its own; the paper wishes for it with networks. The problem
has the paper's size: the key is picked up in the first of 100 steps, the door unlocked in the last, four coins pay in
between. The score is the share of 5,000 episodes with treasure; exploration allows about 0.86. Every method chooses its
step size on four seeds and is judged on twenty others. `training` has the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td import sweep
from chunked_td.statistics import mean_and_interval, mean_sd
from studies.runner import criteria, plots
from studies.runner.arrays import NotRun
from studies.runner.criteria import Verdict, source
from studies.runner.text import markdown

KEY = ("coin", "arm", "step_size", "seed")
ROUNDS, EPISODES, ROUND = 157, 5_024, 32
LATE = 16
"""The last so many rounds: some 500 episodes at ε = 0.1."""
LAMBDAS = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
STEP_SIZES = (3e-4, 1e-3, 3e-3, 1e-2)
TUNED, JUDGED = range(1_000, 1_004), range(100, 120)
COINS = (0.25, 1.0)
"""What a coin pays, in units of the treasure; the paper's is ¼."""
MARGIN = 0.02
"""Share of episodes that we call no difference."""
ONE, GIVEN = (tuple(f"{heads}-{value:g}" for value in LAMBDAS) for heads in ("one", "heads"))
ARMS: dict[str, tuple[str, str, float]] = {
    **{f"one-{value:g}": ("one", "fixed", value) for value in LAMBDAS},
    **{f"heads-{value:g}": ("given", "fixed", value) for value in LAMBDAS},
    "one-whole": ("one", "whole", 0.0),
    "heads-each": ("given", "each", 0.0),
    "heads-wrong": ("given", "wrong", 0.0),
    "learned-each": ("learned", "each", 0.0),
    "learned-0.9": ("learned", "fixed", 0.9),
}
LABELS = {
    **{f"one-{value:g}": f"one head, λ = {value:g}" for value in LAMBDAS},
    **{f"heads-{value:g}": f"a head per reward component, λ = {value:g}" for value in LAMBDAS},
    "one-whole": "one head, the paper's λ of the whole next state",
    "heads-each": "a head per reward component, a λ each",
    "heads-wrong": "the same λs, each given to another component's head",
    "learned-each": "parts learned from the scalar reward, a λ each",
    "learned-0.9": "parts learned from the scalar reward, λ = 0.9",
}


def run(
    step_size: np.ndarray, seed: np.ndarray, *, coin: float, method: tuple[str, str, float], rounds: int = ROUNDS
) -> list[Mapping[str, Any]]:
    """Several runs of an arm: treasure over training and at its end, and the mean λ of two heads at the end."""
    from studies.key_to_door_networks.training import Arm, run_many

    rates, seeds = np.asarray(step_size, np.float32), np.asarray(seed, np.int32)
    treasure, own, first = (
        np.asarray(each, np.float64) for each in run_many(Arm(*method[:2]), rounds, coin, method[2], rates, seeds)
    )
    return [
        {
            "score": treasure[k].mean(),
            "late": treasure[k, -LATE:].mean(),
            "lambda_treasure": own[k, -LATE:].mean(),
            "lambda_coin": first[k, -LATE:].mean(),
        }
        for k in range(len(seeds))
    ]


def chosen(table: pl.DataFrame, coin: float, arm: str) -> float:
    """The step size with the largest mean over the tuning seeds."""
    rows = table.filter(pl.col("seed").is_in(list(TUNED)), coin=coin, arm=arm)
    if rows.is_empty():
        raise NotRun(f"no runs of {arm} with coins worth {coin}")
    found = rows.group_by("step_size").agg(pl.mean("score")).sort("score", "step_size", descending=[True, False])
    return float(found["step_size"][0])


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """Tuning, then the judged seeds at each arm's step size. Quick: three arms, one step size, two seeds, 40 rounds."""
    how |= {"engine": "threads", "jobs": 1}
    found = []
    for coin in COINS[:1] if quick else COINS:
        names = ("one-0.9", "heads-0.9", "heads-each") if quick else tuple(ARMS)
        settings = {name: {"method": ARMS[name], "rounds": 40 if quick else ROUNDS} for name in names}
        where = {"coin": coin, **how}
        if quick:
            found.append(sweep(run, settings, STEP_SIZES[2:3], range(2), out=out / f"{coin}", together=2, **where))
            continue
        tuned = sweep(run, settings, STEP_SIZES, TUNED, out=out / f"{coin}-tuned", together=4, **where)
        tuned = tuned.with_columns(coin=pl.lit(coin))
        sizes = {name: [chosen(tuned, coin, name)] for name in names}
        judged = sweep(run, settings, sizes, JUDGED, out=out / f"{coin}-judged", together=4, **where)
        found += [tuned, judged]
    return pl.concat([each.with_columns(coin=pl.lit(coin)) if "coin" not in each.columns else each for each in found])


# ---- the claims


def scores(table: pl.DataFrame, coin: float, arm: str, column: str = "score") -> np.ndarray:
    """float64[seeds] of the judged seeds, at the step size chosen on others."""
    rows = table.filter(pl.col("seed").is_in(list(JUDGED)), coin=coin, arm=arm, step_size=chosen(table, coin, arm))
    if rows["seed"].n_unique() < len(JUDGED):
        raise NotRun(f"{LABELS[arm]}: {rows.height} of {len(JUDGED)} seeds")
    return rows.sort("seed")[column].to_numpy()


def best_of(table: pl.DataFrame, coin: float, arms: tuple[str, ...]) -> str:
    """The arm with the largest mean over the tuning seeds, each at its step size."""
    rows = table.filter(pl.col("seed").is_in(list(TUNED)), coin=coin)

    def mean(arm: str) -> float:
        return float(np.mean(rows.filter(arm=arm, step_size=chosen(table, coin, arm))["score"].to_numpy()))

    return max(arms, key=mean)


def larger(table: pl.DataFrame, arm: str, other: str) -> Verdict:
    """Whether an arm collects the treasure more often than another, at the paper's coins."""
    ours, theirs = (scores(table, COINS[0], each) for each in (arm, other))
    found = criteria.smaller(-ours, {LABELS[other]: -theirs})
    return Verdict(found.status, f"{ours.mean():.3f} against {theirs.mean():.3f}; {found.evidence}", found.detectable)


@source("ours, after §5.3 and §7")
def better_than_one_head(table: pl.DataFrame) -> Verdict:
    """With networks, a head per reward component with a λ each collects the treasure more often than one head.

    Paired test against one head with the fixed λ that is best on the tuning seeds; coins worth ¼ of the treasure.
    """
    return larger(table, "heads-each", best_of(table, COINS[0], ONE))


@source("ours")
def better_than_heads(table: pl.DataFrame) -> Verdict:
    """It collects it more often than the same heads with one fixed λ: a λ each adds to the heads.

    Paired test against the fixed λ that is best on the tuning seeds; coins worth ¼ of the treasure.
    """
    return larger(table, "heads-each", best_of(table, COINS[0], GIVEN))


@source("ours, a control")
def the_right_component(table: pl.DataFrame) -> Verdict:
    """The same λs given to the wrong components' heads collect it less often.

    Paired test; coins worth ¼ of the treasure.
    """
    return larger(table, "heads-each", "heads-wrong")


@source("ours")
def better_than_the_whole(table: pl.DataFrame) -> Verdict:
    """One head with the paper's λ of the whole next state collects it less often than one head with the best fixed λ.

    Paired test against the fixed λ that is best on the tuning seeds; coins worth ¼ of the treasure.
    """
    return larger(table, best_of(table, COINS[0], ONE), "one-whole")


@source("ours")
def learned_as_good(table: pl.DataFrame) -> Verdict:
    """Parts that are learned from the scalar reward do as well as the given ones.

    The interval of the difference, a λ each, lies within ±0.02; it does not hold if it lies outside. Coins worth ¼ of
    the treasure.
    """
    ours, theirs = (scores(table, COINS[0], each) for each in ("learned-each", "heads-each"))
    return criteria.within(ours - theirs, -MARGIN, MARGIN, f"{ours.mean():.3f} against {theirs.mean():.3f}; {{}}")


CLAIMS = (better_than_one_head, better_than_heads, the_right_component, better_than_the_whole, learned_as_good)

# ---- tables and figures


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Every method, best first, a column for what coins pay."""
    coins = sorted(table["coin"].unique().to_list())
    rows = []
    for arm, label in LABELS.items():
        cells, place = [], 0.0
        for coin in coins:
            try:
                found, late = (scores(table, coin, arm, column) for column in ("score", "late"))
                mean, sd = map(float, mean_sd(found))
                cells += [f"{mean:.3f} ± {sd:.3f}", f"{late.mean():.3f}", f"{chosen(table, coin, arm):g}"]
                place = place or mean
            except NotRun:
                cells += ["not run", "–", "–"]
        rows.append((place, (label, *cells)))
    heads = [
        text
        for coin in coins
        for text in (f"coins worth {coin:g}: treasure, all episodes", "last 500", "step size")
    ]  # fmt: skip
    rows.sort(key=lambda row: -row[0])
    return {"results": markdown(("method", *heads), [cells for _, cells in rows])}


def figure(table: pl.DataFrame) -> Figure:
    """Share of episodes with treasure of every method, with every judged seed."""
    drawn, axes = plots.new_figure(height=4.2)
    arms = [arm for arm in LABELS if not table.filter(arm=arm, coin=COINS[0]).is_empty()]
    found = {}
    for arm in arms:
        try:
            found[arm] = scores(table, COINS[0], arm)
        except NotRun:
            continue
    order = sorted(found, key=lambda arm: found[arm].mean())
    for place, arm in enumerate(order):
        values = found[arm]
        axes.scatter(values, np.full(values.size, place), s=8, color="0.7", zorder=1)
        mean, low, high = map(float, mean_and_interval(values))
        axes.plot([low, high], [place, place], color="#1b6ca8", linewidth=2, zorder=2)
        axes.plot(mean, place, "o", color="#1b6ca8", zorder=3)
    axes.set_yticks(range(len(order)), [LABELS[arm] for arm in order])
    axes.axvline(0.86, color="0.6", linestyle=":", zorder=0)
    axes.set_xlabel("share of episodes with treasure, coins worth ¼ of it; dotted: what exploration allows")
    return drawn
