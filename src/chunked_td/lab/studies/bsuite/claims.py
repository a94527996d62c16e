"""Claims about bsuite's experiments; their scores are in the package's docstring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chunked_td.lab.studies.bsuite.protocol import BLIND, CHOSEN, FIXED, RULE, VARIANCE
from chunked_td.lab.studies.bsuite.results import BsuiteResults
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict

Judge = Callable[[BsuiteResults, Mapping[str, Any]], Verdict]


def _means(results: BsuiteResults, experiment: str, arms: Sequence[str]) -> dict[str, float]:
    """Mean scores of the arms that were run."""
    found = {arm: results.scores(experiment, arm) for arm in arms}
    return {arm: float(scores.mean()) for arm, scores in found.items() if scores.size}


def _text(found: Mapping[str, float]) -> str:
    return ", ".join(f"{arm} {score:.2f}" for arm, score in found.items())


def _between(experiment: str, arms: Sequence[str], least: float, most: float = 1.0) -> Judge:
    """Every arm's score lies between two numbers."""

    def judge(results: BsuiteResults, _: Mapping[str, Any]) -> Verdict:
        found = _means(results, experiment, arms)
        if not found:
            return Verdict(NOT_RUN, "no arm was run at full size")
        right = [least <= score <= most for score in found.values()]
        return Verdict(HOLDS if all(right) else IN_PART if any(right) else FAILS, _text(found))

    return judge


def _as_good(experiment: str, ours: Sequence[str], margin: float) -> Judge:
    """Every arm of ours has a score of at least that of the best fixed λ, less a margin."""

    def judge(results: BsuiteResults, _: Mapping[str, Any]) -> Verdict:
        fixed, found = _means(results, experiment, FIXED), _means(results, experiment, ours)
        if len(fixed) < len(FIXED) or len(found) < len(ours):
            return Verdict(NOT_RUN, "not all arms were run at full size")
        right = [score >= max(fixed.values()) - margin for score in found.values()]
        return Verdict(HOLDS if all(right) else IN_PART if any(right) else FAILS, _text(found | fixed))

    return judge


def _claim(name: str, text: str, criterion: str, judge: Judge, short: str, *controls: str) -> Claim:
    figure = "figures/scores.svg"
    return Claim(f"bsuite-{name}", "ours", text, criterion, (), judge, short, controls=controls, figure=figure)


CLAIMS = (
    _claim(
        "memory-len",
        "With a memory of unexpected percepts a table remembers over every length of memory_len.",
        "Every arm with the memory that was run scores 0.95 or more.",
        _between("memory_len", CHOSEN["memory_len"], 0.95),
        "bsuite's memory_len is solved",
        "bsuite-memory-needed",
    ),
    _claim(
        "memory-size",
        "With the same memory a table answers for up to 10 bits within 10,000 episodes.",
        "Every arm with the memory that was run scores 0.55 or more (10 of 17 settings are 0.59).",
        _between("memory_size", (*FIXED, "chunked", RULE), 0.55),
        "bsuite's memory_size is solved up to 10 bits",
        "bsuite-memory-needed",
    ),
    _claim(
        "memory-needed",
        "Without the memory memory_size is not solved.",
        "The arm without a memory scores 0.1 or less.",
        _between("memory_size", (BLIND,), 0.0, 0.1),
        "nothing is remembered without the memory",
    ),
    _claim(
        "discounting",
        "λ from a model and the rule do as well on discounting_chain as the best of three fixed λs.",
        "The scores of both lie at most 0.02 below that of the best fixed λ. In part: one of the two.",
        _as_good("discounting_chain", ("chunked", RULE), 0.02),
        "bsuite's discounting_chain: as good as the best λ",
    ),
    _claim(
        "umbrella",
        "λ from the variance of values does as well on umbrella_length as the best of three fixed λs.",
        "Its score lies at most 0.05 (one setting) below that of the best fixed λ.",
        _as_good("umbrella_length", (VARIANCE,), 0.05),
        "bsuite's umbrella_length: as good as the best λ",
    ),
)
