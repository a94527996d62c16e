"""Saved learners: one file, no code in it, and a run that goes on exactly where it stopped.

A `.ctd` file is a NumPy archive: the entry `header` is JSON, the others are arrays. Reading it executes nothing.
It is written to a temporary file first and renamed, so a crash leaves the old file or the new one, never half.

A file may come from anybody. It is read in this order: its digest (`chunked_td._archives`), the declared sizes, the
header, and then every array by the schema (`learners.schema`), before compiled code sees one. Files of version 0.1 have
no digest; all else is checked in them too.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chunked_td._archives import Archive, pack
from chunked_td._checks import check_flag, check_whole
from chunked_td._files import plain, read_regular, write_atomically
from chunked_td.bootstraps import STATE
from chunked_td.features.maps import Features, OwnFeatures
from chunked_td.indexing import indexer_from_state
from chunked_td.lambdas import CLASSES, LambdaSource
from chunked_td.learners.exploration import EXPLORATIONS, Exploration
from chunked_td.learners.learned_components import LearnedComponents
from chunked_td.learners.learner import Learner
from chunked_td.learners.planning import PLANNERS, Planner
from chunked_td.learners.planning.base import REWARD_SOURCES
from chunked_td.learners.schedule import Schedule
from chunked_td.learners.schema import (
    LARGEST,
    check_arrays,
    check_finite,
    check_percepts,
    check_progress,
    check_size,
    saved_parts,
)
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.learners.views import view_from, view_settings
from chunked_td.models.counts import FOLLOWING, NUMBER, ORIGIN, TARGET, Counts, rehash
from chunked_td.models.errors import ModelError
from chunked_td.models.transitions import TransitionCounts
from chunked_td.seeding import Draws, check_random_state
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
    "rewards": "n_paid",
    "action_mask": "action_mask",
    "reward_weights": "reward_weights",
    "initial_value": "initial_value",
}
"""Settings by their name in a file, and the attribute of a learner that holds each. Older files lack the last three."""

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
    if not Path(path).parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that exists, got {str(path)!r}")
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "learner": type(agent).__name__,
        "settings": {name: plain(getattr(agent, attribute)) for name, attribute in _SETTINGS.items()}
        | {"view": view_settings(agent.view)},
        "step_size": plain(agent.step_size),
        "epsilon": plain(agent.epsilon) if agent.exploration is None or agent.exploration.uses_epsilon else None,
        "exploration": _named_out(agent.exploration, EXPLORATIONS),
        "lambda_source": _named_out(agent.lambda_source, CLASSES),
        "planner": _named_out(agent.planner, PLANNERS),
        "reward_source": _named_out(agent.reward_source, REWARD_SOURCES),
        "policy": _policy_out(agent, arrays),
        "indexer": _pack(agent.indexer.state(), arrays, "indexer"),
        "model": _model_out(agent, arrays),
        "progress": [agent.episode, agent.state, agent.action, float(agent._rates[1]), float(agent._rates[0])],
        "policy_draws": agent.policy_draws.state(),
        "chunk_draws": agent.chunk_draws.state(),
        "plan_draws": agent.plan_draws.state(),
        "env_state": plain(agent.env_state),
        "percepts": [list(key) for key in agent.percepts],
    }
    tables = _tables_out(agent)
    check_finite(tables)
    arrays |= tables
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_atomically(path, pack(arrays))


class _Unfit(ValueError):
    """The file is as it should be, but cannot be used like this."""


def load(
    path: Any,
    *,
    lambda_source: LambdaSource | None = None,
    model: Any = None,
    policy: Any = None,
    max_bytes: int | None = None,
    planner: Planner | None = None,
    exploration: Exploration | None = None,
    features: Any = None,
) -> Learner:
    """Read a learner that `save` wrote; it continues bit for bit as the saved one would have.

    The file may come from anybody: it is checked in full, nothing in it is executed, and none is unpickled.

    Args:
      path: the file.
      lambda_source: the λ source, where the learner was built with one of your own.
      model: the model object, where the learner was built with one of your own. A `NeuralModel` is rebuilt by itself.
      policy: the policy, where the learner was built with a function.
      max_bytes: what the file may unpack to; by default 1 GiB, or 100 times the file where that is more.
      planner: the planner, where the learner was built with one of your own.
      exploration: the exploration, where the learner was built with one of your own.
      features: the function, where the learner was built with `OwnFeatures`.

    Raises:
      ValueError: if the file is not a saved learner, was cut short or changed, or holds what no learner can have.
    """
    content = read_regular(path)
    given = {"lambda_source": lambda_source, "model": model, "policy": policy}
    given |= {"planner": planner, "exploration": exploration}
    try:
        arrays = Archive(content, max_bytes)
        agent = _learner(arrays, given)
        arrays.check_all_read()
        if isinstance(agent.indexer, OwnFeatures):
            if features is None:
                raise _Unfit("features: the saved learner has features of a function, which no file can hold; pass it")
            agent.indexer.function = features
        return agent
    except _Unfit as problem:
        raise ValueError(f"{path}: {problem}") from None
    except Exception as problem:  # whatever a file can be wrong in, its name is said
        text = f"no {problem}" if isinstance(problem, KeyError) else str(problem) or repr(problem)
        raise ValueError(f"{path}: not a saved learner, or cut short or changed: {text}") from problem


def _learner(arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> Learner:
    """The learner that an archive holds; `given` has what the caller of `load` passed, by name."""
    header = json.loads(str(arrays["header"].data, "utf-8"))
    if header["format"] != FORMAT:
        raise _Unfit(f"written in format {header['format']}, this version reads format {FORMAT}")
    agent = _rebuild(header, arrays, given)
    agent.policy_draws = Draws.from_state(header["policy_draws"])
    agent.chunk_draws = Draws.from_state(header["chunk_draws"])
    if agent.planner is not None:
        agent._set_plan_draws(Draws.from_state(header["plan_draws"], agent._plan_block()))
    state = header["env_state"]  # of an environment, or of every copy of one, or None
    each = [one and check_random_state("env_state", one) for one in (state if isinstance(state, list) else [state])]
    agent.env_state = each if isinstance(state, list) else each[0]
    agent.percepts = check_percepts(agent, header["percepts"])
    agent.episode, agent.state, agent.action, agent._rates[1], agent._rates[0] = check_progress(
        agent, header["progress"]
    )
    _tables_in(agent, arrays)
    return agent


def _rebuild(header: dict[str, Any], arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> Learner:
    import chunked_td

    if header["learner"] not in chunked_td.LEARNERS:
        raise _Unfit(f"the file holds a {header['learner']!r}, which this version does not know")
    cls = getattr(chunked_td, header["learner"])
    absent = {"action_mask": None, "reward_weights": None, "initial_value": 0.0}  # in files of before
    settings = {name: (absent | header["settings"])[name] for name in (*_SETTINGS, "view")}
    settings["view"] = view_from(settings["view"])
    actions, start, rewards = (settings.pop(name) for name in ("actions", "action_start", "rewards"))
    check_whole("actions", actions, 1, LARGEST)
    check_whole("action_start", start, -LARGEST, LARGEST)
    check_whole("rewards", rewards, 1, LARGEST)
    check_flag("replacing", settings["replacing"])
    space = _Space(actions, start, rewards)
    indexer = indexer_from_state(_unpack(header["indexer"], arrays))
    reward_source = _named_in("reward_source", header.get("reward_source"), None, REWARD_SOURCES)
    divided = isinstance(reward_source, LearnedComponents)
    components = len(indexer.nvec or ()) + 1 if divided else rewards
    check_size(arrays, cls.bootstrap, indexer.size, actions, components)
    if isinstance(indexer, Features):
        rows = indexer.count * (1 if cls.bootstrap == STATE else actions)
        if arrays["trace_weights"].shape[:1] != (rows,):
            raise ValueError(f"trace_weights must have {rows} rows, got {arrays['trace_weights'].shape}")
    policy = _policy_in(header["policy"], arrays, given["policy"])
    if issubclass(cls, SuttonSingh):
        kept: dict[str, Any] = {name: settings.get(name) for name in ("discount", "seed", "action_mask")}
        return cls(space, policy=policy, indexer=indexer, **kept)
    return cls(
        space,
        step_size=_number_in(header["step_size"]),
        epsilon=_number_in(header["epsilon"]),
        exploration=_named_in("exploration", header.get("exploration"), given["exploration"], EXPLORATIONS),
        lambda_source=_named_in("lambda_source", header["lambda_source"], given["lambda_source"], CLASSES),
        planner=_named_in("planner", header.get("planner"), given["planner"], PLANNERS),
        reward_source=reward_source,
        model=_model_in(header["model"], arrays, given["model"]),
        policy=policy,
        indexer=indexer,
        **settings,
    )


# ---- tables


def _tables_out(agent: Learner) -> dict[str, np.ndarray]:
    counts = Counts.empty(0) if agent.counts is None else agent.counts
    trace = Trace.empty(0, agent.n_rewards, 0) if agent.trace is None else getattr(agent.trace, "entries", agent.trace)
    live = int(trace.count[0])
    arrays = {"capacity": np.array([agent._capacity, counts.head.size]), **_counts_out(counts, "counts")}
    if agent._state.planning is not None:
        world = agent._state.planning.world
        size = int(world.counts.size[0])
        arrays |= _counts_out(world.counts, "world")
        arrays |= {"world_rewards": world.rewards[:size], "world_ends": world.ends[:size]}
    arrays |= {"trace_rows": trace.rows[:live], "trace_weight": trace.weight[:live]}
    for prefix, path, names, _ in saved_parts(agent):
        part = functools.reduce(getattr, path, agent._state)
        arrays.update({f"{prefix}{name}": getattr(part, name) for name in names})
    if isinstance(agent, SuttonSingh):
        arrays["stale"] = agent.stale[: int(counts.size[0])]
        arrays["visited"] = np.array(agent.visited, np.int64).reshape(-1, 2)
    return arrays


def _counts_out(counts: Counts, prefix: str) -> dict[str, np.ndarray]:
    pairs = {f"{prefix}_{name}": counts.pairs[: int(counts.size[0]), column] for name, column in _PAIRS.items()}
    return pairs | {f"{prefix}_{name}": getattr(counts, name) for name in ("head", "total", "prior")}


def _tables_in(agent: Learner, arrays: Mapping[str, np.ndarray]) -> None:
    check_arrays(agent, arrays)
    agent._capacity, origins = (int(n) for n in arrays["capacity"])
    for prefix, path, names, _ in saved_parts(agent):
        agent._state = _replaced(agent._state, path, {name: arrays[f"{prefix}{name}"] for name in names})
    if agent.trace is not None:
        entries, nested = _entries_in(agent, arrays), hasattr(agent.trace, "entries")
        agent._replace(trace=agent.trace._replace(entries=entries) if nested else entries)
    planning = agent._state.planning
    if planning is not None:
        counts = _counts_in(arrays, agent._rows(agent._capacity), "world")
        world = arrays["world_rewards"], arrays["world_ends"], agent._capacity
        agent._replace(planning=planning._replace(world=TransitionCounts.restored(counts, *world)))
    agent._room, agent._packed = 0, None
    if isinstance(agent, SuttonSingh):
        agent._counts = _counts_in(arrays, origins)
        agent.stale = np.zeros(agent.counts.pairs.shape[0])
        agent.stale[: arrays["stale"].size] = arrays["stale"]
        agent.visited = [(int(pair), int(state)) for pair, state in arrays["visited"]]
    elif agent.counts is not None:
        agent._replace(model=agent._state.model._replace(counts=_counts_in(arrays, origins)))


def _replaced(tree: Any, path: tuple[str, ...], given: dict[str, np.ndarray]) -> Any:
    """A tree of tuples with other arrays in the tuple at `path`."""
    if not path:
        return tree._replace(**given)
    return tree._replace(**{path[0]: _replaced(getattr(tree, path[0]), path[1:], given)})


def _counts_in(arrays: Mapping[str, np.ndarray], origins: int, prefix: str = "counts") -> Counts:
    size, prior = arrays[f"{prefix}_origin"].size, arrays[f"{prefix}_prior"]
    counts = Counts.empty(origins, float(prior[0]), prior[1:].astype(int).tolist(), max(2 * size, 256))
    for name, column in _PAIRS.items():
        counts.pairs[:size, column] = arrays[f"{prefix}_{name}"]
    for name in ("head", "total"):
        getattr(counts, name)[:] = arrays[f"{prefix}_{name}"]
    counts.size[0] = size
    rehash(counts)
    if np.count_nonzero(counts.table) != size:
        raise ValueError("counts_origin, counts_target: a pair must be there once")
    return counts


def _entries_in(agent: Learner, arrays: Mapping[str, np.ndarray]) -> Trace:
    live, linear = arrays["trace_rows"].size, agent.features is not None
    rows = agent.trace.rates.size if linear else agent.tables.values.shape[0]
    trace = Trace.empty(rows, agent.n_rewards, rows if linear else max(2 * live, 256))
    trace.rows[:live], trace.weight[:live] = arrays["trace_rows"], arrays["trace_weight"]
    trace.slot[arrays["trace_rows"]] = np.arange(live)
    trace.count[0] = live
    return trace


# ---- settings


def _number_in(value: Any) -> Any:
    """A schedule where it is one, anything else as it is."""
    if not isinstance(value, dict):
        return value
    for episode, _ in value["points"]:
        check_whole("episode of a schedule", episode, -LARGEST, LARGEST)
    return Schedule(tuple(map(tuple, value["points"])), check_flag("hold", value["hold"]))


def _named_out(thing: Any, ours: Mapping[str, type]) -> dict[str, Any] | None:
    """The name and the settings of a λ source or its like: its class, with its module where it is not one of `ours`."""
    if thing is None:
        return None
    cls = type(thing)
    name = cls.__name__ if ours.get(cls.__name__) is cls else f"{cls.__module__}.{cls.__qualname__}"
    return {"name": name, **thing.settings()}


def _named_in(argument: str, value: dict[str, Any] | None, given: Any, ours: Mapping[str, type]) -> Any:
    """The λ source, or its like, of a file: the one given as `argument`, or built from its settings."""
    if given is not None:
        mine = json.loads(json.dumps(_named_out(given, ours)))
        later = {f.name: f.default for f in dataclasses.fields(given) if not f.repr}  # options that older files lack
        if value is None or mine != {**later, **value}:
            raise _Unfit(f"{argument}: the saved learner uses {value}, got {mine}")
        return given
    if value is None:
        return None
    settings = dict(value)
    name = settings.pop("name")
    if name not in ours:
        missing = f"{name}, which is not part of chunked_td; build it and pass it as load(…, {argument}=…)"
        raise _Unfit(f"{argument}: the saved learner uses {missing}")
    if hasattr(ours[name], "literal"):
        settings.setdefault("literal", True)  # version 0.1 took actions never tried for impossible
    for key, setting in settings.items():
        settings[key] = _number_in(_as_tuples(setting))
    return ours[name](**settings)


def _as_tuples(value: Any) -> Any:
    """JSON's lists as tuples, as settings have them."""
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


def _policy_out(agent: Learner, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(agent.policy, np.ndarray):
        arrays["policy"] = agent.policy
        return {"array": "policy"}
    return {"function": True} if callable(agent.policy) else agent.policy


def _policy_in(value: Any, arrays: Mapping[str, np.ndarray], given: Any) -> Any:
    if isinstance(value, dict) and "function" in value:
        if given is None:
            raise _Unfit("policy: the saved learner evaluates a function, which a file cannot hold; pass policy=")
        return given
    return arrays["policy"] if isinstance(value, dict) else value


def _model_out(agent: Learner, arrays: dict[str, np.ndarray]) -> Any:
    model = agent.model
    if model is None:
        return None
    if isinstance(model, ModelError):
        return {"error": _named_out(model, {})}
    if not hasattr(model, "state_arrays"):
        return {"name": type(model).__name__, "saved": False}
    for name, array in model.state_arrays().items():
        arrays[f"model_{name}"] = np.asarray(array)
    return {"name": type(model).__name__, "saved": True}


def _model_in(value: Any, arrays: Mapping[str, np.ndarray], given: Any) -> Any:
    if value is None:
        return given
    if "error" in value:
        return _named_in("model", value["error"], given, {})
    saved = {k.removeprefix("model_"): arrays[k] for k in arrays if k.startswith("model_")}
    if given is None and value["name"] == "NeuralModel" and value["saved"]:
        from chunked_td.models.neural.online import NeuralModel

        return NeuralModel.from_arrays(saved)
    if given is None:
        raise _Unfit(f"model: the saved learner uses a {value['name']}; build one and pass it as model=")
    if value["saved"]:
        given.load_arrays(saved)
    return given


def _pack(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """Move the arrays of a nested state into `arrays`, leaving their names."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"__array__": name}
    if isinstance(value, dict):
        return {key: _pack(item, arrays, f"{name}_{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, arrays, f"{name}_{k}") for k, item in enumerate(value)]
    return plain(value)


def _unpack(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if "__array__" in value:
            return arrays[value["__array__"]]
        return {key: _unpack(item, arrays) for key, item in value.items()}
    return [_unpack(item, arrays) for item in value] if isinstance(value, list) else value
