"""Table, claims and page of the linear key-to-door; criteria are in the package's docstring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.report.style import legend_below, new_figure
from chunked_td.lab.results.runs import RunArrays, RunTable, collector, per_run
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.linear_key_to_door.protocol import (
    ALWAYS,
    ARMS,
    CHOOSING,
    EPISODES,
    FALLING,
    FIXED,
    GRADIENT,
    JUDGED,
    LENGTHS,
    RULE,
    protocols,
)
from chunked_td.lab.study import NOT_RUN, NOT_SHOWN, Claim, Protocol, Verdict, status_of
from chunked_td.statistics import Estimate, mean_and_interval


def _rows(protocol: Protocol, arm: str, runs: RunArrays) -> Any:
    """One row per run: the shares of all episodes, and of the last ones, that found the treasure."""
    misses, ends = runs.columns["score"], runs.episodes
    last = 1.0 - (misses[:, :, -1] - misses[:, :, -2]) / (ends[-1] - ends[-2])
    named = {name: protocol.environment.arguments[name] for name in ("length", "sure")}
    named |= {"arm": arm, "episodes": runs.length}
    return per_run(runs, named, share=1.0 - misses[:, :, -1] / ends[-1], last=last)


COLLECT = collector(protocols, _rows)


class Treasures(RunTable):
    """Results of the study."""

    @cached_property
    def runs(self) -> dict[tuple[int, bool, str], dict[str, np.ndarray]]:
        """{(L, sure apples, arm): {"share", "last": float64[step sizes, seeds], "step_size": float64[step sizes]}}."""
        found = {}
        for key, rows in self.frame.group_by("length", "sure", "arm", maintain_order=True):
            rows = rows.sort("step_size", "seed", descending=[True, False])
            sizes = rows["step_size"].unique(maintain_order=True).to_numpy()
            found[key] = {name: rows[name].to_numpy().reshape(sizes.size, -1) for name in ("share", "last")}
            found[key]["step_size"] = sizes
        return found

    @property
    def is_whole(self) -> bool:
        """Whether the runs are those of the paper's size."""
        whole = self.frame["seed"].n_unique() == CHOOSING + JUDGED
        return bool(whole and (self.frame["episodes"] == EPISODES).all())

    @cached_property
    def choosing(self) -> int:
        """How many seeds choose; half of them where there are few."""
        return min(CHOOSING, self.frame["seed"].n_unique() // 2)

    def lengths(self, sure: bool = False) -> list[int]:
        """The lengths that were run."""
        return sorted({length for length, kind, _ in self.runs if kind == sure})

    def chosen(self, length: int, arm: str, sure: bool = False) -> int:
        """Place of the step size with the largest share on the first seeds."""
        return int(self.runs[length, sure, arm]["share"][:, : self.choosing].mean(1).argmax())

    def shares(self, length: int, arm: str, what: str = "share", sure: bool = False) -> np.ndarray:
        """float64[seeds]: what the scored seeds have at the chosen step size."""
        return self.runs[length, sure, arm][what][self.chosen(length, arm, sure), self.choosing :]

    def best_fixed(self, length: int) -> str:
        """The fixed λ with the largest share on the first seeds, with falling ε."""
        first = {arm: self.runs[length, False, arm]["share"][:, : self.choosing].mean(1).max() for arm in FIXED}
        return max(first, key=lambda arm: first[arm])

    def difference(self, length: int, arm: str, other: str) -> Estimate:
        """Paired over seeds."""
        return mean_and_interval(self.shares(length, arm) - self.shares(length, other))


LOAD = Treasures.load


LEAST, HALF = 0.8, 0.5


def _whole(judge: Callable[[Treasures], Verdict]) -> Callable[[Treasures, Mapping[str, Any]], Verdict]:
    def judged(results: Treasures, _: Mapping[str, Any]) -> Verdict:
        if not results.is_whole or not {LENGTHS[0], LENGTHS[-1]} <= set(results.lengths()):
            return Verdict(NOT_RUN, "the shortest and the longest corridor were not both run at full size")
        return judge(results)

    return judged


def _everywhere(met: dict[int, bool], evidence: str) -> Verdict:
    """At every length; only in part where some were not run."""
    missing = ", ".join(str(length) for length in LENGTHS if length not in met)
    status = status_of([*met.values(), False] if missing and any(met.values()) else [*met.values()])
    return Verdict(status, f"{evidence}; not run at L = {missing}" if missing else evidence)


def _reaches(results: Treasures) -> Verdict:
    means = {length: results.shares(length, RULE).mean() for length in results.lengths()}
    evidence = ", ".join(f"L = {length}: {mean:.2f}" for length, mean in means.items())
    return _everywhere({length: mean >= LEAST for length, mean in means.items()}, evidence)


def _above_fixed(results: Treasures) -> Verdict:
    best = {length: results.best_fixed(length) for length in results.lengths()}
    gaps = {length: results.difference(length, RULE, best[length]) for length in best}
    evidence = ", ".join(f"L = {length}: {gap.text('+.2f')} (λ = {best[length][6:]})" for length, gap in gaps.items())
    met = {length: gap.low > 0 for length, gap in gaps.items()}
    return _everywhere(met, f"the rule less the best fixed λ: {evidence}")


def _gradients(results: Treasures) -> Verdict:
    forms = "reward", "reinforce", "state"
    if any((LENGTHS[-1], False, form) not in results.runs for form in forms):
        return Verdict(NOT_RUN, "not all policy gradients were run at L = 103")
    gaps = {other: results.difference(LENGTHS[-1], forms[0], other) for other in forms[1:]}
    evidence = ", ".join(f"{gap.text('+.2f')} against {other}" for other, gap in gaps.items())
    if not any(gap.shown for gap in gaps.values()):
        seen = max(gap.half_width for gap in gaps.values())
        return Verdict(NOT_SHOWN, f"the reward form at L = 103: {evidence}", f"a difference above {seen:.2f}")
    return Verdict(status_of([gap.low > 0 for gap in gaps.values()]), f"the reward form at L = 103: {evidence}")


def _hidden(results: Treasures) -> Verdict:
    arms = [arm.id for arm in ARMS if arm.group == ALWAYS]
    most = {
        sure: max(float(results.shares(LENGTHS[0], arm, sure=sure).mean()) for arm in arms) for sure in (False, True)
    }
    evidence = f"best value learner, ε = 0.1: {most[False]:.2f}, and {most[True]:.2f} with apples that pay the same"
    return Verdict(status_of([share < HALF for share in most.values()]), evidence)


CLAIMS = tuple(
    Claim(f"linear-key-to-door-{name}", source, text, criterion, (), _whole(judge), short, figure="figures/shares.svg")
    for name, source, text, criterion, judge, short in (
        ("rule", "ours", "The rule finds the treasure at every length, with ε that falls to 0.",
         f"at least {LEAST} of all episodes at every length", _reaches, "the rule finds the treasure at every length"),
        ("fixed", "ours", "The rule finds it more often than the best fixed λ, with the same exploration.",
         "at every length the paired 95 % interval of the difference lies above 0", _above_fixed,
         "the rule finds it more often than a fixed λ"),
        ("gradients", "ours, after Meulemans et al. 2023",
         "COCOA's reward form finds it more often than REINFORCE and the state form at L = 103.",
         "both paired 95 % intervals lie above 0", _gradients, "COCOA's reward form beats its rivals at L = 103"),
        ("exploration", "ours, a control",
         "With ε = 0.1 throughout no value learner finds it in half of the episodes, with or without noise.",
         "less than half at L = 23, with apples of random worth and with apples that always pay 0.5", _hidden,
         "ε = 0.1 hides the treasure, not noise"),
    )
)  # fmt: skip


PUBLISHED = (
    "Meulemans et al. (2023) run networks with policy gradients on this problem. They report that the "
    "COCOA forms collect the treasure at all lengths, and their rivals less often the longer it is."
)
BEST = {FALLING: 0.2 * (1 - 0.75 + 0.75**2 / 3) + 0.8, ALWAYS: (1 - 0.1 * 0.75) ** 2, GRADIENT: 1.0}
"""Best possible shares: the mean of (1 − ¾ε)² over episodes, for both choices that matter."""


def PAGE(folder: Path, results: Treasures) -> Path:
    """Write tables/shares.md, tables/sure.md and figures/shares.svg; returns the path of the first."""
    texts = {"shares": shares_table(results)}
    if results.lengths(True):
        texts["sure"] = shares_table(results, True)
    write_parts(folder, texts, {"shares": _draw(results)})
    return folder / "tables" / "shares.md"


def shares_table(results: Treasures, sure: bool = False) -> str:
    """Share of all episodes, and of the last ones, by arm and length."""
    lengths = results.lengths(sure)
    rows = []
    for group, best in BEST.items():
        for arm in (arm for arm in ARMS if arm.group == group and (lengths[0], sure, arm.id) in results.runs):
            cells = [
                ", ".join(f"{results.shares(n, arm.id, x, sure).mean():.2f}" for x in ("share", "last"))
                if (n, sure, arm.id) in results.runs
                else "not run"
                for n in lengths
            ]
            rows.append((arm.label, f"{group}, at best {best:.2f}", *cells))
    return markdown(("all episodes, last 1,000", "exploring", *(f"L = {n}" for n in lengths)), rows)


def _draw(results: Treasures) -> Any:
    figure, axes = new_figure(9.0, 3.6, 3, sharey=True)
    lengths = results.lengths()
    names = [arm.label for arm in ARMS if arm.group != ALWAYS]
    palette = ("0.8", "0.65", "0.45", "0.25", "#56B4E9", "#009E73", "#E69F00", "#0072B2", "0.25", "#CC79A7", "#D55E00")
    colours = dict(zip(names, palette, strict=True))
    for axis, (group, best) in zip(axes, BEST.items(), strict=True):
        arms = [arm for arm in ARMS if arm.group == group]
        for arm in arms:
            colour = colours[arm.label]
            there = [n for n in lengths if (n, False, arm.id) in results.runs]
            shares = [results.shares(n, arm.id) for n in there]
            ends = [mean_and_interval(share) for share in shares]
            wide = arm.id.startswith(RULE)
            axis.plot(
                there, [x.mean() for x in shares], "o-", ms=3, lw=2.2 if wide else 1.2, color=colour, label=arm.label
            )
            axis.fill_between(there, [e.low for e in ends], [e.high for e in ends], color=colour, alpha=0.15, lw=0)
        axis.axhline(best, color="0.6", lw=0.8, ls=":")
        axis.set_title(f"{group}; dotted: best possible", fontsize=9)
        axis.set_xlabel("L, cells")
        axis.set_xticks(lengths)
    axes[0].set_ylim(0.0, 1.02)
    figure.supylabel("share of episodes with treasure", fontsize=9)
    legend_below(figure, 4)
    return figure
