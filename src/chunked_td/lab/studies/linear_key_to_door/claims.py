"""Claims about the linear key-to-door; their criteria are in the package's docstring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chunked_td.lab.studies.linear_key_to_door.protocol import ALWAYS, ARMS, LENGTHS, RULE
from chunked_td.lab.studies.linear_key_to_door.results import Treasures
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Claim, Verdict

LEAST, HALF = 0.8, 0.5


def _whole(judge: Callable[[Treasures], Verdict]) -> Callable[[Treasures, Mapping[str, Any]], Verdict]:
    def judged(results: Treasures, _: Mapping[str, Any]) -> Verdict:
        if not results.is_whole or not {LENGTHS[0], LENGTHS[-1]} <= set(results.lengths()):
            return Verdict(NOT_RUN, "the shortest and the longest corridor were not both run at full size")
        return judge(results)

    return judged


def _status(met: list[bool]) -> str:
    return HOLDS if all(met) else IN_PART if any(met) else FAILS


def _everywhere(met: dict[int, bool], evidence: str) -> Verdict:
    """At every length; only in part where some were not run."""
    missing = ", ".join(str(length) for length in LENGTHS if length not in met)
    status = _status([*met.values(), False] if missing and any(met.values()) else [*met.values()])
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
    if not any(gap.low > 0 or gap.high < 0 for gap in gaps.values()):
        seen = max(gap.high - gap.low for gap in gaps.values()) / 2
        return Verdict(NOT_SHOWN, f"the reward form at L = 103: {evidence}", f"a difference above {seen:.2f}")
    return Verdict(_status([gap.low > 0 for gap in gaps.values()]), f"the reward form at L = 103: {evidence}")


def _hidden(results: Treasures) -> Verdict:
    arms = [arm.id for arm in ARMS if arm.group == ALWAYS]
    most = {
        sure: max(float(results.shares(LENGTHS[0], arm, sure=sure).mean()) for arm in arms) for sure in (False, True)
    }
    evidence = f"best value learner, ε = 0.1: {most[False]:.2f}, and {most[True]:.2f} with apples that pay the same"
    return Verdict(_status([share < HALF for share in most.values()]), evidence)


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
