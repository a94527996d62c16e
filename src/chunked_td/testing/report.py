"""The result of a check: a table as text, and the smallest example of each failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class NotSupported(Exception):
    """Raise it in an adapter if the function has no argument for a case."""


@dataclass(frozen=True)
class Example:
    """One call with a wrong result.

    Attributes:
      arguments: by name, as NumPy arrays and numbers. got: the result, or the exception. expected: the right one.
      matters_at: the (γ, λ) tried at which the result is wrong.
      fine_at: those at which it is right.
    """

    arguments: Mapping[str, Any]
    got: Any
    expected: np.ndarray | None
    matters_at: tuple[tuple[float, float], ...] = ()
    fine_at: tuple[tuple[float, float], ...] = ()

    def __str__(self) -> str:
        lines = [f"    {name} = {_shown(value)}" for name, value in self.arguments.items()]
        lines.append(f"    got      {_shown(self.got)}")
        if self.expected is not None:
            lines.append(f"    expected {_shown(self.expected)}")
        if self.fine_at:
            lines.append(f"    wrong at {_pairs(self.matters_at)}; right at {_pairs(self.fine_at)}")
        elif self.matters_at:
            lines.append("    wrong at every γ and λ that was tried")
        return "\n".join(lines)


@dataclass
class CheckReport:
    """The cases of a check.

    Attributes:
      passed: names of cases. failed: {case: its smallest example}. not_expressible: cases that f cannot take.
      about: {case: one line on what it tests}. note: what to change in the call, if it looks wrong.
    """

    passed: list[str] = field(default_factory=list)
    failed: dict[str, Example] = field(default_factory=dict)
    not_expressible: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def one_exception(self) -> bool:
        """Whether every case failed, all with the same exception: the call is wrong rather than the numbers."""
        raised = [str(each.got) for each in self.failed.values() if isinstance(each.got, BaseException)]
        return len(raised) == len(self.about) > 1 and len(set(raised)) == 1

    def __str__(self) -> str:
        width = max(map(len, self.about), default=0)
        rows = []
        for case, about in self.about.items():
            status = "FAILED" if case in self.failed else "passed" if case in self.passed else "not expressible"
            rows.append(f"{status:16}{case:{width + 2}}{about}")
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.not_expressible)} not expressible"
        examples = [f"\n{case}: {self.about[case]}\n{example}" for case, example in self.failed.items()]
        if self.one_exception():
            examples = [examples[0], "\nEvery other case raised the same."]
        return "\n".join([*rows, counts, *examples, *([self.note] if self.note else [])])

    def raise_for_failures(self) -> None:
        """Raise an AssertionError that shows every failure; nothing if there is none."""
        if self.failed:
            raise AssertionError(f"{len(self.failed)} of {len(self.about)} cases failed\n{self}")


def _shown(value: Any) -> str:
    """Numbers on one line, large arrays by their shape."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.all() == value.any():
        return f"all {bool(value.all())}"
    if isinstance(value, np.ndarray) and value.size > 30:
        first = ", ".join(f"{x:.4g}" for x in np.ravel(value)[:4].astype(float))
        return f"{value.dtype}{list(value.shape)}, first {first}"
    if isinstance(value, np.ndarray):
        return np.array2string(
            value.astype(float).round(4) if value.dtype.kind == "f" else value, separator=", "
        ).replace("\n", "")
    return repr(value)


def _pairs(settings: tuple[tuple[float, float], ...]) -> str:
    return ", ".join(f"(γ {discount:g}, λ {lambda_:g})" for discount, lambda_ in settings)
