"""Files that are kept on disk between runs, `<directory>/<name>-<key>.<suffix>`, looked up by key and checked when
read.

A file is a header with a checksum, followed by its content. A file that fails the check counts as absent, and its
content is computed again. Files are renamed into place, so two processes may write at once. Nothing is unpickled. If
the directory cannot be written, nothing is kept, and there is one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import struct
import tempfile
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .forks import lock

MAGIC = b"MTVMKEPT"
# Magic, key, SHA-256 of the content, its length. The content begins at a multiple of 64, for vector loads from a view.
_HEADER = struct.Struct("<8s32s32sQ48x")
_PIECE = 1 << 20  # bytes that are checked at a time
_WRITING = 3600  # seconds, many more than writing a file takes
_CLOCK = 2_000_000_000  # nanoseconds between two times that every file system tells apart
SIZE_LIMIT = 1 << 30  # bytes that one store keeps; the least recently used files go first

_lock = lock()
_warned: set[Path] = set()


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """The contents of a store, and how often this process found what it looked for."""

    directory: Path
    files: int
    bytes: int
    hits: int
    misses: int
    damaged: int


@dataclass(frozen=True, slots=True)
class FileState:
    """Identifies the contents of a file without reading them: writing to a file, or replacing it, changes its state.

    The times are in nanoseconds. `settled` is False if the file changed a moment ago: it could change again at the
    same time, as clocks of file systems are coarse.
    """

    path: str
    inode: int
    size: int
    modified: int
    changed: int  # which no program can set
    settled: bool

    @staticmethod
    def of(path: str | os.PathLike[str]) -> FileState:
        """Return the state of a file now. Raises `OSError` if there is no such file."""
        stat = os.stat(path)
        settled = stat.st_ctime_ns < time.time_ns() - _CLOCK
        return FileState(os.path.abspath(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, settled)


def directory() -> Path:
    """Return MINITVM_CACHE_DIR, or ~/.cache/minitvm (XDG_CACHE_HOME is respected). The directory is not created."""
    setting = os.environ.get("MINITVM_CACHE_DIR")
    if setting:
        return Path(setting)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "minitvm"


def encode(key: bytes, content: bytes) -> bytes:
    """Return the bytes of a file with this key and content."""
    return _HEADER.pack(MAGIC, key, hashlib.sha256(content).digest(), len(content)) + content


def decode(key: bytes, data: bytes) -> bytes | None:
    """Return the content of a file, or None if the file is truncated, altered, or has another key."""
    if len(data) < _HEADER.size:
        return None
    magic, own_key, checksum, length = _HEADER.unpack_from(data)
    content = data[_HEADER.size :]
    intact = magic == MAGIC and own_key == key and length == len(content)
    return content if intact and hashlib.sha256(content).digest() == checksum else None


class FileStore:
    """The files of one suffix in the directory. `what` names them in a warning, and keys have 32 bytes.

    A file may have a readable companion file with the suffix `beside`, which is written and removed with it.
    """

    def __init__(self, suffix: str, what: str, beside: str = "") -> None:
        self.suffix, self.what, self.beside = suffix, what, beside
        self._counts = {"hits": 0, "misses": 0, "damaged": 0}

    def path(self, key: bytes, name: str) -> Path:
        """Return the path of the file for a key. `name` makes it readable."""
        readable = re.sub(r"[^A-Za-z0-9_]", "_", name)[:80]
        return directory() / f"{readable}-{key.hex()[:32]}{self.suffix}"

    def get(self, key: bytes, name: str) -> bytes | None:
        """Return the content that was stored under a key, or None."""
        path = self.path(key, name)
        try:
            data = path.read_bytes()
        except OSError:
            self._count("misses")
            return None
        content = decode(key, data)
        if content is None:
            self._count("damaged")
            return None
        self._used(path)
        return content

    def view(self, key: bytes, name: str) -> memoryview | None:
        """Like `get`, but return a read-only view of the file, at an address that is a multiple of 64.

        The file is read once for the check. Memory is used only for the parts of the view that are read later. A
        damaged file is removed.
        """
        path = self.path(key, name)
        try:
            with path.open("rb") as file:
                if not _intact(key, file):
                    self._count("damaged")
                    path.unlink()
                    return None
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            self._count("misses")
            return None
        self._used(path)
        return memoryview(mapped)[_HEADER.size :]

    def _used(self, path: Path) -> None:
        self._count("hits")
        with contextlib.suppress(OSError):
            os.utime(path)  # recently used

    def put(self, key: bytes, name: str, content: bytes, beside: bytes = b"") -> bool:
        """Store content under a key, and return whether it is stored. If the directory cannot be written, there is one
        warning and no error.
        """
        return self._put(key, name, [encode(key, content)], beside)

    def put_large(self, name: str, checksum: bytes, size: int, pieces: Iterable[bytes | memoryview]) -> bool:
        """Store content that comes in pieces, `size` bytes in all, under its own SHA-256, and return whether it is
        stored.
        """
        return self._put(checksum, name, [_HEADER.pack(MAGIC, checksum, checksum, size), *pieces])

    def _put(self, key: bytes, name: str, pieces: Iterable[bytes | memoryview], beside: bytes = b"") -> bool:
        path = self.path(key, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.beside:
                _write(path.with_suffix(self.beside), [beside])
            _write(path, pieces)
            return True
        except OSError as error:
            with _lock:
                first = path.parent not in _warned
                _warned.add(path.parent)
            if first:
                warnings.warn(
                    f"{self.what} are not kept: {path.parent}: {error.strerror}", RuntimeWarning, stacklevel=2
                )
            return False

    def info(self) -> StoreInfo:
        """Return the number and size of the files, and this process's counts of hits, misses and damaged files."""
        paths = self._files(self.suffix)
        total = 0
        for path in paths:
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        with _lock:
            return StoreInfo(directory(), len(paths), total, **self._counts)

    def clear(self) -> int:
        """Remove all files and return how many there were."""
        removed = 0
        for path in self._files(self.suffix, self.beside, ".tmp"):
            with contextlib.suppress(OSError):
                path.unlink()
                removed += path.suffix == self.suffix
        return removed

    def trim(self, limit: int = SIZE_LIMIT) -> None:
        """Remove the least recently used files until the rest take at most `limit` bytes in total."""
        for partial in self._files(".tmp"):  # of processes that were killed
            with contextlib.suppress(OSError):
                if time.time() - partial.stat().st_mtime > _WRITING:
                    partial.unlink()
        entries = []
        for path in self._files(self.suffix):
            with contextlib.suppress(OSError):
                stat = path.stat()
                entries.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= limit:
                return
            total -= size
            for victim in (path, path.with_suffix(self.beside or self.suffix)):
                with contextlib.suppress(OSError):
                    victim.unlink()

    def _count(self, what: str) -> None:
        with _lock:
            self._counts[what] += 1

    def _files(self, *suffixes: str) -> list[Path]:
        try:
            return [p for p in directory().iterdir() if p.suffix and p.suffix in suffixes and "-" in p.stem]
        except OSError:
            return []


def _intact(key: bytes, file: BinaryIO) -> bool:
    """Return whether an open file has this key and is complete and unchanged."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return False
    magic, own_key, checksum, length = _HEADER.unpack(header)
    if magic != MAGIC or own_key != key or os.fstat(file.fileno()).st_size != _HEADER.size + length:
        return False
    hashed, piece = hashlib.sha256(), bytearray(_PIECE)
    while count := file.readinto(piece):  # type: ignore[attr-defined]
        hashed.update(memoryview(piece)[:count])
    return hashed.digest() == checksum


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write to a temporary file, then rename it: a reader sees the old file or the new one, never half of one."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:40]}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
