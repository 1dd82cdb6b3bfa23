# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""What the machine does to one element, for `tensorize`. Three of five are those of any machine with scratchpads.

load_inp, load_inp_padded, load_wgt, reset, gemm    as `machines.scratchpad.instruction_set` has them
store             a row of sums shifted, at most 127, at least `least`, as bytes in memory
alu_accumulate    a row of sums += a row of memory
"""

from __future__ import annotations

from functools import partial

from ...tir.nodes import PrimFunc
from ..scratchpad.instruction_set import Elements, InstructionSet, gemm, load, reset


def _store(e: Elements) -> PrimFunc:
    from ...tir.script import builtins as T

    rows, columns, acc, out = e.batch, e.block_out, e.acc, e.out

    @T.prim_func
    def desc(
        S: T.Buffer((rows, columns), acc, scope="acc"), D: T.Buffer((rows, columns), out), shift: T.int32,
        least: T.int32,
    ) -> None:  # fmt: skip
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = T.Cast(out, T.max(T.min(T.shift_right(S[vi, vj], shift), T.int32(127)), least))

    return desc


def _accumulate(e: Elements) -> PrimFunc:
    from ...tir.script import builtins as T

    rows, columns, acc = e.batch, e.block_out, e.acc

    @T.prim_func
    def desc(
        S: T.Buffer((rows, columns), acc, scope="acc"), R: T.Buffer((rows, columns), acc),
        D: T.Buffer((rows, columns), acc, scope="acc"),
    ) -> None:  # fmt: skip
        with T.block("root"):
            T.reads(S[0:rows, 0:columns], R[0:rows, 0:columns])
            T.writes(D[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("accumulate"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = S[vi, vj] + R[vi, vj]

    return desc


def _unit(operation: str) -> str:
    if operation == "store":
        return "store"
    return "load" if operation.startswith("load") or operation == "alu_accumulate" else "execute"


SET = InstructionSet(
    "gemmini", "gemmini-asm", f"{__package__}.emitter",
    {
        **{f"load_{what}": partial(load, what=what) for what in ("inp", "inp_padded", "wgt")},
        "reset": reset, "gemm": gemm, "store": _store, "alu_accumulate": _accumulate,
    },
    _unit,
)  # fmt: skip
