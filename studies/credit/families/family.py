"""A family of problems: one generator with dials, and the settings of one dial that are run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import chunked_td as ctd


@dataclass(frozen=True)
class Family:
    """Problems that differ in the setting of one dial.

    Args:
      id: stable short name.
      title: for headings. text: what the problems are and what the dial does, in a few sentences.
      dial: the name of the dial. settings: its positions, from one end to the other.
      make: from the dials to a transition table, by keyword.
      fixed: the other dials.
      episodes: length of a run. discount: γ. epsilon: exploration.
      held_out: no rule of this study was designed on it.
    """

    id: str
    title: str
    text: str
    dial: str
    settings: tuple[Any, ...]
    make: Callable[..., ctd.TransitionTable]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 300
    discount: float = 1.0
    epsilon: float = 0.1
    held_out: bool = False

    def problem(self, setting: Any) -> ctd.TransitionTable:
        """The problem at one position of the dial."""
        return self.make(**{**self.fixed, self.dial: setting})


def family(id: str, title: str, dial: str, settings: tuple[Any, ...], **more: Any) -> Callable[..., Family]:
    """A decorator: the family of a function from dials to a table; the first paragraph of its docstring is the text."""

    def decorate(make: Callable[..., ctd.TransitionTable]) -> Family:
        text = (inspect.getdoc(make) or "").partition("\n\n")[0].replace("\n", " ")
        return Family(id, title, text, dial, settings, make, **more)

    return decorate
