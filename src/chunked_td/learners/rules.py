"""Learner settings from text, for commands: a λ source, followed by the types of trace and of TD error."""

from __future__ import annotations

from typing import Any

from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.reading import read_source
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.planning.expected_error import ExpectedError

PARTS = ("lineage", "expected-error")
"""Parts that may follow a λ source: lineage traces, and expected TD errors."""


def split_rule(text: str) -> tuple[str, dict[str, Any]]:
    """Split "value+lineage+expected-error=0.5" into the text of the λ source and arguments of a learner.

    "lineage" alone has λ = 1. The number of expected-error is ρ, 1 by default (see `ExpectedError`).
    """
    source, options = text, {}
    while (part := source.rpartition("+")[2]).partition("=")[0] in PARTS:
        options = _option(part) | options
        source = source.rpartition("+")[0] if part != source else "1"
    return source, options


def _option(part: str) -> dict[str, Any]:
    name, equals, number = part.partition("=")
    if name == "lineage" and not equals:
        return {"view": Lineage()}
    try:
        return {"reward_source": ExpectedError(float(number) if equals else 1.0)}
    except ValueError as problem:
        raise ValueError(f"expected-error must be followed by a number in [0, 1], got {part!r} ({problem})") from None


def read_rule(text: str, argument: str = "--lambda-source") -> tuple[LambdaSource, dict[str, Any]]:
    """Return the one λ source that a text names, and the other arguments of a learner that it sets."""
    name, options = split_rule(text)
    return read_source(name, argument), options
