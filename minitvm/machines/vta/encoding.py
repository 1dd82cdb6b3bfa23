"""Instructions as 128 bits and micro-ops as 32, as VTA's hardware reads them (`hw_spec.h` of apache/tvm-vta).

Fields lie one behind the other from the lowest bit on; one that does not fit the first 64 bits begins the second. The
widths are the configuration's. Of what was decoded every bit has a meaning: bits beside the fields must be zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, report
from .config import INSTRUCTION_BITS, MICRO_OP_BITS, WORD_BITS, AccelConfig, Scratchpad, Widths
from .isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MicroOp, Store

BYTES = INSTRUCTION_BITS // 8
_TOKENS = ["pop_prev", "pop_next", "push_prev", "push_next"]


@dataclass(frozen=True, slots=True)
class Field:
    """Where a number lies in an instruction; `path` names the attribute, and the part of one that is a tuple."""

    path: str
    low: int
    bits: int
    signed: bool = False

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << (self.bits - self.signed)) - 1


def fields(kind: type[Instruction], widths: Widths) -> tuple[Field, ...]:
    """The fields of a kind of instruction, from the lowest bit on."""
    w = widths
    head = [("opcode", w.opcode), *((name, 1) for name in _TOKENS)]
    places = [("memory", w.memory), ("sram", w.sram), ("dram", w.dram), ("pad_least", 1)]
    sizes = [("y_size", w.size), ("x_size", w.size), ("x_stride", w.stride), *((f"pads.{i}", w.pad) for i in range(4))]
    loops = [("uop_begin", w.uop), ("uop_end", w.uop + 1), ("outer", w.loop), ("inner", w.loop)]
    dst = [(f"dst_factors.{i}", w.acc) for i in (0, 1)]
    if kind in (Load, Store):
        return _placed([head + places, sizes])
    if kind is Gemm:
        src = [(f"src_factors.{i}", w.inp) for i in (0, 1)]
        wgt = [(f"wgt_factors.{i}", w.wgt) for i in (0, 1)]
        return _placed([[*head, ("reset", 1), *loops], [*dst, *src, *wgt]])
    if kind is Alu:
        src = [(f"src_factors.{i}", w.acc) for i in (0, 1)]
        last = [("op", w.alu), ("use_immediate", 1), ("immediate", w.immediate)]
        return _placed([[*head, ("reset", 1), *loops], [*dst, *src, *last]])
    return _placed([head])


def _placed(words: Iterable[list[tuple[str, int]]]) -> tuple[Field, ...]:
    placed = []
    for number, word in enumerate(words):
        low = number * WORD_BITS
        for path, bits in word:
            placed.append(Field(path, low, bits, signed=path == "immediate"))
            low += bits
    return tuple(placed)


def value_of(instruction: Instruction, path: str) -> int:
    """The number of a field; 0 for what this instruction does not have (a STORE has no pads)."""
    if path == "use_immediate":
        return int(getattr(instruction, "immediate", None) is not None)
    name, _, part = path.partition(".")
    value: Any = getattr(instruction, name, 0)
    if part:
        value = value[int(part)] if isinstance(value, tuple) else value
    return 0 if value is None else int(value)


def misfits(instruction: Instruction, config: AccelConfig) -> Iterator[tuple[Field, int]]:
    """The fields that are too narrow for their numbers."""
    for place in fields(type(instruction), config.widths):
        value = value_of(instruction, place.path)
        if not place.least <= value <= place.most:
            yield place, value


def encode(instruction: Instruction, config: AccelConfig) -> int:
    """The instruction as a number of 128 bits. Raises InputError for a number that its field cannot hold."""
    for place, value in misfits(instruction, config):
        raise InputError(
            report(
                f"{instruction} cannot be encoded for {config.name}",
                wanted=f"{place.path} from {place.least} to {place.most} ({place.bits} bits)",
                found=str(value),
            )
        )
    word = 0
    for place in fields(type(instruction), config.widths):
        word |= (value_of(instruction, place.path) & ((1 << place.bits) - 1)) << place.low
    return word


def decode(word: int, config: AccelConfig) -> Instruction:
    """The instruction of a number of 128 bits. Raises InputError where it has none."""
    kinds: dict[int, type[Instruction]] = {kind.opcode: kind for kind in (Load, Store, Gemm, Finish, Alu)}
    opcode = word & ((1 << config.widths.opcode) - 1)
    if not 0 <= word < 1 << INSTRUCTION_BITS or opcode not in kinds:
        raise InputError(
            report(f"{word:#034x} is not an instruction", wanted="an opcode from 0 to 4", found=f"opcode {opcode}")
        )
    kind, values, rest = kinds[opcode], {}, word
    for place in fields(kind, config.widths):
        mask = (1 << place.bits) - 1
        number = (word >> place.low) & mask
        rest &= ~(mask << place.low)
        values[place.path] = number - (1 << place.bits) if number > place.most else number
    values.pop("opcode")
    if rest:
        raise InputError(report(f"{word:#034x} is not an instruction", wanted="zeros beside the fields of "
                                f"{kind.__name__.upper()}", found=f"bits {rest:#x}"))  # fmt: skip
    return _made(kind, values, word)


def _made(kind: type[Instruction], values: dict[str, int], word: int) -> Instruction:
    """The node with these numbers in its fields."""
    arguments: dict[str, Any] = {name: bool(values.pop(name)) for name in _TOKENS}
    for name in ("pads", "dst_factors", "src_factors", "wgt_factors"):
        parts = sorted(path for path in values if path.startswith(f"{name}."))
        if parts:
            arguments[name] = tuple(values.pop(path) for path in parts)
    arguments.update(values)
    for name, table in (("memory", Scratchpad), ("op", AluOp)):
        if name in arguments:
            try:
                arguments[name] = table(arguments[name])
            except ValueError:
                raise InputError(f"{word:#034x} is not an instruction: {name} {arguments[name]}") from None
    nothing: list[str] = []
    if kind is Alu:
        nothing = ["reset"]
        if not arguments.pop("use_immediate"):
            nothing.append("immediate")
    if kind is Store:
        nothing = ["pads", "pad_least"]
    for name in nothing:
        value = arguments.pop(name)
        if value not in (0, (0, 0, 0, 0)):
            raise InputError(f"{word:#034x} is not an instruction: {kind.__name__.upper()} has no {name}")
    if kind is Load:
        arguments["pad_least"] = bool(arguments["pad_least"])
    if kind is Gemm:
        arguments["reset"] = bool(arguments["reset"])
    return kind(**arguments)


def encode_program(instructions: Sequence[Instruction], config: AccelConfig) -> bytes:
    """All instructions, 16 bytes each, lowest byte first."""
    return b"".join(encode(one, config).to_bytes(BYTES, "little") for one in instructions)


def decode_program(data: bytes, config: AccelConfig) -> tuple[Instruction, ...]:
    """The instructions of a binary. Raises InputError, with the number of the instruction, where there is none."""
    if len(data) % BYTES:
        raise InputError(f"a binary of instructions has {BYTES} bytes for each; this one has {len(data)} bytes")
    made = []
    for at in range(0, len(data), BYTES):
        try:
            made.append(decode(int.from_bytes(data[at : at + BYTES], "little"), config))
        except InputError as error:
            raise InputError(f"instruction {at // BYTES}: {error}") from None
    return tuple(made)


def _micro_op_bits(config: AccelConfig) -> tuple[int, int, int]:
    w = config.widths
    return w.acc, max(w.acc, w.inp), w.wgt


def encode_micro_op(op: MicroOp, config: AccelConfig) -> int:
    """A micro-op as a number of 32 bits: dst lowest, then src, then wgt. Raises InputError where one does not fit."""
    word, low = 0, 0
    for name, value, bits in zip(("dst", "src", "wgt"), (op.dst, op.src, op.wgt), _micro_op_bits(config), strict=True):
        if not 0 <= value < 1 << bits:
            raise InputError(
                report(
                    f"the micro-op {op} cannot be encoded for {config.name}",
                    wanted=f"{name} from 0 to {(1 << bits) - 1} ({bits} bits)",
                    found=str(value),
                )
            )
        word |= value << low
        low += bits
    return word


def decode_micro_op(word: int, config: AccelConfig) -> MicroOp:
    """The micro-op of a number of 32 bits. Raises InputError for bits that belong to no index."""
    dst, src, wgt = _micro_op_bits(config)
    if not 0 <= word < 1 << min(MICRO_OP_BITS, dst + src + wgt):
        raise InputError(f"{word:#x} is not a micro-op of {dst} + {src} + {wgt} bits")
    return MicroOp(word & ((1 << dst) - 1), (word >> dst) & ((1 << src) - 1), word >> (dst + src))
