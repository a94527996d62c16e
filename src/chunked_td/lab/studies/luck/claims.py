"""Claims of the study of maturity and luck; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chunked_td.lab.studies.deep.protocol import GRIDS
from chunked_td.lab.studies.deep.results import best_arms
from chunked_td.lab.studies.luck.protocol import MATURITY
from chunked_td.lab.studies.luck.results import LuckResults
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Claim, Verdict


def takes_luck_out(agent: str, results: LuckResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "luck"."""
    return _not_run(agent, results) or together(results, agent, ("0.95-luck-16",))


def matures(agent: str, results: LuckResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "maturity"."""
    return _not_run(agent, results) or together(results, agent, MATURITY)


def beats_fixed(agent: str, results: LuckResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "fixed λ"."""
    if missing := _not_run(agent, results):
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


def _not_run(agent: str, results: LuckResults) -> Verdict | None:
    return results.too_small or (None if agent in results.scores else Verdict(NOT_RUN, f"no runs of {agent}"))


def _of(agent: str) -> tuple[Claim, ...]:
    by_pair = (
        "Its mean over tasks lies above that of the same λ without it, intervals disjoint, and it is worse on none"
    )
    return (
        Claim(
            f"luck-{agent}",
            "ours",
            f"TD errors that are means over 16 draws make {agent} with λ = 0.95 learn faster where chance enters.",
            f"{by_pair}. In part: better on a task, worse on none.",
            (),
            partial(takes_luck_out, agent),
            f"{agent}: luck helps",
            figure=f"figures/luck-{agent}.svg",
        ),
        Claim(
            f"maturity-{agent}",
            "ours",
            f"λ that is 1 while values are guesses makes {agent} learn faster than the same λ all along.",
            f"{by_pair}; for λ = 0.5, λ = 0.8, the value kernel and the expected probability. In part: for some.",
            (),
            partial(matures, agent),
            f"{agent}: maturity helps",
            figure=f"figures/luck-{agent}.svg",
        ),
        Claim(
            f"luck-fixed-{agent}",
            "ours",
            f"An arm with luck or maturity beats every fixed λ for {agent}.",
            "One has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than 5 % on "
            "any task.",
            (),
            partial(beats_fixed, agent),
            f"{agent}: luck or maturity beats every fixed λ",
            figure=f"figures/luck-{agent}.svg",
        ),
    )


CLAIMS = tuple(claim for agent in GRIDS for claim in _of(agent))
