"""A second process for the tests of saving: loads learners, goes on, and saves them again.

    python resume.py FOLDER

FOLDER/cases.json lists what to do: {"name", "env", "settings", "episodes"} trains on with `learn`; {"name", "tape"}
feeds recorded transitions and checks the actions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gymnasium as gym

import chunked_td


def resume(folder: Path) -> None:
    for case in json.loads((folder / "cases.json").read_text()):
        agent = chunked_td.load(folder / f"{case['name']}.half.ctd")
        if "tape" in case:
            play_tape(agent, case["tape"])
        else:
            if case["env"].startswith("MiniGrid"):
                import minigrid  # noqa: F401
            agent.learn(gym.make(case["env"], **case["settings"]), case["episodes"], progress=False)
        agent.save(folder / f"{case['name']}.resumed.ctd")


def play_tape(agent, tape) -> None:
    """Feed recorded events; every action must be the recorded one."""
    for event in tape:
        if event["start"]:
            action = agent.start(event["observation"], event["info"])
        else:
            ends = event["terminated"], event["truncated"]
            action = agent.step(event["reward"], event["observation"], *ends, event["info"])
        assert action == event["action"], (action, event)


if __name__ == "__main__":
    resume(Path(sys.argv[1]))
