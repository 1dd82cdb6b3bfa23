"""The external memory of an accelerator, and the options of its ALU that the first VTA did not have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dram:
    """The external memory: the bytes that it moves per cycle, and the cycles until the first byte of a request arrives.

    A request has at most `burst` bytes, and a module has at most `outstanding` unanswered requests.
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

    `multiply_bits`: ALU MUL multiplies this many low bits of both operands, signed; 0 means that there is no MUL.
    `pad_value`: LOAD may pad with the least value of the dtype instead of zero. `clip`: ALU CLIP limits a value to the
    range from -b to b. `widen`: LOAD can widen numbers of the result's dtype into registers (ACC8), so that results can
    be used as operands.
    """

    multiply_bits: int = 0
    pad_value: bool = False
    clip: bool = False
    widen: bool = False


MEMORIES = {
    "tsim": Dram("tsim", latency=1),
    "board": Dram("board", latency=100),
}
