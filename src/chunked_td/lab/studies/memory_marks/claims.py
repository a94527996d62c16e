"""Claims about very long memory; their rule is in the package's docstring."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from chunked_td.lab.studies.memory_marks.protocol import ARMS, NETWORK_ARMS, NETWORK_CORRIDORS, PUBLISHED
from chunked_td.lab.studies.memory_marks.results import SHARE, MemoryMarks
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict


def _reaches(maze: str) -> Any:
    def judge(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
        shares = {arm.label: results.shares(maze, arm.id) for arm in ARMS}
        texts = [f"{label}: {', '.join(f'{n:,} {x:.0%}' for n, x in found.items())}" for label, found in shares.items()]
        if not any(PUBLISHED[maze] in found for found in shares.values()):
            return Verdict(NOT_RUN, f"no arm was run at {PUBLISHED[maze]:,} steps")
        best = max(results.reach(maze, arm.id) for arm in ARMS)
        status = HOLDS if best >= PUBLISHED[maze] else IN_PART if best else FAILS
        numbers = "; ".join(text for text, found in zip(texts, shares.values(), strict=True) if found)
        return Verdict(status, f"L and share of seeds that solve it: {numbers}")

    return judge


def _chunked(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    wins, texts = [], []
    for maze, way in itertools.product(PUBLISHED, ("falling", "bonus")):
        ours, fixed = (results.shares(maze, f"{name}-{way}") for name in ("chunked", "sarsa-0.9"))
        if PUBLISHED[maze] in ours and PUBLISHED[maze] in fixed:
            reached = [results.reach(maze, f"{name}-{way}") for name in ("chunked", "sarsa-0.9")]
            wins.append(reached[0] >= reached[1])
            texts.append(f"{maze}, {way}: {reached[0]:,} against {reached[1]:,}")
    if not wins:
        return Verdict(NOT_RUN, "no pair of arms was run up to the published length")
    return Verdict(HOLDS if all(wins) else IN_PART if any(wins) else FAILS, "; ".join(texts))


def _networks(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    shares = {arm.label: results.shares("passive", arm.id) for arm in NETWORK_ARMS}
    text = "; ".join(f"{label}: {found[NETWORK_CORRIDORS[0]]:.0%}" for label, found in shares.items() if found)
    if not text:
        return Verdict(NOT_RUN, "networks were not run")
    best = max(found.get(NETWORK_CORRIDORS[0], 0.0) for found in shares.values())
    return Verdict(HOLDS if best >= SHARE else IN_PART if best > 0 else FAILS, f"share of seeds that solve it: {text}")


def _blind(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    shares = [s for maze in PUBLISHED for arm in ARMS for s in results.shares(maze, arm.id, memory=False).values()]
    if not shares:
        return Verdict(NOT_RUN, "runs are of a smaller size")
    return Verdict(HOLDS if max(shares) == 0 else FAILS, f"share of seeds that solve it, at most: {max(shares):.0%}")


CLAIMS = (
    *(
        Claim(
            f"memory-{maze}",
            "ours, after Ni et al. 2023",
            f"With a memory of unexpected percepts a table solves the {maze} T-maze of {length:,} steps.",
            f"For one arm, at least {SHARE:.0%} of 20 seeds solve every length tried up to {length:,} in the published "
            "number of episodes. In part: some shorter length.",
            (),
            _reaches(maze),
            f"the {maze} T-maze of {length:,} steps",
            controls=("memory-needed",),
            figure="figures/reach.svg",
        )
        for maze, length in PUBLISHED.items()
    ),
    Claim("memory-chunked", "ours", "Chunked SARSA reaches as far as SARSA(0.9).",
          "In every maze and with every way to explore in which both were run to the published length. In part: in "
          "some.", (), _chunked, "λ from the model reaches as far as a fixed one", figure="figures/reach.svg"),
    Claim("memory-networks", "ours", f"With a network as its memory, PPO solves the passive T-maze of "
          f"{NETWORK_CORRIDORS[0]} steps.", f"For one memory and λ, at least {SHARE:.0%} of 20 seeds in the published "
          "number of episodes. In part: some seed.", (), _networks, "PPO with a recurrent network solves 50 steps"),
    Claim("memory-needed", "ours, a control", "Without the memory no arm solves a corridor of 50 steps.",
          "No seed of any arm in either maze.", (), _blind, "nothing is solved without the memory"),
)  # fmt: skip
