"""Schema of saved learners: checks of every array before compiled code reads it.

Names, dtypes, shapes and bounds are declared by the tuples of compiled code (`Tables`, `Memory`, the types of traces,
`Counts`, `Episode`) and by `arrays` of λ sources, planners, explorations and models. Only the used part of an array is
saved: states that have an id, live entries, counted pairs, steps so far. Derived arrays, such as hash tables, are
rebuilt. No index in a loaded file is therefore outside of an array.

A dimension that grows with an episode is called `T`, `capacity` or `slots`; all others have the size that a new learner
allocates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from chunked_td._link import Layout, layouts
from chunked_td.lambdas.episode import Episode
from chunked_td.learners.learner import Learner
from chunked_td.learners.state import Memory
from chunked_td.models import KernelModel
from chunked_td.models.counts import NUMBER, ORIGIN, TARGET, BackwardCounts, Counts, ForwardCounts, PartCounts
from chunked_td.models.transitions import TransitionCounts
from chunked_td.traces import Trace

LARGEST = 2**53
"""Largest whole number in a file; float64 represents all up to it exactly."""

_TUPLES = {
    "": "_state.tables",
    "memory_": "_state.memory",
    "trace_entries_": "_state.trace.entries",
    "trace_": "_state.trace",
    "episode_": "_state.episode",
    "counts_": "_state.model.counts",
    "averages_": "_counts",
    "world_counts_": "_state.planning.world.counts",
    "world_": "_state.planning.world",
}
"""The tuples of a learner that are saved, by the prefix of their arrays' names in a file; inner ones first."""

_OPEN = {"T", "capacity", "slots"}
_COUNTERS = {
    Memory: ("T", "length"),
    Episode: ("T", "length"),
    Trace: ("capacity", "count"),
    Counts: ("capacity", "size"),
}
"""A dimension that grows, and the field with its used size."""


class Part(NamedTuple):
    """Arrays of a learner that are saved."""

    path: str  # from the learner to the tuple of the arrays
    layouts: Mapping[str, Layout]  # by the names of its fields
    check: Callable[[Mapping[str, np.ndarray]], None] | None  # of the owner, or None


def parts_of(agent: Learner) -> dict[str, Part]:
    """Return the saved arrays of a learner, by the prefix of their names in a file."""
    found = {}
    for prefix, path in _TUPLES.items():
        value = _at(agent, path)
        kept = {name: layout for name, layout in layouts(type(value)).items() if layout.saved}
        if prefix == "memory_" and not agent.rule.keeps_policy:
            del kept["policy"]  # NaN, and not read
        if kept:
            found[prefix] = Part(path, kept, getattr(value, "check_saved", None))
    owners = {
        "lambda_": ("_state.source", agent.lambda_source),
        "exploration_": ("_state.tables.exploration", agent.exploration),
        "planner_": ("_state.planning.planner", agent.planner),
        "reward_": ("_state.planning.reward_source", agent.reward_source),
        "division_": ("_state.division", agent.reward_source),
        "model_": ("_state.model", agent.model if isinstance(agent.model, KernelModel) else None),
        "error_": ("_state.error", agent.error),
    }
    for prefix, (path, owner) in owners.items():
        if owner is not None and owner.arrays and _at(agent, path) is not None:
            kept = {name: Layout.of(text) for name, text in owner.arrays.items()}
            found[prefix] = Part(path, kept, owner.check_saved)
    return found


def _at(tree: Any, path: str) -> Any:
    """Return the part of a tree at a path, or None."""
    return functools.reduce(lambda here, name: getattr(here, name, None), path.split("."), tree)


def _sizes(agent: Learner, prefix: str, value: Any) -> dict[str, int]:
    """Return dimensions by name: the used size of an axis, and the values of names in bounds."""
    states, A, d = known_states(agent.indexer), agent.n_actions, agent.n_rewards
    sizes = {"S": states, "A": A, "d": d, "k": d, "rows": agent._rows(states), "pairs": states * A, "one": 1}
    if agent.features is not None:
        sizes["features"] = agent.features.count
        if prefix.startswith("trace_"):
            sizes["rows"] = agent.trace.rates.size
    counted = value.counts if isinstance(value, TransitionCounts) else getattr(value, "entries", value)
    if type(counted) in _COUNTERS:
        dim, counter = _COUNTERS[type(counted)]
        sizes[dim] = int(getattr(counted, counter)[0])
    return sizes


def known_states(indexer: Any) -> int:
    """Return the number of states with rows in a file."""
    return max(indexer.size, 1)


def arrays_of(agent: Learner) -> dict[str, np.ndarray]:
    """Return the arrays of a learner by their names in a file."""
    found = {}
    for prefix, part in parts_of(agent).items():
        value = _at(agent, part.path)
        sizes = _sizes(agent, prefix, value)
        for name, layout in part.layouts.items():
            array = getattr(value, name)[tuple(slice(sizes.get(dim)) for dim in layout.dims)]
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                where = f"its {prefix}{name} must be finite, got inf or nan"
                raise ValueError(f"agent: {where}: learning has diverged. Nothing was saved; reduce step_size or λ")
            found[prefix + name] = array
    return found


def take_arrays(agent: Learner, arrays: dict[str, np.ndarray]) -> None:
    """Check the arrays of a file and move them from `arrays` to a new learner.

    Raises:
      ValueError: for an array with the wrong dtype, shape or bounds.
    """
    for prefix, part in parts_of(agent).items():
        value = _at(agent, part.path)
        sizes = _sizes(agent, prefix, value)
        if type(value) in _COUNTERS:
            sizes.pop(_COUNTERS[type(value)][0])  # the used size is read from the file
        given = {}
        for name, layout in part.layouts.items():
            given[name] = arrays.pop(prefix + name)
            _check_shape(prefix + name, given[name], getattr(value, name).shape, layout, sizes)
            _check_bounds(prefix + name, given[name], layout, sizes)
        if part.check is not None:
            part.check(given)
        new = {name: _with_room(getattr(value, name), array) for name, array in given.items()}
        _put(agent, part.path, _completed(agent, prefix, value._replace(**new), sizes))


def _check_shape(name: str, array: np.ndarray, fresh: tuple[int, ...], layout: Layout, sizes: dict[str, int]) -> None:
    """Check dtype and shape. Dimensions without a size yet get that of a new learner, growing ones that of the file."""
    for axis, dim in enumerate(layout.dims):
        sizes.setdefault(dim, array.shape[axis] if dim in _OPEN and axis < array.ndim else fresh[axis])
    wanted = [sizes[dim] if dim in _OPEN else min(sizes[dim], n) for dim, n in zip(layout.dims, fresh, strict=True)]
    if array.dtype != layout.dtype or list(array.shape) != wanted:
        shown = f"{layout.dtype}[{', '.join(map(str, wanted))}]"
        raise ValueError(f"{name} must be {shown}, got {array.dtype}{list(array.shape)}")


def _check_bounds(name: str, array: np.ndarray, layout: Layout, sizes: Mapping[str, int]) -> None:
    """Check the bounds of the layout; by default, integers must be exact in float64."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got inf or nan")
    least, most = (_number(word, sizes) for word in (layout.least, layout.most))
    if array.dtype.kind in "iu":
        least, most = max(least, -LARGEST), min(most, LARGEST)
    if array.size and not (array.min() >= least and (array.max() < most or (layout.closed and array.max() == most))):
        shown = f"[{least}, {most}{']' if layout.closed else ')'}"
        raise ValueError(f"{name} must lie in {shown}, got {array.min()} to {array.max()}")


def _number(word: str, sizes: Mapping[str, int]) -> float:
    """Return a bound as a number: the size of a dimension, or a literal."""
    if word in sizes:
        return sizes[word]
    return int(word) if word.lstrip("-").isdigit() else float(word)


def _with_room(fresh: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Copy an array of a file to the beginning of a new learner's array, enlarged if necessary."""
    shape = tuple(map(max, fresh.shape, given.shape))
    array = fresh if shape == fresh.shape else np.zeros(shape, fresh.dtype)
    array[tuple(map(slice, given.shape))] = given
    return array


def _completed(agent: Learner, prefix: str, value: Any, sizes: Mapping[str, int]) -> Any:
    """Return a tuple with the arrays of a file and the arrays derived from them."""
    if isinstance(value, Memory | Episode):
        value.length[0] = sizes["T"]
    if isinstance(value, Trace):
        rows = value.rows[: sizes["capacity"]]
        value.slot[rows] = np.arange(rows.size)
        value.count[0] = rows.size
        if np.unique(rows).size != rows.size:
            raise ValueError(f"{prefix}rows must name each row at most once")
    if isinstance(value, Counts):
        return _counts(agent, prefix, value, sizes["capacity"])
    if isinstance(value, TransitionCounts):
        if (value.ends[: sizes["capacity"]] > value.counts.pairs[: sizes["capacity"], NUMBER]).any():
            raise ValueError(f"{prefix}ends must be at most the numbers of {prefix}counts_pairs")
        return TransitionCounts.restored(value.counts, value.rewards, value.ends, agent._capacity)
    return value


def _counts(agent: Learner, prefix: str, counts: Counts, size: int) -> Counts:
    """Check the pairs of a file, which must be possible and unique; return counts with them."""
    pairs, kind = counts.pairs[:size], type(agent._state.model)
    least, most = (-1 if prefix == "averages_" else 0), known_states(agent.indexer)  # −1 is the end of an episode
    if prefix == "counts_":
        seen = len(agent.percepts) if agent.percept == "reward-state" else most
        most = {ForwardCounts: seen, BackwardCounts: most * agent.n_actions, PartCounts: LARGEST}[kind]
    bounds = {
        "origins": (ORIGIN, 0, counts.head.size),
        "targets": (TARGET, least, most),
        "numbers": (NUMBER, 1, LARGEST),
    }
    for column, (place, low, high) in bounds.items():
        found = pairs[:, place]
        if size and not low <= found.min() <= found.max() < high:
            raise ValueError(f"{prefix}pairs must have {column} in [{low}, {high}), got {found.min()} to {found.max()}")
    counts.size[0] = size
    made = counts.grown(counts.head.size, max(2 * size, counts.pairs.shape[0]))
    if np.count_nonzero(made.table) != size:
        raise ValueError(f"{prefix}pairs must have each pair of origin and target once, got duplicates")
    return made


def _put(tree: Any, path: str, value: Any) -> Any:
    """Replace a tuple in a tree of tuples, whose root is the learner."""
    name, _, rest = path.partition(".")
    new = _put(getattr(tree, name), rest, value) if rest else value
    if isinstance(tree, Learner):
        setattr(tree, name, new)
        return tree
    return tree._replace(**{name: new})
