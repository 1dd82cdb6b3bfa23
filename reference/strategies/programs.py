"""Hypothesis strategies: random expressions and tir functions, and arrays to call these with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IterVar,
    Max,
    Min,
    Mod,
    Not,
    Or,
    Range,
    Select,
    SizeVar,
    Var,
    as_expr,
    binary,
    call,
    const,
)  # fmt: skip
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
    with_root,
)  # fmt: skip

Draw = Callable[[st.SearchStrategy[Any]], Any]

# ---- expressions ---------------------------------------------------------------------------------------------------

_ARITHMETIC = ("+", "-", "*", "min", "max")
_COMPARISONS = (EQ, NE, LT, LE, GT, GE)


@st.composite
def exprs(
    draw: Draw,
    variables: Sequence[Expr] = (),
    dtype: str = "int32",
    max_depth: int = 3,
    divisions: bool = True,
    constants: tuple[int, int] = (-9, 9),
) -> Expr:
    """A scalar expression of a dtype over the given variables (those of other dtypes stand in casts and conditions).

    Divisors are constants other than zero, floor and truncating division both; for floats there are no divisions.
    Unsigned dtypes get constants from zero up. dtype "bool" gives a condition.
    """
    if dtype == "bool":
        return _condition(draw, variables, max_depth, divisions, constants)
    if max_depth == 0 or draw(st.integers(0, 4)) == 0:
        return _leaf(draw, variables, dtype, constants)
    inner = exprs(variables, dtype, max_depth - 1, divisions, constants)
    is_float = dtype.startswith("float")
    choices = [*_ARITHMETIC, "select", "if_then_else"]
    if divisions and not is_float:
        choices += ["//", "%", "truncdiv", "truncmod"]
    kind = draw(st.sampled_from(choices))
    if kind in ("select", "if_then_else"):
        condition = _condition(draw, variables, max_depth - 1, divisions, constants)
        first, second = draw(inner), draw(inner)
        return Select(condition, first, second) if kind == "select" else call("if_then_else", condition, first, second)
    if kind in ("//", "%", "truncdiv", "truncmod"):
        low = 1 if dtype.startswith("u") else constants[0]
        divisor = draw(_nonzero(low, constants[1]))
        node = {"//": FloorDiv, "%": FloorMod, "truncdiv": Div, "truncmod": Mod}[kind]
        return node(draw(inner), const(divisor, dtype))
    return _combine(kind, draw(inner), draw(inner))


def _nonzero(low: int, high: int) -> st.SearchStrategy[int]:
    """The integers from low to high except zero, drawn and not filtered."""
    return st.sampled_from([v for v in sorted(range(low, high + 1), key=abs) if v])


def _combine(kind: str, a: Expr, b: Expr) -> Expr:
    if kind in ("min", "max"):
        return binary(Min if kind == "min" else Max, a, b)
    return {"+": a.__add__, "-": a.__sub__, "*": a.__mul__}[kind](b)


def _leaf(draw: Draw, variables: Sequence[Expr], dtype: str, constants: tuple[int, int]) -> Expr:
    same = [v for v in variables if v.dtype == dtype]
    other = [Cast(v.dtype.__class__(dtype), v) for v in variables if v.dtype != dtype]
    pool = [*same, *same, *other]  # a cast is the rarer choice
    if pool and draw(st.integers(0, 3)) > 0:
        return draw(st.sampled_from(pool))
    low = max(0, constants[0]) if dtype.startswith("u") else constants[0]
    return const(draw(st.integers(low, constants[1])), dtype)


def _condition(
    draw: Draw, variables: Sequence[Expr], max_depth: int, divisions: bool, constants: tuple[int, int]
) -> Expr:
    kind = draw(st.sampled_from(["compare", "compare", "and", "or", "not"])) if max_depth > 0 else "compare"
    if kind == "compare":
        dtypes = sorted({str(v.dtype) for v in variables if not v.dtype.is_bool}) or ["int32"]
        inner = exprs(variables, draw(st.sampled_from(dtypes)), max(0, max_depth - 1), divisions, constants)
        return draw(st.sampled_from(_COMPARISONS))(draw(inner), draw(inner))
    first = _condition(draw, variables, max_depth - 1, divisions, constants)
    if kind == "not":
        return Not(first)
    second = _condition(draw, variables, max_depth - 1, divisions, constants)
    return And(first, second) if kind == "and" else Or(first, second)


# ---- loop programs -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Program:
    """What has been drawn so far: buffers that can be read, blocks in order, who is read."""

    dtype: str
    inputs: list[Buffer] = field(default_factory=list)
    made: list[Buffer] = field(default_factory=list)
    read: set[Buffer] = field(default_factory=set)
    blocks: list[Stmt] = field(default_factory=list)

    @property
    def buffers(self) -> list[Buffer]:
        return [b for b in (*self.inputs, *self.made) if b.dtype == self.dtype]

    def input(self, shape: Sequence[Expr], dtype: str | None = None) -> Buffer:
        name = f"{'I' if dtype else 'A'}{len(self.inputs)}" if self.inputs else "A"
        self.inputs.append(Buffer(name, tuple(shape), dtype or self.dtype))  # type: ignore[arg-type]
        return self.inputs[-1]

    def output(self, shape: Sequence[Expr]) -> Buffer:
        number = len(self.made)
        self.made.append(Buffer("BCDEFGHIJKLMNOPQ"[number], tuple(shape), self.dtype))  # type: ignore[arg-type]
        return self.made[-1]

    def func(self) -> PrimFunc:
        results = [b for b in self.made if b not in self.read]
        inside = tuple(b for b in self.made if b in self.read)
        attrs = {"global_symbol": "main", "tir.noalias": True}
        return with_root((*self.inputs, *results), Seq.of(*self.blocks), attrs, inside)


KINDS = (
    "elementwise", "broadcast", "transpose", "reduce", "matmul", "stencil", "pad", "stride", "predicate", "reshape",
    "gather",
)  # fmt: skip


@st.composite
def prim_funcs(
    draw: Draw,
    max_blocks: int = 4,
    min_blocks: int = 1,
    dtypes: Sequence[str] = ("float32", "int32"),
    kinds: Sequence[str] = KINDS,
    symbolic: bool = False,
) -> PrimFunc:
    """A level-3 function of one to `max_blocks` blocks, each in a nest of its own under the root block.

    A block is one of `kinds` and reads what earlier blocks or the inputs hold; a result that no later block reads is an
    output; outputs are the last parameters. `symbolic` makes the first dimension of the first input a `SizeVar` n (bind
    any n >= 1).
    """
    program = _Program(draw(st.sampled_from(list(dtypes))))
    rank = draw(st.integers(1, 2))
    shape = [const(draw(_extents)) for _ in range(rank)]
    if symbolic:
        shape[0] = SizeVar("n")
    program.input(shape)
    # The number first and then each block as one draw: Hypothesis lowers the one and leaves out one of the others.
    for _ in range(draw(st.integers(min_blocks, max_blocks))):
        draw(_blocks(program, tuple(kinds)))
    return program.func()


@st.composite
def _blocks(draw: Draw, program: _Program, kinds: Sequence[str]) -> None:
    """One more block for a program."""
    legal = [kind for kind in kinds if _sources(program, kind)]
    kind = draw(st.sampled_from(legal or ["elementwise"]))
    _BUILD[kind](draw, program, draw(st.sampled_from(_sources(program, kind))))


_extents = st.sampled_from([4, 3, 2, 5, 8, 1])


def _sources(program: _Program, kind: str) -> list[Buffer]:
    """The buffers on which a block of that kind can stand."""
    fixed = {"stencil": 3, "pad": 1, "stride": 2, "predicate": 2, "gather": 1}
    result = []
    for buffer in program.buffers:
        if not buffer.shape:
            continue
        first = getattr(buffer.shape[0], "value", None)
        if kind in fixed and (first is None or first < fixed[kind]):
            continue
        if kind in ("transpose", "matmul") and buffer.ndim != 2:
            continue
        if kind == "reshape" and (buffer.ndim != 2 or any(isinstance(d, Var) for d in buffer.shape)):
            continue
        result.append(buffer)
    return result


def _nest(
    program: _Program, name: str, domains: Sequence[Expr], kinds: str, value: Callable[..., tuple[Expr, ...]],
    body: Callable[..., tuple[Buffer, Sequence[Any], Any, Any, Sequence[BufferRegion]]],
    loops: Sequence[Expr] | None = None, predicate: Callable[..., Expr] | None = None,
) -> None:  # fmt: skip
    """One block in its loops. `body(*iterators)` gives (output, indices, value, init or None, reads)."""
    extents = list(loops or domains)
    variables = [Var(n, e.dtype) for n, e in zip("ijkl", extents)]
    iterators = [Var(f"v{n}", d.dtype) for n, d in zip("ijkl", domains)]
    output, indices, result, start, reads = body(*iterators)
    place = tuple(as_expr(i) for i in indices)
    store = BufferStore(output, as_expr(result, str(output.dtype)), place)
    init = None if start is None else BufferStore(output, const(start, output.dtype), place)
    axes = tuple(IterVar(v, Range.of(d), k) for v, d, k in zip(iterators, domains, kinds))
    writes = (_region(output, *place),)
    block = Block(axes, tuple(reads), writes, name, store, init)
    condition = const(True) if predicate is None else predicate(*variables)
    stmt: Stmt = BlockRealize(tuple(value(*variables)), condition, block)
    for variable, extent in zip(reversed(variables), reversed(extents)):
        stmt = For(variable, const(0, extent.dtype), extent, ForKind.SERIAL, stmt)
    program.read.update(r.buffer for r in reads)
    program.blocks.append(stmt)


def _region(buffer: Buffer, *indices: Any) -> BufferRegion:
    """A region; an index is a point, a pair is (start, extent)."""
    ranges = []
    for index in indices:
        start, extent = index if isinstance(index, tuple) else (index, 1)
        first = as_expr(start)
        ranges.append(Range(first, as_expr(extent) if isinstance(extent, Expr) else const(extent, first.dtype)))
    return BufferRegion(buffer, tuple(ranges))


def _same(*variables: Expr) -> tuple[Expr, ...]:
    return variables


def _elementwise(draw: Draw, program: _Program, source: Buffer) -> None:
    """out = f(source) or f(source, another of the same shape)."""
    others = [b for b in program.buffers if [str(d) for d in b.shape] == [str(d) for d in source.shape]]
    other = draw(st.sampled_from(others))
    kind, constant = draw(st.sampled_from(_ARITHMETIC)), draw(st.integers(-3, 3))
    both = draw(st.booleans())
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        second = other[v] if both else const(constant, program.dtype)
        reads = [_region(source, *v)] + ([_region(other, *v)] if both and other is not source else [])
        return output, v, _combine(kind, source[v], second), None, reads

    _nest(program, output.name, source.shape, "S" * source.ndim, _same, body)


def _broadcast(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[.., j] = source[.., j] + bias[j]."""
    kind = draw(st.sampled_from(["+", "-", "max"]))
    bias = program.input([source.shape[-1]])
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        return output, v, _combine(kind, source[v], bias[v[-1]]), None, [_region(source, *v), _region(bias, v[-1])]

    _nest(program, output.name, source.shape, "S" * source.ndim, _same, body)


def _transpose(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[j, i] = source[i, j]."""
    output = program.output(source.shape[::-1])

    def body(i: Expr, j: Expr) -> tuple[Any, ...]:
        return output, (j, i), source[i, j], None, [_region(source, i, j)]

    _nest(program, output.name, source.shape, "SS", _same, body)


def _reduce(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[..] = sum, min or max of source over its last (or only) dimension."""
    kind = draw(st.sampled_from(["+", "max", "min"]))
    start = {"+": 0, "max": -1000, "min": 1000}[kind]
    rest = source.shape[:-1]
    output = program.output(rest or [const(1)])

    def body(*v: Expr) -> tuple[Any, ...]:
        place = v[:-1] if rest else (const(0),)
        return output, place, _combine(kind, output[place], source[v]), start, [_region(source, *v)]

    _nest(program, output.name, source.shape, "S" * len(rest) + "R", _same, body)


def _matmul(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[i, j] = sum of source[i, k] * weight[k, j]."""
    columns = const(draw(_extents), source.shape[0].dtype)
    weight = program.input([source.shape[1], columns])
    output = program.output([source.shape[0], columns])

    def body(i: Expr, j: Expr, k: Expr) -> tuple[Any, ...]:
        reads = [_region(source, i, k), _region(weight, k, j)]
        return output, (i, j), output[i, j] + source[i, k] * weight[k, j], 0, reads

    _nest(program, output.name, [source.shape[0], columns, source.shape[1]], "SSR", _same, body)


def _stencil(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[i, ..] = source[i, ..] + source[i + 1, ..] + source[i + 2, ..], as three terms or as a reduction."""
    as_reduction = draw(st.booleans())
    first = source.shape[0].value - 2  # type: ignore[attr-defined]
    output = program.output([const(first), *source.shape[1:]])

    def terms(i: Expr, *v: Expr) -> tuple[Any, ...]:
        value = source[(i, *v)] + source[(i + 1, *v)] + source[(i + 2, *v)]
        return output, (i, *v), value, None, [_region(source, (i, 3), *v)]

    def reduction(i: Expr, *v: Expr) -> tuple[Any, ...]:
        *rest, k = v
        value = output[(i, *rest)] + source[(i + k, *rest)]
        return output, (i, *rest), value, 0, [_region(source, i + k, *rest)]

    spatial = "S" * source.ndim
    if as_reduction:
        _nest(program, output.name, [*output.shape, const(3)], spatial + "R", _same, reduction)
    else:
        _nest(program, output.name, output.shape, spatial, _same, terms)


def _pad(draw: Draw, program: _Program, source: Buffer) -> None:
    """out = source with a constant around its first dimension."""
    before, after, fill = draw(st.integers(1, 2)), draw(st.integers(0, 2)), draw(st.integers(-2, 2))
    length = source.shape[0].value  # type: ignore[attr-defined]
    output = program.output([const(length + before + after), *source.shape[1:]])

    def body(i: Expr, *v: Expr) -> tuple[Any, ...]:
        inside = And(i >= before, i < length + before)
        value = call("if_then_else", inside, source[(i - before, *v)], const(fill, program.dtype))
        return output, (i, *v), value, None, [_region(source, i - before, *v)]

    _nest(program, output.name, output.shape, "S" * output.ndim, _same, body)


def _stride(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[i, ..] = source[2 * i + r, ..]."""
    offset = draw(st.integers(0, 1))
    output = program.output([const(source.shape[0].value // 2), *source.shape[1:]])  # type: ignore[attr-defined]

    def body(i: Expr, *v: Expr) -> tuple[Any, ...]:
        place = (i * 2 + offset, *v) if offset else (i * 2, *v)
        return output, (i, *v), source[place], None, [_region(source, *place)]

    _nest(program, output.name, output.shape, "S" * output.ndim, _same, body)


def _predicate(draw: Draw, program: _Program, source: Buffer) -> None:
    """out = source + c with the first loop split by a factor that need not divide: `where` cuts off the rest."""
    factor, constant = draw(st.integers(2, 4)), draw(st.integers(-3, 3))
    length = source.shape[0].value  # type: ignore[attr-defined]
    output = program.output(source.shape)

    def body(*v: Expr) -> tuple[Any, ...]:
        return output, v, source[v] + constant, None, [_region(source, *v)]

    def value(outer: Expr, inner: Expr, *rest: Expr) -> tuple[Expr, ...]:
        return (outer * factor + inner, *rest)

    def inside(outer: Expr, inner: Expr, *rest: Expr) -> Expr:
        return outer * factor + inner < length

    loops = [const(-(-length // factor)), const(factor), *source.shape[1:]]
    exact = length % factor == 0
    _nest(program, output.name, source.shape, "S" * source.ndim, value, body, loops, None if exact else inside)


def _reshape(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[i] = source[i // n, i % n]."""
    rows, columns = (d.value for d in source.shape)  # type: ignore[attr-defined]
    output = program.output([const(rows * columns)])

    def body(i: Expr) -> tuple[Any, ...]:
        place = (i // columns, i % columns)
        return output, (i,), source[place], None, [_region(source, *place)]

    _nest(program, output.name, output.shape, "S", _same, body)


def _gather(draw: Draw, program: _Program, source: Buffer) -> None:
    """out[i, ..] = source[clamp(index[i]), ..] with an int32 input."""
    length = source.shape[0].value  # type: ignore[attr-defined]
    index = program.input([const(draw(_extents))], "int32")
    output = program.output([index.shape[0], *source.shape[1:]])

    def body(i: Expr, *v: Expr) -> tuple[Any, ...]:
        row = binary(Max, binary(Min, index[i], length - 1), 0)
        whole = (const(0, source.shape[0].dtype), source.shape[0])
        return output, (i, *v), source[(row, *v)], None, [_region(index, i), _region(source, whole, *v)]

    _nest(program, output.name, output.shape, "S" * output.ndim, _same, body)


_BUILD: dict[str, Callable[[Draw, _Program, Buffer], None]] = {
    "elementwise": _elementwise, "broadcast": _broadcast, "transpose": _transpose, "reduce": _reduce,
    "matmul": _matmul, "stencil": _stencil, "pad": _pad, "stride": _stride, "predicate": _predicate,
    "reshape": _reshape, "gather": _gather,
}  # fmt: skip


# ---- arguments -----------------------------------------------------------------------------------------------------


@st.composite
def arguments(draw: Draw, func: PrimFunc, size: int | None = None, low: int = -4, high: int = 4) -> list[np.ndarray]:
    """An array of small integers for each buffer of a function, in its dtype; every symbolic dimension is `size`.

    Without `size` it is drawn from 1 to 6. Arrays come from a drawn seed: they shrink as a whole, not cell by cell.
    """
    extent = draw(st.integers(1, 6)) if size is None else size
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    arrays = []
    for buffer in func.buffers:
        shape = [getattr(d, "value", extent) for d in buffer.shape]
        least = 0 if buffer.dtype.kind in ("uint", "bool") else low
        most = 1 if buffer.dtype.is_bool else high
        arrays.append(generator.integers(least, most + 1, size=shape).astype(buffer.dtype.numpy))
    return arrays
