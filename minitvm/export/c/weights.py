"""The weights of a program: one block of bytes that the program reads, in a file, in an object file, or as C text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import InputError, nearest
from ...executable import ConstantRef, Executable, Location
from ...executable.alignment import ALIGNMENT
from ...executable.verifier import accesses
from ..constants import packed

FORMS = ("auto", "bin", "incbin", "array")
MAGIC = b"minitvm weights\n"
_MOST_IN_TEXT = 256 * 1024  # bytes: larger weights are not written as C text unless you want it
_PER_LINE = 24


@dataclass(frozen=True)
class Weights:
    """The constants that steps and states use, one after the other. Each begins at a multiple of the alignment.

    The first 64 bytes identify them: a magic text, and the hash of the rest. `offsets` maps the index of a constant to
    its first byte. `form` is "bin", "incbin" or "array".
    """

    form: str
    data: bytes
    offsets: dict[int, int]

    @property
    def nbytes(self) -> int:
        """The number of bytes; 0 if the program has no weights."""
        return len(self.data)

    @property
    def linked(self) -> bool:
        """Whether the weights are linked with the program."""
        return bool(self.data) and self.form != "bin"

    @property
    def identity(self) -> bytes:
        """The bytes that must be at the beginning."""
        return self.data[: len(MAGIC) + 32]


def collect(executable: Executable, form: str = "auto") -> Weights:
    """Return the weights of an executable. Raises `InputError` for an unknown form."""
    if form not in FORMS:
        raise InputError(f"weights={form!r}: wanted one of {', '.join(FORMS)}; {nearest(str(form), FORMS)}")
    firsts = {state.first for state in executable.states if state.first is not None}
    used = sorted(firsts | {place.index for place in locations(executable) if isinstance(place, ConstantRef)})
    offsets, body = packed(executable.constants[index] for index in used)
    if form == "auto":
        form = "array" if ALIGNMENT + len(body) <= _MOST_IN_TEXT else "bin"
    if not used:
        return Weights(form, b"", {})
    head = (MAGIC + hashlib.sha256(body).digest()).ljust(ALIGNMENT, b"\0")
    return Weights(form, head + body, {index: ALIGNMENT + offset for index, offset in zip(used, offsets, strict=True)})


def locations(executable: Executable) -> Iterator[Location]:
    """Yield the locations that steps access."""
    return (place for step in executable.steps for place, _ in accesses(executable, step))


def files(weights: Weights, name: str) -> dict[str, bytes]:
    """Return the files of the weights, by name. The C program `name` reads them, or is linked with them."""
    if not weights.data:
        return {}
    if weights.form == "array":
        return {f"{name}_weights.c": _array(weights.data, name).encode()}
    binary = {f"{name}_weights.bin": weights.data}
    return binary if weights.form == "bin" else {**binary, f"{name}_weights.S": _assembly(name).encode()}


def _array(data: bytes, name: str) -> str:
    rows = [
        ",".join(str(byte) for byte in data[start : start + _PER_LINE]) + ","
        for start in range(0, len(data), _PER_LINE)
    ]
    return "\n".join(
        [
            f'#include "{name}.h"',
            "",
            f"{name.upper()}_ALIGNED const unsigned char {name}_weights[{name.upper()}_WEIGHTS_BYTES] = {{",
            *rows,
            "};",
            "",
        ]
    )


def _assembly(name: str) -> str:
    """Return the source for an assembler that includes the file: for ELF, Mach-O and COFF."""
    return f"""\
/* The weights as a part of the program: the assembler copies the file. */
#if defined(__APPLE__)
#define SYMBOL _{name}_weights
    .section __TEXT,__const
#elif defined(_WIN32)
#define SYMBOL {name}_weights
    .section .rdata,"dr"
#else
#define SYMBOL {name}_weights
    .section .rodata
#endif
    .globl SYMBOL
    .balign {ALIGNMENT}
SYMBOL:
    .incbin "{name}_weights.bin"
#if defined(__ELF__)
    .size SYMBOL, . - SYMBOL
    .type SYMBOL, %object
    .section .note.GNU-stack,"",%progbits
#endif
"""
