"""What the machine is. One frozen configuration drives meaning, timing and text.

`vta` and `vdla` are the two machines of VTA's papers (Moreau et al., "A Hardware-Software Blueprint for Flexible Deep
Learning Specialization"; Chen et al., "TVM", OSDI'18); `vta2` is `vta` with all options of its later versions. `tsim`
and `board` are two memories: the nearly ideal one of VTA's cycle simulator, and one with the latency of a board. A
configuration that cannot be is refused when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np

from ...errors import InputError, nearest, report
from ..scratchpad.memory import MEMORIES, AluOptions, Dram

INSTRUCTION_BITS = 128
WORD_BITS = 64  # no field of an instruction crosses a word
MICRO_OP_BITS = 32


class Scratchpad(IntEnum):
    """The memories beside the array, by their code in LOAD and STORE.

    OUT and ACC8 are no memories of their own: they name the registers (ACC), cut to the dtype of results on their way
    out, and extended from it, with their sign, on their way in.
    """

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC8 = 5

    @property
    def held(self) -> Scratchpad:
        """The memory whose elements it names."""
        return Scratchpad.ACC if self in (Scratchpad.OUT, Scratchpad.ACC8) else self

    @property
    def word(self) -> str:
        """The name in text: `inp`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Widths:
    """The bits of each field of an instruction; `uop`, `wgt`, `inp` and `acc` are indices of scratchpads."""

    opcode: int = 3
    memory: int = 3
    sram: int = 16
    dram: int = 32
    size: int = 16
    stride: int = 16
    pad: int = 4
    loop: int = 14
    uop: int = 13
    wgt: int = 10
    inp: int = 11
    acc: int = 11
    alu: int = 3
    immediate: int = 16


@dataclass(frozen=True, slots=True)
class Pipelines:
    """Cycles of the compute module beyond one a micro-op.

    `gemm` and `alu` are the depths of the two pipelines: an instruction's last result lies there so many cycles after
    its last micro-op began. `alu_two` is the cycles between micro-ops that read two registers: there is one read port.
    """

    gemm: int = 4
    alu: int = 4
    alu_two: int = 2


@dataclass(frozen=True, slots=True)
class AccelConfig:
    """A machine. An element of a scratchpad is a vector or matrix that the array takes at once:

        inp (batch, block_in), wgt (block_out, block_in), acc, acc8 and out (batch, block_out); uop one micro-op

    `acc[dst] += inp[src] @ wgt[w].T` is one micro-op and takes one cycle. Sizes are in bytes, the clock in MHz.
    Raises InputError for a machine that cannot be.
    """

    name: str = "vta"
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    inp_dtype: str = "int8"
    wgt_dtype: str = "int8"
    acc_dtype: str = "int32"
    out_dtype: str = "int8"
    uop_bytes: int = 1 << 15
    inp_bytes: int = 1 << 15
    wgt_bytes: int = 1 << 18
    acc_bytes: int = 1 << 17
    clock_mhz: int = 100
    command_depth: int = 512
    token_depth: int = 255
    widths: Widths = field(default_factory=Widths)
    pipelines: Pipelines = field(default_factory=Pipelines)
    options: AluOptions = field(default_factory=AluOptions)
    dram: Dram = field(default_factory=Dram)

    def __post_init__(self) -> None:
        for rule in RULES:
            for found in rule.breaches(self):
                raise InputError(
                    report(f"there is no accelerator {self.name!r}: {rule.name}", wanted=rule.says, found=found)
                )

    def shape(self, pad: Scratchpad) -> tuple[int, ...]:
        """The shape of one element; a micro-op is a number."""
        shapes = {
            Scratchpad.UOP: (),
            Scratchpad.WGT: (self.block_out, self.block_in),
            Scratchpad.INP: (self.batch, self.block_in),
        }
        return shapes.get(pad, (self.batch, self.block_out))

    def dtype(self, pad: Scratchpad) -> np.dtype[Any]:
        """The dtype of an element's numbers."""
        if pad is Scratchpad.UOP:
            return np.dtype("uint32")
        return np.dtype(getattr(self, f"{'out' if pad is Scratchpad.ACC8 else pad.word}_dtype"))

    def element_bytes(self, pad: Scratchpad) -> int:
        """The bytes of one element in DRAM, and of all but OUT and ACC8 in the scratchpad."""
        return prod(self.shape(pad)) * self.dtype(pad).itemsize

    def depth(self, pad: Scratchpad) -> int:
        """How many elements a scratchpad holds; OUT and ACC8 name the registers."""
        return int(getattr(self, f"{pad.held.word}_bytes")) // self.element_bytes(pad.held)

    @property
    def adds_constants(self) -> bool:
        """Whether an instruction adds one number to all sums: ALU's, of `widths.immediate` bits."""
        return True

    def depths(self) -> dict[str, int]:
        """How many elements inp, wgt and acc hold, by their names, which are the scopes of storage in a compiler."""
        return {pad.word: self.depth(pad) for pad in (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC)}

    def elements(self) -> dict[str, tuple[int, ...]]:
        """The shapes of their elements."""
        return {pad.word: self.shape(pad) for pad in (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC)}

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-adds of a cycle: the size of the array."""
        return self.batch * self.block_in * self.block_out


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a machine: a name, the requirement, and what is found where it does not hold."""

    name: str
    says: str
    breaches: Callable[[AccelConfig], Iterator[str]]


_MEMORIES = (Scratchpad.UOP, Scratchpad.WGT, Scratchpad.INP, Scratchpad.ACC)


def _positive(c: AccelConfig) -> Iterator[str]:
    names = "batch block_in block_out uop_bytes inp_bytes wgt_bytes acc_bytes clock_mhz command_depth token_depth"
    for name in names.split():
        if getattr(c, name) < 1:
            yield f"{name} = {getattr(c, name)}"
    for part in (c.widths, c.dram):
        for name in part.__dataclass_fields__:
            value = getattr(part, name)
            if isinstance(value, int) and value < 1:
                yield f"{type(part).__name__.lower()}.{name} = {value}"
    for name in c.pipelines.__dataclass_fields__:
        if getattr(c.pipelines, name) < 1:
            yield f"pipelines.{name} = {getattr(c.pipelines, name)}"


def _integers(c: AccelConfig) -> Iterator[str]:
    for pad in (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC, Scratchpad.OUT):
        name = getattr(c, f"{pad.word}_dtype")
        if name not in ("int8", "int16", "int32"):
            yield f"{pad.word}_dtype = {name}"


def _cut(c: AccelConfig) -> Iterator[str]:
    if c.dtype(Scratchpad.OUT).itemsize > c.dtype(Scratchpad.ACC).itemsize:
        yield f"results are {c.out_dtype}, registers {c.acc_dtype}"


def _whole(c: AccelConfig) -> Iterator[str]:
    for pad in _MEMORIES:
        size, element = getattr(c, f"{pad.word}_bytes"), c.element_bytes(pad)
        if size % element:
            yield f"{size} bytes of {pad.word}, whose elements have {element}"


def _indices(c: AccelConfig) -> Iterator[str]:
    for pad in _MEMORIES:
        bits, depth = getattr(c.widths, pad.word), c.depth(pad)
        if depth > 1 << bits:
            yield f"{depth} elements of {pad.word}, whose indices have {bits} bits and end at {(1 << bits) - 1}"
        if depth > 1 << c.widths.sram:
            yield f"{depth} elements of {pad.word}; LOAD and STORE reach {1 << c.widths.sram}"


def _micro_op(c: AccelConfig) -> Iterator[str]:
    bits = c.widths.acc + max(c.widths.acc, c.widths.inp) + c.widths.wgt
    if bits > MICRO_OP_BITS:
        yield f"acc + max(acc, inp) + wgt are {bits} bits"


def _instruction(c: AccelConfig) -> Iterator[str]:
    w = c.widths
    head = w.opcode + 4
    loops = head + 1 + w.uop + (w.uop + 1) + 2 * w.loop
    words = {
        "the places of LOAD and STORE": head + w.memory + w.sram + w.dram + 1,
        "the sizes of LOAD and STORE": 2 * w.size + w.stride + 4 * w.pad,
        "the loops of GEMM and ALU": loops,
        "the factors of GEMM": 2 * (w.acc + w.inp + w.wgt),
        "the factors and immediate of ALU": 4 * w.acc + w.alu + 1 + w.immediate,
    }
    for what, bits in words.items():
        if bits > WORD_BITS:
            yield f"{what} are {bits} bits"
    for name, codes in (("opcode", 5), ("memory", 6), ("alu", 6)):
        if 1 << getattr(w, name) < codes:
            yield f"{name} of {getattr(w, name)} bits, for {codes} codes"


def _transfers(c: AccelConfig) -> Iterator[str]:
    if c.dram.burst % c.dram.bytes_per_cycle:
        yield f"bursts of {c.dram.burst} bytes, {c.dram.bytes_per_cycle} bytes a cycle"


def _multiplies(c: AccelConfig) -> Iterator[str]:
    bits = c.dtype(Scratchpad.ACC).itemsize * 8
    if not 0 <= c.options.multiply_bits <= bits:
        yield f"MUL of {c.options.multiply_bits} bits, registers of {bits}"


RULES: tuple[Rule, ...] = (
    Rule("counts", "every size, width, depth and number of cycles is at least 1", _positive),
    Rule("dtypes", "int8, int16 or int32", _integers),
    Rule("results", "results at most as wide as registers", _cut),
    Rule("whole elements", "a scratchpad holds a whole number of elements", _whole),
    Rule("field width", "an index reaches every element of its scratchpad", _indices),
    Rule("micro-op", f"the three indices of a micro-op fit {MICRO_OP_BITS} bits", _micro_op),
    Rule("instruction", f"each half of an instruction fits {WORD_BITS} bits, and each code its field", _instruction),
    Rule("bursts", "a burst is a whole number of cycles", _transfers),
    Rule("multiply", "MUL multiplies no more bits than a register has", _multiplies),
)

CONFIGS = {
    "vta": AccelConfig(),
    "vdla": AccelConfig("vdla", clock_mhz=200, wgt_bytes=1 << 15, widths=Widths(wgt=7)),
    "vta2": AccelConfig("vta2", options=AluOptions(multiply_bits=8, pad_value=True, clip=True, widen=True)),
}


def configured(name: str, memory: str = "tsim", **changes: Any) -> AccelConfig:
    """A predefined machine with a predefined memory, and changes; index fields are made as wide as they must be.

    Raises InputError for unknown names and for a machine that cannot be.
    """
    for kind, wanted, table in (("accelerator", name, CONFIGS), ("memory", memory, MEMORIES)):
        if wanted not in table:
            raise InputError(f"no {kind} is called {wanted!r}: {nearest(wanted, list(table))}")
    known = CONFIGS[name]
    unknown = sorted(set(changes) - set(known.__dataclass_fields__))
    if unknown:
        raise InputError(
            f"an accelerator has no {unknown[0]!r}: {nearest(unknown[0], list(known.__dataclass_fields__))}"
        )
    dram = changes.pop("dram", MEMORIES[memory])
    if not changes:
        return replace(known, dram=dram)
    if "widths" in changes:
        return replace(known, dram=dram, **changes)
    # The widest indices that can be, to find out how many elements there are; then as wide as that.
    sizes = {key: value for key, value in changes.items() if key.startswith(("batch", "block_")) or "_bytes" in key}
    return replace(known, dram=dram, widths=_fitting(known, sizes), **changes)


def scaled(config: AccelConfig, block: int) -> AccelConfig:
    """The machine with an array of another size, and scratchpads that hold as many elements as before."""
    other = {
        "wgt": block * block * config.dtype(Scratchpad.WGT).itemsize,
        "inp": config.batch * block * config.dtype(Scratchpad.INP).itemsize,
        "acc": config.batch * block * config.dtype(Scratchpad.ACC).itemsize,
    }
    sizes: dict[str, Any] = {f"{n}_bytes": config.depth(Scratchpad[n.upper()]) * size for n, size in other.items()}
    return replace(config, block_in=block, block_out=block, **sizes)


def _fitting(known: AccelConfig, sizes: dict[str, int]) -> Widths:
    """Widths that reach every element of scratchpads of other sizes."""
    get = {**{name: getattr(known, name) for name in known.__dataclass_fields__}, **sizes}
    elements = {
        "wgt": get["block_out"] * get["block_in"] * known.dtype(Scratchpad.WGT).itemsize,
        "inp": get["batch"] * get["block_in"] * known.dtype(Scratchpad.INP).itemsize,
        "acc": get["batch"] * get["block_out"] * known.dtype(Scratchpad.ACC).itemsize,
        "uop": MICRO_OP_BITS // 8,
    }
    bits = {name: max(1, (get[f"{name}_bytes"] // max(1, size) - 1).bit_length()) for name, size in elements.items()}
    return replace(known.widths, **bits)
