"""The `minitvm` command: one file per subcommand.

A user's mistake ends in one clear message on standard error and exit status 2, never in a traceback. A bug in
minitvm ends in status 3, with the traceback and a hint what to report.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

from ...errors import InternalError, MinitvmError, needed
from ...garbage import THRESHOLDS

DONE, DIFFERENT, REFUSED, OUR_BUG, INTERRUPTED = 0, 1, 2, 3, 130


class _Parser(argparse.ArgumentParser):
    """One line for a mistake instead of the usage, which --help prints."""

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    from ... import __version__
    from . import (
        accel,
        book,
        chat,
        check,
        check_schedules,
        demo,
        explain,
        explore,
        export,
        farm,
        film,
        grade,
        info,
        lesson,
        models,
        profile,
        run,
        serve,
        show,
        tune,
        web,
    )

    parser = _Parser(
        prog="minitvm",
        description="A tensor compiler in pure Python: run, show and check a model at every level.",
        epilog="See `minitvm COMMAND --help`. Exit status: 0 success, 1 a check failed, 2 a mistake in your command or "
        "file, 3 a bug in minitvm.",
    )
    parser.add_argument("--version", action="version", version=f"minitvm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (
        run,
        export,
        show,
        check,
        check_schedules,
        profile,
        tune,
        farm,
        accel,
        book,
        chat,
        serve,
        demo,
        web,
        models,
        info,
        lesson,
        grade,
        explain,
        explore,
        film,
    ):
        module.register(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status.

    0 done; 1 a check failed; 2 a user's mistake, in which case nothing was written; 3 a bug in minitvm; 130
    interrupted. Complaints about the command line itself, and --help, leave by `SystemExit` with 2 and 0.
    """
    gc.set_threshold(*THRESHOLDS)  # interpreters create millions of closures: collection took a third of the time
    _open_closed_streams()
    options = _parser().parse_args(arguments)
    warnings.formatwarning = lambda message, *_: f"minitvm {options.command}: {message}\n"
    try:
        with needed(f"for this command (minitvm {options.command})"):
            status = int(options.function(options) or DONE)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `minitvm show ... | head`: the reader has gone
        _drop_output()
        return DONE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except InternalError as error:
        return _our_bug(options.command, error)
    except MinitvmError as error:
        from .mistakes import for_command_line

        print(f"minitvm {options.command}: {for_command_line(str(error))}", file=sys.stderr)
        return REFUSED
    except MemoryError as error:
        print(f"minitvm {options.command}: out of memory: {error}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        if error.errno not in _OF_THE_SYSTEM:
            return _our_bug(options.command, error)
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"minitvm {options.command}: {where}{error.strerror}", file=sys.stderr)
        return REFUSED
    except Exception as error:  # an exception that no part of the compiler raises on purpose
        return _our_bug(options.command, error)


def _open_closed_streams() -> None:
    """Output to a stream that the caller closed (`minitvm ... >&-`) goes nowhere; Python has None in its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


# Errors of the file system (no space, no permission) are not bugs.
_OF_THE_SYSTEM = {
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENOSPC, errno.ENOTDIR, errno.EPERM,
    errno.EROFS,
}  # fmt: skip


def _drop_output() -> None:
    """Discard remaining output, so that Python does not complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _our_bug(command: str, error: Exception) -> int:
    """Print that it is not the user's mistake, and what to report; returns the exit status.

    An exception that a file of the user's own raised is the user's after all, and told in one message.
    """
    from .mistakes import in_users_file

    spot = in_users_file(error)
    if spot:
        print(f"minitvm {command}: {spot}", file=sys.stderr)
        return REFUSED
    traceback.print_exception(error)
    print(
        f"minitvm {command}: this is a bug in minitvm, not in your model or command. Please report the lines above, "
        "the command, `minitvm info`, and the model if it may be shared.",
        file=sys.stderr,
    )
    return OUR_BUG
