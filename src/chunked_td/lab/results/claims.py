"""Claims of the paper and of ours, each judged from stored results by a criterion that is stated beforehand.

    found = load_directory("runs/paper", catalogue())
    for claim in judge_all(found.results, catalogue()):
        print(claim.status, claim.text)

A claim has one of the verdicts of `chunked_td.lab.study`. It is not run where an arm is missing, or ran shorter than
the protocol says. Every study lists its own claims (see `chunked_td.lab.catalogue`); `criteria` has what they are made
of.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chunked_td.lab.errors import DirectoryError, LabError
from chunked_td.lab.results.runs import Results, load_results
from chunked_td.lab.store.batch_store import Store
from chunked_td.lab.store.certify import AGAIN
from chunked_td.lab.store.tables import check_table
from chunked_td.lab.study import FAILS, HOLDS, NOT_RUN, Claim, Study, Verdict
from chunked_td.lab.wording import seeds_text


@dataclass(frozen=True, kw_only=True)
class JudgedClaim(Claim):
    """A claim and what the results say about it.

    Attributes:
      study: id of its study. title: what that is called.
      seeds: how many runs per setting it is judged from; 0 where that is not one number.
      judged_controls: the judged claims that must hold too.
      link: where the report shows it; "" if nowhere.
    """

    study: str
    title: str
    verdict: Verdict
    seeds: int = 0
    judged_controls: tuple[JudgedClaim, ...] = ()
    link: str = ""

    @property
    def status(self) -> str:
        """The verdict's status."""
        return self.verdict.status

    @property
    def evidence(self) -> str:
        """The numbers behind the verdict."""
        return self.verdict.text

    @property
    def contradicted(self) -> bool:
        """Whether a control says otherwise."""
        return self.status == HOLDS and any(control.status == FAILS for control in self.judged_controls)


@dataclass(frozen=True)
class LoadedDirectory:
    """What a run directory holds.

    Attributes:
      store: its batches; None if it has none of its own.
      results: {study or protocol id: `Results`, or what LOAD of a study with a table gives}.
      folders: {study id: folder} of studies with a table.
      damaged: what is wrong with tables that were left out. notes: what else a reader should know of them.
    """

    path: Path
    store: Store | None
    results: dict[str, Any]
    folders: dict[str, Path]
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def report_findings(self) -> int:
        """Tell the user about damaged files; returns 1 if there are some, else 0."""
        code = self.store.report_findings() if self.store else 0
        for text in self.notes:
            print(f"note: {text}", file=sys.stderr)
        for text in self.damaged:
            print(f"damaged: {text}; left out")
        return 1 if self.damaged else code


def load_directory(directory: str | Path, studies: Mapping[str, Study]) -> LoadedDirectory:
    """Everything in a run directory, and the studies with a table in it or beside it."""
    path = Path(directory)
    store = Store.read(path) if (path / "manifest.json").exists() else None
    results: dict[str, Any] = dict(load_results(store)) if store else {}
    found = LoadedDirectory(path, store, results, {})
    for study in studies.values():
        folders = (path / study.id, path.parent / study.id)
        folder = next((each for each in folders if study.table and (each / study.table).is_file()), None)
        if folder is not None:
            try:
                _, digests = check_table(folder / study.table)  # whatever a study's own LOAD reads it with
                if digests > 1:
                    found.notes.append(f"{folder / study.table} has {AGAIN}")
                results[study.id] = study.load(folder)
                found.folders[study.id] = folder
            except LabError as error:
                found.damaged.append(str(error))
    if store is None and not results and not found.damaged:
        raise DirectoryError(f"{path} holds no runs (it has no manifest.json)")
    return found


def judge_all(results: Mapping[str, Any], studies: Mapping[str, Study]) -> list[JudgedClaim]:
    """Every claim of these studies, judged from loaded results. Studies with a table that is not there are left out."""
    present = [study for study in studies.values() if not study.table or study.id in results]
    found = {claim.id: judge_claim(claim, study, results) for study in present for claim in study.claims}
    for claim in found.values():
        controls = tuple(found[name] for name in claim.controls if name in found)
        object.__setattr__(claim, "judged_controls", controls)  # of each other, so not before all are there
    return list(found.values())


def judge_claim(claim: Claim, study: Study, results: Mapping[str, Any]) -> JudgedClaim:
    """Judge one claim of a study."""
    found, seeds = results.get(study.id), 0
    if found is None:
        verdict = Verdict(NOT_RUN, "this study has no runs here")
    elif isinstance(found, Verdict):  # its runs decide nothing
        verdict = found
    elif not isinstance(found, Results):
        try:
            verdict = claim.judge(found, results)
        except Exception as error:  # a table that no run of this study wrote
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            verdict = Verdict(NOT_RUN, f"its table cannot be judged ({what})")
    elif found.shortened:
        verdict = Verdict(NOT_RUN, f"runs are shorter ({found.length:,} episodes) than the protocol says")
    elif missing := [arm.label for arm in found.arms if arm.id in claim.arms and found.find(arm.id) is None]:
        verdict = Verdict(NOT_RUN, f"no runs of full length: {', '.join(missing)}")
    else:
        seeds = min((len(runs.seeds) for name in claim.arms if (runs := found.runs(name)) is not None), default=0)
        verdict = claim.judge(found, results)
    own = {**vars(claim), "short": claim.short or claim.text}
    return JudgedClaim(**own, study=study.id, title=study.title, verdict=verdict, seeds=seeds)


def print_claims(directory: str | Path, studies: Mapping[str, Study]) -> int:
    """Print every claim, judged from a run directory and the studies in it and beside it; returns the exit code.

    It is 1 if stored files are damaged.
    """
    loaded = load_directory(directory, studies)
    code = loaded.report_findings()
    for claim in judge_all(loaded.results, studies):
        print(f"{claim.status.upper():14}{claim.text}")
        seeds = f", {seeds_text(claim.seeds)}" if claim.seeds else ""
        controls = [f"Control: {control.status}: {control.text}" for control in claim.judged_controls]
        lines = f"{claim.study}, {claim.source}{seeds}", *controls, claim.evidence, f"Criterion: {claim.criterion}"
        for line in lines:
            print(textwrap.fill(line, width=110, initial_indent=" " * 14, subsequent_indent=" " * 16))
        print()
    return code


def print_verdicts(study: Study, results: Mapping[str, Any]) -> None:
    """Print the verdicts of one study, a line each; claims that were not judged for the same reason share a line."""
    lines: dict[str, list[JudgedClaim]] = {}
    for claim in judge_all(results, {study.id: study}):
        lines.setdefault(claim.evidence if claim.status == NOT_RUN else claim.text, []).append(claim)
    for claim, *others in lines.values():
        more = f" And {len(others)} more of {study.id}." if others else ""
        print(f"{claim.status.upper():14}{claim.text}{more} ({claim.evidence})")
