"""The compressor of two levels against single networks, on sequences whose last symbol depends on their first.

A protocol is a task (`tasks`) with its length N. Lengths of a group have the same budget; an arm on all tasks and
lengths of a group is one program. Judged by `criteria`.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from chunked_td.lab.studies.compression.runner import CompressionRunner
from chunked_td.lab.study import Arm, Environment, Protocol, Size, Study

ARMS = tuple(itertools.product(("compressor", "truncated", "full"), ("tanh", "gru")))
"""What is compared, with the cells of the networks."""
VARIANTS = ("hard", "sampled", "automatizer")
"""The compressor with other criteria for what goes up, and with an automatizer, to the end of its budget.

What they are compared with, "threshold" and no automatizer, is the arm "compressor". The question to the automatizer:
does the lower level alone come to know the last symbol (columns `lowest_…`)?
"""
MIDDLES = ("known", "noise", "half-noise", "distractors", "learned")


class Group(NamedTuple):
    """Tasks and lengths that are run in one program, with the same budget of updates."""

    tasks: tuple[str, ...]
    ns: tuple[int, ...]
    updates: int


class Design(NamedTuple):
    """A size of the study. Groups of the comparison, the group of the variants, and what is run in them."""

    groups: tuple[Group, ...]
    side: Group
    seeds: int
    learning_rates: tuple[float, ...]
    arms: tuple[tuple[str, str], ...]
    variants: tuple[str, ...]
    unroll: int  # steps per iteration of the compiled loops


_TINY = Design(
    (Group(("known",), (5, 20, 40), 400),),
    Group(("known",), (40,), 800),
    4,
    (0.01,),
    (("compressor", "gru"), ("truncated", "gru"), ("full", "gru"), ("full", "tanh")),
    ("hard", "automatizer"),
    1,
)
_FULL = Design(
    (
        Group(MIDDLES, (5, 10, 20, 50), 1_500),
        Group(MIDDLES, (100, 200), 700),
        Group(MIDDLES, (500, 1_000), 340),
        Group(("distinct",), (5, 10, 20, 50), 1_000),  # apart, because its alphabet is larger
    ),
    Group(("known",), (5, 10, 20, 50), 1_000),
    20,
    (0.003, 0.01, 0.03),
    ARMS,
    VARIANTS,
    5,
)


def compression_protocols(profile: str) -> list[Protocol]:
    """Every task with every length; three short ones and few seeds where the profile is not "paper"."""
    design = _FULL if profile == "paper" else _TINY
    arms = tuple(Arm(f"{arm}-{cell}", f"{arm}, {cell}", arm, cell) for arm, cell in design.arms)
    others = tuple(Arm(name, name, "compressor", "gru", options={"variant": name}) for name in design.variants)
    cells = [(group, task, n) for group in design.groups for task in group.tasks for n in group.ns]
    return [
        *(_protocol(f"{task}-{n}", design, group, task, n, arms) for group, task, n in cells),
        *(
            _protocol(f"variants-{n}", design, design.side, "known", n, others, stop_early=False)
            for n in design.side.ns
        ),
    ]


def _protocol(
    name: str, design: Design, group: Group, task: str, n: int, arms: tuple[Arm, ...], stop_early: bool = True
) -> Protocol:
    runner = CompressionRunner(group.tasks, group.ns, unroll=design.unroll, stop_early=stop_early)
    return Protocol(
        id=f"compression-{name}",
        title=f"{task}, N = {n}",
        environment=Environment("chunked_td.lab.studies.compression.tasks:make_task", {"name": task, "n": n}),
        arms=arms,
        exponents=tuple(-k for k in range(len(design.learning_rates))),
        step_sizes=design.learning_rates,
        episodes=group.updates,
        unit="updates",
        scoring="q",
        score_label="q",
        smoke=Size(design.seeds, group.updates),
        record=((group.updates, runner.check_every),),
        seeds=design.seeds,
        seeds_per_batch=design.seeds,
        steps_per_episode=float(n * runner.batch),
        runner=runner,
    )


STUDY = Study(
    "compression",
    "History compressor",
    compression_protocols,
    order=61,
    table="comparison.parquet",
    by_default=False,
)
