"""The tables of the first atlas, whose scores are ε-greedy control, from the table of runs alone.

`chunked-td atlas` measures three scores instead (`page`). What is here judges the stored runs, and runs of `chunked-td
reproduce atlas`, by the criterion and the claims that were written for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td.lab.report.page import render, write_parts
from chunked_td.lab.results.tables import Table
from chunked_td.lab.store.directory import write_or_explain
from chunked_td.lab.studies.atlas.claims import CLAIMS, model_losses
from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.studies.atlas.methods import FIXED_GROUP, atlas_arm, builtin_methods
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.ranking import (
    GOOD_ENOUGH,
    AtlasBootstrap,
    best_single_fixed,
    cross_fitted_table,
    estimate_text,
    ranked,
    score_text,
)
from chunked_td.lab.studies.atlas.results import (
    CRITERION,
    AtlasResults,
    CreditMap,
    WrittenVerdict,
    control_pairs,
    make_atlas,
    verdict,
)

if TYPE_CHECKING:
    import polars as pl

GROUP_ORDER = ("yours", "chunked", FIXED_GROUP, "other λ", "other updates", "planning", "wrong model")
LAMBDA_GROUPS = ("chunked", "other λ", "yours")
"""Groups of methods that are λ sources: what the criterion is about."""


def PAGE(folder: Path, results: AtlasResults) -> Path:
    """Write the tables of the study's folder, and a page that shows them."""
    view = AtlasView(results.frame)
    write_parts(folder, view.documents())
    page = render(
        "tables.html",
        with_plotly=False,
        title="The first atlas: which way of assigning credit works where, by ε-greedy control",
        headline=f"{len(view.rows)} methods on {len(view.problems)} problems. A relative score of 0 is the worst fixed "
        "λ on a problem and 1 the best one in hindsight; square brackets are 95 % intervals.",
        tables=view.tables(),
    )
    write_or_explain(folder / "atlas.html", page.encode())
    return folder / "atlas.html"


class AtlasView:
    """What the tables show, computed once from the table of runs that `results.COLLECT` gives."""

    def __init__(self, frame: pl.DataFrame):
        self.frame = frame
        self.atlas: CreditMap = make_atlas(frame)
        given = {method.id: method for method in builtin_methods()}
        self.methods = {name: given.get(name, atlas_arm(name, name, "yours", None)) for name in self.atlas.methods}
        self.problems = self.atlas.main()
        self.bootstrap = AtlasBootstrap(self.atlas)
        self.rows = ranked(self.atlas, self.problems, self.bootstrap)

    def label(self, method: str) -> str:
        """What a method is called."""
        return self.methods[method].label if method in self.methods else method

    @property
    def families(self) -> dict[str, tuple[ProblemKey, ...]]:
        """The problems of each family that was run, without controls."""
        names = dict.fromkeys(key.family for key in self.problems)
        return {name: tuple(key for key in self.problems if key.family == name) for name in names}

    @property
    def groups(self) -> dict[str, list[str]]:
        """Ids of the methods in each group: fixed λs in their order, others best first."""
        order = {row.method: place for place, row in enumerate(self.rows)}
        found: dict[str, list[str]] = {}
        names = dict.fromkeys([*GROUP_ORDER, *(method.group for method in self.methods.values())])
        for group in names:
            listed = [name for name in self.atlas.methods if self.methods[name].group == group]
            if group != FIXED_GROUP:
                listed.sort(key=lambda name: order.get(name, len(order)))
            if listed:
                found[group] = listed
        return found

    @property
    def main_methods(self) -> list[str]:
        """Methods of the panels: the user's, the main chunked ones, the best of every other group."""
        found = []
        for group, listed in self.groups.items():
            there = [name for name in listed if self.atlas.has(name, self.problems)]
            if group == FIXED_GROUP:
                found.append(best_single_fixed(self.atlas, self.problems))
            elif group in ("chunked", "yours"):
                found += [name for name in there if self.methods[name].quick]
            else:
                found += there[:1]
        return found

    def parts(self) -> dict[str, tuple[ProblemKey, ...]]:
        """All problems, those used for design and those held out; only what was run."""
        parts = {
            "All problems": self.problems,
            "Families used for design": self.atlas.held_out(False),
            "Families held out": self.atlas.held_out(True),
        }
        return {name: keys for name, keys in parts.items() if keys}

    def judgements(self) -> list[tuple[str, int, WrittenVerdict]]:
        """The criterion on all problems, on those used for design and on those held out: (where, how many, verdict)."""
        if self.candidate is None:
            return []
        return [(where, len(keys), verdict(self.atlas, self.candidate, keys)) for where, keys in self.parts().items()]

    @cached_property
    def candidate(self) -> str | None:
        """The λ source that the criterion is applied to: the best mean over the families used for design."""
        order = self.atlas.ranking(self.atlas.held_out(False) or self.problems)
        found = [name for name in order if self.methods[name].group in LAMBDA_GROUPS]
        return next((name for name in found if self.atlas.has(name, self.problems)), None)

    def ranking_table(self) -> Table:
        """Every method that was run on all problems."""
        count = len(self.problems)
        rows = tuple(
            (
                self.label(row.method),
                self.methods[row.method].group,
                estimate_text(row.mean),
                score_text(row.worst),
                row.worst_at.name,
                row.rank.text(".1f"),
                score_text(row.regret),
                share_text(row.wins, count),
                share_text(row.losses, count),
            )
            for row in self.rows
        )
        columns = ("method", "group", "mean relative score", "worst", "worst problem", "mean rank", "regret")
        columns += ("above best fixed λ", f"below {GOOD_ENOUGH}")
        caption = f"{len(rows)} methods on {count_text(count, 'problem')}, best mean first, with 95 % intervals."
        return Table("ranking", caption, columns, rows)

    def families_table(self) -> Table:
        """λ sources that use a model and the best of the planners on each family, beside fixed λs."""
        groups = (FIXED_GROUP, "chunked", "yours", "planning")
        methods = [name for name in self.main_methods if self.methods[name].group in groups]
        rows = []
        for name, keys in self.families.items():
            best = {self.atlas.best_fixed[key] for key in keys}
            fixed = [self.label(method).removeprefix("λ = ") for method in self.atlas.methods if method in best]
            scores = [score_text(self.atlas.mean(method, keys)) for method in methods]
            held_out = " \\*" if FAMILIES[name].held_out else ""
            rows.append((FAMILIES[name].title + held_out, ", ".join(fixed), *scores))
        columns = ("family", "best fixed λ", *(self.label(method) for method in methods))
        caption = "Mean relative scores by family; 1 is the best fixed λ in hindsight at each position of the dial."
        return Table("by-family", caption, columns, tuple(rows))

    def loss_table(self) -> Table:
        """What wrong models cost."""
        rows = tuple(
            (it.error, self.label(it.method), *map(estimate_text, (it.right, it.wrong, it.loss)), str(it.problems))
            for it in model_losses(self.atlas, self.bootstrap)
        )
        columns = ("error of the model", "method", "right model", "wrong model", "loss", "problems")
        caption = "Mean relative scores, and what the error costs, with 95 % intervals."
        return Table("model-errors", caption, columns, rows)

    def claims_table(self) -> Table:
        """Every claim with its verdict."""
        results = AtlasResults(self.frame, self.atlas, self.bootstrap)
        judged = [(claim, claim.judge(results, {})) for claim in CLAIMS]
        rows = tuple((claim.text, found.status, found.text) for claim, found in judged)
        return Table(
            "claims", "Claims, judged by criteria written before the data.", ("claim", "verdict", "numbers"), rows
        )

    def criterion_table(self) -> Table:
        """The criterion for one λ source, by families."""
        rows = tuple(
            (where, str(count), "met" if judged.reached else "not met", verdict_text(judged))
            for where, count, judged in self.judgements()
        )
        name = "" if self.candidate is None else self.label(self.candidate)
        return Table("criterion", f"{name}: {CRITERION}", ("problems", "number", "criterion", "parts"), rows)

    def sources_table(self) -> Table:
        """The criterion's numbers for every λ source."""
        rows = []
        for row in self.rows:
            if self.methods[row.method].group in LAMBDA_GROUPS:
                judged = [verdict(self.atlas, row.method, keys) for keys in self.parts().values()]
                cells = [f"{score_text(part.mean)} / {score_text(part.worst)}" for part in judged]
                rows.append((self.label(row.method), *cells, "yes" if all(part.reached for part in judged) else "no"))
        columns = ("λ source", *self.parts(), "reached")
        return Table("sources", "Every λ source: mean / worst relative score.", columns, tuple(rows))

    def controls_table(self) -> Table:
        """Every method that wins problems with a control, and what becomes of its wins there."""
        rows = []
        pairs = [pair for pair in control_pairs(self.atlas) if pair.wins]
        for method in (row.method for row in self.rows if self.methods[row.method].group != FIXED_GROUP):
            wins = [pair for pair in pairs if pair.method == method]
            lost = [
                f"{pair.problem.name}: {score_text(pair.plain.relative)}, control {score_text(pair.control.relative)}"
                for pair in wins
                if pair.lost
            ]
            if wins:
                rows.append((self.label(method), str(len(wins)), str(len(wins) - len(lost)), "; ".join(lost)))
        columns = ("method", "wins on problems with a control", "survive", "do not survive")
        return Table("controls", "Wins on problems that have a control.", columns, tuple(rows))

    def control_kinds_table(self) -> Table:
        """What the control of each family changes."""
        controlled = {key.family for key in self.atlas.problems if key.control}
        names = [name for name in self.families if name in controlled]
        rows = tuple((FAMILIES[name].title, FAMILIES[name].control_text) for name in names)
        return Table("control-kinds", "What the controls change.", ("family", "its control"), rows)

    def tables(self) -> list[Table]:
        """The tables that are kept as files."""
        return [
            self.ranking_table(),
            self.loss_table(),
            self.claims_table(),
            self.criterion_table(),
            self.sources_table(),
            self.families_table(),
            self.controls_table(),
            self.control_kinds_table(),
        ]

    def documents(self) -> dict[str, str]:
        """What is kept as text, by name: the tables, and the ranking with everything chosen on other seeds."""
        tables = {table.name: table.markdown() for table in self.tables()}
        return {**tables, "cross-fitted": cross_fitted_table(self.frame, self.label)}


def count_text(count: int, noun: str) -> str:
    """As "1 problem", "3 problems"; nouns in -y are families."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def share_text(part: Sequence[ProblemKey], count: int) -> str:
    """As "20 % (9)"."""
    return f"{len(part) / count:.0%} ({len(part)})".replace("%", " %")


def verdict_text(judged: WrittenVerdict) -> str:
    """The three parts of the criterion, each with its number."""
    parts = [
        (f"mean {score_text(judged.mean)} (≥ {judged.MEAN})", judged.mean >= judged.MEAN),
        (f"worst problem {score_text(judged.worst)} (≥ {judged.WORST})", judged.worst >= judged.WORST),
        (
            f"best single fixed λ {score_text(judged.best_fixed_mean)} (< {judged.FIXED_MEAN})",
            judged.best_fixed_mean < judged.FIXED_MEAN,
        ),
    ]
    return "; ".join(f"{text}: {'met' if met else 'not met'}" for text, met in parts) + "."
