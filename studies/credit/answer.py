"""`python -m studies credit --method mine.py`: your method at three scores, in three sentences, one picture, one table.

The three scores are never added up. Each is normalised problem by problem: 0 is the worst and 1 the best fixed λ, with
step sizes and λs chosen on other seeds than those scored (`normalised`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from chunked_td.statistics import LEAST_SEEDS
from studies.credit.families import DESIGN, FAMILIES, HELD_OUT, family_called, middles, read_families
from studies.credit.methods import ARMS, LABELS, LIBRARY, QUICK, RULE, Methods, methods_in
from studies.credit.normalised import Scored, raw_scores, scored, with_tied
from studies.credit.study import BEHAVIOURS, run_all
from studies.credit.tables import WINDOW, draw_scores
from studies.runner.plots import new_figure, svg
from studies.runner.text import markdown, score_text

SCORES = {"values": "values", "decisions": "decisions", "control": "control", "control-greedy": "control, ε-greedy"}
"""Ids and labels of the scores in the answer."""
MEANINGS = (
    "Values: error of the learned Q against the exact one, on the same transitions for all methods.",
    "Decisions: exact return of the policy that is greedy in Q, learned from the same transitions.",
    "Control: return during training, with a bonus for rarely tried actions that is scaled by the spread of "
    "returns, so that no method explores because of its noise.",
)
ROWS = 10
GREY, BLUE, VERMILION = "#666666", "#0072B2", "#D55E00"
LEAST = 4
"""Minimum number of seeds: one half selects, the other is scored."""
QUICK_FAMILIES = (
    *("delay", "noisy-states", "distractors", "fan-in", "chain-and-split", "charge", "walk", "garnet"),
    *("rooms", "roads", "deep-sea", "slope", "snakes", "homeward", "bridge", "tributaries"),
)
"""Families of the quick size: short ones, half of them held out."""
SIZES = {"quick": ([2.0**j for j in (0, -2, -4, -6)], 10), "full": ([2.0**j for j in (0, -2, -4, -6, -8)], 20)}
"""Step sizes and seeds."""


def chosen_methods(quick: bool, files: Sequence[str | Path]) -> tuple[Methods, Methods, dict[str, str]]:
    """Return the methods of a size, those in your files, and the labels of yours."""
    ours: Methods = {**ARMS, **LIBRARY}
    ours = {name: each for name, each in ours.items() if name in QUICK or not quick}
    given, labels = {}, {}
    for file in files:
        methods, names = methods_in(file)
        if taken := sorted(set(methods) & {*LABELS, *given}):
            raise ValueError(f"--method: id {taken[0]!r} in {file} is taken; use another id for the source")
        given, labels = {**given, **methods}, {**labels, **names}
    return ours, given, labels


def chosen_families(names: Sequence[str], quick: bool) -> list[str]:
    """Ids of the families that are named, or in files that are named; those of the size if none is."""
    for name in names:
        if name not in FAMILIES and not name.endswith(".py"):
            raise ValueError(
                f"--families must be among {', '.join(FAMILIES)}, or a Python file with families, got {name!r}"
            )
    named = [found for name in names for found in (read_families(name) if name.endswith(".py") else [name])]
    return named or (list(QUICK_FAMILIES) if quick else [*DESIGN, *HELD_OUT])


def credit(
    method: tuple[Path, ...] = (),
    families: tuple[str, ...] = (),
    full: bool = False,
    seeds: int | None = None,
    greedy: bool = False,
    out: Path = Path("runs/credit"),
    engine: str = "threads",
    jobs: int = -1,
) -> None:
    """Score methods of credit assignment by values, decisions and control.

    Args:
        method: Python files with your λ sources, or with METHODS, {id: settings of simulate}; by default the registered
            rule.
        families: families of problems, by id or from your Python file; by default those of the chosen size.
        full: all families, methods and 20 seeds; else a subset and 10 seeds.
        seeds: number of seeds instead, at least 4.
        greedy: a fourth score, ε-greedy control, which mixes exploration with credit.
        out: folder of the runs, which are resumed, and of the answer.
        engine: threads, processes (for sources in plain Python) or ray.
        jobs: runs at a time; -1 is one per core.
    """
    step_sizes, usual = SIZES["full" if full else "quick"]
    seeds = usual if seeds is None else seeds
    if seeds < LEAST:
        raise ValueError(f"--seeds must be at least {LEAST}, one half for selection and one for scores, got {seeds}")
    ours, given, labels = chosen_methods(not full, method)
    chosen, behaviours = chosen_families(families, not full), BEHAVIOURS if greedy else BEHAVIOURS[:2]
    print(f"{len(chosen)} families, {len(ours) + len(given)} methods, {len(step_sizes)} step sizes, {seeds} seeds")
    how = {"engine": engine, "jobs": jobs}
    table = run_all(out / "runs", middles(*chosen), {**ours, **given}, step_sizes, range(seeds), behaviours, **how)
    table.write_parquet(out / "runs.parquet", compression="zstd")
    answer = Answer.of(table, labels, list(given))
    page = write_answer(out, answer)
    print(*(" ".join(answer.sentences(name)) for name in answer.subjects), f"page: {page}", sep="\n\n")


def write_answer(folder: Path, answer: Answer) -> Path:
    """Write answer.md and its figures into a folder; returns its path."""
    pictures = []
    for name in answer.shown:
        picture = folder / "figures" / f"{name}.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(svg(answer.figure(name)))
        pictures.append(f"![{answer.label(name)}, family by family](figures/{picture.name})")
    said = [" ".join(answer.sentences(name)) for name in answer.subjects]
    notes = "\n".join(f"- {each}" for each in (*MEANINGS, *answer.caveats()))
    parts = ["# Credit: three scores", *said, *pictures, answer.table(ROWS), notes, "## Every method"]
    page = folder / "answer.md"
    page.write_text("\n\n".join([*parts, answer.table(None)]) + "\n", encoding="utf-8")
    return page


@dataclass(frozen=True)
class Answer:
    """Answer about methods.

    Args:
      scores: by id. labels: of methods. subjects: ids of the methods that it is about. seeds: their number.
    """

    scores: dict[str, Scored]
    labels: Mapping[str, str]
    subjects: tuple[str, ...]
    seeds: int

    @classmethod
    def of(cls, table: pl.DataFrame, labels: Mapping[str, str], yours: Sequence[str]) -> Answer:
        """From the table of runs."""
        exponents = sorted(set(table["exponent"].to_list()), reverse=True)
        raw = {name: runs for name, runs in raw_scores(table).items() if name in SCORES}
        found = {name: scored(with_tied(runs, exponents)) for name, runs in raw.items()}
        run = set(table["arm"].unique().to_list())
        return cls(
            found, {**LABELS, **labels}, tuple(yours) or ((RULE,) if RULE in run else ()), table["seed"].n_unique()
        )

    def label(self, method: str) -> str:
        """Label of a method."""
        return self.labels.get(method, method)

    @cached_property
    def clear(self) -> dict[str, Scored]:
        """The scores with a conclusive difference between best and worst fixed λ on some problem."""
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
        """Three: the best single fixed λ of each score; the nearest method and the rule; the worst families."""
        if method not in self.methods:
            return [
                f"{self.label(method)}: best and worst fixed λ are too close on every problem, so nothing is scored."
            ]
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
        others += [f"the registered rule has {_listed(self.means(RULE))}"] if rule else []
        return [
            f"{self.label(method)} and the best single fixed λ: {against}.",
            "; ".join(["Here 0 is the worst and 1 the best fixed λ of a problem", *others]) + ".",
            f"{self.label(method)} is worst on {_listed(worst)}.",
        ]

    def means(self, method: str) -> list[str]:
        """Its mean at every score."""
        return [score_text(each.mean(method)) for each in self.clear.values()]

    def _against_fixed(self, method: str, each: Scored) -> str:
        """Text like "0.93 against 0.81, better (+0.12 [0.03, 0.20]; λ = 0.8)"; no interval over one family."""
        fixed = each.best_fixed()
        if method == fixed:
            return f"{score_text(each.mean(method))}, it is the best"
        gap, means = (
            each.difference(method, fixed),
            f"{score_text(each.mean(method))} against {score_text(each.mean(fixed))}",
        )
        if len(each.cells) == 1:
            return f"{means} ({self.label(fixed)})"
        if not np.isfinite(gap.value):
            return f"{means}, {'worse' if gap.value < 0 else 'inconclusive'}: runs diverged ({self.label(fixed)})"
        meaning = "inconclusive" if not gap.shown else "better" if gap.low > 0 else "worse"
        return f"{means}, {meaning} ({gap.text('+.2f')}; {self.label(fixed)})"

    def nearest(self, method: str) -> str | None:
        """The other method whose scores differ least from this one's, in the mean over scores and families."""
        others = [name for name in self.methods if name != method and (name not in self.subjects or name == RULE)]
        return (
            min(others, key=lambda name: self._distance(method, name), default=None) if self._finite(method) else None
        )

    def _finite(self, method: str) -> bool:
        """Whether no run of a method diverged."""
        return all(np.isfinite(each.mean(method)) for each in self.clear.values())

    def _distance(self, one: str, other: str) -> float:
        """Mean over scores and families of how far two methods are apart."""
        pairs = [(each.by_family(one), each.by_family(other)) for each in self.clear.values()]
        return float(np.mean([np.mean([abs(a[name] - b[name]) for name in a]) for a, b in pairs]))

    def caveats(self) -> list[str]:
        """Families used for design, held out, and left out."""
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
                found.append(
                    f"Left out of {SCORES[name]}, best and worst fixed λ too close: {', '.join(each.unclear)}."
                )
        if self.seeds < LEAST_SEEDS:
            found.append(
                f"{self.seeds} seeds: choices are made on one half and scored on the other, so single families "
                "are rough. --full has more."
            )
        return found

    # ---- table and picture

    def table(self, most: int | None) -> str:
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
        heads = tuple(f"{SCORES[name]}, {len(each.cells)} families" for name, each in self.clear.items())
        which = "" if most is None or len(self.methods) <= most else f"{len(rows)} of {len(self.methods)} methods. "
        caption = f"{which}Mean over families, and the worst family in brackets; {self.seeds} seeds."
        return f"{markdown(('method', *heads), rows)}\n\n{caption}"

    def figure(self, method: str) -> Figure:
        """One panel per score: the method, its nearest relative and the best single fixed λ, family by family."""
        names = list(dict.fromkeys(name for each in self.clear.values() for name in each.cells))
        names.sort(key=lambda name: (not family_called(name).held_out, -np.mean(
            [each.by_family(method)[name] for each in self.clear.values() if name in each.cells])))  # fmt: skip
        places, near = list(range(len(names))), self.nearest(method)
        titles = [family_called(name).title + (" *" if family_called(name).held_out else "") for name in names]
        figure, panels = new_figure(len(self.clear), height=1.5 + 0.17 * len(names), sharey=True)
        panels = panels if len(self.clear) > 1 else [panels]
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


def _listed(names: Sequence[str]) -> str:
    """Text like "A, B and C"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _plain(label: str) -> str:
    """A label as matplotlib shows it letter by letter: a dollar sign starts no formula."""
    return label.replace("$", r"\$")
