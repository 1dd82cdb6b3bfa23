"""What a run of statements loads twice is loaded once, where it is certainly loaded."""

from __future__ import annotations

import pytest

from minitvm.compat.tvm.ir import IRModule
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower

GUARDS = ("vi < 8 and A[vi] > 0", "vi >= 8 or A[vi] > 0", "not (vi >= 8 or A[vi] > 0)", "0 < vi and A[vi - 1] > 0")


@pytest.mark.parametrize("guard", GUARDS)
def test_a_load_that_the_left_operand_guards_stays_behind_it(guard: str) -> None:
    n = 8 if "vi - 1" in guard else 16
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer(({n},), "int32"), C: T.Buffer(({n},), "int32")):
    for i in range({n}):
        with T.block("b"):
            vi = T.axis.spatial({n}, i)
            T.reads(A[0:8])
            T.writes(B[vi], C[vi])
            B[vi] = T.Select({guard}, 1, 2)
            C[vi] = T.Select({guard}, 3, 4)
"""
    func = from_source(text)
    func = func if isinstance(func, PrimFunc) else IRModule(func.functions)["main"]
    assert check(func, lower(func, None, "main"))
