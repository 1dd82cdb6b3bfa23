"""A cache of compiled kernels on disk, each with its readable source. It is a `store` of object code.

The key is a hash of everything that determines the object code: the source, the support library, the versions of Numba
and llvmlite, and the CPU.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ....store import FileStore
from ...simd.vectors.source import support_of

KERNELS = FileStore(".o", "compiled kernels", beside=".py")
_SUPPORT = ("compiler.py", "concurrency.py", "loader.py", "machine_instructions.py")


@functools.cache
def _toolchain() -> bytes:
    """Return the part of the key that is the same for all kernels of this process."""
    here = Path(__file__).parent
    return support_of([here / name for name in _SUPPORT], ("numba", "llvmlite"))


def key_of(source: str, entry: str) -> bytes:
    """Return the 32-byte key of a kernel."""
    from .loader import cpu_description  # in here, so that what is on disk can be counted without LLVM

    h = hashlib.sha256(_toolchain())
    for part in (*cpu_description(), entry, source):
        h.update(part.encode() + b"\0")
    return h.digest()


def source_path(source: str, entry: str) -> Path:
    """Return the path of the readable source of a cached kernel."""
    return KERNELS.path(key_of(source, entry), entry).with_suffix(".py")


def get(source: str, entry: str) -> bytes | None:
    """Return the cached object code of a kernel, or None."""
    return KERNELS.get(key_of(source, entry), entry)


def put(source: str, entry: str, code: bytes) -> None:
    """Store the object code of a kernel."""
    KERNELS.put(key_of(source, entry), entry, code, beside=source.encode())


def compiled(
    jobs: Sequence[tuple[str, str]],
    compile_all: Callable[[list[tuple[str, str]]], Sequence[bytes]],
) -> list[bytes]:
    """Return object code for each `(source, entry)`. Those that are not in the cache are compiled together and
    stored.
    """
    codes: dict[tuple[str, str], bytes] = {}
    for job in dict.fromkeys(jobs):
        code = get(*job)
        if code is not None:
            codes[job] = code
    absent = [job for job in dict.fromkeys(jobs) if job not in codes]
    if absent:
        for job, code in zip(absent, compile_all(absent), strict=True):
            put(*job, code)
            codes[job] = code
        KERNELS.trim()
    return [codes[job] for job in jobs]
