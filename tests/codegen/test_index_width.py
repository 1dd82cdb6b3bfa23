"""Indices of 32 bits: only where every step of computing them fits."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.codegen.index_width import index_dtype
from minitvm.codegen.spelling import is_index
from minitvm.expr import Expr, IntImm, Var, walk
from minitvm.script import tir as T
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, PrimFunc

SIZE = 1 << 20  # of the buffer
OPERATIONS: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


@st.composite
def kernels(draw: st.DrawFn) -> PrimFunc:
    """A nest of loops whose store has an index of sums, products, quotients and remainders; some are large.

    A loop may start far up, where only its end does not fit into 32 bits.
    """
    loops = []
    for k in range(draw(st.integers(1, 3))):
        extent = draw(st.integers(1, 70000))
        start = draw(st.sampled_from([0, 0, 0, 3, 2**31 - 1 - extent, 2**31 - extent]))
        loops.append((Var(f"i{k}", "int64"), start, extent))
    index: Any = draw(st.sampled_from([var for var, *_ in loops]))
    for _ in range(draw(st.integers(0, 5))):
        other = draw(st.sampled_from([*(var for var, *_ in loops), *map(IntImm, (1, 3, 64, 4096, 60000))]))
        kind = draw(st.sampled_from(["+", "-", "*", "*", "//", "%"]))
        constant = IntImm(draw(st.sampled_from([2, 7, 64])))
        operands = (index, constant if kind in ("//", "%") else other)
        index = OPERATIONS[kind](*operands)
    buffer = Buffer("A", (SIZE,), "float32")
    body: Any = BufferStore(buffer, T.float32(0), (index,))
    for var, start, extent in reversed(loops):
        body = For(var, IntImm(start, var.dtype), IntImm(extent, var.dtype), ForKind.SERIAL, body)
    return PrimFunc((buffer,), body, {"global_symbol": "k"})


def corners(func: PrimFunc) -> list[dict[Var, int]]:
    """Points at the ends of the loops, one beside them, and one inside."""
    ranges = []
    for node in walk(func.body):
        if isinstance(node, For):
            first, last = node.start.value, node.extent.value - 1  # type: ignore[attr-defined]
            ranges.append((node.var, sorted(first + k for k in {0, min(1, last), last // 2, max(0, last - 1), last})))
    return [dict(zip((v for v, _ in ranges), point)) for point in itertools.product(*(values for _, values in ranges))]


def value(e: Any, env: dict[Var, int]) -> int:
    """An index in numbers without bounds."""
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, IntImm):
        return int(e.value)
    a, b = value(e.a, env), value(e.b, env)
    kind = type(e).__name__
    return {"Add": a + b, "Sub": a - b, "Mul": a * b}[kind] if kind in ("Add", "Sub", "Mul") else (
        a // b if kind == "FloorDiv" else a % b)  # fmt: skip


def all_points(func: PrimFunc) -> list[dict[Var, int]]:
    """All points of the loops."""
    loops: list[Any] = [n for n in walk(func.body) if isinstance(n, For)]
    points = itertools.product(*(range(n.start.value, n.start.value + n.extent.value) for n in loops))
    return [dict(zip((n.var for n in loops), p)) for p in points]


@given(kernels())
def test_every_step_of_an_index_of_32_bits_fits(func: PrimFunc) -> None:
    if index_dtype(func) != "int32":
        return
    steps = [node for node in walk(func.body) if isinstance(node, Expr) and is_index(node)]
    steps += [node.start + node.extent for node in walk(func.body) if isinstance(node, For)]
    for env in corners(func):
        for step in steps:
            assert -(2**31) <= value(step, env) < 2**31, str(step)


@pytest.mark.parametrize(("n", "bits"), [(2**31 - 1, 32), (2**31, 64), (2**33, 64)])
def test_the_border_is_where_it_is(n: int, bits: int) -> None:
    i = Var("i", "int64")
    buffer = Buffer("A", (n,), "float32")
    store = BufferStore(buffer, T.float32(0), (i,))
    func = PrimFunc((buffer,), For(i, IntImm(0, "int64"), IntImm(n, "int64"), ForKind.SERIAL, store))
    assert index_dtype(func).bits == bits
