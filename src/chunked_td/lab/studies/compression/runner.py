"""Runs of the study: an arm on all tasks and lengths of a group, all step sizes and all seeds, is one JAX program.

Every network of every arm is updated once per batch of sequences, by Adam on its mean gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.studies.compression.criteria import solved_at
from chunked_td.lab.study import Arm, BatchRunner, Columns

if TYPE_CHECKING:
    from chunked_td.compression.training import Plan
    from chunked_td.lab.running.batches import Batch


@dataclass(frozen=True)
class CompressionRunner(BatchRunner):
    """The compressor, or a single network.

    Args:
      tasks, ns: of the group; their largest alphabet and length fix the arrays.
      hidden: units of each level of the compressor. window: items per gradient of "compressor" and "truncated".
      batch: sequences per update. check_every: updates between checks. tests: test sequences of either kind.
      threshold: of the criterion. foresight: weight of the automatizer's loss.
      unroll: steps per iteration of the compiled loops.
      stop_early: whether a program stops once all its runs have solved their task.
    """

    tasks: tuple[str, ...]
    ns: tuple[int, ...]
    hidden: int = 16
    window: int = 10
    batch: int = 4
    check_every: int = 20
    tests: int = 4
    threshold: float = 0.75
    foresight: float = 1.0
    unroll: int = 1
    stop_early: bool = True

    def packages(self, batch: Batch) -> tuple[str, ...]:
        """JAX."""
        return ("jax",)

    def program_key(self, batch: Batch) -> Any:
        """An arm on all tasks and lengths."""
        return batch.arm.id, batch.episodes, batch.record_at

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`: what every check found; NaN where a program stopped before it."""
        import jax
        import jax.numpy as jnp

        from chunked_td.lab.running.batches import split_columns
        from chunked_td.lab.studies.compression.experiment import Block, ExperimentRuns, run_arm, run_block, start
        from chunked_td.lab.studies.compression.tasks import make_task, stack_tasks

        plan, blocks = self.plan(program[0].arm), len(program[0].record_at)
        block = Block(self.check_every, self.batch, self.tests)
        tasks = []
        for given in program:
            made = make_task(**given.protocol.environment.arguments, room=self.room, alphabet=self.alphabet)
            tasks += [made] * len(given.pairs)
        rates, seeds = (np.concatenate([getattr(b, name) for b in program]) for name in ("step_sizes", "seeds"))
        runs = ExperimentRuns(stack_tasks(tasks), rates.astype(np.float32), seeds.astype(np.int32))
        report("compiling")
        lowered = run_block.lower(plan, block, start(plan, runs.seeds), runs, jnp.zeros((), jnp.int32))
        # On a CPU less is optimised: that takes a third less time, and programs run as fast.
        options: Any = {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None
        compiled = lowered.compile(compiler_options=options)

        def passed(q: np.ndarray) -> np.ndarray:
            report(f"{q.shape[1] * self.check_every:,}/{program[0].episodes:,} updates")
            return self.stop_early & (solved_at(q) >= 0)

        _, checks = run_arm(plan, block, runs, blocks, passed, compiled)
        found = {}
        for name, values in checks._asdict().items():
            found["score" if name == "q" else name] = padded = np.full((len(values), blocks), np.nan)
            padded[:, : values.shape[1]] = values
        found["parameters"] = np.full_like(found["score"], sum(shape.parameters for shape in plan.shapes))
        return split_columns(program, found)

    @property
    def room(self) -> int:
        """Length of the arrays."""
        return max(self.ns) + 2

    @property
    def alphabet(self) -> int:
        """Symbols of the task that has most."""
        from chunked_td.lab.studies.compression.tasks import alphabet_of

        return max(alphabet_of(task, n) for task in self.tasks for n in self.ns)

    def plan(self, arm: Arm) -> Plan:
        """The networks of an arm and how they are trained."""
        from chunked_td.compression.criteria import Criterion
        from chunked_td.compression.predictor import Shape
        from chunked_td.compression.training import Plan

        cell, variant, alphabet = arm.lambda_source, arm.options.get("variant"), self.alphabet
        if arm.learner == "compressor":
            shapes = tuple(Shape(alphabet, level, self.hidden, cell) for level in (0, 1))
        else:
            shapes = (Shape(alphabet, 0, single_hidden(alphabet, self.hidden, cell), cell),)
        window = self.room if arm.learner == "full" else self.window
        plan = Plan(shapes, Criterion("threshold", self.threshold), window, online=False, unroll=self.unroll)
        if variant == "automatizer":
            shapes = (shapes[0]._replace(foresees=True), *shapes[1:])
            return plan._replace(foresight=self.foresight, shapes=shapes)
        return plan._replace(criterion=Criterion(variant)) if variant else plan


def single_hidden(alphabet: int, hidden: int, cell: str) -> int:
    """Units of a single network that has at least as many parameters as both levels of the compressor."""
    from chunked_td.compression.predictor import Shape

    both = sum(Shape(alphabet, level, hidden, cell).parameters for level in (0, 1))
    return next(units for units in itertools.count(hidden) if Shape(alphabet, 0, units, cell).parameters >= both)
