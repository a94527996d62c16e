"""Options that every kernel is compiled with."""

from __future__ import annotations

import contextlib
from typing import Any

import numba

from chunked_td._numba.caching import BOUNDSCHECK

OPTIONS: Any = {"nogil": True, "error_model": "numpy", "forceinline": True, "boundscheck": BOUNDSCHECK}
"""No interpreter lock, division as NumPy does it, all inlined; no reference counting where Numba has a switch."""

_SWITCH: Any = {"_nrt": False}  # a name that Numba does not promise to keep
with contextlib.suppress(Exception):
    numba.njit(**_SWITCH)(lambda: None)
    OPTIONS |= _SWITCH
