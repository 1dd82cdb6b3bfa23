"""Read GGUF files, versions 2 and 3: metadata by name, and tensors whose data stay in the mapped file.

Every length in the file is checked before it is used, so that no read leaves the file and a damaged file is refused
with the place of the fault. (The package `gguf` takes seconds for the vocabulary of a model, as it makes an array of
each string.)
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...store import FileState
from .formats import FORMATS, StoredFormat, format_name

_MOST_DIMS = 4
_STRING, _ARRAY = 8, 9
# Types of metadata: the code of `struct`, by number.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a file. `shape` has the order of NumPy: the last dimension is the contiguous one.

    `data` is uint8 [rows, blocks in a row, bytes of a block], a view of the file.
    """

    name: str
    shape: tuple[int, ...]
    format: StoredFormat
    data: np.ndarray


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The metadata and the tensors of a file, by name.

    `state` is that of the file before it was read. `weights` holds the constants that graphs of this file share, and
    `mapping` is the file in memory. You may change metadata and tensors before a build; `as_read` has those of the
    file.
    """

    path: Path
    state: FileState
    metadata: dict[str, Any]
    tensors: dict[str, StoredTensor]
    mapping: mmap.mmap
    as_read: tuple[dict[str, Any], dict[str, StoredTensor]]
    weights: dict[str, Any] = field(default_factory=dict)

    def is_as_read(self) -> bool:
        """Return whether the metadata and tensors are still those of the file."""
        metadata, tensors = self.as_read
        if self.metadata != metadata or self.tensors.keys() != tensors.keys():
            return False
        return all(self.tensors[name] is tensor for name, tensor in tensors.items())

    def release(self) -> None:
        """Let the pages of the file that were read leave this process's memory. Reading maps them again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED)


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Return the contents of a GGUF file.

    Raises `ModelError` if the file is missing, damaged or no GGUF file, and `UnsupportedOperator` for a format of
    numbers that minitvm does not read.
    """
    place = Path(path)
    if not place.exists():
        raise ModelError(f"{place}: no such file")
    if place.is_dir():
        raise ModelError(f"{place} is a folder, not a GGUF model")
    state = FileState.of(place)
    with place.open("rb") as file:
        if not file.read(1):
            raise ModelError(f"{place} is not a GGUF model: it is empty")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[:4] != b"GGUF":
        raise ModelError(f"{place} is not a GGUF model: it begins with {data[:4]!r}, wanted b'GGUF'")
    return _GgufReader(place, state, data).file()


class _GgufReader:
    """Reads one value after the other."""

    def __init__(self, path: Path, state: FileState, data: mmap.mmap) -> None:
        self.path, self.state, self.data = path, state, data
        self.at, self.end = 4, len(data)
        self.part = "the header"

    def file(self) -> GgufFile:
        version = self.number("I")
        if version not in (2, 3):
            swapped = version & 0xFFFF == 0
            found = "numbers with the most significant byte first" if swapped else f"version {version}"
            raise ModelError(f"{self.path}: found {found}, wanted version 2 or 3 of GGUF, with the least one first")
        tensor_count, count = self.number("Q"), self.number("Q")
        metadata: dict[str, Any] = {}
        for number in range(count):
            self.part = f"metadata {number + 1} of {count}"
            name = self.string()
            self.part = f"the metadata {name!r}"
            if name in metadata:
                self.damaged("the name occurs twice")
            metadata[name] = self.value(self.number("I"))
        infos: dict[str, tuple[tuple[int, ...], StoredFormat, int]] = {}
        for number in range(tensor_count):
            self.part = f"tensor {number + 1} of {tensor_count}"
            name = self.string()
            self.part = f"the tensor {name!r}"
            if name in infos:
                self.damaged("the name occurs twice")
            infos[name] = self.info()
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            self.part = "the metadata 'general.alignment'"
            self.damaged(f"found {alignment!r}, wanted a power of two")
        begin = -(-self.at // alignment) * alignment
        tensors = {name: self.tensor(name, begin, alignment, *info) for name, info in infos.items()}
        copies = {name: list(value) if isinstance(value, list) else value for name, value in metadata.items()}
        return GgufFile(self.path, self.state, metadata, tensors, self.data, (copies, dict(tensors)))

    def damaged(self, reason: str) -> Any:
        raise ModelError(f"{self.path} is damaged: {self.part}: {reason}")

    def take(self, count: int) -> int:
        """Return the place of the next `count` bytes, and go behind them."""
        begin = self.at
        if count > self.end - begin:
            self.damaged(f"wanted {count} bytes at {begin}, found {self.end - begin} until the end of the file")
        self.at = begin + count
        return begin

    def number(self, code: str) -> Any:
        return struct.unpack_from(f"<{code}", self.data, self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        length = self.number("Q")
        begin = self.take(length)
        try:
            return self.data[begin : begin + length].decode("utf-8")
        except UnicodeDecodeError as error:
            self.damaged(f"the text at {begin} is not UTF-8 ({error.reason})")
            raise

    def value(self, kind: int) -> Any:
        """Return a value of metadata: a number, a text, or a list of either."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            self.damaged(f"found the unknown type {kind}")
        kind, count = self.number("I"), self.number("Q")
        if kind in _SCALARS:
            code = _SCALARS[kind]
            begin = self.take(count * struct.calcsize(code))
            return list(struct.unpack_from(f"<{count}{code}", self.data, begin))
        if kind != _STRING:
            self.damaged(f"found a list of the type {kind}, wanted numbers or texts")
        if count > (self.end - self.at) // 8:
            self.damaged(f"found a list of {count} texts, for which the file is too short")
        return [self.string() for _ in range(count)]

    def info(self) -> tuple[tuple[int, ...], StoredFormat, int]:
        """Return the shape, the format and the offset of the next tensor."""
        count = self.number("I")
        if not 1 <= count <= _MOST_DIMS:
            self.damaged(f"found {count} dimensions, wanted 1 to {_MOST_DIMS}")
        shape = tuple(self.number("Q") for _ in range(count))[::-1]
        kind, offset = self.number("I"), self.number("Q")
        if kind not in FORMATS:
            names = ", ".join(f.name for f in FORMATS.values())
            raise UnsupportedOperator(
                f"{self.path}: {self.part} has the format {format_name(kind)}\n  wanted: one of {names}"
            )
        return shape, FORMATS[kind], offset

    def tensor(
        self, name: str, begin: int, alignment: int, shape: tuple[int, ...], form: StoredFormat, offset: int
    ) -> StoredTensor:
        self.part = f"the tensor {name!r}"
        if 0 in shape or shape[-1] % form.size:
            self.damaged(f"found the shape {list(shape)}, wanted rows of blocks of {form.size} numbers")
        if offset % alignment:
            self.damaged(f"found the offset {offset}, wanted a multiple of {alignment}")
        rows, blocks = prod(shape[:-1]), shape[-1] // form.size
        self.at = begin + offset
        nbytes = rows * blocks * form.nbytes
        if self.at > self.end:
            self.damaged(f"its data begin at {self.at}, beyond the {self.end} bytes of the file")
        data = np.frombuffer(self.data, np.uint8, nbytes, self.take(nbytes))
        return StoredTensor(name, shape, form, data.reshape(rows, blocks, form.nbytes))
