"""The registered criterion, a claim per score (docs/experiments/credit-registered.md); sentences, tables, pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunked_td.lab.report.page import write_parts
from chunked_td.lab.report.style import new_figure
from chunked_td.lab.results.tables import markdown
from chunked_td.lab.studies.atlas.families import family_called
from chunked_td.lab.studies.three_scores.methods import COMPARED, LABELS, RULE
from chunked_td.lab.studies.three_scores.results import Scored
from chunked_td.lab.study import NOT_RUN, Claim, Verdict, status_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMITS = {"values": (1.3, 0.75), "decisions": (1.0, 0.75), "control": (1.0, 0.75)}
"""Least mean over held-out families, and least score of a family."""
LEAST_FAMILIES = 8


def judge(score: str) -> Callable[[Any, Mapping[str, Any]], Verdict]:
    """The judge of one score."""

    def verdict(results: Any, everything: Mapping[str, Any]) -> Verdict:
        if score not in results or len(results[score].by_family(RULE, True)) < LEAST_FAMILIES:
            return Verdict(NOT_RUN, f"fewer than {LEAST_FAMILIES} held-out families were run or told apart")
        found = results[score]
        families, fixed = found.by_family(RULE, True), found.best_fixed(True)
        worst = min(families, key=lambda name: families[name])
        above = found.difference(RULE, fixed, True)
        mean, (least_mean, least) = found.mean(RULE, True), LIMITS[score]
        met = [mean >= least_mean, families[worst] >= least, above.low > 0]
        text = (
            f"mean {mean:.2f}, worst family {worst} {families[worst]:.2f}; {above.value:+.2f} "
            f"[{above.low:+.2f}, {above.high:+.2f}] against the best single fixed λ ({fixed})"
        )
        return Verdict(status_of(met), text)

    return verdict


CLAIMS = tuple(
    Claim(
        f"three-scores-{score}",
        "ours",
        f"The registered rule is good at {score} on problems that nobody designed it on.",
        f"mean over held-out families at least {mean}, worst family at least {worst}, and above the best single fixed "
        "λ with a 95 % interval above 0",
        (),
        judge(score),
        short=f"Credit: {score}",
    )
    for score, (mean, worst) in LIMITS.items()
)


PUBLISHED = "Nothing: a study of ours, on problems of ours (docs/experiments/credit-registered.md)."

QUESTIONS = {
    "values": "Values: whose Q is nearest to the truth, on the same transitions?",
    "decisions": "Decisions: whose greedy policy earns most, on the same transitions?",
    "control": "Control: who earns most, exploring with the registered bonus?",
    "control-greedy": "Control, ε-greedy without a bonus: who earns most?",
    "control-error-bonus": "Control with a bonus by the size of TD errors: who earns most?",
}
KINDS = {True: "held-out", False: "design"}
CAP = 1.5
"""Capped means count a family's score as no more than this."""
WINDOW = (-1.0, 2.5)
"""What a picture shows; scores beyond it stand at its edge, with their number."""


def PAGE(folder: Path, results: dict[str, Scored]) -> Path:
    """Write tables/KIND.md, KIND-answers.md and KIND-beside.md (the other ways to explore), figures/KIND-SCORE.svg."""
    for held_out, kind in KINDS.items():
        there = {name: found for name, found in results.items() if found.by_family(RULE, held_out)}
        registered = {name: found for name, found in there.items() if name in LIMITS}
        beside = {name: found for name, found in there.items() if name not in LIMITS}
        texts = {kind: _tables(registered, held_out), f"{kind}-answers": _answers(registered, held_out)}
        texts = {file: text if there else f"No {kind} family was run." for file, text in texts.items()}
        if beside:
            texts[f"{kind}-beside"] = _answers(beside, held_out) + "\n\n" + _tables(beside, held_out)
        write_parts(folder, texts, {f"{kind}-{name}": _draw(name, found, held_out) for name, found in there.items()})
    return folder / "tables" / "held-out.md"


def _answers(results: dict[str, Scored], held_out: bool) -> str:
    return "\n\n".join(answer(name, found, held_out) for name, found in results.items())


def _tables(results: dict[str, Scored], held_out: bool) -> str:
    tables = [_table(name, found, held_out) for name, found in results.items()]
    return "\n\n".join([*tables, _unclear(results, held_out)])


def answer(name: str, found: Scored, held_out: bool) -> str:
    """What was asked, and the rule against the best single fixed λ in one sentence."""
    fixed = found.best_fixed(held_out)
    gap = found.difference(RULE, fixed, held_out)
    ours, theirs = found.by_family(RULE, held_out), found.by_family(fixed, held_out)
    ahead = sum(ours[family] > theirs[family] for family in ours)
    worst = min(ours, key=lambda family: ours[family])
    return _minus(
        f"*{QUESTIONS[name]}* The rule has {found.mean(RULE, held_out):.2f}, the best single fixed λ "
        f"({LABELS[fixed]}) {found.mean(fixed, held_out):.2f}; the difference is {gap.text()}. The rule "
        f"is ahead on {ahead} of {len(ours)} {KINDS[held_out]} families; "
        f"its worst is {worst}, {ours[worst]:.2f}."
    )


def _seeds(found: Scored, held_out: bool) -> str:
    """How many: a number, or "30 to 50" where problems differ."""
    numbers = {each[RULE].size for cells in found.of(held_out).values() for each in cells}
    return f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else f"{max(numbers)}"


def _minus(text: str) -> str:
    return text.replace(" -", " −").replace("[-", "[−")


def _table(name: str, found: Scored, held_out: bool) -> str:
    fixed = found.best_fixed(held_out)
    run = found.methods(held_out)
    methods = sorted(run & {*COMPARED, fixed}, key=lambda method: -found.mean(method, held_out))
    count = len(found.by_family(fixed, held_out))
    head = (f"{name}, {count} {KINDS[held_out]} families", "mean", "median", f"mean, capped at {CAP}", "worst family",
            "less the best single fixed λ")  # fmt: skip
    rows = []
    for method in methods:
        each = found.by_family(method, held_out)
        scores, worst = np.array(list(each.values())), min(each, key=lambda family: each[family])
        gap = found.difference(method, fixed, held_out)
        last = "(it is this one)" if method == fixed else gap.text("+.2f")
        numbers = (f"{number:.2f}" for number in (scores.mean(), np.median(scores), np.minimum(scores, CAP).mean()))
        rows.append((LABELS[method], *numbers, f"{each[worst]:.2f} ({worst})", last))
    return _minus(markdown(head, rows)).replace("| −--", "| ---")


def _unclear(results: dict[str, Scored], held_out: bool) -> str:
    lines = []
    for score, found in results.items():
        names = [name for name in found.unclear if family_called(name.split()[0]).held_out == held_out]
        lines.append(f"- {score}: {', '.join(names) or 'none'}")
    return "Problems whose fixed λs are not told apart, left out:\n\n" + "\n".join(lines)


def _draw(name: str, found: Scored, held_out: bool) -> Any:
    """The rule and the best single fixed λ, family by family, and their means."""
    fixed = found.best_fixed(held_out)
    sides = {RULE: "#1b6ca8", fixed: "#b5442e"}
    labels = {RULE: "the rule", fixed: f"best single fixed λ ({LABELS[fixed]})"}
    each = {method: found.by_family(method, held_out) for method in sides}
    order = sorted(each[RULE], key=lambda family: each[RULE][family])
    figure, (axis,) = new_figure(8.0, 0.3 * len(order) + 2.1)
    places = [*range(len(order)), len(order) + 0.3]
    shown = {}
    for method, colour in sides.items():
        scores = np.array([*(each[method][family] for family in order), found.mean(method, held_out)])
        marker, sizes = "o" if method == RULE else "D", [36] * len(order) + [90]
        shown[method] = draw_scores(axis, places, scores, color=colour, marker=marker, s=sizes, label=labels[method])
    axis.hlines(places, shown[RULE], shown[fixed], color="0.8", zorder=1)
    axis.axhline(len(order) - 0.35, color="0.85", linewidth=0.8)
    axis.set_yticks(places, [*(family_called(family).title for family in order), "mean"], fontsize=9)
    for at in (0.0, 1.0):
        axis.axvline(at, color="0.6", linestyle=":", zorder=0)
    axis.set_xlim(WINDOW[0] - 0.25, WINDOW[1] + 0.25)
    seeds = _seeds(found, held_out)
    axis.set_title(QUESTIONS[name], fontsize=11, loc="left")
    axis.set_xlabel(
        "0: the worst fixed λ of a problem; 1: its best in hindsight\n"
        f"{len(order)} {KINDS[held_out]} families, {seeds} seeds; step sizes and λs chosen on other seeds",
        fontsize=9,
    )
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=9, frameon=False)
    return figure


def draw_scores(axis: Axes, places: Sequence[float], scores: np.ndarray, *, color: str, **look: Any) -> np.ndarray:
    """Scores as points, those beyond `WINDOW` at its edge with their number; returns what is shown."""
    shown = np.clip(scores, *WINDOW)
    axis.scatter(shown, places, color=color, zorder=2, **look)
    for place in np.flatnonzero(shown != scores).tolist():
        if not np.isnan(scores[place]):
            side = 6 if scores[place] > 0 else -6
            text, ha = f"{scores[place]:.1f}".replace("-", "−"), "left" if side > 0 else "right"
            axis.annotate(text, (shown[place], places[place]), (side, 0), textcoords="offset points", color=color,
                          fontsize=8, va="center", ha=ha)  # fmt: skip
    return shown
