"""What is compared: every λ source with every bootstrap, so that neither is taken for the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunked_td import lambdas
from chunked_td._checks import did_you_mean
from chunked_td.lab.gym_environments import make_indexer_for
from chunked_td.lambdas.base import LambdaSource
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.names import current_id
from chunked_td.lambdas.reading import read_source, read_sources
from chunked_td.lambdas.watkins import WatkinsLambda
from chunked_td.learners.exploration import Exploration
from chunked_td.learners.schedule import Schedule

BOOTSTRAPS = {"sarsa": "SARSA", "expected_sarsa": "Expected-SARSA", "q_learning": "Q-learning"}
"""Bootstraps and what tables call them."""

_CLASSES = {"sarsa": "ChunkedSarsa", "expected_sarsa": "ChunkedExpectedSarsa", "q_learning": "QLambda"}

DYNA = "dyna"
"""The rival that plans instead of choosing λ."""

SOURCES = {cls.id: cls.label for cls in lambdas.SOURCES.values() if cls.id != "constant" and not cls.per_component}
SOURCES[DYNA] = "Dyna (λ = 0)"
"""λ sources besides the fixed λs, and Dyna: their labels by id. Watkins' cuts are for Q-learning, with the λs of the
grid."""

BY_DEFAULT = tuple(id for id in SOURCES if id == DYNA or lambdas.SOURCES[id].by_default)
"""Sources compared by default; each further one has to be compiled for every bootstrap."""

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
      bootstraps: keys of `BOOTSTRAPS`.
      sources: ids of `SOURCES`, by default those of `BY_DEFAULT`; or Python files, as `read_sources` takes them.
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
      source: an id of `SOURCES`, "fixed", or "mine.py:MyLambda".
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
        return f"{self._name} (λ = {self.value:g})" if self.source == "watkins" else self._name

    @property
    def _name(self) -> str:
        return "fixed λ" if self.source == "fixed" else SOURCES.get(self.source) or self.lambda_source.label

    @property
    def label(self) -> str:
        """What tables call the arm."""
        return f"{BOOTSTRAPS[self.bootstrap]}, {self.source_label}"

    @property
    def kind(self) -> str:
        """What is compiled for it: the same for all fixed λs."""
        return f"{BOOTSTRAPS[self.bootstrap]}, {self._name}"

    @property
    def tag(self) -> str:
        """What logs call the arm, in letters that TensorBoard leaves as they are."""
        name = {"fixed": "lambda", DYNA: DYNA}.get(self.source, self.lambda_source.id)
        return f"{self.bootstrap}/{f'{name}-{self.value:g}' if self.source in _WITH_VALUE else name}"

    @property
    def lambda_source(self) -> LambdaSource:
        """Its λ source, new."""
        if self.source in ("fixed", DYNA):
            return ConstantLambda(self.value)
        if self.source == "watkins":
            return WatkinsLambda(self.value)
        return read_source(self.source, "sources")

    @property
    def adapts(self) -> bool:
        """Whether its λ is not a given number."""
        return self.source not in ("fixed", "watkins", DYNA)

    @property
    def color(self) -> str:
        """Of its λ source; Dyna is grey."""
        return "#666666" if self.source == DYNA else self.lambda_source.color

    @property
    def planner(self) -> Any:
        """The planner, or None."""
        import chunked_td

        return chunked_td.Dyna() if self.source == DYNA else None

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
    for name in settings.bootstraps:
        if name not in BOOTSTRAPS:
            raise ValueError(f"bootstraps must be among {', '.join(BOOTSTRAPS)}, got {name!r}")
    sources = _sources_of(settings)
    arms = tuple(arm for name in dict.fromkeys(settings.bootstraps) for arm in _arms_with(name, settings, sources))
    if "watkins" in sources and not any(arm.source == "watkins" for arm in arms):
        raise ValueError(
            "sources: watkins cuts λ where Q-learning would have acted otherwise, so it goes with the bootstrap "
            f"q_learning and a λ above 0; got bootstraps {', '.join(settings.bootstraps)} and λs "
            f"{', '.join(f'{value:g}' for value in settings.lambdas) or 'none'}"
        )
    if len(arms) < 2:
        raise ValueError(f"there must be two arms to compare at least, got {[arm.label for arm in arms]}")
    return arms


def _sources_of(settings: ComparisonSettings) -> list[str]:
    """The sources by id, or as "mine.py:MyLambda"."""
    found: dict[str, str] = {}  # by id: two sources of one name could not be told apart in tables
    for text in settings.sources:
        known = current_id(text)
        if known in SOURCES and ".py" not in text:
            found[known] = known
            continue
        if ".py" not in text:
            raise ValueError(
                f"sources must be among {', '.join(SOURCES)}, or Python files (mine.py or mine.py:MyLambda), "
                f"got {text!r}{did_you_mean(text, SOURCES)}"
            )
        for source in read_sources(text, "sources"):
            name = f"{text.partition('.py')[0]}.py:{type(source).__name__}"
            if found.setdefault(source.id, name) != name:
                raise ValueError(f"sources: {name} has the id {source.id!r} of another source; give it one of its own")
    return list(found.values())


def _arms_with(bootstrap: str, settings: ComparisonSettings, sources: Sequence[str]) -> Iterator[LearnerArm]:
    values = [float(value) for value in dict.fromkeys(settings.lambdas)]
    for value in values:
        yield LearnerArm(bootstrap, "fixed", value)
    for source in sources:
        if source != "watkins":
            yield LearnerArm(bootstrap, source)
        elif bootstrap == "q_learning":
            yield from (LearnerArm(bootstrap, source, value) for value in values if value > 0.0)
