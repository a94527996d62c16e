"""Numbers that the compiler knows by their type, and functions chosen by the type of an argument.

A branch on `code(static(k))` costs nothing: the kernel is compiled for that number.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.extending import lower_builtin, register_model, type_callable

from chunked_td._numba.caching import BOUNDSCHECK
from chunked_td._numba.compiler import OURS, is_kernel, kernel

_CODES = tuple(namedtuple(f"_Code{number}", "value") for number in range(16))
globals().update({cls.__name__: cls for cls in _CODES})  # where the cache on disk looks for them


def static(value: int) -> Any:
    """A small number that compiled code knows by its type."""
    return _CODES[value](int(value))


def static_if_small(value: int) -> Any:
    """`static(value)` where there is a type for it, otherwise the number itself."""
    return static(value) if 0 <= value < len(_CODES) else int(value)


def static_number(kind: Any) -> int | None:
    """The number that a Numba type stands for, if it is that of a `static` one."""
    return _CODES.index(kind.instance_class) if isinstance(kind, types.BaseTuple) else None  # type: ignore[attr-defined]


def code(value: Any) -> Any:
    """The number behind a plain int or a `static` one."""
    return value[0] if isinstance(value, tuple) else value


@type_callable(code)
def _type_of_code(context):
    return lambda value: value if static_number(value) is None else types.int64


@lower_builtin(code, types.Any)
def _make_code(context, builder, signature, arguments):
    number = static_number(signature.args[0])
    return arguments[0] if number is None else context.get_constant(types.int64, number)


def natural(number: Any) -> Any:
    """`number`, which is not negative: compiled code does not ask whether it is an index that counts from the end."""
    return number


@type_callable(natural)
def _type_of_natural(context):
    return lambda number: number


@lower_builtin(natural, types.Any)
def _make_natural(context, builder, signature, arguments):
    if not BOUNDSCHECK:
        builder.assume(builder.icmp_signed(">=", arguments[0], arguments[0].type(0)))
    return arguments[0]


REQUIRED: Any = object()
"""The default of `dispatch` where there is none."""


@functools.lru_cache(maxsize=None, typed=True)
def _constant(value: Any, arguments: int) -> Any:
    """A kernel of so many arguments that returns a number, or None."""
    space: dict[str, Any] = {"__name__": __name__, "value": value}
    exec(f"def constant({', '.join(f'_{k}' for k in range(arguments))}): return value", space)
    return kernel(space["constant"])


class Dispatch:
    """A function that calls the static kernel of its first argument's class; see `dispatch`."""

    def __init__(self, name: str, default: Any, missing: str, of: str, number: bool) -> None:
        self.name, self.default, self.of, self.number = name, default, of, number
        self.missing = missing or f"no kernel {name!r}"

    def __call__(self, *arguments: Any) -> Any:
        item = getattr(arguments[0], self.of) if self.of else arguments[0]
        target = getattr(type(item), self.name, None) or self.default
        if target is REQUIRED:
            raise ValueError(self.missing)
        return target(*arguments) if callable(target) else target

    def chosen(self, arguments: Any) -> Any:
        """Numba's type of the kernel for arguments of these types."""
        kind = arguments[0]
        if self.of:
            kind = kind.types[kind.fields.index(self.of)]
        target = getattr(getattr(kind, "instance_class", None), self.name, None) or self.default
        if target is REQUIRED or (callable(target) and not is_kernel(target)):
            raise TypingError(f"{OURS[0]}{self.missing}{OURS[1]} for a first argument of type {kind}")
        made: Any = target if callable(target) else _constant(target, len(arguments))
        return made._numba_type_

    @property
    def _numba_type_(self) -> DispatchType:
        return DispatchType(self)


class DispatchType(types.Callable, types.Opaque):
    """Numba's type of a `Dispatch`: calls are resolved to the chosen kernel, without a function in between."""

    def __init__(self, function: Dispatch) -> None:
        self.function = function
        super().__init__(name=f"dispatch({function.name}, {id(function)})")

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature of the chosen kernel."""
        found = self.function.chosen(args).get_call_type(context, args, kws)
        kind = types.unliteral(found.return_type)
        if self.function.number and not isinstance(kind, types.Number | types.Boolean):
            raise TypingError(f"{OURS[0]}{self.function.name} must return a number, got {kind}{OURS[1]}")
        return found

    def get_call_signatures(self) -> Any:
        """None that are known beforehand."""
        return (), True

    def get_impl_key(self, sig: Any) -> Any:
        """Where the compiled code of the chosen kernel is found."""
        return self.function.chosen(sig.args).get_impl_key(sig)


register_model(DispatchType)(models.OpaqueModel)


@lower_constant(DispatchType)
def _constant_dispatch(context, builder, kind, value):
    return context.get_dummy_value()


def dispatch(
    name: str, default: Any = REQUIRED, missing: str = "", of: str = "", number: bool = False
) -> Callable[..., Any]:
    """A function that calls the static kernel `name` of its first argument's class, compiled or not.

    Args:
      name: of the kernel.
      default: the kernel for classes without one of this name, and for None; or the number, truth value or None that
        such a kernel would return. Without a default, they are an error.
      missing: the text of that error.
      of: the field of the first argument whose class has the kernel, instead of the argument itself.
      number: refuse a kernel that returns anything else.
    """
    return Dispatch(name, default, missing, of, number)
