"""The command `chunked-td`: train, compare, explain.

One file per command. Imports stay inside the commands, so that each starts quickly, and so that an interrupt during an
import ends like any other.
Exit codes: 0 done, 1 something failed, 2 usage, 4 writing failed, 130 interrupted.
"""

from __future__ import annotations

import dataclasses
import gc
import inspect
import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

from chunked_td._interrupt import is_behind, restore

COMMANDS = ("train", "compare", "explain")
"""Each is a class of the same name in its own file."""

_HELP = """usage: chunked-td COMMAND [OPTIONS]

Credit assignment for delayed, noisy rewards: TD learning with a λ per step.

{commands}

chunked-td COMMAND --help    options and examples
chunked-td --version         the version"""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `chunked-td`."""
    code = 130
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # one that cannot write λ gets "?" instead of an error
            stream.reconfigure(errors="replace")
    try:
        restore()
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_behind(error):
            raise
        print("interrupted", file=sys.stderr)
    except ModuleNotFoundError as error:
        from chunked_td._loading import with_extra

        message = with_extra("this command", error)
        if "pip install" not in str(message):
            raise
        print(f"error: {message}", file=sys.stderr)
        code = 1
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process now with this exit code; after an interrupt also while compiled code is busy in other threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code == 130:
        gc.collect()  # a pool of processes gives back its semaphores, which would be reported as leaked otherwise
        os._exit(code)
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    """Run the command; errors that the user can act on become a message and an exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--version"]:
        from chunked_td import __version__

        print(__version__)
        return 0
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else 2
    try:
        import tyro

        from chunked_td._checks import check_choice

        name = check_choice("command", words[0], COMMANDS)  # only the file of that command is loaded
        kind = _class(name)
        _refuse_unknown_options(kind, words[1:])
        return tyro.cli(kind, prog=f"chunked-td {name}", args=words[1:]).run()
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 4


def _refuse_unknown_options(kind: Any, words: list[str]) -> None:
    """An error for an option that other libraries have, with ours; others are left to the parser."""
    from chunked_td._checks import name_hint

    known = [field.name for field in dataclasses.fields(kind)]
    for place, word in enumerate(words):
        if word == "--":
            return
        name, equals, value = word.partition("=")
        plain = name.removeprefix("--").removeprefix("no-").replace("-", "_")
        if word.startswith("--") and plain not in {*known, *(one.rstrip("_") for one in known), "help"}:
            meant = name_hint(plain, known)
            given = value if equals else words[place + 1] if words[place + 1 : place + 2] else ""
            if meant:
                option = f"--{meant.rstrip('_').replace('_', '-')}"
                shown = meant if meant == "env" else f"{option} {'' if given.startswith('--') else given}".rstrip()
                raise ValueError(f"{name}: there is no such option; did you mean {shown}?")


def _class(name: str) -> Any:
    return getattr(import_module(f"chunked_td.cli.{name}"), name.capitalize())


def _help() -> str:
    firsts = {name: inspect.cleandoc(_class(name).__doc__).partition("\n")[0] for name in COMMANDS}
    return _HELP.format(commands="\n".join(f"  {name:<10} {text}" for name, text in firsts.items()))


if __name__ == "__main__":
    main()
