"""Live logging of a sweep, optional: Weights & Biases (offline works) and TensorBoard.

Each finished batch adds, per step size, the mean score over its seeds at every checkpoint, under
"PROTOCOL/ARM/alpha=…"; the x-axis is the episode. Both packages are imported only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.engines import BatchResult


def listeners(names: tuple[str, ...] | list[str], out: Path) -> list[Any]:
    """A listener for each of "wandb" and "tensorboard" in `names`."""
    kinds = {"wandb": WandbListener, "tensorboard": TensorBoardListener}
    for name in names:
        if name not in kinds:
            raise UsageError(f"--log must be one of {', '.join(kinds)}, got {name!r}")
    return [kinds[name](out) for name in names]


def curves(result: BatchResult) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(tag, episodes, mean score over the batch's seeds) for each step size of a finished batch."""
    batch, columns = result.batch, result.columns
    if columns is None:
        return
    episodes = np.asarray(batch.record_at)
    scores = columns["score"].reshape(len(batch.pairs), len(episodes))
    exponents = np.array([exponent for _, exponent in batch.pairs])
    for exponent in sorted(set(exponents.tolist()), reverse=True):
        tag = f"{batch.protocol.id}/{batch.arm.id}/alpha={batch.protocol.step_size(exponent):g}"
        yield tag, episodes, scores[exponents == exponent].mean(axis=0)


class TensorBoardListener:
    """Writes event files under OUT/tensorboard."""

    def __init__(self, out: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UsageError("--log tensorboard needs tensorboardX: pip install 'chunked-td[tensorboard]'") from None
        self.writer = SummaryWriter(str(out / "tensorboard"))

    def batch_done(self, result: BatchResult) -> None:
        """Add the curves of a batch."""
        for tag, episodes, means in curves(result):
            for episode, mean in zip(episodes.tolist(), means.tolist(), strict=True):
                self.writer.add_scalar(tag, mean, episode)
        self.writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self.writer.close()


class WandbListener:
    """One W&B run per sweep; set WANDB_MODE=offline to keep it on disk."""

    def __init__(self, out: Path):
        try:
            import wandb
            from wandb.errors import Error
        except ImportError:
            raise UsageError("--log wandb needs Weights & Biases: pip install 'chunked-td[wandb]'") from None
        try:
            self.run = wandb.init(project="chunked-td", dir=str(out), name=out.name)
        except Error as problem:
            cause = str(problem).rstrip(".")
            raise UsageError(
                f"--log wandb: {cause}. WANDB_MODE=offline keeps the log on disk and needs no login"
            ) from problem
        self.run.define_metric("*", step_metric="episode")

    def batch_done(self, result: BatchResult) -> None:
        """Add the curves of a batch."""
        for tag, episodes, means in curves(result):
            for episode, mean in zip(episodes.tolist(), means.tolist(), strict=True):
                self.run.log({tag: mean, "episode": episode})

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()
