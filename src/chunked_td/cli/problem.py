"""The options that commands share: the environment and how to explore it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from chunked_td.cli._shared import keywords_of, schedule_of

ENV = tyro.conf.arg(metavar="ENV", help_behavior_hint="")
LEARNER = tyro.conf.arg(metavar="LEARNER")
BOUNDS = tyro.conf.arg(metavar="X|None ...")
PAIRS = tyro.conf.arg(metavar="KEY=VALUE ...")
POINTS = tyro.conf.arg(metavar="EPISODE=VALUE ...")
NAMED = tyro.conf.arg(metavar="MODULE:NAME ...")

if TYPE_CHECKING:
    from chunked_td.learners.exploration import Exploration
    from chunked_td.learners.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions:
    """The environment, and the mapping from its observations to states."""

    max_steps: int = 1_000
    """Steps after which an episode is truncated, if the environment sets no limit."""
    env_kwargs: Annotated[tuple[str, ...], PAIRS] = ()
    """Settings of the environment, such as map_name=8x8 is_slippery=False."""
    wrappers: Annotated[tuple[str, ...], NAMED] = ()
    """Wrappers to put around the environment, innermost first, such as gymnasium.wrappers:FlattenObservation."""
    bins: tuple[int, ...] = ()
    """Bins for real-valued observations, or tiles of --indexer tiles: one number for all dimensions, or one each."""
    low: Annotated[tuple[float | None, ...], BOUNDS] = ()
    """Lower bounds of the bins, if the observation space has none; None takes that of the space."""
    high: Annotated[tuple[float | None, ...], BOUNDS] = ()
    """Upper bounds of the bins."""
    indexer: str | None = None
    """Mapping from observations to states: hash gives each an id on first sight, also arrays of real numbers; tiles
    (tile coding) learns linear values of real numbers, the default if they have bounds; module:function is called with
    the environment and returns a chunked_td.observations.Indexer or features."""

    def make_env(self, name: str) -> Any:
        """The environment."""
        from chunked_td.envs.by_name import make_environment

        settings = keywords_of("env-kwargs", self.env_kwargs)
        return make_environment(name, self.max_steps, settings, self.wrappers)

    def make_indexer(self, env: Any) -> Any:
        """The mapping from observations to ids; None leaves it to the learner."""
        from chunked_td.envs.by_name import make_indexer_for

        return make_indexer_for(env, self.bins, self.low, self.high, self.indexer)


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(EnvironmentOptions):
    """The problem, and exploration of it."""

    epsilon: float | None = None
    """Exploration: the probability of a random action; default: 0.1."""
    epsilon_schedule: Annotated[tuple[str, ...], POINTS] = ()
    """ε over the episodes, such as 0=1 500=0.1 (a line between the points); instead of --epsilon."""
    bonus: float | None = None
    """Count bonus c: ε-greedy on Q + c/√n(s, a), which favours actions that were tried less; default: none."""
    step_size_schedule: Annotated[tuple[str, ...], POINTS] = ()
    """Factors that multiply the step size over the episodes, such as 0=1 500=0.1 (a line between the points)."""
    initial_value: float | None = None
    """Value of all states before learning; default: 0. Above every possible return, learners try every action."""
    reward_weights: tuple[float, ...] = ()
    """Weights of the reward's components, if there are several; default: 1 each."""
    csv: bool = False
    """Write the numbers as a CSV file as well."""

    def chosen_epsilon(self) -> float | Schedule | None:
        """ε, a schedule of it, or None by default."""
        return one_of("epsilon", self.epsilon, self.epsilon_schedule)

    def chosen_exploration(self) -> Exploration | None:
        """The exploration; None is ε-greedy."""
        from chunked_td.learners.exploration import CountBonus

        return None if self.bonus is None else CountBonus(self.bonus)

    def step_size_factors(self) -> Schedule | None:
        """Factors for the step size over the episodes."""
        return schedule_of("step-size-schedule", self.step_size_schedule)


def one_of(name: str, value: float | None, texts: tuple[str, ...]) -> float | Schedule | None:
    """A number or a schedule; both at once are refused."""
    if value is not None and texts:
        raise ValueError(f"--{name} and --{name}-schedule both set it; give one of them")
    return schedule_of(f"{name}-schedule", texts) or value
