"""Claims of the study of maturity and luck; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chunked_td.lab.studies.deep.protocol import GRIDS
from chunked_td.lab.studies.deep.results import best_arms
from chunked_td.lab.studies.luck.protocol import MATURITY
from chunked_td.lab.studies.luck.results import LuckResults
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_SHOWN, Claim, Verdict


def judge(agent: str, arms: tuple[str, ...], results: LuckResults, _: Mapping[str, Any]) -> Verdict:
    """The claims "luck" and "maturity": pairs of arms together."""
    return results.missing(agent) or together(results, agent, arms)


def beats_fixed(agent: str, results: LuckResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "fixed λ"."""
    if missing := results.missing(agent):
        return missing
    found = results.verdicts[agent]["moonshot"]
    arm, rival = best_arms(found["means"])
    return Verdict(HOLDS if found["verdict"] == "holds" else FAILS, f"best arm {arm}, best fixed λ {rival}")


def together(results: Any, agent: str, arms: tuple[str, ...]) -> Verdict:
    """The verdict on several pairs."""
    pairs = {arm: results.pairs[agent][arm] for arm in arms}
    found = [pair.status for pair in pairs.values()]
    evidence = "; ".join(f"{arm}: {pair.status}, {pair.text}" for arm, pair in pairs.items())
    if all(status == NOT_SHOWN for status in found):
        widest = max(pair.visible for pair in pairs.values())
        return Verdict(NOT_SHOWN, evidence, f"a difference above {widest:.3f}")
    if all(status == HOLDS for status in found):
        return Verdict(HOLDS, evidence)
    return Verdict(IN_PART if HOLDS in found or IN_PART in found else FAILS, evidence)


def _of(agent: str) -> tuple[Claim, ...]:
    by_pair = (
        "Its mean over tasks lies above that of the same λ without it, intervals disjoint, and it is worse on none"
    )
    shown = {"arms": (), "figure": f"figures/luck-{agent}.svg"}
    return (
        Claim(
            f"luck-{agent}",
            "ours",
            f"TD errors that are means over 16 draws make {agent} with λ = 0.95 learn faster where chance enters.",
            f"{by_pair}. In part: better on a task, worse on none.",
            judge=partial(judge, agent, ("0.95-luck-16",)),
            short=f"{agent}: luck helps",
            **shown,
        ),
        Claim(
            f"maturity-{agent}",
            "ours",
            f"λ that is 1 while values are guesses makes {agent} learn faster than the same λ all along.",
            f"{by_pair}; for λ = 0.5, λ = 0.8, the value kernel and the expected probability. In part: for some.",
            judge=partial(judge, agent, MATURITY),
            short=f"{agent}: maturity helps",
            **shown,
        ),
        Claim(
            f"luck-fixed-{agent}",
            "ours",
            f"An arm with luck or maturity beats every fixed λ for {agent}.",
            "One has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than 5 % on "
            "any task.",
            judge=partial(beats_fixed, agent),
            short=f"{agent}: luck or maturity beats every fixed λ",
            **shown,
        ),
    )


CLAIMS = tuple(claim for agent in GRIDS for claim in _of(agent))
