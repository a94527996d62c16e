"""The command `chunked-td`: reproduce, report, train, compare, claims, bench.

Exit codes: 0 done, 1 something failed, 2 usage, 3 run directory unusable, 4 writing failed, 130 interrupted.
Imports stay inside the commands, so that each starts quickly.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments and build the report. Finished work is never repeated."""

    experiments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Experiment ids, or .py files with a PROTOCOL of your own; none means all."""
    profile: Literal["quick", "paper", "smoke"] = "quick"
    """quick: network arms reduced, all else at the full protocol; paper: everything in full; smoke: tiny."""
    engine: Literal["local", "ray"] = "local"
    """Where batches run."""
    out: Path = Path("runs/quick")
    """Run directory: stored runs, figures and report.html."""
    address: str | None = None
    """Ray cluster to connect to; by default one is started here."""
    arms: tuple[str, ...] = ()
    """Only these arms: ids, patterns such as 'sarsa-*', or groups (fixed, counts, oracle, network)."""
    seeds: int | None = None
    """Number of seeds instead of the protocol's; runs that are stored are reused."""
    episodes: int | None = None
    """Episodes per run instead of the protocol's."""
    networks: bool = True
    """Include arms whose λ comes from a network."""
    threads: int | None = None
    """Threads; default: one per core. Results do not depend on it."""
    log: tuple[Literal["wandb", "tensorboard"], ...] = ()
    """Live logging."""
    import_from: Annotated[Path | None, tyro.conf.arg(name="import")] = None
    """First take in batches that another host ran with python -m chunked_td.lab.remote."""
    dry_run: bool = False
    """Print the plan and its estimated time; change nothing."""
    report: bool = True
    """Build figures and report.html at the end."""
    open: bool = False
    """Open the report in a browser."""

    def run(self) -> int:
        """Run it."""
        from chunked_td.lab import commands

        if self.import_from is not None:
            code = commands.import_batches(self.import_from, out=self.out, experiments=_files(self.experiments))
            if code:
                return code
        code = commands.reproduce(
            self.experiments,
            out=self.out,
            profile=self.profile,
            engine=self.engine,
            address=self.address,
            arms=self.arms,
            seeds=self.seeds,
            episodes=self.episodes,
            networks=self.networks,
            threads=self.threads,
            log=self.log,
            dry_run=self.dry_run,
        )
        if code not in (0, 1) or self.dry_run or not self.report:
            return code
        return _report(self.out, only_if_stale=True, open_it=self.open) or code


@dataclass(frozen=True)
class Report:
    """Rebuild figures and report.html from stored runs."""

    directory: tyro.conf.Positional[Path]
    """Run directory."""
    open: bool = False
    """Open the report in a browser."""

    def run(self) -> int:
        """Build it."""
        return _report(self.directory, only_if_stale=False, open_it=self.open)


@dataclass(frozen=True)
class Train:
    """Train a learner on a Gymnasium environment; saves agent, learning curve and its numbers."""

    env: tyro.conf.Positional[str]
    """Environment id, such as FrozenLake-v1 or package:Id-v0."""
    learner: str = "ChunkedSarsa"
    """Any learner of the package, such as ChunkedSarsa or SarsaLambda."""
    episodes: int = 5_000
    """Episodes to train for."""
    max_steps: int = 1_000
    """Steps after which an episode is cut off, where the environment sets no limit."""
    step_size: float | None = None
    """α; default: 0.1."""
    discount: float = 0.99
    """γ."""
    epsilon: float | None = None
    """Exploration; default: 0.1."""
    lambda_: Annotated[float | None, tyro.conf.arg(name="lambda")] = None
    """λ of the fixed-λ learners."""
    seed: int = 0
    """Seed of learner and environment."""
    out: Path | None = None
    """Folder for agent.ctd, curve.png and curve.parquet; default: runs/train/ENV-LEARNER-SEED."""
    resume: bool = False
    """Go on from the agent in the folder, for so many episodes more."""
    overwrite: bool = False
    """Start again where the folder holds an agent."""

    def run(self) -> int:
        """Train."""
        from chunked_td.trying import train_command

        return train_command(self)


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
        """Compare."""
        from chunked_td.trying import compare_command

        return compare_command(self)


@dataclass(frozen=True)
class Claims:
    """Which claims of the paper hold, by stored runs and a stated criterion."""

    directory: tyro.conf.Positional[Path | None] = None
    """Run directory; default: the committed results, or runs/quick."""

    def run(self) -> int:
        """Print the ledger."""
        from chunked_td.lab.claims import print_claims
        from chunked_td.lab.commands import guarded

        directory = self.directory or next((p for p in (Path("results/paper"), Path("runs/quick")) if p.exists()), None)
        if directory is None:
            print("error: no run directory; run `chunked-td reproduce` first, or name one", file=sys.stderr)
            return 2
        return guarded(lambda: print_claims(directory))


@dataclass(frozen=True)
class Bench:
    """Measure speed against plain NumPy and C, in one run, as ratios."""

    only: tyro.conf.Positional[tuple[str, ...]] = field(default=())
    """Names of benchmarks; none means all that run on a CPU."""
    quick: bool = False
    """Smaller sizes."""

    def run(self) -> int:
        """Measure."""
        from chunked_td.benching import bench_command

        return bench_command(self.only, self.quick)


Command = Reproduce | Report | Train | Compare | Claims | Bench


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `chunked-td`."""
    from chunked_td.lab.commands import leave

    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        from chunked_td import __version__

        print(__version__)
        return
    command = tyro.cli(Command, prog="chunked-td", description=__doc__.split("\n")[0], args=arguments)  # type: ignore[arg-type]
    code = 130
    try:
        code = command.run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2 if isinstance(error, ValueError) else 4
    leave(code)


def _files(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.endswith(".py")]


def _report(directory: Path, *, only_if_stale: bool, open_it: bool) -> int:
    from chunked_td.lab.commands import guarded

    def work() -> int:
        page = directory / "report.html"
        if not (only_if_stale and page.exists() and page.stat().st_mtime >= _newest(directory)):
            from chunked_td.lab.report import build_report

            page = build_report(directory, None)
        print(f"report: {page}")
        if open_it:
            import webbrowser

            webbrowser.open(page.resolve().as_uri())
        return 0

    return guarded(work)


def _newest(directory: Path) -> float:
    """When the stored runs last changed."""
    return max((path.stat().st_mtime for path in directory.rglob("*.parquet")), default=0.0)


if __name__ == "__main__":
    main()
