"""What a λ source is: settings, needs, and a function from a transition to λ."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Protocol

from chunked_td._checks import check_unit
from chunked_td._numba import is_kernel
from chunked_td._settings import KernelSettings
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.names import Named


class Needs(enum.Flag):
    """What has to be known of a transition before its λ can be computed."""

    NOTHING = 0
    POLICY = enum.auto()
    """π(·|x_t), the probabilities of all actions."""
    LEGAL = enum.auto()
    """The legal actions of states other than the present one, and so the policy there."""
    OUTCOME = enum.auto()
    """P̂ of what came, from a forward model."""
    PARTS = enum.auto()
    """P̂ of each part of what came: the state components that decide one reward component."""
    OUTCOMES = enum.auto()
    """P̂ of everything that could have come."""
    PREDECESSORS = enum.auto()
    """P̂ of where we came from, from a backward model."""
    VISITS = enum.auto()
    """How often each state was visited."""


MODEL = Needs.OUTCOME | Needs.PARTS | Needs.OUTCOMES | Needs.PREDECESSORS | Needs.VISITS
"""The needs that a model meets."""

COUNTED = Needs.PREDECESSORS | Needs.VISITS
"""The needs that only counts can meet."""

MANY = 1e200
"""Episodes after which counts are taken to have reached their limit: 1/MANY is 0 up to rounding, ratios are exact."""


class Settled(Protocol):
    """What exact analysis knows of a policy, for `LambdaSource.settled`: the values are the true ones.

    Attributes:
      visits: float64[S], how often an episode leaves each state, on average.
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
    """Base of the λ sources: a frozen dataclass with the members of `KernelSettings`, of `Named` and these.

    Attributes:
      needs: what has to be known of a transition.
      per_component: whether each reward component has a λ of its own.
      follows_episode: whether the arrays hold the episode under way, besides what was learned. Then the source cannot
        serve several copies of an environment at once.
      mixes: whether the policy is needed, too, where the bootstrap mixes actions (Expected-SARSA, Q-learning).

    `lambda_t` is one of two things:

    - a kernel `lambda_t(source, step, i)`, which runs everywhere; `step` is a
      `chunked_td.lambdas.step.Step` and i the reward component;
    - a plain method `lambda_t(self, step)`, which runs in `agent.step` and `agent.learn`; `step` is a
      `chunked_td.lambdas.plain.PlainStep`.

    A source that learns also has one or both of these kernels:

    - `after_step(source, step, reward, td_error, ended)`, called after every transition; `ended` is 0 while the episode
      goes on, 1 on termination, 2 on truncation;
    - `after_episode(source, episode)`, called after every episode; `episode` is a `chunked_td.lambdas.episode.Episode`.
    """

    needs: ClassVar[Needs] = Needs.NOTHING
    per_component: ClassVar[bool] = False
    follows_episode: ClassVar[bool] = False
    mixes: ClassVar[bool] = False

    def needs_with(self, bootstrap: int) -> Needs:
        """What this source needs with a bootstrap (`chunked_td.bootstraps`)."""
        return self.needs | Needs.POLICY if self.mixes and bootstrap not in (STATE, SARSA) else self.needs

    def __init_subclass__(cls, **arguments: Any) -> None:
        """A class with a formula of its own does not inherit the question that belongs to another."""
        super().__init_subclass__(**arguments)
        if "lambda_t" in vars(cls) and "device_question" not in vars(cls):
            cls.device_question = LambdaSource.device_question

    def device_question(self, bootstrap: int) -> tuple[str, bool] | None:
        """The one number that a network can compute for this source where it runs; see `on_device`.

        Returns:
          (question, expected), or None where the network has to hand out the probabilities themselves.
        """
        return None

    def needs_overlaps_only(self, bootstrap: int) -> bool:
        """Whether Σ_{x'} P̂(x'|x,a) P̂(x'|x,b) is all that is asked about outcomes, so that they need not be listed."""
        return Needs.LEGAL not in self.needs_with(bootstrap) and self.device_question(bootstrap) is not None

    @property
    def learns(self) -> bool:
        """Whether the source learns from step to step."""
        return bool(self.arrays) or bool(self._lessons())

    @property
    def learns_from_episodes(self) -> bool:
        """Whether the source is shown every episode at its end."""
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
        """What `arrays` tend to under a fixed policy, by name; those left out are zero. An error if they have no limit.

        It is asked by `chunked_td.fixed_point`.
        """
        if self.learns:
            raise self.no_limit("its limit is not known")
        return {}

    def no_limit(self, why: str) -> ValueError:
        """The error for a source whose arrays do not settle."""
        return ValueError(
            f"learned must be given for {type(self).__name__}: its arrays {', '.join(self.arrays)} as they are in the "
            f"end; {why}"
        )


def _checked(source: LambdaSource) -> LambdaSource:
    """Refuse a source that could not work."""
    if not callable(getattr(source, "lambda_t", None)):
        raise ValueError(f"lambda_source must have a method lambda_t, got {source!r}")
    lessons = source._lessons()
    if source.arrays and not lessons:
        raise ValueError(f"lambda_source {source!r} has arrays and no after_step or after_episode that would fill them")
    if lessons and not (source.is_compiled and all(map(is_kernel, lessons))):
        raise ValueError(f"lambda_source {source!r} learns: lambda_t, after_step and after_episode must be kernels")
    return source


def as_lambda_source(value: Any, default: LambdaSource) -> LambdaSource:
    """A λ source from a source, a number (constant λ) or None (the default)."""
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
        f"lambda_source must be a number in [0, 1], one of {', '.join(CLASSES)}, or a LambdaSource of yours, "
        f"got {value!r}{hint}"
    )
