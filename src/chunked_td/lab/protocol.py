"""Deprecated name of `chunked_td.lab.study`."""

from __future__ import annotations

import warnings
from typing import Any

from chunked_td.lab import study


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    warnings.warn("chunked_td.lab.protocol is now chunked_td.lab.study", DeprecationWarning, stacklevel=2)
    return getattr(study, name)
