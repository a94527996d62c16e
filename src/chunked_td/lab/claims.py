"""The paper's claims and ours, each judged from stored runs by a criterion that is stated beforehand.

    for claim in claims(Store.read("runs/paper")):
        print(claim.status, claim.text)

A claim holds, does not hold, or is undecided with this many seeds; it is not run where an arm is missing, or ran
shorter than the protocol says. Intervals are 95 % bootstrap intervals over seeds; tests are two-sided sign-flip tests
over common seeds, at 5 % after Holm's correction; shares of runs have exact (Clopper–Pearson) 95 % intervals.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chunked_td.lab.errors import DONE
from chunked_td.lab.statistics import holm, mean_sd, paired_test, probability_of_improvement
from chunked_td.lab.store import Store
from chunked_td.lab.studies import (
    Runs,
    Study,
    load_studies,
    loss_of,
    mean_and_interval,
    replay_selection,
    step_size_text,
)
from chunked_td.lab.tables import number_text, seeds_text, selected_scores

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds", "does not hold", "undecided", "not run"
LEVEL = 0.05
RELIABLE = 0.9  # a learner is reliable if at least this share of its runs learns
MANY = 10  # … or if all of this many runs do
SEVERAL = 3  # "across several learning rates"


@dataclass(frozen=True)
class Claim:
    """A claim and what the runs say about it.

    Attributes:
      id: stable short name.
      experiment: protocol id.
      source: where the paper says it, or "ours".
      text: the claim. criterion: when it holds. evidence: the numbers.
      status: "holds", "does not hold", "undecided" or "not run".
      seeds: how many runs per setting it is judged from.
    """

    id: str
    experiment: str
    source: str
    text: str
    criterion: str
    status: str
    evidence: str
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """What a judge found."""

    status: str
    evidence: str


@dataclass(frozen=True)
class Question:
    """A claim before it is judged: `arms` must have runs of full length for `judge` to be asked."""

    id: str
    experiment: str
    source: str
    text: str
    criterion: str
    arms: tuple[str, ...]
    judge: Callable[[Study, Mapping[str, Study]], Verdict]


def claims(store: Store) -> list[Claim]:
    """Every claim, judged from what a store holds."""
    return claims_of(load_studies(store))


def claims_of(studies: Mapping[str, Study]) -> list[Claim]:
    """Every claim, judged from loaded studies."""
    from chunked_td.lab.claims_list import QUESTIONS

    return [answer(question, studies) for question in QUESTIONS]


def print_claims(directory: str | Path) -> int:
    """Print every claim, judged from a run directory; returns the exit code."""
    for claim in claims(Store.read(directory)):
        seeds = f", {seeds_text(claim.seeds)}" if claim.seeds else ""
        print(f"{claim.status.upper():14}{claim.text}")
        for text in (f"{claim.experiment}, {claim.source}{seeds}", claim.evidence, f"Criterion: {claim.criterion}"):
            print(textwrap.fill(text, width=110, initial_indent=" " * 14, subsequent_indent=" " * 16))
        print()
    return DONE


def answer(question: Question, studies: Mapping[str, Study]) -> Claim:
    """Judge one claim."""
    study = studies.get(question.experiment)
    seeds = 0
    if study is None:
        verdict = Verdict(NOT_RUN, "this experiment has no runs here")
    else:
        missing = [arm.label for arm in study.arms if arm.id in question.arms and study.find(arm.id) is None]
        counts = [len(runs.seeds) for name in question.arms if (runs := study.runs(name)) is not None]
        if study.shortened:
            verdict = Verdict(NOT_RUN, f"runs are shorter ({study.length:,} episodes) than the protocol says")
        elif missing:
            verdict = Verdict(NOT_RUN, f"no runs of full length: {', '.join(missing)}")
        else:
            verdict = question.judge(study, studies)
            seeds = min(counts, default=0)
    return Claim(
        question.id,
        question.experiment,
        question.source,
        question.text,
        question.criterion,
        verdict.status,
        verdict.evidence,
        seeds,
    )


# What judges are made of.


def selected_curves(study: Study, arm_id: str) -> tuple[np.ndarray, np.ndarray]:
    """Checkpoints [K] and curves [S, K] of an arm at its selected step size."""
    runs = runs_of(study, arm_id)
    return runs.episodes, runs.of(study.selected[arm_id])


def shared(*runs: Runs) -> list[Runs]:
    """The same runs, of the seeds that all of them have: what paired tests may be asked about."""
    seeds = set.intersection(*(set(part.seeds.tolist()) for part in runs))
    return [part.only(seeds) for part in runs]


def selected_of(study: Study, arm_ids: Sequence[str]) -> list[np.ndarray]:
    """Curves [S, K] of several arms, each at its selected step size, over the seeds that all have."""
    together = shared(*(runs_of(study, arm_id) for arm_id in arm_ids))
    return [part.of(study.selected[arm_id]) for arm_id, part in zip(arm_ids, together, strict=True)]


def runs_of(study: Study, arm_id: str) -> Runs:
    """Runs of full length; `answer` has made sure that they are there."""
    runs = study.runs(arm_id)
    if runs is None:
        raise ValueError(f"arm {arm_id!r} of {study.id} has no runs of full length")
    return runs


def scores_of(study: Study, arm_id: str) -> np.ndarray:
    """Scores [S] at the selected (or best) step size."""
    scores = selected_scores(study, arm_id)
    if scores is None:
        raise ValueError(f"arm {arm_id!r} of {study.id} has no runs of full length")
    return scores


def interval_text(values: np.ndarray) -> tuple[float, float, str]:
    """Ends of the 95 % interval of the mean over seeds, and "mean [low, high]"."""
    mean, interval = mean_and_interval(values)
    low, high = float(interval.low), float(interval.high)
    numbers = [number_text(x, float(mean)) for x in (float(mean), low, high)]
    return low, high, f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def inside(low: float, high: float, least: float, most: float) -> str:
    """Holds if the interval lies within [least, most], fails if it lies outside, else undecided."""
    if least <= low and high <= most:
        return HOLDS
    return FAILS if high < least or low > most else UNDECIDED


def smaller(ours: np.ndarray, others: Mapping[str, np.ndarray]) -> tuple[str, str]:
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
    return HOLDS if all(better) else FAILS if any(worse) else UNDECIDED, evidence


def share_interval(successes: int, count: int) -> tuple[float, float]:
    """Exact (Clopper–Pearson) 95 % interval of a share."""
    from scipy.stats import beta

    tail = LEVEL / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, count - successes + 1))
    high = 1.0 if successes == count else float(beta.ppf(1 - tail, successes + 1, count - successes))
    return low, high


def reliability(study: Study, arm_id: str) -> tuple[str, str]:
    """Whether an arm is reliable: HOLDS, FAILS or UNDECIDED, and the numbers.

    A run has learned if its score is below twice the best possible one.
    """
    scores = scores_of(study, arm_id)
    scores = scores[~np.isnan(scores)]
    learned = int(np.sum(scores < 2 * study.description["best"]))
    low, high = share_interval(learned, len(scores))
    all_of_many = learned == len(scores) >= MANY
    status = HOLDS if low >= RELIABLE or all_of_many else FAILS if high < RELIABLE else UNDECIDED
    arm = study.find(arm_id)
    return status, f"{arm.label if arm else arm_id}: {learned} of {len(scores)} runs learn"


def none_reliable(study: Study, arm_ids: list[str]) -> Verdict:
    """Holds if every one of these arms is shown not to be reliable."""
    found = [reliability(study, arm_id) for arm_id in arm_ids]
    states = [status for status, _ in found]
    status = HOLDS if all(s == FAILS for s in states) else FAILS if HOLDS in states else UNDECIDED
    return Verdict(status, "; ".join(text for _, text in found))


def best_across_step_sizes(study: Study, arm_id: str) -> Verdict:
    """At how many step sizes an arm beats the best fixed λ there."""
    fixed = [arm.runs for arm in study.present if arm.fixed_lambda is not None and arm.runs is not None]
    ours, *others = shared(runs_of(study, arm_id), *fixed)
    p_values, gaps = [], []
    for i, exponent in enumerate(ours.exponents):
        rivals = [runs.at()[runs.exponents == exponent][0] for runs in others if exponent in runs.exponents]
        best = min(rivals, key=lambda values: float(mean_sd(values)[0]))
        p_values.append(paired_test(ours.at()[i], best))
        gaps.append(float(mean_sd(ours.at()[i])[0] - mean_sd(best)[0]))
    p = holm(p_values)
    lowest = sum(gap < 0 for gap in gaps)
    shown = sum(gap < 0 and value < LEVEL for gap, value in zip(gaps, p, strict=True))
    status = HOLDS if shown >= SEVERAL else FAILS if lowest < SEVERAL else UNDECIDED
    mean, sd = mean_sd(scores_of(study, arm_id))
    evidence = (
        f"least mean of all at {lowest} of {len(gaps)} step sizes, shown against the best fixed λ there at {shown}; "
        f"at its best step size {number_text(float(mean))} ± {number_text(float(sd), float(mean))}"
    )
    return Verdict(status, evidence)


def same_step_sizes(study: Study) -> Verdict:
    """Whether the selected step sizes are the paper's, and if not, whether ours are shown to be better."""
    base = study.description["step_size_base"]
    same, texts, p_values = 0, [], []
    for arm in study.present:
        number = study.published(arm.id, "exponent")
        if number is None:
            continue
        theirs, ours, runs = int(number["value"]), study.selected[arm.id], runs_of(study, arm.id)
        if ours == theirs:
            same += 1
            continue
        loss = loss_of(study, arm)
        p_values.append(paired_test(loss[runs.exponents == ours][0], loss[runs.exponents == theirs][0]))
        share = float(replay_selection(study, arm).shares[runs.exponents == theirs].sum())
        texts.append(
            f"{arm.label}: ours {step_size_text(ours, base)}, paper's {step_size_text(theirs, base)} (selected from "
            f"ten of our seeds {share:.0%} of the time; "
        )
    p = holm(p_values)
    texts = [f"{text}p = {value:.2g})" for text, value in zip(texts, p, strict=True)]
    status = HOLDS if not texts else FAILS if np.any(p < LEVEL) else UNDECIDED
    return Verdict(status, "; ".join([f"{same} of {same + len(texts)} the same", *texts]))
