"""The experiments: the paper's three, their controls, and the loader for protocols in files of your own."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path

from chunked_td.lab.errors import UsageError
from chunked_td.lab.protocols import Protocol

# id -> (module, name in it); in the order a report shows them.
CATALOGUE = {
    "chain-and-split": ("chain_and_split", "CHAIN_AND_SPLIT"),
    "accumulated-charge": ("accumulated_charge", "ACCUMULATED_CHARGE"),
    "accumulated-charge-mirrored": ("accumulated_charge", "ACCUMULATED_CHARGE_MIRRORED"),
    "key-to-door": ("key_to_door", "KEY_TO_DOOR"),
    "skewed-split": ("skewed_split", "SKEWED_SPLIT"),
}


def load(name: str) -> tuple[Protocol, ...]:
    """The protocols called `name`: an id of the catalogue, or a path ending in .py."""
    if name.endswith(".py"):
        return load_file(Path(name))
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name, CATALOGUE, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UsageError(f"no experiment {name!r}{hint} There are {', '.join(CATALOGUE)}, or a path ending in .py")
    module, attribute = CATALOGUE[name]
    return (getattr(importlib.import_module(f"{__name__}.{module}"), attribute),)


def load_file(path: Path) -> tuple[Protocol, ...]:
    """The protocols of a Python file: its `PROTOCOL`, or all of its `PROTOCOLS`."""
    if not path.is_file():
        raise UsageError(f"no experiment file {path}")
    name = f"chunked_td_protocol_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up there
    try:
        spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} could not be loaded: {type(error).__name__}: {error}") from error
    found = getattr(module, "PROTOCOLS", None) or getattr(module, "PROTOCOL", None)
    protocols = tuple(found) if isinstance(found, (list, tuple)) else (found,)
    good = tuple(protocol for protocol in protocols if isinstance(protocol, Protocol))
    if not good or len(good) < len(protocols):
        raise UsageError(f"{path} must define PROTOCOL (a chunked_td.lab.protocols.Protocol) or a list PROTOCOLS")
    return good


def load_all(names: tuple[str, ...] | list[str]) -> tuple[Protocol, ...]:
    """The protocols of several names; all of the catalogue if there are none."""
    protocols = [protocol for name in (names or list(CATALOGUE)) for protocol in load(name)]
    ids = [protocol.id for protocol in protocols]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise UsageError(f"experiments are named twice: {', '.join(twice)}")
    return tuple(protocols)
