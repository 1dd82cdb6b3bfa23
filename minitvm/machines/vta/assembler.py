"""Text of the accelerator -> program.

    .constant kernel uop at 0 count 2        a buffer: role, name, kind of element, address in bytes, number of elements
        0 0 0                                the micro-ops of a constant, one a line: dst src wgt
        1 0 1
    .input x inp at 64 count 16
    load.inp sram=0 dram=x+4 y=2 x=4 stride=8 pads=1,0,1,1 push(compute)
    gemm uops=0:2 loops=4,1 dst=1,0 src=1,0 wgt=0,0 pop(load) push(store)
    alu.shr uops=0:1 loops=1,1 dst=0,0 src=0,0 imm=8
    store.out sram=0 dram=y y=1 x=4 stride=4 pop(compute)
    finish

`dram` counts elements: from address 0, or from a buffer's beginning. What is left out has the value of its node's
default. A `;` begins a comment. Every mistake is a ParseError with line, column and a caret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...errors import ParseError, nearest
from .config import AccelConfig, Scratchpad
from .encoding import BYTES, decode_program
from .isa import ROLES, Alu, AluOp, DramBuffer, Finish, Gemm, Instruction, Load, MicroOp, Module, Program, Store

_PADS = {pad.word: pad for pad in Scratchpad}
_OPS = {op.name.lower(): op for op in AluOp}
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)\Z")
_TOKEN = re.compile(r"(pop|push)\((\w+)\)\Z")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _OperandField:
    """`key=values` in text: which attribute it fills, how many numbers it has, what stands between them."""

    attribute: str
    count: int = 1
    between: str = ","


_TRANSFER = {
    "sram": _OperandField("sram"), "dram": _OperandField("dram"),
    "y": _OperandField("y_size"), "x": _OperandField("x_size"),
    "stride": _OperandField("x_stride"),
}  # fmt: skip
_LOOPS = {
    "uops": _OperandField("uop_begin uop_end", 2, ":"), "loops": _OperandField("outer inner", 2),
    "dst": _OperandField("dst_factors", 2), "src": _OperandField("src_factors", 2),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Form:
    """One mnemonic: its node, its operands and flags, and what stands behind its dot."""

    make: Callable[..., Instruction]
    operands: dict[str, _OperandField]
    flags: dict[str, str] = field(default_factory=dict)
    suffix: str = ""
    suffixes: dict[str, Any] = field(default_factory=dict)


FORMS: dict[str, _Form] = {
    "load": _Form(Load, {**_TRANSFER, "pads": _OperandField("pads", 4)}, {"least": "pad_least"}, "memory", _PADS),
    "store": _Form(Store, _TRANSFER, {}, "memory", _PADS),
    "gemm": _Form(Gemm, {**_LOOPS, "wgt": _OperandField("wgt_factors", 2)}, {"reset": "reset"}),
    "alu": _Form(Alu, {**_LOOPS, "imm": _OperandField("immediate")}, {}, "op", _OPS),
    "finish": _Form(Finish, {}),
}


@dataclass(slots=True)
class _Word:
    text: str
    column: int


class _Line:
    """One line without its comment, and where its words are."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text
        bare = text.split(";")[0]
        self.words = [_Word(found.group(), found.start()) for found in _WORD.finditer(bare)]

    def refuse(self, message: str, word: _Word | None = None, offset: int = 0) -> NoReturn:
        """Raise a ParseError that points at a word, or behind the last."""
        column = word.column + offset if word else len(self.text.rstrip())
        raise ParseError(
            f"line {self.number}, column {column + 1}: {message}\n    {self.text.rstrip()}\n    {' ' * column}^"
        )


def assemble(text: str, config: AccelConfig, name: str = "program") -> Program:
    """The program of a text; places in buffers depend on how large the machine's elements are.

    Raises ParseError with line and column.
    """
    buffers: list[DramBuffer] = []
    instructions: list[Instruction] = []
    uops: list[MicroOp] = []
    open_constant: _Line | None = None
    places: dict[str, int] = {}

    def close() -> None:
        if open_constant is not None:
            last = buffers[-1]
            if len(uops) != last.count:
                open_constant.refuse(f"{last.name} has {last.count} micro-ops; {len(uops)} follow")
            buffers[-1] = DramBuffer(last.name, last.role, last.kind, last.address, last.count, tuple(uops))

    for number, raw in enumerate(text.splitlines(), start=1):
        line = _Line(number, raw)
        if not line.words:
            continue
        first = line.words[0]
        if open_constant is not None and _NUMBER.match(first.text):
            uops.append(_micro_op(line))
            continue
        close()
        open_constant = None
        if first.text.startswith("."):
            made = _buffer(line)
            if made.name in places:
                line.refuse(f"two buffers are called {made.name}", line.words[1])
            buffers.append(made)
            places[made.name] = len(buffers) - 1
            if made.role == "constant":
                open_constant, uops = line, []
        else:
            instructions.append(_instruction(line, buffers, places, config))
    close()
    return Program(tuple(buffers), tuple(instructions), name)


def from_binary(data: bytes, config: AccelConfig, buffers: tuple[DramBuffer, ...] = ()) -> Program:
    """The program of a binary; a binary has no buffers, so they are given. Raises InputError."""
    return Program(buffers, decode_program(data, config), f"program of {len(data) // BYTES} instructions")


def _integer(line: _Line, word: _Word, text: str | None = None, offset: int = 0) -> int:
    digits = word.text if text is None else text
    if not _NUMBER.match(digits):
        line.refuse(f"wanted a number, found {digits!r}" if digits else "wanted a number", word, offset)
    return int(digits, 0) if "x" in digits else int(digits)


def _micro_op(line: _Line) -> MicroOp:
    if len(line.words) != 3:
        line.refuse(f"a micro-op is three numbers, dst src wgt; this line has {len(line.words)}", line.words[0])
    return MicroOp(*(_integer(line, word) for word in line.words))


def _buffer(line: _Line) -> DramBuffer:
    words = line.words
    role = words[0].text[1:]
    if role not in ROLES:
        line.refuse(f"no role of a buffer is called {role!r}: {nearest(role, ROLES)}", words[0])
    shape = [word.text for word in words]
    if len(words) != 7 or shape[3] != "at" or shape[5] != "count":
        line.refuse(f"a buffer is written  .{role} NAME KIND at ADDRESS count NUMBER", words[0])
    if not words[1].text.isidentifier():
        line.refuse(f"{words[1].text!r} is not a name", words[1])
    if words[2].text not in _PADS:
        line.refuse(f"no kind of element is called {words[2].text!r}: {nearest(words[2].text, list(_PADS))}", words[2])
    if role == "constant" and words[2].text != "uop":
        line.refuse("constants are micro-ops; other data are inputs", words[2])
    address, count = _integer(line, words[4]), _integer(line, words[6])
    return DramBuffer(words[1].text, role, _PADS[words[2].text], address, count)


def _instruction(line: _Line, buffers: list[DramBuffer], places: dict[str, int], config: AccelConfig) -> Instruction:
    first = line.words[0]
    mnemonic, dot, suffix = first.text.partition(".")
    if mnemonic not in FORMS:
        line.refuse(f"no instruction is called {mnemonic!r}: {nearest(mnemonic, list(FORMS))}", first)
    form = FORMS[mnemonic]
    values: dict[str, Any] = {}
    if form.suffix:
        if suffix not in form.suffixes:
            known = ", ".join(f"{mnemonic}.{s}" for s in form.suffixes)
            line.refuse(f"wanted one of {known}", first, len(mnemonic) + len(dot))
        values[form.suffix] = form.suffixes[suffix]
    elif dot:
        line.refuse(f"{mnemonic} stands alone", first, len(mnemonic))
    pad = values.get("memory")
    for word in line.words[1:]:
        found = _operand(line, word, form, places) or _flag(word, form) or _token(line, word, form, values)
        if found is None:
            operands = [f"{key}=" for key in form.operands] + list(form.flags) + ["pop(...)", "push(...)"]
            line.refuse(f"{mnemonic} has no {word.text.split('=')[0]!r}; it has {', '.join(operands)}", word)
        for attribute, value in found.items():
            if attribute in values:
                line.refuse(f"{attribute} stands here twice", word)
            values[attribute] = value
    dram = values.get("dram")
    if isinstance(dram, _BufferOffset):
        values["dram"] = dram.element(line, buffers[dram.buffer], pad, config)
    return form.make(**values)


@dataclass(frozen=True, slots=True)
class _BufferOffset:
    """`name+offset`, until the kind of element is known: which buffer, and how many elements behind its beginning."""

    buffer: int
    offset: int
    word: _Word

    def element(self, line: _Line, buffer: DramBuffer, pad: Any, config: AccelConfig) -> int:
        """The element's number from address 0."""
        if not isinstance(pad, Scratchpad) or buffer.kind is not pad:
            line.refuse(f"{buffer.name} has elements of {buffer.kind.word}: write a number of elements from address 0",
                        self.word)  # fmt: skip
        first, beside = divmod(buffer.address, config.element_bytes(pad))
        if beside:
            line.refuse(f"{buffer.name} begins within an element: {pad.word} has {config.element_bytes(pad)} bytes",
                        self.word)  # fmt: skip
        return first + self.offset


def _operand(line: _Line, word: _Word, form: _Form, places: dict[str, int]) -> dict[str, Any] | None:
    key, equals, text = word.text.partition("=")
    if not equals or key not in form.operands:
        return None
    operand, begin = form.operands[key], len(key) + 1
    if key == "dram" and not _NUMBER.match(text):
        name, _, offset = text.partition("+")
        if name not in places:
            line.refuse(f"no buffer is called {name!r}" if name else "wanted a number or a buffer", word, begin)
        place = _BufferOffset(places[name], _integer(line, word, offset or "0", begin + len(name) + 1), word)
        return {"dram": place}
    parts, numbers = text.split(operand.between), []
    if len(parts) != operand.count:
        wanted = "one number" if operand.count == 1 else f"{operand.count} numbers with {operand.between!r} between"
        line.refuse(f"{key} is {wanted}", word, begin)
    for part in parts:
        numbers.append(_integer(line, word, part, begin))
        begin += len(part) + 1
    names = operand.attribute.split()
    if len(names) == operand.count:
        return dict(zip(names, numbers, strict=True))
    return {operand.attribute: tuple(numbers)}


def _flag(word: _Word, form: _Form) -> dict[str, Any] | None:
    return {form.flags[word.text]: True} if word.text in form.flags else None


def _token(line: _Line, word: _Word, form: _Form, values: dict[str, Any]) -> dict[str, Any] | None:
    found = _TOKEN.match(word.text)
    if not found:
        return None
    verb, other = found.groups()
    module = _module(form, values)
    for side in ("prev", "next"):
        neighbour: Module | None = getattr(module, side)
        if other == (neighbour.value if neighbour else side):
            return {f"{verb}_{side}": True}
    near = " or ".join(n.value for n in (module.prev, module.next) if n)
    line.refuse(f"the neighbour of {module.value} is {near}, found {other!r}", word, len(verb) + 1)


def _module(form: _Form, values: dict[str, Any]) -> Module:
    return form.make(**{key: values[key] for key in (form.suffix,) if key}).module


def read(content: bytes, config: AccelConfig, name: str) -> Program:
    """A program from the content of a file, a text or a binary. Raises ParseError or InputError."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return from_binary(content, config)
    return from_binary(content, config) if "\0" in text else assemble(text, config, name)
