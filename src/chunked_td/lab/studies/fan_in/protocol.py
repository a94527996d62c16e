"""The study of backward models. A protocol is an agent on a task."""

from __future__ import annotations

from chunked_td.lab.studies.deep.protocol import agent_protocol
from chunked_td.lab.study import Environment, Protocol, Study

TASKS = ("fan-in", "fan-in-32")
STEPS = {"sarsa": 60_000, "actor-critic": 60_000, "ppo": 160_000}
BACKWARD, FORWARD = "backward", ("realised", "expected")


def fan_in_protocols(profile: str) -> list[Protocol]:
    """Every agent on both tasks; on one and tiny where the profile is not "paper"."""
    return [
        agent_protocol(
            f"backward-{agent}-{task}",
            f"{agent} on {task}, backward and forward models",
            Environment("chunked_td.envs.tasks:make_task_by_name", {"name": task}),
            agent,
            steps=steps,
            groups=((BACKWARD, *FORWARD),),
            tiny=profile != "paper",
        )
        for agent, steps in STEPS.items()
        for task in (TASKS if profile == "paper" else TASKS[:1])
    ]


STUDY = Study("fan-in", "Networks: backward models", fan_in_protocols, order=66, table="runs.parquet", by_default=False)
