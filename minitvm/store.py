"""Files that are kept on disk between runs, `<directory>/<name>-<key>.<suffix>`, looked up by key and checked when
read.

A file is a header with a checksum, followed by its content. A file that fails the check counts as absent, and its
content is computed again. Files are renamed into place, so two processes may write at once. Nothing is unpickled. If
the directory cannot be written, nothing is kept, and there is one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from .forks import lock

MAGIC = b"MTVMKEPT"
_HEADER = struct.Struct("<8s32s32sQ")  # magic, key, SHA-256 of the content, its length
_WRITING = 3600  # seconds, many more than writing a file takes
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
        self._count("hits")
        with contextlib.suppress(OSError):
            os.utime(path)  # recently used
        return content

    def put(self, key: bytes, name: str, content: bytes, beside: bytes = b"") -> None:
        """Store content under a key. If the directory cannot be written, there is one warning and no error."""
        path = self.path(key, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.beside:
                _write(path.with_suffix(self.beside), beside)
            _write(path, encode(key, content))
        except OSError as error:
            with _lock:
                first = path.parent not in _warned
                _warned.add(path.parent)
            if first:
                warnings.warn(
                    f"{self.what} are not kept: {path.parent}: {error.strerror}", RuntimeWarning, stacklevel=2
                )

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


def _write(path: Path, data: bytes) -> None:
    """Write to a temporary file, then rename it: a reader sees the old file or the new one, never half of one."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:40]}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
