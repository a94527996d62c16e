"""`chunked-td atlas`: every way of assigning credit on every problem, as a map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chunked_td.cli._shared import check_counts, command
from chunked_td.cli.problem import EngineOptions


@command
class Atlas(EngineOptions):
    """Which way of assigning credit works where? Every method on every problem, and a page that shows it.

    For example:
        chunked-td atlas
        chunked-td atlas --lambda-source mine.py --families corridor wandering
    """

    profile: Literal["quick", "full"] = "quick"
    """quick: one problem a family, fewer methods, step sizes and seeds; full: all."""
    out: Path = Path("runs/atlas")
    """Run directory; what is there already is not repeated."""
    lambda_source: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(aliases=("--method",))] = ()
    """A Python file with λ sources of your own (mine.py or mine.py:MyLambda), to be put on the map; may be given
    several times."""
    families: tuple[str, ...] = ()
    """Only these families of problems."""
    seeds: int | None = None
    """Seeds instead of the profile's."""
    page_only: bool = False
    """Run nothing; make the page anew from scores.parquet in the run directory."""

    def run(self) -> int:
        """Run it."""
        from chunked_td.lab.studies.atlas.run import atlas, atlas_page

        if self.page_only:
            return atlas_page(self.out, self.lambda_source)
        check_counts(self, "seeds", "threads")
        return atlas(
            out=self.out,
            profile=self.profile,
            files=self.lambda_source,
            families=self.families,
            seeds=self.seeds,
            how=self.how(),
        )
