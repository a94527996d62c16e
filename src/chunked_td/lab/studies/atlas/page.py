"""The answer of `chunked-td atlas`: a method at three scores, in three sentences, one picture and one table.

    build_page(Path("runs/atlas"), {"mine": "Mine"}, ["mine"])     # runs.parquet → atlas.html, figures/, tables/

The three scores are never added up. Each is normalised problem by problem: 0 is the worst and 1 the best fixed λ, with
step sizes and λs chosen on other seeds than those scored (`chunked_td.lab.studies.three_scores.results`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.report.page import distinct, render, write_parts
from chunked_td.lab.report.style import BLUE, GREY, VERMILION, house_style, new_figure
from chunked_td.lab.report.style import render as render_figure
from chunked_td.lab.results.tables import Table
from chunked_td.lab.store.directory import write_or_explain
from chunked_td.lab.store.log import RunLog
from chunked_td.lab.store.tables import load_table
from chunked_td.lab.studies.atlas.families import family_called
from chunked_td.lab.studies.three_scores.claims import WINDOW, draw_scores
from chunked_td.lab.studies.three_scores.methods import LABELS, RULE
from chunked_td.lab.studies.three_scores.results import Scored, raw_scores, scored, with_tied
from chunked_td.lab.wording import count_text, list_text, score_text, seeds_text
from chunked_td.statistics import LEAST_SEEDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE, RUNS = "atlas.html", "runs.parquet"
SCORES = {"values": "values", "decisions": "decisions", "control": "control", "control-greedy": "control, ε-greedy"}
"""Ids of the scores that the page shows, and what it calls them."""
MEANINGS = (
    "Values: how near the learned Q is to the exact one, on the same transitions for all methods.",
    "Decisions: what the policy that is greedy in Q would earn, on the same transitions.",
    "Control: what is earned while learning, with a bonus for actions seldom tried that is scaled by the spread of "
    "returns, so that no method explores by its noise.",
)
ROWS = 10


def build_page(folder: Path, labels: Mapping[str, str], yours: Sequence[str] = (), out: Path | None = None) -> Path:
    """Write the page of a table of runs; returns its path.

    Args:
      folder: where runs.parquet is, and log.jsonl, if it was kept.
      labels: {method id: what the page calls it}; those of the package are known.
      yours: ids of the user's methods, which the page is about; by default the package's rule.
      out: folder to write to; None is `folder`.
    """
    folder = Path(folder)
    if not (folder / RUNS).is_file():
        raise DirectoryError(f"{folder} has no {RUNS}; run `chunked-td atlas --out {folder}` first")
    table, target = load_table(folder / RUNS), folder if out is None else Path(out)
    view = AtlasAnswer.of(table, labels, yours)
    figures = {f"scores-{name}": view.figure(name) for name in view.shown}
    answers = {"answer": "\n\n".join(" ".join(view.sentences(name)) for name in view.subjects)}
    every = view.table(None)
    write_parts(target, {**answers, "scores": view.table(ROWS).markdown(), "all-scores": every.markdown()}, figures)
    page = render(
        "atlas.html",
        with_plotly=False,
        title="Atlas: three scores of a way to assign credit",
        view=view,
        pictures={name: _address(drawn) for name, drawn in zip(view.shown, figures.values(), strict=True)},
        table_=view.table(ROWS),
        every=every,
        meanings=MEANINGS,
        sessions=distinct(RunLog(folder).sessions()),
    )
    write_or_explain(target / FILE, page.encode())
    return target / FILE


def _address(figure: Figure) -> str:
    """A figure as an address that holds it whole."""
    return "data:image/svg+xml;base64," + base64.b64encode(render_figure(figure, "svg")).decode()


@dataclass(frozen=True)
class AtlasAnswer:
    """What the page says. Args: scores: by id. labels: of methods. subjects: ids that it is about. seeds: how many."""

    scores: dict[str, Scored]
    labels: Mapping[str, str]
    subjects: tuple[str, ...]
    seeds: int

    @classmethod
    def of(cls, table: Any, labels: Mapping[str, str], yours: Sequence[str]) -> AtlasAnswer:
        """From the table of runs."""
        exponents = sorted(set(table["exponent"].to_list()), reverse=True)
        raw = {name: runs for name, runs in raw_scores(table).items() if name in SCORES}
        found = {name: scored(with_tied(runs, exponents)) for name, runs in raw.items()}
        run = set(table["method"].unique().to_list())
        return cls(
            found, {**LABELS, **labels}, tuple(yours) or ((RULE,) if RULE in run else ()), table["seed"].n_unique()
        )

    def label(self, method: str) -> str:
        """What a method is called."""
        return self.labels.get(method, method)

    @cached_property
    def clear(self) -> dict[str, Scored]:
        """The scores for which some problem tells its fixed λs apart."""
        return {name: each for name, each in self.scores.items() if each.cells}

    @cached_property
    def methods(self) -> list[str]:
        """Methods that were run on every problem."""
        return sorted(set.intersection(*(each.methods() for each in self.clear.values()))) if self.clear else []

    @property
    def shown(self) -> list[str]:
        """The subjects that there are scores of."""
        return [name for name in self.subjects if name in self.methods]

    # ---- sentences

    def sentences(self, method: str) -> list[str]:
        """Three: beside the best single fixed λ of each score; its nearest relative and the rule; where it is worst."""
        if method not in self.methods:
            return [f"{self.label(method)}: these runs tell fixed λs apart on no problem, so nothing is scored."]
        against = "; ".join(f"{SCORES[name]} {self._against_fixed(method, each)}" for name, each in self.clear.items())
        worst = []
        for name, each in self.clear.items():
            found = each.by_family(method)
            family = min(found, key=lambda one: found[one])
            worst.append(f"{SCORES[name]} {family_called(family).title} ({score_text(found[family])})")
        near, rule = self.nearest(method), RULE in self.methods and method != RULE
        others = (
            [f"its nearest relative is {self.label(near)}, {self._distance(method, near):.2f} away"] if near else []
        )
        others += [f"the package's rule has {list_text(self.means(RULE))}"] if rule else []
        return [
            f"{self.label(method)} and the best single fixed λ: {against}.",
            "; ".join(["Here 0 is the worst and 1 the best fixed λ of a problem", *others]) + ".",
            f"{self.label(method)} is worst on {list_text(worst)}.",
        ]

    def means(self, method: str) -> list[str]:
        """Its mean at every score."""
        return [score_text(each.mean(method)) for each in self.clear.values()]

    def _against_fixed(self, method: str, each: Scored) -> str:
        """As "0.93 against 0.81, ahead (+0.12 [0.03, 0.20]; λ = 0.8, replacing)"; no interval over one family."""
        fixed = each.best_fixed()
        if method == fixed:
            return f"{score_text(each.mean(method))}, it is the best"
        gap, means = (
            each.difference(method, fixed),
            f"{score_text(each.mean(method))} against {score_text(each.mean(fixed))}",
        )
        if len(each.cells) == 1:
            return f"{means} ({self.label(fixed)})"
        meaning = "not told apart" if not gap.shown else "ahead" if gap.low > 0 else "behind"
        return f"{means}, {meaning} ({gap.text('+.2f')}; {self.label(fixed)})"

    def nearest(self, method: str) -> str | None:
        """The other method whose scores differ least from this one's, in the mean over scores and families."""
        others = [name for name in self.methods if name != method and (name not in self.subjects or name == RULE)]
        return min(others, key=lambda name: self._distance(method, name), default=None)

    def _distance(self, one: str, other: str) -> float:
        """Mean over scores and families of how far two methods are apart."""
        pairs = [(each.by_family(one), each.by_family(other)) for each in self.clear.values()]
        return float(np.mean([np.mean([abs(a[name] - b[name]) for name in a]) for a, b in pairs]))

    def caveats(self) -> list[str]:
        """What was used for design, what was held out, and what was left out."""
        run = sorted(
            {name for each in self.scores.values() for name in [*each.cells, *(u.split()[0] for u in each.unclear)]}
        )
        kinds: dict[bool, list[str]] = {False: [], True: []}
        for name in run:
            kinds[family_called(name).held_out].append(family_called(name).title)
        found = [
            f"Families that the package's methods were designed on: {', '.join(kinds[False]) or 'none'}.",
            f"Held out from their design (marked *): {', '.join(kinds[True]) or 'none'}.",
        ]
        for name, each in self.scores.items():
            if each.unclear:
                found.append(f"Left out of {SCORES[name]}, fixed λs not told apart: {', '.join(each.unclear)}.")
        if self.seeds < LEAST_SEEDS:
            found.append(
                f"{seeds_text(self.seeds)}: choices are made on one half and scored on the other, so single families "
                "are rough. --profile full has more."
            )
        return found

    # ---- table and picture

    def table(self, most: int | None) -> Table:
        """Means over families, and the worst family; the subjects, what they are compared with, and the best others."""
        order = {name: sorted(self.methods, key=lambda m: -each.mean(m)) for name, each in self.clear.items()}
        first = [name for s in self.shown for name in (s, self.nearest(s)) if name]
        first += [RULE] if RULE in self.methods else []
        first += [each.best_fixed() for each in self.clear.values()]
        by_place = sorted(
            self.methods, key=lambda name: min((ranks.index(name) for ranks in order.values()), default=0)
        )
        chosen = list(dict.fromkeys([*first, *by_place]))[:most]
        rows = []
        for method in sorted(chosen, key=lambda name: (name not in self.shown, by_place.index(name))):
            cells = [
                f"{score_text(each.mean(method))} ({score_text(min(each.by_family(method).values()))})"
                for each in self.clear.values()
            ]
            rows.append((self.label(method), *cells))
        heads = tuple(f"{SCORES[name]}, {count_text(len(each.cells), 'family')}" for name, each in self.clear.items())
        which = "" if most is None or len(self.methods) <= most else f"{len(rows)} of {len(self.methods)} methods. "
        caption = f"{which}Mean over families, and the worst family in brackets; {seeds_text(self.seeds)}."
        return Table("scores" if most else "all-scores", caption, ("method", *heads), tuple(rows))

    def figure(self, method: str) -> Figure:
        """One panel per score: the method, its nearest relative and the best single fixed λ, family by family."""
        names = list(dict.fromkeys(name for each in self.clear.values() for name in each.cells))
        names.sort(key=lambda name: (not family_called(name).held_out, -np.mean(
            [each.by_family(method)[name] for each in self.clear.values() if name in each.cells])))  # fmt: skip
        places, near = list(range(len(names))), self.nearest(method)
        titles = [family_called(name).title + (" *" if family_called(name).held_out else "") for name in names]
        with house_style():
            figure, panels = new_figure(7.6, 1.5 + 0.19 * len(names), len(self.clear), sharey=True)
            for axes, (score, each) in zip(panels, self.clear.items(), strict=True):
                fixed = each.best_fixed()
                sides = [
                    (fixed, GREY, "s", "best single fixed λ"),
                    (near, BLUE, "D", None),
                    (method, VERMILION, "o", None),
                ]
                for name, color, marker, label in (side for side in sides if side[0]):
                    found = each.by_family(name)  # type: ignore[arg-type]
                    scores = np.array([found.get(family, np.nan) for family in names])
                    draw_scores(
                        axes, places, scores, color=color, marker=marker, s=20, label=label or _plain(self.label(name))
                    )  # type: ignore[arg-type]
                for level in (0.0, 1.0):
                    axes.axvline(level, color="0.6", linestyle=":", zorder=0)
                axes.set_title(f"{SCORES[score]}: {score_text(each.mean(method))}", loc="left")
                axes.set_xlabel(f"best single fixed λ: {score_text(each.mean(fixed))}\n({_plain(self.label(fixed))})")
                axes.set_xlim(WINDOW[0] - 0.3, WINDOW[1] + 0.3)
            panels[0].set_yticks(places, [_plain(title) for title in titles])
            handles, texts = panels[0].get_legend_handles_labels()
            figure.legend(handles[::-1], texts[::-1], loc="outside upper left", ncols=3)
        return figure


def _plain(label: str) -> str:
    """A label as matplotlib shows it letter by letter: a dollar sign starts no formula."""
    return label.replace("$", r"\$")
