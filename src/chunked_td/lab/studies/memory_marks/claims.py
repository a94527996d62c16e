"""Claims about very long memory; their rule is in the package's docstring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunked_td.lab.studies.memory_marks.protocol import ARMS, PUBLISHED
from chunked_td.lab.studies.memory_marks.results import SHARE, MemoryMarks
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict


def _reaches(maze: str) -> Any:
    def judge(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
        if not results.full:
            return Verdict(NOT_RUN, "runs are of a smaller size")
        reach = {arm.label: results.reach(maze, arm.id) for arm in ARMS}
        best = max(reach.values())
        numbers = "; ".join(f"{label}: {length:,}" if length else f"{label}: none" for label, length in reach.items())
        return Verdict(HOLDS if best >= PUBLISHED[maze] else IN_PART if best else FAILS, f"longest L: {numbers}")

    return judge


def _chunked(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    if not results.full:
        return Verdict(NOT_RUN, "runs are of a smaller size")
    wins, texts = [], []
    for maze in PUBLISHED:
        for way in ("falling", "bonus"):
            ours = results.reach(maze, f"chunked-{way}")
            fixed = max(results.reach(maze, f"{name}-{way}") for name in ("sarsa-0", "sarsa-0.9"))
            wins.append(ours >= fixed)
            texts.append(f"{maze}, {way}: {ours:,} against {fixed:,}")
    return Verdict(HOLDS if all(wins) else IN_PART if any(wins) else FAILS, "; ".join(texts))


def _blind(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    shares = [s for maze in PUBLISHED for arm in ARMS for s in results.shares(maze, arm.id, memory=False).values()]
    if not results.full or not shares:
        return Verdict(NOT_RUN, "runs are of a smaller size")
    return Verdict(HOLDS if max(shares) == 0 else FAILS, f"share of seeds that solve it, at most: {max(shares):.0%}")


CLAIMS = (
    *(
        Claim(
            f"memory-{maze}",
            "ours, after Ni et al. 2023",
            f"With a memory of unexpected percepts a table solves the {maze} T-maze of {length:,} steps.",
            f"For one arm, at least {SHARE:.0%} of 20 seeds solve every length up to {length:,} in the published "
            "number of episodes. In part: some shorter length.",
            (),
            _reaches(maze),
            f"the {maze} T-maze of {length:,} steps",
            controls=("memory-needed",),
            figure="figures/reach.svg",
        )
        for maze, length in PUBLISHED.items()
    ),
    Claim(
        "memory-chunked",
        "ours",
        "Chunked SARSA reaches as far as SARSA with λ = 0 or 0.9.",
        "In both mazes and with both ways to explore. In part: in some.",
        (),
        _chunked,
        "λ from the model reaches as far as a fixed one",
        figure="figures/reach.svg",
    ),
    Claim(
        "memory-needed",
        "ours, a control",
        "Without the memory no arm solves a corridor of 50 steps.",
        "No seed of any arm in either maze.",
        (),
        _blind,
        "nothing is solved without the memory",
    ),
)
