"""Runs of deep agents: arms of a group, all step sizes and all seeds are one JAX program.

Every run asks all sources of its group and uses one (`DeepSwitch`). An arm "NAME-luck-M" has the λ of NAME, and TD
errors that are means over M draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.identity import resolve
from chunked_td.lab.study import Arm, BatchRunner, Columns

if TYPE_CHECKING:
    from chunked_td.lab.running.batches import Batch

_PACKAGES = {"gymnax": "gymnax", "memory-chain": "gymnax", "xland": "xminigrid"}
"""What tasks come from, by their name or how it begins."""


@dataclass(frozen=True, repr=False)
class AgentRunner(BatchRunner):
    """Deep agents.

    Args:
      groups: names of sources that run in one program; fixed λ run with the first group.
      explore: steps until ε is small; PPO has none. tuning: how many seeds choose the step size.
      memory: what values read of a recurrent percept model, "kept" or "state"; "" for agents without memory.
    """

    groups: tuple[tuple[str, ...], ...]
    explore: int
    tuning: int
    memory: str = ""

    def __repr__(self) -> str:
        """Under its first name, which stored settings have."""
        return f"FleetRunner({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in fields(self))})"

    def packages(self, batch: Batch) -> tuple[str, ...]:
        """JAX, and what the task comes from."""
        name = batch.protocol.environment.arguments.get("name", "")
        package = _PACKAGES.get(name) or _PACKAGES.get(name.split("-")[0])
        return ("jax", package) if package else ("jax",)

    def group_of(self, arm: Arm) -> tuple[str, ...]:
        """The sources in the program of an arm."""
        return next((group for group in self.groups if arm.id in group), self.groups[0])

    def program_key(self, batch: Batch) -> Any:
        """Arms of a group on one task."""
        return batch.protocol.id, self.group_of(batch.arm), batch.episodes, batch.record_at

    def run(self, program: Sequence[Batch], threads: int | None, report: Callable[[str], None]) -> list[Columns]:
        """See `BatchRunner.run`: scores, returns and λ per block."""
        import jax
        import jax.numpy as jnp

        from chunked_td.deep.training import start_fleet, train_curve
        from chunked_td.lab.running.batches import split_columns

        first, names = program[0], self.group_of(program[0].arm)
        made, blocks = self._agent(first, names), len(first.record_at)
        steps = first.episodes // blocks
        if self.memory:
            steps = steps // made.unit * made.unit
        arms = [batch.arm for batch in program for _ in batch.pairs]
        sources, parts = sources_in(names), [parts_of(arm.id) for arm in arms]
        which = [1 + sources.index(name) if name in sources else 0 for name, _ in parts]
        fixed = [0.0 if name in sources else float(name) for name, _ in parts]
        states = start_fleet(made, jnp.asarray(np.concatenate([batch.seeds for batch in program]), jnp.int32))
        chosen = states.source._replace(which=jnp.asarray(which, jnp.int32), fixed=jnp.asarray(fixed, jnp.float32))
        states = states._replace(source=chosen)
        if made.settings.luck > 1:
            states = states._replace(luck=jnp.asarray([draws for _, draws in parts], jnp.int32))
        rates = jnp.asarray(np.concatenate([batch.step_sizes for batch in program]), jnp.float32)
        report("compiling")
        compiled = train_curve.lower(made, rates, states, steps, blocks).compile()
        report(f"{len(arms)} runs of {steps * blocks:,} steps")
        tally = jax.tree.map(np.asarray, compiled(rates, states)[1])
        judged = np.concatenate([batch.seeds for batch in program]) >= self.tuning
        found = {name: values.T for name, values in _curves(tally).items()}
        return split_columns(program, {**found, "judged": np.repeat(judged[:, None], blocks, 1)})

    def _agent(self, batch: Batch, names: Sequence[str]) -> Any:
        from chunked_td.deep.lambdas import DeepSwitch
        from chunked_td.deep.memory import RecurrentMemory
        from chunked_td.deep.training import make_agent

        task, agent = batch.protocol.environment, batch.arm.learner
        settings: dict[str, Any] = {} if agent == "ppo" else {"explore": max(1, self.explore)}
        if self.memory:
            settings["memory"] = RecurrentMemory(self.memory)
        luck = max((draws for _, draws in map(parts_of, names)), default=1)
        if luck > 1:
            settings["luck"] = luck
        switch = DeepSwitch(tuple(source_of(name) for name in sources_in(names)))
        return make_agent(agent, resolve(task.dynamics)(**task.arguments), switch, **settings)


def _curves(tally: Any) -> dict[str, np.ndarray]:
    """Columns of a program, [blocks, runs] each: means over the episodes of a block; a block without one has NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        curves = {"score": tally.score / tally.episodes, "returns": tally.returns / tally.episodes}
    curves["mean_lambda"] = tally.lambda_ / tally.steps
    shares = np.moveaxis(tally.histogram, -1, 0)
    return curves | {f"lambda_{k}": steps for k, steps in enumerate(shares)}


def parts_of(name: str) -> tuple[str, int]:
    """The source of an arm and the number of draws per TD error: ("0.95", 4) of "0.95-luck-4"."""
    source, _, draws = name.partition("-luck-")
    return source, int(draws or 1)


def sources_in(names: Sequence[str]) -> list[str]:
    """The sources of arms, each once; fixed λ are none."""
    found = (parts_of(name)[0] for name in names)
    return list(dict.fromkeys(name for name in found if not name.replace(".", "").isdigit()))


def source_of(name: str) -> Any:
    """A source of the study by the name of its arm; those that end in "-1" have c = 1."""
    from chunked_td.deep.lambdas import SOURCES, DeepTrueModel, DeepValueKernel, read_source
    from chunked_td.lambdas.names import current_id
    from chunked_td.lambdas.reading import MATURE

    if name.endswith("-mature"):
        return read_source(name.removesuffix("-mature") + MATURE)
    own = {"value-kernel-1": DeepValueKernel(c=1.0), "true-kernel-1": DeepTrueModel("kernel", c=1.0)}
    return own.get(name) or SOURCES.get(name) or SOURCES[current_id(name)]
