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


# Programs on which a primitive has something to do, for most of its calls.
SUITED: dict[str, st.SearchStrategy[PrimFunc]] = {
    "decompose_padding": prim_funcs(kinds=("pad",), max_blocks=2),
    "decompose_reduction": prim_funcs(kinds=("reduce", "matmul", "stencil"), max_blocks=2),
    "pad_einsum": prim_funcs(kinds=("matmul", "reduce", "elementwise"), max_blocks=2),
    "cache_index": prim_funcs(kinds=("reshape", "gather", "stride"), max_blocks=2),
    "rolling_buffer": prim_funcs(kinds=("stencil", "elementwise"), min_blocks=2, max_blocks=3),
    "rfactor": prim_funcs(kinds=("reduce", "matmul", "stencil"), max_blocks=2),
    "transform_layout": prim_funcs(min_blocks=2),
    "compute_at": prim_funcs(min_blocks=2),
    "reverse_compute_at": prim_funcs(min_blocks=2),
    "merge": prim_funcs(min_blocks=2),
}


@st.composite
def reductions_with_function(draw: Draw) -> PrimFunc:
    """A reduction, and a function of its result."""
    func: PrimFunc = draw(prim_funcs(kinds=("matmul", "reduce"), max_blocks=1, dtypes=("float32",)))
    result = draw(st.sampled_from(_results(func)))
    return with_function(func, result, draw(st.sampled_from(_fitting(result))))


SUITED["fuse_reduction_epilogue"] = reductions_with_function()


@st.composite
def programs_for(draw: Draw, primitive: str) -> PrimFunc:
    """A program to try a primitive on."""
    suited = SUITED.get(primitive)
    return draw(suited) if suited is not None and draw(st.integers(0, 3)) else draw(programs())  # type: ignore[no-any-return]
