"""Training of many runs side by side: one compiled program per block of steps; saving and resuming.

A run depends on its seed, its step size and its λ source only, not on the runs beside it.
"""

from __future__ import annotations

import functools
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._checks import check_choice, check_positive
from chunked_td._files import write_atomically
from chunked_td.deep.agents.ppo import PpoSettings, ppo_block, start_ppo
from chunked_td.deep.agents.streaming import StreamingSettings, start_run, stream_block
from chunked_td.deep.agents.tallies import RunTally
from chunked_td.deep.lambdas.base import DeepLambda

AGENTS = ("sarsa", "q", "actor-critic", "ppo")


@dataclass(frozen=True)
class DeepAgent:
    """An agent on a task with a λ source, all fixed at compile time.

    Attributes:
      task: a `JaxTask`. source: a `DeepLambda`. settings: `StreamingSettings` or `PpoSettings`.
    """

    task: Any
    source: DeepLambda
    settings: StreamingSettings | PpoSettings

    def __post_init__(self) -> None:
        if isinstance(self.settings, PpoSettings) and self.source.streaming_only:
            name = type(self.source).__name__
            raise ValueError(
                f"source: {name} learns from eligibility traces; it takes sarsa, q or actor-critic, not ppo"
            )

    def start(self, seed: jax.Array) -> Any:
        """The state of one run before it begins."""
        begin = start_ppo if isinstance(self.settings, PpoSettings) else start_run
        return begin(self.settings, self.task, self.source, seed)  # type: ignore[arg-type]

    def block(self, step_size: jax.Array, state: Any, steps: int) -> tuple[Any, RunTally]:
        """So many transitions of one run."""
        if isinstance(self.settings, PpoSettings):
            return ppo_block(self.settings, self.task, self.source, step_size, state, steps)
        return stream_block(self.settings, self.task, self.source, step_size, state, steps)


def make_settings(agent: str, **settings: Any) -> StreamingSettings | PpoSettings:
    """Settings of an agent by its name."""
    check_choice("agent", agent, AGENTS)
    return PpoSettings(**settings) if agent == "ppo" else StreamingSettings(rule=agent, **settings)


@functools.partial(jax.jit, static_argnums=0)
def start_fleet(agent: DeepAgent, seeds: jax.Array) -> Any:
    """Fresh states of many runs."""
    return jax.vmap(agent.start)(seeds)


@functools.partial(jax.jit, static_argnums=(0, 3))
def train_fleet(agent: DeepAgent, step_sizes: jax.Array, states: Any, steps: int) -> tuple[Any, RunTally]:
    """So many transitions of every run; tallies lead with the run."""
    return jax.vmap(lambda size, state: agent.block(size, state, steps))(step_sizes, states)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def train_curve(agent: DeepAgent, step_sizes: jax.Array, states: Any, steps: int, blocks: int) -> tuple[Any, RunTally]:
    """`blocks` blocks one after the other in one program; tallies [blocks, R]."""
    return jax.lax.scan(lambda s, _: train_fleet(agent, step_sizes, s, steps), states, length=blocks)


class DeepTraining:
    """A training run of several seeds that can be saved and resumed.

    Args:
      agent: what is trained. step_size: of every run. seeds: one run each. name: is written into the file.
    """

    def __init__(self, agent: DeepAgent, step_size: float, seeds: Any, name: str = ""):
        self.agent, self.name = agent, name
        self.step_size = check_positive("step_size", step_size)
        self.seeds = np.asarray(seeds, dtype=np.int32).reshape(-1)
        if not self.seeds.size:
            raise ValueError("seeds must hold at least one seed, got none")
        self.states = start_fleet(agent, jnp.asarray(self.seeds))
        self.log: list[dict[str, float]] = []

    @property
    def steps(self) -> int:
        """Transitions per run so far."""
        return int(self.log[-1]["step"]) if self.log else 0

    def train(self, steps: int, blocks: int = 10) -> list[dict[str, float]]:
        """`blocks` times so many transitions of every run; the rows that were logged."""
        sizes = jnp.full(self.seeds.shape, self.step_size, jnp.float32)
        rows = []
        for _ in range(blocks):
            self.states, tally = train_fleet(self.agent, sizes, self.states, steps)
            rows.append(summary(tally, self.steps))
            self.log.append(rows[-1])
        return rows

    def save(self, path: str | Path) -> None:
        """Write states and log to one .npz file."""
        leaves = [_plain(leaf) for leaf in jax.tree.leaves(self.states)]
        about = {
            "agent": self.name or type(self.agent.task).__name__,
            "settings": asdict(self.agent.settings),
            "source": repr(self.agent.source),
            "step_size": self.step_size,
            "seeds": self.seeds.tolist(),
            "log": self.log,
        }
        buffer = io.BytesIO()
        np.savez(buffer, about=json.dumps(about), **{f"leaf_{k}": leaf for k, leaf in enumerate(leaves)})  # type: ignore[arg-type]
        write_atomically(path, buffer.getvalue())

    def resume(self, path: str | Path) -> None:
        """Take up the states and the log of a file that `save` wrote for the same agent."""
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            mine = {"settings": json.loads(json.dumps(asdict(self.agent.settings))), "source": repr(self.agent.source)}
            mine |= {"step_size": self.step_size, "seeds": self.seeds.tolist()}
            for field, value in mine.items():
                if about[field] != value:
                    raise ValueError(f"{field}: {path} was trained with {about[field]}, this agent has {value}")
            leaves, tree = jax.tree.flatten(self.states)
            loaded = [_like(stored[f"leaf_{k}"], leaf) for k, leaf in enumerate(leaves)]
        self.states, self.log = jax.tree.unflatten(tree, loaded), about["log"]


def summary(tally: RunTally, before: int = 0) -> dict[str, float]:
    """What a block of a fleet came to, over all runs and episodes."""
    totals = jax.tree.map(lambda x: np.asarray(x, np.float64).sum(0), tally)
    runs = np.asarray(tally.steps).size
    episodes = max(float(totals.episodes), 1.0)
    steps = float(totals.steps)
    return {
        "step": before + steps / runs,
        "episodes": float(totals.episodes),
        "score": float(totals.score / episodes),
        "return": float(totals.returns / episodes),
        "length": float(totals.length / episodes),
        "lambda": float(totals.lambda_ / steps),
        "rms_error": float(np.sqrt(totals.square_error / steps)),
    }


def _plain(leaf: jax.Array) -> np.ndarray:
    """A leaf as numbers; keys as their data."""
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def _like(array: np.ndarray, leaf: jax.Array) -> jax.Array:
    """Stored numbers as the kind of leaf they were."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array))
    if array.shape != leaf.shape:
        raise ValueError(f"stored state: got an array of shape {array.shape}, takes {leaf.shape}")
    return jnp.asarray(array, leaf.dtype)
