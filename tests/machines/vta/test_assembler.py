"""Text: what is printed reads back to the same program, and mistakes are pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InputError, ParseError
from minitvm.machines.vta.assembler import assemble, read
from minitvm.machines.vta.config import configured
from minitvm.machines.vta.disassembler import disassemble, disassemble_binary
from minitvm.machines.vta.encoding import encode_program
from minitvm.machines.vta.isa import DramBuffer, Load, Program, Scratchpad
from minitvm.reference.strategies import accelerator_programs

from .instructions import instructions

VTA = configured("vta")

PROGRAM = """\
.constant kernel uop at 0 count 2
    0 0 0
    1 0 0
.input x inp at 64 count 8
.input w wgt at 256 count 1
.output y out at 512 count 8
load.uop sram=0 dram=kernel y=1 x=2 stride=2
load.inp sram=0 dram=x+4 y=2 x=2 stride=2 pads=1,0,0,1 push(compute)
load.wgt sram=0 dram=w y=1 x=1 stride=1 push(compute)
gemm uops=0:2 loops=1,1 dst=0,0 src=0,0 wgt=0,0 reset
gemm uops=0:2 loops=2,1 dst=2,0 src=1,0 wgt=0,0 pop(load)
alu.shr uops=0:2 loops=1,1 dst=0,0 src=0,0 imm=-3 push(store)
alu.add uops=0:1 loops=1,1 dst=0,0 src=1,0 pop(load)
store.out sram=0 dram=y y=1 x=2 stride=2 pop(compute) push(compute)
finish pop(store)
"""


def test_the_text_of_a_program_is_what_is_printed() -> None:
    program = assemble(PROGRAM, VTA)
    assert disassemble(program, VTA) == PROGRAM
    assert [str(one).split()[0] for one in program.instructions[:4]] == ["load.uop", "load.inp", "load.wgt", "gemm"]
    second = program.instructions[1]
    assert isinstance(second, Load)
    assert (second.dram, second.pads, second.push_next) == (64 // 16 + 4, (1, 0, 0, 1), True)


def test_comments_defaults_and_hexadecimal_numbers() -> None:
    short = assemble("; nothing\n.input x inp at 0x40 count 8 ; an image\n\nload.inp dram=x x=0x8 ; all of it\n", VTA)
    assert short.buffers == (DramBuffer("x", "input", Scratchpad.INP, 64, 8),)
    assert short.instructions == (Load(memory=Scratchpad.INP, dram=4, x_size=8),)


@given(st.lists(instructions(VTA), max_size=6))
def test_any_instructions_read_back(some) -> None:
    program = Program((), tuple(some))
    assert assemble(disassemble(program, VTA), VTA) == program
    assert disassemble_binary(encode_program(some, VTA), VTA) == disassemble(program, VTA)
    assert read(encode_program(some, VTA), VTA, "binary").instructions == tuple(some) or not some


@given(accelerator_programs())
def test_whole_programs_read_back(drawn) -> None:
    text = disassemble(drawn.program, drawn.config)
    assert assemble(text, drawn.config) == drawn.program
    assert disassemble(assemble(text, drawn.config), drawn.config) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frob", "line 1, column 1: no instruction is called 'frob'"),
        ("gem uops=0:1", "did you mean gemm?"),
        ("load.foo", "column 6: wanted one of load.uop, load.wgt"),
        ("\n  gemm.x uops=0:1", "line 2, column 7: gemm stands alone"),
        ("gemm uops=3", "column 11: uops is 2 numbers with ':' between"),
        ("gemm uops=0:b", "column 13: wanted a number, found 'b'"),
        ("gemm loops=1,,", "loops is 2 numbers with ',' between"),
        ("finish sram=1", "finish has no 'sram'; it has pop(...), push(...)"),
        ("load.inp sram=1 sram=2", "column 17: sram stands here twice"),
        ("load.inp push(store)", "column 15: the neighbour of load is compute, found 'store'"),
        ("load.inp dram=x", "column 15: no buffer is called 'x'"),
        (".input x wgt at 0 count 1\nload.inp dram=x", "line 2, column 10: x has elements of wgt"),
        (".input x inp at 8 count 1\nload.inp dram=x", "x begins within an element: inp has 16 bytes"),
        (".input x inp at 0", "column 1: a buffer is written  .input NAME KIND at ADDRESS count NUMBER"),
        (".inptu x inp at 0 count 1", "did you mean input?"),
        (".input 1x inp at 0 count 1", "column 8: '1x' is not a name"),
        (".input x foo at 0 count 1", "column 10: no kind of element is called 'foo'"),
        (".constant x inp at 0 count 1", "constants are micro-ops"),
        (".input x inp at 0 count 1\n.output x out at 64 count 1", "line 2, column 9: two buffers are called x"),
        (".constant k uop at 0 count 2\n 0 0 0\nfinish", "line 1, column 29: k has 2 micro-ops; 1 follow"),
        (".constant k uop at 0 count 1\n 0 0\nfinish", "line 2, column 2: a micro-op is three numbers"),
    ],
)  # fmt: skip
def test_mistakes_are_pointed_at(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        assemble(text, VTA)
    first, line, caret = str(caught.value).splitlines()
    assert message in first
    number = int(first.split(",")[0].removeprefix("line "))
    assert line == f"    {text.splitlines()[number - 1].rstrip()}"
    assert caret == " " * (3 + int(first.split("column ")[1].split(":")[0])) + "^"


def test_a_binary_that_is_none() -> None:
    with pytest.raises(InputError, match="instruction 0: "):
        read(b"\xff" * 16, VTA, "x")
