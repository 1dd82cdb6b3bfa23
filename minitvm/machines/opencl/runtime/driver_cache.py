"""The folder in which PoCL keeps what it compiled: minitvm's own, and free of files that were cut short.

PoCL writes a file under another name and renames it, but a full disk or a machine that stops leaves files that are cut
short. PoCL then finds no kernel in a program, or its process dies when it loads one. `prepare` drops such files before
PoCL starts.
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
    """Have PoCL keep its files in the cache of minitvm, unless the user names a folder; drop what is broken there."""
    folder = Path(os.environ.setdefault(VARIABLE, str(directory() / "pocl")))
    with contextlib.suppress(OSError):  # PoCL itself says what is wrong with a folder
        folder.mkdir(parents=True, exist_ok=True)
    clean(folder)


def location() -> str:
    """Where PoCL keeps its files, for people."""
    return os.environ.get(VARIABLE, "")


def clean(folder: Path) -> list[Path]:
    """Remove broken libraries and programs, and old temporary files; returns their paths."""
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
    """Whether an ELF file reaches as far as its table of sections, which linkers write last."""
    with path.open("rb") as file:
        head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return False
    (begin,) = struct.unpack_from("<Q", head, 0x28)
    size, count = struct.unpack_from("<HH", head, 0x3A)
    return path.stat().st_size >= begin + size * count


def is_whole_bitcode(path: Path) -> bool:
    """Whether all blocks of a file of LLVM bitcode end inside of it (LLVM's manual, "Bitcode File Format")."""
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
