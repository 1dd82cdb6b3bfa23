"""The memory outside of an accelerator, and what its ALU may have beyond the first VTA."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dram:
    """The memory outside: how many bytes it moves in a cycle, and how many cycles a request waits for its first byte.

    A module asks for at most `burst` bytes at once, and for at most `outstanding` requests before the first is served.
    """

    name: str = "tsim"
    bytes_per_cycle: int = 8
    latency: int = 1
    burst: int = 256
    outstanding: int = 8


@dataclass(frozen=True, slots=True)
class AluOptions:
    """Options of an ALU that later versions of VTA added.

    Banerjee et al., arXiv 2111.15024; `VTA_MEM_ID_ACC_8BIT` in VTA's `hw_spec.h`.

    `multiply_bits`: ALU MUL multiplies so many low bits of both operands, signed; 0 is no MUL.
    `pad_value`: LOAD may pad with the least value of the dtype instead of zero.
    `clip`: ALU CLIP keeps a value between -b and b.
    `widen`: LOAD brings numbers of the dtype of results into registers (ACC8), so results can be computed with again.
    """

    multiply_bits: int = 0
    pad_value: bool = False
    clip: bool = False
    widen: bool = False


MEMORIES = {
    "tsim": Dram("tsim", latency=1),
    "board": Dram("board", latency=100),
}
