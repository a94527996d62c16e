"""Claims of the paper and of ours, each judged from stored runs by a criterion that is stated beforehand.

    for claim in judge_all(load_studies(Store.read("runs/paper")), catalogue()):
        print(claim.status, claim.text)

A claim holds, does not hold, or is undecided with this many seeds; it is not run where an arm is missing, or ran
shorter than the protocol says. Every experiment lists its own claims (see `chunked_td.lab.experiments`); `criteria` has
what they are made of.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td.lab.results.criteria import NOT_RUN, Verdict
from chunked_td.lab.results.further import further_claims
from chunked_td.lab.results.studies import Study, load_studies
from chunked_td.lab.results.wording import seeds_text
from chunked_td.lab.store.batch_store import Store

if TYPE_CHECKING:
    from chunked_td.lab.experiments import Experiment


@dataclass(frozen=True)
class Claim:
    """A claim before it is judged.

    Args:
      id: stable short name.
      source: where the paper says it, or "ours".
      text: the claim.
      criterion: when it holds.
      arms: ids of the arms that must have runs of full length.
      judge: `judge(study, studies)` gives the verdict from the experiment's runs and those of all experiments.
      short: what the table of verdicts calls it; "" is the text.
      controls: ids of claims that must hold too before this one means what it seems to say. Their verdicts are shown
        beside its own.
      figure: what shows it in the report: id of a plot, or "table-" and the name of a table; "" is the first plot.
    """

    id: str
    source: str
    text: str
    criterion: str
    arms: tuple[str, ...]
    judge: Callable[[Study, Mapping[str, Study]], Verdict]
    short: str = ""
    controls: tuple[str, ...] = ()
    figure: str = ""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and what the runs say about it.

    Attributes:
      experiment: id of its protocol.
      status: "holds", "holds in part", "does not hold", "undecided" or "not run".
      evidence: the numbers.
      seeds: how many runs per setting it is judged from.
    """

    claim: Claim
    experiment: str
    status: str
    evidence: str
    seeds: int

    @property
    def id(self) -> str:
        """The claim's id."""
        return self.claim.id

    @property
    def text(self) -> str:
        """The claim's text."""
        return self.claim.text


def judge_all(studies: Mapping[str, Study], experiments: Mapping[str, Experiment]) -> list[JudgedClaim]:
    """Every claim of these experiments, judged from loaded studies."""
    return [judge_claim(claim, name, studies) for name, e in experiments.items() for claim in e.claims]


def judge_claim(claim: Claim, experiment: str, studies: Mapping[str, Study]) -> JudgedClaim:
    """Judge one claim of an experiment."""
    study = studies.get(experiment)
    if study is None:
        return JudgedClaim(claim, experiment, NOT_RUN, "this experiment has no runs here", 0)
    missing = [arm.label for arm in study.arms if arm.id in claim.arms and study.find(arm.id) is None]
    if study.shortened:
        verdict = Verdict(NOT_RUN, f"runs are shorter ({study.length:,} episodes) than the protocol says")
    elif missing:
        verdict = Verdict(NOT_RUN, f"no runs of full length: {', '.join(missing)}")
    else:
        counts = [len(runs.seeds) for name in claim.arms if (runs := study.runs(name)) is not None]
        verdict = claim.judge(study, studies)
        return JudgedClaim(claim, experiment, verdict.status, verdict.evidence, min(counts, default=0))
    return JudgedClaim(claim, experiment, verdict.status, verdict.evidence, 0)


def print_claims(directory: str | Path, experiments: Mapping[str, Experiment]) -> int:
    """Print every claim, judged from a run directory and the studies in it and beside it; returns the exit code.

    It is 1 if stored files are damaged.
    """
    store = Store.read(directory)
    code = store.report_findings()
    judged_claims = judge_all(load_studies(store), experiments)
    found = {judged.id: judged for judged in judged_claims}
    for judged in judged_claims:
        claim = judged.claim
        seeds = f", {seeds_text(judged.seeds)}" if judged.seeds else ""
        where = f"{judged.experiment}, {claim.source}{seeds}"
        controls = [f"{found[name].status}: {found[name].text}" for name in claim.controls if name in found]
        _print_claim(judged.status, claim.text, where, controls, judged.evidence, claim.criterion)
    for other in further_claims(Path(directory), Path(directory).parent):
        controls = [f"{status}: {text}" for status, text in other.controls]
        where = f"{other.study}, {other.source}"
        _print_claim(other.status, other.text, where, controls, other.evidence, other.criterion)
    return code


def _print_claim(status: str, text: str, where: str, controls: Sequence[str], evidence: str, criterion: str) -> None:
    print(f"{status.upper():14}{text}")
    for line in (where, *(f"Control: {control}" for control in controls), evidence, f"Criterion: {criterion}"):
        print(textwrap.fill(line, width=110, initial_indent=" " * 14, subsequent_indent=" " * 16))
    print()
