"""The answer as files and on a terminal: one HTML page with its pictures inside, SVG and PNG, a table of every run.

The terminal gets at most forty lines, and no number is broken by a narrow one.
"""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

from chunked_td import _pages
from chunked_td._figures import as_png, as_svg
from chunked_td._files import write_atomically
from chunked_td.comparison.answer import (
    headline,
    hidden_texts,
    listed,
    mean_text,
    meanings,
    points,
    rounded,
    verdict,
    why,
)
from chunked_td.comparison.picture import SCORE, SHORT, TOP, apart, details_figure, ranked, ranking_figure
from chunked_td.comparison.results import Comparison, Outcome
from chunked_td.learners.schedule import Schedule

COLUMNS = ("learner", "verdict", "mean return", "difference", "step size α", "note")
_NARROW = 64
"""A terminal with fewer columns gets the ranking as a list."""
_SHOWN = 4
"""Columns of the ranking on a terminal."""
_POINTS = 5
"""Further facts on a terminal; the page has all."""


# ---- the ranking as cells


def cells(found: Comparison, one: Outcome) -> tuple[str, ...]:
    """A row of the ranking as text, by `COLUMNS`."""
    used = found.recommended
    difference = "" if used is None or one is used else found.lead(one, used).span("+")
    size = "" if one is found.random else one.step_size_text
    same = ", ".join(found.name(arm) for arm in one.arms[1:])
    note = "; ".join(text for text in (one.arm.note, f"the same runs: {same}" if same else "") if text)
    return found.name(one.arm), verdict(found, one), rounded(found.score(one).value, 4), difference, size, note


def columns(found: Comparison) -> list[str]:
    """Names of the columns; the difference is from the first row, which is the recommended learner."""
    used = found.recommended
    name = "" if used is None else found.name(used.arm)
    minus = "" if used is None else f"minus {name}" if len(name) <= SHORT else "minus the first"
    return [minus if name == "difference" else name for name in COLUMNS]


# ---- on a terminal


def text(found: Comparison) -> str:
    """Headline, reasons, ranking, and the line that trains the recommended learner."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    left = len(found.rows) - TOP + len(found.diverged)
    parts = [
        "\n".join(_wrapped(line, width) for line in (*hidden_texts(found), headline(found), *why(found))),
        _ranking(found, width) + (f"\n{left} more in compare.html" if left > 0 else ""),
        "\n".join(_wrapped(f"- {line}", width) for line in points(found)[:_POINTS]),
        f"Train it: {found.command}" if found.command else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False)


def _ranking(found: Comparison, width: int) -> str:
    """Ten learners, then planning and acting at random."""
    others = apart(found)
    if not (found.rows or found.planning):
        return ""
    rows = [cells(found, one)[:_SHOWN] for one in (*ranked(found)[:TOP], *others)]
    head = columns(found)[:_SHOWN]
    if width < _NARROW:
        named = ((row[0], *(f"  {name}: {x}" for name, x in zip(head[1:], row[1:], strict=True) if x)) for row in rows)
        return "\n".join(_wrapped(line, width) for row in named for line in row)
    wide = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    shown = _SHOWN if sum(wide) + 6 <= width else 3  # the column that a reader can do without
    lines = [
        "  ".join(f"{x:{'<' if k < 2 else '>'}{wide[k]}}" for k, x in enumerate(row[:shown])).rstrip()
        for row in (head, *rows)
    ]
    rule = "─" * min(sum(wide[:shown]) + 2 * shown - 2, width)
    return "\n".join([lines[0], rule, *lines[1 : -len(others)], "", *lines[-len(others) :]])


# ---- as files


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
    rows, title, used = ranked(found), f"{found.settings.env}: which λ?", found.recommended
    names = listed([found.name(one.arm) for one in rows[:TOP]], most=TOP)
    alternative = f"Learners on {found.settings.env}, best first: {names}." if names else "no learner is ranked"
    means = meanings([arm for one in found.outcomes for arm in one.arms])
    bands = "The best of each kind, mean over seeds with 95 % intervals, every seed at its chosen step size."
    rest = rows[TOP:]
    return _pages.page(
        title,
        f"<h1>{_pages.escape(title)}</h1>",
        *(_pages.paragraph(line) for line in hidden_texts(found)),
        _pages.paragraph(headline(found), "answer"),
        *(_pages.paragraph(line) for line in why(found)),
        _pages.picture(picture, alternative, _caption(found)) if picture else "",
        _table(found, rows[:TOP], apart(found)),
        f"<h2>Train {_pages.escape(found.name(used.arm))}</h2>" if used else "",
        *(_pages.code(line) for line in (found.command, found.python) if line),
        _pages.folded(f"The other {len(rest)} learners", _table(found, rest, [])) if rest else "",
        _pages.folded("More about this comparison", _pages.listed(points(found))),
        _pages.folded("Learning curves, λ, step sizes", _pages.picture(details, "curves", bands) if details else ""),
        _pages.folded("What the learned λs are", _pages.table(("λ", "in words", "formula"), means) if means else ""),
        _pages.folded("How the numbers were made", _pages.listed(_method(found))),
    )


def _table(found: Comparison, rows: Sequence[Outcome], others: Sequence[Outcome]) -> str:
    """A table of learners; `others` are set apart."""
    kinds = ["first" if one is found.recommended else "" for one in rows] + ["apart"] * len(others)
    return _pages.table(columns(found), [cells(found, one) for one in (*rows, *others)], kinds, numbers=(2, 3))


def _caption(found: Comparison) -> str:
    """Text below the picture."""
    left = len(found.rows) - TOP
    more = f" {left} more in the table below." if left > 0 else ""
    if found.recommended is None:
        return f"The {SCORE}, with 95 % intervals; dots are seeds.{more}"
    return (
        f"The {SCORE}, minus that of the first row. A line that does not touch 0 is a difference that is shown; the "
        f"95 % intervals hold for all pairs at once. Dots are seeds. Acting at random: "
        f"{mean_text(found, found.random)}.{more}"
    )


def _method(found: Comparison) -> list[str]:
    """The method, for the last folded part."""
    settings, exploring = found.settings, found.settings.exploring
    looks = f", judged at most {found.looks} times as seeds were added" if found.looks > 1 else ""
    bonus = "" if settings.bonus is None else f", count bonus {settings.bonus:g}/√n"
    points = exploring.points if isinstance(exploring, Schedule) else ()
    epsilon = ", ".join(f"{number:g} at episode {at:,}" for at, number in points) or f"{exploring:g}"
    return [
        f"Score: {SCORE}.",
        f"{len(found.outcomes)} learners, {found.seeds} seeds each{looks}; {settings.episodes:,} episodes per run, "
        f"γ = {settings.discount:g}, ε = {epsilon}{bonus}, values begin at {settings.initial_value:g}.",
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
