"""The study of maturity and luck in networks, with the runs of the study of deep learners. A protocol is an agent on a
task."""

from __future__ import annotations

from chunked_td.lab.studies.deep.protocol import GRIDS, agents_on_tasks
from chunked_td.lab.study import Protocol, Study

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


def luck_protocols(profile: str) -> list[Protocol]:
    """Every agent on every task; on one task and tiny where the profile is not "paper"."""
    tasks = TASKS if profile == "paper" else ("charge",)
    return agents_on_tasks("luck", ", maturity and luck", GRIDS, tasks, lambda _: GROUPS, tiny=profile != "paper")


STUDY = Study("luck", "Networks: maturity and luck", luck_protocols, order=65, table="runs.parquet", by_default=False)
