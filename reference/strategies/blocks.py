"""The simple kinds of blocks in random loop programs; each function adds one block that reads existing buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from minitvm.expr import And, Cast, DType, Expr, IterVar, Max, Min, Range, Var, as_expr, binary, call, const, walk
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Seq,
    Stmt,
    with_root,
)

from .expressions import ARITHMETIC, Draw, combine, exprs


@dataclass(slots=True)
class Program:
    """A program that is being drawn: the readable buffers, the blocks in order, and the buffers that were read."""

    dtype: str
    inputs: list[Buffer] = field(default_factory=list)
    produced: list[Buffer] = field(default_factory=list)
    read: set[Buffer] = field(default_factory=set)
    blocks: list[Stmt] = field(default_factory=list)
    kept: list[Buffer] = field(default_factory=list)  # storage of threads, which nothing else reads
    lets: list[tuple[int, Var, Expr]] = field(default_factory=list)  # (blocks before it, variable, value): of the rest

    @property
    def buffers(self) -> list[Buffer]:
        return [b for b in (*self.inputs, *self.produced) if b.dtype == self.dtype]

    def input(self, shape: Sequence[Expr], dtype: str | None = None) -> Buffer:
        name = f"{'I' if dtype else 'A'}{len(self.inputs)}" if self.inputs else "A"
        self.inputs.append(Buffer(name, tuple(shape), dtype or self.dtype))  # type: ignore[arg-type]
        return self.inputs[-1]

    def output(self, shape: Sequence[Expr], dtype: str | None = None) -> Buffer:
        number = len(self.produced)
        name = "BCDEFGHIJKLMNOPQ"[number] if number < 16 else f"B{number}"
        self.produced.append(Buffer(name, tuple(shape), dtype or self.dtype))  # type: ignore[arg-type]
        return self.produced[-1]

    def append(self, stmt: Stmt, reads: Sequence[BufferRegion], *outputs: Buffer) -> None:
        """Add a nest that reads these regions and writes `outputs`."""
        self.read.update(r.buffer for r in reads if r.buffer not in outputs)
        self.blocks.append(stmt)

    def constant(self, draw: Draw, low: int, high: int) -> int:
        """Draw a small constant of the program's dtype."""
        return draw(st.integers(max(low, 0) if self.dtype.startswith("u") else low, high))

    def identity(self, kind: str) -> int:
        """Return the initial value for a sum, maximum or minimum of small numbers."""
        kindly = DType(self.dtype)
        low, high = (-1000, 1000) if kindly.is_float else (max(-1000, int(kindly.min)), min(1000, int(kindly.max)))
        return {"+": 0, "max": low, "min": high}[kind]

    def func(self) -> PrimFunc:
        results = [b for b in self.produced if b not in self.read]
        inside = tuple(b for b in self.produced if b in self.read)
        attrs = {"global_symbol": "main", "tir.noalias": True}
        body = list(self.blocks)
        for before, variable, value in reversed(self.lets):
            body[before:] = [LetStmt(variable, value, Seq.of(*body[before:]))]
        return with_root((*self.inputs, *results), Seq.of(*body), attrs, (*inside, *self.kept))


extents = st.sampled_from([4, 3, 2, 5, 8, 1])


_OF_MATRICES = ("transpose", "matmul", "columns", "nested", "view", "triangle", "half", "ragged", "exchange")


def sources(program: Program, kind: str) -> list[Buffer]:
    """Return the buffers that a block of that kind can read."""
    fixed = {"stencil": 3, "pad": 1, "stride": 2, "predicate": 2, "gather": 1, "scan": 1, "lookup": 1, "guarded": 1}
    result = []
    for buffer in program.buffers:
        if not buffer.shape:
            continue
        first = getattr(buffer.shape[0], "value", None)
        if kind in fixed and (first is None or first < fixed[kind]):
            continue
        if kind in _OF_MATRICES and buffer.ndim != 2:
            continue
        if kind == "inplace" and buffer not in program.produced:
            continue
        if kind == "reshape" and (buffer.ndim != 2 or any(isinstance(d, Var) for d in buffer.shape)):
            continue
        result.append(buffer)
    return result


def nest(
    program: Program, name: str, domains: Sequence[Expr], kinds: str, value: Callable[..., tuple[Expr, ...]],
    body: Callable[..., tuple[Buffer, Sequence[Any], Any, Any, Sequence[BufferRegion]]],
    loops: Sequence[Expr] | None = None, predicate: Callable[..., Expr] | None = None,
) -> None:  # fmt: skip
    """Build loops around a block with one store. `body(*iterators)` returns (output, indices, value, init or None,
    reads).
    """

    def statement(*iterators: Expr) -> Body:
        output, indices, result, start, reads = body(*iterators)
        place = tuple(as_expr(i) for i in indices)
        store = BufferStore(output, as_expr(result, str(output.dtype)), place)
        init = None if start is None else BufferStore(output, const(start, output.dtype), place)
        return Body(store, tuple(reads), (region(output, *place),), init)

    nest_of(program, name, domains, kinds, statement, value, loops, predicate)


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a block, and the regions that the block declares."""

    stmt: Stmt
    reads: Sequence[BufferRegion]
    writes: Sequence[BufferRegion]
    init: Stmt | None = None
    alloc_buffers: Sequence[Buffer] = ()
    match_buffers: Sequence[MatchBufferRegion] = ()


def nest_of(
    program: Program, name: str, domains: Sequence[Expr], kinds: str, body: Callable[..., Body],
    value: Callable[..., tuple[Expr, ...]] | None = None, loops: Sequence[Expr] | None = None,
    predicate: Callable[..., Expr] | None = None,
) -> None:  # fmt: skip
    """Build loops around a block `body(*iterators)`; the iterators are bound to `value(*loops)`, by default to the
    loops.
    """
    extents = list(loops or domains)
    variables = [Var(n, e.dtype) for n, e in zip("ijkl", extents, strict=False)]
    iterators = [Var(f"v{n}", d.dtype) for n, d in zip("ijkl", domains, strict=False)]
    does = body(*iterators)
    axes = tuple(IterVar(v, Range.of(d), k) for v, d, k in zip(iterators, domains, kinds, strict=True))
    block = Block(
        axes, tuple(does.reads), tuple(does.writes), name, does.stmt, does.init, tuple(does.alloc_buffers),
        tuple(does.match_buffers),
    )  # fmt: skip
    condition = const(True) if predicate is None else predicate(*variables)
    stmt: Stmt = BlockRealize(tuple((value or _same)(*variables)), condition, block)
    for variable, extent in zip(reversed(variables), reversed(extents), strict=True):
        stmt = For(variable, const(0, extent.dtype), extent, ForKind.SERIAL, stmt)
    program.append(stmt, does.reads, *(written.buffer for written in does.writes))


def region(buffer: Buffer, *indices: Any) -> BufferRegion:
    """Return a region; each index is a point or a pair (start, extent)."""
    ranges = []
    for index in indices:
        start, extent = index if isinstance(index, tuple) else (index, 1)
        first = as_expr(start)
        ranges.append(Range(first, as_expr(extent) if isinstance(extent, Expr) else const(extent, first.dtype)))
    return BufferRegion(buffer, tuple(ranges))


def _same(*variables: Expr) -> tuple[Expr, ...]:
    return variables


def _elementwise(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = f(source), or f(source, another buffer of the same shape)."""
    others = [b for b in program.buffers if [str(d) for d in b.shape] == [str(d) for d in source.shape]]
    other = draw(st.sampled_from(others))
    kind, constant = draw(st.sampled_from(ARITHMETIC)), program.constant(draw, -3, 3)
    both = draw(st.booleans())
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        second = other[v] if both else const(constant, program.dtype)
        reads = [region(source, *v)] + ([region(other, *v)] if both and other is not source else [])
        return output, v, combine(kind, source[v], second), None, reads

    nest(program, output.name, source.shape, "S" * source.ndim, _same, body)


def _broadcast(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[.., j] = source[.., j] + bias[j]."""
    kind = draw(st.sampled_from(["+", "-", "max"]))
    bias = program.input([source.shape[-1]])
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        return output, v, combine(kind, source[v], bias[v[-1]]), None, [region(source, *v), region(bias, v[-1])]

    nest(program, output.name, source.shape, "S" * source.ndim, _same, body)


def _transpose(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[j, i] = source[i, j]."""
    output = program.output(source.shape[::-1])

    def body(i: Expr, j: Expr) -> tuple[Any, ...]:
        return output, (j, i), source[i, j], None, [region(source, i, j)]

    nest(program, output.name, source.shape, "SS", _same, body)


def _reduce(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[..] = sum, min or max of source over its last (or only) dimension."""
    kind = draw(st.sampled_from(["+", "max", "min"]))
    start = program.identity(kind)
    rest = source.shape[:-1]
    output = program.output(rest or [const(1)])

    def body(*v: Expr) -> tuple[Any, ...]:
        place = v[:-1] if rest else (const(0),)
        return output, place, combine(kind, output[place], source[v]), start, [region(source, *v)]

    nest(program, output.name, source.shape, "S" * len(rest) + "R", _same, body)


def _matmul(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, j] = sum of source[i, k] * weight[k, j]."""
    columns = const(draw(extents), source.shape[0].dtype)
    weight = program.input([source.shape[1], columns])
    output = program.output([source.shape[0], columns])

    def body(i: Expr, j: Expr, k: Expr) -> tuple[Any, ...]:
        reads = [region(source, i, k), region(weight, k, j)]
        return output, (i, j), output[i, j] + source[i, k] * weight[k, j], 0, reads

    nest(program, output.name, [source.shape[0], columns, source.shape[1]], "SSR", _same, body)


def _stencil(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, ..] = source[i, ..] + source[i + 1, ..] + source[i + 2, ..], as three terms or as a reduction."""
    as_reduction = draw(st.booleans())
    first = source.shape[0].value - 2  # type: ignore[attr-defined]
    output = program.output([const(first), *source.shape[1:]])

    def terms(i: Expr, *v: Expr) -> tuple[Any, ...]:
        value = source[(i, *v)] + source[(i + 1, *v)] + source[(i + 2, *v)]
        return output, (i, *v), value, None, [region(source, (i, 3), *v)]

    def reduction(i: Expr, *v: Expr) -> tuple[Any, ...]:
        *rest, k = v
        value = output[(i, *rest)] + source[(i + k, *rest)]
        return output, (i, *rest), value, 0, [region(source, i + k, *rest)]

    spatial = "S" * source.ndim
    if as_reduction:
        nest(program, output.name, [*output.shape, const(3)], spatial + "R", _same, reduction)
    else:
        nest(program, output.name, output.shape, spatial, _same, terms)


def _pad(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = source with a constant before and after its first dimension."""
    before, after, fill = draw(st.integers(1, 2)), draw(st.integers(0, 2)), program.constant(draw, -2, 2)
    length = source.shape[0].value  # type: ignore[attr-defined]
    output = program.output([const(length + before + after), *source.shape[1:]])

    def body(i: Expr, *v: Expr) -> tuple[Any, ...]:
        inside = And(i >= before, i < length + before)
        value = call("if_then_else", inside, source[(i - before, *v)], const(fill, program.dtype))
        return output, (i, *v), value, None, [region(source, i - before, *v)]

    nest(program, output.name, output.shape, "S" * output.ndim, _same, body)


def _stride(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, ..] = source[2 * i + r, ..]."""
    offset = draw(st.integers(0, 1))
    output = program.output([const(source.shape[0].value // 2), *source.shape[1:]])  # type: ignore[attr-defined]

    def body(i: Expr, *v: Expr) -> tuple[Any, ...]:
        place = (i * 2 + offset, *v) if offset else (i * 2, *v)
        return output, (i, *v), source[place], None, [region(source, *place)]

    nest(program, output.name, output.shape, "S" * output.ndim, _same, body)


def _predicate(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = source + c with the first loop split by a factor that may not divide it; `where` cuts off the rest."""
    factor, constant = draw(st.integers(2, 4)), program.constant(draw, -3, 3)
    length = source.shape[0].value  # type: ignore[attr-defined]
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        return output, v, source[v] + constant, None, [region(source, *v)]

    def value(outer: Expr, inner: Expr, *rest: Expr) -> tuple[Expr, ...]:
        return (outer * factor + inner, *rest)

    def inside(outer: Expr, inner: Expr, *rest: Expr) -> Expr:
        return outer * factor + inner < length

    loops = [const(-(-length // factor)), const(factor), *source.shape[1:]]
    exact = length % factor == 0
    nest(program, output.name, source.shape, "S" * source.ndim, value, body, loops, None if exact else inside)


def _reshape(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i] = source[i // n, i % n]."""
    rows, columns = (d.value for d in source.shape)  # type: ignore[attr-defined]
    output = program.output([const(rows * columns)])

    def body(i: Expr) -> tuple[Any, ...]:
        place = (i // columns, i % columns)
        return output, (i,), source[place], None, [region(source, *place)]

    nest(program, output.name, output.shape, "S", _same, body)


def _gather(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[i, ..] = source[clamp(index[i]), ..] with an int32 input."""
    length = source.shape[0].value  # type: ignore[attr-defined]
    index = program.input([const(draw(extents))], "int32")
    output = program.output([index.shape[0], *source.shape[1:]])

    def body(i: Expr, *v: Expr) -> tuple[Any, ...]:
        row = binary(Max, binary(Min, index[i], length - 1), 0)
        whole = (const(0, source.shape[0].dtype), source.shape[0])
        return output, (i, *v), source[(row, *v)], None, [region(index, i), region(source, whole, *v)]

    nest(program, output.name, output.shape, "S" * output.ndim, _same, body)


def _columns(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[j] = sum, min or max of source over its first dimension."""
    kind = draw(st.sampled_from(["+", "max", "min"]))
    output = program.output(source.shape[1:])

    def body(k: Expr, j: Expr) -> tuple[Any, ...]:
        return output, (j,), combine(kind, output[j], source[k, j]), program.identity(kind), [region(source, k, j)]

    nest(program, output.name, source.shape, "RS", _same, body)


def _total(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[0] = sum of source over all its dimensions."""
    output = program.output([const(1)])

    def body(*v: Expr) -> tuple[Any, ...]:
        return output, (const(0),), output[0] + source[v], 0, [region(source, *v)]

    nest(program, output.name, source.shape, "R" * source.ndim, _same, body)


def _inplace(draw: Draw, program: Program, source: Buffer) -> None:
    """Add source = f(source), elementwise in the same buffer."""
    kind, constant = draw(st.sampled_from(ARITHMETIC)), program.constant(draw, -3, 3)

    def body(*v: Expr) -> tuple[Any, ...]:
        return source, v, combine(kind, source[v], const(constant, program.dtype)), None, [region(source, *v)]

    nest(program, f"{source.name}_{len(program.blocks)}", source.shape, "S" * source.ndim, _same, body)


def _scan(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out[0, ..] = 0, out[i + 1, ..] = out[i, ..] + source[i, ..]: each iteration needs the one before it."""
    length = source.shape[0].value  # type: ignore[attr-defined]
    rest = source.shape[1:]
    output = program.output([const(length + 1), *rest])

    def start(*v: Expr) -> tuple[Any, ...]:
        return output, (const(0), *v), const(0, program.dtype), None, []

    def step(i: Expr, *v: Expr) -> tuple[Any, ...]:
        reads = [region(output, i, *v), region(source, i, *v)]
        return output, (i + 1, *v), output[(i, *v)] + source[(i, *v)], None, reads

    nest(program, f"{output.name}_0", rest or [const(1)], "S" * max(1, len(rest)), _same,
         start if rest else lambda _: start())  # fmt: skip
    nest(program, output.name, source.shape, "O" + "S" * len(rest), _same, step)


def _nested(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = f(source), with an outer block for each row around the block for its elements."""
    kind, constant = draw(st.sampled_from(ARITHMETIC)), program.constant(draw, -3, 3)
    rows, columns = source.shape
    output = program.output(source.shape)
    i, j, vi, vj = (Var(name, d.dtype) for name, d in zip(("i", "j", "vi", "vj"), (rows, columns) * 2, strict=True))
    value = combine(kind, source[vi, vj], const(constant, program.dtype))
    inner = Block(
        (IterVar(vj, Range.of(columns), "S"),), (region(source, vi, vj),), (region(output, vi, vj),), output.name,
        BufferStore(output, value, (vi, vj)),
    )  # fmt: skip
    realize = BlockRealize((j,), const(True), inner)
    whole = (const(0, columns.dtype), columns)
    outer = Block(
        (IterVar(vi, Range.of(rows), "S"),), (region(source, vi, whole),), (region(output, vi, whole),),
        f"{output.name}_o", For(j, const(0, columns.dtype), columns, ForKind.SERIAL, realize),
    )  # fmt: skip
    stmt = For(i, const(0, rows.dtype), rows, ForKind.SERIAL, BlockRealize((i,), const(True), outer))
    program.append(stmt, outer.reads, output)


def _convert(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = source, converted to another dtype and back."""
    dtype = DType(program.dtype)
    others = ["float64", "float32", "float16", "bfloat16"] if dtype.is_float else ["int64", "int8", "int16"]
    other = DType(draw(st.sampled_from([o for o in others if o != dtype])))
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        return output, v, Cast(dtype, Cast(other, source[v])), None, [region(source, *v)]

    nest(program, output.name, source.shape, "S" * source.ndim, _same, body)


def _formula(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = a random expression of source, with choices that depend on its values and indices."""
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        low = 0 if program.dtype.startswith("u") else -3
        value = draw(exprs([source[v], *v], program.dtype, 2, constants=(low, 3)))
        used = any(isinstance(n, BufferLoad) for n in walk(value))
        return output, v, value, None, [region(source, *v)] if used else []

    nest(program, output.name, source.shape, "S" * source.ndim, _same, body)


PLAIN: dict[str, Callable[[Draw, Program, Buffer], None]] = {
    "elementwise": _elementwise, "broadcast": _broadcast, "transpose": _transpose, "reduce": _reduce,
    "matmul": _matmul, "stencil": _stencil, "pad": _pad, "stride": _stride, "predicate": _predicate,
    "reshape": _reshape, "gather": _gather, "columns": _columns, "total": _total, "formula": _formula,
    "convert": _convert, "inplace": _inplace, "nested": _nested, "scan": _scan,
}  # fmt: skip
