"""Saved learners: one file, no code in it, and a run that goes on exactly where it stopped.

A `.ctd` file is a NumPy archive: the entry `header` is JSON, the others are arrays. Reading it executes nothing.
It is written to a temporary file first and renamed, so a crash leaves the old file or the new one, never half.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._files import write_atomically
from chunked_td.indexing import indexer_from_state
from chunked_td.lambdas import SOURCES, LambdaSource
from chunked_td.lambdas.base import new_array
from chunked_td.learners.learner import Learner
from chunked_td.learners.schedule import Schedule
from chunked_td.learners.state import Memory
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.models.counts import FOLLOWING, NUMBER, ORIGIN, TARGET, Counts
from chunked_td.seeding import Draws
from chunked_td.traces import Trace

FORMAT = 1
_SETTINGS = {
    "discount": "discount",
    "seed": "seed",
    "view": "view",
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
        "settings": {name: _plain(getattr(agent, attribute)) for name, attribute in _SETTINGS.items()},
        "step_size": _number_out(agent.step_size),
        "epsilon": _number_out(agent.epsilon),
        "lambda_source": {"name": _source_name(agent.lambda_source), **agent.lambda_source.settings()},
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
        "env_state": _plain(agent.env_state),
        "percepts": [list(key) for key in agent.percepts],
    }
    _tables_out(agent, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def load(path: Any, *, lambda_source: LambdaSource | None = None, model: Any = None, policy: Any = None) -> Learner:
    """Read a learner that `save` wrote; it continues bit for bit as the saved one would have.

    Args:
      path: the file.
      lambda_source: the λ source, where the learner was built with one of your own.
      model: the model object, where the learner was built with one of your own. A `NeuralModel` is rebuilt by itself.
      policy: the policy, where the learner was built with a function.

    Raises:
      ValueError: if the file is not a saved learner, or was cut short.
    """
    arrays = _read(Path(path))
    try:
        header = json.loads(bytes(arrays["header"]))
        if header["format"] != FORMAT:
            raise ValueError(f"{path}: written in format {header['format']}, this version reads format {FORMAT}")
        agent = _rebuild(header, arrays, lambda_source, model, policy)
        _tables_in(agent, arrays)
        agent.policy_draws = Draws.from_state(header["policy_draws"])
        agent.chunk_draws = Draws.from_state(header["chunk_draws"])
        agent.episode, agent.state, agent.action, agent._rates[1], agent._rates[0] = header["progress"]
        if not (-1 <= agent.state < agent._capacity and -1 <= agent.action < agent.n_actions):
            raise ValueError(f"{path}: the saved learner stands in state {agent.state} with action {agent.action}")
        agent.env_state = header["env_state"]
        agent.percepts = {(*key[:-1], key[-1]): k for k, key in enumerate(header["percepts"])}
    except (KeyError, TypeError, IndexError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise ValueError(f"{path}: not a saved learner ({problem!r})") from problem
    return agent


def _rebuild(
    header: dict[str, Any], arrays: dict[str, np.ndarray], source: LambdaSource | None, model: Any, policy: Any
) -> Learner:
    import chunked_td

    if header["learner"] not in chunked_td.LEARNERS:
        raise ValueError(f"the file holds a {header['learner']!r}, which this version does not know")
    cls = getattr(chunked_td, header["learner"])
    settings = dict(header["settings"])
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
        lambda_source=_source_in(header["lambda_source"], source),
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
    size, live = int(counts.size[0]), int(trace.count[0])
    arrays["values"], arrays["legal"] = agent.tables.values, agent.tables.legal
    arrays["capacity"] = np.array([agent._capacity, counts.head.size])
    for name, column in _PAIRS.items():
        arrays[f"counts_{name}"] = counts.pairs[:size, column]
    for name in ("head", "total", "prior"):
        arrays[f"counts_{name}"] = getattr(counts, name)
    arrays["trace_rows"], arrays["trace_weight"] = trace.rows[:live], trace.weight[:live]
    for name, field in zip(Memory._fields, agent.memory, strict=True):
        arrays[f"memory_{name}"] = field
    for name in agent.lambda_source.arrays:
        arrays[f"lambda_{name}"] = getattr(agent._state.source, name)
    if isinstance(agent, SuttonSingh):
        arrays["stale"] = agent.stale[:size]
        arrays["visited"] = np.array(agent.visited, np.int64).reshape(-1, 2)


def _check_tables(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    """Refuse tables that do not fit together: compiled code does not look where it reads."""
    capacity, origins = (int(n) for n in arrays["capacity"])
    rows, legal, pairs = agent._rows(capacity), agent.tables.legal.shape[0], arrays["counts_origin"].size
    shapes = {"values": (rows, agent.n_rewards), "legal": (capacity if legal else 0, agent.n_actions)}
    shapes |= {f"counts_{name}": (origins,) for name in ("head", "total")}
    shapes |= {f"counts_{name}": (pairs,) for name in _PAIRS}
    if agent.counts is not None:
        shapes["counts_prior"] = agent.counts.prior.shape
    shapes["trace_weight"] = (arrays["trace_rows"].size, agent.n_rewards)
    room = arrays["memory_rows"].size
    shapes |= {"memory_rows": (room,)}
    shapes |= {"memory_delta": (room, agent.n_rewards), "memory_lambda_": (room, agent.n_rewards)}
    for name in Memory._fields:
        shapes.setdefault(f"memory_{name}", getattr(agent.memory, name).shape)
    ranges = {"counts_origin": (0, origins), "counts_following": (-1, pairs), "counts_head": (-1, pairs)}
    ranges |= {"trace_rows": (0, rows), "memory_rows": (0, rows), "memory_length": (0, room + 1)}
    sizes = {"S": capacity, "A": agent.n_actions, "d": agent.n_rewards}
    for name, layout in agent.lambda_source.arrays.items():
        wanted = new_array(layout, sizes)
        shapes[f"lambda_{name}"] = wanted.shape if arrays[f"lambda_{name}"].dtype == wanted.dtype else (-1,)
    wrong = [name for name, shape in shapes.items() if arrays[name].shape != shape]
    wrong += [name for name, (low, end) in ranges.items() if ((arrays[name] < low) | (arrays[name] >= end)).any()]
    following = arrays["counts_following"]
    if following.shape == (pairs,) and (following >= np.arange(pairs)).any():  # links lead to pairs of before
        wrong.append("counts_following")
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
    if agent.lambda_source.arrays:
        learned = {name: arrays[f"lambda_{name}"] for name in agent.lambda_source.arrays}
        agent._replace(source=agent._state.source._replace(**learned))
    agent._room = 0
    if isinstance(agent, SuttonSingh):
        agent._counts = _counts_in(arrays, origins)
        agent.stale = np.zeros(agent.counts.pairs.shape[0])
        agent.stale[: arrays["stale"].size] = arrays["stale"]
        agent.visited = [(int(pair), int(state)) for pair, state in arrays["visited"]]
    elif agent.counts is not None:
        agent._replace_counts(_counts_in(arrays, origins))


def _counts_in(arrays: dict[str, np.ndarray], origins: int) -> Counts:
    size, prior = arrays["counts_origin"].size, arrays["counts_prior"]
    counts = Counts.empty(origins, float(prior[0]), prior[1:].astype(int).tolist(), max(2 * size, 256))
    for name, column in _PAIRS.items():
        counts.pairs[:size, column] = arrays[f"counts_{name}"]
    for name in ("head", "total"):
        getattr(counts, name)[:] = arrays[f"counts_{name}"]
    counts.size[0] = size
    return counts.grown(origins, counts.pairs.shape[0])  # builds the hash table


def _trace_in(agent: Learner, arrays: dict[str, np.ndarray]) -> Trace:
    live = arrays["trace_rows"].size
    trace = Trace.empty(agent.tables.values.shape[0], agent.n_rewards, max(2 * live, 256))
    trace.rows[:live], trace.weight[:live] = arrays["trace_rows"], arrays["trace_weight"]
    trace.slot[arrays["trace_rows"]] = np.arange(live)
    trace.count[0] = live
    return trace


# ---- settings


def _number_out(value: float | Schedule) -> Any:
    return dataclasses.asdict(value) if isinstance(value, Schedule) else value


def _number_in(value: Any) -> float | Schedule:
    return Schedule(tuple(map(tuple, value["points"])), value["hold"]) if isinstance(value, dict) else value


def _source_name(source: LambdaSource) -> str:
    """Name of a λ source in a file: that of its class, with its module where it is not ours."""
    cls = type(source)
    return cls.__name__ if SOURCES.get(cls.__name__) is cls else f"{cls.__module__}.{cls.__qualname__}"


def _source_in(value: dict[str, Any], given: LambdaSource | None) -> LambdaSource:
    settings = dict(value)
    name = settings.pop("name")
    if given is not None:
        ours = {"name": _source_name(given), **json.loads(json.dumps(given.settings()))}
        if ours != value:
            raise ValueError(f"lambda_source: the saved learner uses {value}, got {ours}")
        return given
    if name not in SOURCES:
        raise ValueError(
            f"lambda_source: the saved learner uses {name}, which is not part of chunked_td; build it and pass it as "
            f"load(…, lambda_source=…)"
        )
    return SOURCES[name](**{key: _as_tuples(setting) for key, setting in settings.items()})


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
    if not hasattr(model, "state_arrays"):
        return {"name": type(model).__name__, "saved": False}
    for name, array in model.state_arrays().items():
        arrays[f"model_{name}"] = np.asarray(array)
    return {"name": type(model).__name__, "saved": True}


def _model_in(value: Any, arrays: dict[str, np.ndarray], given: Any) -> Any:
    if value is None:
        return given
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
