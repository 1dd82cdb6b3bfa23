"""The `minitvm` command: one file a subcommand.

A user's mistake ends in one clear message on standard error and exit status 2, never in a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import InternalError, MinitvmError


def _parser() -> argparse.ArgumentParser:
    from .. import __version__
    from . import check, demo, explain, info, lesson, run, show

    parser = argparse.ArgumentParser(
        prog="minitvm", description="A tensor compiler in pure Python: run, show and check a model at every level."
    )
    parser.add_argument("--version", action="version", version=f"minitvm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (run, show, check, demo, info, lesson, explain):
        module.register(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status: 0 done, 1 a check failed, 2 a user's mistake."""
    options = _parser().parse_args(arguments)
    try:
        status = int(options.function(options) or 0)
        sys.stdout.flush()
        return status
    except InternalError:
        raise
    except MinitvmError as error:
        print(f"minitvm {options.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `minitvm show ... | head`: the reader has gone; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
