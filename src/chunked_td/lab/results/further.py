"""Claims of studies that are not yet in `chunked_td.lab.studies`.

Each study writes its tables into a folder beside the run directory: `results/compression`, `results/deep`,
`results/hidden`. What is not there is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, Claim, Verdict

if TYPE_CHECKING:
    from chunked_td.lab.results.claims import JudgedClaim


def FurtherClaim(
    name: str,
    study: str,
    source: str,
    text: str,
    criterion: str,
    status: str,
    evidence: str,
    short: str,
    data: Path,
    controls: tuple[str, ...] = (),
) -> JudgedClaim:
    """A judged claim whose data lie in a file."""
    from chunked_td.lab.results.claims import JudgedClaim

    verdict = Verdict(status, evidence)
    claim = Claim(name, source, text, criterion, (), lambda *_: verdict, short, controls)
    return JudgedClaim(claim, study, TITLES[study], verdict, link=str(data) if data.is_file() else "")


TITLES = {
    "compression": "History compressor",
    "deep": "Networks, a λ per step",
    "hidden": "Hidden state: memory, and λ from the history",
}
"""What the report calls the studies."""


def further_claims(*roots: Path) -> list[JudgedClaim]:
    """The claims of every study whose data lie in one of `roots`; in the first of them, if in several.

    They are "not run" where the runs are of a tiny size.
    """
    found: list[JudgedClaim] = []
    for name, claims in (("compression", _compression), ("deep", _deep), ("hidden", _hidden)):
        place = next((root / name for root in roots if (root / name).is_dir()), None)
        if place is not None:
            short = _shortened(place)
            found += (replace(c, verdict=Verdict(NOT_RUN, short)) if short else c for c in claims(place))
    return found


def _compression(folder: Path) -> Iterator[JudgedClaim]:
    """The history compressor (§2.2, Figure 1), by the rule of `chunked_td.compression.study`."""
    import polars as pl

    from chunked_td.compression import study

    path = folder / "comparison.parquet"
    if not path.is_file():
        return
    table: dict[str, Any] = {column.name: column.to_numpy() for column in pl.read_parquet(path)}
    judged = study.verdict(table)
    status = {"holds": HOLDS, "fails": FAILS, "in part": IN_PART, "not tested": NOT_RUN}
    single = [(arm, str(cell)) for arm, cell in study.ARMS if arm != "compressor"]
    longest = {f"{arm}, {cell}": study.longest_solved(table, arm, cell) for arm, cell in single}
    solved = {f"{cell}": study.longest_solved(table, "compressor", str(cell)) for _, cell in study.ARMS}
    seeds = len(set(table["seed"].tolist()))
    reach = "; ".join(f"{name}: {n:,}" if n else f"{name}: none" for name, n in longest.items())
    noise = study.longest_solved(table, "compressor", "gru", "noise")
    yield FurtherClaim(
        "compressor-easy",
        "compression",
        "§2.2",
        "Two-level Chunker-RNNs easily solve two sequences that differ in their first and last symbol, N steps apart.",
        f"One step size for all N from 5 to {study.LONGEST:,}: solved in {study.EASY_RATE:.0%} of the seeds at every "
        f"N, with at most {study.EASY_GROWTH:g} times the sequences at the largest N. In part: only up to N = 100, or "
        "more sequences.",
        status[judged["easily solves"]],
        f"{seeds} seeds; largest N that {study.EASY_RATE:.0%} of the seeds solve: "
        + "; ".join(f"{cell}: {n:,}" for cell, n in solved.items()),
        "easily solves the long sequences",
        folder / "tables" / "known.md",
        ("compressor-noise",),
    )
    yield FurtherClaim(
        "compressor-noise",
        "compression",
        "ours, a control",
        "With noise in the middle it solves them, too.",
        f"With a GRU, {study.EASY_RATE:.0%} of the seeds solve them at N = {study.LONGEST:,}.",
        HOLDS if noise >= study.LONGEST else FAILS,
        f"gru: up to N = {noise:,}",
        "with noise in the middle, too",
        folder / "tables" / "known.md",
    )
    yield FurtherClaim(
        "compressor-rnn",
        "compression",
        "§2.2",
        "A standard RNN finds the same problem challenging.",
        f"A plain network with full back-propagation solves it in fewer than {study.HARD_RATE:.0%} of the seeds for "
        f"every N ≥ {study.HARD_FROM}.",
        status[judged["a standard RNN finds it challenging"]],
        f"largest N that {study.EASY_RATE:.0%} of the seeds of a single network solve, at its best step size: {reach}",
        "a standard RNN does not",
        folder / "tables" / "known.md",
    )


def _deep(folder: Path) -> Iterator[JudgedClaim]:
    """λ per step in deep reinforcement learning, by the rule of `chunked_td.deep.criteria`."""
    path = folder / "verdicts.json"
    if not path.is_file():
        return
    for agent, judged in json.loads(path.read_text(encoding="utf-8")).items():
        moon = judged["moonshot"]
        source, rival, _ = _best(moon["means"])
        gates = [task["gate"] for task in judged["tasks"].values()]
        evidence = f"best source {source}, best fixed λ {rival}"
        if (once := judged["sets"].get("without the twin")) is not None and once["moonshot over"] != list(
            judged["tasks"]
        ):
            source, rival, _ = _best(once["moonshot"]["means"])
            evidence += f" (with CartPole once instead of twice: {source} and {rival}, {once['moonshot']['verdict']})"
        yield FurtherClaim(
            f"deep-{agent}",
            "deep",
            "ours; §6 names it as the next step",
            f"A λ per step beats every fixed λ for {agent}, over {len(judged['tasks'])} tasks.",
            "One source has a mean over tasks above that of every fixed λ, intervals disjoint, and is no worse than "
            "5 % on any task. First the gate: λ from the true model must help.",
            HOLDS if moon["verdict"] == "holds" else FAILS,
            f"{evidence}; the gate was passed on {gates.count('passed')} of {len(gates)} tasks",
            f"beats every fixed λ for {agent}",
            folder / "tables" / "moonshot.md",
        )


def _shortened(folder: Path) -> str:
    """Why a study's runs decide nothing: they are of a tiny size; "" where they are not."""
    about = folder / "study.json"
    size = json.loads(about.read_text(encoding="utf-8")).get("size", "full") if about.is_file() else "full"
    return "" if size == "full" else f"runs are of size {size!r}, the study's is 'full'"


def _best(estimates: Mapping[str, Mapping[str, float]]) -> tuple[str, str, dict[str, float]]:
    """The best source and the best fixed λ, each with its mean over tasks; and the means by arm."""
    means = {arm: estimate["value"] for arm, estimate in estimates.items()}
    fixed = [arm for arm in means if arm.replace(".", "").isdigit()]
    sources = [arm for arm in means if arm not in fixed]
    source, rival = (max(arms, key=lambda arm: means[arm]) for arms in (sources, fixed))
    return f"{source} {means[source]:.3f}", f"{rival} {means[rival]:.3f}", means


def _hidden(folder: Path) -> Iterator[JudgedClaim]:
    """λ and memory where percepts hide the state, by the rule of `chunked_td.deep.hidden_criteria`."""
    path = folder / "verdicts.json"
    if not path.is_file():
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    status = {"holds": HOLDS, "fails": FAILS, "in part": IN_PART}
    for agent, judged in found["claims"].items():
        reach = (f"{task}: {r['kept']} and {r['state']}" for task, r in judged["reach"].items())
        yield FurtherClaim(
            f"hidden-memory-{agent}",
            "hidden",
            "ours, after §2.2",
            f"For {agent}, the last percepts that a model did not predict carry a signal farther than its recurrent "
            "state.",
            "The greatest corridor that 90 % of the seeds solve, at the best λ, is at least as long on every task and "
            "longer on one.",
            status[judged["memory"]],
            "greatest N, kept percepts and recurrent state: " + "; ".join(reach),
            f"{agent}: kept percepts are the better memory",
            folder / "tables" / "reach.md",
        )
    for name, judged in found["memories"].items():
        agent, memory = name.split(", ")
        reads = "the last kept percepts" if memory == "kept" else "the recurrent state"
        source, rival, means = _best(judged["moonshot"]["means"])
        gates = [cell["gate"] for cell in judged["cells"].values()]
        yield FurtherClaim(
            f"hidden-score-{agent}-{memory}",
            "hidden",
            "ours; §6 names it as the next step",
            f"With hidden state, λ = P(next percept | history, action) beats every fixed λ for {agent} with values on "
            f"{reads}.",
            "One form has a mean over tasks and lengths above that of every fixed λ, intervals disjoint, and is no "
            "worse than 5 % on any. First the gate: λ from the true model must help.",
            status[judged["score claim"]],
            f"best form {source}, best fixed λ {rival}, 0.95 {means['0.95']:.3f}; "
            f"the gate was passed on {gates.count('passed')} of {len(gates)} cells",
            f"{agent}, {memory}: beats every fixed λ",
            folder / "tables" / f"scores-{agent}-{memory}.md",
        )
        reaches = (f"{task}: {r['recurrent']} against {r['best fixed']}" for task, r in judged["reach"].items())
        yield FurtherClaim(
            f"hidden-reach-{agent}-{memory}",
            "hidden",
            "ours",
            f"That λ solves corridors as long as the best fixed λ of each task, for {agent} with values on {reads}.",
            "The greatest N that 90 % of the seeds solve is at least that of every fixed λ on every task, and no "
            "single fixed λ has that property. In part: some single fixed λ has it, too.",
            status[judged["reach claim"]],
            "greatest N against that of the best fixed λ: " + "; ".join(reaches),
            f"{agent}, {memory}: reaches as far as fixed λ",
            folder / "tables" / "reach.md",
        )
