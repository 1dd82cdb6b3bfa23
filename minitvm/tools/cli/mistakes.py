"""Errors on the command line: whose mistake an unexpected exception is, and hints in the words of the command line.

A mistake is ours, or one of a file that the user wrote and minitvm ran.

A primitive, a back end, an operator or a schedule of a user's own is Python that runs inside minitvm. An exception that
one of its statements raises is not a bug in minitvm.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from ...build_options import ForBuild
from ...errors import InternalError

_PACKAGE = Path(__file__).resolve().parents[2]
_OURS = (_PACKAGE, (_PACKAGE / "reference").resolve(), (_PACKAGE / "lessons").resolve())
_LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))

_HINT = re.compile(r"^(  try:    |          )(?=(\w+)=)", re.MULTILINE)


def for_command_line(text: str) -> str:
    """Return the text of an error whose hints are options of the command line, or say that they are Python's.

    For example, `target="cpu"` becomes `--target cpu`, and `params={...}` becomes `in Python: params={...}`.
    """
    text = re.sub(r'^(  try:    |          )target="([^"\s]+)"$', r"\1--target \2", text, flags=re.MULTILINE)
    options = ForBuild.__annotations__
    return _HINT.sub(lambda hint: f"{hint[1]}in Python: " if hint[2] in options else hint[1], text)


def in_users_file(error: BaseException) -> str:
    """`FILE:LINE, in FUNCTION: ErrorType: text` with the statement, if a user's file raised it; "" if not.

    An exception in a library counts for whoever called it. Of a chain of exceptions the first one counts, for what
    catches it raises another one in its place.
    """
    for one in _chain(error):
        frame = None if isinstance(one, InternalError) else _raised_in(one)  # these are ours wherever they are raised
        if frame is not None:
            statement = f"\n    {frame.line}" if frame.line else ""
            return f"{frame.filename}:{frame.lineno}, in {frame.name}: {type(one).__name__}: {one}{statement}"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that it was raised from, the first one first."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    yield from reversed(causes)


def _raised_in(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame that is not a library's, if it is in a file of the user's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if not file.is_file():  # generated code, an interpreter's own module
            continue
        file = file.resolve()
        if any(file.is_relative_to(folder) for folder in _OURS):
            return None
        if not any(file.is_relative_to(folder) for folder in _LIBRARIES):
            return frame
    return None
