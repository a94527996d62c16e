"""Linear key-to-door: is a choice at the start learned that pays 21 to 101 steps later, through the noise of apples?

The problem is that of Meulemans et al. (NeurIPS 2023, "COCOA"): L cells, one per step. The key lies in the first, the
door in the last but one, apples of random worth between them. Value learners act ε-greedily, policy gradients have no
baseline. Step sizes and the best fixed λ are chosen on six seeds and scored on fourteen others. All rules were written
before the data (`registered.md`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

import chunked_td as ctd
from chunked_td.envs.dynamics import linear_key_to_door
from chunked_td.envs.linear_key_to_door.dynamics import APPLES
from chunked_td.simulation import simulate
from chunked_td.statistics import Estimate, mean_and_interval
from chunked_td.sweeps import sweep
from studies.linear_key_to_door.gradients import policy_gradient
from studies.runner.criteria import NOT_RUN, NOT_SHOWN, Verdict, source, status_of
from studies.runner.data import of_latest
from studies.runner.plots import legend_below, new_figure
from studies.runner.text import markdown

HERE = Path(__file__).parent
LENGTHS = (23, 43, 63, 83, 103)
EPISODES, LAST, APPLE_SEED = 10_000, 1_000, 2022
CHOOSING, JUDGED = 6, 14
"""Seeds on which step sizes are chosen; seeds after them, which are scored."""
FALLING, ALWAYS, GRADIENT = "ε falling", "ε = 0.1", "policy gradient"
STEP_SIZES = {FALLING: [2.0**j for j in range(-1, -9, -1)], ALWAYS: [2.0**j for j in range(-1, -9, -1)],
              GRADIENT: [2.0**j for j in range(2, -6, -1)]}  # fmt: skip
KEY = ("length", "sure", "arm", "step_size", "seed")

_LINEAGE = {"lambda_source": 1.0, "view": ctd.Lineage(prior=1.0)}
RULE = "rule"
VALUES: dict[str, dict[str, Any]] = {
    **{f"fixed-{value:g}": {"lambda_source": value} for value in (0.0, 0.5, 0.9, 1.0)},
    "chunked": {"lambda_source": ctd.ForwardLambda()},
    "expected": {"lambda_source": ctd.ExpectedLambda()},
    "lineage": _LINEAGE,
    RULE: {**_LINEAGE, "reward_source": ctd.ExpectedError(0.5)},
}
FIXED = tuple(name for name in VALUES if name.startswith("fixed-"))
ARMS: dict[str, dict[str, dict[str, Any]]] = {
    FALLING: VALUES,
    ALWAYS: {f"{name}-always": {**each, "epsilon": 0.1} for name, each in VALUES.items()
             if name not in ("lineage", "expected")},
    GRADIENT: {"reinforce": {"form": "none"}, "state": {"form": "state"}, "reward": {"form": "reward"}},
}  # fmt: skip
"""By the way to explore: {arm: settings}."""
LABELS = {
    **{name: f"λ = {name[6:]}" for name in FIXED}, "chunked": "Chunked (the paper)", "expected": "Expected λ",
    "lineage": "Lineage", RULE: "Lineage, half expected errors (the rule)", "reinforce": "REINFORCE",
    "state": "Hindsight, state form", "reward": "COCOA, reward form",
}  # fmt: skip

# ---- what is run


@functools.lru_cache(maxsize=4)
def corridor(length: int, sure: bool) -> ctd.TransitionTable:
    """The problem. Args: sure: whether an apple always pays 0.5."""
    return linear_key_to_door(length, seed=APPLE_SEED, worth=(0.5,) if sure else APPLES)


def run(
    step_size: float, seed: int, *, length: int, sure: bool, episodes: int, form: str = "", **arm: Any
) -> dict[str, Any]:
    """One run: the shares of all episodes, and of the last ones, that found the treasure."""
    table, before = corridor(length, sure), episodes - min(LAST, episodes // 2)
    marks = [before, episodes]
    if form:
        entropy = 0.03 * (20 / max(length - 3, 1)) ** 0.68260619448
        misses = policy_gradient(table, form=form, entropy=entropy, seed=seed, step_size=step_size, record_at=marks)
    else:
        falling = ctd.Schedule(((0, 1.0), (2_000, 0.0))).over(np.arange(episodes))
        found = simulate(table, learner="expected_sarsa", step_sizes=step_size, seeds=seed, episodes=episodes,
                         record_at=marks, threads=1, **{"epsilon": falling, **arm})  # fmt: skip
        misses = found.misses_at[0]
    last = 1.0 - (misses[1] - misses[0]) / (episodes - before)
    return {"length": length, "sure": sure, "episodes": episodes, "share": 1.0 - misses[1] / episodes, "last": last}


def runs(out: Path, quick: bool, episodes: int = EPISODES, **how: Any) -> pl.DataFrame:
    """All runs; `quick` has the shortest corridor, half of the seeds and every second step size."""
    problems = [*((n, False) for n in LENGTHS), (LENGTHS[0], True)]
    seeds, every = range(CHOOSING + JUDGED), 1
    if quick:
        problems, seeds, every = problems[:1], seeds[::2], 2
    found = [
        sweep(run, arms, STEP_SIZES[way][::every], seeds, out=out / f"{length}{'-sure' * sure} {way}", length=length,
              sure=sure, episodes=episodes, **how)
        for length, sure in problems for way, arms in ARMS.items() if not (sure and way == GRADIENT)
    ]  # fmt: skip
    return pl.concat(found).drop("episode", strict=False)


# ---- how it is scored


class Treasures:
    """Shares of episodes with treasure, from a table of runs."""

    def __init__(self, table: pl.DataFrame):
        self.table = table

    @cached_property
    def runs(self) -> dict[tuple[int, bool, str], dict[str, np.ndarray]]:
        """{(L, sure apples, arm): {"share", "last": float64[step sizes, seeds]}}."""
        found = {}
        for (length, sure, arm), rows in self.table.group_by("length", "sure", "arm", maintain_order=True):
            rows = rows.sort("step_size", "seed", descending=[True, False])
            sizes = rows["step_size"].n_unique()
            named = {name: rows[name].to_numpy().reshape(sizes, -1) for name in ("share", "last")}
            found[int(length), bool(sure), str(arm)] = named  # type: ignore[call-overload]
        return found

    @property
    def is_whole(self) -> bool:
        """Whether the runs are of full size, at the shortest and the longest corridor at least."""
        whole = self.table["seed"].n_unique() == CHOOSING + JUDGED and (self.table["episodes"] == EPISODES).all()
        return bool(whole) and {LENGTHS[0], LENGTHS[-1]} <= set(self.lengths())

    @cached_property
    def choosing(self) -> int:
        """Number of seeds that choose; half of them if there are few."""
        return min(CHOOSING, self.table["seed"].n_unique() // 2)

    def lengths(self, sure: bool = False) -> list[int]:
        """The lengths that were run."""
        return sorted({length for length, kind, _ in self.runs if kind == sure})

    def shares(self, length: int, arm: str, what: str = "share", sure: bool = False) -> np.ndarray:
        """float64[seeds]: what the scored seeds have at the step size with the largest share on the first seeds."""
        found = self.runs[length, sure, arm]
        return found[what][int(found["share"][:, : self.choosing].mean(1).argmax()), self.choosing :]

    def best_fixed(self, length: int) -> str:
        """The fixed λ with the largest share on the first seeds, with falling ε."""
        first = {arm: self.runs[length, False, arm]["share"][:, : self.choosing].mean(1).max() for arm in FIXED}
        return max(first, key=lambda arm: first[arm])

    def difference(self, length: int, arm: str, other: str) -> Estimate:
        """Paired over seeds."""
        return mean_and_interval(self.shares(length, arm) - self.shares(length, other))


treasures = of_latest(Treasures)


def _claim(judge: Callable[[Treasures], Verdict]) -> Callable[[pl.DataFrame], Verdict]:
    """A claim about runs of full size."""

    @functools.wraps(judge)
    def judged(table: pl.DataFrame) -> Verdict:
        results = treasures(table)
        if not results.is_whole:
            return Verdict(NOT_RUN, "the shortest and the longest corridor were not both run at full size")
        return judge(results)

    return judged


def _everywhere(met: dict[int, bool], evidence: str) -> Verdict:
    """At every length; only in part where some were not run."""
    missing = ", ".join(str(length) for length in LENGTHS if length not in met)
    status = status_of([*met.values(), False] if missing and any(met.values()) else [*met.values()])
    return Verdict(status, f"{evidence}; not run at L = {missing}" if missing else evidence)


@_claim
def finds_it(results: Treasures) -> Verdict:
    """The rule finds the treasure at every length, with ε that falls to 0.

    at least 0.8 of all episodes at every length
    """
    means = {length: results.shares(length, RULE).mean() for length in results.lengths()}
    evidence = ", ".join(f"L = {length}: {mean:.2f}" for length, mean in means.items())
    return _everywhere({length: mean >= 0.8 for length, mean in means.items()}, evidence)


@_claim
def above_fixed(results: Treasures) -> Verdict:
    """The rule finds it more often than the best fixed λ, with the same exploration.

    at every length the paired 95 % interval of the difference lies above 0
    """
    best = {length: results.best_fixed(length) for length in results.lengths()}
    gaps = {length: results.difference(length, RULE, best[length]) for length in best}
    evidence = ", ".join(f"L = {length}: {gap.text('+.2f')} (λ = {best[length][6:]})" for length, gap in gaps.items())
    met = {length: gap.low > 0 for length, gap in gaps.items()}
    return _everywhere(met, f"the rule less the best fixed λ: {evidence}")


@source("ours, after Meulemans et al. 2023")
@_claim
def rewards_as_objects(results: Treasures) -> Verdict:
    """COCOA's reward form finds it more often than REINFORCE and the state form at L = 103.

    both paired 95 % intervals lie above 0
    """
    forms = "reward", "reinforce", "state"
    if any((LENGTHS[-1], False, form) not in results.runs for form in forms):
        return Verdict(NOT_RUN, "not all policy gradients were run at L = 103")
    gaps = {other: results.difference(LENGTHS[-1], forms[0], other) for other in forms[1:]}
    evidence = ", ".join(f"{gap.text('+.2f')} against {other}" for other, gap in gaps.items())
    if not any(gap.shown for gap in gaps.values()):
        seen = max(gap.half_width for gap in gaps.values())
        return Verdict(NOT_SHOWN, f"the reward form at L = 103: {evidence}", f"a difference above {seen:.2f}")
    return Verdict(status_of([gap.low > 0 for gap in gaps.values()]), f"the reward form at L = 103: {evidence}")


@source("ours, a control")
@_claim
def hidden_by_exploration(results: Treasures) -> Verdict:
    """With ε = 0.1 throughout no value learner finds it in half of the episodes, with or without noise.

    less than half at L = 23, with apples of random worth and with apples that always pay 0.5
    """
    most = {sure: max(float(results.shares(LENGTHS[0], arm, sure=sure).mean()) for arm in ARMS[ALWAYS])
            for sure in (False, True)}  # fmt: skip
    evidence = f"best value learner, ε = 0.1: {most[False]:.2f}, and {most[True]:.2f} with apples that pay the same"
    return Verdict(status_of([share < 0.5 for share in most.values()]), evidence)


CLAIMS = (finds_it, above_fixed, rewards_as_objects, hidden_by_exploration)

# ---- tables and figure

BEST = {FALLING: 0.2 * (1 - 0.75 + 0.75**2 / 3) + 0.8, ALWAYS: (1 - 0.1 * 0.75) ** 2, GRADIENT: 1.0}
"""Best possible shares: the mean of (1 − ¾ε)² over episodes, for both choices that matter."""


def label(arm: str) -> str:
    """Label of an arm."""
    return LABELS[arm.removesuffix("-always")]


def shares_table(results: Treasures, sure: bool = False) -> str:
    """Share of all episodes, and of the last ones, by arm and length."""
    lengths = results.lengths(sure)
    rows = []
    for way, best in BEST.items():
        for arm in (arm for arm in ARMS[way] if (lengths[0], sure, arm) in results.runs):
            cells = [
                ", ".join(f"{results.shares(n, arm, x, sure).mean():.2f}" for x in ("share", "last"))
                if (n, sure, arm) in results.runs
                else "not run"
                for n in lengths
            ]
            rows.append((label(arm), f"{way}, at best {best:.2f}", *cells))
    return markdown(("all episodes, last 1,000", "exploring", *(f"L = {n}" for n in lengths)), rows)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """The shares, and those with apples that always pay the same."""
    results = treasures(table)
    found = {"shares": shares_table(results)}
    return {**found, "sure": shares_table(results, sure=True)} if results.lengths(True) else found


def figure(table: pl.DataFrame) -> Figure:
    """Shares by length, a panel for each way to explore."""
    results = treasures(table)
    drawn, axes = new_figure(3, height=3.2, sharey=True)
    lengths = results.lengths()
    palette = ("0.8", "0.65", "0.45", "0.25", "#56B4E9", "#009E73", "#E69F00", "#0072B2", "0.25", "#CC79A7", "#D55E00")
    colours = dict(zip((*ARMS[FALLING], *ARMS[GRADIENT]), palette, strict=True))
    for axis, (way, best) in zip(axes, BEST.items(), strict=True):
        for arm in ARMS[way]:
            name = arm.removesuffix("-always")
            there = [n for n in lengths if (n, False, arm) in results.runs]
            shares = [results.shares(n, arm) for n in there]
            ends = [mean_and_interval(share) for share in shares]
            axis.plot(there, [x.mean() for x in shares], "o-", ms=3, lw=2.2 if name == RULE else 1.2,
                      color=colours[name], label=label(arm))  # fmt: skip
            axis.fill_between(
                there, [e.low for e in ends], [e.high for e in ends], color=colours[name], alpha=0.15, lw=0
            )
        axis.axhline(best, color="0.6", lw=0.8, ls=":")
        axis.set_title(f"{way}; dotted: best possible")
        axis.set_xlabel("L, cells")
        axis.set_xticks(lengths)
    axes[0].set_ylim(0.0, 1.02)
    drawn.supylabel("share of episodes with treasure", fontsize=8)
    legend_below(drawn, 4)
    return drawn
