"""What a family of problems is: one generator with dials, the settings of the dials that run, and how much of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunked_td.envs.table import TransitionTable
from chunked_td.lab.identity import is_ours, source_hash
from chunked_td.lab.study import Environment, Protocol

CHOICE, CONTROL, PREDICTION = "choice", "control", "prediction"
"""What is learned, and the score, which is the better the larger:

- CHOICE: which of few ways is right. Score: the share of episodes that took it. (The returns themselves are noisy.)
- CONTROL: to act. Score: the mean return of all episodes.
- PREDICTION: the values of the uniform policy. Score: minus the root mean square error, averaged over training.
"""


@dataclass(frozen=True)
class Family:
    """Problems that differ in the setting of one dial.

    Args:
      id: stable short name.
      title: for headings. text: what the problems are and what the dial does, in a few sentences.
      dial: the name of the dial. settings: its three positions.
      make: from the dials to a transition table, by keyword.
      fixed: the other dials.
      task: CHOICE, CONTROL or PREDICTION.
      episodes: length of a run. discount: γ. epsilon: exploration.
      control_for: the dials of the control, e.g. {"mirrored": True}: a win that is not there on the control, too, was
        not won for the reason given. control_text: what they change.
      held_out: not run while the λ sources of this package were designed.
    """

    id: str
    title: str
    text: str
    dial: str
    settings: tuple[Any, ...]
    make: Callable[..., TransitionTable]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    task: str = CHOICE
    episodes: int = 300
    discount: float = 1.0
    epsilon: float = 0.1
    control_for: Mapping[str, Any] = field(default_factory=dict)
    control_text: str = ""
    held_out: bool = False

    def problem(self, setting: Any, *, control: bool = False) -> TransitionTable:
        """The problem at one position of the dial, or its control."""
        return self.make(**{**self.fixed, self.dial: setting, **(self.control_for if control else {})})

    def pairs(self, setting: Any) -> tuple[tuple[int, int], ...]:
        """Every state and action that has an outcome."""
        states, actions = np.nonzero(self.problem(setting).legal_actions)
        return tuple(zip(states.tolist(), actions.tolist(), strict=True))


def family(id: str, title: str, dial: str, settings: tuple[Any, ...], **more: Any) -> Callable[..., Family]:
    """A decorator: the family of a function from dials to a table; the first paragraph of its docstring is the text."""

    def decorate(make: Callable[..., TransitionTable]) -> Family:
        text = (inspect.getdoc(make) or "").partition("\n\n")[0].replace("\n", " ")
        return Family(id, title, text, dial, settings, make, **more)

    return decorate


def latest_env(name: str) -> Any:
    """Gymnasium's environment of this name, in its latest version."""
    import gymnasium

    versions = [int(spec.version or 0) for spec in gymnasium.registry.values() if spec.name == name]
    return gymnasium.make(f"{name}-v{max(versions)}")


@dataclass(frozen=True)
class FamilySize:
    """How much is run: seeds, step sizes 2^j, and whether of every family only the middle position of its dial."""

    seeds: int
    exponents: tuple[int, ...]
    middle_only: bool = False

    def settings(self, family: Family) -> tuple[Any, ...]:
        """The positions of the dial that are run."""
        return family.settings[1:2] if self.middle_only else family.settings


def family_protocol(
    family: Family, size: FamilySize, problem: str, arguments: Mapping[str, Any], **more: Any
) -> Protocol:
    """A protocol on a problem of a family.

    Args:
      problem: address of what makes it from the family's id, `arguments`, and, where the family is not of this package,
        `source`, a hash of its code. more: other arguments of the protocol.
    """
    own = {} if is_ours(family.make) else {"source": source_hash(family.make)}
    return Protocol(
        environment=Environment(problem, {"family": family.id, **arguments, **own}),
        exponents=size.exponents,
        episodes=family.episodes,
        discount=family.discount,
        seeds=size.seeds,
        seeds_per_batch=size.seeds,
        step_size_base=1.0,
        steps_per_episode=20.0,
        **more,
    )
