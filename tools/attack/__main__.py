"""`python -m tools.attack`: try hostile cases for some minutes and print tries and outcomes as a table."""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import time
from pathlib import Path

from tools.attack import harness, registry


def about() -> str:
    """A heading for the table: which sources were attacked, and how their kernels ran."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    switches = ("CHUNKED_TD_BOUNDSCHECK", "NUMBA_DISABLE_JIT")
    how = " ".join(f"{name}=1" for name in switches if os.environ.get(name) == "1") or "as they are used"
    return f"# The standing attack\n\n`python -m tools.attack` at commit {commit}, kernels: {how}.\n"


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 if nothing bad was found, 1 if something was or an attack was hardly tried."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="budget of time")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same cases")
    parser.add_argument("--workers", type=int, default=2, help="child processes")
    parser.add_argument("--only", default="*", help="attacks whose names match this pattern")
    parser.add_argument("--without", nargs="*", default=(), help="but not those whose names match these")
    parser.add_argument("--least", type=int, default=20, help="tries of each attack below which this fails")
    parser.add_argument("--tries", type=int, default=None, help="at most so many tries of each attack")
    parser.add_argument("--case", type=int, default=None, help="try this one case of each attack")
    parser.add_argument("--table", type=Path, default=None, help="write the table to this file too")
    options = parser.parse_args(arguments)
    attacks = [
        found
        for name, found in sorted(registry.load().items())
        if name == options.only or (found.share > 0 and fnmatch.fnmatch(name, options.only))
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.without)
    ]
    if not attacks:
        parser.error(f"--only {options.only!r} matches none of {sorted(registry.ATTACKS)}")
    one = options.case is not None
    least = 1 if one else min(options.least, options.tries or options.least)
    began = time.monotonic()
    tally = harness.run(
        attacks,
        options.seed,
        60 * options.minutes,
        workers=options.workers,
        tries=1 if one else options.tries,
        first=options.case if one else 0,
        least=least,
    )
    minutes = (time.monotonic() - began) / 60
    head = f"{tally.tries:,} tries in {minutes:.1f} minutes, seed {options.seed}, {len(tally.findings)} findings"
    text = f"{head}\n\n{tally.table()}\n"
    findings = [f"{one.outcome}: {one.attack!r} --case {one.number}: {one.text}" for one in tally.findings[:50]]
    too_few = tally.too_few(attacks, least)
    if too_few:
        findings.append(f"fewer than {least} tries: {', '.join(too_few)}")
    print(text, *findings, sep="\n")
    if options.table is not None:
        first = [f"- {one.splitlines()[0][:300]}" for one in findings]
        options.table.write_text("\n".join([about(), text, *first]).strip() + "\n", encoding="utf-8")
    return 1 if tally.findings or too_few else 0


if __name__ == "__main__":
    sys.exit(main())
