"""`chunked-td compare`: which λ on my problem? Every λ source with every bootstrap, ranked."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from chunked_td.cli._shared import command
from chunked_td.cli.problem import ENV, ProblemOptions

if TYPE_CHECKING:
    from chunked_td.lab.comparison import Comparison, ComparisonSettings
    from chunked_td.lab.comparison.sweep import Standings
    from chunked_td.lab.running.live_logging import ScalarLog

Bootstrap = Literal["sarsa", "expected_sarsa", "q_learning"]


@command
class Compare(ProblemOptions):
    """Which λ should I use on my problem? Every λ source with every bootstrap, over several seeds, ranked.

    For example:
        chunked-td compare Taxi-v4
        chunked-td compare my_maze.py --episodes 300 --lambdas 0 0.9 --sources forward expected
    """

    env: Annotated[tyro.conf.Positional[str], ENV]
    """A Gymnasium id (Taxi-v4), package:Id-v0, or a Python file with an environment class (maze.py)."""
    episodes: int = 1_000
    """Episodes per run."""
    seeds: int | None = None
    """Runs per arm and step size, 10 at least to tell arms apart; default: 20 where runs are compiled, 10 elsewhere."""
    bootstraps: tuple[Bootstrap, ...] = ("sarsa", "expected_sarsa")
    """What to bootstrap from; λ sources are compared within each of them, then overall."""
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    """The grid of fixed λs."""
    sources: tuple[str, ...] | None = None
    """The other λ sources by id, such as forward or meta-gradient (a wrong id lists all), and dyna, which plans
    instead; default: the best known. watkins goes with the bootstrap q_learning."""
    lambda_source: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A λ source besides these: a Python file of yours (mine.py or mine.py:MyLambda) or an id; may be given several
    times."""
    step_sizes: tuple[float, ...] = (0.05, 0.2, 0.8)
    """Step sizes to begin with. Each seed is scored at the one that is best on the other half of the seeds."""
    extend: int = 3
    """How often the grid of step sizes may grow by one factor at either end, where the best one lies there."""
    discount: float = 0.99
    """γ."""
    action_mask: bool = True
    """Take only the actions that the environment's action mask allows, where it has one."""
    compiled: bool = True
    """Run compiled where the environment's dynamics are known."""
    out: Path | None = None
    """Folder for compare.html, compare.png and compare.parquet (and compare.csv); default: runs/compare/ENV."""
    open: bool = False
    """Open the page in a browser."""

    def run(self) -> int:
        """Compare, print the ranking, and write it down."""
        from chunked_td.cli._shared import folder_name
        from chunked_td.lab.comparison import compare
        from chunked_td.lab.comparison.advice import advice
        from chunked_td.lab.running.live_logging import listeners

        settings = self.settings()
        out = self.out or Path("runs/compare") / folder_name(self.env, *self.env_kwargs)
        if self.log:
            self.make_env(self.env).close()  # what cannot be made leaves no log behind
        logs = listeners(self.log, out)  # before the work: a log that cannot be written stops it
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
        for log in logs:
            log_curves(log, found)
        print(f"saved: {', '.join(map(str, files))}")
        if self.open:
            import webbrowser

            webbrowser.open((out / "compare.html").resolve().as_uri())
        return 0

    def settings(self) -> ComparisonSettings:
        """The settings, checked."""
        from chunked_td.cli._shared import check_at_least_one, keywords_of
        from chunked_td.lab.comparison import ComparisonSettings
        from chunked_td.lab.comparison.arms import BY_DEFAULT
        from chunked_td.lab.gym_environments import check_indexing

        for name in ("episodes", "seeds", "max_steps"):
            check_at_least_one(name, 1 if getattr(self, name) is None else getattr(self, name))
        check_indexing(self.bins, self.low, self.high, self.indexer)
        return ComparisonSettings(
            env=self.env,
            episodes=self.episodes,
            max_steps=self.max_steps,
            seeds=self.seeds,
            lambdas=self.lambdas,
            step_sizes=self.step_sizes,
            bootstraps=self.bootstraps,
            sources=(*(BY_DEFAULT if self.sources is None else self.sources), *self.lambda_source),
            discount=self.discount,
            epsilon=self.chosen_epsilon(),
            exploration=self.chosen_exploration(),
            extend=self.extend,
            step_size_schedule=self.step_size_factors(),
            initial_value=self.initial_value or 0.0,
            reward_weights=self.reward_weights,
            env_settings=keywords_of("env-kwargs", self.env_kwargs),
            wrappers=self.wrappers,
            bins=self.bins,
            low=self.low,
            high=self.high,
            indexer=self.indexer,
            action_mask=self.action_mask,
            compiled=self.compiled,
        )


def print_ranking(title: str, standings: Standings, seeds: int) -> None:
    """One ranking as a table."""
    from rich.console import Console
    from rich.table import Table

    from chunked_td.lab.comparison.advice import SCORE

    table = Table(title=f"{title}, {seeds} seeds: {SCORE}")
    table.add_column("", justify="right")
    table.add_column("learner", justify="left")
    for name in ("α", "mean", "behind the best"):
        table.add_column(name, justify="right")
    for place, row in enumerate(standings.rows, 1):
        gap = standings.family.gap(row.place)
        tied = " ≈ best" if place > 1 and not gap.shown else ""
        behind = "" if place == 1 else gap.text
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


def log_curves(log: ScalarLog, found: Comparison) -> None:
    """Mean return and mean λ of every arm over the episodes, at the chosen step sizes."""
    import numpy as np

    for one in found.outcomes:
        returns, lambdas = one.means.mean(axis=0), one.lambdas.mean(axis=0)
        for k, episode in enumerate(found.settings.marks.tolist()):
            numbers = {f"{one.arm.tag}/mean_return": returns[k], f"{one.arm.tag}/mean_lambda": lambdas[k]}
            log.add({name: float(number) for name, number in numbers.items() if np.isfinite(number)}, episode)
    log.close()


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
