"""Saved learners: one file, no code in it, and a run that goes on exactly where it stopped.

A `.ctd` file is a NumPy archive: the entry `header` is JSON, the others are arrays. Reading it executes nothing.
It is written to a temporary file first and renamed, so a crash leaves the old file or the new one, never half.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td.compiled import Draws
from chunked_td.indexing import indexer_from_state
from chunked_td.lambdas import SOURCES, FactoredLambda, LambdaSource
from chunked_td.learners.base import Learner
from chunked_td.learners.recursion import Memory
from chunked_td.learners.schedule import Schedule
from chunked_td.learners.sutton_singh import _SuttonSingh
from chunked_td.models.counts import Counts
from chunked_td.traces import Trace

FORMAT = 1
_SETTINGS = (
    "discount",
    "seed",
    "view",
    "percept",
    "prior",
    "replacing",
    "cutoff",
    "actions",
    "action_start",
    "rewards",
)


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
        "settings": {name: getattr(agent, name) for name in _SETTINGS},
        "step_size": _number_out(agent.step_size),
        "epsilon": _number_out(agent.epsilon),
        "lambda_source": {"name": type(agent.lambda_source).__name__, **dataclasses.asdict(agent.lambda_source)},
        "policy": _policy_out(agent, arrays),
        "indexer": _pack(agent.indexer.state(), arrays, "indexer"),
        "model": _model_out(agent, arrays),
        "progress": [
            agent.episode,
            agent.state,
            agent.action,
            getattr(agent, "_alpha", 0.0),
            getattr(agent, "_epsilon", 0.0),
        ],
        "policy_draws": agent.policy_draws.state(),
        "chunk_draws": agent.chunk_draws.state(),
        "env_state": _plain(agent.env_state),
        "percepts": [list(key) for key in agent.percepts],
    }
    _tables_out(agent, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    _write(Path(path), arrays)


def load(path: Any, *, model: Any = None, policy: Any = None) -> Learner:
    """Read a learner that `save` wrote; it continues bit for bit as the saved one would have.

    Args:
      path: the file.
      model: the model object, where the learner was built with one that cannot be rebuilt from the file.
      policy: the policy, where the learner was built with a function.

    Raises:
      ValueError: if the file is not a saved learner, or was cut short.
    """
    arrays = _read(Path(path))
    try:
        header = json.loads(bytes(arrays["header"]))
        if header["format"] != FORMAT:
            raise ValueError(f"{path}: written in format {header['format']}, this version reads format {FORMAT}")
        agent = _rebuild(header, arrays, model, policy)
        _tables_in(agent, arrays)
        agent.policy_draws = Draws.from_state(header["policy_draws"])
        agent.chunk_draws = Draws.from_state(header["chunk_draws"])
        agent.episode, agent.state, agent.action, agent._alpha, agent._epsilon = header["progress"]
        agent.env_state = header["env_state"]
        agent.percepts = {(*key[:-1], key[-1]): k for k, key in enumerate(header["percepts"])}
    except (KeyError, TypeError, IndexError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise ValueError(f"{path}: not a saved learner ({problem!r})") from problem
    return agent


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray], model: Any, policy: Any) -> Learner:
    import chunked_td

    if header["learner"] not in chunked_td.LEARNERS:
        raise ValueError(f"the file holds a {header['learner']!r}, which this version does not know")
    cls = getattr(chunked_td, header["learner"])
    settings = dict(header["settings"])
    space = _Space(settings.pop("actions"), settings.pop("action_start"), settings.pop("rewards"))
    indexer = indexer_from_state(_unpack(header["indexer"], arrays))
    policy = _policy_in(header["policy"], arrays, policy)
    if issubclass(cls, _SuttonSingh):
        return cls(space, discount=settings["discount"], seed=settings["seed"], policy=policy, indexer=indexer)
    return cls(
        space,
        step_size=_number_in(header["step_size"]),
        epsilon=_number_in(header["epsilon"]),
        lambda_source=_source_in(header["lambda_source"]),
        model=_model_in(header["model"], arrays, model),
        policy=policy,
        indexer=indexer,
        **settings,
    )


# ---- tables


def _tables_out(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    size, live = int(agent.counts.size[0]), int(agent.trace.count[0])
    arrays["values"], arrays["legal"] = agent.tables.values, agent.tables.legal
    arrays["capacity"] = np.array([agent._capacity, agent.counts.head.size])
    for name in ("origin", "target", "number", "following"):
        arrays[f"counts_{name}"] = getattr(agent.counts, name)[:size]
    for name in ("head", "total", "prior"):
        arrays[f"counts_{name}"] = getattr(agent.counts, name)
    arrays["trace_rows"], arrays["trace_weight"] = agent.trace.rows[:live], agent.trace.weight[:live]
    for name, field in zip(Memory._fields, agent.memory, strict=True):
        arrays[f"memory_{name}"] = field
    if isinstance(agent, _SuttonSingh):
        arrays["stale"] = agent.stale[:size]
        arrays["visited"] = np.array(agent.visited, np.int64).reshape(-1, 2)


def _check_tables(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    """Refuse tables that do not fit together: compiled code does not look where it reads."""
    capacity, origins = (int(n) for n in arrays["capacity"])
    rows, legal, pairs = agent._rows(capacity), agent.tables.legal.shape[0], arrays["counts_origin"].size
    shapes = {"values": (rows, agent.rewards), "legal": (capacity if legal else 0, agent.actions)}
    shapes |= {f"counts_{name}": (origins,) for name in ("head", "total")}
    shapes |= {f"counts_{name}": (pairs,) for name in ("origin", "target", "number", "following")}
    shapes["counts_prior"] = agent.counts.prior.shape
    shapes["trace_weight"] = (arrays["trace_rows"].size, agent.rewards)
    room = arrays["memory_rows"].size
    shapes |= {"memory_rows": (room,), "memory_delta": (room, agent.rewards), "memory_lambda_": (room, agent.rewards)}
    for name in Memory._fields:
        shapes.setdefault(f"memory_{name}", getattr(agent.memory, name).shape)
    ranges = {"counts_origin": (0, origins), "counts_following": (-1, pairs), "counts_head": (-1, pairs)}
    ranges |= {"trace_rows": (0, rows), "memory_rows": (0, rows), "memory_length": (0, room + 1)}
    wrong = [name for name, shape in shapes.items() if arrays[name].shape != shape]
    wrong += [name for name, (low, end) in ranges.items() if ((arrays[name] < low) | (arrays[name] >= end)).any()]
    if wrong or capacity < agent.indexer.size or origins < agent.counts.head.size:
        raise ValueError(f"the tables of the saved learner do not fit together: {', '.join(wrong) or 'capacity'}")


def _tables_in(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    _check_tables(agent, arrays)
    agent._capacity, origins = (int(n) for n in arrays["capacity"])
    agent.tables = agent.tables._replace(values=arrays["values"], legal=arrays["legal"])
    size = arrays["counts_origin"].size
    prior = arrays["counts_prior"]
    counts = Counts.empty(origins, float(prior[0]), prior[1:].astype(int).tolist(), max(2 * size, 256))
    for name in ("origin", "target", "number", "following"):
        getattr(counts, name)[:size] = arrays[f"counts_{name}"]
    for name in ("head", "total"):
        getattr(counts, name)[:] = arrays[f"counts_{name}"]
    counts.size[0] = size
    agent.counts = counts.grown(origins, counts.origin.size)  # builds the hash table
    live = arrays["trace_rows"].size
    slots = agent.tables.values.shape[0] if agent.trace.slot.size else 0
    trace = Trace.empty(slots, agent.rewards, max(2 * live, 256))
    trace.rows[:live], trace.weight[:live] = arrays["trace_rows"], arrays["trace_weight"]
    trace.slot[arrays["trace_rows"]] = np.arange(live)
    trace.count[0] = live
    agent.trace = trace
    agent.memory = Memory(*(arrays[f"memory_{name}"] for name in Memory._fields))
    agent._room = 0
    if isinstance(agent, _SuttonSingh):
        agent.stale = np.zeros(agent.counts.origin.size)
        agent.stale[:size] = arrays["stale"]
        agent.visited = [(int(pair), int(state)) for pair, state in arrays["visited"]]


# ---- settings


def _number_out(value: float | Schedule) -> Any:
    return dataclasses.asdict(value) if isinstance(value, Schedule) else value


def _number_in(value: Any) -> float | Schedule:
    return Schedule(tuple(map(tuple, value["points"])), value["hold"]) if isinstance(value, dict) else value


def _source_in(value: dict[str, Any]) -> LambdaSource:
    settings = dict(value)
    cls = SOURCES[settings.pop("name")]
    if cls is FactoredLambda and settings["components"] is not None:
        chosen = settings["components"]
        settings["components"] = tuple(tuple(c) if isinstance(c, list) else c for c in chosen)
    return cls(**settings)


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
    if given is None:
        raise ValueError(f"model: the saved learner uses a {value['name']}; build one and pass it as model=")
    if value["saved"]:
        given.load_arrays({k.removeprefix("model_"): v for k, v in arrays.items() if k.startswith("model_")})
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


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
