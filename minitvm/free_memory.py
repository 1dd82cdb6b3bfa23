"""The memory that this machine has free, and the error for what needs more.

A system often promises more memory than it has, and ends a process that uses it. So large amounts are compared before.
"""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError, report

_SMALL = 1 << 28  # bytes that are not worth a look


def require_memory(where: str, what: str, nbytes: int) -> None:
    """Raise `InputError` unless this machine has `nbytes` bytes free for `what`; `where` names what needs it."""
    if nbytes > _SMALL and nbytes > free_memory():
        raise out_of_memory(where, what, nbytes)


def out_of_memory(where: str, what: str, nbytes: int) -> InputError:
    """The error for memory that this machine does not have."""
    return InputError(
        report(
            f"{where}: more memory than this machine has",
            wanted=f"{_text(nbytes)} for {what}",
            found=f"{_text(free_memory())} free",
            tries=("smaller sizes, or a smaller batch", "a machine with more memory"),
        )
    )


def free_memory() -> int:
    """Bytes that programs can use without ending others: memory that is free, or could be, and swap space."""
    try:
        rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        kilobytes = {row[0].rstrip(":"): int(row[1]) for row in rows}
        return (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0)) * 1024
    except (OSError, KeyError, ValueError, IndexError):  # not Linux: all that the machine has
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _text(nbytes: int) -> str:
    return f"{nbytes / 1e9:.3g} GB"
