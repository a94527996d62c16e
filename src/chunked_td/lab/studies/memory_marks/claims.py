"""Table, claims and page of the study of very long memory; their rule is in the package's docstring."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.report.style import legend_below, new_figure
from chunked_td.lab.results.runs import RunArrays, RunTable, collector, per_run
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.memory_marks.protocol import (
    ARMS,
    BUDGETS,
    JUDGED,
    LONGEST,
    NETWORK_ARMS,
    NETWORK_CORRIDORS,
    NETWORKS,
    SEEN,
    protocols,
)
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Protocol, Verdict, status_of
from chunked_td.statistics import reach

SOLVED, SHARE = 0.95, 0.9
"""The mean return from which a run has solved its maze; the share of seeds from which a length counts."""


def _rows(protocol: Protocol, arm: str, runs: RunArrays) -> Any:
    """One row per run: the mean return of its last episodes."""
    about, column, episodes, network = protocol.environment.arguments, "mean_return", runs.length, ""
    if "slots" not in about:  # networks; their lengths are in steps
        column, episodes = "returns", runs.length // (about["corridor"] + 1)
        network = f"{next(name for name in NETWORKS if protocol.id.endswith(name))}-"
    named = {"maze": "active" if about.get("active") else "passive", "corridor": about["corridor"]}
    named |= {"memory": about.get("slots", 1) > 0, "arm": network + arm, "episodes": episodes}
    return per_run(runs, named, mean_return=runs.columns[column][:, :, -1])


COLLECT = collector(protocols, _rows, "memory", "maze", "corridor", "arm", "step_size", "seed")


class MemoryMarks(RunTable):
    """Results of the study."""

    def shares(self, maze: str, arm: str, memory: bool = True) -> dict[int, float]:
        """{L: share of judged seeds that solved it}, of the lengths that were run at full size."""
        import polars as pl

        rows = self.frame.filter(maze=maze, arm=arm, memory=memory).filter(pl.col("seed") >= SEEN)
        found = {}
        for (length,), some in rows.group_by("corridor", maintain_order=True):
            full = len(some) == JUDGED and some["episodes"][0] == BUDGETS[maze].get(length)
            if full:
                found[int(length)] = float((some["mean_return"].fill_nan(-1.0) >= SOLVED).mean())
        return dict(sorted(found.items()))

    def reach(self, maze: str, arm: str) -> int:
        """The greatest L up to which enough seeds solve the maze at every length; 0 for none."""
        return reach(self.shares(maze, arm), SHARE)


LOAD = MemoryMarks.load


def _reaches(maze: str) -> Any:
    def judge(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
        shares = {arm.label: results.shares(maze, arm.id) for arm in ARMS}
        texts = [f"{label}: {', '.join(f'{n:,} {x:.0%}' for n, x in found.items())}" for label, found in shares.items()]
        if not any(LONGEST[maze] in found for found in shares.values()):
            return Verdict(NOT_RUN, f"no arm was run at {LONGEST[maze]:,} steps")
        best = max(results.reach(maze, arm.id) for arm in ARMS)
        status = HOLDS if best >= LONGEST[maze] else IN_PART if best else FAILS
        numbers = "; ".join(text for text, found in zip(texts, shares.values(), strict=True) if found)
        return Verdict(status, f"L and share of seeds that solve it: {numbers}")

    return judge


def _chunked(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    wins, texts = [], []
    for maze, way in itertools.product(LONGEST, ("falling", "bonus")):
        ours, fixed = (results.shares(maze, f"{name}-{way}") for name in ("chunked", "sarsa-0.9"))
        if LONGEST[maze] in ours and LONGEST[maze] in fixed:
            reached = [results.reach(maze, f"{name}-{way}") for name in ("chunked", "sarsa-0.9")]
            wins.append(reached[0] >= reached[1])
            texts.append(f"{maze}, {way}: {reached[0]:,} against {reached[1]:,}")
    if not wins:
        return Verdict(NOT_RUN, "no pair of arms was run up to the published length")
    return Verdict(status_of(wins), "; ".join(texts))


def _networks(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    shares = {arm.label: results.shares("passive", arm.id) for arm in NETWORK_ARMS}
    text = "; ".join(f"{label}: {found[NETWORK_CORRIDORS[0]]:.0%}" for label, found in shares.items() if found)
    if not text:
        return Verdict(NOT_RUN, "networks were not run")
    best = max(found.get(NETWORK_CORRIDORS[0], 0.0) for found in shares.values())
    return Verdict(HOLDS if best >= SHARE else IN_PART if best > 0 else FAILS, f"share of seeds that solve it: {text}")


def _blind(results: MemoryMarks, _: Mapping[str, Any]) -> Verdict:
    shares = [s for maze in LONGEST for arm in ARMS for s in results.shares(maze, arm.id, memory=False).values()]
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
        for maze, length in LONGEST.items()
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


ROWS = (*ARMS, *NETWORK_ARMS)


def PAGE(folder: Path, results: MemoryMarks) -> Path:
    """Write tables/ and figures/reach.svg; returns the path of the table of the reaches."""
    texts = {maze: solved_table(results, maze) for maze in BUDGETS} | {"reach": reach_table(results)}
    write_parts(folder, texts, {"reach": _draw(results)})
    return folder / "tables" / "reach.md"


def reach_table(results: MemoryMarks) -> str:
    """The longest corridor per arm and maze, beside the longest published."""
    rows: list[tuple[str, ...]] = [("published: transformer with DQN", f"{LONGEST['passive']:,}", "does not help")]
    for arm in ROWS:
        cells = []
        for maze in BUDGETS:
            tried = results.shares(maze, arm.id)
            reach = results.reach(maze, arm.id)
            cells.append(f"{f'{reach:,}' if reach else 'none'}; tried up to {max(tried):,}" if tried else "not run")
        if set(cells) != {"not run"}:
            rows.append((arm.label, *cells))
    return markdown(("", *BUDGETS), rows)


def solved_table(results: MemoryMarks, maze: str) -> str:
    """The share of judged seeds that solved each length, an arm per row."""
    every = {arm.label: results.shares(maze, arm.id) for arm in ROWS}
    shares = {label: found for label, found in every.items() if found}
    lengths = sorted({length for found in shares.values() for length in found})
    rows = [
        (label, *(f"{100 * found[n]:.0f} %" if n in found else "" for n in lengths)) for label, found in shares.items()
    ]
    return markdown(("share of seeds that solved it", *(f"{n:,}" for n in lengths)), rows)


def _draw(results: MemoryMarks) -> Any:
    figure, axes = new_figure(9.0, 3.2, 2, sharey=True)
    colours = {"sarsa-0": "0.7", "sarsa-0.9": "0.3", "chunked": "#0072B2"}
    for axis, maze in zip(axes, BUDGETS, strict=True):
        for arm in ARMS:
            name, way = arm.id.rsplit("-", 1)
            if not (found := results.shares(maze, arm.id)):
                continue
            style = {"bonus": "o-", "strong": "^-", "stay": "D-", "quarter": "v-"}.get(way, "s--")
            axis.plot(
                list(found),
                list(found.values()),
                style,
                color="#009E73" if "stay" in arm.label else colours[name],
                ms=4,
                label=arm.label,
            )
        axis.axhline(SHARE, color="0.8", lw=0.8)
        axis.axvline(LONGEST[maze], color="#D55E00", lw=0.8, ls=":")
        axis.set_xscale("log")
        ticks = [n for n in BUDGETS[maze] if n not in (750, 1_250, 1_500)]
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks], fontsize=8)
        axis.minorticks_off()
        axis.set_title(f"{maze} T-maze; dotted: longest published", fontsize=9)
        axis.set_xlabel("L, steps from start to junction")
    figure.supylabel("share of seeds that solved it", fontsize=9)
    legend_below(figure, 3)
    return figure
