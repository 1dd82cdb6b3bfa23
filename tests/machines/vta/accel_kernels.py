"""Random operations on registers, as kernels: each is right on the accelerator, or refused if it is no instruction."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.errors import Unsupported
from minitvm.machines.scratchpad.instruction_set import SET, Elements
from minitvm.machines.scratchpad.transform import fetch_order, insert_tokens
from minitvm.machines.vta.emitter import program_of
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from tests.machines.vta.accel_programs import SMALL

NAMES = Elements(1, 4, 4)
REGISTERS = 8  # of 4 numbers
WIDEST = 1 << 15  # a constant is below
_FORMULAS = {
    "add": "{a} + {b}", "min": "T.min({a}, {b})", "max": "T.max({a}, {b})", "shr": "T.shift_right({a}, {b})",
    "shl": "T.shift_left({a}, {b})",
}  # fmt: skip


def kernel(body: str, params: str = 'D: T.Buffer((64,), "int8")') -> PrimFunc:
    """A kernel as text; instructions are named by their operations."""
    for op in SET.operations:
        body = body.replace(f'"{op}"', f'"{NAMES.name(op)}"')
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    head = f'@T.prim_func(lowered=True)\ndef k({params}):\n    C = T.decl_buffer((64,), "int32", scope="acc")\n'
    return from_source(head + lines)


def _instruction(name: str, count: int, tiles: list[str], scalars: list[int], value: str, into: str) -> str:
    operands = ", ".join([f'"{name}"', str(count), *tiles, *map(str, scalars)])
    return f"with T.instruction({operands}):\n    for n, j in T.grid({count}, 4):\n        {into} = {value}\n"


def _tile(first: int, buffer: str = "C") -> str:
    at = 4 * first
    return f"T.tile({buffer}[{at}], {buffer}[{at + 4}], {buffer}[{at}], {buffer}[{at + 1}])"


def _at(first: int, buffer: str = "C") -> str:
    return f"{buffer}[{4 * first} + n * 4 + j]"


def _constant(draw: random.Random) -> tuple[int, bool]:
    """A constant, and whether an instruction holds it."""
    value = draw.choice((draw.randint(-200, 200), draw.randint(-200, 200), draw.choice((-1, 1)) * WIDEST, WIDEST - 1))
    return value, -WIDEST <= value < WIDEST


def _immediate(draw: random.Random) -> tuple[str, bool]:
    """An operation with a constant."""
    op = draw.choice(tuple(_FORMULAS))
    value, fits = (draw.randint(0, 6), True) if op in ("shr", "shl") else _constant(draw)
    first = draw.choice((0, 2, 4))
    into = first if draw.random() < 0.9 else (first + 2) % REGISTERS
    text = _FORMULAS[op].format(a=_at(first), b=value)
    return _instruction(f"alu_{op}_imm", 2, [_tile(first), _tile(into)], [value], text, _at(into)), (
        fits and into == first
    )


def _pair(draw: random.Random) -> tuple[str, bool]:
    """An operation with other registers."""
    op = draw.choice(("add", "min", "max"))
    first, second = draw.sample((0, 2, 4, 6), 2)
    into = first if draw.random() < 0.9 else second
    text = _FORMULAS[op].format(a=_at(first), b=_at(second))
    return _instruction(f"alu_{op}", 2, [_tile(first), _tile(second), _tile(into)], [], text, _at(into)), into == first


def _clip(draw: random.Random) -> tuple[str, bool]:
    """Limits on both sides, of one size or not."""
    most = draw.randint(1, 100)
    least = -most if draw.random() < 0.7 else draw.randint(-100, 0)
    first = draw.choice((0, 2, 4))
    text = f"T.max(T.min({_at(first)}, {most}), {least})"
    return _instruction("alu_clip_imm", 2, [_tile(first)] * 2, [most, least], text, _at(first)), least == -most


_STEPS: tuple[Callable[[random.Random], tuple[str, bool]], ...] = (_immediate, _immediate, _pair, _clip)


def drawn(seed: int) -> tuple[PrimFunc, bool]:
    """A kernel that computes with constants, and whether each of its steps is an instruction of the machine."""
    draw = random.Random(seed)
    body, legal = "", True
    for register in range(0, REGISTERS, 2):
        value = draw.randint(-150, 150)
        body += _instruction("fill_imm", 2, [_tile(register)], [value], str(value), _at(register))
    for _ in range(draw.randint(1, 4)):
        text, ours = draw.choice(_STEPS)(draw)
        body, legal = body + text, legal and ours
    stored = f'T.Cast("int8", {_at(0)})'
    body += _instruction("store", REGISTERS, [_tile(0), _tile(0, "D")], [], stored, _at(0, "D"))
    return kernel(body, f'D: T.Buffer(({4 * REGISTERS},), "int8")'), legal


def computed_or_refused(seed: int) -> None:
    """A kernel is refused exactly if a step of it is no instruction; else the machine computes what it says."""
    func, legal = drawn(seed)
    try:
        program = program_of(insert_tokens(fetch_order(func), SMALL), SMALL.config)
    except Unsupported as refused:
        assert not legal, f"{func}\nis refused: {refused}"
        return
    assert legal, f"{func}\nis not refused"
    verify(program, SMALL.config)
    expected: Any = np.zeros(4 * REGISTERS, np.int8)
    interpreter.run(func, expected)
    found = accel.check(program, SMALL.config, {}, orders=2).outputs["D"]
    assert np.array_equal(found.reshape(-1), expected), str(func)
