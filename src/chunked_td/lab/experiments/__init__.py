"""Experiments: one folder each, found by listing this one; and the loader for folders and files of your own.

A folder holds

    protocol.py   PROTOCOL, and ORDER, a number: its place in lists and reports
    claims.py     CLAIMS: claims with criteria, see `chunked_td.lab.results.claims`         (optional)
    report.py     FIGURES: choice of figures, see `chunked_td.lab.report.choice`;
                  PUBLISHED: what was published about it, a text for the report;
                  HEADLINE: a function from its study and that of its original (or None) to
                  the sentence that opens the report, "" for none                           (optional)

and whatever else those files import. A single Python file may define the same names. Only the protocol is imported to
plan and run; the rest is imported when a report or a list of claims needs it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import re
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunked_td._checks import did_you_mean
from chunked_td.lab.errors import UsageError
from chunked_td.lab.protocol import Protocol

if TYPE_CHECKING:
    from chunked_td.lab.report.choice import FigureChoice
    from chunked_td.lab.results.claims import Claim
    from chunked_td.lab.results.studies import Study

USER_MODULES = "chunked_td_experiment_"
"""How the names of modules loaded from users' paths begin."""


@dataclass(frozen=True)
class Experiment:
    """A protocol, and what its folder or file says about reporting it.

    Args:
      protocol: what is run.
      module: name of the loaded module or package that it comes from; "" if there is none.
      order: place in lists and reports.
    """

    protocol: Protocol
    module: str = ""
    order: float = float("inf")

    @property
    def id(self) -> str:
        """The protocol's id."""
        return self.protocol.id

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Its claims."""
        return tuple(self._part("claims", "CLAIMS") or ())

    @cached_property
    def figures(self) -> FigureChoice:
        """Its choice of figures; by default the score against the step size, and runs seed by seed."""
        from chunked_td.lab.report.choice import DEFAULT

        return self._part("report", "FIGURES") or DEFAULT

    @cached_property
    def published(self) -> str:
        """What was published about it."""
        return self._part("report", "PUBLISHED") or ""

    @cached_property
    def headline(self) -> Callable[[Study, Study | None], str] | None:
        """What the report should open with, if it has that to say."""
        return self._part("report", "HEADLINE")

    def _part(self, file: str, name: str) -> Any:
        """A name of the module, or of a file of the package; None if there is none."""
        module = sys.modules.get(self.module)
        if module is None or hasattr(module, name) or not hasattr(module, "__path__"):
            return getattr(module, name, None)
        if importlib.util.find_spec(f"{self.module}.{file}") is None:
            return None
        return getattr(importlib.import_module(f"{self.module}.{file}"), name, None)


@cache
def catalogue() -> dict[str, Experiment]:
    """{id: experiment}: the folders beside this file, in the order that they state."""
    found = []
    for entry in pkgutil.iter_modules(__path__):
        if entry.ispkg:
            found.append(_from_package(importlib.import_module(f"{__name__}.{entry.name}")))
    return {experiment.id: experiment for experiment in sorted(found, key=lambda e: (e.order, e.id))}


def load(name: str) -> tuple[Experiment, ...]:
    """The experiments called `name`: an id of the catalogue, a path ending in .py, or a folder with a protocol.py."""
    path = Path(name)
    if name.endswith(".py"):
        return load_file(path)  # before the catalogue, which needs what all its experiments need
    if name in catalogue():
        return (catalogue()[name],)
    if (path / "protocol.py").is_file():
        return (load_folder(path),)
    listed = ", ".join(catalogue())
    hint = did_you_mean(name, catalogue()) or ";"
    raise UsageError(f"no experiment {name!r}{hint} accepted are {listed}, a .py file or a folder with a protocol.py")


def load_all(names: Sequence[str] = ()) -> tuple[Experiment, ...]:
    """The experiments of several names; all of the catalogue if there are none."""
    experiments = [experiment for name in (names or list(catalogue())) for experiment in load(name)]
    ids = [experiment.id for experiment in experiments]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise UsageError(f"experiments are named twice: {', '.join(twice)}")
    return tuple(experiments)


def load_protocols(names: Sequence[str] = ()) -> tuple[Protocol, ...]:
    """The protocols of several names; all of the catalogue if there are none."""
    return tuple(experiment.protocol for experiment in load_all(names))


def known(names: Sequence[str] = ()) -> dict[str, Experiment]:
    """{id: experiment}: the catalogue, and experiments from users' paths after it."""
    return {**catalogue(), **{experiment.id: experiment for name in names for experiment in load(name)}}


def load_folder(path: Path) -> Experiment:
    """The experiment of a folder outside the package."""
    name = _user_module(path)
    for old in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        del sys.modules[old]
    module = types.ModuleType(name, f"The experiment in {path}.")
    module.__path__ = [str(path.resolve())]
    sys.modules[name] = module
    return _guarded(path, lambda: _from_package(module))


def load_file(path: Path) -> tuple[Experiment, ...]:
    """The experiments of a Python file: its `PROTOCOL`, or all of its `PROTOCOLS`."""
    if not path.is_file():
        raise UsageError(f"no experiment file {path}")
    name = _user_module(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up there
    _guarded(path, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    several = getattr(module, "PROTOCOLS", None)
    if several is not None and any(hasattr(module, part) for part in ("CLAIMS", "FIGURES", "PUBLISHED")):
        raise UsageError(f"{path}: CLAIMS, FIGURES and PUBLISHED go with one PROTOCOL, not with a list PROTOCOLS")
    protocols = several or getattr(module, "PROTOCOL", None)
    listed = list(protocols) if isinstance(protocols, (list, tuple)) else [protocols]
    found = [Experiment(protocol, name) for protocol in listed if isinstance(protocol, Protocol)]
    if not found or len(found) < len(listed):
        raise UsageError(f"{path} must define PROTOCOL (a chunked_td.lab.protocol.Protocol) or a list PROTOCOLS")
    return tuple(found)


def _from_package(package: types.ModuleType) -> Experiment:
    module = importlib.import_module(f"{package.__name__}.protocol")
    protocol = getattr(module, "PROTOCOL", None)
    if not isinstance(protocol, Protocol):
        raise UsageError(f"{module.__file__} must define PROTOCOL (a chunked_td.lab.protocol.Protocol)")
    return Experiment(protocol, package.__name__, getattr(module, "ORDER", float("inf")))


def _user_module(path: Path) -> str:
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    return f"{USER_MODULES}{re.sub(r'[^A-Za-z0-9]', '_', path.resolve().stem)}_{digest}"


def _guarded(path: Path, work: Any) -> Any:
    """Call `work()`; an error in a user's code becomes a UsageError."""
    try:
        return work()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} could not be loaded: {type(error).__name__}: {error}") from error
