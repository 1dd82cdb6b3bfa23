"""Instructions as bits: every instruction survives the way there and back, and fields lie where VTA has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.machines.vta.config import configured
from minitvm.machines.vta.encoding import (
    decode,
    decode_micro_op,
    decode_program,
    encode,
    encode_micro_op,
    encode_program,
    fields,
)
from minitvm.machines.vta.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MicroOp, Scratchpad, Store

from .instructions import instructions, micro_ops

CONFIGS = [
    configured("vta"),
    configured("vdla"),
    configured("vta", block_in=32, block_out=32),
    configured("vta", acc_bytes=1 << 14),
]
each_config = pytest.mark.parametrize("config", CONFIGS, ids=["vta", "vdla", "large", "narrow"])


@each_config
@given(data=st.data())
def test_decode_inverts_encode(config, data) -> None:
    one = data.draw(instructions(config))
    word = encode(one, config)
    assert 0 <= word < 1 << 128
    assert decode(word, config) == one


@each_config
@given(data=st.data())
def test_encode_inverts_decode_or_the_word_is_refused(config, data) -> None:
    """Any 128 bits are an instruction that encodes to the same bits, or an InputError."""
    word = data.draw(st.integers(0, (1 << 128) - 1)) & data.draw(st.sampled_from([(1 << 128) - 1, (1 << 58) - 1, 127]))
    try:
        one = decode(word, config)
    except InputError:
        return
    assert encode(one, config) == word


@given(st.lists(instructions(CONFIGS[0]), max_size=5))
def test_programs_as_bytes(some: list[Instruction]) -> None:
    data = encode_program(some, CONFIGS[0])
    assert len(data) == 16 * len(some)
    assert decode_program(data, CONFIGS[0]) == tuple(some)


@each_config
@given(data=st.data())
def test_micro_ops(config, data) -> None:
    op = data.draw(micro_ops(config))
    assert decode_micro_op(encode_micro_op(op, config), config) == op


@pytest.mark.parametrize("kind", [Load, Store, Gemm, Alu, Finish])
def test_fields_share_no_bit_and_cross_no_word(kind) -> None:
    taken: set[int] = set()
    for place in fields(kind, CONFIGS[0].widths):
        bits = set(range(place.low, place.low + place.bits))
        assert not bits & taken
        assert place.low // 64 == (place.low + place.bits - 1) // 64
        taken |= bits


@pytest.mark.parametrize(
    ("instruction", "path", "low", "bits"),
    [
        (Load, "opcode", 0, 3), (Load, "pop_prev", 3, 1), (Load, "push_next", 6, 1), (Load, "memory", 7, 3),
        (Load, "sram", 10, 16), (Load, "dram", 26, 32), (Load, "y_size", 64, 16), (Load, "x_size", 80, 16),
        (Load, "x_stride", 96, 16), (Load, "pads.0", 112, 4), (Load, "pads.3", 124, 4), (Gemm, "reset", 7, 1),
        (Gemm, "uop_begin", 8, 13), (Gemm, "uop_end", 21, 14), (Gemm, "outer", 35, 14), (Gemm, "inner", 49, 14),
        (Gemm, "dst_factors.0", 64, 11), (Gemm, "src_factors.0", 86, 11), (Gemm, "wgt_factors.1", 118, 10),
        (Alu, "op", 108, 3), (Alu, "use_immediate", 111, 1), (Alu, "immediate", 112, 16),
    ],
)  # fmt: skip
def test_fields_lie_where_vta_has_them(instruction, path, low, bits) -> None:
    """The layout of `hw_spec.h` for VTA's own configuration."""
    place = next(f for f in fields(instruction, CONFIGS[0].widths) if f.path == path)
    assert (place.low, place.bits) == (low, bits)


def test_bits_of_one_instruction_by_hand() -> None:
    one = Load(memory=Scratchpad.INP, sram=3, dram=5, y_size=2, x_size=7, x_stride=9, pads=(1, 0, 2, 0), push_next=True)
    low = 1 << 6 | 2 << 7 | 3 << 10 | 5 << 26
    high = 2 | 7 << 16 | 9 << 32 | 1 << 48 | 2 << 56
    assert encode(one, CONFIGS[0]) == high << 64 | low
    assert encode(Finish(pop_next=True), CONFIGS[0]) == 3 | 1 << 4
    assert encode(Alu(op=AluOp.SHR, immediate=-1), CONFIGS[0]) >> 108 == 3 | 1 << 3 | 0xFFFF << 4
    assert encode_micro_op(MicroOp(1, 2, 3), CONFIGS[0]) == 1 | 2 << 11 | 3 << 22


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda c: encode(Gemm(uop_end=1 << 14), c), "uop_end from 0 to 16383"),
        (lambda c: encode(Alu(op=AluOp.ADD, immediate=1 << 15), c), "immediate from -32768 to 32767"),
        (lambda c: encode_micro_op(MicroOp(0, 0, 1024), c), "wgt from 0 to 1023"),
        (lambda c: decode(7, c), "an opcode from 0 to 4"),
        (lambda c: decode(3 | 1 << 100, c), "zeros beside the fields of FINISH"),
        (lambda c: decode(7 << 7, c), "memory 7"),
        (lambda c: decode(1 | 4 << 7 | 1 << 112, c), "STORE has no pads"),
        (lambda c: decode(4 | 1 << 112, c), "ALU has no immediate"),
        (lambda c: decode_program(b"123", c), "has 3 bytes"),
        (lambda c: decode_program(encode(Finish(), c).to_bytes(16, "little") + b"\x07" * 16, c), "instruction 1: "),
    ],
)
def test_what_has_no_encoding_is_refused_in_words(make, words) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make(CONFIGS[0])
