"""The comparison as files: one HTML page with its pictures inside, the picture as SVG and PNG, every run as a table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from chunked_td import _pages
from chunked_td._figures import as_png, as_svg
from chunked_td._files import write_atomically
from chunked_td.comparison.answer import headline, hidden_texts, meanings, points, verdict, why
from chunked_td.comparison.picture import (
    SCORE,
    TOP,
    alternative,
    apart,
    caption,
    details_figure,
    ranked,
    ranking_figure,
)
from chunked_td.comparison.results import Comparison, Row
from chunked_td.comparison.wording import rounded, signed
from chunked_td.learners.schedule import Schedule

COLUMNS = ("learner", "verdict", "mean return", "difference", "step size α", "note")
_SHORT = 20
"""Characters of a name that fits above a column of numbers."""
_BANDS = "The best of each kind, mean over seeds with 95 % intervals, every seed at its chosen step size."


def write(found: Comparison, folder: Path) -> list[Path]:
    """Write compare.html, compare.svg, compare.png and compare.parquet."""
    files: dict[str, bytes] = {}
    pictures = ("", "")
    if found.rows or found.planning:
        figure = ranking_figure(found)
        pictures = as_svg(figure), as_svg(details_figure(found))
        files = {"compare.svg": pictures[0].encode(), "compare.png": as_png(figure)}
    files = {"compare.html": render(found, *pictures).encode(), **files}
    if found.runs is not None:
        buffer = io.BytesIO()
        found.runs.write_parquet(buffer)
        files["compare.parquet"] = buffer.getvalue()
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]


def render(found: Comparison, picture: str, details: str) -> str:
    """The page. Args: picture, details: SVG documents; "" if nothing is ranked."""
    rows, title = ranked(found), f"{found.settings.env}: which λ?"
    rest = [*rows[TOP:]]
    return _pages.page(
        title,
        f"<h1>{_pages.escape(title)}</h1>",
        *(_pages.paragraph(text) for text in hidden_texts(found)),
        _pages.paragraph(headline(found), "answer"),
        *(_pages.paragraph(text) for text in why(found)),
        _pages.picture(picture, alternative(found), caption(found)) if picture else "",
        ranking(found, rows[:TOP], apart(found)),
        _recipe(found),
        _pages.folded(f"The other {len(rest)} learners", ranking(found, rest, [])) if rest else "",
        _pages.folded("More about this comparison", _pages.listed(points(found))),
        _pages.folded("Learning curves, λ, step sizes", _pages.picture(details, "curves", _BANDS) if details else ""),
        _pages.folded("What the learned λs are", _meanings(found)),
        _pages.folded("How the numbers were made", _pages.listed(method(found))),
    )


def cells(found: Comparison, row: Row) -> tuple[str, ...]:
    """A row of the ranking as text, by `COLUMNS`."""
    used, reference = found.recommended, row is found.reference
    difference = "" if used is None or row.place == used.place else signed(found.lead(row, used))
    size = "" if reference else row.outcome.step_size_text
    same = ", ".join(found.name(arm) for arm in row.outcome.arms[1:])
    note = "; ".join(text for text in (row.arm.note, f"the same runs: {same}" if same else "") if text)
    return found.name(row.arm), verdict(found, row), rounded(row.score.value, 4), difference, size, note


def columns(found: Comparison) -> list[str]:
    """Names of the columns; the difference is from the first row, which is the recommended learner."""
    used = found.recommended
    name = "" if used is None else found.name(used.arm)
    minus = f"minus {name}" if len(name) <= _SHORT else "minus the first"
    return [(minus if used else "") if name == "difference" else name for name in COLUMNS]


def ranking(found: Comparison, rows: Sequence[Row], others: Sequence[Row]) -> str:
    """A table of learners; `others` are set apart."""
    kinds = ["first" if row is found.recommended else "" for row in rows] + ["apart"] * len(others)
    return _pages.table(columns(found), [cells(found, row) for row in (*rows, *others)], kinds, numbers=(2, 3))


def _recipe(found: Comparison) -> str:
    if found.recommended is None:
        return ""
    line = _pages.code(found.command) if found.command else ""
    return "\n".join(
        [f"<h2>Train {_pages.escape(found.name(found.recommended.arm))}</h2>", line, _pages.code(found.python or "")]
    )


def _meanings(found: Comparison) -> str:
    rows = meanings([arm for one in found.outcomes for arm in one.arms])
    return _pages.table(("λ", "in words", "formula"), rows) if rows else ""


def method(found: Comparison) -> list[str]:
    """How the numbers were made."""
    settings = found.settings
    looks = f", judged at most {found.looks} times as seeds were added" if found.looks > 1 else ""
    explore = f"ε = {_number(settings.exploring)}"
    bonus = "" if settings.bonus is None else f", count bonus {settings.bonus:g}/√n"
    return [
        f"Score: {SCORE}.",
        f"{len(found.outcomes)} learners, {found.seeds} seeds each{looks}; {settings.episodes:,} episodes per run, "
        f"γ = {settings.discount:g}, {explore}{bonus}, values begin at {settings.initial_value:g}.",
        f"Runs: {found.how}.",
        "Step sizes: every seed is scored at the one that is best on the other half of the seeds. If the best one is "
        f"at the edge of the grid, the grid grows by one factor, at most {settings.extend} times.",
        "Differences are paired over seeds. Their intervals are simultaneous over all pairs of learners and all "
        "interim analyses (95 %, studentised wild bootstrap over seeds), and never wider than scores differ.",
        "Equivalent: shown to differ by at most 5 % of the range of the learners' means. Inconclusive: neither better, "
        "worse nor equivalent is shown.",
        "Recommended: the best fixed λ, unless a learned λ is shown to be better, or a learner with TD errors from a "
        "model to be better still; and only if it is shown to beat acting at random.",
    ]


def _number(value: float | Schedule) -> str:
    if not isinstance(value, Schedule):
        return f"{value:g}"
    return ", ".join(f"{number:g} at episode {at:,}" for at, number in value.points)
