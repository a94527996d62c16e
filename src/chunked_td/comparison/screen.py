"""The answer for a terminal: at most forty lines, and no number broken by a narrow one."""

from __future__ import annotations

import shutil
import textwrap

from chunked_td.comparison.answer import headline, hidden_texts, points, why
from chunked_td.comparison.page import cells, columns
from chunked_td.comparison.picture import TOP, apart, ranked
from chunked_td.comparison.results import Comparison

NARROW = 64
"""A terminal with fewer columns gets the ranking as a list."""
_SHOWN = 4
"""Columns of the ranking that a terminal shows."""
_POINTS = 5
"""Further facts that a terminal shows; the page has all."""


def text(found: Comparison) -> str:
    """Headline, reasons, ranking, and the line that trains the recommended learner."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    wrapped = lambda line: textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False)  # noqa: E731
    lines = [*hidden_texts(found), headline(found), *why(found)]
    more = points(found)[:_POINTS]
    left = len(found.rows) - TOP + len(found.diverged)
    parts = [
        "\n".join(map(wrapped, lines)),
        _ranking(found, width) + (f"\n{left} more in compare.html" if left > 0 else ""),
        "\n".join(wrapped(f"- {line}") for line in more),
        f"Train it: {found.command}" if found.command else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _ranking(found: Comparison, width: int) -> str:
    """Ten learners, then planning and acting at random."""
    if not (found.rows or found.planning):
        return ""
    rows = [cells(found, row)[:_SHOWN] for row in (*ranked(found)[:TOP], *apart(found))]
    head = columns(found)[:_SHOWN]
    if width < NARROW:
        return "\n".join(_narrow(row, head, width) for row in rows)
    wide = [max(len(row[k]) for row in (head, *rows)) for k in range(_SHOWN)]
    if sum(wide) + 6 > width:  # the column that a reader can do without
        head, rows, wide = head[:3], [row[:3] for row in rows], wide[:3]
    lines = [_line(row, wide) for row in (head, *rows)]
    rule = "─" * min(sum(wide) + 2 * len(wide) - 2, width)
    lines[1:1] = [rule]
    lines[-len(apart(found)) : -len(apart(found))] = [""]
    return "\n".join(lines)


def _line(row: list[str] | tuple[str, ...], wide: list[int]) -> str:
    aligned = [
        cell.ljust(size) if k < 2 else cell.rjust(size) for k, (cell, size) in enumerate(zip(row, wide, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def _narrow(row: tuple[str, ...], head: list[str], width: int) -> str:
    lines = [row[0], *(f"  {name}: {cell}" for name, cell in zip(head[1:], row[1:], strict=True) if cell)]
    return "\n".join(textwrap.fill(line, width, subsequent_indent="    ", break_on_hyphens=False) for line in lines)
