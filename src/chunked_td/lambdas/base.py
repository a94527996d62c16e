"""Base class of λ sources: settings, required queries, and a function from a transition to λ."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

from chunked_td._checks import check_choice, check_unit
from chunked_td._link import is_kernel
from chunked_td._settings import KernelSettings
from chunked_td.lambdas.names import Named

QUESTIONS: dict[str, tuple[str, ...]] = {
    "policy": ("policy",),
    "tried": ("policy",),
    "choice": (),
    "present_value": ("policy",),
    "value_at": ("legal",),
    "chance": ("outcome",),
    "chances": ("outcome", "policy"),
    "mixture": ("outcome", "policy"),
    "overlap": ("overlaps",),
    "mean_overlap": ("overlaps", "policy"),
    "expected_mixture": ("overlaps", "policy"),
    "expected_choice": ("outcomes", "legal"),
    "outcomes": ("outcomes",),
    "came_from": ("predecessors",),
    "visits": ("visits",),
}
"""Queries of a source (`chunked_td.lambdas.step`, `chunked_td.lambdas.plain`), and the learner inputs that each needs:

| input | content |
|---|---|
| policy | π(·|x_t); without it only the action taken can be queried |
| legal | the legal actions of states other than the present one, and so the policy there |
| outcome, parts | P̂ of the sampled next state; of the state components that decide a reward, for a λ per component |
| overlaps, outcomes | over all possible next states: Σ P̂ P̂ of pairs of actions; the list |
| predecessors, visits | P̂ of the previous state; number of visits per state |
"""

FORWARD = {"outcome", "parts", "overlaps", "outcomes"}
COUNTED = {"predecessors", "visits"}
MODEL = FORWARD | COUNTED
"""Inputs from the model: FORWARD from any model, COUNTED from counts only."""

MANY = 1e200
"""Number of episodes that stands for the limit of counts: 1/MANY is 0 up to rounding, ratios are exact."""


class Settled(Protocol):
    """Exact quantities of a policy with its true values, the argument of `LambdaSource.settled`.

    Attributes:
      visits: float64[S], mean number of times that an episode leaves each state.
      mean_square_error: E[δ²] over the transitions of an episode.
      errors: mean and variance of the TD errors that leave a state (SARSA: a pair), float64[S, A] each.
      returns: mean and variance of the returns from a state (SARSA: a pair), float64[S, A] each.

    Reward components are summed.
    """

    visits: Any
    mean_square_error: Any
    errors: Any
    returns: Any


@dataclass(frozen=True, repr=False)
class LambdaSource(KernelSettings, Named):
    """Base of λ sources: a frozen dataclass with the members of `KernelSettings`, of `Named` and these.

    Attributes:
      per_component: whether each reward component has a λ of its own.
      follows_episode: whether the arrays hold the current episode in addition to learned numbers. Such a source does
        not support vector environments.

    `lambda_t` has one of two forms:

    - a kernel `lambda_t(source, step, i)`, which runs everywhere; `step` is a
      `chunked_td.lambdas.step.Step`, i the reward component;
    - a plain method `lambda_t(self, step)`, which runs in `agent.step` and `agent.learn`; `step` is a
      `chunked_td.lambdas.plain.PlainStep`.

    `asks(bootstrap)` returns the names of the queries that `lambda_t` calls. The learner provides their inputs.

    A source that learns also has one or both of these kernels:

    - `after_step(source, step, reward, td_error, ended)`, called after every transition; `ended` is 0 before the last
      step, 1 on termination, 2 on truncation;
    - `after_episode(source, episode)`, called after every episode; `episode` is a `chunked_td.lambdas.episode.Episode`.
    """

    per_component: ClassVar[bool] = False
    follows_episode: ClassVar[bool] = False

    def asks(self, bootstrap: int) -> tuple[str, ...]:
        """Return the `QUESTIONS` that `lambda_t` calls with a bootstrap (`chunked_td.bootstraps`)."""
        return ()

    def inputs(self, bootstrap: int) -> frozenset[str]:
        """Inputs that a learner with this bootstrap must provide for the queries of `asks`."""
        return _inputs(self.asks(bootstrap), self.per_component)

    @property
    def learns(self) -> bool:
        """Whether the source learns from step to step."""
        return bool(self.arrays) or bool(self._lessons())

    @property
    def learns_from_episodes(self) -> bool:
        """Whether the source learns from complete episodes."""
        return hasattr(type(self), "after_episode")

    def _lessons(self) -> list[Any]:
        """The functions by which the source learns."""
        names = ("after_step", "after_episode")
        return [getattr(type(self), name) for name in names if hasattr(type(self), name)]

    @property
    def is_compiled(self) -> bool:
        """Whether `lambda_t` is a kernel."""
        return is_kernel(getattr(type(self), "lambda_t", None))

    def settled(self, known: Settled) -> Mapping[str, Any]:
        """Limits of `arrays` under a fixed policy, by name; an array without an entry has the limit zero.

        `chunked_td.fixed_point` calls it. It raises ValueError if there is no limit.
        """
        if self.learns:
            raise self.no_limit("it does not define settled()")
        return {}

    def no_limit(self, why: str) -> ValueError:
        """Return the error for a source whose arrays have no known limit."""
        return ValueError(
            f"learned must be given for {type(self).__name__}: its arrays {', '.join(self.arrays)}, by name, as after "
            f"training; {why}"
        )


@functools.cache  # model objects call it at every step
def _inputs(asked: tuple[str, ...], per_component: bool) -> frozenset[str]:
    named = (check_choice("asks", question, QUESTIONS) for question in asked)
    found = {one for question in named for one in QUESTIONS[question]}
    return frozenset("parts" if per_component and one == "outcome" else one for one in found)


def _checked(source: LambdaSource) -> LambdaSource:
    """Return the source; raise ValueError if its methods are incomplete."""
    if not callable(getattr(source, "lambda_t", None)):
        raise ValueError(f"lambda_source must have a method lambda_t, got {source!r}")
    lessons = source._lessons()
    if source.arrays and not lessons:
        raise ValueError(f"lambda_source with arrays must have a kernel after_step or after_episode, got {source!r}")
    if lessons and not (source.is_compiled and all(map(is_kernel, lessons))):
        raise ValueError(f"lambda_t, after_step and after_episode must be kernels if a source learns, got {source!r}")
    return source


def as_lambda_source(value: Any, default: LambdaSource) -> LambdaSource:
    """Return the λ source for a source, a number (constant λ) or None (the default)."""
    if value is None:
        return default
    if isinstance(value, LambdaSource):
        return _checked(value)
    from chunked_td.lambdas import CLASSES
    from chunked_td.lambdas.constant import ConstantLambda

    if isinstance(value, Real) and not isinstance(value, bool):
        return ConstantLambda(check_unit("lambda_source", value))
    hint = f"; did you mean {value.__name__}()?" if isinstance(value, type) and issubclass(value, LambdaSource) else ""
    raise ValueError(
        f"lambda_source must be a number in [0, 1], one of {', '.join(CLASSES)}, or your own LambdaSource, "
        f"got {value!r}{hint}"
    )
