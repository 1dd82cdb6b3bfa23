"""Functions of one line, applied to all lines of tensors along an axis.

Scans, sorts and scatters are written in this way.

    @T.prim_func
    def last(x: T.Buffer((n,)), y: T.Buffer((1,))):
        for j in range(n):
            y[0] = x[j]

    along([x], axis, last)          # y[a, 0, b] = x[a, n - 1, b], for all a and b

Lines are independent of each other, so they run in parallel if there is enough work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..expr import Expr, IntImm, IterVar, Node, Range, Var, as_expr, const, replace, rewrite, substitute, walk
from ..te import Tensor
from ..tir import nodes as tir
from ..tir.analysis.block_regions import with_declared_regions
from ..tir.annotations import IN_STEP
from .shapes import Dim

# Elements below which waking another thread costs more than it saves; a symbolic extent counts as large.
_PARALLEL = 1 << 14
_SYMBOLIC = 256


# The initial value of an element of a result: a function of its point and the inputs' buffers.
Start = Callable[..., Expr]


def along(
    tensors: Sequence[Tensor],
    axis: int,
    line: tir.PrimFunc,
    starts: Sequence[Start] = (),
    whole: Tensor | None = None,
    in_step: bool = False,
) -> list[Tensor]:
    """Apply the function `line` to every line of `tensors` along `axis`, and return its results.

    The parameters of the function are one line of each tensor, followed by one line of each result. Along the other
    axes, all tensors have the same extents. `starts` are the initial values of the first results before the function
    runs; a result that is read at data-dependent indices needs one. If the further input `whole` is given, there is one
    result, which has the shape of `whole`. `whole` may be longer along the other axes: lines that the tensors do not
    have keep their initial values.

    Lines run in parallel if there is enough work. Pass `in_step` if the steps of the function do not depend on the
    data: then the schedule decides which lines become vector lanes, and which run in parallel.
    """
    count, operands = len(tensors), [*tensors, *([] if whole is None else [whole])]
    lead, rest = tensors[0].shape[:axis], tensors[0].shape[axis + 1 :]
    inputs = [tir.Buffer(f"p{k}", t.shape, t.dtype) for k, t in enumerate(operands)]
    results = [
        tir.Buffer(
            b.name, (*lead, *_of(b.shape, line, tensors, axis), *rest) if whole is None else whole.shape, b.dtype
        )
        for b in line.buffers[count:]
    ]
    loops = [(Var(f"i{a}", d.dtype), d) for a, d in enumerate(tensors[0].shape) if a != axis]
    iterators = [IterVar(Var(f"v{k}", v.dtype), Range(const(0, v.dtype), d)) for k, (v, d) in enumerate(loops)]
    block = _for_a_line(line, [*inputs[:count], *results], axis, iterators)
    if in_step:
        block = replace(block, annotations={**block.annotations, IN_STEP: True})
    amount = 0 if in_step else work([*tensors, *results])
    body = nest([v for v, _ in loops], [d for _, d in loops], block, amount)
    begun = [
        started(result, lambda *at, start=start: start(at, *inputs))
        for result, start in zip(results, starts, strict=False)
    ]
    func = tir.with_root(
        (*inputs, *results), tir.Seq.of(*begun, body), {"global_symbol": line.name, "tir.noalias": True}
    )  # fmt: skip
    outputs = te.extern_primfunc(operands, func)
    return outputs if isinstance(outputs, list) else [outputs]


def _of(shape: Sequence[Expr], line: tir.PrimFunc, tensors: Sequence[Tensor], axis: int) -> tuple[Expr, ...]:
    """Return the shape with the sizes of the line's function replaced by the extents of the tensors along `axis`."""
    extents = {
        b.shape[0]: t.shape[axis] for b, t in zip(line.buffers, tensors, strict=False) if isinstance(b.shape[0], Var)
    }
    return tuple(substitute(d, extents) for d in shape)


def _for_a_line(
    line: tir.PrimFunc, buffers: Sequence[tir.Buffer], axis: int, iterators: Sequence[IterVar]
) -> tir.Block:
    """Return the block that computes one line: the function's body, with its accesses moved to the whole tensors."""
    places = dict(zip(line.buffers, buffers, strict=True))
    at = [it.var for it in iterators]
    root = tir.root_block(line)
    extents = {b.shape[0]: buffers[k].shape[axis] for k, b in enumerate(line.buffers) if isinstance(b.shape[0], Var)}
    own = {b: replace(b, shape=tuple(substitute(d, extents) for d in b.shape)) for b in root.alloc_buffers}

    def change(node: Node) -> Node | None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer in places:
            return replace(node, buffer=places[node.buffer], indices=(*at[:axis], node.indices[0], *at[axis:]))
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer in own:
            return replace(node, buffer=own[node.buffer])
        return None

    body = substitute(rewrite(root.body, change), extents)

    def region(buffer: tir.Buffer) -> tir.BufferRegion:
        ranges = [Range(v, const(1, v.dtype)) for v in at]
        whole = Range(const(0, buffer.shape[axis].dtype), buffer.shape[axis])
        return tir.BufferRegion(buffer, (*ranges[:axis], whole, *ranges[axis:]))

    regions = [region(b) for b in buffers]
    read = {n.buffer for n in walk(body) if isinstance(n, tir.BufferLoad)}
    written = {n.buffer for n in walk(body) if isinstance(n, tir.BufferStore)}
    reads, writes = (tuple(r for r in regions if r.buffer in touched) for touched in (read, written))
    return tir.Block(tuple(iterators), reads, writes, line.name, body, alloc_buffers=tuple(own.values()))


def started(result: tir.Buffer, value: Callable[..., Expr]) -> tir.Stmt:
    """Return a loop nest whose block writes every element of a buffer. Schedules can vectorize it."""
    iterators = [IterVar(Var(f"v{a}", d.dtype), Range(const(0, d.dtype), d)) for a, d in enumerate(result.shape)]
    at = tuple(it.var for it in iterators)
    block = tir.Block(tuple(iterators), (), (), "start", tir.BufferStore(result, value(*at), at))
    variables = [Var(f"c{a}", d.dtype) for a, d in enumerate(result.shape)]
    return nest(variables, list(result.shape), with_declared_regions(block), 0)


def updated(
    op: str, tensors: Sequence[Tensor], buffers: Sequence[tir.Buffer], axes: Sequence[tuple[Var, Expr]], body: tir.Stmt
) -> Tensor:
    """Return a copy of the last tensor that is then updated by `body`. `body` runs once for each point of `axes`, pairs
    (variable, extent).

    `buffers` are the buffers of the tensors, followed by the buffer of the result.
    """
    old, result = buffers[-2:]
    iterators = tuple(IterVar(v, Range(const(0, v.dtype), d)) for v, d in axes)
    block = with_declared_regions(tir.Block(iterators, (), (), "update", body))
    loops = [Var(f"i{k}", v.dtype) for k, (v, _) in enumerate(axes)]
    written = nest(loops, [d for _, d in axes], block, work(tensors[:-1]))
    func = tir.with_root(
        tuple(buffers), tir.Seq.of(started(result, lambda *at: old[at]), written),
        {"global_symbol": op, "tir.noalias": True},
    )  # fmt: skip
    tensor: Tensor = te.extern_primfunc(list(tensors), func)
    return tensor


def zeroed(func: tir.PrimFunc, results: Sequence[int]) -> tir.PrimFunc:
    """Return the function with the results at the positions `results` set to zero first. A function needs this if it
    writes such a result at data-dependent places.
    """
    buffers = [func.buffers[k] for k in results]
    zeros = [started(b, lambda *_, b=b: const(0, b.dtype)) for b in buffers]
    root = tir.root_block(func)
    return tir.with_root(func.buffers, tir.Seq.of(*zeros, root.body), dict(func.attrs), root.alloc_buffers)


def nest(variables: Sequence[Var], extents: Sequence[Expr], block: tir.Block, amount: int) -> tir.Stmt:
    """Return a block inside one loop per iterator. The outermost loop is parallel if there is enough work."""
    stmt: tir.Stmt = tir.BlockRealize(tuple(variables), const(True), block)
    for number, (var, extent) in reversed(list(enumerate(zip(variables, extents, strict=True)))):
        parallel = number == 0 and amount >= _PARALLEL
        stmt = tir.For(var, const(0, var.dtype), extent, tir.ForKind.PARALLEL if parallel else tir.ForKind.SERIAL, stmt)
    return stmt


def work(tensors: Sequence[Tensor | tir.Buffer]) -> int:
    """Return the total number of elements of the tensors, where each symbolic dimension counts as large."""
    total = 0
    for tensor in tensors:
        sizes = (dim.value if isinstance(dim, IntImm) else _SYMBOLIC for dim in tensor.shape)
        total += math.prod(sizes)
    return total


def extent_of(dim: Dim, name: str) -> Any:
    """Return an extent for the source of a line's function: a number, or a variable that `along` replaces."""
    return dim if isinstance(dim, int) else te.size_var(name, as_expr(dim).dtype)
