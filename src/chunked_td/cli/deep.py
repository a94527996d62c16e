"""`chunked-td deep`: train networks with a λ per step on a task written in JAX."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from chunked_td.cli._shared import check_counts, check_saved, command, folder_name

if TYPE_CHECKING:
    from chunked_td.deep.training import DeepTraining


@command
class Deep:
    """Train a streaming learner or PPO on a JAX task, several seeds side by side; saves states and learning curve.

    For example:
        chunked-td deep catch --lambda 0.95
        chunked-td deep t-maze --memory kept --lambda recurrent --seeds 3
    """

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task, such as charge, cart-pole or t-maze; gymnax:ID and xland:ID where those packages are installed."""
    lambda_: Annotated[str, tyro.conf.arg(name="lambda", metavar="X|NAME")] = "value"
    """A number, or the id of a source: value, expected, forward, greedy, meta-gradient, recurrent …; a wrong one lists
    all. "+mature" raises it to 1 while values are guesses: value+mature."""
    agent: Literal["sarsa", "q", "actor-critic", "ppo"] = "sarsa"
    """What learns."""
    memory: Literal["none", "kept", "state"] = "none"
    """What the agent reads beside the percept: none, kept (the last percepts that were not predicted), or state (the
    recurrent state of the percept model). For tasks that hide the state, such as t-maze."""
    steps: int = 50_000
    """Transitions of every run. PPO trains whole rollouts of 1,024 and streaming agents with a memory whole windows of
    10: these round up."""
    step_size: float | None = None
    """Of updates; default: 0.3, and 0.001 for ppo."""
    discount: float = 0.99
    """γ."""
    luck: int = 1
    """Draws per TD error: the task is stepped again from the same state and action, and the mean is learned from."""
    seeds: int = 10
    """Runs side by side."""
    seed: int = 0
    """The first seed."""
    blocks: int = 10
    """Points of the learning curve, at most; what was learned is saved after each."""
    out: Path | None = None
    """Folder for states.npz and curve.parquet; default: runs/deep/ENV-AGENT-LAMBDA."""
    resume: bool = False
    """Go on from the states in the folder, for so many steps more."""
    overwrite: bool = False
    """Start again where the folder holds states."""

    def run(self) -> int:
        """Train, log, save."""
        import polars as pl

        from chunked_td._files import write_table
        from chunked_td.cli.train import stop_on_interrupt
        from chunked_td.deep.training import plan_blocks

        training, out = self._training()
        unit = training.agent.unit
        blocks, saved = plan_blocks(self.steps, self.blocks, unit), out / "states.npz"
        total, done = sum(blocks), 0
        if total != self.steps:
            whole = "ppo trains whole rollouts" if self.agent == "ppo" else "the memory learns from whole windows"
            print(f"{whole} of {unit:,}: {total:,} transitions instead of {self.steps:,}")
        with stop_on_interrupt() as stopped, contextlib.suppress(KeyboardInterrupt):
            for block in blocks:
                row = training.train(block, blocks=1)[0]
                training.save(saved)
                done += block
                write_table(out / "curve.parquet", pl.DataFrame(training.log, infer_schema_length=None))
                print(_in_words(row, self.seeds), flush=True)
                if stopped:
                    break
        lost = training.diverged
        if lost.size:
            seeds = ", ".join(map(str, lost))
            print(f"{lost.size} of {self.seeds} runs diverged: weights or λ are not finite (seeds {seeds})")
        if done:
            print(f"saved: {saved}, {out / 'curve.parquet'}")
        if done == total:
            return 0
        nothing = "nothing new was saved" if self.resume else "nothing was saved"
        go_on = f"--resume --steps {total - done} goes on from {saved}" if done else nothing
        print(f"interrupted after {done:,} of {total:,} transitions; {go_on}", file=sys.stderr)
        return 130

    def _training(self) -> tuple[DeepTraining, Path]:
        """What is to be trained, fresh or as it was saved, and the folder to write to."""
        from chunked_td.deep.lambdas import read_source
        from chunked_td.deep.memory import RecurrentMemory
        from chunked_td.deep.training import MOST_SEED, DeepTraining, make_agent
        from chunked_td.envs.tasks import make_task_by_name

        check_counts(self, "steps", "seeds", "blocks", "luck")
        if not 0 <= self.seed <= MOST_SEED - self.seeds + 1:
            raise ValueError(f"--seed must be a whole number from 0, with all seeds up to {MOST_SEED}, got {self.seed}")
        if self.resume and self.overwrite:
            raise ValueError("--resume goes on with what --overwrite would replace; give one of the two")
        memory = None if self.memory == "none" else RecurrentMemory(self.memory)
        settings = {"discount": self.discount, "memory": memory, "luck": self.luck}
        agent = make_agent(self.agent, make_task_by_name(self.env), read_source(self.lambda_), **settings)
        extra = [*([] if self.memory == "none" else [self.memory]), *([f"luck-{self.luck}"] if self.luck > 1 else [])]
        named = (self.env, self.agent, self.lambda_, *extra)
        out = self.out or Path("runs/deep") / folder_name(*named)
        saved = out / "states.npz"
        check_saved(saved, self, "states")
        size = self.step_size if self.step_size is not None else (1e-3 if self.agent == "ppo" else 0.3)
        seeds = range(self.seed, self.seed + self.seeds)
        training = DeepTraining(agent, size, seeds, f"{self.agent} on {self.env}")
        if self.resume:
            training.resume(saved)
        _make_folder(out)
        return training, out


def _make_folder(out: Path) -> None:
    """Make the folder before anything is trained, or say why it cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"--out must be a folder, got {out}, which is a file or lies in one") from None


def _in_words(row: dict[str, Any], runs: int) -> str:
    """A row of the log; a dash where there is nothing to average."""
    score, returns, lambda_ = ("–" if row[k] is None else f"{row[k]:.3f}" for k in ("score", "return", "lambda"))
    lost = f"   diverged {row['diverged']} of {runs}" if row["diverged"] else ""
    return (
        f"step {row['step']:>9,.0f}   score {score}   return {returns}   λ {lambda_}   "
        f"episodes {row['episodes']:,.0f}{lost}"
    )
