"""Training of many runs side by side: one compiled program per block of steps.

A run depends on its seed, its step size and its λ source only, not on the runs beside it.
"""

from __future__ import annotations

import functools
from typing import Any

import jax

from studies.networks.agents.base import RunTally
from studies.networks.agents.ppo import PpoAgent, PpoSettings
from studies.networks.agents.streaming import StreamingAgent, StreamingSettings
from studies.networks.lambdas.base import DeepLambda

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
