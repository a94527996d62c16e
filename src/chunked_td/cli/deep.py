"""`chunked-td deep`: train networks with a λ per step on a task written in JAX."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro


@dataclass(frozen=True)
class Deep:
    """Train a streaming learner or PPO on a JAX task, several seeds side by side; saves states and learning curve."""

    env: tyro.conf.Positional[str]
    """A task, such as charge, cart-pole or t-maze; gymnax:ID and xland:ID where those packages are installed."""
    lambda_: Annotated[str, tyro.conf.arg(name="lambda")] = "value-kernel"
    """A number, or value-kernel, expected, realised, recurrent, recurrent-realised, lambda-greedy, meta-gradient,
    true-kernel, true-expected."""
    agent: str = "sarsa"
    """sarsa, q, actor-critic or ppo."""
    memory: str = "none"
    """What the agent reads beside the percept: none, kept (the last percepts that were not predicted), or state (the
    recurrent state of the percept model). For tasks that hide the state, such as t-maze."""
    steps: int = 50_000
    """Transitions of every run."""
    step_size: float | None = None
    """Of updates; default: 0.3, and 0.001 for ppo."""
    discount: float = 0.99
    """γ."""
    seeds: int = 10
    """Runs side by side."""
    seed: int = 0
    """The first seed."""
    blocks: int = 10
    """Points of the learning curve."""
    out: Path | None = None
    """Folder for states.npz and curve.parquet; default: runs/deep/ENV-AGENT-LAMBDA."""
    resume: bool = False
    """Go on from the states in the folder, for so many steps more."""
    overwrite: bool = False
    """Start again where the folder holds states."""

    def run(self) -> int:
        """Train, log, save."""
        from chunked_td.cli._shared import check_at_least_one, folder_name
        from chunked_td.deep.envs import make_task_by_name
        from chunked_td.deep.lambdas import read_source
        from chunked_td.deep.training import DeepAgent, DeepTraining, make_settings

        for name in ("steps", "seeds", "blocks"):
            check_at_least_one(name, getattr(self, name))
        memory = self._memory()
        settings = make_settings(self.agent, discount=self.discount, **({} if memory is None else {"memory": memory}))
        agent = DeepAgent(make_task_by_name(self.env), read_source(self.lambda_), settings)
        named = (self.env, self.agent, self.lambda_, *([] if self.memory == "none" else [self.memory]))
        out = self.out or Path("runs/deep") / folder_name(*named)
        saved = out / "states.npz"
        if saved.exists() and not (self.resume or self.overwrite):
            raise ValueError(f"{out} holds states: --resume goes on with them, --overwrite starts again")
        if self.resume and not saved.exists():
            raise ValueError(f"--resume: there are no states in {out}")
        size = self.step_size if self.step_size is not None else (1e-3 if self.agent == "ppo" else 0.3)
        training = DeepTraining(agent, size, range(self.seed, self.seed + self.seeds), f"{self.agent} on {self.env}")
        if self.resume:
            training.resume(saved)
        block = max(1, self.steps // self.blocks)
        if memory is not None:  # its model learns from whole windows
            block = -(-block // memory.window) * memory.window
        for _ in range(self.blocks):
            row = training.train(block, blocks=1)[0]
            print(
                f"step {row['step']:>9,.0f}   score {row['score']:.3f}   return {row['return']:.3f}   "
                f"λ {row['lambda']:.3f}   episodes {row['episodes']:,.0f}",
                flush=True,
            )
        training.save(saved)
        _write_log(out, training.log)
        print(f"saved: {saved}, {out / 'curve.parquet'}")
        return 0

    def _memory(self) -> Any:
        """The agent's memory, or None."""
        from chunked_td._checks import check_choice
        from chunked_td.deep.memory import READS, RecurrentMemory

        check_choice("memory", self.memory, ("none", *READS))
        if self.memory == "none":
            return None
        return RecurrentMemory(self.memory)


def _write_log(out: Path, rows: list[dict[str, Any]]) -> None:
    import polars as pl

    from chunked_td._files import write_atomically

    buffer = io.BytesIO()
    pl.DataFrame(rows).write_parquet(buffer)
    write_atomically(out / "curve.parquet", buffer.getvalue())
