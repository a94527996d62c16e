"""Networks (§6): does a λ per step beat the best fixed λ, with four agents?

Three parts, each with rules written before its data (`registered.md`): λ per step on thirteen tasks whose observations
show the state (`criteria`), with hidden state and a memory (`hidden`), and with TD errors averaged over a simulator's
samples or λ that is 1 while values are immature (`expected_errors`). Agents: SARSA(λ), Q(λ) and actor-critic(λ), a step
at a time, and PPO. An agent on a task with a group of λ sources, all step sizes and all seeds, is one JAX program
(`program`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td import sweep
from studies.networks import expected_errors, hidden
from studies.networks import tables as drawn
from studies.networks.criteria import FIXED, GATE, gate
from studies.networks.results import OTHERS, SEEDS, TASKS, AgentResults, agents_of
from studies.runner.arrays import NotRun
from studies.runner.criteria import FAILS, HOLDS, Claim, Verdict, make_claim
from studies.runner.data import of_latest

STREAMING = ("sarsa", "q", "actor-critic")
STEP_SIZES = {**dict.fromkeys(STREAMING, (1.0, 0.3, 0.1)), "ppo": (3e-3, 1e-3, 3e-4)}
STEPS = {**dict.fromkeys(STREAMING, 60_000), "ppo": 160_000}
BLOCKS, TUNING = 20, 10
GROUPS = (
    (
        "value-kernel",
        "value-kernel-1",
        "lambda-greedy",
        "true-kernel",
        "true-kernel-1",
        "true-expected",
        "true-per-action",
        "true-realised",
    ),
    ("expected", "realised"),
    ("meta-gradient",),
)
"""Sources that run in one program; fixed λ run with the first group. The last learns from eligibility traces."""
KEY = ("part", "agent", "memory", "task", "length", "arm", "step_size", "seed")


def run(
    step_size: np.ndarray, seed: np.ndarray, *, arms: Sequence[str], memory: str = "", **settings: Any
) -> list[dict[str, Any]]:
    """Runs of one program, a row per arm and run: means over the learning curve, at its end, and of λ."""
    from studies.networks.program import curves_of

    found = curves_of(step_size, seed, arms=arms, memory=memory, **settings)
    curves = {name: values.astype(np.float32) for name, values in found.items()}
    score, mean_lambda = curves["score"], curves["lambda"]
    if memory:
        columns = {"score": np.nanmean(score, -1), "solved": hidden.solved(score), "mean_lambda": mean_lambda.mean(-1)}
        columns["last_lambda"] = mean_lambda[..., -1]
    else:
        last = {"final": score[..., -5:], "return": curves["return"][..., -5:]}
        means = {"score": score, **last, "mean_lambda": mean_lambda}
        columns = {name: np.nanmean(values, -1) for name, values in means.items()}
    return [{"source": list(arms), **{k: x[:, n] for k, x in columns.items()}} for n in range(len(seed))]


def programs(quick: bool) -> dict[str, dict[str, Any]]:
    """{name: settings} of every program; quick: SARSA on one task of each part, 2,000 steps."""
    agents, tasks, mazes = tuple(STEP_SIZES), (*TASKS, *OTHERS), hidden.TASKS
    lengths, memories, noisy = hidden.LENGTHS, hidden.MEMORIES, expected_errors.TASKS
    if quick:
        agents, tasks, noisy = ("sarsa",), ("charge",), ("charge",)
        mazes, lengths, memories = ("t-maze",), (3,), ("kept",)
    found: dict[str, dict[str, Any]] = {}
    for agent, task in itertools.product(agents, tasks):
        for k, group in enumerate(GROUPS[:1] if quick else GROUPS[: 2 if agent == "ppo" else 3]):
            found[f"lambda {agent} {task} {k}"] = _program(agent, task, group, k == 0, quick)
    for agent, memory, task, length in itertools.product(hidden.AGENTS, memories, mazes, lengths):
        if agent in agents:
            given = _program(agent, task, hidden.ARMS, True, quick, steps=100_000, explore=30_000)
            found[f"hidden {agent} {memory} {task} {length}"] = given | {"memory": memory, "length": length}
    for agent, task in itertools.product(agents, noisy):
        for k, group in enumerate(expected_errors.GROUPS[:1] if quick else expected_errors.GROUPS):
            found[f"luck {agent} {task} {k}"] = _program(agent, task, group, k == 0, quick)
    return found


def _program(
    agent: str, task: str, group: Sequence[str], fixed: bool, quick: bool, steps: int = 0, explore: int = 0
) -> dict[str, Any]:
    """The settings of a program. Args: fixed: whether it has the fixed λ too."""
    steps = 2_000 if quick else steps or STEPS[agent]
    arms = (*(map(str, FIXED) if fixed else ()), *group)
    explore = min(explore, 600) if quick and explore else explore or steps // 10
    size = {"steps": steps, "blocks": 4 if quick else BLOCKS, "explore": explore}
    return {"agent": agent, "task": task, "arms": arms, **size}


def runs(out: Path, quick: bool, **how: Any) -> pl.DataFrame:
    """All runs, a program at a time: hours on a GPU. Quick: three programs, three seeds; minutes on a CPU."""
    settings = programs(quick)
    sizes = {name: STEP_SIZES[own["agent"]][: 1 if quick else 3] for name, own in settings.items()}
    seeds = range(3 if quick else TUNING + SEEDS)
    table = sweep(run, settings, sizes, seeds, out=out, **{**how, "together": 90, "jobs": 1})
    about = pl.DataFrame(
        [
            {"program": name, "part": name.split()[0], "agent": own["agent"], "memory": own.get("memory", "")}
            | {"task": own["task"], "length": own.get("length", 0)}
            for name, own in settings.items()
        ]
    )
    table = table.rename({"arm": "program", "source": "arm"}).join(about, on="program", maintain_order="left")
    table = table.with_columns(
        pl.col("step_size").cast(pl.Float32),
        pl.col("seed").cast(pl.Int16),
        pl.col("length").cast(pl.Int16),
        judged=pl.col("seed") >= (1 if quick else TUNING),
    )
    return table.select(*KEY, pl.exclude(*KEY, "program"))


class Parts(NamedTuple):
    """The results of the parts "lambda", "hidden" and "luck", by agent, or by agent and memory."""

    table: pl.DataFrame
    results: dict[str, dict[Any, Any]]

    def of(self, part: str, key: Any = None) -> Any:
        """A part, or an agent's results in it. NotRun if it has too few seeds or no such runs."""
        judged = self.table.filter(pl.col("judged"), part=part)["seed"].n_unique()
        if judged < SEEDS:
            raise NotRun(f"{judged} judged seeds, the study has {SEEDS}")
        if key is not None and key not in self.results[part]:
            agent, memory = (key, "") if isinstance(key, str) else key
            raise NotRun(f"no runs of {agent}" + (f" with the memory {memory!r}" if memory else ""))
        return self.results[part] if key is None else self.results[part][key]


@of_latest
def parts(table: pl.DataFrame) -> Parts:
    """The results of a table; intervals take a while."""
    rows = {name: table.filter(part=name) for name in ("lambda", "hidden", "luck")}
    results = {
        "lambda": agents_of(rows["lambda"], {*map(str, FIXED), *GATE}),
        "hidden": hidden.results_of(rows["hidden"]),
        "luck": expected_errors.results_of(rows["luck"]),
    }
    return Parts(table, results)


def beats_fixed(results: AgentResults) -> Verdict:
    """The verdict on λ per step for an agent, by `criteria`."""
    every, once = results.moonshots["all"], results.moonshots["without the twin"]
    evidence = "best source {}, best fixed λ {}".format(*every.best)
    if once.tasks != every.tasks:
        outcome = "holds" if once.holds else "fails"
        evidence += " (with CartPole once instead of twice: {} and {}, {})".format(*once.best, outcome)
    gates = [gate(found) for found in results.estimates.values()]
    status = HOLDS if every.holds else FAILS
    return Verdict(status, f"{evidence}; the gate was passed on {gates.count('passed')} of {len(gates)} tasks")


def claim(name: str, where: str, text: str, criterion: str, judge: Callable[[Parts], Verdict]) -> Claim:
    """A claim that several agents share. Args: where: the paper has it, or "ours"."""
    return make_claim(name, text, criterion, lambda table: judge(parts(table)), where)


def lambda_claim(agent: str) -> Any:
    """The claim of the first part."""
    return claim(
        f"deep_{agent}",
        "ours; §6 names it as the next step",
        f"A λ per step beats every fixed λ for {agent}, over {len(TASKS) + len(OTHERS)} tasks.",
        "One source has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than "
        "5 % on any task. First the gate: λ from the true model must help.",
        lambda found: beats_fixed(found.of("lambda", agent)),
    )


def memory_claim(agent: str) -> Any:
    """The claim "memory" of the second part."""
    return claim(
        f"hidden_memory_{agent}",
        "ours, after §2.2",
        f"For {agent}, the last percepts that a model did not predict carry a signal farther than its recurrent state.",
        "The greatest corridor that 90 % of the seeds solve, at the best λ, is at least as long on every task and "
        "longer on one.",
        lambda found: hidden.better_memory(agent, found.of("hidden")),
    )


def hidden_claims(agent: str, memory: str) -> tuple[Any, Any]:
    """The claims "score" and "reach" of the second part."""
    reads = "the last kept percepts" if memory == "kept" else "the recurrent state"

    score = claim(
        f"hidden_score_{agent}_{memory}",
        "ours; §6 names it as the next step",
        f"With hidden state, λ = P(next percept | history, action) beats every fixed λ for {agent} with values on "
        f"{reads}.",
        "One form has a mean over tasks and lengths above that of every fixed λ, intervals disjoint, and is no "
        "worse than 5 % on any. First the gate: λ from the true model must help.",
        lambda found: hidden.better_score(found.of("hidden", (agent, memory))),
    )
    reach = claim(
        f"hidden_reach_{agent}_{memory}",
        "ours",
        f"That λ solves corridors as long as the best fixed λ of each task, for {agent} with values on {reads}.",
        "The greatest N that 90 % of the seeds solve is at least that of every fixed λ on every task, and no "
        "single fixed λ has that property. In part: some single fixed λ has it, too.",
        lambda found: hidden.longer_reach(found.of("hidden", (agent, memory))),
    )
    return score, reach


def luck_claims(agent: str) -> tuple[Any, ...]:
    """The claims of the third part."""
    by_pair = (
        "Its mean over tasks lies above that of the same λ without it, intervals disjoint, and it is worse on none"
    )
    return (
        claim(
            f"luck_{agent}",
            "ours",
            f"TD errors that are means over 16 draws make {agent} with λ = 0.95 learn faster where chance enters.",
            f"{by_pair}. In part: better on a task, worse on none.",
            lambda found: expected_errors.together(("0.95-luck-16",), found.of("luck", agent)),
        ),
        claim(
            f"maturity_{agent}",
            "ours",
            f"λ that is 1 while values are guesses makes {agent} learn faster than the same λ all along.",
            f"{by_pair}; for λ = 0.5, λ = 0.8, the value kernel and the expected probability. In part: for some.",
            lambda found: expected_errors.together(expected_errors.MATURITY, found.of("luck", agent)),
        ),
        claim(
            f"luck_fixed_{agent}",
            "ours",
            f"An arm with luck or maturity beats every fixed λ for {agent}.",
            "One has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than 5 % on "
            "any task.",
            lambda found: expected_errors.beats_fixed(found.of("luck", agent)),
        ),
    )


CLAIMS = (
    *map(lambda_claim, STEP_SIZES),
    *map(memory_claim, hidden.AGENTS),
    *(each for cell in itertools.product(hidden.AGENTS, sorted(hidden.MEMORIES)) for each in hidden_claims(*cell)),
    *(each for agent in STEP_SIZES for each in luck_claims(agent)),
)


def tables(table: pl.DataFrame) -> dict[str, str]:
    """Means over tasks, comparisons, how far verdicts can be trusted; lengths solved; pairs with expected errors."""
    found, stored = parts(table).results, table.filter(part="lambda")
    agents = found["lambda"]
    return {
        "means": drawn.means_table(agents),
        "counts": drawn.counts_table(agents),
        "moonshot": drawn.moonshot_table(agents),
        "kinds": drawn.kinds_table(agents),
        "success": drawn.success_table(agents),
        "step-sizes": drawn.edge_table(agents, stored),
        "twin": drawn.twin_table(agents, stored),
        "gate-luck": drawn.gate_luck_table(agents),
        "reach": hidden.reach_table(found["hidden"]),
        "pairs": expected_errors.pairs_table(found["luck"]),
    }


def figures(table: pl.DataFrame) -> dict[str, Figure]:
    """PPO's scores with every λ, a panel per task, and with expected errors; seeds that solve a maze."""
    found, shown = parts(table).results, {}
    if "ppo" in found["lambda"]:
        shown["scores-ppo"] = drawn.draw_scores(found["lambda"]["ppo"].estimates)
    if found["hidden"]:
        shown["hidden"] = hidden.draw_success(found["hidden"])
    if "ppo" in found["luck"]:
        shown["expected-errors-ppo"] = drawn.draw_scores(found["luck"]["ppo"].estimates, expected_errors.COLOURS)
    return shown
