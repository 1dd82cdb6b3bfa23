"""Programs for the differential fuzzer: those of `prim_funcs`, often with a scalar function applied to a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm.expr import Expr, IterVar, Max, Min, Range, Var, binary, call, const
from minitvm.reference.strategies import prim_funcs
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    Seq,
    Stmt,
    root_block,
    with_root,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "exp": lambda x: call("exp", x),
    "relu": lambda x: binary(Max, x, 0),
    "shift": lambda x: x + 3,
    "clip": lambda x: binary(Min, binary(Max, x, -2), 2),
    "scale": lambda x: x * 2,
    "square": lambda x: x * x,
    "tanh": lambda x: call("tanh", x),
    "sigmoid": lambda x: call("sigmoid", x),
}
_ON_INTEGERS = ("relu", "shift", "clip", "scale", "square")


@st.composite
def programs(draw: Draw) -> PrimFunc:
    """A function of one to four blocks."""
    func: PrimFunc = draw(prim_funcs(max_blocks=3))
    if not draw(st.booleans()):
        return func
    result = draw(st.sampled_from(_results(func)))
    return with_function(func, result, draw(st.sampled_from(_fitting(result))))


def _results(func: PrimFunc) -> list[Buffer]:
    """The outputs: they stand last."""
    return [b for b in func.buffers if b.name[0] in "BCDEFGH"]


def _fitting(buffer: Buffer) -> list[str]:
    return list(FUNCTIONS) if buffer.dtype.is_float else list(_ON_INTEGERS)


def with_function(func: PrimFunc, result: Buffer, function: str) -> PrimFunc:
    """The program with one more block, which applies a function to a result; that result becomes a buffer inside."""
    final = Buffer("OUT", result.shape, result.dtype)
    loops = [Var(name, d.dtype) for name, d in zip("ijkl", result.shape)]
    iters = [Var(f"v{loop.name}", loop.dtype) for loop in loops]
    points = tuple(Range(v, const(1, v.dtype)) for v in iters)
    block = Block(
        tuple(IterVar(v, Range.of(d), "S") for v, d in zip(iters, result.shape)),
        (BufferRegion(result, points),),
        (BufferRegion(final, points),),
        "OUT",
        BufferStore(final, FUNCTIONS[function](result[tuple(iters)]), tuple(iters)),
    )
    nest: Stmt = BlockRealize(tuple(loops), const(True), block)
    for loop, extent in reversed(list(zip(loops, result.shape))):
        nest = For(loop, const(0, extent.dtype), extent, ForKind.SERIAL, nest)
    root = root_block(func)
    params = (*(p for p in func.params if p is not result), final)
    return with_root(params, Seq.of(root.body, nest), func.attrs, (*root.alloc_buffers, result))
