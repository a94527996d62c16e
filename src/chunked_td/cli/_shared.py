"""Shared by the commands: style of their help, checks of counts and folders, settings from text."""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, dataclass_transform, get_args, get_origin, get_type_hints

import tyro

if TYPE_CHECKING:
    from chunked_td.learners.schedule import Schedule


_METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH", bool: None}


@dataclass_transform(frozen_default=True)
def command(kind: type) -> Any:
    """A frozen dataclass as a command: its own options come before inherited ones, and help has the house style.

    Metavars are short. Each default is shown once: for None, False and empty ones it is in the option's text. The
    `tyro.conf.arg` of a field's annotation is kept.
    """
    own = set(kind.__annotations__)
    made: Any = dataclasses.dataclass(frozen=True)(kind)
    made.__dataclass_fields__ = dict(sorted(made.__dataclass_fields__.items(), key=lambda item: item[0] not in own))
    hints = get_type_hints(made, include_extras=True)
    made.__annotations__ = {field.name: _styled(hints[field.name], field.default) for field in dataclasses.fields(made)}
    return made


def _styled(hint: Any, default: Any) -> Any:
    """A type with its metavar and its default in the help."""
    plain, many = _without_none(get_args(hint)[0] if hasattr(hint, "__metadata__") else hint)
    if get_origin(plain) is Literal:
        metavar = "{" + ",".join(get_args(plain)) + "}"
    elif plain is bool and default is None:
        metavar = "{True,False}"
    else:
        metavar = _METAVARS.get(plain)
    style = tyro.conf.arg(metavar=f"{metavar} ..." if many and metavar else metavar, help_behavior_hint=_shown_default)
    given = getattr(hint, "__metadata__", ())
    off = (tyro.conf.FlagCreatePairsOff,) if default is False else ()
    return Annotated[(get_args(hint)[0] if given else hint, style, *off, *given)]  # type: ignore[return-value]


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The type of one value, and whether the option takes several."""
    kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
    if types.NoneType in get_args(hint):
        return _without_none(kinds[0])
    return (_without_none(kinds[0])[0], True) if get_origin(hint) is tuple else (hint, False)


def _shown_default(text: str) -> str:
    return "" if text in ("None", "False", "") else f"(default: {text})"


def flag(name: str) -> str:
    """The option name of a field."""
    return "--" + name.rstrip("_").replace("_", "-")


def check_counts(options: Any, *names: str) -> None:
    """Raise ValueError for counts below 1; None is no count."""
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{flag(name)} must be a whole number from 1, got {value}")


def check_folder(out: Path) -> None:
    """Raise ValueError for a path that is no folder, before anything is begun."""
    if (out.exists() or out.is_symlink()) and not out.is_dir():
        raise ValueError(f"--out must be a folder, got {out}, a file; name another one")


def show(page: Path) -> None:
    """Open a page in a browser."""
    import webbrowser

    webbrowser.open(page.resolve().as_uri())


def keywords_of(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments from texts like `is_slippery=False`; values are Python literals, or plain text."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--{name} must be key=value each, got {text!r}")
        try:
            found[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[key] = value
    return found


def schedule_of(name: str, texts: Sequence[str]) -> Schedule | None:
    """A schedule from texts like `0=1.0 500=0.1`, episode and value; None for no texts."""
    from chunked_td.learners.schedule import Schedule

    if not texts:
        return None
    try:
        return Schedule(tuple((int(at), float(value)) for at, _, value in (text.partition("=") for text in texts)))
    except ValueError as problem:
        raise ValueError(f"--{name} must be episode=value each, got {' '.join(texts)!r} ({problem})") from None


def folder_name(*parts: Any) -> str:
    """Parts joined into a name that is safe for a folder."""
    text = "-".join(str(part) for part in parts)
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in text)
