"""The folder in which PoCL caches compiled programs: it belongs to minitvm, and truncated files are removed from it.

PoCL writes a file under another name and renames it, but a full disk or a crashed machine may still leave truncated
files. PoCL then finds no kernel in a program, or the process dies when it loads one. `prepare` removes such files
before PoCL starts.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from ....store import directory

VARIABLE = "POCL_CACHE_DIR"
_TEMPORARY = "tempfile_"  # what compilations that were killed leave
_OLD = 3600.0  # seconds after which one is nobody's


def prepare() -> None:
    """Let PoCL keep its files in minitvm's cache, unless the user names a folder, and remove broken files there."""
    folder = Path(os.environ.setdefault(VARIABLE, str(directory() / "pocl")))
    with contextlib.suppress(OSError):  # PoCL itself says what is wrong with a folder
        folder.mkdir(parents=True, exist_ok=True)
    clean(folder)


def location() -> str:
    """Return the folder in which PoCL keeps its files, for messages."""
    return os.environ.get(VARIABLE, "")


def clean(folder: Path) -> list[Path]:
    """Remove broken libraries and programs, and old temporary files. Return their paths."""
    removed = []
    for entry in _files(folder):
        with contextlib.suppress(OSError):  # another process may have removed it
            if entry.name.startswith(_TEMPORARY):
                broken = entry.stat().st_mtime < folder.stat().st_mtime - _OLD
            elif entry.name.endswith(".so"):
                broken = not is_whole_library(Path(entry.path))
            else:
                broken = entry.name == "program.bc" and not is_whole_bitcode(Path(entry.path))
            if broken:
                os.unlink(entry.path)
                removed.append(Path(entry.path))
    return removed


def _files(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry


def is_whole_library(path: Path) -> bool:
    """Return whether an ELF file contains its whole section table, which linkers write last."""
    with path.open("rb") as file:
        head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return False
    (begin,) = struct.unpack_from("<Q", head, 0x28)
    size, count = struct.unpack_from("<HH", head, 0x3A)
    return path.stat().st_size >= begin + size * count


def is_whole_bitcode(path: Path) -> bool:
    """Return whether all blocks of an LLVM bitcode file end inside of it (LLVM's manual, "Bitcode File Format")."""
    end, at = path.stat().st_size, 4
    with path.open("rb") as file:
        if file.read(4) != b"BC\xc0\xde":
            return False
        while at + 8 <= end:
            file.seek(at)
            first, length = struct.unpack("<II", file.read(8))
            if first & 3 != 1:  # ENTER_SUBBLOCK: an abbreviation of 2 bits, a block, a width; then a word, its length
                return False
            at += 8 + 4 * length
    return at == end > 4
