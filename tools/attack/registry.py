"""What an attack is, what may come of one, and which there are."""

from __future__ import annotations

import enum
import importlib
import pkgutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


class Outcome(enum.StrEnum):
    """What came of a case."""

    REFUSED = "refused"
    """An error of the kind that is promised, with a sentence that names what is wrong."""
    SAME = "same content"
    """Accepted, and what was damaged had no part in the content."""
    HARMLESS = "harmless"
    """Accepted with other content that is valid; using it went well."""
    CRASH = "CRASH"
    """The process died."""
    HANG = "HANG"
    """It ran past its time limit."""
    MEMORY = "MEMORY"
    """It took more memory than its limit."""
    SILENT = "SILENT CHANGE"
    """Other content than was written, and nobody was told."""
    OUTSIDE = "WROTE OUTSIDE"
    """A file appeared, changed or vanished where it must not."""
    TRACEBACK = "TRACEBACK"
    """An error that is not promised."""

    @property
    def good(self) -> bool:
        """Whether it is as it should be."""
        return self in (Outcome.REFUSED, Outcome.SAME, Outcome.HARMLESS)


class Found(Exception):
    """Raised by an attack that has found something bad."""

    def __init__(self, outcome: Outcome, text: str):
        super().__init__(text)
        self.outcome = outcome


@dataclass
class Case:
    """One try.

    Attributes:
      number: from 0, for attacks that go through all there is. rng: the same for the same seed, attack and number.
      folder: an empty folder of its own; the working directory too.
      said: what the case is, for the report; an attack appends to it.
    """

    number: int
    rng: np.random.Generator
    folder: Path
    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Note what the case is."""
        self.said.append(text)


Try = Callable[[Case], Outcome | None]


@dataclass(frozen=True)
class Attack:
    """A kind of case.

    Args:
      name: unique; "part: what is done".
      run: tries one case. None says that there are no further numbers.
      prepare: called once in every child before the first case, without time limit to speak of.
      seconds: limit per case. megabytes: limit of memory per case.
      share: of the time, relative to other attacks; 0 runs it only where it is named in full.
    """

    name: str
    run: Try
    prepare: Callable[[], object] | None = None
    seconds: float = 60.0
    share: float = 1.0
    megabytes: float = 512.0

    def rng(self, seed: int, number: int) -> np.random.Generator:
        """Random numbers of a case."""
        return np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])


ATTACKS: dict[str, Attack] = {}
"""By name; filled by `attack` when `load` imports the modules."""


def attack(name: str, **settings: object) -> Callable[[Try], Try]:
    """Register a function as an attack; settings as in `Attack`."""

    def register(run: Try) -> Try:
        if name in ATTACKS:
            raise ValueError(f"two attacks are called {name!r}")
        ATTACKS[name] = Attack(name, run, **settings)  # type: ignore[arg-type]
        return run

    return register


def load() -> dict[str, Attack]:
    """All attacks: every module of this package is imported."""
    import tools.attack as package

    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        if module != "__main__":
            importlib.import_module(f"tools.attack.{module}")
    return ATTACKS
