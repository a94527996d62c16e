"""What a saved learner may hold: every array and number that compiled code will index with, checked before it does.

`_schema` states it: for every array of a file its layout, and for whole numbers their range. The layouts
are those that the tuples of compiled code declare (`Tables`, `Memory`, the kinds of traces, `Counts`, `Episode`), and
the λ source's `arrays`. What follows from other parts of the file is compared: the links of the count model's lists,
its totals. A file may be wrong, since anybody can write one; what passes here is never dangerous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from chunked_td._checks import check_not_negative, check_unit, check_whole
from chunked_td._link import Layout, layouts
from chunked_td.bootstraps import SARSA, STATE
from chunked_td.lambdas.episode import Episode
from chunked_td.learners.count_models import count_origins
from chunked_td.learners.learner import Learner
from chunked_td.learners.state import Memory, Tables
from chunked_td.learners.sutton_singh import SuttonSingh
from chunked_td.models import KernelModel
from chunked_td.models.counts import BackwardCounts, Counts, PartCounts
from chunked_td.traces import Trace

Arrays = Mapping[str, np.ndarray]
LARGEST = 2**53
"""Of counts: whole numbers up to it are exact as float64 too."""

_REWRITTEN = ("policy", "next_policy", "scratch", "lambda_t", "delta_t")
"""What of `Memory` is written before it is read, or read only where it was written: it may hold anything."""


def _declared(cls: type, fields: Any, **renamed: str) -> dict[str, Layout]:
    """Fields of a tuple of compiled code, as it declares them; dimensions may have other names in a file."""
    found = {name: layouts(cls)[name] for name in fields}
    return {name: Layout(dtype, tuple(renamed.get(dim, dim) for dim in dims)) for name, (dtype, dims) in found.items()}


class Part(NamedTuple):
    """A part of the compiled state whose arrays are written as they are."""

    prefix: str  # of their names in a file
    path: tuple[str, ...]  # where it stands in `AgentState`
    arrays: Mapping[str, Layout]  # by their names in the part
    least: int = 0  # of their whole numbers


def saved_parts(agent: Learner) -> list[Part]:
    """Every such part; the counts and the entries of a trace are written in another form."""
    state, trace, reward_source = agent._state, agent.trace, agent.reward_source
    own = layouts(type(trace)) if hasattr(trace, "entries") else {}
    parts = [
        Part("", ("tables",), _declared(Tables, ("values", "legal"))),
        Part("memory_", ("memory",), _declared(Memory, Memory._fields)),
        Part("trace_", ("trace",), _declared(type(trace), own, k="d")),
    ]
    if state.episode is not None:
        parts.append(Part("episode_", ("episode",), _declared(Episode, layouts(Episode), k="d", T="transitions")))
    settings: dict[str, tuple[tuple[str, ...], Any]] = {
        "lambda_": (("source",), agent.lambda_source),
        "exploration_": (("tables", "exploration"), agent.exploration),
        "planner_": (("planning", "planner"), agent.planner),
        "reward_": (("planning", "reward_source"), reward_source if getattr(reward_source, "guard", 0.0) else None),
        "model_": (
            ("model",),
            agent.model if isinstance(agent.model, KernelModel) and state.model is not None else None,
        ),
        "division_": (("division",), None if state.division is None else reward_source),
    }
    for prefix, (path, owner) in settings.items():
        kept = {} if owner is None else {name: Layout.of(layout) for name, layout in owner.arrays.items()}
        parts.append(Part(prefix, path, kept, -LARGEST))
    if state.error is not None:
        fields = {name: field for name, field in state.error._asdict().items() if isinstance(field, np.ndarray)}
        kept = {name: Layout(field.dtype, tuple(map(str, field.shape))) for name, field in fields.items()}
        parts.append(Part("error_", ("error",), kept, -1))
    return [part for part in parts if part.arrays]


def _schema(agent: Learner) -> tuple[dict[str, Layout], dict[str, tuple[int, int]]]:
    """The arrays of a learner's file, and the range [least, below) of whole numbers where it is not [0, LARGEST).

    `agent` has the settings of the file; of its states, the indexer alone knows.
    """
    states = max(agent.indexer.size, 1)  # room that was never used is zero
    pairs, rows = states * agent.n_actions, agent._rows(states)
    found = {"capacity": Layout.of("int64[2]")}
    found |= {f"trace_{k}": v for k, v in _declared(Trace, ("rows", "weight"), capacity="live").items()}
    found |= _counted("counts", "pairs", "origins", "k")
    ranges = {"counts_origin": (0, _origins(agent, states)), "counts_target": _targets(agent, states)}
    ranges |= {"trace_rows": (0, rows), "memory_rows": (0, rows), "memory_previous": (-1, pairs)}
    ranges |= {"episode_states": (0, states), "episode_actions": (0, agent.n_actions)}
    for prefix in ("counts", "world"):
        ranges |= {f"{prefix}_head": (-1, LARGEST), f"{prefix}_following": (-1, LARGEST)}
        ranges[f"{prefix}_number"] = (1, LARGEST)
    for part in saved_parts(agent):
        for name, layout in part.arrays.items():
            found[part.prefix + name] = layout
            ranges.setdefault(part.prefix + name, (part.least, LARGEST))
    if agent.features is not None:
        ranges["trace_rows"] = (0, agent.trace.rates.size)
    if agent._state.planning is not None:  # the planner's model; its pairs have a number of their own
        found |= _counted("world", "world", "rows", "world_prior")
        found |= {"world_rewards": Layout.of("float64[world, d]"), "world_ends": Layout.of("int64[world]")}
        ranges |= {"world_origin": (0, rows), "world_target": (0, states)}
    if isinstance(agent, SuttonSingh):
        found |= {"stale": Layout.of("float64[pairs]"), "visited": Layout.of("int64[visits, 2]")}
    return found, ranges


def _counted(prefix: str, pairs: str, origins: str, prior: str) -> dict[str, Layout]:
    """The arrays of `Counts`, whose dimensions have these names."""
    found = _declared(Counts, ("head", "total", "prior"), origins=origins, k=prior)
    found |= dict.fromkeys(("origin", "target", "number", "following"), Layout.of(f"int64[{pairs}]"))
    return {f"{prefix}_{name}": layout for name, layout in found.items()}


def _origins(agent: Learner, states: int) -> int:
    """How many origins the states seen so far can have in the count model."""
    if isinstance(agent, SuttonSingh):
        return states
    return count_origins(type(agent._state.model), agent.bootstrap, states, agent.n_actions, agent.n_rewards)


def _targets(agent: Learner, states: int) -> tuple[int, int]:
    """Range of the targets of the count model."""
    if isinstance(agent, SuttonSingh):
        return -1, states  # −1 is the end of an episode
    kind = type(agent._state.model)
    if kind is BackwardCounts:
        return 0, states * agent.n_actions if agent.bootstrap == SARSA else states
    if kind is PartCounts:
        return 0, int(agent._state.model.counts.prior[1:].max(initial=1.0))
    return 0, len(agent.percepts) if agent.percept == "reward-state" else states


def check_size(arrays: Arrays, bootstrap: int, states: int, n_actions: int, n_rewards: int) -> None:
    """Refuse settings that would take more memory than the tables of the file itself; the indexer knows `states`."""
    capacity, rows = _capacity(arrays), arrays["values"].shape[:1]
    if not states <= capacity or rows != (capacity if bootstrap == STATE else capacity * n_actions,):
        raise ValueError(f"values must have the rows of {states} states and {n_actions} actions, got {rows} rows")
    for name, size in (("memory_policy", n_actions), ("memory_lambda_t", n_rewards)):
        if arrays[name].shape != (size,):
            raise ValueError(f"{name} must have {size} numbers, got shape {arrays[name].shape}")


def _capacity(arrays: Arrays) -> int:
    """How many states the tables have room for."""
    given = arrays["capacity"]
    if given.shape != (2,) or given.dtype != np.int64 or not 0 < given[0] < LARGEST:
        raise ValueError(f"capacity must be two whole numbers, got {given!r}")
    return int(given[0])


def check_arrays(agent: Learner, arrays: Arrays) -> None:
    """Refuse arrays that compiled code could read or write outside of, or that contradict each other."""
    capacity, origins = _capacity(arrays), int(arrays["capacity"][1])
    sizes = {"S": capacity if agent.tables.legal.shape[0] else 0, "A": agent.n_actions, "d": agent.n_rewards, "one": 1}
    sizes |= {"rows": agent._rows(capacity), "origins": 0 if agent.counts is None else _origins(agent, capacity)}
    sizes |= {"features": int(agent.tables.nvec.sum()), **getattr(agent.trace, "sizes", {})}
    if origins != sizes["origins"]:
        raise ValueError(f"capacity must have room for {sizes['origins']} origins, got {origins}")
    schema, ranges = _schema(agent)
    for name, layout in schema.items():
        own = {**sizes, "S": capacity} if name.startswith(("lambda_", "planner_", "exploration_", "model_")) else sizes
        _check_shape(name, arrays[name], layout, own)
        sizes |= {dim: size for dim, size in own.items() if dim not in sizes}
        _check_range(name, arrays[name], *ranges.get(name, (0, LARGEST)))
    _check_trace(agent, arrays)
    _check_counts(arrays, "counts", Counts.empty(0).prior if agent.counts is None else agent.counts.prior)
    _check_planning(agent, arrays)
    owners = {"lambda": agent.lambda_source, "exploration": agent.exploration, "planner": agent.planner}
    for prefix, owner in owners.items():
        if owner is not None:
            owner.check_saved({name: arrays[f"{prefix}_{name}"] for name in owner.arrays})
    if isinstance(agent, SuttonSingh):
        limits = arrays["counts_origin"].size, max(agent.indexer.size, 1)
        if ((arrays["visited"] < 0) | (arrays["visited"] >= limits)).any():
            raise ValueError("visited must name counted pairs and known states")


def _check_shape(name: str, array: np.ndarray, layout: Layout, sizes: dict[str, int]) -> None:
    """Compare with the layout. A dimension that has no size yet gets the array's."""
    good = array.dtype == layout.dtype and array.ndim == len(layout.dims)
    for dim, size in zip(layout.dims, array.shape, strict=False):
        good = sizes.setdefault(dim, int(dim) if dim.isdigit() else size) == size and good
    if not good:
        wanted = [sizes.get(dim, dim) for dim in layout.dims]
        raise ValueError(f"{name} must be {layout.dtype}{wanted}, got {array.dtype}{list(array.shape)}")


def check_finite(arrays: Arrays) -> None:
    """An error where a learner that has diverged would be saved: nothing could load the file."""
    for name, array in arrays.items():
        if not _is_finite(name, array):
            raise ValueError(f"agent: its {name} must be finite, got inf or nan: learning has diverged. Nothing saved")


def _is_finite(name: str, array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or name.removeprefix("memory_") in _REWRITTEN or bool(np.isfinite(array).all())


def _check_range(name: str, array: np.ndarray, least: int, below: int) -> None:
    if not _is_finite(name, array):
        raise ValueError(f"{name} must be finite")
    if array.size == 0 or array.dtype.kind == "f":
        return
    if array.dtype.kind == "b":
        if array.view(np.uint8).max() > 1:
            raise ValueError(f"{name} must be truth values")
    elif array.min() < least or array.max() >= below:
        raise ValueError(f"{name} must lie in [{least}, {below}), got {array.min()} to {array.max()}")


def _check_trace(agent: Learner, arrays: Arrays) -> None:
    rows, length, room = arrays["trace_rows"], arrays["memory_length"], arrays["memory_rows"].size
    if rows.size and (agent.trace is None or np.bincount(rows).max() > 1):
        raise ValueError("trace_rows must name each row at most once, and none without traces")
    if length[0] > room or (agent.trace is not None and length[0] > 0):
        raise ValueError(f"memory_length must be at most {0 if agent.trace is not None else room}, got {length[0]}")
    if agent.trace is not None and hasattr(agent.trace, "check_saved"):
        agent.trace.check_saved(arrays)
    policy = arrays["memory_policy"]
    if agent.state >= 0 and agent.rule.keeps_policy and not ((policy >= 0) & (policy <= 1)).all():
        raise ValueError(f"memory_policy must be probabilities, got {policy}")
    steps = 0 if agent._state.episode is None else arrays["episode_length"][0]
    if steps and steps > arrays["episode_states"].size:
        raise ValueError(f"episode_length must be at most {arrays['episode_states'].size}, got {steps}")
    if agent.state < 0 and (steps or rows.size or length[0] or arrays["memory_previous"][0] >= 0):
        raise ValueError("progress: no episode is under way, but the memory holds one")


def _check_planning(agent: Learner, arrays: Arrays) -> None:
    """What a planner and an error of the models keep."""
    planning, error = agent._state.planning, agent._state.error
    if planning is not None:
        _check_counts(arrays, "world", planning.world.counts.prior)
        if (arrays["world_ends"] > arrays["world_number"]).any():
            raise ValueError("world_ends must be at most world_number")
    for name, own in error._asdict().items() if error is not None else ():
        given = arrays[f"error_{name}"] if isinstance(own, np.ndarray) else own
        counted = name in ("visits", "episodes")  # the rest follows from the settings
        good = (given >= 0).all() if counted else np.array_equal(given, own)
        if name == "seen":
            good = -1 <= given[0] < max(agent.indexer.size, 1)
        if not good:
            raise ValueError(f"error_{name} must be what the model's settings lead to")


def _check_counts(arrays: Arrays, prefix: str, kept: np.ndarray) -> None:
    """Counts that add up, on lists that hold every pair once: what counting alone can have led to."""
    parts = ("origin", "number", "head", "total", "prior", "following")
    origin, number, head, total, prior, following = (arrays[f"{prefix}_{part}"] for part in parts)
    links, heads = following[following >= 0], head[head >= 0]
    good = following.size == 0 or (following < np.arange(following.size)).all()  # to pairs seen before: no circle
    good = good and np.array_equal(origin[links], origin[following >= 0]) and (heads < origin.size).all()
    good = good and np.array_equal(origin[heads], np.flatnonzero(head >= 0))
    if not good or not (np.bincount(np.concatenate([links, heads]), minlength=origin.size) == 1).all():
        raise ValueError(f"{prefix}_head, {prefix}_following must link every pair once, from its own origin")
    if not np.array_equal(np.bincount(origin, number, head.size), total):
        raise ValueError(f"{prefix}_total must be the sums of {prefix}_number")
    outcomes = prior[1:]
    whole = (outcomes >= 0).all() and (outcomes < LARGEST).all() and (outcomes == np.floor(outcomes)).all()
    if prior.shape != kept.shape or prior[0] != kept[0] or not whole:
        raise ValueError(f"{prefix}_prior must be like {kept}, got {prior}")


def check_progress(agent: Learner, progress: Any) -> tuple[int, int, int, float, float]:
    """Episode, state, action, step size and ε, each in its range."""
    if not isinstance(progress, list) or len(progress) != 5:
        raise ValueError(f"progress must be five numbers, got {progress!r}")
    episode, state, action, step_size, epsilon = progress
    check_whole("episode", episode, 0, LARGEST)
    check_whole("state", state, -1, agent.indexer.size - 1)
    check_whole("action", action, -1 if state < 0 else 0, agent.n_actions - 1 if state >= 0 else -1)
    rate = check_unit("epsilon", epsilon) if agent.exploration is None else check_not_negative("rate", epsilon)
    return episode, state, action, check_not_negative("step_size", step_size), rate


def check_percepts(agent: Learner, percepts: Any) -> dict[tuple[Any, ...], int]:
    """Ids of the pairs of reward and state."""
    found: dict[tuple[Any, ...], int] = {}
    for given in percepts:
        *rewards, state = given
        if len(rewards) != agent.n_paid or not all(type(r) in (int, float) and np.isfinite(r) for r in rewards):
            raise ValueError(f"percepts must be {agent.n_paid} rewards and a state each, got {given!r}")
        check_whole("state of a percept", state, 0, agent.indexer.size - 1)
        found[(*rewards, state)] = len(found)
    if len(found) != len(percepts):
        raise ValueError("percepts must differ from each other")
    return found
