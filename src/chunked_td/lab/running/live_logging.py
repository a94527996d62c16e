"""Live logging, optional: Weights & Biases (offline works) and TensorBoard. One mechanism for all commands.

The x-axis is the episode. `train` adds the return and the length of every episode, `compare` the mean curves of every
arm, `reproduce` of every finished batch and step size the mean score over its seeds at every checkpoint, under
"PROTOCOL/ARM/alpha=…". Both packages are imported when used.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chunked_td.lab.errors import UsageError
from chunked_td.lab.running.batches import Batch
from chunked_td.lab.study import Columns


def listeners(names: tuple[str, ...] | list[str], out: Path) -> list[ScalarLog]:
    """A log for each of "wandb" and "tensorboard" in `names`."""
    kinds = {"wandb": _WandbLog, "tensorboard": _TensorBoardLog}
    for name in names:
        if name not in kinds:
            raise UsageError(f"--log must be one of {', '.join(kinds)}, got {name!r}")
    return [kinds[name](out) for name in names]


class ScalarLog:
    """Numbers over episodes, written somewhere."""

    def add(self, numbers: dict[str, float], episode: int) -> None:
        """Add some numbers by their names."""
        raise NotImplementedError

    def flush(self) -> None:
        """Make sure that what was added can be read."""

    def close(self) -> None:
        """Finish."""

    def batch_done(self, batch: Batch, columns: Columns) -> None:
        """Add the curves of a finished batch: the mean score over its seeds, for each step size."""
        scores = columns["score"].reshape(len(batch.pairs), len(batch.record_at))
        exponents = np.array([exponent for _, exponent in batch.pairs])
        for exponent in sorted(set(exponents.tolist()), reverse=True):
            tag = f"{batch.protocol.id}/{batch.arm.id}/alpha={batch.protocol.step_size(exponent):g}"
            means = scores[exponents == exponent].mean(axis=0).tolist()
            for episode, mean in zip(batch.record_at, means, strict=True):
                self.add({tag: mean}, episode)
        self.flush()


class _TensorBoardLog(ScalarLog):
    """Writes event files under OUT/tensorboard."""

    def __init__(self, out: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UsageError("--log tensorboard needs tensorboardX: pip install 'chunked-td[tensorboard]'") from None
        self.writer = SummaryWriter(str(out / "tensorboard"))
        self.flush, self.close = self.writer.flush, self.writer.close

    def add(self, numbers: dict[str, float], episode: int) -> None:
        for tag, number in numbers.items():
            self.writer.add_scalar(tag, number, episode)


class _WandbLog(ScalarLog):
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
            more = "WANDB_MODE=offline keeps the log on disk and needs no login"
            raise UsageError(f"--log wandb: {str(problem).rstrip('.')}. {more}") from problem
        self.run.define_metric("*", step_metric="episode")
        self.close = self.run.finish

    def add(self, numbers: dict[str, float], episode: int) -> None:
        self.run.log({**numbers, "episode": episode})
