"""Criteria that claims are judged by, and the pieces they are made of.

Intervals are 95 % bootstrap intervals over seeds; tests are two-sided sign-flip tests over common seeds, at 5 % after
Holm's correction; shares of runs have exact (Clopper–Pearson) 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chunked_td.lab.results.runs import Results, RunArrays, replay_selection, selection_loss
from chunked_td.lab.study import FAILS, HOLDS, NOT_SHOWN, Verdict
from chunked_td.lab.wording import number_text, spread_text, step_size_text
from chunked_td.statistics import (
    detectable_mean,
    holm,
    mean_and_interval,
    mean_sd,
    paired_test,
    probability_of_improvement,
)

LEVEL = 0.05
RELIABLE = 0.9  # a learner is reliable if at least this share of its runs learns
MANY = 10  # … or if all of this many runs do
SEVERAL = 3  # "across several learning rates"

SEVERAL_TEXT = (
    f"At {SEVERAL} or more step sizes its mean is below that of the best fixed λ at that step size (paired test, "
    f"Holm over step sizes). It does not hold if its mean is least at fewer than {SEVERAL}."
)
"""Criterion of `best_across_step_sizes`."""

RELIABLE_TEXT = (
    f"A run learns if it misses fewer than twice the best possible number; an arm is reliable if {RELIABLE:.0%} of its "
    "runs do (or all of ten or more). Holds if the interval of the share lies below that"
)
"""Criterion of `none_reliable`, without a full stop."""

SAME_TEXT = (
    "The selected exponents are equal. It does not hold if for some arm the paper's step size is shown to be worse "
    "than ours by the measure of selection (paired test, Holm); undecided otherwise."
)
"""Criterion of `same_step_sizes`."""


def selected_curves(study: Results, arm_id: str) -> tuple[np.ndarray, np.ndarray]:
    """Checkpoints [K] and curves [S, K] of an arm at its selected step size."""
    runs = runs_of(study, arm_id)
    return runs.episodes, runs.of(study.selected[arm_id])


def shared(*runs: RunArrays) -> list[RunArrays]:
    """The same runs, of the seeds that all of them have: what paired tests need."""
    seeds = set.intersection(*(set(part.seeds.tolist()) for part in runs))
    return [part.only(seeds) for part in runs]


def selected_of(study: Results, arm_ids: Sequence[str]) -> list[np.ndarray]:
    """Curves [S, K] of several arms, each at its selected step size, over the seeds that all have."""
    together = shared(*(runs_of(study, arm_id) for arm_id in arm_ids))
    return [part.of(study.selected[arm_id]) for arm_id, part in zip(arm_ids, together, strict=True)]


def runs_of(study: Results, arm_id: str) -> RunArrays:
    """Runs of full length; `judge_claim` has made sure that they are there."""
    runs = study.runs(arm_id)
    if runs is None:
        raise ValueError(f"arm {arm_id!r} of {study.id} has no runs of full length")
    return runs


def scores_of(study: Results, arm_id: str) -> np.ndarray:
    """Scores [S] at the selected (or best) step size."""
    return runs_of(study, arm_id).of(study.selected[arm_id])[:, -1]


def interval_text(values: np.ndarray) -> tuple[float, float, str]:
    """Ends of the 95 % interval of the mean over seeds, and "mean [low, high]"."""
    mean, low, high = map(float, mean_and_interval(values))
    numbers = [number_text(x, mean) for x in (mean, low, high)]
    return low, high, f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def inside(low: float, high: float, least: float, most: float) -> str:
    """Holds if the interval lies within [least, most], fails if it lies outside, else it is not shown."""
    if least <= low and high <= most:
        return HOLDS
    return FAILS if high < least or low > most else NOT_SHOWN


def within(values: np.ndarray, least: float, most: float, text: str = "{}") -> Verdict:
    """Whether the interval of the mean over seeds lies within [least, most]. Args: text: {} stands for the interval."""
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
    return Verdict(status, text.replace("{}", evidence), _seen(status, [ours - theirs for theirs in unclear], len(p)))


def _seen(status: str, differences: Sequence[np.ndarray], tests: int) -> str:
    """The effect that paired tests would have shown, where the status is "not shown"."""
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


def reliability(study: Results, arm_id: str) -> Verdict:
    """Whether an arm is reliable.

    A run has learned if its score is below twice the best possible one.
    """
    scores = scores_of(study, arm_id)
    scores = scores[~np.isnan(scores)]
    learned = int(np.sum(scores < 2 * _best(study)))
    low, high = share_interval(learned, len(scores))
    all_of_many = learned == len(scores) >= MANY
    status = HOLDS if low >= RELIABLE or all_of_many else FAILS if high < RELIABLE else NOT_SHOWN
    arm = study.find(arm_id)
    text = f"{arm.label if arm else arm_id}: {learned} of {len(scores)} runs learn"
    most = max((k for k in range(len(scores) + 1) if share_interval(k, len(scores))[1] < RELIABLE), default=0)
    return Verdict(status, text, f"at most {most} of {len(scores)} runs" if status == NOT_SHOWN else "")


def _best(study: Results) -> float:
    if study.about.best is None:
        raise ValueError(f"best of {study.id} must be a number for this criterion, got None")
    return study.about.best


def none_reliable(study: Results, arm_ids: Sequence[str]) -> Verdict:
    """Holds if every one of these arms is shown not to be reliable."""
    found = [reliability(study, arm_id) for arm_id in arm_ids]
    states = [verdict.status for verdict in found]
    return _joined(HOLDS if all(s == FAILS for s in states) else FAILS if HOLDS in states else NOT_SHOWN, found)


def best_across_step_sizes(study: Results, arm_id: str) -> Verdict:
    """At how many step sizes an arm beats the best fixed λ there."""
    fixed = [arm.runs for arm in study.present if arm.fixed_lambda is not None and arm.runs is not None]
    ours, *others = shared(runs_of(study, arm_id), *fixed)
    p_values, gaps, unclear = [], [], []
    for i, exponent in enumerate(ours.exponents):
        rivals = [runs.at()[runs.exponents == exponent][0] for runs in others if exponent in runs.exponents]
        best = min(rivals, key=lambda values: float(mean_sd(values)[0]))
        p_values.append(paired_test(ours.at()[i], best))
        gaps.append(float(mean_sd(ours.at()[i])[0] - mean_sd(best)[0]))
        unclear.append(ours.at()[i] - best)
    p = holm(p_values)
    lowest = sum(gap < 0 for gap in gaps)
    shown = sum(gap < 0 and value < LEVEL for gap, value in zip(gaps, p, strict=True))
    status = HOLDS if shown >= SEVERAL else FAILS if lowest < SEVERAL else NOT_SHOWN
    easiest = sorted((values for values in unclear), key=lambda values: detectable_mean(values))[:SEVERAL]
    evidence = (
        f"least mean of all at {lowest} of {len(gaps)} step sizes, shown against the best fixed λ there at {shown}; "
        f"at its best step size {spread_text(*map(float, mean_sd(scores_of(study, arm_id))))}"
    )
    seen = _seen(status, easiest, len(gaps))
    return Verdict(status, evidence, f"{seen} at {SEVERAL} step sizes" if seen else "")


def same_step_sizes(study: Results) -> Verdict:
    """Whether the selected step sizes are the paper's, and if not, whether ours are shown to be better."""
    base = study.about.step_size_base
    same, texts, p_values, differences = 0, [], [], []
    for arm in study.present:
        number = study.published(arm.id, "exponent")
        if number is None:
            continue
        theirs, ours, runs = int(number.value), study.selected[arm.id], runs_of(study, arm.id)
        if ours == theirs:
            same += 1
            continue
        loss = selection_loss(runs, study.about.selection, arm.id)
        differences.append(loss[runs.exponents == theirs][0] - loss[runs.exponents == ours][0])
        p_values.append(paired_test(loss[runs.exponents == ours][0], loss[runs.exponents == theirs][0]))
        share = float(replay_selection(runs, study.about.selection, arm.id).shares[runs.exponents == theirs].sum())
        texts.append(
            f"{arm.label}: ours {step_size_text(ours, base)}, paper's {step_size_text(theirs, base)} (selected from "
            f"ten of our seeds {share:.0%} of the time; "
        )
    p = holm(p_values)
    texts = [f"{text}p = {value:.2g})" for text, value in zip(texts, p, strict=True)]
    status = HOLDS if not texts else FAILS if np.any(p < LEVEL) else NOT_SHOWN
    evidence = "; ".join([f"{same} of {same + len(texts)} the same", *texts])
    return Verdict(status, evidence, _seen(status, differences, len(differences)))


def all_hold(parts: Sequence[Verdict]) -> Verdict:
    """The verdict on several parts that must all hold."""
    states = [part.status for part in parts]
    return _joined(FAILS if FAILS in states else NOT_SHOWN if NOT_SHOWN in states else HOLDS, parts)


def _joined(status: str, parts: Sequence[Verdict]) -> Verdict:
    seen = "; ".join(part.detectable for part in parts if part.detectable) if status == NOT_SHOWN else ""
    return Verdict(status, "; ".join(part.evidence for part in parts), seen)


def low_at_several_step_sizes(study: Results, arm_id: str, factor: float) -> Verdict:
    """Whether an arm's mean is below `factor` times the best possible score at several step sizes."""
    runs = runs_of(study, arm_id)
    limit = factor * _best(study)
    mean, low, high = mean_and_interval(runs.at().T)
    shown, possible = int(np.sum(high < limit)), int(np.sum(low < limit))
    status = HOLDS if shown >= SEVERAL else FAILS if possible < SEVERAL else NOT_SHOWN
    widest = max(detectable_mean(values) for values in runs.at())
    seen = f"a mean {number_text(widest)} below the limit" if status == NOT_SHOWN else ""
    listed = ", ".join(f"α = {a:.2g}: {number_text(float(m))}" for a, m in zip(runs.step_sizes, mean, strict=True))
    return Verdict(status, f"at {shown} of {len(mean)} step sizes; {listed}", seen)


def settles_at(study: Results, arm_id: str, target: float, margin: float) -> Verdict:
    """Whether an arm's score over the second half of its runs, at the smallest step size, is within `margin`."""
    runs = runs_of(study, arm_id)
    late = runs.columns["score"][-1][:, runs.episodes > runs.length // 2].mean(axis=1)
    text = f"{study.about.score_label} over the second half, α = {runs.step_sizes[-1]:.2g}: {{}}"
    return within(late, target - margin, target + margin, text)


def no_fixed_reliable(study: Results) -> Verdict:
    """Holds if every fixed λ is shown not to be reliable."""
    return none_reliable(study, [arm.id for arm in study.present if arm.fixed_lambda is not None])
