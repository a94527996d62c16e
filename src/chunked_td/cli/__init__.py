"""The command `chunked-td`: reproduce, report, train, compare, explain, atlas, deep, claims, bench.

One file per command. Imports stay inside the commands, so that each starts quickly, and so that an interrupt during an
import ends like any other.
Exit codes: 0 done, 1 something failed, 2 usage, 3 run directory unusable, 4 writing failed, 130 interrupted.
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `chunked-td`."""
    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        from chunked_td import __version__

        print(__version__)
        return
    from chunked_td.lab.errors import LabError, leave

    code = 130
    try:
        code = _command(arguments).run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2 if isinstance(error, ValueError) else 4
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.code
    leave(code)


def _command(arguments: list[str] | None):
    """What was asked for."""
    import tyro

    from chunked_td.cli.atlas import Atlas
    from chunked_td.cli.bench import Bench
    from chunked_td.cli.claims import Claims
    from chunked_td.cli.compare import Compare
    from chunked_td.cli.deep import Deep
    from chunked_td.cli.explain import Explain
    from chunked_td.cli.report import Report
    from chunked_td.cli.reproduce import Reproduce
    from chunked_td.cli.train import Train

    command = Reproduce | Report | Train | Compare | Explain | Atlas | Deep | Claims | Bench
    return tyro.cli(command, prog="chunked-td", description=__doc__.split("\n")[0], args=arguments)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
