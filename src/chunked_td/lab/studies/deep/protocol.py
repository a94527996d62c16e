"""The study of deep learners: fixed λ and every source on every task, for streaming learners and PPO.

All arms share tasks, first networks and random numbers. Judged by `criteria`. A protocol is an agent on a task.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.deep.runner import AgentRunner
from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study

TASKS = (
    "umbrella",
    "umbrella-distractors",
    "catch",
    "catch-wind",
    "memory",
    "charge",
    "charge-mirrored",
    "cart-pole",
)
"""Tasks of ours."""
OTHERS = ("gymnax-umbrella", "gymnax-umbrella-distractors", "gymnax-catch", "gymnax-cart-pole", "xland-door-key")
"""Tasks written by others."""
STREAMING = ("sarsa", "q", "actor-critic")
GRIDS = {**dict.fromkeys(STREAMING, (1.0, 0.3, 0.1)), "ppo": (3e-3, 1e-3, 3e-4)}
"""Step sizes of every agent."""
STEPS = {**dict.fromkeys(STREAMING, 60_000), "ppo": 160_000}
"""Transitions of a run."""
Groups = tuple[tuple[str, ...], ...]
"""Sources by program; fixed λ run with the first group."""
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
"""Sources that run in one program; fixed λ run with the first group."""
STREAMING_ONLY = ("meta-gradient",)
"""Sources that learn from eligibility traces."""
BLOCKS, TUNING, SEEDS = 20, 10, 20
"""Points of a learning curve; seeds that choose the step size; others that are judged."""


def deep_protocols(profile: str) -> list[Protocol]:
    """Every agent on every task; on one task and tiny where the profile is not "paper"."""
    tasks = (*TASKS, *OTHERS) if profile == "paper" else ("charge",)
    return agents_on_tasks("deep", "", GRIDS, tasks, groups_of, tiny=profile != "paper")


def agents_on_tasks(
    prefix: str, about: str, agents: Iterable[str], tasks: Iterable[str], groups: Callable[[str], Groups], tiny: bool
) -> list[Protocol]:
    """Every agent on every task.

    Args:
      prefix: how ids begin. about: what titles add. groups: the sources that an agent can use, by program.
    """
    return [
        agent_protocol(
            f"{prefix}-{agent}-{task}",
            f"{agent} on {task}{about}",
            Environment("chunked_td.envs.tasks:make_task_by_name", {"name": task}),
            agent,
            steps=STEPS[agent],
            groups=groups(agent),
            tiny=tiny,
        )
        for agent, task in itertools.product(agents, tasks)
    ]


def groups_of(agent: str) -> Groups:
    """The groups of sources that an agent can use."""
    return tuple(group for group in GROUPS if agent != "ppo" or group != STREAMING_ONLY)


def agent_protocol(
    name: str,
    title: str,
    task: Environment,
    agent: str,
    *,
    steps: int,
    groups: Groups,
    tiny: bool,
    explore: int | None = None,
    memory: str = "",
) -> Protocol:
    """The protocol of an agent on a task.

    Args:
      task: its `dynamics` is the address of a function that makes the task. steps: transitions per run.
      groups: sources by program. tiny: 2,000 steps, three seeds, one step size.
      explore: steps until ε is small; a tenth of the run if not given. memory: what values read.
    """
    grid = GRIDS[agent][:1] if tiny else GRIDS[agent]
    steps, blocks, tuning, seeds = (2_000, 4, 1, 3) if tiny else (steps, BLOCKS, TUNING, TUNING + SEEDS)
    sources = [name for group in groups for name in group]
    arms = [Arm(str(x), f"λ = {x:g}", agent, x) for x in FIXED]
    arms += [Arm(source, source, agent, source) for source in sources]
    runner = AgentRunner(groups, steps // 10 if explore is None else explore, tuning, memory)
    return step_protocol(name, title, task, arms, grid, steps, blocks, seeds, runner)


def step_protocol(
    name: str,
    title: str,
    task: Environment,
    arms: Sequence[Arm],
    grid: tuple[float, ...],
    steps: int,
    blocks: int,
    seeds: int,
    runner: AgentRunner,
) -> Protocol:
    """A protocol whose runs are so many steps in blocks of equal length, with the step sizes of a grid."""
    return Protocol(
        id=name,
        title=title,
        environment=task,
        arms=tuple(arms),
        exponents=tuple(-k for k in range(len(grid))),
        step_sizes=grid,
        episodes=steps,
        unit="steps",
        scoring="score",
        score_label="score",
        smoke=Size(seeds, steps),
        record=((steps, steps // blocks),),
        seeds=seeds,
        seeds_per_batch=seeds,
        steps_per_episode=1.0,
        runner=runner,
    )


STUDY = Study("deep", "Networks, a λ per step", deep_protocols, order=62, table="runs.parquet", by_default=False)
