"""Run the atlas, keep what is finished, write the table of scores and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chunked_td.lab.errors import DONE, UsageError, guarded
from chunked_td.lab.running.plan import SweepOptions
from chunked_td.lab.running.reproduce import RunOptions, run_study
from chunked_td.lab.studies.atlas.families import FAMILIES, read_families
from chunked_td.lab.studies.atlas.methods import builtin_methods, methods_in
from chunked_td.lab.studies.atlas.protocol import PROFILES, STUDY, AtlasProfile, problems, protocol_of
from chunked_td.lab.study import Arm


def chosen_methods(profile: AtlasProfile, files: Sequence[str | Path] = ()) -> tuple[Arm, ...]:
    """The methods of a profile, and those in files of the user's."""
    ours = [method for method in builtin_methods() if method.quick or not profile.middle_only]
    given = [method for file in files for method in methods_in(file)]
    taken = {method.id for method in ours}
    for method in given:
        if method.id in taken:
            raise UsageError(
                f"--lambda-source: the id {method.id!r} is taken; give the source, or its entry in METHODS, another"
            )
        taken.add(method.id)
    return (*ours, *given)


@guarded
def atlas(
    *,
    out: str | Path,
    profile: str = "quick",
    files: Sequence[str | Path] = (),
    families: Sequence[str] = (),
    seeds: int | None = None,
    how: RunOptions | None = None,
) -> int:
    """Run what is missing of the atlas, and draw it.

    Args:
      out: run directory.
      profile: "quick" or "full" (`PROFILES`).
      files: Python files with methods of the user's.
      families: ids of problem families, or Python files with families; all of the package's if empty.
      seeds: instead of the profile's.
      how: where and how batches run.
    Returns:
      exit code, as in `reproduce`.
    """
    for name in families:
        if name not in FAMILIES and not name.endswith(".py"):
            known = ", ".join(FAMILIES)
            raise UsageError(f"--families must be among {known}, or a Python file with families, got {name!r}")
    named = [found for name in families for found in (read_families(name) if name.endswith(".py") else [name])]
    size = PROFILES[profile]
    size = replace(size, families=tuple(named) or None, seeds=seeds or size.seeds, controls=bool(files))
    methods, keys, folder = chosen_methods(size, files), problems(size), Path(out)
    how = how or RunOptions()
    how.say(f"{len(keys)} problems, {len(methods)} methods, {len(size.exponents)} step sizes, {size.seeds} seeds")
    study = replace(STUDY, module=__package__, protocols=lambda _: [protocol_of(key, methods, size) for key in keys])
    code = run_study(study, SweepOptions("paper"), folder, how, dry_run=False)
    if code != DONE:
        return code
    from chunked_td.lab.studies.atlas.report import build_page
    from chunked_td.lab.studies.atlas.results import SCORES, read_scores, steps_in

    frame = read_scores(folder / SCORES)
    steps = steps_in(frame)
    how.say(f"{frame.height:,} runs" + ("" if steps is None else f", {steps:,} environment steps"))
    page, yours = build_page(folder, methods), folder / "tables" / "yours.md"
    if yours.is_file():
        how.say(f"\n{yours.read_text(encoding='utf-8')}")
    how.say(f"page: {page}")
    return DONE


@guarded
def atlas_page(folder: str | Path, files: Sequence[str | Path] = ()) -> int:
    """Make the page anew from scores.parquet in a folder; runs nothing.

    Args:
      folder: where scores.parquet is; the page goes there.
      files: Python files with methods of the user's, for their labels.
    Returns:
      exit code, as in `reproduce`.
    """
    from chunked_td.lab.studies.atlas.report import build_page

    print(f"page: {build_page(Path(folder), chosen_methods(PROFILES['full'], files))}", flush=True)
    return DONE
