"""Training one learner in many copies of an environment at once: Gymnasium's vector environments.

All copies (Gymnasium's sub-environments) share tables, models, schedules and random numbers. Each copy has its own
trace, memory of the latest step, state, current action, and rates of the episode.

One round is one call of the vector environment. In a round the copies are updated in the order 0, 1, …: copy k learns
from its transition and chooses its next action from the values after the updates of copies 0..k−1. A run is therefore
determined by its seed, and one copy gives the same bits as a single environment.

Episodes end as in a single environment: termination has B = 0, truncation bootstraps from the last observation of the
episode, never from the first of the next episode. The latter is returned by the next call (`NEXT_STEP`), in place of
the last one (`SAME_STEP`), or by a reset (`DISABLED`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from chunked_td.learners.inputs import check_end, count_rewards, is_vector_environment
from chunked_td.learners.loop import check_fits, generator_of, paid, random_state, set_random_state
from chunked_td.learners.state import AgentState

_SHARED = tuple(part for part in AgentState._fields if part not in ("trace", "memory", "episode"))
"""Parts of an `AgentState` that all copies share: all except the parts of an episode."""


class CopySpaces:
    """Spaces of one copy of a vector environment."""

    def __init__(self, env: Any):
        copies = _copies(env)
        first = copies[0] if copies else None
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self.unwrapped = getattr(first, "unwrapped", self)
        shape = getattr(getattr(env, "reward_space", None), "shape", ())
        self.n_rewards = count_rewards(first) if first is not None else int(np.prod(shape[1:]))
        if self.n_rewards > 1:
            self.reward_space = type("Rewards", (), {"shape": (self.n_rewards,)})()


def one_copy(env: Any) -> Any:
    """Return the environment itself, or the spaces of one copy of a vector environment."""
    return CopySpaces(env) if is_vector_environment(env) else env


class Position:
    """State of an agent's episode in one copy of the environment."""

    def __init__(self, agent: Any):
        self.seen, self.packed = agent._state, None
        self.trace, self.memory, self.episode = map(copy.deepcopy, (agent.trace, agent.memory, agent._state.episode))
        self.state, self.action, self.rates, self.visited = -1, -1, agent._rates.copy(), []

    def store(self, agent: Any) -> None:
        """Save the agent's current episode here."""
        self.seen, self.packed = agent._state, agent._packed
        self.trace, self.memory, self.episode = agent.trace, agent.memory, agent._state.episode
        self.state, self.action, self.rates = agent.state, agent.action, agent._rates
        self.visited = getattr(agent, "visited", self.visited)

    def enter(self, agent: Any) -> None:
        """Make this the agent's current episode."""
        rows = agent.tables.values.shape[0]
        entries = getattr(self.trace, "entries", self.trace)
        if entries is not None and entries.slot.size < rows:  # states were added
            self.trace, self.packed = self.trace.grown(rows, entries.rows.size), None
        now = agent._state
        moved = any(getattr(now, name) is not getattr(self.seen, name) for name in _SHARED)
        agent._state = now._replace(trace=self.trace, memory=self.memory, episode=self.episode)
        agent._packed = None if moved else self.packed
        agent.state, agent.action, agent._rates = self.state, self.action, self.rates
        agent._room = 0  # other copies have used it
        if hasattr(agent, "visited"):
            agent.visited = self.visited


class Copies:
    """An agent's episodes in the copies of a vector environment, with their returns and lengths so far."""

    def __init__(self, agent: Any, env: Any):
        n = int(env.num_envs)
        self.env, self.mode = env, reset_mode(env)
        self.positions = [Position(agent) for _ in range(n)]
        self.actions = np.zeros(n, np.int64)
        self.returns, self.lengths = np.zeros(n), np.zeros(n, np.int64)
        self.waiting = np.zeros(n, bool)  # the next call of the environment begins an episode (NEXT_STEP)

    def at(self, agent: Any, k: int, turn: Callable[[], int | None]) -> None:
        """Run `turn` in copy k; it returns the next action, or None at the end of an episode."""
        self.positions[k].enter(agent)
        chosen = turn()
        self.actions[k] = agent.action_start if chosen is None else chosen
        self.positions[k].store(agent)


def reset_mode(env: Any) -> str:
    """Return the autoreset mode of a vector environment: "next_step", "same_step" or "disabled"."""
    mode = getattr(env, "metadata", {}).get("autoreset_mode")
    name = str(getattr(mode, "name", mode)).lower()
    if name not in ("next_step", "same_step", "disabled"):
        raise ValueError(
            f"env: its metadata['autoreset_mode'] must be one of Gymnasium's AutoresetMode, NEXT_STEP, SAME_STEP or "
            f"DISABLED, got {mode!r}; without it the last observation of an episode is unknown"
        )
    return name


def check_sharing(agent: Any, copies: int) -> None:
    """Raise a ValueError for a learner that supports only one episode at a time."""
    if copies == 1:
        return
    source = agent.lambda_source
    if source.follows_episode:
        reason = f"{type(source).__name__} keeps the current episode in its arrays"
    elif agent.features is not None:
        reason = "features keep the observation of one episode"
    elif agent.view not in ("traces", "offline", "sampled"):
        view = str(agent.view).partition("(")[0].lower()
        reason = f"view {view!r} follows one episode only"
    else:
        return
    raise ValueError(
        f"env must be a single environment, got a vector environment of {copies} copies: {reason}. Take one from "
        f"gymnasium.make, or a learner with a table, view='traces' and another λ source"
    )


@contextmanager
def playing_in_copies(agent: Any, env: Any) -> Iterator[Callable[[int], tuple[int, list[tuple[float, int, bool]]]]]:
    """Train `agent` in all copies: yields the function `play` for `loop.play_on`, which plays one round."""
    home = Position(agent)
    home.store(agent)
    copies = _begin(agent, env)
    try:
        yield lambda left: play_round(agent, copies)
    except BaseException:
        agent._copies = None
        raise
    finally:
        home.enter(agent)
    agent.env_state = None if (inner := _copies(env)) is None else [random_state(one) for one in inner]


def _begin(agent: Any, env: Any) -> Copies:
    """Return the current episodes in this environment, or begin one in every copy."""
    if agent._copies is not None and agent._copies.env is env:
        return agent._copies
    check_fits(agent, one_copy(env))
    check_sharing(agent, int(env.num_envs))
    copies = Copies(agent, env)
    observations, infos = _first_reset(agent, env)
    shown = _each(env, observations)
    for k in range(len(shown)):
        copies.at(agent, k, lambda k=k: agent.start(shown[k], _info_of(infos, k)))
    agent._copies, agent.trained_in = copies, env
    return copies


def _first_reset(agent: Any, env: Any) -> tuple[Any, dict[str, Any]]:
    """Reset copy k with the learner's seed + k; for a loaded learner, restore the environments' random numbers."""
    states, n = agent.env_state, int(env.num_envs)
    first, inner = env.reset(seed=agent.seed), _copies(env)
    if not isinstance(states, list) or len(states) != n or inner is None:
        return first
    for one, state in zip(inner, states, strict=True):
        if (generator := generator_of(one)) is not None and state is not None:
            set_random_state(generator, state)
    return env.reset()


def _copies(env: Any) -> list[Any] | None:
    """Return the copies of a vector environment, or None if they run in other processes."""
    return getattr(getattr(env, "unwrapped", env), "envs", None)


def play_round(agent: Any, copies: Copies) -> tuple[int, list[tuple[float, int, bool]]]:
    """Call the environment once; return the number of transitions, and the episodes that have ended."""
    env, n = copies.env, copies.actions.size
    observations, rewards, terminated, truncated, infos = env.step(copies.actions)
    shown, made, finished = _each(env, observations), 0, []
    ended = np.zeros(n, bool)
    for k in range(n):
        if copies.waiting[k]:
            copies.waiting[k] = False
            copies.at(agent, k, lambda k=k: agent.start(shown[k], _info_of(infos, k)))
            continue
        over, cut = check_end("terminated", terminated[k]), check_end("truncated", truncated[k])
        ended[k] = over or cut
        final = ended[k] and copies.mode == "same_step"
        here = infos["final_obs"][k] if final else shown[k]
        info = _info_of(infos.get("final_info", {}) if final else infos, k)
        step = rewards[k], here, over, cut, info
        copies.at(agent, k, lambda step=step: agent.step(*step))
        copies.returns[k] += paid(agent, rewards[k])
        copies.lengths[k] += 1
        made += 1
        if ended[k]:
            finished.append((float(copies.returns[k]), int(copies.lengths[k]), True))
            copies.returns[k], copies.lengths[k] = 0.0, 0
            if final:
                copies.at(agent, k, lambda k=k: agent.start(shown[k], _info_of(infos, k)))
    if copies.mode == "next_step":
        copies.waiting |= ended
    elif copies.mode == "disabled" and ended.any():
        observations, infos = env.reset(options={"reset_mask": ended})
        shown = _each(env, observations)
        for k in np.flatnonzero(ended).tolist():
            copies.at(agent, k, lambda k=k: agent.start(shown[k], _info_of(infos, k)))
    return made, finished


def _each(env: Any, observations: Any) -> list[Any]:
    """The observation of every copy."""
    from gymnasium.vector.utils import iterate

    return list(iterate(env.observation_space, observations))


def _info_of(infos: Any, k: int) -> dict[str, Any] | None:
    """Return the action mask of copy k as an info dict, or None."""
    if "action_mask" not in infos or not infos.get("_action_mask", np.ones(k + 1, bool))[k]:
        return None
    return {"action_mask": infos["action_mask"][k]}
