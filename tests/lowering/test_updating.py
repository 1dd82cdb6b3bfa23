"""A function that updates its input where it lies means what it meant on a copy, or is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from minitvm.errors import InternalError
from minitvm.graph import GraphBuilder
from minitvm.lowering.function import updating
from minitvm.lowering.units import SharedFunction
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc

LOOPS = ("4, 4", "4, 3", "(1, 4), 4")
COPIES = {
    "all": "r[vi, vj] = p[vi, vj]", "turned": "r[vi, vj] = p[vj, vi]", "scaled": "r[vi, vj] = p[vi, vj] * 2",
    "of another": "r[vi, vj] = q[vi, vj]", "to a column": "r[vi, 0] = p[vi, 0]",
}  # fmt: skip
CONDITIONS = ("", "T.where(i < 3)")
BEFORE = ("", "S[0] = q[0, 1]", "S[0] = p[0, 1]", "r[0, 0] = 5")
AFTER = ("r[1, 1] = r[1, 2] + q[0, 0]", "r[1, 1] = p[1, 2]", "r[1, 1] = S[0]", "q[0, 0] = p[0, 0]")


def function(loops: str, copy: str, condition: str, before: str, after: str) -> PrimFunc:
    first, second = loops.rsplit(", ", 1)
    func = from_source(f"""
@T.prim_func
def f(p: T.Buffer((4, 4), "int32"), q: T.Buffer((4, 4), "int32"), r: T.Buffer((4, 4), "int32")):
    S = T.alloc_buffer((1,), "int32")
    S[0] = 3
    {before or "T.evaluate(0)"}
    for i in range({first.strip("()")}):
        for j in range({second}):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                {condition or "T.where(True)"}
                {copy}
    {after}
""")
    assert isinstance(func, PrimFunc)
    return func


def arrays() -> list[np.ndarray]:
    return [np.arange(16, dtype=np.int32).reshape(4, 4) * k + 1 for k in (1, 3, 7)]


@pytest.mark.parametrize("copy", COPIES)
def test_a_function_that_updates_its_input_means_what_it_did(copy: str) -> None:
    updated = 0
    for loops, condition, before, after in itertools.product(LOOPS, CONDITIONS, BEFORE, AFTER):
        func = function(loops, COPIES[copy], condition, before, after)
        try:
            in_place = updating(func, 0)
        except InternalError:
            continue
        updated += 1
        (_, q, r), (old, other, _) = arrays(), arrays()
        interpreter.run(func, arrays()[0], q, r, inout=["q", "r"])
        interpreter.run(in_place, other, old, inout=["q", "r"])
        np.testing.assert_array_equal(old, r, err_msg=f"{func}")
        np.testing.assert_array_equal(other, q, err_msg=f"{func}")
    assert updated == (4 if copy == "all" else 0)


def test_what_is_updated_is_a_part_of_what_a_function_is() -> None:
    b = GraphBuilder("sum")
    graph = b.build(b.op("add", b.input("x", (4,)), b.input("y", (4,))))
    keys = {SharedFunction("f", graph, number).key for number in (None, 0, 1)}
    assert len(keys) == 3
