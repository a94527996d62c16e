"""`chunked-td claims`: which claims hold, by stored runs and stated criteria."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import tyro

from chunked_td.cli._shared import command
from chunked_td.lab.errors import guarded


@command
class Claims:
    """Which claims of the paper hold, by stored runs and a stated criterion.

    For example:
        chunked-td claims
        chunked-td claims runs/quick
    """

    directory: tyro.conf.Positional[Path | None] = None
    """Run directory; default: the committed results, or runs/quick."""
    experiments: tuple[str, ...] = ()
    """Files and folders of experiments of your own, for their claims."""

    @partial(guarded, kept="")
    def run(self) -> int:
        """Print every claim with its status, numbers and criterion."""
        from chunked_td.lab.catalogue import known
        from chunked_td.lab.results.claims import print_claims

        directory = self.directory or next((p for p in (Path("results/paper"), Path("runs/quick")) if p.exists()), None)
        if directory is None:
            print("error: no run directory; run `chunked-td reproduce` first, or name one", file=sys.stderr)
            return 2
        return print_claims(directory, known(self.experiments))
