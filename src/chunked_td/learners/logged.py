"""Recorded episodes: recording them, reading them, and learning from them.

Off-policy data. With behaviour policy μ and target policy π the trace factor becomes

    γ λ_t min(1, π(a_t|x_t)/μ(a_t|x_t))

that of Retrace with a λ per step, and the bootstrap is Σ_a π(a|x') Q(x',a). As everywhere in this package, the factor
at step t belongs to the transition that leaves x_t, and multiplies what earlier steps hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._files import write_table
from chunked_td._loading import require
from chunked_td.bootstraps import EXPECTED_SARSA
from chunked_td.learners.inputs import check_action, check_end, check_policy_table, check_reward, policy_row
from chunked_td.learners.loop import History, paid
from chunked_td.observations.canonical import decode, encode

_COLUMNS = ("episode", "observation", "action", "reward", "terminated", "truncated", "next_observation")
_MASK = "info['action_mask']"
_TERMINATED, _TRUNCATED = ("terminations", "terminated"), ("truncations", "truncated")


@dataclass
class RecordedEpisode:
    """One episode: T transitions.

    Attributes:
      observations: T + 1 of them. actions: T. rewards: T numbers, or T arrays of d components.
      terminations, truncations: T flags each; only the last can be set.
      action_masks: T + 1 masks, or None if the environment provides none.
      probabilities: T numbers, the probabilities of the actions under the behaviour policy; None if unknown.
    """

    observations: list[Any]
    actions: list[Any]
    rewards: list[Any]
    terminations: list[bool]
    truncations: list[bool]
    action_masks: list[Any] | None = None
    probabilities: list[float] | None = None


class Recorder:
    """An environment that records its episodes.

        env = Recorder(gym.make("Taxi-v4"))
        agent.learn(env, episodes=100)
        another.learn_from(env)               # the same table, bit for bit
        env.write_parquet("taxi.parquet")     # another.learn_from("taxi.parquet")

    Args:
      env: a Gymnasium environment. All other attributes are those of `env`.

    Attributes:
      episodes: the recorded episodes, each a `RecordedEpisode`, including an unfinished one.
    """

    def __init__(self, env: Any):
        self.env = env
        self.episodes: list[RecordedEpisode] = []

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not there yet while a copy is being made
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, **options: Any) -> Any:
        """Begin an episode."""
        shown = self.env.reset(**options)
        if self.episodes and not self.episodes[-1].actions:  # reset twice: nothing happened in between
            self.episodes.pop()
        mask = shown[1].get("action_mask")
        self.episodes.append(
            RecordedEpisode([shown[0]], [], [], [], [], None if mask is None else [_copied(_MASK, mask)])
        )
        return shown

    def step(self, action: Any) -> Any:
        """Step the environment and record the transition."""
        shown = self.env.step(action)
        observation, reward, terminated, truncated, info = shown
        over, cut = check_end("terminated", terminated), check_end("truncated", truncated)
        parts = _copied("reward", reward)
        episode = self.episodes[-1]
        episode.observations.append(observation)
        episode.actions.append(action)
        episode.rewards.append(parts if parts.ndim else reward)
        episode.terminations.append(over)
        episode.truncations.append(cut)
        if episode.action_masks is not None:
            mask = info.get("action_mask")
            episode.action_masks.append(np.ones_like(episode.action_masks[0]) if mask is None else _copied(_MASK, mask))
        return shown

    def write_parquet(self, path: Any) -> None:
        """Write the episodes to a file, one row per transition; `learn_from` reads it.

        Columns: episode, observation, action, reward, terminated, truncated, next_observation, and if recorded
        action_mask and next_action_mask. Observations that are numbers or text are written unchanged, all others as
        canonical bytes (`chunked_td.observations.canonical`), so that `learn_from` reads identical observations.
        """
        require("Recorder.write_parquet", "polars")
        import polars as pl

        rows = [row for number, episode in enumerate(self.episodes) for row in _rows(number, episode)]
        if not rows:
            raise ValueError("episodes must have a recorded transition, got none; play an episode first")
        write_table(path, pl.DataFrame(rows, infer_schema_length=None))


def _copied(name: str, given: Any) -> np.ndarray:
    try:
        return np.array(given)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must be numbers, got {given!r}") from None


def _rows(number: int, episode: RecordedEpisode) -> Iterator[dict[str, Any]]:
    shown = [_cell(observation) for observation in episode.observations]
    for t, action in enumerate(episode.actions):
        reward = episode.rewards[t]
        row = {
            "episode": number,
            "observation": shown[t],
            "action": int(action),
            "reward": [float(r) for r in reward] if np.ndim(reward) else check_reward(reward),
            "terminated": episode.terminations[t],
            "truncated": episode.truncations[t],
            "next_observation": shown[t + 1],
        }
        if episode.action_masks is not None:
            row["action_mask"] = [bool(m) for m in episode.action_masks[t]]
            row["next_action_mask"] = [bool(m) for m in episode.action_masks[t + 1]]
        if episode.probabilities is not None:
            row["probability"] = float(episode.probabilities[t])
        yield row


def _cell(observation: Any) -> Any:
    plain = observation.item() if isinstance(observation, np.generic) else observation
    return plain if isinstance(plain, int | float | str) else encode(plain)


# ---- reading


def read_episodes(given: Any) -> Iterator[RecordedEpisode]:
    """Yield episodes one by one, from any argument that `Learner.learn_from` accepts."""
    if isinstance(given, str | Path):
        yield from _from_parquet(Path(given))
    elif isinstance(given, Recorder):
        yield from (_as_episode(episode) for episode in given.episodes if episode.actions)
    elif callable(getattr(given, "iterate_episodes", None)):  # Minari
        yield from (_as_episode(episode) for episode in given.iterate_episodes())
    elif _field(given, "observations") is not None:
        yield _as_episode(given)
    elif isinstance(given, Iterable) and not isinstance(given, Mapping):
        yield from (_as_episode(episode) for episode in given)
    else:
        raise ValueError(
            f"episodes must be recorded episodes with observations, actions, rewards, terminations and truncations, a "
            f"Recorder, a Minari dataset or the path of a Parquet file, got {given!r}"
        )


def _field(episode: Any, name: str) -> Any:
    return episode.get(name) if isinstance(episode, Mapping) else getattr(episode, name, None)


def _as_episode(given: Any) -> RecordedEpisode:
    """One episode from a dict or an object, with a flag per action; `_check` looks at the rest."""
    found = {name: _field(given, name) for name in ("observations", "actions", "rewards")}
    for name, value in found.items():
        if value is None:
            raise ValueError(f"episodes: every episode must have {name}, got {type(given).__name__} without it")
    actions, rewards = list(np.asarray(found["actions"])), np.asarray(found["rewards"])
    T = len(actions)
    if rewards.size and rewards.dtype.kind not in "biuf":
        raise ValueError(f"episodes: rewards must be numbers, got {found['rewards']!r}")
    if all(_field(given, name) is None for name in (*_TERMINATED, *_TRUNCATED)):
        raise ValueError(
            f"episodes: every episode must have terminations (True if its last step ended it) or truncations (True if "
            f"the recording stops there), one flag or one per action; got {type(given).__name__} with neither"
        )
    ends = [_flags(given, names, T) for names in (_TERMINATED, _TRUNCATED)]
    observations = _unstack(found["observations"])
    if len(observations) != T + 1 or len(rewards) != T:
        raise ValueError(
            f"episodes: an episode of {T} actions must have {T} rewards and {T + 1} observations, the last one "
            f"included; got {len(rewards)} and {len(observations)}"
        )
    masks, chances = _masks(given), _field(given, "probabilities")
    for name, value, wanted in (("action_masks", masks, T + 1), ("probabilities", chances, T)):
        if value is not None and len(value) != wanted:
            raise ValueError(f"episodes: {name} must have {wanted} entries for {T} actions, got {len(value)}")
    return RecordedEpisode(observations, actions, list(rewards.astype(np.float64)), ends[0], ends[1], masks, chances)


def _flags(given: Any, names: tuple[str, ...], length: int) -> list[bool]:
    """Return a flag per transition; a single flag is that of the last."""
    value: Any = next((found for name in names if (found := _field(given, name)) is not None), False)
    if np.ndim(value) == 0:
        return [False] * (length - 1) + [check_end(f"episodes: {names[0]}", value)] * (length > 0)
    flags = [check_end(f"episodes: {names[0]}", flag) for flag in value]
    if len(flags) != length or any(flags[:-1]):
        raise ValueError(
            f"episodes: {names[0]} must have one flag per action ({length}), of which only the last may be set, got "
            f"{value!r}; split a recording of several episodes into a list of episodes"
        )
    return flags


def _masks(given: Any) -> Any:
    masks = _field(given, "action_masks")
    infos = _field(given, "infos")
    return infos.get("action_mask") if masks is None and isinstance(infos, Mapping) else masks


def _unstack(observations: Any) -> list[Any]:
    """Return a list of observations; those of Dict and Tuple spaces are dicts and tuples of arrays."""
    if isinstance(observations, Mapping):
        parts = {key: _unstack(part) for key, part in observations.items()}
        return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
    if isinstance(observations, tuple) and observations and all(np.ndim(part) > 0 for part in observations):
        return list(zip(*(_unstack(part) for part in observations), strict=True))
    return list(observations)


def _from_parquet(path: Path) -> Iterator[RecordedEpisode]:
    require("learn_from a Parquet file", "polars")
    import polars as pl

    if not path.exists():
        raise ValueError(f"episodes must be the path of an existing Parquet file, got {str(path)!r}")
    frame = pl.read_parquet(path)
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(f"episodes: {path} must have the columns {', '.join(_COLUMNS)}; it lacks {', '.join(missing)}")
    for part in frame.partition_by("episode", maintain_order=True):
        column = {name: part[name].to_list() for name in part.columns}
        if column["next_observation"][:-1] != column["observation"][1:]:
            raise ValueError(
                f"episodes: {path}: in episode {column['episode'][0]} an observation is not the next_observation of "
                f"the row before it; rows must be whole and in order"
            )
        masks = None
        if "action_mask" in column:
            masks = [*column["action_mask"], column.get("next_action_mask", column["action_mask"])[-1]]
        yield _as_episode(
            {
                "observations": [*map(_shown, column["observation"]), _shown(column["next_observation"][-1])],
                "actions": column["action"],
                "rewards": column["reward"],
                "terminations": column["terminated"],
                "truncations": column["truncated"],
                "action_masks": masks,
                "probabilities": column.get("probability"),
            }
        )


def _shown(cell: Any) -> Any:
    """Return the recorded observation: canonical bytes are decoded, a list becomes an array."""
    if isinstance(cell, bytes):
        return decode(cell)
    return np.array(cell) if isinstance(cell, list) else cell


# ---- learning


def learn_from(agent: Any, episodes: Any, behaviour: Any = None) -> History:
    """Train a learner on recorded episodes; see `Learner.learn_from`."""
    chance = _behaviour(agent, behaviour)
    found = [episode for episode in read_episodes(episodes) if episode.actions]
    for number, episode in enumerate(found):
        _check(agent, episode, number, behaviour)
    returns = [_replay(agent, episode, chance) for episode in found]
    return History(np.array(returns, np.float64), np.array([len(episode.actions) for episode in found], np.int64))


def _check(agent: Any, episode: RecordedEpisode, number: int, behaviour: Any) -> None:
    """Check an episode before training, so that errors name the episode and the step."""
    for t, (action, reward) in enumerate(zip(episode.actions, episode.rewards, strict=True)):
        place = f"episodes: episode {number}, step {t}"
        check_action(f"{place}: action", action, agent.n_actions, agent.action_start, _legal(agent, episode, t))
        if np.shape(reward) != (() if agent.n_paid == 1 else (agent.n_paid,)) or not np.isfinite(reward).all():
            raise ValueError(f"{place}: reward must be {agent.n_paid} finite number(s), got {reward!r}")
        if isinstance(behaviour, str) and behaviour == "recorded":
            _recorded(agent, episode, t)
    for t, observation in enumerate(episode.observations):
        try:
            agent.indexer.find(observation)
        except (ValueError, TypeError) as problem:
            raise ValueError(f"episodes: episode {number}, observation {t}: {problem}") from None


def _replay(agent: Any, episode: RecordedEpisode, chance: Callable[..., float] | None) -> float:
    """Pass one episode to `start` and `step`; return its return."""
    T, total = len(episode.actions), 0.0
    masks = episode.action_masks
    infos = [None if masks is None else {"action_mask": masks[t]} for t in range(T + 1)]
    agent.start(episode.observations[0], infos[0], action=episode.actions[0])
    try:
        for t in range(T):
            last = t + 1 == T
            terminated = episode.terminations[t]
            agent.step(
                episode.rewards[t],
                episode.observations[t + 1],
                terminated,
                last and not terminated,
                None if terminated else infos[t + 1],
                next_action=None if last else episode.actions[t + 1],
            )
            total += paid(agent, episode.rewards[t])
            if chance is not None and not last:
                agent._cut = min(1.0, float(agent.memory.next_policy[agent.action]) / chance(agent, episode, t + 1))
    finally:
        agent._cut = 1.0
    return total


def _behaviour(agent: Any, behaviour: Any) -> Callable[..., float] | None:
    """Return μ(a_t|x_t) as a function of (agent, episode, t); None if the data are the learner's own."""
    if behaviour is None:
        return None
    if agent.bootstrap != EXPECTED_SARSA:
        raise ValueError(
            f"behaviour requires Expected-SARSA, whose bootstrap averages over the learner's own policy, got "
            f"{type(agent).__name__}; leave it out, or for state values see chunked_td.vtrace"
        )
    if isinstance(behaviour, str):
        if behaviour not in ("recorded", "uniform"):
            raise ValueError(f"behaviour must be 'recorded', 'uniform', a table or a function, got {behaviour!r}")
        return _recorded if behaviour == "recorded" else _uniform
    table = None
    if not callable(behaviour):
        table = check_policy_table(behaviour, agent.indexer, agent.n_actions, "behaviour")

    def given(agent: Any, episode: RecordedEpisode, t: int) -> float:
        shown = episode.observations[t]
        row = behaviour(shown) if table is None else table[agent.indexer.find(shown)]
        return _possible(float(policy_row(row, _legal(agent, episode, t), "behaviour")[agent.action]), t)

    return given


def _legal(agent: Any, episode: RecordedEpisode, t: int) -> np.ndarray:
    return agent._legal(None if episode.action_masks is None else {"action_mask": episode.action_masks[t]})


def _uniform(agent: Any, episode: RecordedEpisode, t: int) -> float:
    return 1.0 / float(_legal(agent, episode, t).sum())


def _recorded(agent: Any, episode: RecordedEpisode, t: int) -> float:
    if episode.probabilities is None:
        raise ValueError("behaviour='recorded' requires episodes with probabilities (of the actions taken), got none")
    return _possible(float(episode.probabilities[t]), t)


def _possible(chance: float, t: int) -> float:
    if not 0.0 < chance <= 1.0:
        raise ValueError(f"behaviour must give the recorded action at step {t} a probability in (0, 1], got {chance!r}")
    return chance
