"""`chunked-td compare`: which λ on my problem? Every λ source with every bootstrap, ranked."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from chunked_td.lab.comparison import Comparison, ComparisonSettings
    from chunked_td.lab.comparison.sweep import Standings

Bootstrap = Literal["sarsa", "expected_sarsa", "q_learning"]
Source = Literal["forward", "expected", "value", "junction", "backward", "greedy", "dyna"]


@dataclass(frozen=True)
class Compare:
    """Which λ should I use on my problem? Every λ source with every bootstrap, over several seeds, ranked."""

    env: tyro.conf.Positional[str]
    """Environment id, such as Taxi-v4 or package:Id-v0."""
    episodes: int = 1_000
    """Episodes per run."""
    max_steps: int = 1_000
    """Steps after which an episode is cut off, where the environment sets no limit."""
    seeds: int | None = None
    """Runs per arm and step size; default: 20 where runs are compiled, 10 elsewhere."""
    bootstraps: tuple[Bootstrap, ...] = ("sarsa", "expected_sarsa")
    """What to bootstrap from; λ sources are compared within each of them, then overall."""
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    """The grid of fixed λs."""
    sources: tuple[Source, ...] = ("forward", "expected", "value", "junction", "backward", "greedy", "dyna")
    """The other λ sources, and Dyna, which plans instead."""
    step_sizes: tuple[float, ...] = (0.05, 0.2, 0.8)
    """Step sizes to begin with. Each seed is scored at the one that is best on the other half of the seeds."""
    extend: int = 3
    """How often the grid of step sizes may grow by one factor at either end, where the best one lies there."""
    step_size_schedule: tuple[str, ...] = ()
    """Factors that multiply the step size over the episodes, such as 0=1 500=0.1 (a line between the points)."""
    discount: float = 0.99
    """γ."""
    epsilon: float = 0.1
    """Exploration (ε-greedy)."""
    epsilon_schedule: tuple[str, ...] = ()
    """ε over the episodes, such as 0=1 500=0.1; instead of --epsilon."""
    initial_value: float = 0.0
    """What all values are before learning; above what can be earned, it makes learners try everything."""
    env_kwargs: tuple[str, ...] = ()
    """Settings of the environment, such as map_name=8x8 is_slippery=False."""
    wrappers: tuple[str, ...] = ()
    """Wrappers to put around the environment, innermost first, such as gymnasium.wrappers:FlattenObservation."""
    bins: tuple[int, ...] = ()
    """Bins for real-valued observations: one number for all dimensions, or one each."""
    low: tuple[float | None, ...] = ()
    """Lower bounds of the bins, where the observation space has none; None takes that of the space."""
    high: tuple[float | None, ...] = ()
    """Upper bounds of the bins."""
    action_mask: bool = True
    """Take only the actions that the environment's action mask allows, where it has one."""
    compiled: bool = True
    """Run compiled where the environment's dynamics are known."""
    out: Path | None = None
    """Folder for compare.html, compare.png and compare.parquet; default: runs/compare/ENV."""
    csv: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write compare.csv, too: the numbers of compare.parquet."""
    open: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Open the page in a browser."""

    def run(self) -> int:
        """Compare, print the ranking, and write it down."""
        from chunked_td.cli._shared import folder_name
        from chunked_td.lab.comparison import compare
        from chunked_td.lab.comparison.advice import advice

        settings = self.settings()
        out = self.out or Path("runs/compare") / folder_name(self.env, *self.env_kwargs)
        found = compare(settings, say=lambda text: print(text, flush=True))
        groups = found.groups if len(found.groups) > 1 else []
        for group in (*groups, found.overall):
            print_ranking(f"{self.env}, {group.title}", group, found.seeds)
        print(
            "≈ best: not told apart from the best, paired over seeds; the intervals of a table hold together (95 %). "
            "Step sizes were chosen on one half of the seeds and scored on the other, both ways round."
        )
        for text in advice(found):
            print(f"- {text}")
        files = write_comparison(out, found, csv=self.csv)
        print(f"saved: {', '.join(map(str, files))}")
        if self.open:
            import webbrowser

            webbrowser.open((out / "compare.html").resolve().as_uri())
        return 0

    def settings(self) -> ComparisonSettings:
        """The settings, checked."""
        from chunked_td.cli._shared import check_at_least_one, keywords_of, schedule_of
        from chunked_td.lab.comparison import ComparisonSettings

        for name in ("episodes", "seeds", "max_steps"):
            check_at_least_one(name, 1 if getattr(self, name) is None else getattr(self, name))
        return ComparisonSettings(
            env=self.env,
            episodes=self.episodes,
            max_steps=self.max_steps,
            seeds=self.seeds,
            lambdas=self.lambdas,
            step_sizes=self.step_sizes,
            bootstraps=self.bootstraps,
            sources=self.sources,
            discount=self.discount,
            epsilon=schedule_of("epsilon-schedule", self.epsilon_schedule) or self.epsilon,
            extend=self.extend,
            step_size_schedule=schedule_of("step-size-schedule", self.step_size_schedule),
            initial_value=self.initial_value,
            env_settings=keywords_of("env-kwargs", self.env_kwargs),
            wrappers=self.wrappers,
            bins=self.bins,
            low=self.low,
            high=self.high,
            action_mask=self.action_mask,
            compiled=self.compiled,
        )


def print_ranking(title: str, standings: Standings, seeds: int) -> None:
    """One ranking as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{title}: mean return per episode, {seeds} seeds")
    table.add_column("", justify="right")
    table.add_column("learner", justify="left")
    for name in ("α", "mean", "behind the best"):
        table.add_column(name, justify="right")
    for place, row in enumerate(standings.rows, 1):
        gap = standings.family.gap(row.place)
        tied = " ≈ best" if place > 1 and not gap.shown else ""
        behind = "" if place == 1 else f"{gap.mean:.3g} ({gap.low:.3g} … {gap.high:.3g})"
        table.add_row(str(place), row.outcome.arm.label + tied, row.outcome.step_size_text, f"{row.mean:.4g}", behind)
    for one in standings.diverged:
        table.add_row("", one.arm.label, one.step_size_text, "diverged", "")
    Console().print(table)


def write_comparison(out: Path, found: Comparison, *, csv: bool) -> list[Path]:
    """Write compare.html, compare.png, compare.parquet and, if asked for, compare.csv."""
    from chunked_td._files import write_atomically
    from chunked_td.lab.comparison.page import frame_of, render_page

    frame, buffer = frame_of(found), io.BytesIO()
    frame.write_parquet(buffer)
    files = {"compare.html": render_page(found).encode(), "compare.parquet": buffer.getvalue()}
    if csv:
        files["compare.csv"] = frame.write_csv().encode()
    for name, content in files.items():
        write_atomically(out / name, content)
    draw_ranking(out / "compare.png", found)
    return [out / name for name in (*files, "compare.png")]


def draw_ranking(path: Path, found: Comparison) -> None:
    """Mean return of every arm with its interval and seeds; one colour per bootstrap."""
    import numpy as np
    from matplotlib.figure import Figure

    rows = found.overall.rows[::-1]
    figure = Figure(figsize=(6.4, 1.6 + 0.2 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    colors = {group.title: color for group, color in zip(found.groups, ("#0072B2", "#D55E00", "#009E73"), strict=False)}
    for group in found.groups:
        for row in group.rows:
            place = next(k for k, one in enumerate(rows) if one.outcome is row.outcome)
            seeds, color = row.outcome.scores, colors[group.title]
            axes.plot(seeds, np.full(seeds.size, place), "o", ms=3, color=color, alpha=0.35, mec="none")
            axes.errorbar(row.mean, place, xerr=[[row.mean - row.low], [row.high - row.mean]], fmt="o", color=color)
    axes.set_yticks(range(len(rows)), [f"{row.outcome.arm.label}, α = {row.outcome.step_size_text}" for row in rows])
    axes.set(xlabel="mean return (bar: 95 %, dots: seeds)", title=found.settings.env)
    figure.savefig(path, dpi=150)
