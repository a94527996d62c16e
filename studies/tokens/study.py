"""λ per token: is the policy's own predictability a good λ for text, or should λ be taken from the critic?

First a gate, before any policy is trained: for a policy after its warm start and critics of three ages, the correlation
of advantages with the true ones. Then policies learn with each λ, with a learned and with an oracle critic. Then the
findings are tested on fresh seeds. Tasks are synthetic: one reward at the end of a sequence (`tasks`). All criteria
were preregistered (`registered.md`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td.sweeps import sweep
from studies.runner.criteria import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN, Verdict, make_claim, source, status_of
from studies.runner.data import of_latest
from studies.tokens import judging
from studies.tokens.arms import (
    AGES,
    CONFIRMED,
    CONTROLLED,
    CRITICS,
    EXPLORED,
    FIXED,
    FRESH,
    SINGLE,
    SOURCES,
    STEP_SIZES,
    TASKS,
    TRAINED,
    TRAINED_SOURCES,
)
from studies.tokens.judging import Judged, mean_of, numbers, signed
from studies.tokens.tables import confirmed_table, draw, score_table

HERE = Path(__file__).parent
KEY = ("task", "arm", "exponent", "seed", "episode")
UPDATES, BLOCKS, GATE_STEP_SIZE = 100, 10, 3e-4

# ---- what is run


def gate(step_size: float, seed: int, *, task: str, arm: str, size: str) -> dict[str, Any]:
    """The gate for one seed and λ at every age of the critic; all λs of a seed are one program, which is kept."""
    from studies.tokens.gate import LAMBDAS, SIZES

    found, place = _gate(size, task, seed), list(LAMBDAS).index(arm)
    return {"episode": list(SIZES[size].ages), **{name: values[:, place] for name, values in found.items()}}


@functools.lru_cache(maxsize=8)
def _gate(size: str, task: str, seed: int) -> dict[str, np.ndarray]:
    from studies.tokens import tasks
    from studies.tokens.gate import SIZES, run_gate

    return {name: values[0] for name, values in run_gate(SIZES[size], tasks.TASKS[task], [seed]).items()}


def train(step_size: float, seed: int, *, task: str, critic: str, arm: str, size: str, updates: int) -> dict[str, Any]:
    """A policy that learns: mean reward of its text, in blocks of updates."""
    from studies.tokens.training import train_policies

    rewards = train_policies(size, task, critic == "informed", arm, [seed], [step_size], updates)[0]
    ends = np.arange(1, BLOCKS + 1) * updates // BLOCKS if updates >= BLOCKS else np.arange(1, updates + 1)
    return {"episode": ends, "score": [part.mean(dtype=np.float64) for part in np.split(rewards, ends[:-1])]}


def trained_arms(critic: str) -> dict[str, dict[str, str]]:
    """Return the λs of policies trained with a critic."""
    names = [name for name in (*TRAINED_SOURCES, *EXPLORED) if critic == "learned" or not name.startswith("mature")]
    permuted = [f"{name}-permuted" for name in names if name in CONTROLLED]
    return {name: {"arm": name} for name in (*FIXED, *names, *permuted)}


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """The gate, training and, at full size, what was confirmed; `quick` has one task of tiny networks."""
    size, seeds, updates = ("smoke", range(2), 2) if quick else ("paper", range(8), UPDATES)
    of_gate, of_training = ([t for t in group if t == "forced" or not quick] for group in (TASKS, TRAINED))
    parts = []

    def run(
        name: str, function: Callable[..., Any], arms: Any, sizes: Sequence[float], seeds: Any, **more: Any
    ) -> None:
        rows = sweep(function, arms, sizes, seeds, out=out / name, size=size, **more, **how)
        parts.append(rows.with_columns(task=pl.lit(name)))

    for task in of_gate:
        run(task, gate, {name: {"arm": name} for name in (*FIXED, *SOURCES)}, [GATE_STEP_SIZE], seeds, task=task)
    for task in of_training:
        for critic in CRITICS:
            arms = trained_arms(critic)
            sizes, taken = (STEP_SIZES[:1], seeds[:1]) if quick else (STEP_SIZES, seeds)
            run(f"{critic}-{task}", train, arms, sizes, taken, task=task, critic=critic, updates=updates)
    for name, tuned in {} if quick else CONFIRMED.items():
        critic, _, task = name.partition("-")
        fresh = range(FRESH, FRESH + 20)
        for arm, exponent in {SINGLE: tuned.single, **dict([tuned.best]), "explained": tuned.explained}.items():
            run(f"confirm-{name}", train, {arm: {"arm": arm}}, [STEP_SIZES[-exponent]], fresh, task=task,
                critic=critic, updates=updates)  # fmt: skip
    places = {size: -k for k, size in enumerate(STEP_SIZES)} | {GATE_STEP_SIZE: 0}
    exponent = pl.col("step_size").replace_strict(places).alias("exponent")
    first = pl.col("task").str.starts_with("confirm-").cast(pl.Int64) * FRESH  # fresh seeds are also stored as 0, 1, …
    return pl.concat(parts, how="diagonal_relaxed").with_columns(exponent, pl.col("seed") - first)


# ---- the claims

loaded = of_latest(judging.loaded)


def _claim(judge: Callable[[Mapping[str, Judged]], Verdict]) -> Callable[[pl.DataFrame], Verdict]:
    """A claim about runs of full size."""

    @functools.wraps(judge)
    def judged(table: pl.DataFrame) -> Verdict:
        ages = set(table.filter(pl.col("task").is_in(list(TASKS)))["episode"].unique().to_list())
        return judge(loaded(table)) if ages == set(AGES) else Verdict(NOT_RUN, "runs are of a tiny size")

    return source("ours, after §6")(judged)


@_claim
def passes_the_gate(found: Mapping[str, Judged]) -> Verdict:
    """The gate: on some task, advantages with λ = Σπ² agree better with the truth than with the best fixed λ.

    On one task its correlation with the true advantages lies above that of the best fixed λ (chosen on other seeds) and
    above that of its own λs permuted within the sequence: 95 % intervals of paired differences exclude 0.
    """
    gate = found["gate"]
    tasks = [task for task in gate.scores if gate.judge(task, "expected") == HOLDS]
    return Verdict(HOLDS if tasks else FAILS, numbers(gate, "expected"))


def everywhere(found: Mapping[str, Judged], arm: str, part: str = "gate") -> Verdict:
    """Whether a λ holds on every task. Args: part: "gate" or a critic."""
    judged = found[part]
    if not judged.scores:
        return Verdict(NOT_RUN, "no runs")
    statuses = [judged.judge(task, arm) for task in judged.scores]
    widest = max(judged.gain(task, arm).half_width for task in judged.scores)
    if all(status == HOLDS for status in statuses):
        return Verdict(HOLDS, numbers(judged, arm))
    if HOLDS in statuses or FAILS in statuses:
        return Verdict(IN_PART if HOLDS in statuses else FAILS, numbers(judged, arm))
    if IN_PART in statuses:
        return Verdict(IN_PART, numbers(judged, arm))
    return Verdict(NOT_SHOWN, numbers(judged, arm), f"a difference above {widest:.2f}")


def _better_advantages(arm: str) -> Callable[[pl.DataFrame], Verdict]:
    return make_claim(
        f"better_advantages_{arm.replace('-', '_')}",
        f"{SOURCES[arm]} as λ per token gives better advantages than the best fixed λ.",
        "As for the gate, on every task. In part: on some.",
        _claim(lambda found: everywhere(found, arm)),
        "ours, after §6",
    )


def _better_rewards(critic: str, how: str) -> Callable[[pl.DataFrame], Verdict]:
    return make_claim(
        f"better_rewards_{critic}",
        f"With a critic {how}, a policy trained with λ = Σπ² collects more reward than with the best fixed λ.",
        "On every task: its mean reward lies above that of the best fixed λ and above that of its own λs permuted; "
        "step sizes (and the fixed λ) chosen on other seeds, 95 % intervals of paired differences. In part: on some.",
        _claim(lambda found: everywhere(found, "expected", critic)),
        "ours, after §6",
    )


AT_MOST = 0.02
"""Largest distance below the best fixed λ for a λ for all critics."""


@_claim
def unexplained_share(found: Mapping[str, Judged]) -> Verdict:
    """One λ for good and bad critics: the share of the variance of rewards that the critic leaves unexplained.

    On fresh seeds, with everything chosen before: (a) below the best fixed λ of no task and critic by more than 0.02;
    (b) its mean over tasks and critics above that of the best single fixed λ. 95 % intervals.
    """
    scores = {name: {arm: x[0] for arm, x in arms.items()} for name, arms in found["confirmed"].scores.items()}
    if set(scores) != set(CONFIRMED):
        return Verdict(NOT_RUN, "no runs, or not of all tasks")
    gains = {name: mean_of(scores[name]["explained"] - scores[name][CONFIRMED[name].best[0]]) for name in CONFIRMED}
    ahead = mean_of(np.mean([arms["explained"] - arms[SINGLE] for arms in scores.values()], axis=0))
    texts = [f"{name} minus λ = {CONFIRMED[name].best[0]} {signed(gain)}" for name, gain in gains.items()]
    least = min(gain.low for gain in gains.values())
    mean = f"mean over tasks and critics minus λ = {SINGLE} {signed(ahead)}"
    return Verdict(status_of((least > -AT_MOST, ahead.low > 0)), "; ".join((mean, *texts)))


CLAIMS = (
    passes_the_gate,
    *(_better_advantages(arm) for arm in SOURCES),
    _better_rewards("learned", "that is learned beside it"),
    _better_rewards("informed", "that knows the task"),
    unexplained_share,
)

# ---- tables and figures


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Confirmation, mean rewards by critic, and the gate."""
    found = loaded(table)
    texts = {"confirmed": confirmed_table(found["confirmed"].scores)} if found["confirmed"].scores else {}
    texts |= {critic: score_table(found[critic], TRAINED) for critic in CRITICS if found[critic].scores}
    return {**texts, "gate": score_table(found["gate"], TASKS)}


def figures(table: pl.DataFrame) -> dict[str, Figure]:
    """Mean rewards by critic, and the gate."""
    found = loaded(table)
    trained = {critic: found[critic] for critic in CRITICS}
    return {
        "training": draw(trained, TRAINED, "mean reward"),
        "gate": draw({"": found["gate"]}, TASKS, "correlation with the truth"),
    }
