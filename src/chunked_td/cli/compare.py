"""`chunked-td compare`: fixed λs against the chunked learners on any Gymnasium environment."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

if TYPE_CHECKING:
    from chunked_td.lab.comparison import Comparison, Ranked


@dataclass(frozen=True)
class Compare:
    """Which λ should I use on my problem? Fixed λs against the chunked learners, over several seeds."""

    env: tyro.conf.Positional[str]
    """Environment id."""
    episodes: int = 1_000
    """Episodes per run."""
    max_steps: int = 1_000
    """Steps after which an episode is cut off, where the environment sets no limit."""
    seeds: int = 10
    """Runs per arm."""
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    """The grid of fixed λs, for SARSA(λ)."""
    step_sizes: tuple[float, ...] = (0.05, 0.2)
    """Step sizes to try; every arm is shown at its best one."""
    discount: float = 0.99
    """γ."""
    epsilon: float = 0.1
    """Exploration."""
    out: Path | None = None
    """Folder for compare.png and compare.parquet; default: runs/compare/ENV."""

    def run(self) -> int:
        """Compare, print the ranking, and write it down."""
        from chunked_td.cli._shared import check_at_least_one, folder_name
        from chunked_td.lab.comparison import ComparisonSettings, compare

        for name in ("episodes", "seeds", "max_steps"):
            check_at_least_one(name, getattr(self, name))
        out = self.out or Path("runs/compare") / folder_name(self.env)
        found = compare(
            ComparisonSettings(
                env=self.env,
                episodes=self.episodes,
                max_steps=self.max_steps,
                seeds=self.seeds,
                lambdas=self.lambdas,
                step_sizes=self.step_sizes,
                discount=self.discount,
                epsilon=self.epsilon,
            )
        )
        print_ranking(self.env, found.ranking, self.seeds)
        print_divergence(found)
        out.mkdir(parents=True, exist_ok=True)
        write_comparison(out, found)
        print(f"saved: {out / 'compare.png'}, {out / 'compare.parquet'}")
        return 0


def print_ranking(env: str, ranking: list[Ranked], seeds: int) -> None:
    """The table that answers "which λ should I use on my problem?"."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{env}: mean return per episode, {seeds} seeds, each arm at its best step size")
    table.add_column("", justify="right")
    table.add_column("learner", justify="left")
    for name in ("α", "mean return", "95 % interval"):
        table.add_column(name, justify="right")
    top = ranking[0]
    for place, row in enumerate(ranking, 1):
        if row.mean == float("-inf"):
            table.add_row(str(place), row.label, "all", "diverged", "")
            continue
        tied = " ≈ best" if place > 1 and row.high >= top.low else ""
        interval = f"{row.low:.4g} … {row.high:.4g}"
        table.add_row(str(place), row.label + tied, f"{row.step_size:g}", f"{row.mean:.4g}", interval)
    Console().print(table)
    print(
        "≈ best: its interval reaches the winner's. Step sizes were chosen on the same runs, which flatters every arm."
    )


def print_divergence(found: Comparison) -> None:
    """Which arms diverged at which step sizes."""
    import numpy as np

    lost = np.isneginf(found.scores).sum(axis=2)
    for arm, of_arm in zip(found.arms, lost, strict=True):
        for step_size, count in zip(found.settings.step_sizes, of_arm, strict=True):
            if count:
                print(f"diverged: {arm.label} at α = {step_size:g}, {count} of {found.settings.seeds} seeds")


def write_comparison(out: Path, found: Comparison) -> None:
    """Write compare.parquet, one row per run, and compare.png, the ranking."""
    import numpy as np
    import polars as pl

    from chunked_td._files import write_atomically
    from chunked_td.cli._shared import new_axes

    arm, size, seed = np.indices(found.scores.shape).reshape(3, -1)
    frame = pl.DataFrame(
        {
            "arm": [found.arms[i].label for i in arm],
            "step_size": [float(found.settings.step_sizes[j]) for j in size],
            "seed": seed,
            "mean_return": found.scores.ravel(),
            "mean_return_last_tenth": found.late_scores.ravel(),
        }
    )
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    write_atomically(out / "compare.parquet", buffer.getvalue())
    figure, axes = new_axes()
    rows = [row for row in found.ranking[::-1] if np.isfinite(row.mean)]
    for place, row in enumerate(rows):
        color = "#D55E00" if row.chunked else "#0072B2"
        axes.plot(row.scores, np.full(row.scores.size, place), "o", ms=3, color=color, alpha=0.35, mec="none")
        reach = [[row.mean - row.low], [row.high - row.mean]]
        axes.errorbar(row.mean, place, xerr=reach, fmt="o", color=color, capsize=3)
    axes.set_yticks(range(len(rows)), [f"{row.label}, α = {row.step_size:g}" for row in rows])
    axes.set(xlabel="mean return (bar: 95 %, dots: seeds)", title=found.settings.env)
    figure.savefig(out / "compare.png", dpi=150)
