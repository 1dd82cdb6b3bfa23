"""Reads that certainly come first: the interpreter finds each of them, and nothing that may be written first is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import tir
from minitvm.expr import find, replace, rewrite
from minitvm.expr.node import Node
from minitvm.reference.judging.inplace import read_first
from minitvm.reference.strategies.programs import prim_funcs
from minitvm.script import from_source
from minitvm.tir.analysis.first_access import read_before_writes
from tests.fewer import examples


def without_init(func: tir.PrimFunc) -> tir.PrimFunc:
    """The same loops, in which no sum that is a result has an initial value."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, tir.Block) or not isinstance(node.init, tir.BufferStore):
            return None
        return replace(node, init=None) if node.init.buffer in func.buffers else None

    changed: tir.PrimFunc = rewrite(func, change)
    return changed


@examples(25, 300)
@given(prim_funcs(), st.booleans())
def test_the_interpreter_finds_each_read_that_comes_first(func: tir.PrimFunc, keeps_init: bool) -> None:
    func = func if keeps_init else without_init(func)
    written = {store.buffer for store in find(func.body, tir.BufferStore)}
    surely = {k for k, p in enumerate(func.params) if p in written and read_before_writes(func.body, p)}  # type: ignore[arg-type]
    assert surely <= set(read_first(func))


PROGRAM = """
@T.prim_func
def f(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            {}
"""
SUM = "C[vi] = C[vi] + A[vi, vk]"
BODIES = {
    SUM: "C[vi] = C[vi] + A[vi, vk]",
    "C[vi] = A[vi, vk] * T.exp(C[vi])": "C[vi] = A[vi, vk] * T.exp(C[vi])",
    "if C[vi] > A[vi, vk]:\n                C[vi] = A[vi, vk]": "if C[vi] > A[vi, vk]:\n    C[vi] = A[vi, vk]",
    f"with T.init():\n                C[vi] = T.float32(0)\n            {SUM}": "",
    "C[vi] = A[vi, vk]\n            C[vi] = C[vi] + T.float32(1)": "",
    "C[vi] = T.if_then_else(vk == 0, A[vi, vk], C[vi])": "",  # read only after it was written
    f"if vk > 0:\n                {SUM}": "",
}


@pytest.mark.parametrize(("body", "spot"), BODIES.items())
def test_a_read_is_certain_unless_a_condition_may_skip_it(body: str, spot: str) -> None:
    func = from_source(PROGRAM.format(body))
    stmt = read_before_writes(func.body, func.buffers[1])
    assert (
        "" if stmt is None else str(stmt).strip().removeprefix("# from minitvm.script import tir as T").strip()
    ) == spot
