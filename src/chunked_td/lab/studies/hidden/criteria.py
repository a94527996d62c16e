"""How the study with hidden state is judged. Written before its data; no rule was changed afterwards.

**Cells.** A cell is an agent (SARSA(λ), actor-critic(λ)), what its values read (the last kept percepts, or the
recurrent state), a task and its length N. In a cell all arms have the same network, memory, grid of step sizes and
seeds.

**Score, tuning, intervals, "better" and "worse"**: those of `criteria`. The step size of an arm is chosen per cell on
10 tuning seeds; 20 other seeds are judged.

**Solved.** A run has solved its task if the mean of its episodes' scores over the last quarter of its blocks is at
least 0.9. Guessing scores 0.5. An arm's *reach* on a task is the greatest N such that at least 90 % of its judged seeds
solve the task there and at every smaller N; 0 where there is none.

**The gate.** λ from the true model in the form "expected", as in `criteria`: passed, half or closed, per cell. (In a
T-maze it is 1 all along the corridor.)

**Claims**, per agent and memory:

    score   λ from the recurrent percept model beats every fixed λ: HOLDS if "recurrent" or "recurrent-realised" passes
            the moonshot of `criteria` over all cells; FAILS otherwise.
    reach   It reaches at least as far as a fixed λ chosen per task: HOLDS if on every task the reach of "recurrent" is
            at least the greatest reach of any fixed λ, and no single fixed λ can say that of itself; IN PART if it is,
            but some single fixed λ can; FAILS otherwise.

and per agent

    memory  Kept percepts carry the signal farther than a recurrent state does: HOLDS if the greatest reach of any arm
            (the true model's not counted) is with "kept" at least that with "state" on every task, and greater on one;
            FAILS if it is less on some task; IN PART if it is equal on all.

What was looked at beforehand: all arms with six seeds and two step sizes at N = 10 and 50, SARSA only, to see what can
be learned in 100,000 steps at all. After that the task with a signal to fetch was made easier (no walls), with fixed λ
and the true model on eight seeds alone, and nothing else was changed. The threshold for keeping percepts, 0.75, is that
of the compression study; 0.5 was tried first and keeps a fair coin only half of the time. Rewards of the T-maze were ±1
at first: agents then learned to avoid both arms.

**Added later, before the data it speaks of**: PPO, with the same memory; policy and values read it. Its cells are
judged by the rules above, with PPO's own grid of step sizes.

**Added after the data**: PPO learns from whole rollouts of 1,024 transitions, so its 100,000 steps in 20 blocks were 4
rollouts a block, 81,920 transitions. Most arms with kept percepts chose the largest step size of the grid, which may
not enclose the best one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunked_td.lab.studies.deep.criteria import FIXED, SOLVED

SHARE = 0.9
GATE = ("true-expected",)
SOURCES = ("recurrent", "recurrent-realised")

Reaches = dict[str, dict[str, int]]
"""task → arm → reach."""


def solved(curves: np.ndarray) -> np.ndarray:
    """Which runs solved their task: bool[R], from scores [R, blocks]; blocks without an episode do not count."""
    quarter = max(1, curves.shape[-1] // 4)
    return np.nanmean(curves[..., -quarter:], -1) >= SOLVED


def reach_claim(reaches: Reaches) -> str:
    """The claim "reach" for one agent and memory."""
    best = {task: max(arms[str(x)] for x in FIXED) for task, arms in reaches.items()}

    def everywhere(arm: str) -> bool:
        return all(arms[arm] >= best[task] for task, arms in reaches.items())

    if not everywhere(SOURCES[0]):
        return "fails"
    return "in part" if any(everywhere(str(x)) for x in FIXED) else "holds"


def memory_claim(kept: Reaches, state: Reaches) -> dict[str, Any]:
    """The claim "memory" for one agent, with the greatest reach of any arm on every task."""
    arms = (*map(str, FIXED), *SOURCES)
    both = {"kept": kept, "state": state}
    best = {task: {name: max(found[task][a] for a in arms) for name, found in both.items()} for task in kept}
    gains = [reach["kept"] - reach["state"] for reach in best.values()]
    verdict = "fails" if min(gains) < 0 else "holds" if max(gains) > 0 else "in part"
    return {"memory": verdict, "reach": best}


def describe(reaches: Reaches) -> dict[str, Any]:
    """The greatest reach of fixed λ, which λ have it, and the reach of the sources, per task."""
    found = {}
    for task, arms in reaches.items():
        best = max(arms[str(x)] for x in FIXED)
        found[task] = {
            "best fixed": best,
            "by": [str(x) for x in FIXED if arms[str(x)] == best],
            **{source: arms[source] for source in SOURCES},
        }
    return found
