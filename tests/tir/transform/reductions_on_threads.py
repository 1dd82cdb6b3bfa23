"""Random reductions whose loops are bound to the threads of a block, in all the ways that a schedule has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.expr import EQ, GT, SizeVar, binary
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.op import all as every
from minitvm.tir.op import any as some
from minitvm.tir.op import select
from minitvm.tir.schedule import Schedule

Draw = Callable[[st.SearchStrategy[Any]], Any]


def _argmax(ordered: bool) -> Any:
    """The index of the largest value: the first of equals, by its index or (`ordered`) by the order of the values."""

    def combine(x: Any, y: Any) -> Any:
        better = x[1] >= y[1] if ordered else some(binary(GT, x[1], y[1]), every(binary(EQ, x[1], y[1]), y[0] > x[0]))
        return select(better, x[0], y[0]), select(better, x[1], y[1])

    def identity(index: Any, value: Any) -> Any:
        return te.max_value(index), te.min_value(value)

    return te.comm_reducer(combine, identity, "argmax")


REDUCERS = ("sum", "max", "min", "prod", "argmax", "argmax in order")


def reduced_rows(draw: Draw) -> PrimFunc:
    """Rows reduced to an element each, over one axis or two; maybe an open number of rows, and a use of the results."""
    name = draw(st.sampled_from(REDUCERS))
    dtype = draw(st.sampled_from(("float32", "int32", "float64", "int64", "float16") if name in ("max", "min") else
                                 ("float32", "int32", "int64")))  # fmt: skip
    m = draw(st.sampled_from((1, 2, 3, SizeVar("m"))))
    n = draw(st.integers(1, 70))
    over = (n,) if draw(st.booleans()) else (draw(st.integers(1, 4)), max(1, n // 2))
    a = te.placeholder((m, *over), dtype, name="A")
    axes = [te.reduce_axis((0, e), name=f"k{k}") for k, e in enumerate(over)]

    def element(i: Any) -> Any:
        value = a[(i, *(axis.var for axis in axes))]
        if not name.startswith("argmax"):
            return getattr(te, name)(value, axis=axes)
        index = axes[0].var if len(axes) == 1 else axes[0].var * over[1] + axes[1].var
        return _argmax(name.endswith("order"))((index, value), axis=axes)

    result = te.compute((m,), element, name="C")
    if isinstance(result, tuple | list):
        return te.create_prim_func([a, *result])
    if draw(st.booleans()):
        return te.create_prim_func([a, result])
    scaled = te.compute((m, 4), lambda i, j: result[i] * te.const(2, dtype) + te.const(1, dtype), name="D")
    return te.create_prim_func([a, scaled])


def on_threads(draw: Draw) -> tuple[PrimFunc, Schedule]:
    """A reduction and a schedule that binds its loops, or parts of them, to threadIdx."""
    func = reduced_rows(draw)
    sch = Schedule(func)
    i, *over = sch.get_loops("C")
    axes = iter(draw(st.sampled_from((("x",), ("x", "y"), ("y", "x"), ("y",)))))
    block = sch.get_block("C")
    rows = draw(st.sampled_from(("blocks", "blocks and threads", "inside")))
    if rows == "blocks":
        sch.bind(i, "blockIdx.x")
    elif rows == "blocks and threads":
        outer, inner = sch.split(i, [None, draw(st.sampled_from((2, 3)))])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.z")
    fused = sch.fuse(*over) if len(over) > 1 and draw(st.booleans()) else None
    loops = over if fused is None else [fused]
    if draw(st.booleans()) and rows == "blocks":
        sch.decompose_reduction(block, loops[0])
    for loop in loops[: draw(st.integers(1, len(loops)))]:
        axis = next(axes, None)
        if axis is None:
            break
        threads = draw(st.sampled_from((2, 3, 5, 8, 20, 32, 40, 64) if loop is loops[0] else (2, 3, 4)))
        halves = sch.split(loop, [threads, None] if draw(st.booleans()) else [None, threads])
        team = halves[0] if sch.get(halves[0]).extent.value == threads and draw(st.booleans()) else halves[1]
        if sch.get(team).extent.value <= 64:
            sch.bind(team, f"threadIdx.{axis}")
    return func, sch
