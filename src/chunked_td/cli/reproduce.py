"""`chunked-td reproduce`: run experiments and build the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from chunked_td.cli.report import build, say_if_stale


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments and build the report. Finished work is never repeated."""

    experiments: tyro.conf.Positional[tuple[str, ...]] = ()
    """Experiment ids, or files and folders of your own with a PROTOCOL; none means all."""
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
    """First take in batches that another host ran with python -m chunked_td.lab.running.remote."""
    dry_run: bool = False
    """Print the plan and its estimated time; change nothing."""
    report: bool = True
    """Build figures and report.html at the end."""
    open: bool = False
    """Open the report in a browser."""

    def run(self) -> int:
        """Run it."""
        from chunked_td.lab.running.reproduce import reproduce

        if self.import_from is not None and (code := self._import(self.import_from)):
            return code
        code = reproduce(
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
            if not self.dry_run:
                say_if_stale(self.out)
            return code
        return build(self.out, self.experiments, only_if_stale=True, open_it=self.open) or code

    def _import(self, source: Path) -> int:
        from chunked_td.lab.errors import guarded
        from chunked_td.lab.experiments import known
        from chunked_td.lab.store.importing import import_batches

        def work() -> int:
            protocols = {name: experiment.protocol for name, experiment in known(self.experiments).items()}
            return import_batches(source, self.out, protocols)

        return guarded(work)
