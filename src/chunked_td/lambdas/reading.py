"""λ sources from text, for commands: a number, an id, or a Python file."""

from __future__ import annotations

import dataclasses
import multiprocessing
import sys
import warnings

from chunked_td._checks import did_you_mean
from chunked_td._loading import load_file
from chunked_td.lambdas import SOURCES
from chunked_td.lambdas.base import LambdaSource, as_lambda_source
from chunked_td.lambdas.constant import ConstantLambda
from chunked_td.lambdas.names import classes_of, current_id


def read_sources(text: str, argument: str = "--lambda-source") -> tuple[LambdaSource, ...]:
    """Return the λ sources that a text names, each with its default settings.

    Args:
      text: a number; an id of `SOURCES` or the name of its class; "mine.py", a Python file, for all sources in it;
        "mine.py:MyLambda" for one of them.
      argument: name of the argument in errors.
    """
    try:
        return (ConstantLambda(float(text)),)
    except ValueError:
        pass
    if ".py" in text:
        return tuple(_noted(_made(cls, argument, text)) for cls in _classes_in_file(text, argument))
    found = SOURCES.get(current_id(text))
    if found is None:
        raise ValueError(
            f"{argument} must be a number in [0, 1], one of {', '.join(SOURCES)}, or a Python file (mine.py or "
            f"mine.py:MyLambda), got {text!r}{did_you_mean(text, SOURCES)}"
        )
    if text not in (found.id, found.__name__):
        warnings.warn(f"{argument}: {text} is now called {found.id}", DeprecationWarning, stacklevel=2)
    return (_made(found, argument, text),)


def read_source(text: str, argument: str = "--lambda-source") -> LambdaSource:
    """Return the only λ source that a text names; see `read_sources`."""
    source, *others = read_sources(text, argument)
    if others:
        names = " or ".join(f"{text}:{type(one).__name__}" for one in (source, *others))
        raise ValueError(f"{argument} must name one λ source, got {text}, which has {len(others) + 1}; use {names}")
    return source


_SAID: set[type[LambdaSource]] = set()


def _noted(source: LambdaSource) -> LambdaSource:
    """Return the source; print a notice if it is plain Python, once and not in worker processes."""
    kind = type(source)
    if not (source.is_compiled or kind in _SAID or multiprocessing.parent_process()):
        _SAID.add(kind)
        text = "is plain Python: slow, one step at a time; mark lambda_t with @chunked_td.kernel to compile its runs"
        print(f"chunked_td: {kind.__name__} {text}", file=sys.stderr, flush=True)
    return source


def _made(cls: type[LambdaSource], argument: str, text: str) -> LambdaSource:
    if lacking := required_settings(cls):
        raise ValueError(
            f"{argument} must name a λ source whose settings have defaults, got {text}: {cls.__name__} requires "
            f"{', '.join(lacking)}"
        )
    try:
        return as_lambda_source(cls(), cls())
    except Exception as error:  # user code
        raise ValueError(f"{argument}: {text}: {type(error).__name__}: {error}") from error


def required_settings(cls: type[LambdaSource]) -> list[str]:
    """Return the settings of a source without a default."""
    missing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing]


def _classes_in_file(text: str, argument: str) -> list[type[LambdaSource]]:
    path, _, name = text.partition(".py")
    module, wanted = load_file(f"{path}.py", argument), name.removeprefix(":")
    found = [cls for cls in classes_of(module, LambdaSource) if wanted in ("", cls.__name__, cls.id)]
    if not found:
        what = (wanted and f"a class {wanted} that derives") or "a class that derives"
        raise ValueError(f"{argument}: {path}.py must define {what} from chunked_td.LambdaSource; it has none")
    return found
