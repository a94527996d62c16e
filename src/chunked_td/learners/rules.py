"""Rules from text, for commands: a λ source, and after it what is done with its λ and with the TD error."""

from __future__ import annotations

from typing import Any

from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.reading import read_source
from chunked_td.learners.lineage import Lineage
from chunked_td.learners.planning.expected_error import ExpectedError

PARTS: dict[str, dict[str, Any]] = {"lineage": {"view": Lineage()}, "luck": {"reward_source": ExpectedError()}}
"""What may follow a λ source, by name: arguments of a learner."""


def split_rule(text: str) -> tuple[str, dict[str, Any]]:
    """The text of the λ source, and arguments of a learner: "value+lineage+luck". "lineage" alone has λ = 1."""
    source, options = text, {}
    while (part := source.rpartition("+")[2]) in PARTS:
        options = PARTS[part] | options
        source = source.rpartition("+")[0] if part != source else "1"
    return source, options


def read_rule(text: str, argument: str = "--lambda-source") -> tuple[LambdaSource, dict[str, Any]]:
    """The only λ source that a text names, and the arguments of a learner that the text asks for besides."""
    name, options = split_rule(text)
    return read_source(name, argument), options
