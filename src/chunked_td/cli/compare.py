"""`chunked-td compare`: which λ on my problem? Every λ source with every bootstrap, ranked."""

from __future__ import annotations

import io
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from chunked_td.cli._shared import check_counts, command, folder_name, keywords_of, show
from chunked_td.cli.problem import ENV, ProblemOptions

if TYPE_CHECKING:
    from chunked_td.lab.comparison import Comparison, ComparisonSettings
    from chunked_td.lab.running.live_logging import ScalarLog

NARROW = 70
"""A terminal with fewer columns gets the ranking as a list."""
WIDE = 104
"""A terminal with fewer columns gets no step sizes and no distances: they would break numbers."""
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
    """Runs per arm and step size, 6 at least for a verdict; default: 10, then 20 and 40 until the answer is clear."""
    minutes: float = 5.0
    """Without --seeds: add seeds as long as they fit into this time. The first 10 always run."""
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
    question: Literal["returns", "values"] = "returns"
    """returns: who earns most while learning. values: whose values of acting at random are nearest to the exact ones,
    learned from the same transitions by all arms, so that exploration plays no part; where the table is known."""
    compiled: bool = True
    """Run compiled where the environment's dynamics are known."""
    out: Path | None = None
    """Folder for the runs, compare.html, compare.png and compare.parquet (and compare.csv); default: runs/compare/ENV.
    Finished runs in it are kept: the same command goes on where it was interrupted."""
    overwrite: bool = False
    """Remove a comparison with other settings from the folder; without this it is refused."""
    open: bool = False
    """Open the page in a browser."""

    def run(self) -> int:
        """Compare, print the answer, and write it down."""
        from chunked_td.lab.comparison import compare
        from chunked_td.lab.comparison.answer import answer
        from chunked_td.lab.errors import guarded
        from chunked_td.lab.running.live_logging import listeners

        settings = self.settings()
        out = self.out or Path("runs/compare") / folder_name(self.env, *self.env_kwargs)

        def work() -> int:
            say = lambda text: print(text, flush=True)  # noqa: E731
            if self.log:
                self.make_env(self.env).close()  # what cannot be made leaves no log behind
            logs = listeners(self.log, out)  # before the work: a log that cannot be written stops it
            found = compare(settings, out, minutes=self.minutes, overwrite=self.overwrite, say=say)
            first, *others = answer(found)
            print(f"\n{first}\n", flush=True)
            print_ranking(found)
            for text in others:
                print(f"- {text}")
            files = write_comparison(out, found, csv=self.csv)
            for log in logs:
                log_curves(log, found)
            print(f"saved: {', '.join(map(str, files))}")
            if self.open:
                show(out / "compare.html")
            return 0

        return guarded(work)()

    def settings(self) -> ComparisonSettings:
        """The settings, checked."""
        from chunked_td.features.maps import Features
        from chunked_td.lab.comparison import ComparisonSettings
        from chunked_td.lab.comparison.arms import BY_DEFAULT, FOR_VALUES, VALUES, WITH_FEATURES
        from chunked_td.lab.gym_environments import check_indexing

        check_counts(self, "episodes", "seeds", "max_steps")
        check_indexing(self.bins, self.low, self.high, self.indexer)
        sources = self.sources
        if sources is None:
            env = self.make_env(self.env)
            tables = FOR_VALUES if self.question == VALUES else BY_DEFAULT
            sources = WITH_FEATURES if isinstance(self.make_indexer(env), Features) else tables
            env.close()
        same: dict[str, Any] = {field.name: getattr(self, field.name, None) for field in fields(ComparisonSettings)}
        own: dict[str, Any] = {
            "sources": (*sources, *self.lambda_source),
            "epsilon": self.chosen_epsilon(),
            "exploration": self.chosen_exploration(),
            "step_size_schedule": self.step_size_factors(),
            "initial_value": self.initial_value or 0.0,
            "env_settings": keywords_of("env-kwargs", self.env_kwargs),
        }
        return ComparisonSettings(**same | own)


def print_ranking(found: Comparison) -> None:
    """The first ten arms, and what is apart, as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from chunked_td.lab.comparison.page import TOP, apart_rows, plain_rows, ranking_table

    console, title = Console(), f"{found.settings.env}, {found.seeds} seeds: {found.settings.score}"
    plain = plain_rows(found)
    parts = [ranking_table(found, plain[:TOP], "ranking"), ranking_table(found, apart_rows(found), "apart")]
    if console.width < NARROW:  # columns would break numbers
        rows = [dict(zip(part.columns, cells, strict=True)) for part in parts for cells in part.rows]
        lines = [[f"{name}: {text}".removeprefix(": ") for name, text in row.items() if text] for row in rows]
        console.print(title, *("\n  ".join(line) for line in lines), sep="\n", markup=False, highlight=False)
    else:
        console.print(title, markup=False, highlight=False)
        table = Table(box=SIMPLE_HEAD)
        shown = 3 if console.width < WIDE else 5
        for column in parts[0].columns[:shown]:
            table.add_column(column, justify="left" if column in ("learner", "verdict") else "right", overflow="fold")
        for part in parts:
            for cells in part.rows:
                table.add_row(*cells[:shown])
            table.add_section()
        console.print(table)
    left = len(plain[TOP:]) + len(found.diverged)
    if left:
        print(f"{left} more in compare.html")


def write_comparison(out: Path, found: Comparison, *, csv: bool) -> list[Path]:
    """Write compare.html, compare.png where there is a ranking, compare.parquet and, if asked for, compare.csv."""
    from chunked_td._files import write_atomically
    from chunked_td.lab.comparison.page import frame_of, render_page

    frame, buffer = frame_of(found), io.BytesIO()
    frame.write_parquet(buffer)
    files = {"compare.html": render_page(found).encode(), "compare.parquet": buffer.getvalue()}
    if csv:
        files["compare.csv"] = frame.write_csv().encode()
    if found.rows:
        files["compare.png"] = ranking_png(found)
    for name, content in files.items():
        write_atomically(out / name, content)
    return [out / name for name in files]


def ranking_png(found: Comparison) -> bytes:
    """The picture of the page as a PNG file."""
    from chunked_td.lab.comparison.page import ranking_plot
    from chunked_td.lab.report.figures import draw
    from chunked_td.lab.report.style import house_style

    buffer = io.BytesIO()
    with house_style():
        figure = draw(ranking_plot(found), width=6.4)
        figure.suptitle(found.settings.env)
        figure.savefig(buffer, dpi=150)
    return buffer.getvalue()


def log_curves(log: ScalarLog, found: Comparison) -> None:
    """Mean return and mean λ of every arm over the episodes, at the chosen step sizes."""
    import numpy as np

    for one in found.outcomes:
        returns, lambdas = (one.at_chosen(name).mean(axis=0) for name in ("mean_return", "mean_lambda"))
        for k, episode in enumerate(found.settings.marks.tolist()):
            numbers = {f"{one.arm.id}/mean_return": returns[k], f"{one.arm.id}/mean_lambda": lambdas[k]}
            log.add({name: float(number) for name, number in numbers.items() if np.isfinite(number)}, episode)
    log.close()
