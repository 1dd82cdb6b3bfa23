"""Random programs of the kinds that single parts of the compiler are for, beside those of `reference.strategies`.

Each is a general family with its sizes, offsets, dtypes and operations drawn, not an example made for one fault. All
compute on small integers, in whatever dtype, so that results can be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from minitvm.expr import (
    EQ,
    GT,
    LT,
    And,
    Cast,
    Expr,
    IterVar,
    Max,
    Min,
    Or,
    Range,
    Var,
    as_expr,
    binary,
    call,
    const,
)
from minitvm.reference.strategies import exprs
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    If,
    PrimFunc,
    Seq,
    Stmt,
    with_root,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]
INTEGERS = ("int32", "int64", "int8", "uint8", "int16")
FLOATS = ("float32", "float64")
ATTRS = {"global_symbol": "main", "tir.noalias": True}


def region(buffer: Buffer, indices: Sequence[Any]) -> BufferRegion:
    """Points (or (start, extent) pairs) of a buffer."""
    pairs = [i if isinstance(i, tuple) else (i, 1) for i in indices]
    return BufferRegion(buffer, tuple(Range(as_expr(i), as_expr(n)) for i, n in pairs))


def nest(
    extents: Sequence[int], kinds: str, name: str, body: Callable[..., tuple[Stmt, Stmt | None, list, list]],
    kind: ForKind = ForKind.SERIAL,
) -> Stmt:  # fmt: skip
    """One block in loops of these extents; `body(*iterators)` gives (statement, init, reads, writes)."""
    loops = [Var("ijkl"[d]) for d in range(len(extents))]
    iters = [Var("v" + v.name) for v in loops]
    stmt, init, reads, writes = body(*iters)
    axes = tuple(IterVar(v, Range.of(e), k) for v, e, k in zip(iters, extents, kinds))
    made: Stmt = BlockRealize(tuple(loops), const(True), Block(axes, tuple(reads), tuple(writes), name, stmt, init))
    for loop, extent in reversed(list(zip(loops, extents))):
        made = For(loop, const(0), const(extent), kind, made)
    return made


# ---- values: one expression at every point ---------------------------------------------------------------------------


def pointwise(draw: Draw, dtypes: Sequence[str] = (*FLOATS, *INTEGERS)) -> PrimFunc:
    """Some B[k, i, j] = an expression of A[i, j], C[j], i and j: all operations, casts and conditions, in one dtype."""
    dtype = draw(st.sampled_from(list(dtypes)))
    rows, columns, count = draw(st.integers(1, 2)), draw(st.sampled_from([4, 8, 5, 3, 13])), draw(st.integers(2, 4))
    a, c = Buffer("A", (rows, columns), dtype), Buffer("C", (columns,), dtype)
    b = Buffer("B", (count, rows, columns), dtype)
    numbers = (-100, 100) if dtype.endswith("int8") else (-3, 5)

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        values = [
            draw(exprs([a[i, j], c[j], j], dtype, max_depth=draw(st.integers(1, 4)), constants=numbers))
            for _ in range(count)
        ]
        stores = Seq(tuple(BufferStore(b, value, (const(k), i, j)) for k, value in enumerate(values)))
        return stores, None, [region(a, (i, j)), region(c, (j,))], [region(b, ((0, count), i, j))]

    return with_root((a, c, b), nest([rows, columns], "SS", "B", body), ATTRS)


def constants(draw: Draw) -> PrimFunc:
    """B[k, i] = expressions of constants, near zero or near the ends of the dtype, and perhaps A[i]."""
    dtype = draw(st.sampled_from([*INTEGERS, *FLOATS]))
    count, n = draw(st.integers(3, 6)), 4
    a, b = Buffer("A", (n,), dtype), Buffer("B", (count, n), dtype)
    numbers = draw(st.sampled_from([(-1, 1), (-3, 3), (-100, 100)]))
    known = draw(st.sampled_from([0, 0, 1]))

    def body(i: Expr) -> tuple[Stmt, None, list, list]:
        drawing = exprs([a[i]][:known], dtype, max_depth=3, constants=numbers)
        stores = Seq(tuple(BufferStore(b, draw(drawing), (const(k), i)) for k in range(count)))
        return stores, None, [region(a, (i,))], [region(b, ((0, count), i))]

    return with_root((a, b), nest([n], "S", "B", body), ATTRS)


def index_arithmetic(draw: Draw) -> PrimFunc:
    """B[i, j] = an expression of i and j alone: divisions and remainders of all signs, minima, comparisons."""
    dtype = draw(st.sampled_from(["int32", "int64"]))
    rows, columns = draw(st.integers(1, 9)), draw(st.sampled_from([8, 12, 16, 7, 4]))
    b = Buffer("B", (rows, columns), dtype)

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        names = [i, j, i * columns + j, j - i]
        names = [v if v.dtype == dtype else Cast(v.dtype.__class__(dtype), v) for v in names]
        value = draw(exprs(names, dtype, max_depth=draw(st.integers(1, 4)), constants=(-4, 9)))
        return BufferStore(b, value, (i, j)), None, [], [region(b, (i, j))]

    return with_root((b,), nest([rows, columns], "SS", "B", body), ATTRS)


def quotients(draw: Draw) -> PrimFunc:
    """Some B[k, i, j] = quotients and remainders of sums of i and j, minima, choices by a condition."""
    rows, columns, count = draw(st.integers(1, 7)), draw(st.sampled_from([8, 12, 7, 5])), draw(st.integers(3, 5))
    b = Buffer("B", (count, rows, columns), "int32")
    small, factor = st.integers(-7, 7), st.sampled_from([1, 2, 3, 4, 6, 8, -1, -2, -3, 12])

    def total(i: Expr, j: Expr) -> Expr:
        return i * draw(factor) + j * draw(factor) + draw(small)

    def part(y: Expr) -> Expr:
        d = draw(st.sampled_from([2, 3, 4, 5, 8, -3]))
        return y // d if draw(st.booleans()) else y % d

    def value(i: Expr, j: Expr) -> Expr:
        kind, y = (
            draw(st.sampled_from(["sum", "nested", "merged", "least", "below", "compared", "product"])),
            total(i, j),
        )
        if kind == "sum":
            return part(y) * draw(small) + part(total(i, j))
        if kind == "nested":
            return part(part(y) * draw(factor) + draw(small))
        if kind == "merged":  # what splitting and fusing leave, and what looks like it
            c, d = draw(st.integers(1, 3)), draw(st.sampled_from([2, 3, 4]))
            return (y // d) * (c * draw(st.sampled_from([d, d, d + 1]))) + (y % d) * c
        if kind == "least":
            return binary(draw(st.sampled_from([Min, Max])), part(y), draw(small) + j)
        if kind == "product":  # of values on both sides of zero
            value = (i + draw(small)) * (j * draw(factor) + draw(small))
            return call("if_then_else", draw(st.sampled_from([LT, GT]))(value, const(draw(small))), i, j + 9)
        if kind == "compared":
            relation = draw(st.sampled_from([LT, GT, EQ]))
            return call("if_then_else", relation(part(y), part(total(i, j))), i, j + 9)
        limit = draw(st.integers(1, 6))
        return call("if_then_else", draw(st.sampled_from([i, j])) < limit, part(j), part(i + j))

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        stores = Seq(tuple(BufferStore(b, value(i, j), (const(k), i, j)) for k in range(count)))
        return stores, None, [], [region(b, ((0, count), i, j))]

    return with_root((b,), nest([rows, columns], "SS", "B", body), ATTRS)


def products(draw: Draw) -> PrimFunc:
    """B[k, i, j] = a choice by a product of an iterator and a quotient on either side of zero."""
    rows, columns, count = draw(st.integers(2, 5)), draw(st.integers(2, 6)), draw(st.integers(3, 5))
    b = Buffer("B", (count, rows, columns), "int32")
    small, factor = st.integers(-6, 6), st.integers(1, 3)

    def value(i: Expr, j: Expr) -> Expr:
        first, second = draw(st.sampled_from([(i, j), (j, i)]))
        quotient = (first * draw(factor) - second * draw(factor) + draw(small)) // draw(st.integers(1, 3))
        relation = draw(st.sampled_from([LT, GT]))
        return call("if_then_else", relation(quotient * draw(st.sampled_from([i, j])), const(draw(small))), i, j + 9)

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        stores = Seq(tuple(BufferStore(b, value(i, j), (const(k), i, j)) for k in range(count)))
        return stores, None, [], [region(b, ((0, count), i, j))]

    return with_root((b,), nest([rows, columns], "SS", "B", body), ATTRS)


def split_indices(draw: Draw) -> PrimFunc:
    """B[i, j, ..] = A[ (flat + shift) cut into parts ]: reshapes, shifts and wraps, the quotients of tiled layouts."""
    extents = [draw(st.sampled_from([2, 3, 4, 6, 8])) for _ in range(draw(st.integers(1, 3)))]
    total = 1
    for extent in extents:
        total *= extent
    inner = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    shift, outer = draw(st.sampled_from([0, 0, 1, 3])), total // inner
    a, b = Buffer("A", (outer, inner)), Buffer("B", tuple(extents))

    def body(*v: Expr) -> tuple[Stmt, None, list, list]:
        flat = v[0]
        for extent, var in zip(extents[1:], v[1:]):
            flat = flat * extent + var
        moved = (flat + shift) % total if shift else flat
        place = (moved // inner, moved % inner)
        whole = region(a, [(0, outer), (0, inner)])
        return BufferStore(b, a[place] + 1.0, v), None, [whole], [region(b, v)]

    return with_root((a, b), nest(extents, "S" * len(extents), "B", body), ATTRS)


# ---- statements ------------------------------------------------------------------------------------------------------


def branches(draw: Draw) -> PrimFunc:
    """Blocks whose statements branch on data or on iterators, with and without an else, and change what they read."""
    n, dtype = draw(st.sampled_from([8, 4, 13, 5])), draw(st.sampled_from(["float32", "int32"]))
    a, b = Buffer("A", (n,), dtype), Buffer("B", (n,), dtype)
    in_place = draw(st.booleans())

    def body(i: Expr) -> tuple[Stmt, None, list, list]:
        first = BufferStore(b, a[i], (i,))
        tested = b if in_place else a
        condition: Expr = draw(st.sampled_from([LT, GT, EQ]))(tested[i], const(draw(st.integers(-1, 1)), dtype))
        if draw(st.booleans()):
            other = LT(i, const(draw(st.integers(1, n))))
            condition = draw(st.sampled_from([And, Or]))(condition, other)
        then: Stmt = BufferStore(b, a[i] * const(2, dtype) + const(1, dtype), (i,))
        shape = draw(st.sampled_from(["plain", "plain", "again", "empty"]))
        if shape == "again":  # the same question, after the answer may have changed
            then = Seq((then, If(condition, BufferStore(b, tested[i] + const(5, dtype), (i,)))))
        elif shape == "empty":
            then = For(Var("z"), const(0), const(0), ForKind.SERIAL, then)
        other_case = BufferStore(b, b[i] - const(3, dtype), (i,)) if draw(st.booleans()) else None
        return (
            Seq((first, If(condition, then, other_case))),
            None,
            [region(a, (i,)), region(b, (i,))],
            [region(b, (i,))],
        )

    return with_root((a, b), nest([n], "S", "B", body), ATTRS)


def in_place(draw: Draw) -> PrimFunc:
    """A = S; A[i + a, j + b] = A[i + c, j + d] + ...: stencils in place, with iterations that depend on each other."""
    rank = draw(st.integers(1, 2))
    extents = [draw(st.integers(2, 5)) for _ in range(rank)]
    shape = [e + 2 for e in extents]
    s, a = Buffer("S", tuple(shape), "int32"), Buffer("A", tuple(shape), "int32")
    offset = st.integers(0, 2)

    def copy(*v: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(a, s[v], v), None, [region(s, v)], [region(a, v)]

    def body(*v: Expr) -> tuple[Stmt, None, list, list]:
        def at() -> tuple[Expr, ...]:
            return tuple(x + draw(offset) for x in v)

        target, sources = at(), [at()]
        value: Expr = a[sources[0]] * 2
        for source in sources[1:]:
            value = value + a[source]
        for x in v:
            value = value + x
        return BufferStore(a, value, target), None, [region(a, s) for s in sources], [region(a, target)]

    parts = [nest(extents, "S" * rank, f"U{k}", body) for k in range(draw(st.integers(1, 2)))]
    return with_root((s, a), Seq.of(nest(shape, "S" * rank, "A", copy), *parts), ATTRS)


def shared_cells(draw: Draw) -> PrimFunc:
    """B[f(i)] = .. with a map f that may send two iterations to one element, or leave elements out."""
    n = draw(st.integers(2, 8))
    a, b = Buffer("A", (n, 4), "int32"), Buffer("B", (2 * n + 4,), "int32")
    kind = draw(st.sampled_from(["i//2", "i%2", "constant", "reverse", "i+j"]))

    def body(i: Expr, j: Expr) -> tuple[Stmt, Stmt | None, list, list]:
        place: Expr = {"i//2": i // 2, "i%2": i % 2, "constant": const(0), "reverse": n - 1 - i, "i+j": i + j}[kind]
        return BufferStore(b, a[i, j] + i, (place,)), None, [region(a, (i, j))], [region(b, (place,))]

    def fill(i: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(b, const(7, "int32"), (i,)), None, [], [region(b, (i,))]

    return with_root((a, b), Seq.of(nest([2 * n + 4], "S", "F", fill), nest([n, 4], "SS", "B", body)), ATTRS)


def folds(draw: Draw) -> PrimFunc:
    """P[i] = P[i] * 2 + A[i, k] after P[i] = 0: a reduction by its signature, whose order matters all the same."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    a, p = Buffer("A", (rows, columns), "int32"), Buffer("P", (rows,), "int32")
    claims = draw(st.sampled_from(["R", "R", "O"]))

    def body(i: Expr, k: Expr) -> tuple[Stmt, Stmt, list, list]:
        init = BufferStore(p, const(0, "int32"), (i,))
        return BufferStore(p, p[i] * 2 + a[i, k], (i,)), init, [region(a, (i, k))], [region(p, (i,))]

    return with_root((a, p), nest([rows, columns], "S" + claims, "P", body), ATTRS)
