"""The training loop for Gymnasium environments."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunked_td._checks import check_episodes
from chunked_td.learners.divergence import Diverged, DivergenceWarning


@dataclass(frozen=True)
class History:
    """What happened in each episode that was played to its end.

    Attributes:
      returns: float[n], undiscounted, components summed. lengths: int[n], transitions.
      diverged: the episode (from 0) in which learning diverged and training stopped; None if it did not.
    """

    returns: np.ndarray
    lengths: np.ndarray
    diverged: int | None = None

    def smoothed(self, window: int = 100) -> np.ndarray:
        """Running mean of the returns over up to `window` latest episodes."""
        sums = np.concatenate([[0.0], np.cumsum(self.returns)])
        ends = np.arange(1, self.returns.size + 1)
        starts = np.maximum(ends - window, 0)
        return (sums[ends] - sums[starts]) / (ends - starts)


def train(
    agent: Any,
    env: Any,
    episodes: int,
    *,
    progress: bool = True,
    callback: Callable[[int, float, int], Any] | None = None,
) -> History:
    """Let `agent` play and learn.

    The environment is seeded with the agent's seed before its first episode. An agent that was loaded from a file
    takes the environment's random numbers up where the saved run left them, so that a resumed run gives the numbers
    of an uninterrupted one (for environments whose randomness all comes from `np_random`).

    Training stops with a `DivergenceWarning` where learning diverges; `History.diverged` says in which episode.

    Args:
      agent: a learner.
      env: a Gymnasium environment.
      episodes: how many episodes to play now.
      progress: show a bar, if a person is watching (standard error is a terminal).
      callback: called as callback(episode, return, length) after each episode; training stops if it returns True.
    """
    check_episodes(episodes, 0)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function, got {callback!r}")
    if episodes == 0:  # the seed is still for the first episode to use
        return History(np.zeros(0), np.zeros(0, np.int64))
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    seed = _seed_for(agent, env)
    done, diverged = 0, None
    with _bar(episodes, progress) as advance:
        for k in range(episodes):
            try:
                returns[k], lengths[k] = play_episode(agent, env, seed if k == 0 else None)
            except Diverged as problem:
                diverged = k
                warnings.warn(f"training stopped after {k} episodes: {problem}", DivergenceWarning, stacklevel=3)
                break
            done = k + 1
            advance(returns[k])
            if callback is not None and callback(k, float(returns[k]), int(lengths[k])) is True:
                break
    if diverged is None and not np.isfinite(agent.tables.values).all():  # through traces that grew, and not read again
        diverged = done - 1
        warnings.warn("some values are not finite: learning has diverged", DivergenceWarning, stacklevel=3)
    agent.env_state = _random_state(env)
    return History(returns[:done], lengths[:done], diverged)


def play_episode(agent: Any, env: Any, seed: int | None = None) -> tuple[float, int]:
    """One episode of acting and learning; returns its return and length."""
    observation, info = env.reset(seed=seed)
    action = agent.start(observation, info)
    total, length, ended = 0.0, 0, False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(action)
        action = agent.step(reward, observation, terminated, truncated, info)  # checks what the environment gave
        total += float(np.sum(reward)) if agent.n_rewards > 1 else float(reward)
        length += 1
        ended = action is None
    return total, length


def _seed_for(agent: Any, env: Any) -> int | None:
    """The seed for the first reset of an environment this agent has not played in yet.

    A loaded agent seeds the environment at once (what a seed fixes for good comes back), then winds its random
    numbers on to where the saved run stopped.
    """
    if agent.trained_in is env:
        return None
    agent.trained_in = env
    if agent.env_state is None:
        return agent.seed
    env.reset(seed=agent.seed)
    generator = _generator(env)
    if generator is not None:
        generator.bit_generator.state = agent.env_state
    return None


def _generator(env: Any) -> np.random.Generator | None:
    generator = getattr(getattr(env, "unwrapped", env), "np_random", None)
    return generator if isinstance(generator, np.random.Generator) else None


def _random_state(env: Any) -> dict[str, Any] | None:
    generator = _generator(env)
    return None if generator is None else generator.bit_generator.state  # type: ignore[return-value]


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar with the running mean return, on a terminal only."""
    if not (wanted and total > 1 and sys.stderr.isatty()):
        yield lambda value: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[mean]}"),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        task = bar.add_task("episodes", total=total, mean="")
        mean = [0.0, 0]

        def advance(value: float) -> None:
            mean[1] += 1
            mean[0] += (value - mean[0]) * max(0.01, 1.0 / mean[1])
            bar.update(task, advance=1, mean=f"mean return {mean[0]:.3g}")

        yield advance
