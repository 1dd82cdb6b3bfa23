"""The instructions, and their text.

    .input p0 1024                               a buffer in memory: its name and its bytes
    .output y 256
    config.ex stride=1                           rows of images are so many rows of the scratchpad apart
    config.ld stride=16                          rows of memory are so many bytes apart
    config.st shift=8 least=-128                 how results leave the accumulator
    mvin p0+0 sp=0 rows=14 lines=4 step=256,16   rows into the scratchpad; `step`: how far the next line is, in
    mvin zero sp=14 rows=1                       bytes of memory and in rows. Or rows of zeros
    mvin p1+0 acc=0 rows=16 add                  into the accumulator, where it may add
    preload sp=16128                             weights into the array, behind those that it works with
    compute sp=0 acc=0 rows=14 lines=4 step=16,14 add
    mvout y+0 acc=0 rows=56                      the accumulator, shifted and cut, to memory
    fence                                        the host may read

Gemmini's commands move or multiply at most as many rows as the array has. One instruction here is what its unrollers
(`loop_ws`, `loop_conv_ws`) make many of them from, so programs stay readable: `compute` stands for a `preload` of no
weights and a `compute` for each piece of a line. A `;` begins a comment. A mistake is a ParseError with its line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NoReturn

from ...errors import ParseError, nearest

UNITS = ("load", "execute", "store")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `unit` runs it, in its order among that unit's."""

    word: ClassVar[str] = ""
    unit: ClassVar[str] = "execute"

    def __str__(self) -> str:
        parts = [self.word]
        for f in fields(self):
            value, short = getattr(self, f.name), f.name
            if value == f.default and short not in ("rows", "stride", "shift", "least", "sp", "acc"):
                continue
            if short == "source":
                parts.insert(1, str(value))
            elif value is True:
                parts.append(short)
            elif value is not None and value is not False:
                parts.append(f"{short}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """A byte of a buffer: `name+offset`."""

    buffer: str
    offset: int

    def __str__(self) -> str:
        return f"{self.buffer}+{self.offset}"


ZERO = "zero"


@dataclass(frozen=True, slots=True)
class ConfigEx(Instruction):
    """Rows that COMPUTE reads are `stride` rows of the scratchpad apart."""

    stride: int = 1
    word: ClassVar[str] = "config.ex"


@dataclass(frozen=True, slots=True)
class ConfigLd(Instruction):
    """Rows that MVIN reads are `stride` bytes apart; 0 reads one row again and again."""

    stride: int = 0
    word: ClassVar[str] = "config.ld"
    unit: ClassVar[str] = "load"


@dataclass(frozen=True, slots=True)
class ConfigSt(Instruction):
    """MVOUT stores `min(max(sum >> shift, least), 127)`; `least` is -128, or 0 for a ReLU."""

    shift: int = 0
    least: int = -128
    word: ClassVar[str] = "config.st"
    unit: ClassVar[str] = "store"


@dataclass(frozen=True, slots=True)
class Mvin(Instruction):
    """`lines` lines of `rows` rows from memory (or of zeros), into the scratchpad (`sp`) or the accumulator (`acc`)."""

    source: BufferPlace | str
    sp: int | None = None
    acc: int | None = None
    rows: int = 1
    lines: int = 1
    step: tuple[int, int] = (0, 0)
    add: bool = False
    word: ClassVar[str] = "mvin"
    unit: ClassVar[str] = "load"


@dataclass(frozen=True, slots=True)
class Preload(Instruction):
    """Weights from `side` rows of the scratchpad, the row of output j as the j-th, for the COMPUTEs that follow."""

    sp: int = 0
    word: ClassVar[str] = "preload"


@dataclass(frozen=True, slots=True)
class Compute(Instruction):
    """`acc[row] = image[row] @ weights.T` for `lines` lines of `rows` rows, or `+=` with `add`. Sums wrap."""

    sp: int = 0
    acc: int = 0
    rows: int = 1
    lines: int = 1
    step: tuple[int, int] = (0, 0)
    add: bool = False
    word: ClassVar[str] = "compute"


@dataclass(frozen=True, slots=True)
class Mvout(Instruction):
    """`lines` lines of `rows` rows of the accumulator to memory; `step` as in MVIN."""

    source: BufferPlace
    acc: int = 0
    rows: int = 1
    lines: int = 1
    step: tuple[int, int] = (0, 0)
    word: ClassVar[str] = "mvout"
    unit: ClassVar[str] = "store"


@dataclass(frozen=True, slots=True)
class Fence(Instruction):
    """The end of a program: all units are done, and the host may read."""

    word: ClassVar[str] = "fence"


@dataclass(frozen=True, slots=True)
class ProgramBuffer:
    """An argument of a program: bytes of memory, read ("input") or written ("output")."""

    name: str
    role: str
    nbytes: int

    def __str__(self) -> str:
        return f".{self.role} {self.name} {self.nbytes}"


@dataclass(frozen=True, slots=True)
class Program:
    """Buffers in the order of the kernel's parameters, and instructions in the order in which the host sends them."""

    buffers: tuple[ProgramBuffer, ...]
    instructions: tuple[Instruction, ...]
    name: str = "program"

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.buffers, *self.instructions))) + "\n"


FORMS: dict[str, Callable[..., Instruction]] = {
    form.word: form for form in (ConfigEx, ConfigLd, ConfigSt, Mvin, Preload, Compute, Mvout, Fence)
}
_FIELDS = {word: {f.name: f for f in fields(form)} for word, form in FORMS.items()}  # type: ignore[arg-type]


def assemble(text: str, name: str = "program") -> Program:
    """The program of a text; raises `ParseError`."""
    buffers: list[ProgramBuffer] = []
    instructions: list[Instruction] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(";")[0].split()
        if not words:
            continue
        try:
            if words[0] in (".input", ".output"):
                role, (called, size) = words[0][1:], words[1:]
                buffers.append(ProgramBuffer(called, role, int(size)))
            else:
                instructions.append(_instruction(words))
        except (ValueError, TypeError) as error:
            raise ParseError(f"line {number}: {error}\n    {line}") from None
    return Program(tuple(buffers), tuple(instructions), name)


def _instruction(words: list[str]) -> Instruction:
    word, *rest = words
    if word not in FORMS:
        raise ValueError(f"no instruction is called {word!r}: {nearest(word, list(FORMS))}")
    values: dict[str, Any] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals and "source" in _FIELDS[word] and "source" not in values and part != "add":
            called, plus, offset = part.partition("+")
            key = "source"
            values[key] = BufferPlace(called, int(offset)) if plus else part
            if not plus and (part != ZERO or word != Mvin.word):
                raise ValueError(f"wanted a place such as p0+16, found {part!r}")
        elif key not in _FIELDS[word] or key in values:
            _unknown(word, part, key in values)
        elif (key == "add") == bool(equals):
            raise ValueError("wanted add without a number" if equals else f"wanted {key}=NUMBER, found {part}")
        elif not equals:
            values[key] = True
        else:
            numbers = tuple(int(n) for n in value.split(","))
            if len(numbers) != 1 + (key == "step"):
                raise ValueError(f"{key} is {'two numbers' if key == 'step' else 'one number'}, found {value}")
            values[key] = numbers if key == "step" else numbers[0]
    _check(word, values)
    return FORMS[word](**values)


def _check(word: str, values: dict[str, Any]) -> None:
    """Raises `ValueError` for fields of which no instruction consists."""
    if "source" in _FIELDS[word] and "source" not in values:
        zero = f", or {ZERO}" if word == Mvin.word else ""
        raise ValueError(f"{word} needs a place in memory, such as p0+16{zero}")
    if word == Mvin.word and ("sp" in values) == ("acc" in values):
        raise ValueError(f"wanted one of sp and acc, found {'both' if 'sp' in values else 'neither'}")
    for key in ("rows", "lines"):
        if values.get(key, 1) < 1:
            raise ValueError(f"wanted {key}=1 or more, found {values[key]}")


def _unknown(word: str, part: str, twice: bool) -> NoReturn:
    if twice:
        raise ValueError(f"{part.partition('=')[0]} is given twice")
    raise ValueError(f"{word} has no {part!r}; it has {', '.join(_FIELDS[word]) or 'nothing'}")
