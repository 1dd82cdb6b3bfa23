"""Link the object code of kernels into one image that runs at any address, when an artifact is exported.

Kernels are compiled as position-independent code for the large code model. Code addresses its constants relative to the
global offset table (GOT), which also holds the addresses of external functions (`memset`, `fmod`). So loading an image
needs no relocation; `image` only fills the GOT, without LLVM. See System V ABI, AMD64 supplement, section 4.4.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import Unsupported
from .image import CodeImage

_SYMBOLS, _RELOCATIONS_ADDEND, _NO_BITS, _RELOCATIONS = 2, 4, 8, 9  # section types
_WRITE, _ALLOCATE, _THREAD_LOCAL = 1, 2, 0x400  # section flags
_UNDEFINED, _RESERVED = 0, 0xFF00  # section numbers: no section; the first reserved one
_PAGE = 4096

# Relocations of AMD64, by number: the number of patched bytes, and the value (S symbol, A addend, P place, G the
# symbol's slot in the GOT at address T). All of them are differences, so they do not depend on the address of the
# image.
_PC32, _PC64, _GOTOFF64, _GOT64, _GOTPC64 = 2, 24, 25, 27, 29


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    link: int
    info: int
    alignment: int


class _Object:
    """The sections and symbols of one relocatable ELF64 file for AMD64. Raises `Unsupported` for any other file."""

    def __init__(self, code: bytes) -> None:
        machine = struct.unpack_from("<HH", code, 0x10) if len(code) >= 64 else (0, 0)
        if code[:6] != b"\x7fELF\x02\x01" or machine != (1, 62):
            raise Unsupported("object code is not a relocatable ELF64 file for AMD64")
        (at,) = struct.unpack_from("<Q", code, 0x28)
        size, count, names = struct.unpack_from("<HHH", code, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", code, at + i * size) for i in range(count)]
        base = headers[names][4]
        self.sections = [
            _Section(
                _text(code, base + name), kind, flags, b"" if kind == _NO_BITS else code[offset : offset + length],
                link, info, max(1, alignment),
            )
            for name, kind, flags, _, offset, length, link, info, alignment, _ in headers
        ]  # fmt: skip

    def placed(self) -> list[int]:
        """Return the numbers of the sections that become part of the image: code and read-only data, but no unwinding
        tables.

        Numba leaves 8 bytes of writable memory in each object. No code refers to them, or `_relocate` would raise an
        error.
        """
        return [
            i
            for i, s in enumerate(self.sections)
            if s.flags & _ALLOCATE and not s.flags & (_WRITE | _THREAD_LOCAL) and s.data and s.name != ".eh_frame"
        ]

    def symbols(self) -> list[tuple[str, int, int]]:
        """Return (name, section number, offset in it) for each symbol."""
        symbols: list[tuple[str, int, int]] = []
        for table in self.sections:
            if table.kind == _SYMBOLS:
                names = self.sections[table.link].data
                for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", table.data):
                    symbols.append((_text(names, name), section, value))
        return symbols


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def link(objects: Sequence[tuple[bytes, str]]) -> CodeImage:
    """Link all `(object code, entry)` into one image. Its `entries` are in the same order, and entry names may repeat.

    Raises `Unsupported` for object code that is not ELF64 for AMD64, or that uses features that kernels do not need
    (writable memory, thread-local variables, absolute addresses). `loader` can still load such code.
    """
    read = [(_Object(code), entry) for code, entry in objects]
    image = bytearray()
    places: list[dict[int, int]] = []
    for item, _ in read:
        place: dict[int, int] = {}
        for number in item.placed():
            section = item.sections[number]
            image += bytes(-len(image) % max(64, section.alignment))
            place[number] = len(image)
            image += section.data
        places.append(place)
    image += bytes(-len(image) % _PAGE)
    table = len(image)
    slots: dict[str, int] = {}
    entries = []
    for (item, entry), place in zip(read, places, strict=True):
        symbols = item.symbols()
        offsets = [place[section] + value for name, section, value in symbols if name == entry and section in place]
        if len(offsets) != 1:
            raise Unsupported(f"object code does not define {entry} once")
        entries.append(offsets[0])
        for section in item.sections:
            if section.kind == _RELOCATIONS and section.info in place:
                raise Unsupported("object code has relocations without addends")
            if section.kind == _RELOCATIONS_ADDEND and section.info in place:
                _relocate(image, place[section.info], section.data, symbols, place, table, slots)
    image += bytes(8 * len(slots))
    return CodeImage(bytes(image), tuple(entries), tuple((name, table + slot) for name, slot in slots.items()))


def _relocate(
    image: bytearray,
    start: int,
    relocations: bytes,
    symbols: Sequence[tuple[str, int, int]],
    place: dict[int, int],
    table: int,
    slots: dict[str, int],
) -> None:
    for offset, info, addend in struct.iter_unpack("<QQq", relocations):
        kind, (name, section, value) = info & 0xFFFFFFFF, symbols[info >> 32]
        at = start + offset
        if kind == _GOTPC64:
            patch: Any = table + addend - at
        elif kind == _GOT64 and section == _UNDEFINED:
            patch = slots.setdefault(name, 8 * len(slots)) + addend
        elif section not in place:
            raise Unsupported(f"object code refers to {name or section} by relocation {kind}")
        elif kind == _GOTOFF64:
            patch = place[section] + value + addend - table
        elif kind in (_PC32, _PC64):
            patch = place[section] + value + addend - at
        else:
            raise Unsupported(f"object code has relocation {kind} of {name or section}")
        struct.pack_into("<i" if kind == _PC32 else "<q", image, at, patch)
