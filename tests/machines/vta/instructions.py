"""Strategies of instructions whose numbers fit their fields, and of whole texts."""

from __future__ import annotations

from hypothesis import strategies as st

from minitvm.machines.vta.config import AccelConfig, Scratchpad
from minitvm.machines.vta.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MicroOp, Store

TOKENS = {name: st.booleans() for name in ("pop_prev", "pop_next", "push_prev", "push_next")}


def below(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(0, (1 << bits) - 1), st.sampled_from([0, 1, (1 << bits) - 1]))


def pair(bits: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(below(bits), below(bits))


def instructions(config: AccelConfig) -> st.SearchStrategy[Instruction]:
    """Any instruction that has an encoding, also those that no program may hold."""
    w = config.widths
    transfer = {
        "memory": st.sampled_from(Scratchpad), "sram": below(w.sram), "dram": below(w.dram), "y_size": below(w.size),
        "x_size": below(w.size), "x_stride": below(w.stride), **TOKENS,
    }  # fmt: skip
    loops = {
        "uop_begin": below(w.uop), "uop_end": below(w.uop + 1), "outer": below(w.loop), "inner": below(w.loop),
        "dst_factors": pair(w.acc), **TOKENS,
    }  # fmt: skip
    signed = st.integers(-(1 << (w.immediate - 1)), (1 << (w.immediate - 1)) - 1)
    return st.one_of(
        st.builds(Load, pads=st.tuples(*[below(w.pad)] * 4), pad_least=st.booleans(), **transfer),
        st.builds(Store, **transfer),
        st.builds(Gemm, reset=st.booleans(), src_factors=pair(w.inp), wgt_factors=pair(w.wgt), **loops),
        st.builds(
            Alu,
            op=st.sampled_from(AluOp),
            immediate=st.one_of(st.none(), signed),
            src_factors=pair(w.acc),
            **loops,
        ),
        st.builds(Finish, **TOKENS),
    )


def micro_ops(config: AccelConfig) -> st.SearchStrategy[MicroOp]:
    w = config.widths
    return st.builds(MicroOp, below(w.acc), below(max(w.acc, w.inp)), below(w.wgt))
