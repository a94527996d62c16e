"""Draw docs/figures/continuous.png: linear values on MountainCar, λ along an episode, learning curves; print a table.

Run: python docs/figures/make_continuous.py    # from mountain-car.parquet and mountain-car.npz beside it

The agent in mountain-car.npz had the λ source `VarianceLambda`; commit 34205dab is the last that can make the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from chunked_td.statistics import mean_and_interval

FOLDER = Path(__file__).parent
SHOWN = {"λ = 0": "0.7", "λ = 0.95": "0.2", "Calibrated likelihood": "#0072B2", "Value variance": "#D55E00"}


def draw() -> None:
    """Draw both panels."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib.figure import Figure

    stored = np.load(FOLDER / "mountain-car.npz")
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    mesh = left.pcolormesh(stored["x"], stored["v"], -stored["values"], cmap="Greys", shading="gouraud")
    figure.colorbar(mesh, ax=left, label="steps to the goal, as learned")
    dots = left.scatter(*stored["seen"].T, c=stored["lambdas"], cmap="plasma", s=14, vmin=0, vmax=1)
    figure.colorbar(dots, ax=left, label="λ")
    left.set(xlabel="position", ylabel="velocity", title="Values, and λ along one episode")
    for source, episodes, curves, _ in arms():
        if source in SHOWN:
            mean, interval = mean_and_interval(curves)
            right.fill_between(episodes, interval.low, interval.high, color=SHOWN[source], alpha=0.2, lw=0)
            right.plot(episodes, mean, color=SHOWN[source], label=source)
    right.set(xlabel="episode", ylabel="return", title="SARSA(λ), 10 seeds, 95 % intervals")
    right.legend(frameon=False)
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("continuous.png"), dpi=110, metadata={"Software": None})


def arms() -> Iterator[tuple[str, np.ndarray, np.ndarray, list[float]]]:
    """λ source, checkpoints, mean returns by run and checkpoint, and the step sizes that cross-fitting chose."""
    runs = pl.read_parquet(FOLDER / "mountain-car.parquet").filter(pl.col("chosen")).sort("seed", "episode")
    for (source,), rows in runs.group_by("lambda_source", maintain_order=True):
        episodes = rows["episode"].unique().sort().to_numpy()
        curves = rows["mean_return"].to_numpy().reshape(-1, len(episodes))
        yield str(source), episodes, curves, rows["step_size"].unique().sort().to_list()


def table() -> str:
    """Mean return of all training episodes over runs, with its interval, best first."""
    lines = {}
    for source, episodes, curves, sizes in arms():
        mean, low, high = mean_and_interval((curves * np.diff(episodes, prepend=0)).sum(1) / episodes[-1])
        chosen = " and ".join(f"{size:g}" for size in sizes)
        text = f"| {source} | {chosen} | {mean:.1f} ({low:.1f} to {high:.1f}) |".replace("-", "−")
        lines[float(mean)] = text
    head = ["| λ | α | mean return (95 %) |", "| --- | --- | --- |"]
    return "\n".join([*head, *(lines[score] for score in sorted(lines, reverse=True))])


if __name__ == "__main__":
    draw()
    print(table())
