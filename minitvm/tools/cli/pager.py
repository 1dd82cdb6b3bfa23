"""Long text on a terminal goes through the user's pager (PAGER, else less)."""

from __future__ import annotations

import io
import os
import pydoc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


class _Terminal(io.StringIO):
    """Text for a terminal that is shown later."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged() -> Iterator[None]:
    """Collect what is printed and show it in a pager; if the output is not a terminal, it is printed at once."""
    if not sys.stdout.isatty():
        yield
        return
    text = _Terminal()
    try:
        with redirect_stdout(text):
            yield
    finally:
        os.environ.setdefault("LESS", "-FRX")  # colours; a text of one screen needs no key
        pydoc.pager(text.getvalue())
