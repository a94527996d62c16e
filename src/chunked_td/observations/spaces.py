"""Indexer of a Gymnasium space.

Observations of finite spaces get ids by arithmetic: their components are the digits of the id, row-major (the last
component is the fastest, as in `np.ravel_multi_index`). Other observations get the next free id on first sight, and
tables grow. Real-valued observations require bins: `Discretise`.

Spaces are recognised by their class names, so this module does not import Gymnasium.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chunked_td.observations.codebook import Codebook
from chunked_td.observations.discretise import Discretise
from chunked_td.observations.indexers import (
    LIMIT,
    DiscreteIndexer,
    GridIndexer,
    HashedIndexer,
    Indexer,
    ProductIndexer,
)

KINDS: dict[str, Callable[[Mapping[str, Any]], Indexer]] = {}
"""{kind: function} that rebuilds the indexers of other packages from their `state()`."""


def make_indexer(space: Any = None, *, limit: int = LIMIT) -> Indexer:
    """Return an indexer for the observations of a space.

    Args:
      space: a Gymnasium space, or None if it is unknown.
      limit: largest number of states to index by arithmetic; larger spaces get ids on first sight.

    Raises:
      ValueError: for a continuous Box, anywhere in the space.
    """
    found = _arithmetic(space, "observation_space")
    return found if found is not None and found.size <= limit else HashedIndexer()


def _kind(space: Any) -> str:
    names = {base.__name__ for base in type(space).__mro__}
    for name in ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Tuple", "Dict"):
        if name in names:
            return name
    return ""


def _arithmetic(space: Any, path: str) -> Indexer | None:
    """Indexer of a finite space, or None for other spaces; a ValueError for a continuous Box."""
    kind = _kind(space)
    if kind == "Discrete":
        return DiscreteIndexer(space.n, getattr(space, "start", 0))
    if kind in ("Tuple", "Dict"):
        children = dict(space.spaces) if kind == "Dict" else dict(enumerate(space.spaces))
        parts = [_arithmetic(child, f"{path}[{key!r}]") for key, child in children.items()]
        known = [part for part in parts if part is not None]
        return ProductIndexer(known, list(children) if kind == "Dict" else None) if len(known) == len(parts) else None
    if kind == "Box" and np.dtype(space.dtype).kind not in "iub":
        raise ValueError(
            f"{path}: a Box of real numbers, shape {space.shape}, has no finite table of states. Use one of\n"
            f"  bins: indexer=chunked_td.Discretise(env, bins=8, low=…, high=…), or --bins 8 --low … --high …\n"
            f"  tile coding: indexer=chunked_td.TileCoding(env, low=…, high=…), or --indexer tiles --low … --high …\n"
            f"  an id per array, if few different ones occur: indexer=chunked_td.make_indexer(), or --indexer hash\n"
            f"  a network: PPO of Stable-Baselines3 with chunked_td.integrations.sb3.LambdaRolloutBuffer"
        )
    if not kind:
        return None
    grid = _grid(space)
    return GridIndexer([n for n, _ in grid], [low for _, low in grid], space.shape, np.dtype(space.dtype).name)


def _grid(space: Any) -> list[tuple[int, int]]:
    """(number of values, least value) of every entry of an array space."""
    kind = _kind(space)
    if kind == "MultiBinary":
        return [(2, 0)] * math.prod(space.shape)
    if kind == "MultiDiscrete":
        nvec = np.asarray(space.nvec)
        start = np.broadcast_to(getattr(space, "start", 0), nvec.shape)
        return list(zip(nvec.ravel().tolist(), start.ravel().tolist(), strict=True))
    lows, highs = np.ravel(space.low).tolist(), np.ravel(space.high).tolist()
    return [(int(high) - int(low) + 1, int(low)) for low, high in zip(lows, highs, strict=True)]


def indexer_from_state(state: Mapping[str, Any]) -> Indexer:
    """Rebuild an indexer from its `state()`.

    Args:
      state: JSON values and NumPy arrays.

    Raises:
      ValueError: if `state` is not what an indexer wrote.
    """
    try:
        kind = state["kind"]
        if kind == "discrete":
            return DiscreteIndexer(_whole(state["n"]), _whole(state["start"]))
        if kind == "grid":
            nvec, low, shape = ([_whole(n) for n in state[name]] for name in ("nvec", "low", "shape"))
            return GridIndexer(nvec, low, shape, state["dtype"])
        if kind == "product":
            parts = [indexer_from_state(part) for part in state["parts"]]
            if not all(part.fixed and part.nvec is not None for part in parts):
                raise ValueError("state: the parts of a product must be fixed indexers with components")
            return ProductIndexer(parts, state["keys"])
        if kind == "hashed":
            return HashedIndexer.from_state(state)
        if kind == "discretise":
            return Discretise.from_state(state)
        if kind == "codebook":
            return Codebook.from_state(state)
        if kind in KINDS:
            return KINDS[kind](state)
    except (KeyError, TypeError) as problem:
        raise ValueError(f"state: not the state of an indexer ({problem!r})") from problem
    raise ValueError(f"state: got an indexer of kind {kind!r}, which this version does not have")


def _whole(value: Any) -> int:
    """Check a whole number of 64 bits."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"state: numbers of an indexer must be whole numbers of 64 bits, got {value!r}")
    return value
