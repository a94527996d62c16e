"""The catalogue of studies: one folder each in `chunked_td.lab.studies`; and the loader for your own folders and files.

A folder holds

    protocol.py   PROTOCOL, and ORDER, a number: its place in lists and reports;
                  or STUDY, a `chunked_td.lab.study.Study` of many protocols
    claims.py     CLAIMS: claims with criteria, see `chunked_td.lab.study`                  (optional)
    report.py     FIGURES: choice of figures, see `chunked_td.lab.report.choice`;
                  PUBLISHED: what was published about it, a text for the report;
                  HEADLINE: a function from its results and those of its original (or None) to
                  the sentence that opens the report, "" for none;
                  PAGE: for a study with a table, a function from its folder and what LOAD gave
                  that writes its page, tables and figures there;
                  SUMMARY: what the report says beside the link to that page                (optional)
    results.py    for a study with a table: COLLECT, from the store of its runs to that table;
                  LOAD, from its folder to what claims and pages read

and whatever else those files import. What report.py and results.py define may stand in claims.py as well, where that is
not long. A single Python file may define the same names. Only the protocol is imported to plan and run; the rest is
imported when a report or a list of claims needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import types
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from chunked_td._checks import did_you_mean
from chunked_td._loading import load_file as load_module
from chunked_td._loading import module_name
from chunked_td.lab.errors import UsageError
from chunked_td.lab.study import Protocol, Study

STUDIES = "chunked_td.lab.studies"


@cache
def catalogue() -> dict[str, Study]:
    """{id: study}: the folders of `STUDIES`, in the order that they state."""
    entries = pkgutil.iter_modules(importlib.import_module(STUDIES).__path__)
    packages = [importlib.import_module(f"{STUDIES}.{entry.name}") for entry in entries if entry.ispkg]
    found = sorted((_from_package(package) for package in packages), key=lambda study: (study.order, study.id))
    return {study.id: study for study in found}


def load(name: str) -> tuple[Study, ...]:
    """The studies called `name`: an id of the catalogue, a path ending in .py, or a folder with a protocol.py."""
    path = Path(name)
    if name.endswith(".py"):
        return load_file(path)  # before the catalogue, which needs what all its studies need
    if name in catalogue():
        return (catalogue()[name],)
    if (path / "protocol.py").is_file():
        return (load_folder(path),)
    listed = ", ".join(catalogue())
    hint = did_you_mean(name, catalogue()) or ";"
    raise UsageError(f"no study {name!r}{hint} accepted are {listed}, a .py file or a folder with a protocol.py")


def load_all(names: Sequence[str] = ()) -> tuple[Study, ...]:
    """The studies of several names; if there are none, those of the catalogue that run by default."""
    if not names:
        return tuple(study for study in catalogue().values() if study.by_default)
    studies = [study for name in names for study in load(name)]
    ids = [study.id for study in studies]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise UsageError(f"studies are named twice: {', '.join(twice)}")
    return tuple(studies)


def load_protocols(names: Sequence[str] = (), profile: str = "paper") -> tuple[Protocol, ...]:
    """The protocols of several studies; without names, of the catalogue's studies that have no table of their own."""
    studies = load_all(names) if names else [study for study in load_all() if not study.table]
    return tuple(protocol for study in studies for protocol in study.protocols(profile))


def known(names: Sequence[str] = ()) -> dict[str, Study]:
    """{id: study}: the catalogue, and studies from users' paths after it."""
    return {**catalogue(), **{study.id: study for name in names for study in load(name)}}


def load_folder(path: Path) -> Study:
    """The study of a folder outside the package."""
    name = module_name(path)
    for old in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        del sys.modules[old]
    module = types.ModuleType(name, f"The study in {path}.")
    module.__path__ = [str(path.resolve())]
    sys.modules[name] = module
    try:
        return _from_package(module)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} could not be loaded: {type(error).__name__}: {error}") from error


def load_file(path: Path) -> tuple[Study, ...]:
    """The studies of a Python file: its `PROTOCOL`, all of its `PROTOCOLS`, or its `STUDY`."""
    if not path.is_file():
        raise UsageError(f"no study file {path}")
    try:
        module = load_module(path, "a study")
    except ValueError as error:
        raise UsageError(str(error)) from error
    several = getattr(module, "PROTOCOLS", None)
    if several is None:
        return (_from_module(module, module.__name__),)
    if any(hasattr(module, part) for part in ("CLAIMS", "FIGURES", "PUBLISHED")):
        raise UsageError(f"{path}: CLAIMS, FIGURES and PUBLISHED go with one PROTOCOL, not with a list PROTOCOLS")
    if not isinstance(several, (list, tuple)) or not all(isinstance(protocol, Protocol) for protocol in several):
        raise UsageError(f"PROTOCOLS of {path} must be a list of chunked_td.lab.study.Protocol, got {several!r}")
    return tuple(Study.of(protocol, module.__name__) for protocol in several)


def _from_package(package: types.ModuleType) -> Study:
    return _from_module(importlib.import_module(f"{package.__name__}.protocol"), package.__name__)


def _from_module(module: types.ModuleType, name: str) -> Study:
    study, protocol = getattr(module, "STUDY", None), getattr(module, "PROTOCOL", None)
    if isinstance(study, Study):
        return replace(study, module=name)
    if isinstance(protocol, Protocol):
        return Study.of(protocol, name, getattr(module, "ORDER", float("inf")))
    raise UsageError(
        f"{module.__file__} must define PROTOCOL (a chunked_td.lab.study.Protocol), a list PROTOCOLS of them, or STUDY"
    )
