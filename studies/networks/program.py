"""One compiled program: an agent on a task with every source of a group, all step sizes and all seeds.

A run depends on its seed, its step size and its λ source only, not on other runs. It computes the λ of every
source of its group and uses one (`DeepSwitch`). An arm "NAME-luck-M" has the λ of NAME, and TD errors that are means
over M draws of the simulator.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from studies.networks.agents.base import RunTally
from studies.networks.agents.ppo import PpoAgent, PpoSettings
from studies.networks.agents.streaming import StreamingAgent, StreamingSettings
from studies.networks.lambdas import make_source
from studies.networks.lambdas.base import DeepLambda, DeepSwitch
from studies.networks.memory import RecurrentMemory
from studies.networks.tasks import make_task

Agent = StreamingAgent | PpoAgent


def make_agent(name: str, task: Any, source: DeepLambda, **settings: Any) -> Agent:
    """An agent by its name. Args: task: a `JaxTask`. settings: of `StreamingSettings` or `PpoSettings`."""
    if name == "ppo":
        return PpoAgent(task, source, PpoSettings(**settings))
    return StreamingAgent(task, source, StreamingSettings(rule=name, **settings))


@functools.partial(jax.jit, static_argnums=0)
def start_fleet(agent: Agent, seeds: jax.Array) -> Any:
    """Fresh states of many runs."""
    return jax.vmap(agent.start)(seeds)


@functools.partial(jax.jit, static_argnums=(0, 3))
def train_fleet(agent: Agent, step_sizes: jax.Array, states: Any, steps: int) -> tuple[Any, RunTally]:
    """So many transitions of every run; tallies lead with the run."""
    return jax.vmap(lambda size, state: agent.block(size, state, steps))(step_sizes, states)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def train_curve(agent: Agent, step_sizes: jax.Array, states: Any, steps: int, blocks: int) -> tuple[Any, RunTally]:
    """`blocks` blocks one after the other in one program; tallies [blocks, R]."""
    return jax.lax.scan(lambda s, _: train_fleet(agent, step_sizes, s, steps), states, length=blocks)


def curves_of(
    step_size: np.ndarray,
    seed: np.ndarray,
    *,
    agent: str,
    task: str,
    length: int = 0,
    arms: Sequence[str],
    steps: int,
    blocks: int,
    explore: int,
    memory: str = "",
) -> dict[str, np.ndarray]:
    """Learning curves of every arm with every pair of step size and seed: {name: float[arms, runs, blocks]}.

    Args:
      step_size, seed: [runs]. length: N of tasks that have one. arms: numbers or names of sources.
      steps: transitions in all. explore: steps until ε is small; PPO has none. memory: "kept", "state" or "".
    """
    made, sources = _agent(agent, make_task(task, length), arms, explore, memory)
    per_block = steps // blocks
    if memory:
        per_block = per_block // made.unit * made.unit
    names = np.repeat(arms, len(seed)).tolist()
    which = [1 + sources.index(name) if name in sources else 0 for name, _ in map(parts_of, names)]
    fixed = [0.0 if name in sources else float(name) for name, _ in map(parts_of, names)]
    states = start_fleet(made, jnp.asarray(np.tile(seed, len(arms)), jnp.int32))
    chosen = states.source._replace(which=jnp.asarray(which, jnp.int32), fixed=jnp.asarray(fixed, jnp.float32))
    states = states._replace(source=chosen)
    if made.settings.luck > 1:
        states = states._replace(luck=jnp.asarray([draws for _, draws in map(parts_of, names)], jnp.int32))
    rates = jnp.asarray(np.tile(step_size, len(arms)), jnp.float32)
    tally = jax.tree.map(np.asarray, train_curve(made, rates, states, per_block, blocks)[1])
    return {name: values.T.reshape(len(arms), len(seed), blocks) for name, values in _means(tally).items()}


def _agent(agent: str, task: Any, arms: Sequence[str], explore: int, memory: str) -> tuple[Any, list[str]]:
    """The agent, and the names of the sources in its switch; fixed λ are none."""
    found = (parts_of(name)[0] for name in arms)
    sources = list(dict.fromkeys(name for name in found if not name.replace(".", "").isdigit()))
    settings: dict[str, Any] = {} if agent == "ppo" else {"explore": max(1, explore)}
    if memory:
        settings["memory"] = RecurrentMemory(memory)
    luck = max(draws for _, draws in map(parts_of, arms))
    if luck > 1:
        settings["luck"] = luck
    return make_agent(agent, task, DeepSwitch(tuple(map(make_source, sources))), **settings), sources


def _means(tally: Any) -> dict[str, np.ndarray]:
    """Columns of a program, [blocks, runs] each: means over the episodes of a block; a block without one has NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        curves = {"score": tally.score / tally.episodes, "return": tally.returns / tally.episodes}
    return {**curves, "lambda": tally.lambda_ / tally.steps}


def parts_of(name: str) -> tuple[str, int]:
    """The source of an arm and the number of samples per TD error: ("0.95", 4) of "0.95-luck-4"."""
    source, _, draws = name.partition("-luck-")
    return source, int(draws or 1)
