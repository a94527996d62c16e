"""`chunked-td atlas`: a λ idea at three scores, beside fixed λs and the package's methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chunked_td.cli._shared import check_counts, command
from chunked_td.cli.problem import EngineOptions


@command
class Atlas(EngineOptions):
    """How good is a way to assign credit, at values, at decisions and in control? A page answers, family by family.

    For example:
        chunked-td atlas --method mine.py --out runs/mine
        chunked-td atlas --families delay walk
    """

    profile: Literal["quick", "full"] = "quick"
    """quick: some families, few methods, step sizes and seeds; full: all."""
    out: Path = Path("runs/atlas")
    """Run directory; what is there already is not repeated."""
    lambda_source: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(aliases=("--method",))] = ()
    """A Python file with λ sources of your own (mine.py or mine.py:MyLambda), which the page is then about; may be
    given several times."""
    families: tuple[str, ...] = ()
    """Only these families of problems, or those in a Python file of yours."""
    seeds: int | None = None
    """Seeds instead of the profile's; at least 4."""
    greedy: bool = False
    """A fourth score: ε-greedy control, which mixes exploration with credit."""
    page_only: bool = False
    """Run nothing; make the page anew from runs.parquet in the run directory."""

    def run(self) -> int:
        """Run it."""
        from chunked_td.lab.studies.atlas.run import atlas, atlas_page

        if self.page_only:
            return atlas_page(self.out, self.lambda_source, self.families)
        check_counts(self, "seeds", "threads")
        return atlas(
            out=self.out,
            profile=self.profile,
            files=self.lambda_source,
            families=self.families,
            seeds=self.seeds,
            greedy=self.greedy,
            how=self.how(),
        )
