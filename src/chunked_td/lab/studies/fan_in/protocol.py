"""The study of backward models. A protocol is an agent on a task."""

from __future__ import annotations

from chunked_td.lab.studies.deep.protocol import agents_on_tasks
from chunked_td.lab.study import Protocol, Study

TASKS = ("fan-in", "fan-in-32")
AGENTS = ("sarsa", "actor-critic", "ppo")
BACKWARD, FORWARD = "backward", ("realised", "expected")


def fan_in_protocols(profile: str) -> list[Protocol]:
    """Every agent on both tasks; on one and tiny where the profile is not "paper"."""
    tasks, tiny = (TASKS, False) if profile == "paper" else (TASKS[:1], True)
    about = ", backward and forward models"
    return agents_on_tasks("backward", about, AGENTS, tasks, lambda _: ((BACKWARD, *FORWARD),), tiny)


STUDY = Study("fan-in", "Networks: backward models", fan_in_protocols, order=66, table="runs.parquet", by_default=False)
