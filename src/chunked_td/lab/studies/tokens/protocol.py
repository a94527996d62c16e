"""The gate as protocols: a task each, all arms of a task in one program, ages of the critic as checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chunked_td.lab.study import Arm, BatchRunner, Columns, Environment, Protocol, Size, Study

if TYPE_CHECKING:
    from chunked_td.lab.running.batches import Batch

TASKS = {
    "forced": "Eight decisions among forced tokens",
    "random": "Eight decisions among forty random tokens",
    "lengths": "Eight decisions, 32 to 256 tokens",
    "parity": "Parity of eight decisions",
}
FIXED = ("0", "0.5", "0.8", "0.9", "0.95", "0.99", "1")
SOURCES = {
    "vapo": "Length rule",
    "realised": "Realised probability",
    "expected": "Expected probability Σπ²",
    "expected-matched": "Expected probability, cuts of 0.05 on average",
    "entropy": "exp(−entropy)",
    "value-kernel": "Value kernel",
    "mature-expected": "Expected probability × maturity",
}
AGES = (10, 40, 160)


@dataclass(frozen=True)
class GateRunner(BatchRunner):
    """All arms of a task and block of seeds run as one program. Args: size: of `gate.SIZES`."""

    size: str = "paper"

    def packages(self, batch: Batch) -> tuple[str, ...]:
        """See `BatchRunner.packages`."""
        return ("jax", "optax")

    def program_key(self, batch: Batch) -> Any:
        """Batches of one task and the same seeds."""
        return batch.protocol.id, batch.pairs

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`."""
        from chunked_td.lab.studies.tokens import gate
        from chunked_td.lab.studies.tokens import tasks as token_tasks

        task = token_tasks.TASKS[program[0].protocol.environment.arguments["task"]]
        found = gate.run_gate(gate.SIZES[self.size], task, program[0].seeds.tolist())
        arms = found["arms"].tolist()
        names = {"score": "correlation", "permuted": "permuted", "mean_lambda": "mean_lambda"}
        return [
            batch.columns({name: found[key][:, :, arms.index(batch.arm.id)] for name, key in names.items()})
            for batch in program
        ]


def protocol_of(task: str, profile: str) -> Protocol:
    """The protocol of one task."""
    ages = AGES if profile == "paper" else (1, 2)
    arms = [Arm(value, f"λ = {value}", "gae", float(value), in_paper=False, group="fixed λ") for value in FIXED]
    arms += [Arm(name, label, "gae", name, in_paper=False, group="λ per token") for name, label in SOURCES.items()]
    return Protocol(
        id=f"tokens-{task}",
        title=TASKS[task],
        environment=Environment("chunked_td.lab.studies.tokens.tasks:TASKS", {"task": task}),
        arms=tuple(arms),
        exponents=(0,),
        episodes=ages[-1],
        scoring="",
        score_label="correlation of advantages with the truth",
        smoke=Size(seeds=2, episodes=ages[-1]),
        record=tuple((age, age - before) for before, age in pairwise((0, *ages))),
        seeds=8 if profile == "paper" else 2,
        seeds_per_batch=8,
        step_sizes=(3e-4,),
        runner=GateRunner("paper" if profile == "paper" else "smoke"),
        unit="updates",
    )


STUDY = Study(
    "tokens",
    "λ per token: the gate",
    lambda profile: [protocol_of(task, profile) for task in (TASKS if profile == "paper" else ("forced",))],
    order=90,
    table="runs.parquet",
    by_default=False,
)
