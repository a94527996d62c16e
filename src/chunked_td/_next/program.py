"""From the parts of a learner to its linked entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba.core.types as nb

from chunked_td._next.arrays import read_plain, reader
from chunked_td._next.link import COMPILED, link
from chunked_td._next.pcg import Pcg64, PlainPcg64


def parts_of(state: Any, source: Any, choices: Any, dynamics: Any = None) -> dict[str, Any]:
    """By role, what has the kernels of a learner.

    Args:
      state: AgentState. source: a λ source, or None for one that is plain Python. choices: has the settings of a
        `Learner` as attributes. dynamics: the class of the simulation's dynamics.
    """
    planning = state.planning
    return {
        "source": type(source),
        "model": type(state.model),
        "view": type(state.trace) if state.trace is not None else None,
        "features": type(choices.features.compiled()) if choices.features is not None else None,
        "exploration": type(choices.exploration) if choices.exploration is not None else None,
        "planner": type(choices.planner) if planning is not None else None,
        "reward_source": type(choices.reward_source) if planning is not None and planning.reward_source else None,
        "division": type(choices.reward_source) if state.division is not None else None,
        "error": type(choices.error) if state.error is not None else None,
        "dynamics": dynamics,
    }


class Program:
    """The entries for one combination of parts and types, each linked when it is first asked for.

    Args:
      tree: the arrays. parts: by role. sizes: lengths of axes that the compiler is to know in loops that stay in it.
      scopes, compiled: as in `link`.
    """

    def __init__(
        self, tree: Any, parts: Mapping[str, Any], sizes: Mapping[str, int] | None = None, *,
        scopes: Mapping[str, Any] | None = None, compiled: bool = True,
    ) -> None:  # fmt: skip
        self.compiled = compiled and COMPILED
        self.scopes = dict(scopes or {})
        if self.compiled:
            text, read = reader(tree)
            self.form, self.names = text, {"arrays.read": read}
            if sizes is not None:
                local, read_local = reader(tree, sizes, local=True)
                self.form += local
                self.names["arrays.read_local"] = read_local
        else:
            self.form, self.names = "", {"arrays.read": read_plain, "arrays.read_local": read_plain}
            self.scopes = {role: {"rng": PlainPcg64} for role in self.scopes}
        self.parts = {**parts, "rng": Pcg64 if self.compiled else PlainPcg64}
        self._entries: dict[Any, Any] = {}

    def __call__(self, entry: Any, arguments: int) -> Any:
        """An entry that takes an address and so many whole numbers."""
        if entry not in self._entries:
            signature = (nb.int64,) * (arguments + 1)
            self._entries[entry] = link(
                entry, self.parts, signature, names=self.names, form=self.form, scopes=self.scopes,
                compiled=self.compiled,
            )  # fmt: skip
        return self._entries[entry]
