"""The file format of an artifact: named sections of bytes, each with a checksum. Loading unpickles nothing.

    0     magic, version, size of the table of contents, size of the file, the table's digest, signature,
          SHA-256 of these 96 bytes
    128   the table of contents: JSON, filled up with spaces
    ...   the sections, without gaps; each begins at a multiple of 64 and is filled up with zeros

A digest covers a section and its padding, so that every byte of the file is covered. It is the SHA-256 of the SHA-256s
of the section's pieces of 1 MiB, which several threads can compute. The signature (see `sign`) covers the first 64
bytes, and so, through the digests, the whole file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from ...errors import ArtifactError, InputError

MAGIC = b"\x93MTVM\r\n\x1a"  # no text file begins like this, and a transfer in text mode changes it
VERSION = 4
ALIGNMENT = 64
_HEAD = struct.Struct("<8sIIQ8x32s")  # magic, version, size of the table, size of the file, digest of the table
_SIGNATURE = 32
_CHECKSUM = 32
_TABLE = _HEAD.size + _SIGNATURE + _CHECKSUM  # the offset of the table of contents
_PIECE = 1 << 20

Pieces = Iterable[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Container:
    """The contents of an artifact whose checksums are correct. Sections are read-only; `mapped` sections are views
    of the file.
    """

    path: str
    about: Mapping[str, Any]
    sections: Mapping[str, memoryview]
    head: bytes  # the signed part
    signature: bytes  # zeros: not signed


def digest(data: memoryview, threads: int = 1) -> bytes:
    """Return the digest of a section. Several threads compute it if the section is large."""
    pieces = -(-len(data) // _PIECE)
    digests = [b""] * pieces

    def work(first: int) -> None:
        for i in range(first, pieces, count):
            digests[i] = hashlib.sha256(data[i * _PIECE : (i + 1) * _PIECE]).digest()

    count = max(1, min(threads, pieces // 4))
    others = [threading.Thread(target=work, args=(t,)) for t in range(1, count)]
    for other in others:
        other.start()
    work(0)
    for other in others:
        other.join()
    return hashlib.sha256(b"".join(digests)).digest()


class _Digest:
    """Computes the same digest as `digest`, for bytes that arrive in pieces."""

    def __init__(self) -> None:
        self._outer, self._inner, self._room = hashlib.sha256(), hashlib.sha256(), _PIECE

    def update(self, data: memoryview) -> None:
        while len(data):
            part, data = data[: self._room], data[self._room :]
            self._inner.update(part)
            self._room -= len(part)
            if not self._room:
                self._outer.update(self._inner.digest())
                self._inner, self._room = hashlib.sha256(), _PIECE

    def digest(self) -> bytes:
        if self._room < _PIECE:
            self._outer.update(self._inner.digest())
        return self._outer.digest()


def refuse_no_file(path: str, what: str) -> None:
    """Raise `InputError` if the path exists but is not a regular file, for example a folder, a device or a socket."""
    if os.path.isdir(path):
        raise InputError(f"{what}: {path} is a folder, wanted the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{what}: {path} is no regular file; writing would put one in its place")


def write(
    path: str | os.PathLike[str],
    about: Mapping[str, Any],
    sections: Mapping[str, tuple[int, Pieces]],
    sign: Callable[[bytes], bytes],
) -> None:
    """Write an artifact. The file is written completely or not at all, even if it replaces one that a process has
    mapped.

    Each section is a pair of its size and an iterator over the pieces of its bytes. `sign(head)` returns the 32 bytes
    of the signature.
    """
    target = os.fspath(path)
    refuse_no_file(target, "export")
    folder, base = os.path.split(target)
    partial = os.path.join(folder, f".{base}.{os.urandom(8).hex()}.tmp")
    try:
        # Not a temporary file of the library: those get narrower permissions than a file that a user writes.
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise InputError(f"export: {target} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            write_to(file, about, sections, sign)
        os.replace(partial, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(error, OSError):
            raise InputError(f"export: {target} cannot be written: {error.strerror}") from None
        raise


def write_to(
    file: BinaryIO,
    about: Mapping[str, Any],
    sections: Mapping[str, tuple[int, Pieces]],
    sign: Callable[[bytes], bytes],
) -> None:
    """Write an artifact to an open, empty file or to memory (`io.BytesIO`). `sections` and `sign` are as in `write`."""
    rows: list[dict[str, Any]] = [
        {"name": name, "offset": 0, "size": size, "digest": "0" * 64} for name, (size, _) in sections.items()
    ]
    start = _TABLE + len(_table(about, rows))
    for row in rows:
        row["offset"] = start
        start += _filled(row["size"])
    file.seek(rows[0]["offset"] if rows else start)
    for row, (_, pieces) in zip(rows, sections.values(), strict=True):
        row["digest"] = _write_section(file, row["size"], pieces)
    table = _table(about, rows)
    head = _HEAD.pack(MAGIC, VERSION, len(table), start, digest(memoryview(table)))
    signed = head + sign(head)
    file.seek(0)
    file.write(signed + hashlib.sha256(signed).digest() + table)


def _write_section(file: Any, size: int, pieces: Pieces) -> str:
    checksum, written = _Digest(), 0
    for piece in (*pieces, bytes(_filled(size) - size)):
        checksum.update(memoryview(piece))
        file.write(piece)
        written += len(piece)
    assert written == _filled(size)
    return checksum.digest().hex()


def _filled(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _table(about: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the table of contents.

    Its length depends only on the names, because fields that are not known yet are padded to full width.
    """
    listed = [{**row, "offset": f"{row['offset']:>20}", "size": f"{row['size']:>20}"} for row in rows]
    text = json.dumps({"about": dict(about), "sections": listed}, separators=(",", ":"), allow_nan=False).encode()
    return text + b" " * (_filled(_TABLE + len(text)) - _TABLE - len(text))


def read(path: str | os.PathLike[str], mapped: Collection[str] = (), threads: int = 1) -> Container:
    """Read an artifact and check every byte. Raises `ArtifactError` if it is incomplete, damaged, or not an artifact.

    Sections are copied before they are checked, so that no process can change the code in between by writing to the
    file. Sections in `mapped` are views of the file, which must not be changed while a view lives. (`write` does not
    change the file: it replaces it with a new one.)
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else memoryview(b"")
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parsed(data, name, mapped, threads)


def parsed(data: memoryview, name: str, mapped: Collection[str] = (), threads: int = 1) -> Container:
    """Like `read`, but for an artifact whose bytes are in memory. Error messages call the artifact `name`.

    Views keep the memory of the bytes alive.
    """
    size = len(data)
    if data[: len(MAGIC)] != MAGIC:
        raise ArtifactError(f"{name} is not an artifact of minitvm" + ("" if size else ": it is empty"))
    if size < _TABLE:
        raise ArtifactError(f"{name} is truncated: {size} bytes")
    head, signature = bytes(data[: _HEAD.size]), bytes(data[_HEAD.size : _HEAD.size + _SIGNATURE])
    if hashlib.sha256(head + signature).digest() != data[_TABLE - _CHECKSUM : _TABLE]:
        raise ArtifactError(f"{name} was altered or damaged: the checksum of its head does not match")
    _, version, length, expected, checksum = _HEAD.unpack(head)
    if version != VERSION:
        raise ArtifactError(
            f"{name} has version {version} of the format; this minitvm reads version {VERSION}: export it again"
        )
    if size != expected:
        raise ArtifactError(
            f"{name} is {'truncated' if size < expected else 'too long'}: {size} bytes, wanted {expected}"
        )
    table = bytes(data[_TABLE : _TABLE + length])
    if digest(memoryview(table)) != checksum:
        raise ArtifactError(f"{name} was altered or damaged: the checksum of its table of contents does not match")
    contents = json.loads(table)
    sections: dict[str, memoryview] = {}
    for row in contents["sections"]:
        start, count = int(row["offset"]), int(row["size"])
        section = data[start : start + _filled(count)]
        if row["name"] not in mapped:
            section = memoryview(bytes(section))
        if digest(section, threads).hex() != row["digest"]:
            raise ArtifactError(f"{name} was altered or damaged: the checksum of its {row['name']} does not match")
        sections[row["name"]] = section[:count]
    return Container(name, contents["about"], sections, head, signature)
