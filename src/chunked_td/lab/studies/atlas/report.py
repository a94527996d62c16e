"""The page of the atlas, from the table of scores alone.

    build_page(Path("runs/atlas"))      # reads scores.parquet, writes atlas.html, figures/*.png and tables/*.md

One file that works without a network. Its HTML and CSS are with those of the report.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chunked_td._durations import duration_text
from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.report.page import distinct, render, write_parts
from chunked_td.lab.report.style import Style
from chunked_td.lab.report.style import render as render_figure
from chunked_td.lab.results.tables import Table
from chunked_td.lab.store.directory import write_or_explain
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.studies.atlas import figures, text
from chunked_td.lab.studies.atlas.claims import CLAIMS, ROBUSTNESS, model_losses
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
    unclear,
)
from chunked_td.lab.studies.atlas.results import (
    CRITERION,
    FLOOR,
    SCORES,
    AtlasResults,
    ControlPair,
    CreditMap,
    WrittenVerdict,
    control_pairs,
    make_atlas,
    read_scores,
    steps_in,
    verdict,
)
from chunked_td.lab.study import Arm
from chunked_td.lab.wording import seeds_text

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

FILE = "atlas.html"
TITLE = "Atlas: which way of assigning credit works where"
GROUP_ORDER = ("yours", "chunked", FIXED_GROUP, "other λ", "other updates", "planning", "wrong model")
RELATED = (("forward", "forward-literal"), ("replacing", "fixed-0.9"), ("true-online", "fixed-0.9"))
"""Pairs of methods that differ on some problems only: where actions are not tried, or states come back."""
GLYPHS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖", "<": "◀", ">": "▶"}
"""Markers of panels, as letters for the legend."""


def build_page(folder: Path, methods: Sequence[Arm] | None = None, out: Path | None = None) -> Path:
    """Write the page of a table of scores.

    Args:
      folder: where scores.parquet is, and log.jsonl, if it was kept.
      methods: for labels and groups; those of the package by default. A method that is not listed is called by its id.
      out: folder to write to; None is `folder`.
    Returns:
      the path of atlas.html; figures/*.png and tables/*.md lie beside it.
    """

    folder = Path(folder)
    if not (folder / SCORES).is_file():
        raise DirectoryError(f"{folder} has no {SCORES}; run `chunked-td atlas --out {folder}` first")
    frame = read_scores(folder / SCORES)
    if frame.is_empty():
        raise DirectoryError(f"{folder / SCORES} has no rows, so there is nothing to show")
    view = AtlasView(frame, builtin_methods() if methods is None else methods)
    target = folder if out is None else Path(out)
    write_parts(target, view.documents(), view.figures(), "png")
    write_or_explain(target / FILE, page_text(view, RunLog(folder)).encode())
    return target / FILE


def PAGE(folder: Path, results: AtlasResults) -> Path:
    """Write the page of the study's folder."""
    return build_page(folder)


class AtlasView:
    """Everything that the page shows, computed once from the table of runs.

    Args:
      frame: the table that `results.COLLECT` gives.
      methods: for labels and groups.
    """

    def __init__(self, frame: pl.DataFrame, methods: Sequence[Arm]):
        self.frame = frame
        self.atlas: CreditMap = make_atlas(frame)
        given = {method.id: method for method in methods}
        self.methods = {name: given.get(name, atlas_arm(name, name, "yours", None)) for name in self.atlas.methods}
        self.problems = self.atlas.main()
        self.bootstrap = AtlasBootstrap(self.atlas)
        self.rows = ranked(self.atlas, self.problems, self.bootstrap)
        results = AtlasResults(frame, self.atlas, self.bootstrap)
        self.claims = [(claim, claim.judge(results, {})) for claim in CLAIMS]
        self.losses = model_losses(self.atlas, self.bootstrap)
        self.pairs = control_pairs(self.atlas)
        ours = {method.id for method in builtin_methods()}
        self.yours = [row.method for row in self.rows if row.method not in ours]
        self.unclear = unclear(self.atlas, self.problems)
        self.answer = text.answer(self)
        self.candidate = text.candidate(self.atlas, self.methods)

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

    @property
    def looks(self) -> dict[str, Style]:
        """How the lines of panels look."""
        return figures.line_styles(self.main_methods)

    @property
    def partial(self) -> list[str]:
        """Methods that were run on some problems only."""
        return [name for name in self.atlas.methods if not self.atlas.has(name, self.problems)]

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

    def figures(self) -> dict[str, Figure]:
        """The figures that are kept as files."""
        labels = {name: method.label for name, method in self.methods.items()}
        rows = list(self.groups.values())
        return {
            **{f"yours-{name}": self.yours_figure(name) for name in self.yours},
            "ranking": figures.ranking_figure(self.rows, self.methods, len(self.problems)),
            "heat-map": figures.heat_figure(self.atlas, rows, self.problems, self.methods, self.unclear),
            "families": figures.families_figure(self.atlas, self.families, self.looks, labels),
        }

    def yours_figure(self, method: str) -> Figure:
        """A method of the user's on every problem, beside its nearest relative and the best single fixed λ."""
        others = {best_single_fixed(self.atlas, self.problems): "s", text.nearest(self, method): "D"}
        return figures.yours_figure(method, others, self.atlas, self.methods, self.problems)

    def panel(self, keys: Sequence[ProblemKey]) -> str:
        """The panel of one family, as an address that holds it whole."""
        return picture(figures.family_figure(self.atlas, keys, self.looks))

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
        caption = f"{len(rows)} methods on {text.count_text(count, 'problem')}, best mean first, with 95 % intervals."
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

    def partial_table(self) -> Table:
        """Methods that were run on some problems only."""
        rows = []
        for name in self.partial:
            keys = [key for key in self.problems if self.atlas.has(name, [key])]
            if keys:
                mean, worst = estimate_text(self.bootstrap.mean(name, keys)), score_text(self.atlas.worst(name, keys))
                rows.append((self.label(name), self.methods[name].group, str(len(keys)), mean, worst))
        columns = ("method", "group", "problems", "mean relative score", "worst")
        return Table("partial", "Methods that run on some families only, not ranked.", columns, tuple(rows))

    def loss_table(self) -> Table:
        """What wrong models cost."""
        rows = tuple(
            (it.error, self.label(it.method), *map(estimate_text, (it.right, it.wrong, it.loss)), str(it.problems))
            for it in self.losses
        )
        columns = ("error of the model", "method", "right model", "wrong model", "loss", "problems")
        caption = "Mean relative scores, and what the error costs, with 95 % intervals."
        return Table("model-errors", caption, columns, rows)

    def claims_table(self) -> Table:
        """Every claim with its verdict."""
        rows = tuple((claim.text, found.status, found.text) for claim, found in self.claims)
        return Table(
            "claims", "Claims, judged by criteria written before the data.", ("claim", "verdict", "numbers"), rows
        )

    def criterion_table(self) -> Table:
        """The criterion for one λ source, by families."""
        rows = tuple(
            (where, str(count), "met" if judged.reached else "not met", text.verdict_text(judged))
            for where, count, judged in self.judgements()
        )
        name = "" if self.candidate is None else self.label(self.candidate)
        return Table("criterion", f"{name}: {CRITERION}", ("problems", "number", "criterion", "parts"), rows)

    def sources_table(self) -> Table:
        """The criterion's numbers for every λ source."""
        rows = []
        for row in self.rows:
            if self.methods[row.method].group in text.LAMBDA_GROUPS:
                judged = [verdict(self.atlas, row.method, keys) for keys in self.parts().values()]
                cells = [f"{score_text(part.mean)} / {score_text(part.worst)}" for part in judged]
                rows.append((self.label(row.method), *cells, "yes" if all(part.reached for part in judged) else "no"))
        columns = ("λ source", *self.parts(), "reached")
        return Table("sources", "Every λ source: mean / worst relative score.", columns, tuple(rows))

    def controls_table(self) -> Table:
        """Every method that wins problems with a control, and what becomes of its wins there."""
        rows = []
        for method in (row.method for row in self.rows if self.methods[row.method].group != FIXED_GROUP):
            wins = [pair for pair in self.pairs if pair.method == method and pair.wins]
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
        rows = tuple((FAMILIES[name].title, FAMILIES[name].control_text) for name in self.controlled)
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
        """What is kept as text, by name: the tables, the answer and its headline."""
        answer = "\n\n".join([*self.answer, *self.method_text()])
        headline = text.headline(self)
        tables = {table.name: table.markdown() for table in self.tables()}
        chosen_elsewhere = cross_fitted_table(self.frame, self.label)
        if self.yours:
            tables["yours"] = "\n\n".join(text.yours(self, name) for name in self.yours)
        return {**tables, "answer": answer, "headline": headline, "cross-fitted": chosen_elsewhere}

    @property
    def controlled(self) -> dict[str, tuple[ProblemKey, ...]]:
        """The problems that have a control, by family."""
        there = {pair.problem for pair in self.pairs}
        found = {name: tuple(key for key in keys if key in there) for name, keys in self.families.items()}
        return {name: keys for name, keys in found.items() if keys}

    def control_rows(self) -> list[tuple[str, list[ControlPair | None]]]:
        """For each method, what it does on the problems that have a control."""
        by_place = {(pair.method, pair.problem): pair for pair in self.pairs}
        keys = [key for keys in self.controlled.values() for key in keys]
        listed = [name for group in self.groups.values() for name in group]
        rows = [(name, [by_place.get((name, key)) for key in keys]) for name in listed]
        return [(name, row) for name, row in rows if any(row)]

    def method_text(self) -> list[str]:
        """How much was run."""
        import polars as pl

        counts = self.frame.group_by("family").len()
        episodes = sum(FAMILIES[name].episodes * count for name, count in counts.rows())
        seeds = self.frame.group_by("family", "setting", "control", "method").agg(pl.col("seed").n_unique())["seed"]
        low, high = int(seeds.to_numpy().min()), int(seeds.to_numpy().max())
        exponents = self.frame["exponent"].unique().sort().to_list()
        controls = len(self.atlas.problems) - len(self.problems)
        many = seeds_text(high) if low == high else f"{low} to {high} seeds"
        steps = steps_in(self.frame)
        amount = f"{episodes:,} episodes" + ("" if steps is None else f", {steps:,} steps")
        return [
            f"{self.atlas.runs:,} runs, {amount}: {text.count_text(len(self.problems), 'problem')} and "
            f"{text.count_text(controls, 'control')}, {text.count_text(len(self.methods), 'method')}, "
            f"{len(exponents)} step sizes from 2^{exponents[0]} to 2^{exponents[-1]}, {many} for each.",
            self._edge_text(),
            *self._equal_text(),
        ]

    def _equal_text(self) -> list[str]:
        """Methods that are another one on some problems, so that their difference is one of the other problems."""
        texts = []
        for one, other in RELATED:
            if self.atlas.has(one, self.problems) and self.atlas.has(other, self.problems):
                count = sum(self.atlas.same_runs(one, other, key) for key in self.problems)
                texts.append(f"{self.label(one)} and {self.label(other)} on {count} of {len(self.problems)}")
        return [f"The same scores, bit for bit: {'; '.join(texts)}."] if texts else []

    def _edge_text(self) -> str:
        """How often the best step size is the largest or the smallest that was tried."""
        tried = self.frame.select("method", "exponent").unique()["method"].to_list()
        cells = [cell for (_, method), cell in self.atlas.cells.items() if tried.count(method) > 1]
        top = max(self.frame["exponent"].to_list())
        large = sum(cell.at_edge and cell.exponent == top for cell in cells)
        small = sum(cell.at_edge and cell.exponent != top for cell in cells)
        return (
            f"Edge of the grid: of {len(cells):,} pairs of a method and a problem, {large:,} have their best step size "
            f"at the largest (2^{top}) and {small:,} at the smallest; there a finer or wider grid might score higher. "
            "Methods with one step size (or none) are not counted."
        )


def share_text(part: Sequence[ProblemKey], count: int) -> str:
    """As "20 % (9)"."""
    return f"{len(part) / count:.0%} ({len(part)})".replace("%", " %")


def picture(figure: Figure) -> str:
    """A figure as an address that holds it whole."""
    return "data:image/svg+xml;base64," + base64.b64encode(render_figure(figure, "svg")).decode()


def page_text(view: AtlasView, log: RunLog) -> str:
    """The page as text."""
    batches = log.batches()
    robustness = next(found for claim, found in view.claims if claim is ROBUSTNESS)
    return render(
        "atlas.html",
        with_plotly=False,
        title=TITLE,
        view=view,
        criterion=CRITERION,
        floor=score_text(FLOOR),
        good_enough=GOOD_ENOUGH,
        score_text=score_text,
        count_text=text.count_text,
        figures=figures,
        glyphs=GLYPHS,
        ranking_picture=picture(figures.ranking_figure(view.rows, view.methods, len(view.problems))),
        yours={name: picture(view.yours_figure(name)) for name in view.yours},
        yours_text=text.yours,
        controls_of=text.controls_of,
        verdict_text=text.verdict_text,
        control_findings=text.control_findings(view.pairs, view.methods),
        robustness=robustness,
        robustness_claim=ROBUSTNESS,
        families=FAMILIES,
        time=duration_text(sum(record.seconds for record in batches)) if batches else "",
        sessions=distinct(log.sessions()),
    )
