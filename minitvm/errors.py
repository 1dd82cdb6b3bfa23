"""All errors that minitvm raises for its users.

An error gives, in this order: the operation, the program text with the spot marked (if there is one), what was wanted,
what was found, and at most three things to try. `report` builds this text, and the class tells who made the mistake.
The command line prints `str(error)` of a `MinitvmError` and exits with status 2; it never shows a traceback for one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar


class MinitvmError(Exception):
    """Base of all errors that are meant for the user."""


class InternalError(MinitvmError):
    """minitvm broke one of its own rules: a bug in minitvm, not a mistake of the user."""


class VerificationError(MinitvmError):
    """A program breaks a named rule of its level's verifier."""


class ScheduleError(MinitvmError):
    """A schedule primitive was refused: a named requirement does not hold or cannot be decided.

    `requirement` is the name of the requirement, or "" if the call was refused for another reason.
    """

    def __init__(self, text: str = "", requirement: str = "") -> None:
        super().__init__(text)
        self.requirement = requirement


class TooMuchCode(ScheduleError):
    """A pass of lowering copies the statements of a scheduled function more often than its budget allows."""


class ParseError(MinitvmError):
    """A text is not a valid program. The message gives the line and column, and marks the spot with a caret."""


class TypeMismatch(MinitvmError, TypeError):
    """Two things with different dtypes, shapes or kinds meet where they must agree."""


class InputError(MinitvmError, ValueError):
    """The caller passed an array, name, shape or option that does not fit."""


class ModelError(MinitvmError):
    """A file is not a model, or the model contradicts itself."""


class UnsupportedOperator(MinitvmError):
    """A model uses an operator, attribute or dtype that minitvm does not implement; the text names it."""


class Unsupported(MinitvmError):
    """An interpreter or back end does not support something in a program. It refuses the program instead of
    guessing.
    """


class TargetError(MinitvmError, ValueError):
    """A target is unknown, or this machine cannot run it."""


class ArtifactError(MinitvmError):
    """A saved file is truncated, altered, from another version, or not trusted."""


class MissingExtra(MinitvmError, ImportError):
    """An optional dependency is not installed; the text names the extra."""


class ExecutionError(MinitvmError):
    """A program did something undefined while it was interpreted: uninitialised read, out of bounds, a race."""


# What a user may try if a model takes two sizes for equal that differ in a run.
OTHER_SIZES = (
    "sizes for which this holds",
    "a build for these sizes: shapes={...}",
)


def report(
    headline: str,
    *,
    program: str | None = None,
    wanted: str | None = None,
    found: str | None = None,
    tries: Sequence[str] = (),
) -> str:
    """Return the text of an error, in the layout that all errors share.

    `program` is program text in which the place of the error is already marked (see `tir.script.printer`); it is
    indented by four spaces. At most three `tries` are shown.
    """
    lines = [headline]
    if program:
        lines += [("    " + line).rstrip() for line in program.rstrip("\n").split("\n")]
    rows = [("wanted:", wanted), ("found: ", found)]
    for label, text in rows:
        if text:
            first, *rest = text.split("\n")
            lines.append(f"  {label} {first}")
            lines += ["          " + line for line in rest]
    for i, text in enumerate(tries[:3]):
        lines.append(("  try:    " if i == 0 else "          ") + text)
    return "\n".join(lines)


def nearest(name: str, names: Sequence[str], count: int = 3) -> str:
    """Return `did you mean split?` for a name that is similar to a known one, or else the list of known names.

    This is for errors about unknown names, for example `nearest("spilt", [...])`.
    """
    import difflib

    close = difflib.get_close_matches(name, list(names), n=count, cutoff=0.55)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known: " + (", ".join(sorted(names)[:12]) or "none") + (", ..." if len(names) > 12 else "")


_unverified: ContextVar[bool] = ContextVar("unverified", default=False)


@contextmanager
def not_verified() -> Iterator[None]:
    """Within this scope, no level verifies its programs, whatever MINITVM_VERIFY says. Use it for programs that are
    only compared with verified ones.
    """
    token = _unverified.set(True)
    try:
        yield
    finally:
        _unverified.reset(token)


def verification_asked() -> bool:
    """Return whether every level should verify its programs: MINITVM_VERIFY is set, and is neither empty nor 0.

    The result is False inside `not_verified`.
    """
    return not _unverified.get() and os.environ.get("MINITVM_VERIFY", "0") not in ("", "0")


_BROUGHT_BY = {"llvmlite": "numba", "z3": "z3-solver"}  # distributions with another name than the package


@contextmanager
def needed(purpose: str, *tries: str) -> Iterator[None]:
    """Within this scope, report a missing package as a `MissingExtra` that gives the purpose and how to install it.

    `tries` are further suggestions. A missing module of minitvm itself is not reported this way.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, MissingExtra) or package in ("", "minitvm"):
            raise
        headline = f"{package} is not installed, and it is needed {purpose}"
        bringing = _BROUGHT_BY.get(package)
        install = f"pip install {bringing}, which brings {package}" if bringing else f"pip install {package}"
        raise MissingExtra(report(headline, tries=[install, *tries])) from None


def first_installed(*packages: str) -> str:
    """Return the first of these packages that is installed, or the first of all if none is, so that importing it
    reports the error.

    Use it if any one of the packages is enough.
    """
    import importlib.util

    return next((name for name in packages if importlib.util.find_spec(name) is not None), packages[0])


def installed_version(distribution: str) -> str:
    """Return the version of an installed distribution, or "" if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Return the error for an optional dependency that is not installed, in one sentence."""
    return MissingExtra(f"{package} is not installed: run  pip install 'minitvm[{extra}]'")
