"""Linked entries of a learner, from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba.core.types as nb

from chunked_td._link.link import COMPILED, link
from chunked_td._link.pcg import Pcg64, PlainPcg64
from chunked_td._link.trees import local_reader, read_plain, reader


class Program:
    """Entries for one combination of parts and types, each linked on first use.

    Args:
      tree: the arrays. parts: by role. sizes: lengths of axes that are constants in compiled loops.
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
                local, read_local = local_reader(tree, sizes)
                self.form += local
                self.names["arrays.read_local"] = read_local
        else:
            self.form, self.names = "", {"arrays.read": read_plain, "arrays.read_local": read_plain}
            self.scopes = {role: {**scope, "rng": PlainPcg64} for role, scope in self.scopes.items()}
        self.parts = dict(parts)
        self._bound = {**parts, "rng": Pcg64 if self.compiled else PlainPcg64}
        self._entries: dict[Any, Any] = {}

    def __call__(self, entry: Any, arguments: int) -> Any:
        """Return an entry that takes an address and `arguments` integers."""
        if entry not in self._entries:
            signature = (nb.int64,) * (arguments + 1)
            self._entries[entry] = link(
                entry, self._bound, signature, names=self.names, form=self.form, scopes=self.scopes,
                compiled=self.compiled,
            )  # fmt: skip
        return self._entries[entry]
