"""The study of maturity and luck in networks, with the runs of the study of deep learners. A protocol is an agent on a
task."""

from __future__ import annotations

from chunked_td.lab.studies.deep.protocol import GRIDS, agent_protocol
from chunked_td.lab.study import Environment, Protocol, Study

TASKS = ("umbrella", "umbrella-distractors", "catch-wind", "charge", "charge-mirrored")
LUCK = ("0.95-luck-4", "0.95-luck-16", "1.0-luck-4", "1.0-luck-16", "value-luck-16")
MATURITY = ("0.5-mature", "0.8-mature", "value-mature", "expected-mature")
BOTH = ("value-mature-luck-16",)
ADDED = (*LUCK, *MATURITY, *BOTH)
"""Arms with luck, maturity or both; what stands before the first "-" is the same λ without them."""
PLAIN = ("value", "expected")
"""Sources without either, besides fixed λ."""
GROUPS = ((*LUCK, *MATURITY[:-1], *BOTH, "value"), ("expected", "expected-mature"))
"""Sources that run in one program; fixed λ run with the first group."""
STEPS = {"sarsa": 60_000, "q": 60_000, "actor-critic": 60_000, "ppo": 160_000}


def luck_protocols(profile: str) -> list[Protocol]:
    """Every agent on every task; on one task and tiny where the profile is not "paper"."""
    return [
        agent_protocol(
            f"luck-{agent}-{task}",
            f"{agent} on {task}, maturity and luck",
            Environment("chunked_td.envs.tasks:make_task_by_name", {"name": task}),
            agent,
            steps=STEPS[agent],
            groups=GROUPS,
            tiny=profile != "paper",
        )
        for agent in GRIDS
        for task in (TASKS if profile == "paper" else ("charge",))
    ]


STUDY = Study("luck", "Networks: maturity and luck", luck_protocols, order=65, table="runs.parquet", by_default=False)
