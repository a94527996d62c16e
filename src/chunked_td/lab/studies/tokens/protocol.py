"""The gate and the training of policies as protocols.

A protocol of the gate is a task; all its arms run in one program, and ages of the critic are checkpoints. A protocol of
training is a task and a critic.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
EXPLORED = {
    "explained-expected": "Σπ², as far as the critic explains",
    "explained": "What the critic leaves unexplained",
}
"""Sources that were tried when others had been judged."""
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
        arms = list(gate.LAMBDAS)
        return [
            batch.columns({name: x[:, :, arms.index(batch.arm.id)] for name, x in found.items()}) for batch in program
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
        record=tuple((age, age - before) for before, age in itertools.pairwise((0, *ages))),
        seeds=8 if profile == "paper" else 2,
        seeds_per_batch=8,
        step_sizes=(3e-4,),
        runner=GateRunner("paper" if profile == "paper" else "smoke"),
        unit="updates",
    )


TRAINED = {
    "forced": "Among forced tokens",
    "random": "Among forty random tokens",
    "two-lengths": "32 or 128 tokens",
    "skilled-parity": "Parity",
}
"""Tasks that policies are trained on."""
CRITICS = {"learned": "learned critic", "informed": "informed critic"}
TRAINED_SOURCES = ("vapo", "realised", "expected", "expected-matched", "mature-expected", "value-kernel")
CONTROLLED = (*TRAINED_SOURCES[2:], "explained-expected")
"""Those whose λs are also tried in another order."""
STEP_SIZES = (4e-3, 1.5e-3, 5e-4)
FRESH = 100
"""The first seed of those that confirm."""
SINGLE = "0.99"
"""The best single fixed λ for all tasks and critics."""


class Tuned(NamedTuple):
    """Step-size exponents that were best in training: of λ = 1 − e, of the best fixed λ, of `SINGLE`."""

    explained: int
    best: tuple[str, int]
    single: int


CONFIRMED = {
    "learned-forced": Tuned(-1, ("0.99", -1), -1),
    "informed-forced": Tuned(0, ("0.5", 0), 0),
    "learned-random": Tuned(-1, ("0.99", -1), -1),
    "informed-random": Tuned(0, ("0.5", 0), 0),
    "learned-skilled-parity": Tuned(-1, ("1", -1), -1),
    "informed-skilled-parity": Tuned(-1, ("0.95", -1), 0),
}


@dataclass(frozen=True)
class TrainingRunner(BatchRunner):
    """Policies that learn. Args: size: of `training.SIZES`. critic: "learned" or "informed"."""

    size: str = "paper"
    critic: str = "learned"

    def packages(self, batch: Batch) -> tuple[str, ...]:
        """See `BatchRunner.packages`."""
        return ("jax", "optax")

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`."""
        from chunked_td.lab.studies.tokens.training import train_policies

        (batch,) = program
        task, first = (batch.protocol.environment.arguments.get(name, 0) for name in ("task", "first_seed"))
        runs = ((first + batch.seeds).tolist(), batch.step_sizes.tolist(), batch.episodes)
        rewards = train_policies(self.size, task, self.critic == "informed", batch.arm.id, *runs)
        parts = np.split(rewards, batch.record_at[:-1], axis=1)
        return [batch.columns({"score": np.stack([part.mean(axis=1) for part in parts], axis=1)})]


def training_protocol(task: str, critic: str, profile: str) -> Protocol:
    """The protocol of policies trained on a task beside a critic."""
    full = profile == "paper"
    labels = SOURCES | EXPLORED
    names = [name for name in (*TRAINED_SOURCES, *EXPLORED) if critic == "learned" or not name.startswith("mature")]
    arms = [(value, f"λ = {value}") for value in FIXED] + [(name, labels[name]) for name in names]
    arms += [(f"{name}-permuted", f"{labels[name]}, permuted") for name in names if name in CONTROLLED]
    updates = 100 if full else 2
    return Protocol(
        id=f"tokens-{critic}-{task}",
        title=f"{TRAINED[task]}, {CRITICS[critic]}",
        environment=Environment("chunked_td.lab.studies.tokens.tasks:TASKS", {"task": task}),
        arms=tuple(Arm(name, label, "policy-gradient", name, in_paper=False) for name, label in arms),
        exponents=(0, -1, -2) if full else (0,),
        episodes=updates,
        scoring="",
        score_label="mean reward",
        smoke=Size(seeds=2, episodes=updates),
        record=((updates, updates // 10 or 1),),
        seeds=8 if full else 2,
        seeds_per_batch=8,
        step_sizes=STEP_SIZES,
        runner=TrainingRunner("paper" if full else "smoke", critic),
        unit="updates",
    )


def protocols(profile: str) -> list[Protocol]:
    """The gate on every task, then every task with every critic; one task of each where the profile is not "paper"."""
    gate, trained = (TASKS, TRAINED) if profile == "paper" else (("forced",), ("forced",))
    training = {f"{critic}-{task}": training_protocol(task, critic, profile) for task in trained for critic in CRITICS}
    again = [confirming(training[name], tuned) for name, tuned in CONFIRMED.items()] if profile == "paper" else []
    return [*(protocol_of(task, profile) for task in gate), *training.values(), *again]


def confirming(protocol: Protocol, tuned: Tuned) -> Protocol:
    """The protocol that confirms what training found, on fresh seeds with the step sizes that were best there."""
    sizes = {SINGLE: tuned.single, **dict([tuned.best]), "explained": tuned.explained}
    return dataclasses.replace(
        protocol,
        id=protocol.id.replace("tokens-", "tokens-confirm-"),
        title=f"{protocol.title}, fresh seeds",
        environment=Environment(protocol.environment.dynamics, {**protocol.environment.arguments, "first_seed": FRESH}),
        arms=tuple(dataclasses.replace(protocol.arm(arm), exponents=(size,)) for arm, size in sizes.items()),
        seeds=20,
        seeds_per_batch=20,
    )


STUDY = Study("tokens", "λ per token", protocols, order=90, table="runs.parquet", by_default=False)
