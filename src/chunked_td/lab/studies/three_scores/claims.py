"""The registered criterion, one claim per score; see docs/experiments/credit-registered.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chunked_td.lab.studies.three_scores.methods import RULE
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict

LIMITS = {"values": (1.3, 0.75), "decisions": (1.0, 0.75), "control": (1.0, 0.75)}
"""Least mean over held-out families, and least score of a family."""
LEAST_FAMILIES = 8


def judge(score: str) -> Callable[[Any, Mapping[str, Any]], Verdict]:
    """The judge of one score."""

    def verdict(results: Any, everything: Mapping[str, Any]) -> Verdict:
        if isinstance(results, Verdict):
            return results
        if score not in results or len(results[score].by_family(RULE, True)) < LEAST_FAMILIES:
            return Verdict(NOT_RUN, f"fewer than {LEAST_FAMILIES} held-out families were run or told apart")
        found = results[score]
        families, fixed = found.by_family(RULE, True), found.best_fixed(True)
        worst = min(families, key=lambda name: families[name])
        above = found.difference(RULE, fixed, True)
        mean, (least_mean, least) = found.mean(RULE, True), LIMITS[score]
        met = [mean >= least_mean, families[worst] >= least, above.low > 0]
        text = (
            f"mean {mean:.2f}, worst family {worst} {families[worst]:.2f}; {above.value:+.2f} "
            f"[{above.low:+.2f}, {above.high:+.2f}] against the best single fixed λ ({fixed})"
        )
        return Verdict(HOLDS if all(met) else IN_PART if any(met) else FAILS, text)

    return verdict


CLAIMS = tuple(
    Claim(
        f"three-scores-{score}",
        "ours",
        f"The registered rule is good at {score} on problems that nobody designed it on.",
        f"mean over held-out families at least {mean}, worst family at least {worst}, and above the best single fixed "
        "λ with a 95 % interval above 0",
        (),
        judge(score),
        short=f"Credit: {score}",
    )
    for score, (mean, worst) in LIMITS.items()
)
