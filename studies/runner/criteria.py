"""Verdicts, and the criteria that claims are judged by.

A claim is a function from a study's table to a verdict. Its docstring is the claim and, as second paragraph, the
criterion, both written before the data. `@source` notes its place in the paper.

Intervals are 95 % bootstrap intervals over seeds; tests are two-sided sign-flip tests over common seeds, at 5 % after
Holm's correction; shares of runs have exact (Clopper–Pearson) 95 % intervals.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chunked_td.statistics import (
    detectable_mean,
    holm,
    mean_and_interval,
    mean_sd,
    paired_test,
    probability_of_improvement,
)
from studies.runner.arrays import NotRun, Results, replay_selection
from studies.runner.text import number_text, spread_text, step_size_text

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold"
NOT_SHOWN, NOT_TESTABLE, NOT_RUN = "not shown", "not testable", "not run"
STATUSES = (HOLDS, IN_PART, FAILS, NOT_SHOWN, NOT_TESTABLE, NOT_RUN)
LEVEL = 0.05
RELIABLE = 0.9  # a learner is reliable if at least this share of its runs learns
MANY = 10  # … or if all of its runs learn and there are at least this number
SEVERAL = 3  # "across several learning rates"


class Verdict(NamedTuple):
    """Result of a criterion.

    Args:
      status: one of `STATUSES`. "not shown": the runs do not decide it. "not testable": no runs of this study could.
      evidence: the numbers.
      detectable: with "not shown", the effect that these runs would have shown, in words: "a difference above 15 %".
    """

    status: str
    evidence: str
    detectable: str = ""

    @property
    def text(self) -> str:
        """The evidence, with the effect that could have been seen."""
        return f"{self.evidence}; {self.detectable} would have been seen" if self.detectable else self.evidence


Claim = Callable[[Any], Verdict]


class Judged(NamedTuple):
    """A claim and its verdict. Args: controls: names of the claims that must hold too."""

    name: str
    claim: str
    criterion: str
    source: str
    verdict: Verdict
    controls: tuple[str, ...] = ()


def source(text: str, *, controls: tuple[str, ...] = ()) -> Callable[[Claim], Claim]:
    """Decorator: record the place of a claim in the paper, or "ours".

    Args:
      controls: names of the claims that must hold too before this one means what it seems to say.
    """

    def note(claim: Claim) -> Claim:
        vars(claim).update(source=text, controls=controls)
        return claim

    return note


def make_claim(name: str, text: str, criterion: str, judge: Claim, where: str = "ours") -> Claim:
    """Define a claim in a loop, such as one per agent. Args: where: its place in the paper, or "ours"."""

    def claim(table: Any) -> Verdict:
        return judge(table)

    claim.__name__, claim.__doc__ = name, f"{text}\n\n{criterion}"
    return source(where)(claim)


def judged(claims: Iterable[Claim], table: Any) -> list[Judged]:
    """Judge every claim by a table; "not run" if runs are missing."""
    found = []
    for claim in claims:
        parts = inspect.getdoc(claim).split("\n\n")  # type: ignore[union-attr]
        text, criterion = (" ".join(part.split()) for part in parts[:2])
        try:
            verdict = claim(table)
        except NotRun as error:
            verdict = Verdict(NOT_RUN, str(error))
        about = vars(claim)
        found.append(
            Judged(claim.__name__, text, criterion, about.get("source", "ours"), verdict, about.get("controls", ()))
        )
    return found


def status_of(met: Iterable[bool]) -> str:
    """The status of a claim with several parts: all, some or none of them are met."""
    met = list(met)
    return HOLDS if all(met) else IN_PART if any(met) else FAILS


def all_hold(parts: Sequence[Verdict]) -> Verdict:
    """The verdict on several parts that must all hold."""
    states = [part.status for part in parts]
    return joined(FAILS if FAILS in states else NOT_SHOWN if NOT_SHOWN in states else HOLDS, parts)


def joined(status: str, parts: Sequence[Verdict]) -> Verdict:
    """A verdict with the evidence of several."""
    seen = "; ".join(part.detectable for part in parts if part.detectable) if status == NOT_SHOWN else ""
    return Verdict(status, "; ".join(part.evidence for part in parts), seen)


def interval_text(values: np.ndarray) -> tuple[float, float, str]:
    """Ends of the 95 % interval of the mean over seeds, and "mean [low, high]"."""
    mean, low, high = map(float, mean_and_interval(values))
    numbers = [number_text(x, mean) for x in (mean, low, high)]
    return low, high, f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def inside(low: float, high: float, least: float, most: float) -> str:
    """Holds if the interval is inside [least, most], fails if it is outside, else "not shown"."""
    if least <= low and high <= most:
        return HOLDS
    return FAILS if high < least or low > most else NOT_SHOWN


def within(values: np.ndarray, least: float, most: float, text: str = "{}") -> Verdict:
    """Whether the interval of the mean over seeds is in [least, most]. Args: text: {} is replaced by the interval."""
    low, high, interval = interval_text(values)
    status = inside(low, high, least, most)
    seen = f"a mean {number_text(detectable_mean(values))} from the limit" if status == NOT_SHOWN else ""
    return Verdict(status, text.replace("{}", interval), seen)


def smaller(ours: np.ndarray, others: Mapping[str, np.ndarray], text: str = "{}") -> Verdict:
    """Whether our scores are smaller than each of the others', seed by seed, after Holm's correction."""
    p = holm([paired_test(ours, theirs) for theirs in others.values()])
    gaps = [float(np.nanmean(ours - theirs)) for theirs in others.values()]
    better = [gap < 0 and value < LEVEL for gap, value in zip(gaps, p, strict=True)]
    worse = [gap > 0 and value < LEVEL for gap, value in zip(gaps, p, strict=True)]
    chances = [probability_of_improvement(ours, theirs) for theirs in others.values()]
    evidence = "; ".join(
        f"against {name}: {number_text(gap)} (p = {value:.2g}), better in {chance:.0%} of pairs of runs"
        for name, gap, value, chance in zip(others, gaps, p, chances, strict=True)
    )
    status = HOLDS if all(better) else FAILS if any(worse) else NOT_SHOWN
    unclear = [theirs for theirs, shown in zip(others.values(), better, strict=True) if not shown]
    return Verdict(status, text.replace("{}", evidence), seen(status, [ours - theirs for theirs in unclear], len(p)))


def seen(status: str, differences: Sequence[np.ndarray], tests: int) -> str:
    """Return the effect that paired tests would have shown, if the status is "not shown"."""
    if status != NOT_SHOWN:
        return ""
    largest = max(detectable_mean(values, tests=tests) for values in differences)
    return f"a mean difference of {number_text(largest)}"


def share_interval(successes: int, count: int) -> tuple[float, float]:
    """Exact (Clopper–Pearson) 95 % interval of a share."""
    from scipy.stats import beta

    tail = LEVEL / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, count - successes + 1))
    high = 1.0 if successes == count else float(beta.ppf(1 - tail, successes + 1, count - successes))
    return low, high


def best_of(results: Results) -> float:
    """The best possible score."""
    if results.best is None:
        raise ValueError("best of the results must be a number for this criterion, got None")
    return results.best


def reliability(results: Results, arm: str) -> Verdict:
    """Whether an arm is reliable. A run has learned if its score is below twice the best possible one."""
    scores = results.at_selected(arm)[:, -1]
    scores = scores[~np.isnan(scores)]
    learned = int(np.sum(scores < 2 * best_of(results)))
    low, high = share_interval(learned, len(scores))
    all_of_many = learned == len(scores) >= MANY
    status = HOLDS if low >= RELIABLE or all_of_many else FAILS if high < RELIABLE else NOT_SHOWN
    text = f"{results.labels[arm]}: {learned} of {len(scores)} runs learn"
    most = max((k for k in range(len(scores) + 1) if share_interval(k, len(scores))[1] < RELIABLE), default=0)
    return Verdict(status, text, f"at most {most} of {len(scores)} runs" if status == NOT_SHOWN else "")


def none_reliable(results: Results, arms: Sequence[str]) -> Verdict:
    """Holds if every one of these arms is shown not to be reliable."""
    found = [reliability(results, arm) for arm in arms]
    states = [verdict.status for verdict in found]
    return joined(HOLDS if all(s == FAILS for s in states) else FAILS if HOLDS in states else NOT_SHOWN, found)


def best_across_step_sizes(results: Results, arm: str) -> Verdict:
    """Judge the number of step sizes at which an arm beats the best fixed λ."""
    ours, *others = results.together(arm, *(name for name in results.fixed if name in results.present))
    p_values, gaps, unclear = [], [], []
    for i, step_size in enumerate(ours.step_sizes):
        fixed = [runs.at()[runs.step_sizes == step_size][0] for runs in others if step_size in runs.step_sizes]
        best = min(fixed, key=lambda values: float(mean_sd(values)[0]))
        p_values.append(paired_test(ours.at()[i], best))
        gaps.append(float(mean_sd(ours.at()[i])[0] - mean_sd(best)[0]))
        unclear.append(ours.at()[i] - best)
    p = holm(p_values)
    lowest = sum(gap < 0 for gap in gaps)
    shown = sum(gap < 0 and value < LEVEL for gap, value in zip(gaps, p, strict=True))
    status = HOLDS if shown >= SEVERAL else FAILS if lowest < SEVERAL else NOT_SHOWN
    easiest = sorted(unclear, key=lambda values: detectable_mean(values))[:SEVERAL]
    at_best = spread_text(*map(float, mean_sd(results.at_selected(arm)[:, -1])))
    evidence = (
        f"least mean of all at {lowest} of {len(gaps)} step sizes, shown against the best fixed λ there at {shown}; "
        f"at its best step size {at_best}"
    )
    reach = seen(status, easiest, len(gaps))
    return Verdict(status, evidence, f"{reach} at {SEVERAL} step sizes" if reach else "")


def low_at_several_step_sizes(results: Results, arm: str, factor: float) -> Verdict:
    """Whether an arm's mean is below `factor` times the best possible score at several step sizes."""
    runs = results.runs(arm)
    limit = factor * best_of(results)
    mean, low, high = mean_and_interval(runs.at().T)
    shown, possible = int(np.sum(high < limit)), int(np.sum(low < limit))
    status = HOLDS if shown >= SEVERAL else FAILS if possible < SEVERAL else NOT_SHOWN
    widest = max(detectable_mean(values) for values in runs.at())
    reach = f"a mean {number_text(widest)} below the limit" if status == NOT_SHOWN else ""
    listed = ", ".join(f"α = {a:.2g}: {number_text(float(m))}" for a, m in zip(runs.step_sizes, mean, strict=True))
    return Verdict(status, f"at {shown} of {len(mean)} step sizes; {listed}", reach)


def settles_at(results: Results, arm: str, target: float, margin: float) -> Verdict:
    """Whether an arm's score over the second half of its runs, at the smallest step size, is within `margin`."""
    runs = results.runs(arm)
    late = runs.columns["score"][-1][:, runs.episodes > runs.length // 2].mean(axis=1)
    text = f"{results.score} over the second half, α = {runs.step_sizes[-1]:.2g}: {{}}"
    return within(late, target - margin, target + margin, text)


def same_step_sizes(results: Results) -> Verdict:
    """Whether the selected step sizes are the paper's, and if not, whether ours are shown to be better."""
    same, texts, p_values, differences = 0, [], [], []
    for arm in results.paper:
        runs, ours, theirs = results.runs(arm), results.selected[arm], results.paper[arm].step_size
        if ours == theirs:
            same += 1
            continue
        loss, paper = results.loss(arm), runs.step_sizes == theirs
        own = loss[runs.step_sizes == ours][0]
        differences.append(loss[paper][0] - own)
        p_values.append(paired_test(own, loss[paper][0]))
        share = float(replay_selection(loss, runs.at()).shares[paper].sum())
        texts.append(
            f"{results.labels[arm]}: ours {step_size_text(ours)}, paper's {step_size_text(theirs)} (selected from "
            f"ten of our seeds {share:.0%} of the time; "
        )
    p = holm(p_values)
    texts = [f"{text}p = {value:.2g})" for text, value in zip(texts, p, strict=True)]
    status = HOLDS if not texts else FAILS if np.any(p < LEVEL) else NOT_SHOWN
    evidence = "; ".join([f"{same} of {same + len(texts)} the same", *texts])
    return Verdict(status, evidence, seen(status, differences, len(differences)))
