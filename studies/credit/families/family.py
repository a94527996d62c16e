"""Family of problems: one generator with difficulty parameters, and the settings of one that are run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import chunked_td as ctd


@dataclass(frozen=True)
class Family:
    """Problems that differ in one difficulty parameter.

    Args:
      id: stable short name.
      title: for headings. text: the problems and the effect of the difficulty parameter, in a few sentences.
      dial: name of the difficulty parameter. settings: its values, from one end to the other.
      make: function from the parameters, by keyword, to a transition table.
      fixed: the other parameters.
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
        """Return the problem at one value of the difficulty parameter."""
        return self.make(**{**self.fixed, self.dial: setting})


def family(id: str, title: str, dial: str, settings: tuple[Any, ...], **more: Any) -> Callable[..., Family]:
    """Decorator: make a family of a function from parameters to a table; its first docstring paragraph is the text."""

    def decorate(make: Callable[..., ctd.TransitionTable]) -> Family:
        text = (inspect.getdoc(make) or "").partition("\n\n")[0].replace("\n", " ")
        return Family(id, title, text, dial, settings, make, **more)

    return decorate
