"""One run of a comparison: compiled if the environment's dynamics are known, in Gymnasium's loop otherwise.

For this package's environments both give the same episodes. For others compiled episodes have the same distribution.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td.comparison.arms import RANDOM, Candidate
from chunked_td.comparison.settings import Settings, of_problem
from chunked_td.envs.by_name import make_environment, make_indexer_for
from chunked_td.learners.exploration import CountBonus
from chunked_td.learners.inputs import learner_by_name
from chunked_td.learners.schedule import Schedule, over_episodes, scaled
from chunked_td.observations.features import Features

CLASSES = {"sarsa": "ChunkedSarsa", "expected_sarsa": "ChunkedExpectedSarsa", "q_learning": "QLambda"}


@dataclass(frozen=True)
class RunnableProblem:
    """An environment to compare on.

    Attributes:
      dynamics: compiled dynamics, or None. reason: why there are none.
      features: whether values are linear in features.
    """

    settings: Settings
    dynamics: Any
    reason: str
    features: bool

    def compiles(self, arm: Candidate) -> bool:
        """Whether the runs of an arm are compiled."""
        return self.dynamics is not None and arm.made[0].is_compiled

    @property
    def how(self) -> str:
        """Place and kind of execution, in words."""
        if self.dynamics is not None:
            return "compiled (the environment's transitions are known)"
        return f"step by step in {os.cpu_count()} processes ({self.reason.partition(';')[0]})"


@functools.lru_cache(maxsize=4)
def problem_of(text: str) -> RunnableProblem:
    """The problem of `Settings.problem`."""
    settings = of_problem(text)
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    try:
        features = isinstance(indexer_of(settings, env), Features)
        if reason := _not_compiled(settings):
            return RunnableProblem(settings, None, reason, features)
        return RunnableProblem(settings, _dynamics(env, settings), "", features)
    except (ValueError, TypeError) as problem:
        return RunnableProblem(settings, None, str(problem), isinstance(indexer_of(settings, env), Features))
    finally:
        env.close()


def indexer_of(settings: Settings, env: Any) -> Any:
    """The mapping from observations to states; None leaves it to the learner."""
    return make_indexer_for(env, settings.bins, settings.low, settings.high, settings.indexer)


def _not_compiled(settings: Settings) -> str:
    if not settings.compiled:
        return "--no-compiled"
    if settings.wrappers or settings.bins or settings.indexer:
        return "wrappers, bins and indexers are not compiled"
    return "weights of reward components are not compiled" if settings.reward_weights else ""


def _dynamics(env: Any, settings: Settings) -> Any:
    """Compiled dynamics; with the legal actions of Gymnasium's action mask, if it is applied."""
    from chunked_td import TransitionTable, dynamics_of

    _, info = env.reset(seed=0)
    inner = env.unwrapped
    own = getattr(inner, "dynamics", None) is not None
    if own and "action_mask" in info and not settings.action_mask:
        raise ValueError("compiled dynamics offer legal actions only, and --no-action-mask ignores the mask")
    if own or not ("action_mask" in info and settings.action_mask):
        return dynamics_of(env, horizon=settings.max_steps)
    if not callable(getattr(inner, "action_mask", None)):
        raise ValueError("the environment does not provide the action mask of every state")
    legal = np.array([inner.action_mask(state) for state in range(int(inner.observation_space.n))], bool)
    return TransitionTable.from_env(env, legal=legal)


def play(
    step_size: float,
    seed: int,
    *,
    problem: str,
    bootstrap: str,
    rule: str,
    marks: tuple[int, ...],
    discount: float,
    epsilon: float | Schedule,
    bonus: float | None,
    initial_value: float,
    step_size_schedule: Schedule | None,
    code: str = "",
) -> dict[str, Any]:
    """One run; returns the columns episode, mean_return and mean_lambda (since the last checkpoint) and diverged.

    Args:
      problem: of `Settings.problem`. bootstrap, rule: of a `Candidate`. marks: checkpoints.
      step_size_schedule: factors that multiply the step size. code: digest of a user's file.
    """
    found, arm, ends = problem_of(problem), Candidate(bootstrap, rule), np.array(marks)
    source, options = arm.made
    options = {
        "lambda_source": source,
        "discount": discount,
        "epsilon": 1.0 if rule == RANDOM else epsilon,
        "exploration": None if bonus is None or rule == RANDOM else CountBonus(bonus),
        "initial_value": initial_value,
        **options,
    }
    compiled = found.compiles(arm) and step_size_schedule is None
    one_run = _compiled_run if compiled else functools.partial(_gymnasium_run, schedule=step_size_schedule)
    with warnings.catch_warnings():
        from chunked_td.learners.state import DivergenceWarning

        warnings.simplefilter("ignore", DivergenceWarning)
        returns, lambdas, lost = one_run(found, bootstrap, step_size, seed, ends, options)
    means = returns / np.diff(ends, prepend=0)
    return {"episode": ends, "mean_return": means, "mean_lambda": lambdas, "diverged": np.full(ends.size, lost)}


def compile_arms(each: Sequence[Mapping[str, Any]], common: Mapping[str, Any]) -> None:
    """Compile the programs of arms into the cache on disk, with a run of one episode each."""
    for settings in each:
        play(0.5, 0, **{**common, **settings, "marks": (1,)})


def _compiled_run(
    found: RunnableProblem, bootstrap: str, step_size: float, seed: int, marks: np.ndarray, options: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, bool]:
    from chunked_td.simulation.simulate import simulate

    episodes = int(marks[-1])
    runs = simulate(
        found.dynamics, learner=bootstrap, step_sizes=step_size, seeds=seed, episodes=episodes,
        record_at=marks.tolist(), threads=1, keep_lambda=True,
        **{"view": "traces", **options, "epsilon": over_episodes(options["epsilon"], episodes)},
    )  # fmt: skip
    assert runs.lambda_at is not None
    return runs.returns_at[0], runs.lambda_at[0], bool(runs.diverged[0] >= 0)


def _gymnasium_run(
    found: RunnableProblem, bootstrap: str, step_size: float, seed: int, marks: np.ndarray, options: dict[str, Any],
    schedule: Schedule | None,
) -> tuple[np.ndarray, np.ndarray, bool]:  # fmt: skip
    from chunked_td.learners.loop import train

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="gymnasium")  # `check_learners` has shown them once
        env, agent = make_learner(found.settings, bootstrap, scaled(schedule, step_size), seed, options)
        means, episodes = _MeanLambda(agent, marks), int(marks[-1])
        history = train(agent, env, episodes, progress=False, watch=means)
    env.close()
    returns = np.full(episodes, np.nan)
    played = history.returns.size if history.diverged is None else history.diverged
    returns[:played] = history.returns[:played]
    return np.add.reduceat(returns, np.append(0, marks[:-1])), means.means, history.diverged is not None


def make_learner(
    settings: Settings, bootstrap: str, step_size: float | Schedule, seed: int, options: dict[str, Any]
) -> tuple[Any, Any]:
    """An environment and a learner for it."""
    env = make_environment(settings.env, settings.max_steps, settings.env_settings, settings.wrappers)
    learner = learner_by_name(CLASSES[bootstrap])(
        env, step_size=step_size, seed=seed, action_mask=settings.action_mask,
        reward_weights=settings.reward_weights or None, indexer=indexer_of(settings, env), **options,
    )  # fmt: skip
    return env, learner


class _MeanLambda:
    """Mean λ of the steps between checkpoints."""

    def __init__(self, agent: Any, marks: np.ndarray):
        self.agent, self.marks, self.episode = agent, marks, -1
        self.total, self.steps = np.zeros(marks.size), np.zeros(marks.size)

    def __call__(self, state: int, episode: int) -> None:
        """Add the λ of a step; the first of an episode has none."""
        if episode != self.episode:
            self.episode = episode
            return
        place = np.searchsorted(self.marks, episode, side="right")
        self.total[place] += self.agent.memory.lambda_t.mean()
        self.steps[place] += 1

    @property
    def means(self) -> np.ndarray:
        """Mean λ per checkpoint; NaN without a step."""
        return np.divide(self.total, self.steps, out=np.full(self.total.size, np.nan), where=self.steps > 0)
