"""Temporary folders that are removed even if their process is killed.

A killed process leaves its folder behind. So each folder contains a file that its process keeps locked, and the next
process that needs a folder removes those of the same kind whose lock is free. The system releases a lock whenever its
process ends, and locks are also visible to processes in other containers, where process numbers mean nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: folders that are left stay
    fcntl = None  # type: ignore[assignment]

_LOCK = ".in-use"
_STARTING = 600  # seconds in which a new folder may be without a lock


class Scratch:
    """A temporary folder at `path`, which `close` removes. Its name begins with `kind`."""

    def __init__(self, kind: str) -> None:
        _remove_abandoned(kind)
        self._folder = tempfile.TemporaryDirectory(prefix=kind)
        self.path = Path(self._folder.name)
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        _locked(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder. A second call does nothing."""
        self._folder.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _locked(file: int) -> bool:
    """Lock a file and return True, or return False if another process holds the lock."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(kind: str) -> None:
    for path in _ours(kind):
        with contextlib.suppress(OSError):
            try:
                lock = os.open(path / _LOCK, os.O_RDWR)
            except FileNotFoundError:
                if time.time() - path.stat().st_mtime > _STARTING:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                if _locked(lock):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _ours(kind: str) -> Iterator[Path]:
    """Yield the folders of this kind that belong to this user. Links are skipped."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            with contextlib.suppress(OSError):
                if entry.name.startswith(kind) and entry.is_dir(follow_symlinks=False):
                    if not hasattr(os, "getuid") or entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        yield Path(entry.path)
