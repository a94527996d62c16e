"""`chunked-td compare`: fixed λs, learned λs, expected TD errors and planning on a user's problem."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from chunked_td.cli._shared import check_counts, check_folder, command, folder_name, keywords_of, show
from chunked_td.cli.problem import ENV, ProblemOptions

Bootstrap = Literal["sarsa", "expected_sarsa", "q_learning"]


@command
class Compare(ProblemOptions):
    """Which λ should I use on my problem? Fixed and learned λs over several seeds, with intervals.

    For example:
        chunked-td compare Taxi-v4
        chunked-td compare my_maze.py --episodes 300 --lambdas 0 0.9 --sources forward expected
    """

    env: Annotated[tyro.conf.Positional[str], ENV]
    """A Gymnasium id (Taxi-v4), package:Id-v0, or a Python file with an environment class (maze.py)."""
    episodes: int | None = None
    """Episodes per run; default: 1,000, or as many as fit into --minutes."""
    seeds: int | None = None
    """Runs per learner and step size, 6 or more for a verdict; default: 10, then up to 40 until the answer is clear."""
    minutes: float | None = None
    """Time in which seeds are added; default: 5, with --seeds no limit."""
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    """Fixed λs."""
    sources: tuple[str, ...] | None = None
    """Learned λs by id, such as forward or meta-gradient (a wrong id lists all); rules such as 0.9+expected-error or
    value+lineage; dyna, which plans; default: the best known of each."""
    lambda_source: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """One more: a Python file of yours (mine.py or mine.py:MyLambda), an id or a rule; may be given several times."""
    bootstraps: tuple[Bootstrap, ...] = ("expected_sarsa",)
    """Bootstrap targets; every rule runs with each of them. With q_learning the fixed λs are Watkins'."""
    step_sizes: tuple[float, ...] = (0.05, 0.2, 0.8)
    """Step sizes to begin with. Each seed is scored at the one that is best on the other half of the seeds."""
    extend: int = 3
    """Most factors by which the grid of step sizes may grow at either end, if the best one is at that end."""
    discount: float = 0.99
    """γ."""
    action_mask: bool = True
    """Take only the actions that the environment's action mask allows, if it has one."""
    compiled: bool = True
    """Compile runs if the environment's transitions are known."""
    engine: Literal["local", "ray"] = "local"
    """Place of the runs; ray: the cluster of RAY_ADDRESS, or one started here."""
    out: Path | None = None
    """Folder for compare.html, compare.svg, compare.png, compare.parquet and the runs; default: runs/compare/ENV.
    Finished runs in it are kept: the same command continues after an interrupt."""
    overwrite: bool = False
    """Remove runs with other settings from the folder; without this they are refused."""
    open: bool = False
    """Open the page in a browser."""

    def run(self) -> int:
        """Compare, write the files, and print the answer."""
        print(f"comparing on {self.env} ...", file=sys.stderr, flush=True)  # before anything large is loaded
        from chunked_td.comparison import compare

        out = self.out or Path("runs/compare") / folder_name(self.env, *self.env_kwargs)
        check_folder(out)
        engine = None if self.engine == "local" else self.engine
        given = {"out": out, "minutes": self.minutes, "engine": engine, "overwrite": self.overwrite, **self.settings()}
        try:
            found = compare(self.env, **given)
        except KeyboardInterrupt:
            print("interrupted; finished runs are kept, the same command continues", file=sys.stderr)
            return 130
        files = found.save(out)
        if self.csv:
            files.append(out / "compare.csv")
            found.runs.write_csv(files[-1])
        print(file=sys.stderr, flush=True)
        print(f"{found}\n\nsaved: {', '.join(map(str, files))}")
        if self.open:
            show(out / "compare.html")
        return 0

    def settings(self) -> dict[str, Any]:
        """The settings of `compare`."""
        from chunked_td.comparison.settings import Settings

        check_counts(self, "episodes", "seeds", "max_steps")
        names = (field.name for field in fields(Settings) if field.name != "env")
        same: dict[str, Any] = {name: getattr(self, name) for name in names if hasattr(self, name)}
        own: dict[str, Any] = {
            "epsilon": self.chosen_epsilon(),
            "step_size_schedule": self.step_size_factors(),
            "initial_value": self.initial_value or 0.0,
            "env_settings": keywords_of("env-kwargs", self.env_kwargs),
        }
        return same | own
