"""Compiled kernels on disk: `<directory>/<name>-<key>.o`, with the readable source beside it as `.py`.

The key is a hash of everything that decides the object code: the source, the support library it is compiled with, the
versions of Numba and llvmlite, and the CPU. A file is a header with a checksum, then object code; whatever does not
check out counts as absent and is built again. Files appear by rename, so that two processes may write at once. Nothing
is unpickled. Where the directory cannot be written, kernels are compiled each time, with one warning.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import re
import struct
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .loader import cpu_description

MAGIC = b"MTVMOBJ1"
_HEADER = struct.Struct("<8s32s32sQ")  # magic, key, SHA-256 of the object code, its length
SIZE_LIMIT = 1 << 30  # bytes of object code and source kept; the least recently used go first
_SUPPORT = ("arithmetic", "compiler", "concurrency", "functions", "lanes", "loader", "memory", "simd")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What lies in the cache, and what this process asked of it."""

    directory: Path
    kernels: int
    bytes: int
    hits: int
    misses: int
    damaged: int


_lock = threading.Lock()
_counts = {"hits": 0, "misses": 0, "damaged": 0}
_warned: set[Path] = set()


def directory() -> Path:
    """MINITVM_CACHE_DIR, or ~/.cache/minitvm (XDG_CACHE_HOME is respected); not created by asking."""
    chosen = os.environ.get("MINITVM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "minitvm"


@functools.cache
def _toolchain() -> bytes:
    """The part of the key that is the same for all kernels of this process."""
    h = hashlib.sha256()
    here = Path(__file__).parent
    for name in _SUPPORT:
        h.update(name.encode() + b"\0" + (here / f"{name}.py").read_bytes() + b"\0")
    for package in ("numba", "llvmlite"):
        h.update(f"{package} {importlib.metadata.version(package)}\0".encode())
    return h.digest()


def key_of(source: str, entry: str) -> bytes:
    """The 32-byte key of one kernel."""
    h = hashlib.sha256(_toolchain())
    for part in (*cpu_description(), entry, source):
        h.update(part.encode() + b"\0")
    return h.digest()


def _path(key: bytes, entry: str) -> Path:
    readable = re.sub(r"[^A-Za-z0-9_]", "_", entry)[:80]
    return directory() / f"{readable}-{key.hex()[:32]}.o"


def source_path(source: str, entry: str) -> Path:
    """Where the readable source of a cached kernel lies."""
    return _path(key_of(source, entry), entry).with_suffix(".py")


def encode(key: bytes, code: bytes) -> bytes:
    """The bytes of a cache file."""
    return _HEADER.pack(MAGIC, key, hashlib.sha256(code).digest(), len(code)) + code


def decode(key: bytes, data: bytes) -> bytes | None:
    """The object code of a cache file, or None if it is truncated, altered, or another kernel's."""
    if len(data) < _HEADER.size:
        return None
    magic, found, checksum, length = _HEADER.unpack_from(data)
    code = data[_HEADER.size :]
    intact = magic == MAGIC and found == key and length == len(code) and hashlib.sha256(code).digest() == checksum
    return code if intact else None


def get(source: str, entry: str) -> bytes | None:
    """The object code of a kernel compiled before, or None."""
    key = key_of(source, entry)
    path = _path(key, entry)
    try:
        data = path.read_bytes()
    except OSError:
        _count("misses")
        return None
    code = decode(key, data)
    if code is None:
        _count("damaged")
        return None
    _count("hits")
    with contextlib.suppress(OSError):
        os.utime(path)  # recently used
    return code


def put(source: str, entry: str, code: bytes) -> None:
    """Keep object code for later; a directory that cannot be written costs one warning and nothing else."""
    key = key_of(source, entry)
    path = _path(key, entry)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path.with_suffix(".py"), source.encode())
        _write(path, encode(key, code))
    except OSError as error:
        with _lock:
            first = path.parent not in _warned
            _warned.add(path.parent)
        if first:
            warnings.warn(
                f"compiled kernels are not kept: {path.parent}: {error.strerror}", RuntimeWarning, stacklevel=2
            )


def _write(path: Path, data: bytes) -> None:
    """Write under a name of our own, then rename: a reader sees the old file or the new one, never half of one."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def compiled(
    jobs: Sequence[tuple[str, str]],
    compile_all: Callable[[list[tuple[str, str]]], Sequence[bytes]],
) -> list[bytes]:
    """Object code for each `(source, entry)`; those not in the cache are compiled together and kept."""
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
        trim()
    return [codes[job] for job in jobs]


def _count(what: str) -> None:
    with _lock:
        _counts[what] += 1


def _files(*suffixes: str) -> list[Path]:
    try:
        return [p for p in directory().iterdir() if p.suffix in suffixes and "-" in p.stem]
    except OSError:
        return []


def cache_info() -> CacheInfo:
    """Number and size of the kernels kept, and this process's hits, misses and damaged files."""
    files = _files(".o")
    total = 0
    for path in files:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    with _lock:
        return CacheInfo(directory(), len(files), total, _counts["hits"], _counts["misses"], _counts["damaged"])


def clear() -> int:
    """Remove all kept kernels and their sources; returns how many kernels there were."""
    removed = 0
    for path in _files(".o", ".py", ".tmp"):
        with contextlib.suppress(OSError):
            path.unlink()
            removed += path.suffix == ".o"
    return removed


def trim(limit: int = SIZE_LIMIT) -> None:
    """Remove the least recently used kernels until all together take at most `limit` bytes."""
    entries = []
    for path in _files(".o"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            entries.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        total -= size
        for victim in (path, path.with_suffix(".py")):
            with contextlib.suppress(OSError):
                victim.unlink()
