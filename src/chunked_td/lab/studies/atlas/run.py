"""`chunked-td atlas`: run what is missing of three scores, keep what is finished, and write the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chunked_td.lab.errors import DONE, UsageError, guarded
from chunked_td.lab.running.plan import SweepOptions
from chunked_td.lab.running.reproduce import RunOptions, run_study
from chunked_td.lab.studies import three_scores
from chunked_td.lab.studies.atlas.families import FAMILIES, read_families
from chunked_td.lab.studies.atlas.families import families as families_of
from chunked_td.lab.studies.atlas.families.family import FamilySize
from chunked_td.lab.studies.atlas.methods import methods_in, on_traces, scored_methods
from chunked_td.lab.studies.atlas.page import RUNS, build_page
from chunked_td.lab.studies.three_scores.protocol import BEHAVIOURS, EXPONENTS, STUDY, score_protocols
from chunked_td.lab.study import Arm

SIZES = {
    "quick": FamilySize(seeds=10, exponents=EXPONENTS[:7:2], middle_only=True),
    "full": FamilySize(seeds=20, exponents=EXPONENTS[::2], middle_only=True),
}
QUICK_FAMILIES = (
    *("delay", "noisy-states", "distractors", "fan-in", "chain-and-split", "charge", "walk", "garnet"),
    *("rooms", "roads", "deep-sea", "slope", "snakes", "homeward", "bridge", "tributaries"),
)
"""Families of the quick profile: short ones, half of them held out."""
LEAST = 4
"""With fewer seeds there is nothing to choose on one half and score on the other."""


def chosen_methods(quick: bool, files: Sequence[str | Path] = ()) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """The methods of a profile, and those in files of the user's."""
    ours = tuple(arm for arm in scored_methods() if arm.quick or not quick)
    given = tuple(on_traces(arm) for file in files for arm in methods_in(file))
    taken = {arm.id for arm in scored_methods()}
    for arm in given:
        if arm.id in taken:
            raise UsageError(f"--method: the id {arm.id!r} is taken; give the source, or its entry in METHODS, another")
        taken.add(arm.id)
    return ours, given


def chosen_families(names: Sequence[str], quick: bool) -> list[str]:
    """Ids of the families that are named, or in files that are named; those of the profile if none is."""
    for name in names:
        if name not in FAMILIES and not name.endswith(".py"):
            raise UsageError(
                f"--families must be among {', '.join(FAMILIES)}, or a Python file with families, got {name!r}"
            )
    named = [found for name in names for found in (read_families(name) if name.endswith(".py") else [name])]
    return named or (list(QUICK_FAMILIES) if quick else [*families_of(False), *families_of(True)])


@guarded
def atlas(
    *,
    out: str | Path,
    profile: str = "quick",
    files: Sequence[str | Path] = (),
    families: Sequence[str] = (),
    seeds: int | None = None,
    greedy: bool = False,
    how: RunOptions | None = None,
) -> int:
    """Run what is missing of the atlas, and answer.

    Args:
      out: run directory.
      profile: "quick" or "full" (`SIZES`).
      files: Python files with methods of the user's.
      families: ids of problem families, or Python files with families; those of the profile if empty.
      seeds: instead of the profile's.
      greedy: take a fourth score, ε-greedy control, which mixes exploration with credit.
      how: where and how batches run.
    Returns:
      exit code, as in `reproduce`.
    """
    size = SIZES[profile]
    size = replace(size, seeds=seeds or size.seeds)
    if size.seeds < LEAST:
        raise UsageError(f"--seeds must be at least {LEAST}: choices are made on one half and scored on the other")
    quick = profile == "quick"
    (ours, given), names = chosen_methods(quick, files), chosen_families(families, quick)
    how, folder = how or RunOptions(), Path(out)
    behaviours = BEHAVIOURS if greedy else BEHAVIOURS[:2]
    protocols = score_protocols([FAMILIES[name] for name in names], (*ours, *given), size, behaviours)
    how.say(
        f"{len(names)} families, {len(ours) + len(given)} methods, {len(size.exponents)} step sizes, {size.seeds} seeds"
    )
    for arm in (arm for arm in given if not getattr(arm.source(), "is_compiled", True)):
        how.say(f"{arm.label} is plain Python: about a hundred times slower; --families and --seeds make it shorter")
    study = replace(STUDY, module=three_scores.__name__, protocols=lambda _: protocols)
    code = run_study(study, SweepOptions("paper"), folder, how, dry_run=False)
    return code if code != DONE else _write(folder, ours, given, how)


@guarded
def atlas_page(folder: str | Path, files: Sequence[str | Path] = (), families: Sequence[str] = ()) -> int:
    """Make the page anew from the runs in a folder; runs nothing.

    Args:
      folder: where runs.parquet is; the page goes there.
      files: Python files with methods of the user's, which the page is then about.
      families: as in `atlas`; files with families that the runs hold have to be named again.
    Returns:
      exit code, as in `reproduce`.
    """
    chosen_families(families, quick=False)
    return _write(Path(folder), *chosen_methods(False, files), RunOptions())


def _write(folder: Path, ours: Sequence[Arm], given: Sequence[Arm], how: RunOptions) -> int:
    page = build_page(folder, {arm.id: arm.label for arm in (*ours, *given)}, [arm.id for arm in given])
    answer = (folder / "tables" / "answer.md").read_text(encoding="utf-8")
    how.say(f"\n{answer}\npage: {page}, from {folder / RUNS}")
    return DONE
