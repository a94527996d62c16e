"""Very long memory: how far does a table carry a signal that remembers the percepts it did not expect?

A signal is shown once and needed up to 3,000 steps later, in the T-mazes of Ni et al. (NeurIPS 2023), who published
how far recurrent networks and transformers get. Learners are SARSA on two slots of unexpected percepts and a clock, and
differ in λ (0.9, or the paper's from counts) and in how they explore. The rules were written before the data
(README.md): a run has solved its maze if it earns 0.95 on average in the last 100 episodes of the published budget; the
reach is the greatest L up to which 90 % of the judged seeds solve the maze at every length tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

import chunked_td as ctd
from chunked_td.envs.t_maze.timed import TimedTMaze
from chunked_td.simulation import simulate
from chunked_td.statistics import reach
from chunked_td.sweeps import sweep
from studies.memory.exploration import EpsilonPerStay
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_RUN, Verdict, source, status_of
from studies.runner.plots import legend_below, new_figure
from studies.runner.text import markdown

HERE = Path(__file__).parent
BUDGETS = {
    "passive": {
        50: 20_000, 100: 20_000, 250: 16_000, 500: 8_000, 750: 8_000, 1_000: 8_000, 1_250: 8_000, 1_500: 6_700,
        2_000: 6_700, 3_000: 6_700,
    },
    "active": {20: 40_000, 50: 40_000, 100: 40_000, 250: 32_000, 500: 16_000},
}  # fmt: skip
"""Episodes, by maze and L; as published up to `LONGEST`, beyond as at its end."""
LONGEST = {"passive": 1_500, "active": 500}
"""The longest corridors that were published."""
BLIND, LAST = 50, 100
"""L of the control without a memory; episodes at the end that are scored."""
SEEN, JUDGED = 4, 20
"""Seeds that trials had seen; seeds after them."""
KEY = ("memory", "maze", "corridor", "arm", "step_size", "seed")

_CHUNKED = {"lambda_source": ctd.ForwardLambda()}
ARMS: dict[str, dict[str, Any]] = {
    "sarsa-0.9-falling": {"lambda_source": 0.9},
    "chunked-falling": _CHUNKED,
    "chunked-bonus": {**_CHUNKED, "bonus": 10.0},
    "chunked-strong": {**_CHUNKED, "bonus": 20.0},
    "chunked-stay": {**_CHUNKED, "stay": 1.0},
    "chunked-quarter": {**_CHUNKED, "stay": 0.25},
}
STEP_SIZES = {arm: [0.02 if arm.endswith("falling") else 0.05] for arm in ARMS}
LABELS = {
    "sarsa-0.9-falling": "SARSA(0.9), ε falling",
    "chunked-falling": "Chunked SARSA, ε falling",
    "chunked-bonus": "Chunked SARSA, count bonus",
    "chunked-strong": "Chunked SARSA, strong bonus",
    "chunked-stay": "Chunked SARSA, ε per stay from 1",
    "chunked-quarter": "Chunked SARSA, ε per stay from ¼",
}
QUICK = ("sarsa-0.9-falling", "chunked-falling", "chunked-quarter")
NETWORKS = {
    "ppo-kept-0.95": "PPO, percepts a GRU missed, λ = 0.95",
    "ppo-kept-recurrent": "PPO, percepts a GRU missed, λ from the GRU",
    "ppo-state-0.95": "PPO, state of a GRU, λ = 0.95",
    "ppo-state-recurrent": "PPO, state of a GRU, λ from the GRU",
}
"""PPO on a memory made by a GRU, in the passive maze of 50 steps."""
NETWORK_CORRIDOR, NETWORK_STEP_SIZE, BLOCKS = 50, 3e-4, 20
"""The last of `BLOCKS` parts of a run is scored."""

# ---- what is run


def run(
    step_size: float, seed: int, *, maze: str, corridor: int, memory: bool, episodes: int, bonus: float = 0.0,
    stay: float = 0.0, **arm: Any,
) -> dict[str, Any]:  # fmt: skip
    """One run: the mean return of its last episodes, in which ε is 0."""
    problem: Any = TimedTMaze.make(corridor=corridor, active=maze == "active", slots=2 if memory else 0)
    least, before = 1 / (corridor + (3 if maze == "active" else 1)), episodes - LAST
    if stay:
        falling = ctd.Schedule(((0, stay), (before, 0.0)))
        arm |= {"exploration": EpsilonPerStay(falling)}
    elif bonus:
        arm |= {"exploration": ctd.CountBonus(bonus), "epsilon": 0.0}
    else:
        falling = ctd.Schedule(((0, 1.0), (episodes // 5, least), (before - 1, least), (before, 0.0)))
        arm |= {"epsilon": falling.over(np.arange(episodes))}
    found = simulate(
        problem, learner="sarsa", step_sizes=step_size, seeds=seed, episodes=episodes, record_at=[before],
        view="traces", replacing=True, threads=1, **arm,
    )  # fmt: skip
    about = {"maze": maze, "corridor": corridor, "memory": memory, "episodes": episodes}
    return {**about, "mean_return": found.returns_at[0, -1] / LAST}


def run_networks(
    step_size: np.ndarray, seed: np.ndarray, *, memory: str, lambda_: str, corridor: int, episodes: int
) -> list[dict[str, Any]]:
    """Runs of PPO in the passive maze, in lockstep: the mean return of their last part.

    Args:
      memory: what it reads of the GRU, "kept" percepts or its "state". lambda_: a number, or "recurrent".
    """
    from studies.networks.program import curves_of

    curves = curves_of(step_size, seed, agent="ppo", task="t-maze-timed", length=corridor, arms=[lambda_],
                       steps=episodes * (corridor + 1), blocks=BLOCKS, explore=0, memory=memory)  # fmt: skip
    about = {"maze": "passive", "corridor": corridor, "memory": True, "episodes": episodes}
    return [{**about, "mean_return": float(last)} for last in curves["return"][0, :, -1]]


def runs(out: Path, quick: bool, episodes: int = 0, **how: Any) -> pl.DataFrame:
    """All runs; `quick` has two short corridors in each maze, three arms and no network."""
    cells = [
        (maze, corridor, True)
        for maze, lengths in BUDGETS.items()
        for corridor in list(lengths)[: 2 if quick else None]
    ]
    cells += [] if quick else [(maze, BLIND, False) for maze in BUDGETS]
    arms = {arm: ARMS[arm] for arm in (QUICK if quick else ARMS)}
    sizes = {arm: STEP_SIZES[arm] for arm in arms}
    found = [
        sweep(run, arms, sizes, range(SEEN + JUDGED), maze=maze, corridor=corridor, memory=memory,
              episodes=episodes or BUDGETS[maze][corridor], out=out / f"{maze} {corridor} {memory}", **how)
        for maze, corridor, memory in cells
    ]  # fmt: skip
    if not quick:
        networks = {arm: {"memory": arm.split("-")[1], "lambda_": arm.split("-")[2]} for arm in NETWORKS}
        found.append(
            sweep(run_networks, networks, [NETWORK_STEP_SIZE], range(SEEN + JUDGED), together=SEEN + JUDGED,
                  corridor=NETWORK_CORRIDOR, episodes=BUDGETS["passive"][NETWORK_CORRIDOR], out=out / "networks", **how)
        )  # fmt: skip
    return pl.concat(found)


# ---- how it is scored


def shares(table: pl.DataFrame, maze: str, arm: str, memory: bool = True) -> dict[int, float]:
    """{L: share of judged seeds that solved it}, of the lengths that were run at full size."""
    rows = table.filter(maze=maze, arm=arm, memory=memory).filter(pl.col("seed") >= SEEN)
    found = {}
    for (length,), some in rows.group_by("corridor", maintain_order=True):
        if len(some) == JUDGED and some["episodes"][0] == BUDGETS[maze].get(int(length)):  # type: ignore[call-overload]
            found[int(length)] = float((some["mean_return"].fill_nan(-1.0) >= 0.95).mean())  # type: ignore[call-overload]
    return dict(sorted(found.items()))


def reached(table: pl.DataFrame, maze: str, arm: str) -> int:
    """The greatest L up to which enough seeds solve the maze at every length; 0 for none."""
    return reach(shares(table, maze, arm), 0.9)


def _reaches(table: pl.DataFrame, maze: str) -> Verdict:
    found = {LABELS[arm]: shares(table, maze, arm) for arm in ARMS}
    texts = [f"{label}: {', '.join(f'{n:,} {x:.0%}' for n, x in each.items())}" for label, each in found.items()]
    if not any(LONGEST[maze] in each for each in found.values()):
        return Verdict(NOT_RUN, f"no arm was run at {LONGEST[maze]:,} steps")
    best = max(reached(table, maze, arm) for arm in ARMS)
    status = HOLDS if best >= LONGEST[maze] else IN_PART if best else FAILS
    numbers = "; ".join(text for text, each in zip(texts, found.values(), strict=True) if each)
    return Verdict(status, f"L and share of seeds that solve it: {numbers}")


@source("ours, after Ni et al. 2023", controls=("needs_its_memory",))
def passive_maze(table: pl.DataFrame) -> Verdict:
    """With a memory of unexpected percepts a table solves the passive T-maze of 1,500 steps.

    For one arm, at least 90% of 20 seeds solve every length tried up to 1,500 in the published number of episodes. In
    part: some shorter length.
    """
    return _reaches(table, "passive")


@source("ours, after Ni et al. 2023", controls=("needs_its_memory",))
def active_maze(table: pl.DataFrame) -> Verdict:
    """With a memory of unexpected percepts a table solves the active T-maze of 500 steps.

    For one arm, at least 90% of 20 seeds solve every length tried up to 500 in the published number of episodes. In
    part: some shorter length.
    """
    return _reaches(table, "active")


@source("ours")
def as_far_as_fixed(table: pl.DataFrame) -> Verdict:
    """Chunked SARSA reaches as far as SARSA(0.9).

    In every maze and with every way to explore in which both were run to the published length. In part: in some.
    """
    wins, texts = [], []
    for maze, way in itertools.product(LONGEST, ("falling", "bonus")):
        both = [f"{name}-{way}" for name in ("chunked", "sarsa-0.9")]
        if all(LONGEST[maze] in shares(table, maze, arm) for arm in both):
            ours, fixed = (reached(table, maze, arm) for arm in both)
            wins.append(ours >= fixed)
            texts.append(f"{maze}, {way}: {ours:,} against {fixed:,}")
    if not wins:
        return Verdict(NOT_RUN, "no pair of arms was run up to the published length")
    return Verdict(status_of(wins), "; ".join(texts))


@source("ours")
def networks_solve_it(table: pl.DataFrame) -> Verdict:
    """With a network as its memory, PPO solves the passive T-maze of 50 steps.

    For one memory and λ, at least 90% of 20 seeds in the published number of episodes. In part: some seed.
    """
    found = {label: shares(table, "passive", arm) for arm, label in NETWORKS.items()}
    text = "; ".join(f"{label}: {each[NETWORK_CORRIDOR]:.0%}" for label, each in found.items() if each)
    if not text:
        return Verdict(NOT_RUN, "networks were not run")
    best = max(each.get(NETWORK_CORRIDOR, 0.0) for each in found.values())
    return Verdict(HOLDS if best >= 0.9 else IN_PART if best > 0 else FAILS, f"share of seeds that solve it: {text}")


@source("ours, a control")
def needs_its_memory(table: pl.DataFrame) -> Verdict:
    """Without the memory no arm solves a corridor of 50 steps.

    No seed of any arm in either maze.
    """
    found = [s for maze in LONGEST for arm in ARMS for s in shares(table, maze, arm, memory=False).values()]
    if not found:
        return Verdict(NOT_RUN, "runs are of a smaller size")
    return Verdict(HOLDS if max(found) == 0 else FAILS, f"share of seeds that solve it, at most: {max(found):.0%}")


CLAIMS: tuple[Callable[[pl.DataFrame], Verdict], ...] = (
    passive_maze, active_maze, as_far_as_fixed, networks_solve_it, needs_its_memory,
)  # fmt: skip

# ---- tables and figure


def tables(table: pl.DataFrame) -> dict[str, str]:
    """The longest corridor per arm and maze, and the share of seeds that solved each length."""
    return {"reach": reach_table(table), **{maze: solved_table(table, maze) for maze in BUDGETS}}


def reach_table(table: pl.DataFrame) -> str:
    """Table of the longest corridor per arm and maze, and the longest published."""
    rows: list[tuple[str, ...]] = [("published: transformer with DQN", f"{LONGEST['passive']:,}", "does not help")]
    for arm, label in (LABELS | NETWORKS).items():
        cells = []
        for maze in BUDGETS:
            tried, far = shares(table, maze, arm), reached(table, maze, arm)
            cells.append(f"{f'{far:,}' if far else 'none'}; tried up to {max(tried):,}" if tried else "not run")
        if set(cells) != {"not run"}:
            rows.append((label, *cells))
    return markdown(("", *BUDGETS), rows)


def solved_table(table: pl.DataFrame, maze: str) -> str:
    """The share of judged seeds that solved each length, an arm per row."""
    every = {label: shares(table, maze, arm) for arm, label in (LABELS | NETWORKS).items()}
    found = {label: each for label, each in every.items() if each}
    lengths = sorted({length for each in found.values() for length in each})
    rows = [(label, *(f"{100 * each[n]:.0f} %" if n in each else "" for n in lengths)) for label, each in found.items()]
    return markdown(("share of seeds that solved it", *(f"{n:,}" for n in lengths)), rows)


def figure(table: pl.DataFrame) -> Figure:
    """Share of seeds that solved each length, passive and active."""
    drawn, axes = new_figure(2, height=2.9, sharey=True)
    colours = {"sarsa-0.9": "0.3", "chunked": "#0072B2"}
    marks = {"bonus": "o-", "strong": "^-", "stay": "D-", "quarter": "v-", "falling": "s--"}
    for axis, maze in zip(axes, BUDGETS, strict=True):
        for arm, label in LABELS.items():
            name, way = arm.rsplit("-", 1)
            if found := shares(table, maze, arm):
                colour = "#009E73" if "stay" in label else colours[name]
                axis.plot(list(found), list(found.values()), marks[way], color=colour, ms=4, label=label)
        axis.axhline(0.9, color="0.8", lw=0.8)
        axis.axvline(LONGEST[maze], color="#D55E00", lw=0.8, ls=":")
        axis.set_xscale("log")
        ticks = [n for n in BUDGETS[maze] if n not in (750, 1_250, 1_500)]
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axis.minorticks_off()
        axis.set_title(f"{maze} T-maze; dotted: longest published")
        axis.set_xlabel("L, steps from start to junction")
    axes[0].set_ylabel("share of seeds that solved it")
    legend_below(drawn, 3)
    return drawn
