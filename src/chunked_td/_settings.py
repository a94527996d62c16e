"""Settings of compiled code: checked numbers, and arrays that change during learning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from chunked_td._link import Layout, tuple_class


@dataclass(frozen=True, repr=False)
class KernelSettings:
    """Base class of λ sources, planners, explorations, reward sources, views and model errors: a frozen dataclass.

    A field with `field(default=…, repr=False)` is shown only if it differs from its default. Stored results identify
    settings by their text, so a new option must not change it.

    Attributes:
      checks: for settings by name, a check such as `chunked_td._checks.check_unit`: called with name and value, it
        returns the value to keep.
      arrays: what is kept from step to step, as a layout by name, e.g. {"mean": "float64[S]"}: S states, A actions, d
        reward components, rows of the table of values (states, or pairs of state and action). The arrays start at zero,
        grow with the tables and are saved with the learner. Numbers that kernels use as indices state their bounds,
        as in "int64[rows] in [0, rows)", which `load` compares.
    """

    checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = {}
    arrays: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for name, check in self.checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def __repr__(self) -> str:
        """Class and settings."""
        shown = [f for f in dataclasses.fields(self) if f.repr or getattr(self, f.name) != f.default]
        return f"{type(self).__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def settings(self) -> dict[str, Any]:
        """The settings by name, as plain values."""
        return dataclasses.asdict(self)

    def check_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError if saved arrays would make kernels index out of bounds.

        `load` has already compared dtypes, shapes and bounds with `arrays`, and checked that all numbers are finite.
        This method is for what bounds cannot express.
        """

    def compiled(self, sizes: Mapping[str, int]) -> Any:
        """Form for kernels: a NamedTuple of the numeric settings and of the arrays, all zero."""
        return form_of(self, {name: new_array(layout, sizes) for name, layout in self.arrays.items()})


def form_of(settings: Any, arrays: Mapping[str, Any]) -> Any:
    """Form for kernels of an object with `settings()`: a NamedTuple of its numeric settings and of these arrays."""
    numbers = {name: _plain(value) for name, value in settings.settings().items() if isinstance(value, Real)}
    return tuple_class(type(settings).__name__, (*numbers, *arrays))(*numbers.values(), *arrays.values())


def _plain(value: Any) -> bool | int | float:
    """A NumPy or Python number as a Python number."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return int(value) if isinstance(value, Integral) else float(value)


def new_array(layout: str, sizes: Mapping[str, int]) -> np.ndarray:
    """Zeros for a layout such as "float64[S, A]"; dimensions are names in `sizes` or numbers."""
    dtype, dims, *_ = Layout.of(layout)
    if not all(dim in sizes or dim.isdigit() for dim in dims):
        raise ValueError(f"arrays must have dimensions that are numbers or one of {', '.join(sizes)}, got {layout!r}")
    return np.zeros([sizes[dim] if dim in sizes else int(dim) for dim in dims], dtype)


def grown_arrays(form: Any, layouts: Mapping[str, str], sizes: Mapping[str, int]) -> Any:
    """The compiled form of settings with its arrays enlarged to `sizes`; their contents stay."""
    larger = {}
    for name, layout in layouts.items():
        old, new = getattr(form, name), new_array(layout, sizes)
        new[tuple(slice(0, n) for n in old.shape)] = old
        larger[name] = new
    return form._replace(**larger) if larger else form
