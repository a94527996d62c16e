"""Training of many runs side by side: one compiled program per block of steps; saving and resuming.

A run depends on its seed, its step size and its λ source only, not on the runs beside it.
"""

from __future__ import annotations

import functools
import io
import json
import re
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td._archives import seal, unseal
from chunked_td._checks import check_choice, check_positive, check_whole
from chunked_td._files import write_atomically
from chunked_td.deep.agents.base import RunTally
from chunked_td.deep.agents.ppo import PpoAgent, PpoSettings
from chunked_td.deep.agents.streaming import StreamingAgent, StreamingSettings
from chunked_td.deep.lambdas.base import DeepLambda

AGENTS = ("sarsa", "q", "actor-critic", "ppo")
MOST_SEED = 2**31 - 1
"""The largest seed."""


Agent = StreamingAgent | PpoAgent


def make_agent(name: str, task: Any, source: DeepLambda, **settings: Any) -> Agent:
    """An agent by its name. Args: task: a `JaxTask`. settings: of `StreamingSettings` or `PpoSettings`."""
    check_choice("agent", name, AGENTS)
    if name == "ppo":
        return PpoAgent(task, source, PpoSettings(**settings))
    return StreamingAgent(task, source, StreamingSettings(rule=name, **settings))


def plan_blocks(steps: int, blocks: int, unit: int = 1) -> list[int]:
    """Transitions of each block: so many in all, rounded up to whole units, in at most so many blocks.

    Blocks are equal where between half as many and `blocks` of them can be, since each length is compiled anew;
    otherwise they differ by one unit.
    """
    units = -(-check_whole("steps", steps, 1) // unit)
    most = min(check_whole("blocks", blocks, 1), units)
    even = next((n for n in range(most, (most + 1) // 2 - 1, -1) if units % n == 0), most)
    return [unit * (units // even + (k < units % even)) for k in range(even)]


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


class DeepTraining:
    """A training run of several seeds that can be saved and resumed.

    Args:
      agent: what is trained. step_size: of every run. seeds: one run each. name: is written into the file and
      compared where training is resumed.
    """

    def __init__(self, agent: Agent, step_size: float, seeds: Any, name: str = ""):
        self.agent, self.name = agent, name
        self.step_size = check_positive("step_size", step_size)
        seeds = [check_whole("seeds", seed, 0, MOST_SEED) for seed in np.ravel(np.asarray(seeds)).tolist()]
        self.seeds = np.array(seeds, dtype=np.int32)
        if not self.seeds.size:
            raise ValueError("seeds must hold at least one seed, got none")
        self.states = start_fleet(agent, jnp.asarray(self.seeds))
        self.log: list[dict[str, Any]] = []

    @property
    def steps(self) -> int:
        """Transitions per run so far."""
        return int(self.log[-1]["step"]) if self.log else 0

    def train(self, steps: int, blocks: int = 10) -> list[dict[str, Any]]:
        """`blocks` times so many transitions of every run; the rows that were logged.

        PPO trains the whole rollouts that fit into a block, at least one; `plan_blocks` fits blocks to rollouts. Runs
        whose weights or λ state are no longer finite are left out of means and sums; `diverged` says how many.
        """
        sizes = jnp.full(self.seeds.shape, self.step_size, jnp.float32)
        rows = []
        for _ in range(blocks):
            self.states, tally = train_fleet(self.agent, sizes, self.states, steps)
            lost = diverged_runs(self.states)
            row = {**summary(tally, self.steps, ~lost), "diverged": int(lost.sum())}
            rows.append({**row, "diverged_seeds": ", ".join(map(str, self.seeds[lost]))})
            self.log.append(rows[-1])
        return rows

    @property
    def diverged(self) -> np.ndarray:
        """Seeds of the runs whose weights or λ state are not finite."""
        return self.seeds[diverged_runs(self.states)]

    def save(self, path: str | Path) -> None:
        """Write states and log to one .npz file."""
        save_states(path, {**self._about(), "log": self.log}, self.states)

    def resume(self, path: str | Path) -> None:
        """Take up the states and the log of a file that `save` wrote for the same agent."""
        about, self.states = load_states(path, self._about(), self.states)
        self.log = about["log"]

    def _about(self) -> dict[str, Any]:
        """What must be the same where training is resumed."""
        settings = asdict(self.agent.settings)
        if settings["luck"] == 1:
            del settings["luck"]  # states saved before there was luck have none
        return {
            "agent": self.name or type(self.agent.task).__name__,
            "task": re.sub(r" at 0x[0-9a-f]+", "", repr(self.agent.task)),
            "settings": settings,
            "source": repr(self.agent.source),
            "step_size": self.step_size,
            "seeds": self.seeds.tolist(),
        }


def save_states(path: str | Path, about: dict[str, Any], states: Any) -> None:
    """Write states, and what is to be known about them, to one .npz file."""
    leaves = [_plain(leaf) for leaf in jax.tree.leaves(states)]
    buffer = io.BytesIO()
    np.savez(buffer, about=json.dumps(about), **{f"leaf_{k}": leaf for k, leaf in enumerate(leaves)})  # type: ignore[arg-type]
    write_atomically(path, seal(buffer.getvalue()))


def load_states(path: str | Path, about: dict[str, Any], like: Any) -> tuple[dict[str, Any], Any]:
    """What a file of `save_states` says about itself, and its states, which must be `like` those of this agent.

    What `about` says must be the same in the file.
    """
    named, tree = jax.tree_util.tree_flatten_with_path(like)
    found, stored = _read_states(path)
    for field, value in json.loads(json.dumps(about)).items():
        if found.get(field, value) != value:
            raise ValueError(f"{field}: {path} was trained with {found[field]}, this agent has {value}")
    if len(stored) != len(named):
        raise ValueError(f"{path}: got {len(stored)} arrays, takes {len(named)}; this agent has other states")
    loaded = []
    for array, (place, leaf) in zip(stored, named, strict=True):
        wanted = _plain(leaf)
        if (array.shape, array.dtype) != (wanted.shape, wanted.dtype):
            raise ValueError(
                f"{path}: {jax.tree_util.keystr(place)} must be {wanted.dtype}{list(wanted.shape)}, got "
                f"{array.dtype}{list(array.shape)}"
            )
        loaded.append(_like(array, leaf))
    return found, jax.tree.unflatten(tree, loaded)


def _read_states(path: str | Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What a file says about itself, and its arrays in order."""
    content = Path(path).read_bytes()
    try:
        unseal(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            arrays = [stored[f"leaf_{k}"] for k in range(len(stored.files) - 1)]
        about["log"] = [{"diverged": 0, "diverged_seeds": ""} | row for row in about["log"]]
        float(about["log"][-1]["step"] if about["log"] else 0.0)
    except (AttributeError, EOFError, KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile):
        raise ValueError(f"{path}: is damaged, or was not written by DeepTraining.save") from None
    return about, arrays


def diverged_runs(states: Any) -> np.ndarray:
    """bool[R]: whether what a run has learned, or the state of its λ source, holds a number that is not finite."""
    learned = [getattr(states, name, ()) for name in ("learned", "networks", "moments", "source", "model")]
    floats = [leaf for leaf in jax.tree.leaves(learned) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    wrong = [~jnp.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in floats]
    return np.asarray(functools.reduce(jnp.logical_or, wrong))


def summary(tally: RunTally, before: int, counted: np.ndarray) -> dict[str, Any]:
    """What a block of a fleet came to, over all episodes of the runs that are counted; None where there were none."""
    totals = jax.tree.map(lambda x: np.asarray(x, np.float64)[counted].sum(0), tally)

    def mean(total: Any, count: Any) -> float | None:
        return float(total / count) if count > 0 else None

    square = mean(totals.square_error, totals.steps)
    return {
        "step": before + float(np.asarray(tally.steps, np.float64).mean()),
        "episodes": float(totals.episodes),
        "score": mean(totals.score, totals.episodes),
        "return": mean(totals.returns, totals.episodes),
        "length": mean(totals.length, totals.episodes),
        "lambda": mean(totals.lambda_, totals.steps),
        "rms_error": None if square is None else float(np.sqrt(square)),
    }


def _plain(leaf: jax.Array) -> np.ndarray:
    """A leaf as numbers; keys as their data."""
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def _like(array: np.ndarray, leaf: jax.Array) -> jax.Array:
    """Stored numbers as the kind of leaf they were."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array))
    return jnp.asarray(array, leaf.dtype)
