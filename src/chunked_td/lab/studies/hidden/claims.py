"""Claims of the study with hidden state, judged by `criteria`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

from chunked_td.lab.studies.deep.results import best_arms
from chunked_td.lab.studies.hidden.protocol import AGENTS, MEMORIES
from chunked_td.lab.studies.hidden.results import HiddenResults
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_TESTABLE, Claim, Verdict

_STATUS = {"holds": HOLDS, "in part": IN_PART, "fails": FAILS}


def better_memory(agent: str, results: HiddenResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "memory" of an agent."""
    judged = results.verdicts["claims"].get(agent)
    if results.too_small or judged is None:
        return results.too_small or Verdict(NOT_RUN, f"{agent} was not run with both memories")
    reach = (f"{task}: {r['kept']} and {r['state']}" for task, r in judged["reach"].items())
    return Verdict(_STATUS[judged["memory"]], "greatest N, kept percepts and recurrent state: " + "; ".join(reach))


def with_memory(agent: str, memory: str, claim: str, results: HiddenResults, _: Mapping[str, Any]) -> Verdict:
    """The claim "score" or "reach" of an agent with a memory."""
    judged = results.verdicts["memories"].get(f"{agent}, {memory}")
    if results.too_small or judged is None:
        return results.too_small or Verdict(NOT_RUN, f"no runs of {agent} with the memory {memory!r}")
    if claim == "reach":
        reaches = (f"{task}: {r['recurrent']} against {r['best fixed']}" for task, r in judged["reach"].items())
        evidence = "greatest N against that of the best fixed λ: " + "; ".join(reaches)
        if not any(r["recurrent"] or r["best fixed"] for r in judged["reach"].values()):
            return Verdict(NOT_TESTABLE, f"{evidence}; no arm solves any length, so none can reach farther")
    else:
        means = judged["moonshot"]["means"]
        source, rival = best_arms(means)
        gates = [cell["gate"] for cell in judged["cells"].values()]
        evidence = (
            f"best form {source}, best fixed λ {rival}, 0.95 {means['0.95']['value']:.3f}; "
            f"the gate was passed on {gates.count('passed')} of {len(gates)} cells"
        )
    return Verdict(_STATUS[judged[f"{claim} claim"]], evidence)


def _memory(agent: str) -> Claim:
    return Claim(
        f"hidden-memory-{agent}",
        "ours, after §2.2",
        f"For {agent}, the last percepts that a model did not predict carry a signal farther than its recurrent state.",
        "The greatest corridor that 90 % of the seeds solve, at the best λ, is at least as long on every task and "
        "longer on one.",
        (),
        partial(better_memory, agent),
        f"{agent}: kept percepts are the better memory",
        figure="tables/reach.md",
    )


def _score_and_reach(agent: str, memory: str) -> tuple[Claim, Claim]:
    reads = "the last kept percepts" if memory == "kept" else "the recurrent state"
    score = Claim(
        f"hidden-score-{agent}-{memory}",
        "ours; §6 names it as the next step",
        f"With hidden state, λ = P(next percept | history, action) beats every fixed λ for {agent} with values on "
        f"{reads}.",
        "One form has a mean over tasks and lengths above that of every fixed λ, intervals disjoint, and is no "
        "worse than 5 % on any. First the gate: λ from the true model must help.",
        (),
        partial(with_memory, agent, memory, "score"),
        f"{agent}, {memory}: beats every fixed λ",
        figure=f"tables/scores-{agent}-{memory}.md",
    )
    reach = Claim(
        f"hidden-reach-{agent}-{memory}",
        "ours",
        f"That λ solves corridors as long as the best fixed λ of each task, for {agent} with values on {reads}.",
        "The greatest N that 90 % of the seeds solve is at least that of every fixed λ on every task, and no "
        "single fixed λ has that property. In part: some single fixed λ has it, too.",
        (),
        partial(with_memory, agent, memory, "reach"),
        f"{agent}, {memory}: reaches as far as fixed λ",
        figure="tables/reach.md",
    )
    return score, reach


CLAIMS = (
    *(_memory(agent) for agent in AGENTS),
    *(claim for cell in itertools.product(AGENTS, sorted(MEMORIES)) for claim in _score_and_reach(*cell)),
)
