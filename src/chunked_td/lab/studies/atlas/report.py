"""The tables of the first atlas, whose scores are ε-greedy control, from the table of runs alone.

`chunked-td atlas` measures three scores instead (`page`). What is here judges the stored runs, and runs of `chunked-td
reproduce atlas`, by the criterion and the claims that were written for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chunked_td.lab.report.page import render, write_parts
from chunked_td.lab.results.tables import Table, markdown
from chunked_td.lab.store.directory import write_or_explain
from chunked_td.lab.studies.atlas.claims import CLAIMS, model_losses
from chunked_td.lab.studies.atlas.families import FAMILIES
from chunked_td.lab.studies.atlas.methods import FIXED_GROUP, FIXED_IDS, atlas_arm, builtin_methods
from chunked_td.lab.studies.atlas.protocol import ProblemKey
from chunked_td.lab.studies.atlas.results import FLOOR, CreditMap, runs_by_step_size
from chunked_td.lab.studies.three_scores.results import Runs, scored
from chunked_td.lab.wording import count_text, estimate_text, score_text
from chunked_td.statistics import LEAST_SEEDS, Estimate

LAMBDA_GROUPS = ("chunked", "other λ", "yours")
"""Groups of methods that are λ sources: what the criterion is about."""
GOOD_ENOUGH = 0.75
"""A method loses a problem where its interval lies below this relative score."""
CRITERION = (
    "A mean relative score of at least 0.95 and of at least 0.75 on every problem, while no single fixed λ reaches "
    "0.75 on average."
)
"""When one λ source is good enough everywhere; written down before the full run."""


def PAGE(folder: Path, atlas: CreditMap) -> Path:
    """Write the tables of the study's folder, and a page that shows them."""
    view = AtlasView(atlas)
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


class RankedMethod(NamedTuple):
    """What one method is worth over all problems.

    Attributes:
      method: id.
      mean, rank: relative score and rank among the methods, over problems. worst: lowest relative score, on `worst_at`.
      regret: mean over problems of the best method's relative score minus this one's.
      wins, losses: problems on which the interval over seeds lies above 1, or below `GOOD_ENOUGH`.
    """

    method: str
    mean: Estimate
    rank: Estimate
    worst: float
    worst_at: ProblemKey
    regret: float
    wins: list[ProblemKey]
    losses: list[ProblemKey]


def ranked(atlas: CreditMap, problems: Sequence[ProblemKey]) -> list[RankedMethod]:
    """Every method that was run on all of these problems, best mean first."""
    methods, found = atlas.ranking(problems), []
    best = np.max([atlas.relative(method, problems) for method in methods], axis=0)
    for method, rank in zip(methods, atlas.ranks(methods, problems), strict=True):
        scores, cells = atlas.relative(method, problems), [(key, atlas.cells[key, method].relative) for key in problems]
        wins = [key for key, score in cells if score.low > 1.0]
        losses = [key for key, score in cells if score.high < GOOD_ENOUGH]
        worst, regret = int(scores.argmin()), float((best - scores).mean())
        mean = atlas.mean_estimate(method, problems)
        found.append(RankedMethod(method, mean, rank, float(scores[worst]), problems[worst], regret, wins, losses))
    return found


class CriterionParts(NamedTuple):
    """The numbers that the `CRITERION` is about: a method's mean and worst score, and the best mean of a fixed λ."""

    mean: float
    worst: float
    best_fixed: float

    @classmethod
    def of(cls, atlas: CreditMap, method: str, problems: Sequence[ProblemKey]) -> CriterionParts:
        """Those of a method on some problems."""
        scores = atlas.relative(method, problems)
        fixed = max(atlas.mean(name, problems) for name in FIXED_IDS if name in atlas.methods)
        return cls(float(scores.mean()), float(scores.min()), fixed)

    @property
    def met(self) -> tuple[bool, bool, bool]:
        """Which parts are met."""
        return self.mean >= 0.95, self.worst >= 0.75, self.best_fixed < 0.75

    @property
    def text(self) -> str:
        """The three parts, each with its number."""
        names = ("mean {} (≥ 0.95)", "worst problem {} (≥ 0.75)", "best single fixed λ {} (< 0.75)")
        parts = [name.format(score_text(value)) for name, value in zip(names, self, strict=True)]
        told = (f"{text}: {'met' if met else 'not met'}" for text, met in zip(parts, self.met, strict=True))
        return f"{'; '.join(told)}."


class AtlasView:
    """What the tables of a map show."""

    def __init__(self, atlas: CreditMap):
        self.atlas, self.problems = atlas, atlas.main
        given = {method.id: method for method in builtin_methods()}
        self.methods = {name: given.get(name, atlas_arm(name, name, "yours", None)) for name in atlas.methods}
        self.rows = ranked(atlas, self.problems)

    def label(self, method: str) -> str:
        """What a method is called."""
        return self.methods[method].label if method in self.methods else method

    def parts(self) -> dict[str, Sequence[ProblemKey]]:
        """All problems, those used for design and those held out; only what was run."""
        kinds = {"Families used for design": False, "Families held out": True}
        parts = {
            name: [key for key in self.problems if FAMILIES[key.family].held_out == kind]
            for name, kind in kinds.items()
        }
        return {name: keys for name, keys in {"All problems": self.problems, **parts}.items() if keys}

    @cached_property
    def candidate(self) -> str | None:
        """The λ source that the criterion is applied to: the best mean over the families used for design."""
        parts = self.parts()
        order = self.atlas.ranking(parts.get("Families used for design", self.problems))
        found = [name for name in order if self.methods[name].group in LAMBDA_GROUPS]
        return next((name for name in found if self.atlas.has(name, problems=self.problems)), None)

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
        """The user's methods, the main chunked ones, the best fixed λ and the best planner, family by family."""
        order: dict[str, list[str]] = {"yours": [], "chunked": [], FIXED_GROUP: [], "planning": []}
        for row in self.rows:
            order.setdefault(self.methods[row.method].group, []).append(row.method)
        main = [name for name in order["chunked"] if self.methods[name].quick]
        methods, rows = [*order["yours"], *main, *order[FIXED_GROUP][:1], *order["planning"][:1]], []
        for name, keys in self.atlas.families.items():
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
            (error, self.label(method), *map(estimate_text, (it.right, it.wrong, it.loss)), str(it.problems))
            for (error, method), it in model_losses(self.atlas).items()
        )
        columns = ("error of the model", "method", "right model", "wrong model", "loss", "problems")
        caption = "Mean relative scores, and what the error costs, with 95 % intervals."
        return Table("model-errors", caption, columns, rows)

    def claims_table(self) -> Table:
        """Every claim with its verdict."""
        judged = [(claim.text, claim.judge(self.atlas, {})) for claim in CLAIMS]
        rows = tuple((text, found.status, found.text) for text, found in judged)
        caption = "Claims, judged by criteria written before the data."
        return Table("claims", caption, ("claim", "verdict", "numbers"), rows)

    def criterion_table(self) -> Table:
        """The criterion for one λ source, by families."""
        rows, name = [], self.candidate
        for where, keys in self.parts().items() if name else ():
            judged = CriterionParts.of(self.atlas, str(name), keys)
            rows.append((where, str(len(keys)), "met" if all(judged.met) else "not met", judged.text))
        caption = f"{'' if name is None else self.label(name)}: {CRITERION}"
        return Table("criterion", caption, ("problems", "number", "criterion", "parts"), tuple(rows))

    def sources_table(self) -> Table:
        """The criterion's numbers for every λ source."""
        rows = []
        for row in self.rows:
            if self.methods[row.method].group in LAMBDA_GROUPS:
                judged = [CriterionParts.of(self.atlas, row.method, keys) for keys in self.parts().values()]
                cells = [f"{score_text(part.mean)} / {score_text(part.worst)}" for part in judged]
                reached = all(all(part.met) for part in judged)
                rows.append((self.label(row.method), *cells, "yes" if reached else "no"))
        columns = ("λ source", *self.parts(), "reached")
        return Table("sources", "Every λ source: mean / worst relative score.", columns, tuple(rows))

    def controls_table(self) -> Table:
        """Every method that wins problems with a control, and what becomes of its wins there.

        It wins a problem if its interval lies above 1. A win does not survive if the relative score on the control lies
        below that of the best fixed λ there, which is 1.
        """
        rows = []
        for method in (row.method for row in self.rows if self.methods[row.method].group != FIXED_GROUP):
            cells = [self.atlas.cells.get((replace(key, control=True), method)) for key in self.problems]
            pairs = [
                (key, self.atlas.cells[key, method].relative, cell)
                for key, cell in zip(self.problems, cells, strict=True)
            ]
            wins = [(key, plain, cell.relative.value) for key, plain, cell in pairs if cell and plain.low > 1.0]
            lost = [
                f"{key.name}: {score_text(plain.value)}, control {score_text(control)}"
                for key, plain, control in wins
                if control < 1.0
            ]
            if wins:
                rows.append((self.label(method), str(len(wins)), str(len(wins) - len(lost)), "; ".join(lost)))
        columns = ("method", "wins on problems with a control", "survive", "do not survive")
        return Table("controls", "Wins on problems that have a control.", columns, tuple(rows))

    def control_kinds_table(self) -> Table:
        """What the control of each family changes."""
        controlled = {key.family for key in self.atlas.problems if key.control}
        names = [name for name in self.atlas.families if name in controlled]
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
        return {**tables, "cross-fitted": self.cross_fitted()}

    def cross_fitted(self) -> str:
        """Mean relative scores over families, best first, each less the best single fixed λ; methods run everywhere.

        Everything that is chosen is chosen on other seeds than those scored.
        """
        import polars as pl

        if self.atlas.frame["seed"].n_unique() < LEAST_SEEDS:
            return f"Fewer than {LEAST_SEEDS} seeds: too few to choose on one half of them and score on the other."
        runs: Runs = {}
        main = self.atlas.frame.filter(~pl.col("control"))
        for (family, setting, method), rows in main.group_by("family", "setting", "method", maintain_order=True):
            runs.setdefault((str(family), str(setting)), {})[str(method)] = runs_by_step_size(rows)[1]
        found, rows = scored(runs, FIXED_IDS, FLOOR), []
        if not found.cells:
            return "No problem tells its fixed λs apart."
        fixed, settings = found.best_fixed(), [each for cells in found.of().values() for each in cells]
        for method in sorted(found.methods(), key=lambda name: -found.mean(name)):
            against = "" if method == fixed else found.difference(method, fixed, draws=500).text("+.2f")
            worst = min(float(each[method].mean()) for each in settings)
            rows.append((self.label(method), f"{found.mean(method):.2f}", f"{worst:.2f}", against))
        columns = ("method", "mean over families", "worst problem", f"less {self.label(fixed)}")
        left_out = f"Left out, because their fixed λs are not told apart: {', '.join(found.unclear) or 'none'}."
        return f"{markdown(columns, rows)}\n\n{left_out}".replace(" -0", " −0").replace(" -1", " −1")


def share_text(part: Sequence[ProblemKey], count: int) -> str:
    """As "20 % (9)"."""
    return f"{len(part) / count:.0%} ({len(part)})".replace("%", " %")
