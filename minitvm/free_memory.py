"""The amount of free memory on this machine, and the error if a program needs more.

An operating system often promises more memory than it has, and later kills a process that uses it. So a large amount is
compared with the free memory before it is allocated.
"""

from __future__ import annotations

import os
from pathlib import Path

from .errors import InputError, report

_SMALL = 1 << 28  # bytes that are not worth a look


def require_memory(where: str, what: str, nbytes: int) -> None:
    """Raise `InputError` unless this machine has `nbytes` free bytes for `what`. `where` names the part of the program
    that needs them.
    """
    if nbytes > _SMALL and nbytes > free_memory():
        raise out_of_memory(where, what, nbytes)


def out_of_memory(where: str, what: str, nbytes: int) -> InputError:
    """Return the error for more memory than this machine has."""
    return InputError(
        report(
            f"{where}: more memory than this machine has",
            wanted=f"{_text(nbytes)} for {what}",
            found=f"{_text(free_memory())} free",
            tries=("smaller sizes, or a smaller batch", "a machine with more memory"),
        )
    )


def free_memory() -> int:
    """Return the number of bytes that programs can allocate without the system killing others: free and reclaimable
    memory, and swap space.
    """
    try:
        rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        kilobytes = {row[0].rstrip(":"): int(row[1]) for row in rows}
        return (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0)) * 1024
    except (OSError, KeyError, ValueError, IndexError):  # not Linux: all that the machine has
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _text(nbytes: int) -> str:
    return f"{nbytes / 1e9:.3g} GB"
