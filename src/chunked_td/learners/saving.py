"""Saved learners: one file, no code in it, and a run that goes on exactly where it stopped.

A `.ctd` file is a NumPy archive: the entry `header` is JSON, the others are arrays. Reading it executes nothing.
It is written to a temporary file first and renamed, so a crash leaves the old file or the new one, never half.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._files import write_atomically
from chunked_td.indexing import indexer_from_state
from chunked_td.lambdas import SOURCES, LambdaSource
from chunked_td.lambdas.base import new_array
from chunked_td.learners.learner import Learner
from chunked_td.learners.planning import PLANNERS, Planner
from chunked_td.learners.planning.smoothed_reward import SmoothedReward
from chunked_td.learners.schedule import Schedule
from chunked_td.learners.state import Memory
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.learners.views import empty_trace, view_from, view_settings
from chunked_td.models.counts import FOLLOWING, NUMBER, ORIGIN, TARGET, Counts
from chunked_td.models.errors import ERRORS, ModelError
from chunked_td.models.transitions import TransitionCounts
from chunked_td.seeding import Draws
from chunked_td.traces import Trace

FORMAT = 1
_SETTINGS = {
    "discount": "discount",
    "seed": "seed",
    "percept": "percept",
    "prior": "prior",
    "replacing": "replacing",
    "cutoff": "cutoff",
    "actions": "n_actions",
    "action_start": "action_start",
    "rewards": "n_rewards",
    "action_mask": "action_mask",
    "reward_weights": "reward_weights",
}
"""Settings by their name in a file, and the attribute of a learner that holds each. Older files lack the last two."""

_PAIRS = {"origin": ORIGIN, "target": TARGET, "number": NUMBER, "following": FOLLOWING}
"""Columns of the counted pairs by their name in a file."""


class _Space:
    """Stands in for an environment when a learner is rebuilt."""

    def __init__(self, actions: int, start: int, rewards: int):
        self.n, self.start, self.shape = actions, start, (rewards,)
        self.action_space = self.reward_space = self.unwrapped = self
        self.observation_space = None


def save(agent: Learner, path: Any) -> None:
    """Write a learner to a file. See `Learner.save`."""
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "learner": type(agent).__name__,
        "settings": {name: _plain(getattr(agent, attribute)) for name, attribute in _SETTINGS.items()}
        | {"view": view_settings(agent.view)},
        "step_size": _number_out(agent.step_size),
        "epsilon": _number_out(agent.epsilon),
        "lambda_source": _named_out(agent.lambda_source, SOURCES),
        "planner": None if agent.planner is None else _named_out(agent.planner, PLANNERS),
        "reward_source": None if agent.reward_source is None else agent.reward_source.settings(),
        "policy": _policy_out(agent, arrays),
        "indexer": _pack(agent.indexer.state(), arrays, "indexer"),
        "model": _model_out(agent, arrays),
        "progress": [
            agent.episode,
            agent.state,
            agent.action,
            float(agent._rates[1]),
            float(agent._rates[0]),
        ],
        "policy_draws": agent.policy_draws.state(),
        "chunk_draws": agent.chunk_draws.state(),
        "plan_draws": agent.plan_draws.state(),
        "env_state": _plain(agent.env_state),
        "percepts": [list(key) for key in agent.percepts],
    }
    _tables_out(agent, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def load(
    path: Any,
    *,
    lambda_source: LambdaSource | None = None,
    model: Any = None,
    policy: Any = None,
    planner: Planner | None = None,
) -> Learner:
    """Read a learner that `save` wrote; it continues bit for bit as the saved one would have.

    Args:
      path: the file.
      lambda_source: the λ source, where the learner was built with one of your own.
      model: the model object, where the learner was built with one of your own. A `NeuralModel` is rebuilt by itself.
      policy: the policy, where the learner was built with a function.
      planner: the planner, where the learner was built with one of your own.

    Raises:
      ValueError: if the file is not a saved learner, or was cut short.
    """
    arrays = _read(Path(path))
    try:
        header = json.loads(bytes(arrays["header"]))
        if header["format"] != FORMAT:
            raise ValueError(f"{path}: written in format {header['format']}, this version reads format {FORMAT}")
        agent = _rebuild(header, arrays, lambda_source, model, policy, planner)
        _tables_in(agent, arrays)
        agent.policy_draws = Draws.from_state(header["policy_draws"])
        agent.chunk_draws = Draws.from_state(header["chunk_draws"])
        if agent.planner is not None:
            agent._set_plan_draws(Draws.from_state(header["plan_draws"], agent._plan_block()))
        agent.episode, agent.state, agent.action, agent._rates[1], agent._rates[0] = header["progress"]
        if not (-1 <= agent.state < agent._capacity and -1 <= agent.action < agent.n_actions):
            raise ValueError(f"{path}: the saved learner stands in state {agent.state} with action {agent.action}")
        agent.env_state = header["env_state"]
        agent.percepts = {(*key[:-1], key[-1]): k for k, key in enumerate(header["percepts"])}
    except (KeyError, TypeError, IndexError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise ValueError(f"{path}: not a saved learner ({problem!r})") from problem
    return agent


def _rebuild(
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    source: LambdaSource | None,
    model: Any,
    policy: Any,
    planner: Planner | None,
) -> Learner:
    import chunked_td

    if header["learner"] not in chunked_td.LEARNERS:
        raise ValueError(f"the file holds a {header['learner']!r}, which this version does not know")
    cls = getattr(chunked_td, header["learner"])
    settings = dict(header["settings"])
    settings["view"] = view_from(settings["view"])
    space = _Space(settings.pop("actions"), settings.pop("action_start"), settings.pop("rewards"))
    indexer = indexer_from_state(_unpack(header["indexer"], arrays))
    policy = _policy_in(header["policy"], arrays, policy)
    if issubclass(cls, SuttonSingh):
        kept: dict[str, Any] = {name: settings.get(name) for name in ("discount", "seed", "action_mask")}
        return cls(space, policy=policy, indexer=indexer, **kept)
    return cls(
        space,
        step_size=_number_in(header["step_size"]),
        epsilon=_number_in(header["epsilon"]),
        lambda_source=_named_in("lambda_source", header["lambda_source"], source, SOURCES),
        planner=_named_in("planner", header.get("planner"), planner, PLANNERS),
        reward_source=_reward_source_in(header.get("reward_source")),
        model=_model_in(header["model"], arrays, model),
        policy=policy,
        indexer=indexer,
        **settings,
    )


# ---- tables


def _tables_out(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    counts, trace = agent.counts, agent.trace
    counts = Counts.empty(0) if counts is None else counts
    trace = Trace.empty(0, agent.n_rewards, 0) if trace is None else trace
    for name in _own_arrays(trace):
        arrays[f"trace_{name}"] = getattr(trace, name)
    trace = getattr(trace, "entries", trace)
    live = int(trace.count[0])
    arrays["values"], arrays["legal"] = agent.tables.values, agent.tables.legal
    arrays["capacity"] = np.array([agent._capacity, counts.head.size])
    _counts_out(counts, arrays, "counts")
    _planning_out(agent, arrays)
    arrays["trace_rows"], arrays["trace_weight"] = trace.rows[:live], trace.weight[:live]
    for name, field in zip(Memory._fields, agent.memory, strict=True):
        arrays[f"memory_{name}"] = field
    for name in _episode_arrays(agent):
        arrays[f"episode_{name}"] = getattr(agent._state.episode, name)
    for name in agent.lambda_source.arrays:
        arrays[f"lambda_{name}"] = getattr(agent._state.source, name)
    if isinstance(agent, SuttonSingh):
        arrays["stale"] = agent.stale[: int(counts.size[0])]
        arrays["visited"] = np.array(agent.visited, np.int64).reshape(-1, 2)


def _counts_out(counts: Counts, arrays: dict[str, np.ndarray], prefix: str) -> None:
    size = int(counts.size[0])
    for name, column in _PAIRS.items():
        arrays[f"{prefix}_{name}"] = counts.pairs[:size, column]
    for name in ("head", "total", "prior"):
        arrays[f"{prefix}_{name}"] = getattr(counts, name)


def _planning_out(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    """The planner's model, what the planner keeps, and what an error of the models keeps."""
    planning, error = agent._state.planning, agent._state.error
    if planning is not None:
        _counts_out(planning.world.counts, arrays, "world")
        size = int(planning.world.counts.size[0])
        arrays["world_rewards"], arrays["world_ends"] = planning.world.rewards[:size], planning.world.ends[:size]
        for name in agent.planner.arrays if agent.planner is not None else ():
            arrays[f"planner_{name}"] = getattr(planning.planner, name)
    if error is not None:
        arrays.update({f"error_{name}": field for name, field in _arrays_of(error).items()})


def _own_arrays(trace: Any) -> list[str]:
    """What a kind of trace has besides the entries that all have."""
    return (
        [] if not hasattr(trace, "entries") else [n for n in trace._fields if isinstance(getattr(trace, n), np.ndarray)]
    )


def _episode_arrays(agent: Learner) -> list[str]:
    """The arrays of the episode under way, where the λ source is shown it."""
    episode = agent._state.episode
    return [] if episode is None else [name for name in episode._fields[:5]]


def _check_tables(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    """Refuse tables that do not fit together: compiled code does not look where it reads."""
    capacity, origins = (int(n) for n in arrays["capacity"])
    rows, legal = agent._rows(capacity), agent.tables.legal.shape[0]
    shapes = {"values": (rows, agent.n_rewards), "legal": (capacity if legal else 0, agent.n_actions)}
    counted, planning, error = {"counts": origins}, agent._state.planning, agent._state.error
    if planning is not None:
        counted["world"], transitions = rows, arrays["world_origin"].size
        shapes |= {"world_rewards": (transitions, agent.n_rewards), "world_ends": (transitions,)}
    if agent.counts is not None:
        shapes["counts_prior"] = agent.counts.prior.shape
    shapes["trace_weight"] = (arrays["trace_rows"].size, agent.n_rewards)
    if _own_arrays(agent.trace) and arrays["values"].shape == shapes["values"]:
        trace = empty_trace(agent.view, rows, agent.n_rewards, 1)
        shapes |= {f"trace_{name}": getattr(trace, name).shape for name in _own_arrays(trace)}
    room = arrays["memory_rows"].size
    shapes |= {"memory_rows": (room,)}
    shapes |= {"memory_delta": (room, agent.n_rewards), "memory_lambda_": (room, agent.n_rewards)}
    for name in Memory._fields:
        shapes.setdefault(f"memory_{name}", getattr(agent.memory, name).shape)
    ranges = {}
    for prefix, number in counted.items():
        pairs = arrays[f"{prefix}_origin"].size
        shapes |= {f"{prefix}_{name}": (number,) for name in ("head", "total")}
        shapes |= {f"{prefix}_{name}": (pairs,) for name in _PAIRS}
        ranges |= {f"{prefix}_following": (-1, pairs), f"{prefix}_head": (-1, pairs)}
        ranges[f"{prefix}_origin"] = (0, number)
    if planning is not None:
        ranges |= {"world_target": (0, capacity), "world_total": (0, np.inf), "world_ends": (0, np.inf)}
    ranges |= {"trace_rows": (0, rows), "memory_rows": (0, rows), "memory_length": (0, room + 1)}
    if _episode_arrays(agent):
        room = arrays["episode_states"].size
        shapes |= {f"episode_{name}": (room,) for name in ("states", "actions")}
        shapes |= {
            "episode_rewards": (room, agent.n_rewards),
            "episode_ahead": (agent.n_rewards,),
            "episode_length": (1,),
        }
        ranges |= {"episode_states": (0, capacity), "episode_actions": (0, agent.n_actions)}
        ranges["episode_length"] = (0, room + 1)
    sizes = {"S": capacity, "A": agent.n_actions, "d": agent.n_rewards, "rows": rows}
    kept = {f"lambda_{name}": new_array(layout, sizes) for name, layout in agent.lambda_source.arrays.items()}
    if agent.planner is not None:
        kept |= {f"planner_{name}": new_array(layout, sizes) for name, layout in agent.planner.arrays.items()}
    kept |= {} if error is None else {f"error_{name}": old for name, old in _arrays_of(error).items()}
    for name, wanted in kept.items():
        shapes[name] = wanted.shape if arrays[name].dtype == wanted.dtype else (-1,)
    wrong = [name for name, shape in shapes.items() if arrays[name].shape != shape]
    wrong += [name for name, (low, end) in ranges.items() if ((arrays[name] < low) | (arrays[name] >= end)).any()]
    for prefix in counted:
        following = arrays[f"{prefix}_following"]  # links lead to pairs of before
        if following.ndim == 1 and (following >= np.arange(following.size)).any():
            wrong.append(f"{prefix}_following")
    if wrong or capacity < agent.indexer.size or (agent.counts is not None and origins < agent.counts.head.size):
        raise ValueError(f"the tables of the saved learner do not fit together: {', '.join(wrong) or 'capacity'}")


def _tables_in(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    _check_tables(agent, arrays)
    agent._capacity, origins = (int(n) for n in arrays["capacity"])
    agent._replace(
        tables=agent.tables._replace(values=arrays["values"], legal=arrays["legal"]),
        memory=Memory(*(arrays[f"memory_{name}"] for name in Memory._fields)),
    )
    if agent.trace is not None:
        agent._replace(trace=_trace_in(agent, arrays))
    if _episode_arrays(agent):
        kept = {name: arrays[f"episode_{name}"] for name in _episode_arrays(agent)}
        agent._replace(episode=agent._state.episode._replace(**kept))
    if agent.lambda_source.arrays:
        learned = {name: arrays[f"lambda_{name}"] for name in agent.lambda_source.arrays}
        agent._replace(source=agent._state.source._replace(**learned))
    agent._room = 0
    _planning_in(agent, arrays)
    if isinstance(agent, SuttonSingh):
        agent._counts = _counts_in(arrays, origins)
        agent.stale = np.zeros(agent.counts.pairs.shape[0])
        agent.stale[: arrays["stale"].size] = arrays["stale"]
        agent.visited = [(int(pair), int(state)) for pair, state in arrays["visited"]]
    elif agent.counts is not None:
        agent._replace_counts(_counts_in(arrays, origins))


def _planning_in(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    planning, error = agent._state.planning, agent._state.error
    if planning is not None:
        counts = _counts_in(arrays, agent._rows(agent._capacity), "world")
        rewards, ends = arrays["world_rewards"], arrays["world_ends"]
        planning = planning._replace(world=TransitionCounts.restored(counts, rewards, ends, agent._capacity))
        if agent.planner is not None and agent.planner.arrays:
            kept = {name: arrays[f"planner_{name}"] for name in agent.planner.arrays}
            planning = planning._replace(planner=planning.planner._replace(**kept))
        agent._replace(planning=planning)
    if error is not None:
        agent._replace(error=error._replace(**{name: arrays[f"error_{name}"] for name in _arrays_of(error)}))


def _arrays_of(form: Any) -> dict[str, np.ndarray]:
    return {name: field for name, field in form._asdict().items() if isinstance(field, np.ndarray)}


def _counts_in(arrays: dict[str, np.ndarray], origins: int, prefix: str = "counts") -> Counts:
    size, prior = arrays[f"{prefix}_origin"].size, arrays[f"{prefix}_prior"]
    counts = Counts.empty(origins, float(prior[0]), prior[1:].astype(int).tolist(), max(2 * size, 256))
    for name, column in _PAIRS.items():
        counts.pairs[:size, column] = arrays[f"{prefix}_{name}"]
    for name in ("head", "total"):
        getattr(counts, name)[:] = arrays[f"{prefix}_{name}"]
    counts.size[0] = size
    return counts.grown(origins, counts.pairs.shape[0])  # builds the hash table


def _trace_in(agent: Learner, arrays: dict[str, np.ndarray]) -> Any:
    live = arrays["trace_rows"].size
    trace = Trace.empty(agent.tables.values.shape[0], agent.n_rewards, max(2 * live, 256))
    trace.rows[:live], trace.weight[:live] = arrays["trace_rows"], arrays["trace_weight"]
    trace.slot[arrays["trace_rows"]] = np.arange(live)
    trace.count[0] = live
    if not hasattr(agent.trace, "entries"):
        return trace
    return agent.trace._replace(entries=trace, **{name: arrays[f"trace_{name}"] for name in _own_arrays(agent.trace)})


# ---- settings


def _number_out(value: float | Schedule) -> Any:
    return dataclasses.asdict(value) if isinstance(value, Schedule) else value


def _number_in(value: Any) -> float | Schedule:
    return Schedule(tuple(map(tuple, value["points"])), value["hold"]) if isinstance(value, dict) else value


def _named_out(thing: Any, ours: Mapping[str, type]) -> dict[str, Any]:
    """The name and the settings of a λ source or planner: its class, with its module where it is not one of `ours`."""
    cls = type(thing)
    name = cls.__name__ if ours.get(cls.__name__) is cls else f"{cls.__module__}.{cls.__qualname__}"
    return {"name": name, **thing.settings()}


def _named_in(argument: str, value: dict[str, Any] | None, given: Any, ours: Mapping[str, type]) -> Any:
    """The λ source or planner of a file: the one given as `argument`, or built from its settings."""
    if given is not None:
        mine = json.loads(json.dumps(_named_out(given, ours)))
        if mine != value:
            raise ValueError(f"{argument}: the saved learner uses {value}, got {mine}")
        return given
    if value is None:
        return None
    settings = dict(value)
    name = settings.pop("name")
    if name not in ours:
        raise ValueError(
            f"{argument}: the saved learner uses {name}, which is not part of chunked_td; build it and pass it as "
            f"load(…, {argument}=…)"
        )
    if hasattr(ours[name], "literal"):
        settings.setdefault("literal", True)  # version 0.1 took actions never tried for impossible
    return ours[name](**{key: _as_tuples(setting) for key, setting in settings.items()})


def _reward_source_in(value: dict[str, Any] | None) -> SmoothedReward | None:
    return None if value is None else SmoothedReward(**value)


def _as_tuples(value: Any) -> Any:
    """JSON's lists as tuples, as settings have them."""
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


def _policy_out(agent: Learner, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(agent.policy, np.ndarray):
        arrays["policy"] = agent.policy
        return {"array": "policy"}
    return {"function": True} if callable(agent.policy) else agent.policy


def _policy_in(value: Any, arrays: dict[str, np.ndarray], given: Any) -> Any:
    if isinstance(value, dict) and "function" in value:
        if given is None:
            raise ValueError("policy: the saved learner evaluates a function, which a file cannot hold; pass policy=")
        return given
    return arrays["policy"] if isinstance(value, dict) else value


def _model_out(agent: Learner, arrays: dict[str, np.ndarray]) -> Any:
    model = agent.model
    if model is None:
        return None
    if isinstance(model, ModelError):
        return {"error": _named_out(model, ERRORS)}
    if not hasattr(model, "state_arrays"):
        return {"name": type(model).__name__, "saved": False}
    for name, array in model.state_arrays().items():
        arrays[f"model_{name}"] = np.asarray(array)
    return {"name": type(model).__name__, "saved": True}


def _model_in(value: Any, arrays: dict[str, np.ndarray], given: Any) -> Any:
    if value is None:
        return given
    if "error" in value:
        return _named_in("model", value["error"], given, ERRORS)
    saved = {k.removeprefix("model_"): v for k, v in arrays.items() if k.startswith("model_")}
    if given is None and value["name"] == "NeuralModel" and value["saved"]:
        from chunked_td.models.neural.online import NeuralModel

        return NeuralModel.from_arrays(saved)
    if given is None:
        raise ValueError(f"model: the saved learner uses a {value['name']}; build one and pass it as model=")
    if value["saved"]:
        given.load_arrays(saved)
    return given


def _plain(value: Any) -> Any:
    """JSON-able copy of a bit generator's state, which may hold NumPy numbers."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _pack(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """Move the arrays of a nested state into `arrays`, leaving their names."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"__array__": name}
    if isinstance(value, dict):
        return {key: _pack(item, arrays, f"{name}_{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, arrays, f"{name}_{k}") for k, item in enumerate(value)]
    return _plain(value)


def _unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if "__array__" in value:
            return arrays[value["__array__"]]
        return {key: _unpack(item, arrays) for key, item in value.items()}
    return [_unpack(item, arrays) for item in value] if isinstance(value, list) else value


# ---- files


def _read(path: Path) -> dict[str, np.ndarray]:
    if path.is_file() and not zipfile.is_zipfile(path):  # NumPy would suggest to unpickle it
        raise ValueError(f"{path}: not a saved learner, or cut short")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except Exception as problem:  # a damaged archive fails in as many ways as there are bytes in its headers
        raise ValueError(f"{path}: not a saved learner, or cut short ({problem})") from problem
    if "header" not in arrays:
        raise ValueError(f"{path}: a NumPy archive, but not a saved learner (it has no header)")
    return arrays
