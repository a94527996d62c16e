"""Arms of a comparison: bootstrap and rule, and their names in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chunked_td import lambdas
from chunked_td._checks import check_choice, did_you_mean
from chunked_td.comparison.settings import Settings, absolute, digest, short
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.names import current_id
from chunked_td.lambdas.reading import read_sources, required_settings
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.planning.dyna import Dyna
from chunked_td.learners.rules import PARTS, read_rule, split_rule

BOOTSTRAPS = {"sarsa": "SARSA", "expected_sarsa": "Expected-SARSA", "q_learning": "Q-learning"}
"""Bootstraps and their names in tables."""

FIXED, LEARNED, ERRORS, PLANS, RANDOM = "fixed", "learned", "errors", "plans", "random"
KINDS = (FIXED, LEARNED, ERRORS, PLANS, RANDOM)
"""Kinds of arms, simplest first."""

DYNA = "dyna"
SOURCES = tuple(id for id, cls in lambdas.SOURCES.items() if not (required_settings(cls) or cls.per_component))
"""Ids of the learned λs that can be compared."""
WITH_ERRORS = ("0.9+expected-error", "lineage+expected-error")
"""Rules that take their TD errors from the model."""
BY_DEFAULT = (*(id for id in SOURCES if lambdas.SOURCES[id].by_default), *WITH_ERRORS, DYNA)
"""Rules that are compared by default, in addition to the fixed λs."""
WITH_FEATURES = tuple(id for id in BY_DEFAULT if id in SOURCES)
"""Rules that are compared by default if values are linear in features: they need no table."""


@dataclass(frozen=True)
class Candidate:
    """A learner to compare.

    Attributes:
      bootstrap: a key of `BOOTSTRAPS`.
      rule: a number (a fixed λ), an id of `SOURCES`, "mine.py:MyLambda", any of these with parts as `read_rule` takes
        them, `DYNA` or `RANDOM`.
    """

    bootstrap: str
    rule: str

    @property
    def name(self) -> str:
        """The arm in tables of runs."""
        return f"{self.bootstrap} {self.rule}"

    @cached_property
    def made(self) -> tuple[LambdaSource, dict[str, Any]]:
        """The λ source, and further arguments of the learner."""
        if self.rule in (DYNA, RANDOM):
            return ConstantLambda(0.0), {"planner": Dyna()} if self.rule == DYNA else {}
        source, options = read_rule(self.rule, "sources")
        if self.bootstrap == "q_learning" and isinstance(source, ConstantLambda) and not options:
            source = WatkinsLambda(source.value)
        return source, options

    @property
    def kind(self) -> str:
        """One of the kinds above."""
        if self.rule in (DYNA, RANDOM):
            return PLANS if self.rule == DYNA else RANDOM
        source, options = self.made
        if "reward_source" in options:
            return ERRORS
        fixed = isinstance(source, ConstantLambda | WatkinsLambda) and not options
        return FIXED if fixed else LEARNED

    @property
    def value(self) -> float:
        """λ, if it is fixed."""
        source: Any = self.made[0]
        return float(source.value)

    @property
    def label(self) -> str:
        """Name in sentences and tables, without the bootstrap."""
        if self.rule in (DYNA, RANDOM):
            return "Dyna" if self.rule == DYNA else "acting at random"
        source, options = self.made
        label = f"λ = {short(source.value)}" if isinstance(source, ConstantLambda | WatkinsLambda) else source.label
        if "view" in options:
            label = "lineage traces" if label == "λ = 1" else f"{label}, lineage traces"
        if "reward_source" in options:
            share = "" if (weight := options["reward_source"].weight) == 1.0 else f" (ρ = {weight:g})"
            label += f" with expected TD errors{share}"
        return label

    @property
    def note(self) -> str:
        """Use of a learned model, in words; "" if there is none."""
        plans = "plans: ten more updates a step, from a learned model"
        return {ERRORS: "a learned model gives its TD errors", PLANS: plans}.get(self.kind, "")

    def settings(self) -> dict[str, str]:
        """Settings for the sweep; a digest represents the code of a user's file."""
        own = {"rule": absolute(self.rule), "code": digest(self.rule)} if ".py" in self.rule else {"rule": self.rule}
        return {"bootstrap": self.bootstrap, **own}


def make_arms(settings: Settings, features: bool) -> tuple[Candidate, ...]:
    """Every rule with every bootstrap. Args: features: whether values are linear in features."""
    for name in settings.bootstraps:
        check_choice("bootstraps", name, BOOTSTRAPS)
    chosen = settings.sources
    if chosen is None:
        chosen = WITH_FEATURES if features else BY_DEFAULT
    rules = [*(short(value) for value in settings.lambdas), *_rules((*chosen, *settings.lambda_source))]
    arms = tuple(dict.fromkeys(Candidate(bootstrap, rule) for bootstrap in settings.bootstraps for rule in rules))
    for arm in arms:
        _ = arm.made  # a wrong rule fails here
    if len(arms) < 2:
        raise ValueError(f"lambdas and sources must name two learners or more, got {[arm.label for arm in arms]}")
    return arms


def _rules(texts: Sequence[str]) -> Iterator[str]:
    """Rules in the form of `Candidate.rule`; a file yields one for each of its sources."""
    names: dict[str, str] = {}
    for text in texts:
        if ".py" in text and "+" not in text:
            for source in read_sources(text, "sources"):
                name = f"{text.partition('.py')[0]}.py:{type(source).__name__}"
                if names.setdefault(source.id, name) != name:
                    raise ValueError(f"sources: {name} has the id {source.id!r} of another source; give it its own")
                yield name
        else:
            yield _known(text)


def _known(text: str) -> str:
    source, known = split_rule(text)[0], current_id(split_rule(text)[0])
    if text == DYNA or "+" in text or text in PARTS or ".py" in text or source.replace(".", "", 1).isdigit():
        return text
    if known in SOURCES:
        return known
    choices = (*SOURCES, DYNA, *PARTS)
    raise ValueError(
        f"sources must be among {', '.join(choices)}, a rule such as 0.9+expected-error, or Python files (mine.py or "
        f"mine.py:MyLambda), got {text!r}{did_you_mean(text, choices)}"
    )
