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
from ....target.isas import NATIVE
from ...simd.vectors.source import support_of

Job = tuple[str, ...]  # source, entry, and the name of the instruction set, without which it is this machine's
KERNELS = FileStore(".o", "compiled kernels", beside=".py")
_SUPPORT = ("compiled_for.py", "compiler.py", "concurrency.py", "loader.py", "machine_instructions.py")


@functools.cache
def _toolchain() -> bytes:
    """Return the part of the key that is the same for all kernels of this process."""
    here = Path(__file__).parent
    return support_of([here / name for name in _SUPPORT], ("numba", "llvmlite"))


def key_of(source: str, entry: str, isa: str = NATIVE) -> bytes:
    """Return the 32-byte key of a kernel that is compiled for an instruction set."""
    from .loader import cpu_description  # in here, so that what is on disk can be counted without LLVM

    h = hashlib.sha256(_toolchain())
    for part in (*cpu_description(isa), entry, source):
        h.update(part.encode() + b"\0")
    return h.digest()


def source_path(source: str, entry: str, isa: str = NATIVE) -> Path:
    """Return the path of the readable source of a cached kernel."""
    return KERNELS.path(key_of(source, entry, isa), entry).with_suffix(".py")


def get(source: str, entry: str, isa: str = NATIVE) -> bytes | None:
    """Return the cached object code of a kernel, or None."""
    return KERNELS.get(key_of(source, entry, isa), entry)


def put(source: str, entry: str, code: bytes, isa: str = NATIVE) -> None:
    """Store the object code of a kernel."""
    KERNELS.put(key_of(source, entry, isa), entry, code, beside=source.encode())


def compiled(jobs: Sequence[Job], compile_all: Callable[[list[Job]], Sequence[bytes]]) -> list[bytes]:
    """Return object code for each `(source, entry, isa)`. Those that are not in the cache are compiled together and
    stored.
    """
    codes: dict[Job, bytes] = {}
    for job in dict.fromkeys(jobs):
        code = get(*job)
        if code is not None:
            codes[job] = code
    absent = [job for job in dict.fromkeys(jobs) if job not in codes]
    if absent:
        for job, code in zip(absent, compile_all(absent), strict=True):
            source, entry, *isa = job
            put(source, entry, code, *isa)
            codes[job] = code
        KERNELS.trim()
    return [codes[job] for job in jobs]
