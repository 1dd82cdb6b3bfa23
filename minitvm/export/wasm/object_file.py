"""A WebAssembly object file of LLVM made into a module that an engine loads.

LLVM numbers functions and places data as a module needs them; only exports are missing. So the module is the object
file with an export section, and without the sections for linkers. Format: WebAssembly Core Specification, section 5,
and "WebAssembly Object File Linking" of the tool-conventions repository.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ...errors import InternalError

_HEADER = b"\0asm\x01\0\0\0"
_CUSTOM, _IMPORT, _GLOBAL, _EXPORT, _DATA = 0, 2, 6, 7, 11  # sections
_FUNCTION, _TABLE, _MEMORY, _GLOBAL_IMPORT = range(4)  # kinds of imports; exports count functions as 0 too
_SYMBOL_TABLE = 8  # a subsection of "linking"
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40  # flags of symbols
_KIND_FUNCTION, _KIND_DATA, _KIND_SECTION = 0, 1, 3  # of symbols


class _ObjectReader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """An unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        """A signed LEB128 number of 32 bits."""
        start = self.at
        value = self.number()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def taken(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def name(self) -> str:
        return self.taken(self.number()).decode()


def _leb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@dataclass
class ObjectFile:
    """The sections of an object file, its functions by name, and its imported functions.

    `data_end` is the end of its data, which begins at address 0.
    """

    sections: list[tuple[int, bytes]] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    imports: list[str] = field(default_factory=list)
    data_end: int = 0

    def module(self, exports: Collection[str]) -> bytes:
        """Return a module that exports these functions."""
        entries = b"".join(
            _leb(len(name)) + name.encode() + bytes([_FUNCTION]) + _leb(self.functions[name]) for name in exports
        )
        export_section = (_EXPORT, _leb(len(exports)) + entries)
        before = [section for section in self.sections if section[0] <= _GLOBAL]
        after = [section for section in self.sections if section[0] > _GLOBAL]
        return _HEADER + b"".join(bytes([n]) + _leb(len(data)) + data for n, data in (*before, export_section, *after))


def read_object(data: bytes) -> ObjectFile:
    """Read an object file of LLVM. Raises `InternalError` if it is something else."""
    if data[:8] != _HEADER:
        raise InternalError("LLVM wrote something other than a WebAssembly object file")
    result = ObjectFile()
    linking = b""
    for number, payload in _sections(data):
        if number != _CUSTOM:
            result.sections.append((number, payload))
            continue
        reader = _ObjectReader(payload)
        if reader.name() == "linking":
            linking = payload[reader.at :]
    for number, payload in result.sections:
        if number == _IMPORT:
            result.imports = list(_imported_functions(payload))
        elif number == _DATA:
            result.data_end = _data_end(payload)
    result.functions = dict(_defined_functions(linking))
    return result


def _sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    reader = _ObjectReader(data, len(_HEADER))
    while reader.at < len(data):
        number = reader.byte()
        yield number, reader.taken(reader.number())


def _imported_functions(payload: bytes) -> Iterator[str]:
    reader = _ObjectReader(payload)
    for _ in range(reader.number()):
        reader.name()
        name, kind = reader.name(), reader.byte()
        if kind == _FUNCTION:
            reader.number()
            yield name
        elif kind == _GLOBAL_IMPORT:
            reader.taken(2)
        else:
            if kind == _TABLE:
                reader.byte()
            has_maximum = reader.number() & 1
            for _ in range(1 + has_maximum):
                reader.number()


def _data_end(payload: bytes) -> int:
    reader, end = _ObjectReader(payload), 0
    for _ in range(reader.number()):
        reader.taken(2)  # an active segment, and the instruction i32.const
        start = reader.signed()
        reader.byte()
        size = reader.number()
        reader.taken(size)
        end = max(end, start + size)
    return end


def _defined_functions(linking: bytes) -> Iterator[tuple[str, int]]:
    reader = _ObjectReader(linking)
    reader.number()  # the version
    while reader.at < len(linking):
        kind, size = reader.byte(), reader.number()
        if kind == _SYMBOL_TABLE:
            yield from _functions_of(_ObjectReader(reader.taken(size)))
        else:
            reader.taken(size)


def _functions_of(table: _ObjectReader) -> Iterator[tuple[str, int]]:
    for _ in range(table.number()):
        kind, flags = table.byte(), table.number()
        if kind == _KIND_DATA:
            table.name()
            for _ in range(0 if flags & _UNDEFINED else 3):
                table.number()
        elif kind == _KIND_SECTION:
            table.number()
        else:
            index = table.number()
            if not flags & _UNDEFINED or flags & _EXPLICIT_NAME:
                name = table.name()
                if kind == _KIND_FUNCTION and not flags & _UNDEFINED:
                    yield name, index
