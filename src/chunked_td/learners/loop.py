"""Playing in Gymnasium environments: training, and evaluation without learning."""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from chunked_td._checks import check_episodes
from chunked_td.learners.inputs import (
    check_end,
    check_reward,
    check_reward_vector,
    count_rewards,
    is_vector_environment,
    refuse_vector_environment,
)
from chunked_td.learners.state import Diverged, DivergenceWarning
from chunked_td.observations import make_indexer


@dataclass(frozen=True, repr=False)
class History:
    """Returns and lengths of the episodes played.

    Attributes:
      returns: float[n], undiscounted, components summed. lengths: int[n], transitions.
      diverged: the episode (from 0) in which learning diverged and training stopped; None if it did not.
      unfinished: whether the last entry is an episode that `learn(steps=)` left unfinished.
    """

    returns: np.ndarray
    lengths: np.ndarray
    diverged: int | None = None
    unfinished: bool = False

    def __repr__(self) -> str:
        """One line: episodes, steps and the latest returns."""
        if not self.returns.size:
            return "History(0 episodes)"
        last = self.returns[-100:]
        parts = [f"{self.returns.size:,} episodes", f"{int(self.lengths.sum()):,} steps"]
        parts.append(f"mean return {self.returns.mean():.4g}, of the last {last.size} {last.mean():.4g}")
        parts += [] if self.diverged is None else [f"diverged in episode {self.diverged}"]
        parts += ["the last one unfinished"] if self.unfinished else []
        return f"History({', '.join(parts)})"

    def smoothed(self, window: int = 100) -> np.ndarray:
        """Running mean of the returns over up to `window` latest episodes."""
        sums = np.concatenate([[0.0], np.cumsum(self.returns)])
        ends = np.arange(1, self.returns.size + 1)
        starts = np.maximum(ends - window, 0)
        return (sums[ends] - sums[starts]) / (ends - starts)


def train(
    agent: Any,
    env: Any,
    episodes: int | None = None,
    *,
    steps: int | None = None,
    progress: bool = True,
    callback: Callable[[int, float, int], Any] | None = None,
    watch: Callable[[int, int], Any] | None = None,
) -> History:
    """Train `agent` in an environment.

    The environment is seeded with the agent's seed before its first episode. An agent loaded from a file restores the
    environment's random numbers of the saved run. A resumed run therefore gives the numbers of an uninterrupted one, if
    all randomness of the environment is from `np_random`.

    Training stops with a `DivergenceWarning` if learning diverges; `History.diverged` is the episode.

    Args:
      env, episodes, steps, progress, callback: as in `Learner.learn`.
      watch: called as watch(state, episode) after each step that left `state`; the agent's memory holds its λ.
    """
    if (episodes is None) == (steps is None):
        raise ValueError(f"learn takes episodes or steps, one of them; got episodes={episodes!r} and steps={steps!r}")
    amount = check_episodes(episodes, 0) if steps is None else check_amount("steps", steps)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function, got {callback!r}")
    if amount == 0:  # the seed is still for the first episode to use
        return History(np.zeros(0), np.zeros(0, np.int64))
    if is_vector_environment(env):
        from chunked_td.learners.copies import playing_in_copies

        if watch is not None:
            raise ValueError("watch requires a single environment, got a vector environment; leave it out")
        with playing_in_copies(agent, env) as play_round:
            history = play_on(play_round, steps is not None, amount, progress, callback)
        agent._copies = agent._copies if history.diverged is None else None
        return history
    going_on, seed = steps is not None and agent._unfinished_in is env, _seed_for(agent, env)

    def play(left: int) -> tuple[int, list[tuple[float, int, bool]]]:
        nonlocal going_on, seed
        total, length, ended = play_episode(agent, env, seed, going_on, None if steps is None else left, watch)
        seed, going_on = None, False
        if not ended:
            agent._unfinished_in = env
        return length, [(total, length, ended)]

    history = play_on(play, steps is not None, amount, progress, callback)
    if history.diverged is None and not np.isfinite(agent.tables.values).all():  # by traces that grew; not read again
        history = replace(history, diverged=history.returns.size - 1)
        warnings.warn("some values are not finite: learning has diverged", DivergenceWarning, stacklevel=3)
    agent.env_state = random_state(env)
    return history


def play_on(
    play: Callable[[int], tuple[int, list[tuple[float, int, bool]]]], in_steps: bool, amount: int, progress: bool,
    callback: Callable[[int, float, int], Any] | None,
) -> History:  # fmt: skip
    """Play until `amount` episodes have ended or steps been taken; arguments as in `train`.

    Args:
      play: play(left) continues; returns the number of steps, and for each episode (return, length, ended).
    """
    found: list[tuple[float, int, bool]] = []
    left, diverged, done = amount, None, False
    with progress_bar(amount, progress, "steps" if in_steps else "episodes") as advance:
        while left > 0 and not done:
            try:
                taken, finished = play(left)
            except Diverged as problem:
                diverged = len(found)
                text = f"training stopped after {diverged} episodes: {problem}"
                warnings.warn(text, DivergenceWarning, stacklevel=4)
                break
            left -= taken if in_steps else len(finished)
            for total, length, ended in finished:
                found.append((total, length, ended))
                advance(total, length if in_steps else 1)
                if ended and callback is not None:
                    done = callback(len(found) - 1, total, length) is True or done
    returns, lengths = np.array([total for total, _, _ in found]), np.array([n for _, n, _ in found], np.int64)
    return History(returns, lengths, diverged, bool(found) and not found[-1][2])


def check_amount(name: str, value: Any) -> int:
    """Check a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number from 0, got {value!r}")
    return int(value)


def play_episode(
    agent: Any,
    env: Any,
    seed: int | None = None,
    going_on: bool = False,
    most: int | None = None,
    watch: Callable[[int, int], Any] | None = None,
) -> tuple[float, int, bool]:
    """Play and learn from one episode.

    Args:
      seed: for `env.reset`.
      going_on: resume the agent's unfinished episode.
      most: number of steps after which to stop, with the episode unfinished.
      watch: see `train`.

    Returns:
      return, length, and whether the episode has ended.
    """
    if going_on:
        action = agent.action + agent.action_start
    else:
        action = agent.start(*reset(env, seed))
    total, length, ended = 0.0, 0, False
    while not ended and length != most:
        observation, reward, terminated, truncated, info = step(env, action)
        state, episode = agent.state, agent.episode
        action = agent.step(reward, observation, terminated, truncated, info)  # checks what the environment gave
        ended = action is None
        if watch is not None:
            watch(state, episode)
        total += paid(agent, reward)
        length += 1
    return total, length, ended


def paid(agent: Any, reward: Any) -> float:
    """Return a reward as one number: the sum of its components, weighted if the learner has weights."""
    if agent.n_paid == 1 and agent.reward_weights is None:
        return check_reward(reward)
    parts = np.array([check_reward(reward)]) if agent.n_paid == 1 else check_reward_vector(reward, agent.n_paid)
    return float(parts.sum() if agent.reward_weights is None else np.dot(agent.reward_weights, parts))


def reset(env: Any, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Call `env.reset`; raise a ValueError with the cause if it does not follow Gymnasium 1.x."""
    try:
        shown = env.reset(seed=seed)
    except TypeError as problem:
        if "'seed'" not in str(problem):
            raise
        text = "env: reset() must take the keyword `seed`, as Gymnasium has it since 0.26"
        raise ValueError(f"{text}, got {problem}") from problem
    if not (isinstance(shown, tuple) and len(shown) == 2 and isinstance(shown[1], dict)):
        raise ValueError(
            f"env: reset() must return (observation, info), as Gymnasium has it since 0.26, got {shown!r}; older "
            f"environments need a wrapper (shimmy has one)"
        )
    return shown


def step(env: Any, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Call `env.step` and check its two flags; raise a ValueError if it does not follow Gymnasium 1.x."""
    shown = env.step(action)
    try:
        observation, reward, terminated, truncated, info = shown
    except (TypeError, ValueError):
        old = " (four values, with one `done`, are Gym's before 0.26)" if np.size(shown, 0) == 4 else ""
        raise ValueError(
            f"env: step() must return (observation, reward, terminated, truncated, info), got {shown!r}{old}"
        ) from None
    if type(terminated) is not bool or type(truncated) is not bool:
        terminated, truncated = check_end("terminated", terminated), check_end("truncated", truncated)
    return observation, reward, terminated, truncated, info


def evaluate(
    agent: Any, env: Any, episodes: int, *, seed: int = 0, explore: bool = False, max_steps: int | None = None
) -> History:
    """Play without learning; see `Learner.evaluate`."""
    if check_amount("episodes", episodes) == 0:
        return History(np.zeros(0), np.zeros(0, np.int64))
    check_fits(agent, env)
    leave_training(agent, env)
    draws = agent.policy_draws.state()
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    for k in range(episodes):
        observation, info = reset(env, seed if k == 0 else None)
        ended = False
        while not ended and lengths[k] != max_steps:
            action = agent.act(observation, info, explore=explore)
            observation, reward, terminated, truncated, info = step(env, action)
            ended = terminated or truncated
            returns[k] += paid(agent, reward)
            lengths[k] += 1
    agent.policy_draws.set_state(draws)
    return History(returns, lengths)


def leave_training(agent: Any, env: Any) -> None:
    """Mark the environment as used outside training, so that later training seeds or restores it again."""
    if agent.trained_in is env:
        agent.trained_in = agent._unfinished_in = None


def check_fits(agent: Any, env: Any) -> None:
    """Raise a ValueError for an environment with other actions, rewards or observations than the learner's."""
    refuse_vector_environment(env)
    actions = getattr(env, "action_space", None)
    n, rewards = getattr(actions, "n", None), count_rewards(env)
    if n is not None and int(n) != agent.n_actions:
        raise ValueError(f"env: it has {int(n)} actions, the learner was made for {agent.n_actions}")
    if rewards != agent.n_paid:
        raise ValueError(f"env: it pays {rewards} rewards a step, the learner was made for {agent.n_paid}")
    try:
        natural = make_indexer(getattr(env, "observation_space", None))
    except ValueError:  # real numbers: the learner has an indexer of the user's
        return
    if type(natural) is type(agent.indexer) and agent.indexer.fixed and natural.nvec != agent.indexer.nvec:
        raise ValueError(
            f"env: its observations are {env.observation_space}, with {natural.size} states; the learner was made for "
            f"{agent.indexer.size} states"
        )


def _seed_for(agent: Any, env: Any) -> int | None:
    """Return the seed for the first reset of an environment that is new to this agent, else None.

    For a loaded agent, reset the environment with its seed, which fixes its permanent random choices, and then restore
    the state of its random numbers at the end of the saved run.
    """
    if agent.trained_in is env:
        return None
    check_fits(agent, env)
    agent.trained_in = env
    if not isinstance(agent.env_state, dict):  # none, or those of many copies
        return agent.seed
    reset(env, agent.seed)
    generator = generator_of(env)
    if generator is not None:
        set_random_state(generator, agent.env_state)
    return None


def set_random_state(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Restore an environment's random numbers from a saved run."""
    try:
        generator.bit_generator.state = state
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(
            f"env: its random numbers cannot be restored ({problem!r}): its generator differs from that of the "
            f"environment that the learner was trained in; pass that environment"
        ) from problem


def generator_of(env: Any) -> np.random.Generator | None:
    """Return the environment's `np_random`, or None if it has no NumPy generator."""
    generator = getattr(getattr(env, "unwrapped", env), "np_random", None)
    return generator if isinstance(generator, np.random.Generator) else None


def random_state(env: Any) -> dict[str, Any] | None:
    """Return the state of the environment's `np_random`, or None if it has no NumPy generator."""
    generator = generator_of(env)
    return None if generator is None else generator.bit_generator.state  # type: ignore[return-value]


@contextmanager
def progress_bar(total: int, wanted: bool, unit: str) -> Iterator[Callable[[float, int], None]]:
    """A progress bar with the mean return of the last 100 episodes, on a terminal and with rich (extra `lab`) only."""
    if not (wanted and total > 1 and sys.stderr.isatty() and find_spec("rich")):
        yield lambda value, amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(unit),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[mean]}"),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        task = bar.add_task(unit, total=total, mean="")
        latest: deque[float] = deque(maxlen=100)

        def advance(value: float, amount: int) -> None:
            latest.append(value)
            bar.update(task, advance=amount, mean=f"mean return {sum(latest) / len(latest):.3g}")

        yield advance
