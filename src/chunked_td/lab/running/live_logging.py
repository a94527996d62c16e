"""Live logging, optional: Weights & Biases (offline works) and TensorBoard. One mechanism for all commands.

The x-axis is the episode. `train` adds the return and the length of every episode, `compare` the mean curves of every
arm, `reproduce` of every finished batch and step size the mean score over its seeds at every checkpoint, under
"PROTOCOL/ARM/alpha=…". Both packages are imported when used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.engines import BatchResult


def listeners(names: tuple[str, ...] | list[str], out: Path) -> list[ScalarLog]:
    """A log for each of "wandb" and "tensorboard" in `names`."""
    kinds = {"wandb": WandbLog, "tensorboard": TensorBoardLog}
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


class ScalarLog:
    """Numbers over episodes, written somewhere."""

    def add(self, numbers: dict[str, float], episode: int) -> None:
        """Add some numbers by their names."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make sure that what was added can be read."""

    def close(self) -> None:
        """Finish."""

    def batch_done(self, result: BatchResult) -> None:
        """Add the curves of a batch."""
        for tag, episodes, means in curves(result):
            for episode, mean in zip(episodes.tolist(), means.tolist(), strict=True):
                self.add({tag: mean}, episode)
        self.flush()


class TensorBoardLog(ScalarLog):
    """Writes event files under OUT/tensorboard."""

    def __init__(self, out: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UsageError("--log tensorboard needs tensorboardX: pip install 'chunked-td[tensorboard]'") from None
        self.writer = SummaryWriter(str(out / "tensorboard"))

    def add(self, numbers: dict[str, float], episode: int) -> None:
        """Add some numbers by their names."""
        for tag, number in numbers.items():
            self.writer.add_scalar(tag, number, episode)

    def flush(self) -> None:
        """Write events out."""
        self.writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self.writer.close()


class WandbLog(ScalarLog):
    """One W&B run; set WANDB_MODE=offline to keep it on disk."""

    def __init__(self, out: Path):
        try:
            import wandb
            from wandb.errors import Error
        except ImportError:
            raise UsageError("--log wandb needs Weights & Biases: pip install 'chunked-td[wandb]'") from None
        out.mkdir(parents=True, exist_ok=True)
        try:
            self.run = wandb.init(project="chunked-td", dir=str(out), name=out.name)
        except Error as problem:
            cause = str(problem).rstrip(".")
            raise UsageError(
                f"--log wandb: {cause}. WANDB_MODE=offline keeps the log on disk and needs no login"
            ) from problem
        self.run.define_metric("*", step_metric="episode")

    def add(self, numbers: dict[str, float], episode: int) -> None:
        """Add some numbers by their names."""
        self.run.log({**numbers, "episode": episode})

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()
