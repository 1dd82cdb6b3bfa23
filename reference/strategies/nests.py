"""Kinds of nests that are more than loops around a block: predicates and extents with loads, lets, triangles, and
threads that exchange values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from minitvm.expr import GE, LT, And, DType, Expr, IterVar, Max, Min, Range, Var, as_expr, binary, const, substitute
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    If,
    LetStmt,
    Seq,
    Stmt,
)

from .blocks import Program, region
from .expressions import ARITHMETIC, Draw, combine


def _filled(draw: Draw, program: Program, shape: Sequence[Expr]) -> Buffer:
    """Add an output filled with a constant, for nests that do not write every element."""
    output = program.output(shape)
    value = const(program.constant(draw, -2, 2), program.dtype)
    _append(program, _loops(shape, lambda *v: _block(f"{output.name}_0", output, v, "S", value, [])), output)
    return output


def _block(
    name: str, output: Buffer, values: Sequence[Expr], kinds: str, value: Any, reads: Sequence[BufferRegion],
    predicate: Expr | None = None, domains: Sequence[Expr] = (), init: Any = None, place: Sequence[Expr] | None = None,
) -> Stmt:  # fmt: skip
    """Build a block with one iterator per value. The arguments `value`, `reads`, `place` and `predicate` use `values`;
    inside the block (but not in the predicate) these are replaced by the iterators.
    """
    extents = domains or output.shape
    iterators = [Var(f"v{k}", d.dtype) for k, d in enumerate(extents)]
    inside: dict[Var, Expr] = {v: it for v, it in zip(values, iterators, strict=False) if isinstance(v, Var)}
    at = tuple(substitute(as_expr(p), inside) for p in (values if place is None else place))
    body = BufferStore(output, substitute(as_expr(value, str(output.dtype)), inside), at)
    start = None if init is None else BufferStore(output, const(init, output.dtype), at)
    axes = tuple(
        IterVar(it, Range.of(d), k)
        for it, d, k in zip(iterators, extents, kinds.ljust(len(iterators), kinds[-1]), strict=False)
    )
    declared = tuple(substitute(r, inside) for r in reads)
    block = Block(axes, declared, (region(output, *at),), name, body, start)
    return BlockRealize(tuple(values), const(True) if predicate is None else predicate, block)


def _loops(extents: Sequence[Expr], body: Callable[..., Stmt]) -> Stmt:
    variables = [Var(n, e.dtype) for n, e in zip("ijkl", extents, strict=False)]
    stmt = body(*variables)
    for variable, extent in zip(reversed(variables), reversed(extents), strict=False):
        stmt = For(variable, const(0, extent.dtype), extent, ForKind.SERIAL, stmt)
    return stmt


def _append(program: Program, stmt: Stmt, output: Buffer, *read: Buffer) -> None:
    """Add a nest that reads some buffers, inside of its blocks or around them."""
    program.append(stmt, [b.full_region() for b in read], output)


def _mask(draw: Draw, program: Program, shape: Sequence[Expr]) -> Buffer:
    """Draw a buffer that can be indexed by some of the first variables of loops over `shape`."""
    names = [str(d) for d in shape]
    fitting = [b for b in program.buffers if 0 < b.ndim <= len(names) and [str(d) for d in b.shape] == names[: b.ndim]]
    return draw(st.sampled_from(fitting))


def _condition(draw: Draw, program: Program, mask: Buffer, indices: Sequence[Expr]) -> Expr:
    kind = draw(st.sampled_from((LT, GE)))
    return kind(mask[tuple(indices[: mask.ndim])], const(program.constant(draw, -2, 2), program.dtype))


def _where(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = f(source) where a buffer is below or above a constant, else c, as a block's predicate or an `if`."""
    mask = _mask(draw, program, source.shape)
    output = _filled(draw, program, source.shape)
    kind, constant = draw(st.sampled_from(ARITHMETIC)), program.constant(draw, -3, 3)
    as_predicate, updates, factor = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 3))
    length = getattr(source.shape[0], "value", None)

    def nest(*v: Expr) -> Stmt:
        value = combine(kind, source[v], const(constant, program.dtype))
        reads = [region(source, *v)]
        if updates:
            value, reads = combine(kind, output[v], source[v]), [*reads, region(output, *v)]
        if as_predicate:
            return _block(output.name, output, v, "S", value, reads, _condition(draw, program, mask, v))
        stmt = _block(output.name, output, v, "S", value, reads)
        return If(_condition(draw, program, mask, v), stmt)

    def in_tiles(outer: Expr, inner: Expr, *rest: Expr) -> Stmt:
        place = (outer * factor + inner, *rest)
        iterators = [Var(f"v{k}", d.dtype) for k, d in enumerate(source.shape)]
        body = BufferStore(output, combine(kind, source[tuple(iterators)], const(constant, program.dtype)),
                           tuple(iterators))  # fmt: skip
        axes = tuple(IterVar(it, Range.of(d), "S") for it, d in zip(iterators, source.shape, strict=False))
        block = Block(axes, (region(source, *iterators),), (region(output, *iterators),), output.name, body)
        inside = And(place[0] < source.shape[0], _condition(draw, program, mask, place))
        return BlockRealize(place, inside, block)

    if factor < 2 or length is None:
        stmt = _loops(source.shape, nest)
    else:
        stmt = _loops([const(-(-length // factor)), const(factor), *source.shape[1:]], in_tiles)
    _append(program, stmt, output, source, mask)


def _let(draw: Draw, program: Program, source: Buffer) -> None:
    """Add x = an element or a constant; out = f(source, x), with x in the block or in its predicate."""
    giver = draw(st.sampled_from(program.buffers))
    constant = const(program.constant(draw, -3, 3), program.dtype)
    zeros = tuple(const(0, d.dtype) for d in giver.shape)
    loads = bool(giver.shape) and draw(st.booleans())
    x = Var("lower", program.dtype)  # type: ignore[arg-type]
    kind, selects = draw(st.sampled_from(ARITHMETIC)), draw(st.booleans())
    output = _filled(draw, program, source.shape) if selects else program.output(source.shape)

    def nest(*v: Expr) -> Stmt:
        value = combine(kind, source[v], constant if selects else x)
        return _block(output.name, output, v, "S", value, [region(source, *v)], LT(source[v], x) if selects else None)

    held = giver[zeros] if loads else constant
    stmt = _loops(source.shape, nest)
    if draw(st.booleans()):
        program.lets.append((len(program.blocks), x, held))  # around what comes later too
    else:
        stmt = LetStmt(x, held, stmt)
    _append(program, stmt, output, source, giver)


def _triangle(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = f(source), or the sums of rows, below or above the diagonal, and a constant elsewhere."""
    rows, columns = source.shape
    form = draw(st.sampled_from(("lower", "upper", "sum", "accumulate")))
    kind, constant = draw(st.sampled_from(ARITHMETIC)), const(program.constant(draw, -3, 3), program.dtype)
    shape = [rows] if form in ("sum", "accumulate") else source.shape
    output = program.output(shape) if form == "sum" else _filled(draw, program, shape)
    i, j = Var("i", rows.dtype), Var("j", columns.dtype)
    first: Expr = const(0, columns.dtype)
    square = str(rows) == str(columns)
    edge: Expr = i if square else binary(Min, i, columns - 1)
    extent: Expr = edge + 1
    if form in ("upper", "accumulate") and draw(st.booleans()):
        first, extent = edge, columns - edge
    reads = [region(source, i, j)]
    if form in ("sum", "accumulate"):
        value = combine("+", output[i], source[i, j])
        more = [region(output, i)] if form == "accumulate" else []
        init = 0 if form == "sum" else None
        block = _block(output.name, output, (i, j), "SR", value, [*more, *reads], None, source.shape, init, (i,))
    else:
        block = _block(output.name, output, (i, j), "SS", combine(kind, source[i, j], constant), reads)
    inner = For(j, first, extent, ForKind.SERIAL, block)
    stmt = For(i, const(0, rows.dtype), rows, ForKind.SERIAL, inner)
    _append(program, stmt, output, source)


def _half(draw: Draw, program: Program, source: Buffer) -> None:
    """Add half = f(source), only below the diagonal, and out = the sum of the written part of each row of half."""
    rows, columns = source.shape
    half = Buffer(f"H{len(program.produced)}", source.shape, DType(program.dtype))
    program.kept.append(half)
    output = program.output([rows])
    kind, constant = draw(st.sampled_from(ARITHMETIC)), const(program.constant(draw, -3, 3), program.dtype)

    def below(body: Callable[[Expr, Expr], Stmt], less: int) -> Stmt:
        i, j = Var("i", rows.dtype), Var("j", columns.dtype)
        extent: Expr = binary(Max, binary(Min, i + 1, columns) - less, const(1, columns.dtype))
        inner = For(j, const(0, columns.dtype), extent, ForKind.SERIAL, body(i, j))
        return For(i, const(0, rows.dtype), rows, ForKind.SERIAL, inner)

    def fill(i: Expr, j: Expr) -> Stmt:
        return _block(half.name, half, (i, j), "SS", combine(kind, source[i, j], constant), [region(source, i, j)])

    def add(i: Expr, j: Expr) -> Stmt:
        value, reads = output[i] + half[i, j], [region(half, i, j)]
        return _block(output.name, output, (i, j), "SR", value, reads, None, source.shape, 0, (i,))

    _append(program, Seq.of(below(fill, 0), below(add, draw(st.integers(0, 1)))), output, source)


def _ragged(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, j] = f(source[i, j]) for the first lengths[i] columns, where lengths is in memory."""
    rows, columns = source.shape
    lengths = program.input([rows], "int32")
    output = _filled(draw, program, source.shape)
    kind, constant = draw(st.sampled_from(ARITHMETIC)), const(program.constant(draw, -3, 3), program.dtype)
    i, j = Var("i", rows.dtype), Var("j", columns.dtype)
    block = _block(output.name, output, (i, j), "SS", combine(kind, source[i, j], constant), [region(source, i, j)])
    extent = binary(Max, binary(Min, lengths[i], columns), const(0))
    stmt = For(i, const(0, rows.dtype), rows, ForKind.SERIAL, For(j, const(0), extent, ForKind.SERIAL, block))
    _append(program, stmt, output, source, lengths)


def _exchange(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, j] = f(source[i, n - 1 - j]), where the threads of each row exchange elements in shared storage."""
    rows, columns = source.shape
    scope = draw(st.sampled_from(("shared", "shared.dyn")))
    shared = Buffer(f"S{len(program.produced)}", (columns,), DType(program.dtype), scope)
    output = program.output(source.shape)
    program.kept.append(shared)
    outer, turns = draw(st.sampled_from(("blockIdx.x", "serial"))), draw(st.integers(1, 2))
    b, t, k = Var("b", rows.dtype), Var("t", columns.dtype), Var("k")
    kind, constant = draw(st.sampled_from(ARITHMETIC)), const(program.constant(draw, -3, 3), program.dtype)
    turned: Expr = columns - 1 - t
    fetch = _block(
        shared.name, shared, (b, t), "SS", source[b, t], [region(source, b, t)], None, source.shape, place=(t,)
    )
    value = combine(kind, shared[turned], constant)
    send = _block(output.name, output, (b, t), "S", value, [region(shared, turned)])
    body: Stmt = Seq.of(fetch, send)
    if turns > 1:
        body = For(k, const(0), const(turns), ForKind.SERIAL, body)
    threads = For(t, const(0, columns.dtype), columns, ForKind.THREAD, body, "threadIdx.x")
    how = ForKind.SERIAL if outer == "serial" else ForKind.THREAD
    stmt = For(b, const(0, rows.dtype), rows, how, threads, None if outer == "serial" else outer)
    _append(program, stmt, output, source)


NESTS: dict[str, Callable[[Draw, Program, Buffer], None]] = {
    "where": _where, "let": _let, "triangle": _triangle, "half": _half, "ragged": _ragged, "exchange": _exchange,
}  # fmt: skip
