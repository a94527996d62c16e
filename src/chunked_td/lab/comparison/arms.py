"""What is compared: every λ source with every bootstrap, so that neither is taken for the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunked_td.lab.gym_environments import make_indexer_for
from chunked_td.lambdas.base import LambdaSource
from chunked_td.learners.exploration import Exploration
from chunked_td.learners.schedule import Schedule

BOOTSTRAPS = {"sarsa": "SARSA", "expected_sarsa": "Expected-SARSA", "q_learning": "Q-learning"}
"""Bootstraps and what tables call them."""

_CLASSES = {"sarsa": "ChunkedSarsa", "expected_sarsa": "ChunkedExpectedSarsa", "q_learning": "QLambda"}

SOURCES = {
    "forward": ("chunked (forward)", "ForwardLambda"),
    "expected": ("expected", "ExpectedLambda"),
    "value": ("value kernel", "ValueLambda"),
    "junction": ("junction", "JunctionLambda"),
    "backward": ("backward", "BackwardLambda"),
    "greedy": ("λ-greedy", "GreedyLambda"),
    "dyna": ("Dyna (λ = 0)", "ConstantLambda"),
    "adaptive": ("adaptive TD", "AdaptiveLambda"),
    "meta_gradient": ("meta-gradient", "MetaGradientLambda"),
    "signal": ("signal", "SignalLambda"),
    "visit": ("1/visits", "VisitLambda"),
    "watkins": ("Watkins", "WatkinsLambda"),
}
"""λ sources besides the fixed λs: label and class. Dyna is a rival that plans instead. Watkins' cuts are for
Q-learning, with the λs of the grid."""

ADAPTIVE = tuple(name for name in SOURCES if name not in ("dyna", "watkins"))
"""Those whose λ is not a given number."""

BY_DEFAULT = tuple(SOURCES)[:7]
"""Those that are compared where nobody says which; every one more has to be compiled for every bootstrap."""

_WITH_VALUE = ("fixed", "watkins")
_CHECKPOINTS = 50


@dataclass(frozen=True)
class ComparisonSettings:
    """What to compare.

    Args:
      env: id of a Gymnasium environment.
      episodes: episodes per run.
      max_steps: steps after which an episode is cut off, where the environment sets no limit.
      seeds: runs per arm and step size; None is 20 where runs are compiled, 10 elsewhere.
      lambdas: the grid of fixed λs.
      step_sizes: step sizes to begin with.
      bootstraps: keys of `BOOTSTRAPS`. sources: keys of `SOURCES`; by default those of `BY_DEFAULT`.
      discount: γ. epsilon: exploration; None is 0.1, or nothing where `exploration` has no ε.
      exploration: how to explore where it is not ε-greedily.
      extend: how often the grid of step sizes may grow at either end.
      step_size_schedule: factors that multiply every step size over the episodes.
      initial_value: of all rows of the table.
      reward_weights: a factor for every component of the reward; () is 1 each.
      env_settings: keyword arguments for `gymnasium.make`. wrappers: "module:Class", innermost first.
      bins: bins per dimension of a Box; low, high: its bounds, see `chunked_td.Discretise`.
      indexer: "hash", or "module:function" from an environment to an indexer; see `gym_environments.make_indexer_for`.
      action_mask: obey `info["action_mask"]` where there is one.
      compiled: run compiled where that is possible.
    """

    env: str
    episodes: int
    max_steps: int = 1_000
    seeds: int | None = None
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
    step_sizes: tuple[float, ...] = (0.05, 0.2, 0.8)
    bootstraps: tuple[str, ...] = ("sarsa", "expected_sarsa")
    sources: tuple[str, ...] = BY_DEFAULT
    discount: float = 0.99
    epsilon: float | Schedule | None = None
    exploration: Exploration | None = None
    extend: int = 3
    step_size_schedule: Schedule | None = None
    initial_value: float = 0.0
    reward_weights: tuple[float, ...] = ()
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    bins: tuple[int, ...] = ()
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    indexer: str | None = None
    action_mask: bool = True
    compiled: bool = True

    @property
    def marks(self) -> np.ndarray:
        """Numbers of finished episodes at which the mean return since the last one is kept."""
        return np.unique(np.linspace(0, self.episodes, min(self.episodes, _CHECKPOINTS) + 1).astype(np.int64))[1:]

    @property
    def weights(self) -> np.ndarray:
        """The share of all episodes that each checkpoint stands for."""
        return np.diff(self.marks, prepend=0) / self.episodes


@dataclass(frozen=True)
class LearnerArm:
    """A learner to compare.

    Args:
      bootstrap: a key of `BOOTSTRAPS`.
      source: a key of `SOURCES`, or "fixed".
      value: λ where it is fixed, or cut as Watkins' is.
    """

    bootstrap: str
    source: str
    value: float = 0.0

    @property
    def source_label(self) -> str:
        """What tables call the λ source."""
        if self.source == "fixed":
            return f"λ = {self.value:g}"
        name = SOURCES[self.source][0]
        return f"{name} (λ = {self.value:g})" if self.source == "watkins" else name

    @property
    def label(self) -> str:
        """What tables call the arm."""
        return f"{BOOTSTRAPS[self.bootstrap]}, {self.source_label}"

    @property
    def kind(self) -> str:
        """What is compiled for it: the same for all fixed λs."""
        return f"{BOOTSTRAPS[self.bootstrap]}, {'fixed λ' if self.source == 'fixed' else SOURCES[self.source][0]}"

    @property
    def tag(self) -> str:
        """What logs call the arm, in letters that TensorBoard leaves as they are."""
        name = "lambda" if self.source == "fixed" else self.source
        return f"{self.bootstrap}/{f'{name}-{self.value:g}' if self.source in _WITH_VALUE else name}"

    @property
    def lambda_source(self) -> LambdaSource:
        """Its λ source, new."""
        import chunked_td

        if self.source in ("fixed", "dyna"):
            return chunked_td.ConstantLambda(self.value)
        arguments = (self.value,) if self.source == "watkins" else ()
        return getattr(chunked_td, SOURCES[self.source][1])(*arguments)

    @property
    def planner(self) -> Any:
        """What it makes of a model besides λ."""
        import chunked_td

        return chunked_td.Dyna() if self.source == "dyna" else None

    def agent(self, env: Any, settings: ComparisonSettings, step_size: float, seed: int) -> Any:
        """A learner for the Gymnasium loop."""
        from chunked_td.learners.inputs import learner_by_name

        return learner_by_name(_CLASSES[self.bootstrap])(
            env,
            lambda_source=self.lambda_source,
            planner=self.planner,
            step_size=scaled(settings.step_size_schedule, step_size),
            epsilon=settings.epsilon,
            exploration=settings.exploration,
            discount=settings.discount,
            seed=seed,
            action_mask=settings.action_mask,
            initial_value=settings.initial_value,
            reward_weights=settings.reward_weights or None,
            indexer=make_indexer_for(env, settings.bins, settings.low, settings.high, settings.indexer),
        )


def scaled(schedule: Schedule | None, step_size: float) -> float | Schedule:
    """A step size that follows a schedule of factors."""
    if schedule is None:
        return step_size
    return Schedule(tuple((episode, factor * step_size) for episode, factor in schedule.points), schedule.hold)


def arms_of(settings: ComparisonSettings) -> tuple[LearnerArm, ...]:
    """Every λ source with every bootstrap."""
    for name, given, known in (("bootstraps", settings.bootstraps, BOOTSTRAPS), ("sources", settings.sources, SOURCES)):
        for key in given:
            if key not in known:
                raise ValueError(f"{name} must be among {', '.join(known)}, got {key!r}")
    arms = tuple(arm for name in dict.fromkeys(settings.bootstraps) for arm in _arms_with(name, settings))
    if "watkins" in settings.sources and not any(arm.source == "watkins" for arm in arms):
        raise ValueError(
            "sources: watkins cuts λ where Q-learning would have acted otherwise, so it goes with the bootstrap "
            f"q_learning and a λ above 0; got bootstraps {', '.join(settings.bootstraps)} and λs "
            f"{', '.join(f'{value:g}' for value in settings.lambdas) or 'none'}"
        )
    if len(arms) < 2:
        raise ValueError(f"there must be two arms to compare at least, got {[arm.label for arm in arms]}")
    return arms


def _arms_with(bootstrap: str, settings: ComparisonSettings) -> Iterator[LearnerArm]:
    values = [float(value) for value in dict.fromkeys(settings.lambdas)]
    for value in values:
        yield LearnerArm(bootstrap, "fixed", value)
    for source in dict.fromkeys(settings.sources):
        if source != "watkins":
            yield LearnerArm(bootstrap, source)
        elif bootstrap == "q_learning":
            yield from (LearnerArm(bootstrap, source, value) for value in values if value > 0.0)
