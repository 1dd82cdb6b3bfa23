"""T.assume: checked by the interpreters, left out of compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import ExecutionError
from minitvm.expr import structural_equal
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.tir.assumptions import left_out
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower


def padded(size: int, tile: int, assumption: str = "") -> PrimFunc:
    """Copies the elements of an array in tiles; the padding is assumed to be zero."""
    tiles = -(-size // tile)
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({tiles}, {tile}), "float32"), B: T.Buffer(({size},), "float32")):
{assumption}
    for i in range({size}):
        with T.block("B"):
            vi = T.axis.spatial({size}, i)
            B[vi] = A[vi // {tile}, vi % {tile}] * T.float32(2)
""")


def in_a_block(size: int, tile: int) -> str:
    return f"""
    for i, j in T.grid({-(-size // tile)}, {tile}):
        with T.block("A_assumptions"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.assume(vi * {tile} + vj < {size} or A[vi, vj] == T.float32(0))
"""


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_an_assumption_that_is_false_is_an_error_of_the_run(size: int, tile: int, data: st.DataObject) -> None:
    func = padded(size, tile, in_a_block(size, tile))
    a = np.ones((-(-size // tile), tile), "float32")
    a.reshape(-1)[size:] = data.draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0]), min_size=tile, max_size=tile))[
        : a.size - size
    ]
    holds = not a.reshape(-1)[size:].any()
    for mode in ("fast", "slow"):
        b = np.zeros(size, "float32")
        if not holds:
            with pytest.raises(ExecutionError, match=r"assertion failed: T\.assume"):
                interpreter.run(func, a, b, mode=mode)
            continue
        interpreter.run(func, a, b, mode=mode)
        np.testing.assert_array_equal(b, a.reshape(-1)[:size] * 2)


def test_compiled_code_leaves_assumptions_out() -> None:
    """With the loops and blocks that hold nothing else."""
    plain, func = padded(14, 4), padded(14, 4, in_a_block(14, 4))
    assert structural_equal(left_out(func), plain)
    assert lower(func).script() == lower(plain).script()
    assert left_out(plain) is plain


def test_an_assumption_stays_where_steps_change_what_is_around_it() -> None:
    func = padded(8, 4, "    T.assume(A[0, 0] == A[0, 0])")
    sch = Schedule(func)
    sch.split(sch.get_loops("B")[0], [None, 4])
    assert "T.assume" in sch.func.script()
    assert check(func, sch.func)


def test_a_check_whose_inputs_break_an_assumption_says_so() -> None:
    func = padded(14, 4, in_a_block(14, 4))
    with pytest.raises(ExecutionError, match=r"T\.assume"):
        check(func, func)
