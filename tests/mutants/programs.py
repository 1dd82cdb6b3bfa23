"""Random programs of the kinds that single parts of the compiler are for, beside those of `reference.strategies`.

Each is a general family with its sizes, offsets, dtypes and operations drawn, not an example made for one fault. All
compute on small integers, in whatever dtype, so that results can be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from minitvm import te
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
)  # fmt: skip
from minitvm.ir import IRModule
from minitvm.reference.strategies import exprs
from minitvm.script import from_source
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
)  # fmt: skip

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
        kind, y = draw(st.sampled_from(["sum", "nested", "merged", "least", "below"])), total(i, j)
        if kind == "sum":
            return part(y) * draw(small) + part(total(i, j))
        if kind == "nested":
            return part(part(y) * draw(factor) + draw(small))
        if kind == "merged":  # what splitting and fusing leave, and what looks like it
            c, d = draw(st.integers(1, 3)), draw(st.sampled_from([2, 3, 4]))
            return (y // d) * (c * draw(st.sampled_from([d, d, d + 1]))) + (y % d) * c
        if kind == "least":
            return binary(draw(st.sampled_from([Min, Max])), part(y), draw(small) + j)
        limit = draw(st.integers(1, 6))
        return call("if_then_else", draw(st.sampled_from([i, j])) < limit, part(j), part(i + j))

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


# ---- structure -------------------------------------------------------------------------------------------------------


def contraction(draw: Draw) -> PrimFunc:
    """C[i, j] = sum (or max, or min) over k of A[i, k] * B[k, j], some of it with a bias or a clamp behind."""
    m, n, k = draw(st.integers(1, 9)), draw(st.sampled_from([8, 4, 5, 16, 3, 11])), draw(st.integers(1, 7))
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "int32"]))
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), "k")
    kind = draw(st.sampled_from([te.sum, te.sum, te.max, te.min]))
    c = te.compute((m, n), lambda i, j: kind(a[i, r] * b[r, j] - a[i, r], axis=r), name="C")
    args = [a, b]
    last = c
    if draw(st.booleans()):
        bias = te.placeholder((n,), dtype, name="bias")
        args.append(bias)
        last = te.compute((m, n), lambda i, j: binary(Max, c[i, j] + bias[j], const(0, dtype)), name="D")
    return te.create_prim_func([*args, last])


def reduction(draw: Draw) -> PrimFunc:
    """One sum, maximum or minimum along rows, in any dtype, over values on one side of zero."""
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 19))
    dtype = draw(st.sampled_from([*FLOATS, "int32", "int64"]))
    a = te.placeholder((rows, columns), dtype, name="A")
    r = te.reduce_axis((0, columns), "k")
    kind, sign = draw(st.sampled_from([te.sum, te.max, te.min])), draw(st.sampled_from([-20, 0, 20]))
    out = te.compute((rows,), lambda i: kind(a[i, r] + const(sign, dtype), axis=r), name="B")
    return te.create_prim_func([a, out])


def chain(draw: Draw) -> PrimFunc:
    """Producers and consumers along one axis with halos, strides and padding between them."""
    n = draw(st.integers(6, 20))
    last = te.placeholder((n,), draw(st.sampled_from(["float32", "int32"])), name="A")
    first = last
    for level in range(draw(st.integers(1, 3))):
        length, source, name = int(last.shape[0].value), last, "BCDE"[level]  # type: ignore[attr-defined]
        kind = draw(st.sampled_from(["halo", "stride", "pad", "same", "reverse"]))
        if kind == "halo" and length > 3:
            width = draw(st.integers(1, 3))
            last = te.compute((length - width,), lambda i, s=source, w=width: s[i] + s[i + w], name=name)
        elif kind == "stride" and length > 3:
            shift = draw(st.integers(0, 1))
            last = te.compute((length // 2,), lambda i, s=source, o=shift: s[i * 2 + o], name=name)
        elif kind == "pad":
            p = draw(st.integers(1, 2))
            zero = const(0, source.dtype)
            last = te.compute(
                (length + 2 * p,),
                lambda i, s=source, p=p, n=length, z=zero: te.if_then_else(te.all(i >= p, i < n + p), s[i - p], z),
                name=name,
            )  # fmt: skip
        elif kind == "reverse":
            last = te.compute((length,), lambda i, s=source, n=length: s[n - 1 - i] * 2, name=name)
        else:
            last = te.compute((length,), lambda i, s=source: s[i] + 1, name=name)
    return te.create_prim_func([first, last])


def views(draw: Draw) -> PrimFunc:
    """Tiles through matched buffers: one inside another, of fewer dimensions, with declared strides and offsets."""
    r, c = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    tr, tc = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows, columns = r * tr, c * tc
    row = draw(st.booleans())  # the source's view: one row of the tile, in one dimension
    if row:
        body = f"""
                T.reads(A[vi * {r} : vi * {r} + {r}, vj * {c} : vj * {c} + {c}])
                T.writes(B[vi * {r} : vi * {r} + {r}, vj * {c} : vj * {c} + {c}])
                for a in range({r}):
                    with T.block("row"):
                        va = T.axis.spatial({r}, a)
                        T.reads(A[vi * {r} + va, vj * {c} : vj * {c} + {c}])
                        T.writes(B[vi * {r} + va, vj * {c} : vj * {c} + {c}])
                        V = T.match_buffer(A[vi * {r} + va, vj * {c} : vj * {c} + {c}], ({c},), "float32")
                        W = T.match_buffer(B[vi * {r} + va, vj * {c} : vj * {c} + {c}], ({c},), "float32")
                        for b in range({c}):
                            W[b] = V[{c} - 1 - b] + 1.0
"""
    else:
        body = f"""
                T.reads(A[vi * {r} : vi * {r} + {r}, vj * {c} : vj * {c} + {c}])
                T.writes(B[vi * {r} : vi * {r} + {r}, vj * {c} : vj * {c} + {c}])
                V = T.match_buffer(A[vi * {r} : vi * {r} + {r}, vj * {c} : vj * {c} + {c}], ({r}, {c}), "float32",
                                   strides=[s0, s1], offset_factor=1)
                W = T.match_buffer(B[vi * {r} : vi * {r} + {r}, vj * {c} : vj * {c} + {c}], ({r}, {c}), "float32")
                for a in range({r}):
                    with T.block("inner"):
                        va = T.axis.spatial({r}, a)
                        T.reads(V[va, 0 : {c}])
                        T.writes(W[va, 0 : {c}])
                        X = T.match_buffer(V[va, 1 : {c}], ({c} - 1,), "float32")
                        Y = T.match_buffer(W[va, 0 : {c}], ({c},), "float32")
                        Y[0] = V[va, 0] + T.cast(s0, "float32") * 0.0
                        for b in range({c} - 1):
                            Y[b + 1] = X[b] * 2.0
"""
    text = f"""
@T.prim_func
def main(A: T.Buffer(({rows}, {columns}), "float32"), B: T.Buffer(({rows}, {columns}), "float32")):
    s0 = T.int32()
    s1 = T.int32()
    for i, j in T.grid({tr}, {tc}):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j]){body}"""
    made = from_source(text)
    return made if isinstance(made, PrimFunc) else IRModule(made.functions)["main"]


def strided(draw: Draw) -> PrimFunc:
    """Parameters that are not dense: with strides and an offset of their own."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    pad, offset = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    local = Buffer("L", (rows, columns), "float32", strides=(const(columns + pad), const(1)), elem_offset=const(offset))
    a, b = Buffer("A", (rows, columns)), Buffer("B", (rows, columns))

    def copy_in(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(local, a[i, j] * 2.0, (i, j)), None, [region(a, (i, j))], [region(local, (i, j))]

    def copy_out(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        source = (rows - 1 - i, j)
        return BufferStore(b, local[source] + 1.0, (i, j)), None, [region(local, source)], [region(b, (i, j))]

    body = Seq.of(nest([rows, columns], "SS", "L", copy_in), nest([rows, columns], "SS", "B", copy_out))
    return with_root((a, b), body, ATTRS, (local,))


def data_loops(draw: Draw) -> PrimFunc:
    """Loops inside a block that stop by data: `for k: if B[i] < c: B[i] = B[i] + A[i, k]`."""
    rows, columns, limit = draw(st.integers(1, 3)), draw(st.integers(2, 6)), draw(st.integers(-2, 6))
    a, b = Buffer("A", (rows, columns), "int32"), Buffer("B", (rows,), "int32")
    kind = draw(st.sampled_from([ForKind.SERIAL, ForKind.UNROLLED]))
    by_index = draw(st.booleans())

    def body(i: Expr) -> tuple[Stmt, None, list, list]:
        k = Var("k")
        condition: Expr = b[i] < limit
        if by_index:
            condition = And(condition, i < draw(st.integers(1, rows)))
        update = If(condition, BufferStore(b, b[i] + a[i, k] + 2, (i,)))
        loop = For(k, const(0), const(columns), kind, update)
        start = BufferStore(b, const(0, "int32"), (i,))
        return Seq((start, loop)), None, [region(a, (i, (0, columns))), region(b, (i,))], [region(b, (i,))]

    return with_root((a, b), nest([rows], "S", "B", body), ATTRS)


def long_rows(draw: Draw) -> PrimFunc:
    """Rows longer than the longest vector, read with strides and shifts, under conditions, from any start."""
    rows, columns = draw(st.integers(1, 2)), draw(st.sampled_from([65, 70, 96, 131]))
    dtype = draw(st.sampled_from(["float32", "float64", "int32", "int8"]))
    stride, shift = draw(st.integers(1, 2)), draw(st.integers(0, 3))
    a, b = Buffer("A", (rows, columns * stride + shift), dtype), Buffer("B", (rows, columns), dtype)
    kind, limit = draw(st.sampled_from(["plain", "guarded", "chosen"])), draw(st.integers(1, columns))
    first = draw(st.integers(0, 5))

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        place = (i, j * stride + shift)
        value: Expr = a[place] + Cast(b.dtype, j)
        if kind == "chosen":
            value = call("if_then_else", j < limit, value, const(3, dtype))
        stmt: Stmt = BufferStore(b, value, (i, j))
        if kind == "guarded":
            stmt = Seq((BufferStore(b, const(1, dtype), (i, j)), If(j < limit, stmt)))
        return stmt, None, [region(a, place)], [region(b, (i, j))]

    made = nest([rows, columns], "SS", "B", body)
    if first and kind == "plain":  # the first columns in a loop of their own
        inner = made.body  # type: ignore[attr-defined]
        realize = inner.body
        i, j = made.loop_var, inner.loop_var  # type: ignore[attr-defined]
        rest = For(j, const(first), const(columns - first), ForKind.SERIAL, realize)
        head = nest([rows, first], "SS", "H", body)
        made = Seq.of(head, For(i, const(0), const(rows), ForKind.SERIAL, rest))
    return with_root((a, b), made, ATTRS)


def triangles(draw: Draw) -> PrimFunc:
    """for i: for j in range(f(i)): nests whose inner extent depends on the outer loop."""
    n, shift = draw(st.integers(2, 6)), draw(st.integers(0, 2))
    a, b = Buffer("A", (n, n + shift), "int32"), Buffer("B", (n, n + shift), "int32")

    def fill(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(b, const(5, "int32"), (i, j)), None, [], [region(b, (i, j))]

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(b, a[i, j] * 3 + j, (i, j)), None, [region(a, (i, j))], [region(b, (i, j))]

    outer = nest([n, n + shift], "SS", "B", body)
    inner = outer.body  # type: ignore[attr-defined]
    extent = outer.loop_var + draw(st.integers(0, 1)) + shift if draw(st.booleans()) else n + shift - outer.loop_var  # type: ignore[attr-defined]
    triangle = For(
        outer.loop_var,
        const(0),
        const(n),
        ForKind.SERIAL,
        For(inner.loop_var, const(0), extent, ForKind.SERIAL, inner.body),
    )  # type: ignore[attr-defined]
    return with_root((a, b), Seq.of(nest([n, n + shift], "SS", "F", fill), triangle), ATTRS)


def sequences(draw: Draw) -> PrimFunc:
    """Several blocks under one outer loop, that read and overwrite what the others made."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    a = Buffer("A", (rows, columns), "int32")
    made = [Buffer(name, (rows, columns), "int32") for name in "BCD"]
    i, known = Var("i"), [a]
    parts: list[Stmt] = []
    for number in range(draw(st.integers(2, 4))):
        target = draw(st.sampled_from(made)) if number else made[0]
        source = draw(st.sampled_from(known))

        def body(vi: Expr, vj: Expr, source: Buffer = source, target: Buffer = target) -> tuple[Stmt, None, list, list]:
            value = source[vi, vj] * 2 + vj
            return BufferStore(target, value, (vi, vj)), None, [region(source, (vi, vj))], [region(target, (vi, vj))]

        part = nest([rows, columns], "SS", f"{target.name}{number}", body)
        realize = part.body.body  # type: ignore[attr-defined]
        values = (i, realize.iter_values[1])
        parts.append(For(part.body.loop_var, const(0), const(columns), ForKind.SERIAL,  # type: ignore[attr-defined]
                         BlockRealize(values, const(True), realize.block)))  # fmt: skip
        known += [] if target in known else [target]
    body_all = For(i, const(0), const(rows), ForKind.SERIAL, Seq.of(*parts))
    used = [b for b in made if b in known]
    return with_root((a, *used), body_all, ATTRS)


def running(draw: Draw) -> PrimFunc:
    """P[i, k] = the sum of A[i, 0 .. k]: a reduction whose partial results are read while it runs."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    a, p = Buffer("A", (rows, columns), "int32"), Buffer("P", (rows, columns), "int32")
    inside = draw(st.booleans())
    s = Buffer("S", (rows,), "int32")
    i, k = Var("i"), Var("k")

    def update(vi: Expr, vk: Expr) -> tuple[Stmt, Stmt, list, list]:
        init = BufferStore(s, const(0, "int32"), (vi,))
        return BufferStore(s, s[vi] + a[vi, vk], (vi,)), init, [region(a, (vi, vk))], [region(s, (vi,))]

    def keep(vi: Expr, vk: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(p, s[vi] * 2, (vi, vk)), None, [region(s, (vi,))], [region(p, (vi, vk))]

    parts = []
    for name, kinds, body in (("S", "SR", update), ("P", "SS", keep)):
        realize = nest([rows, columns], kinds, name, body).body.body  # type: ignore[attr-defined]
        parts.append(BlockRealize((i, k), const(True), realize.block))
    loops = For(k, const(0), const(columns), ForKind.SERIAL, Seq.of(*parts))
    outer = For(i, const(0), const(rows), ForKind.SERIAL, loops)
    return with_root((a, p) if inside else (a, s, p), outer, ATTRS, (s,) if inside else ())


def carried(draw: Draw) -> PrimFunc:
    """for i: T gets its first values where i == 0, some new ones in each iteration, and is read as a whole."""
    rows, columns = draw(st.integers(2, 5)), draw(st.sampled_from([4, 6, 8]))
    step = draw(st.sampled_from([1, 1, 2]))
    shift = draw(st.integers(0, step - 1))
    count = columns // step - draw(st.sampled_from([0, 0, 1]))
    a, t = Buffer("A", (rows, columns), "int32"), Buffer("T", (columns,), "int32")
    out = Buffer("B", (rows, columns), "int32")
    i = Var("i")
    limit = draw(st.sampled_from([None, None, "row", "column"]))

    def first(vi: Expr, vj: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(t, a[vi, vj], (vj,)), None, [region(a, (vi, vj))], [region(t, (vj,))]

    def some(vi: Expr, vj: Expr) -> tuple[Stmt, None, list, list]:
        at = vj * step + shift
        stmt: Stmt = BufferStore(t, a[vi, vj] * 3, (at,))
        if limit == "column":
            stmt = If(vj < max(1, count - 1), stmt)
        return stmt, None, [region(a, (vi, vj))], [region(t, (at,))]

    def read(vi: Expr, vj: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(out, t[vj] + vi, (vi, vj)), None, [region(t, (vj,))], [region(out, (vi, vj))]

    parts: list[Stmt] = []
    plan = [
        ("F", first, columns, i < 1),
        ("T", some, count, i < 2 if limit == "row" else None),
        ("B", read, columns, None),
    ]
    for name, body, extent, where in plan:
        made = nest([rows, extent], "SS", name, body).body  # type: ignore[attr-defined]
        realize = BlockRealize((i, made.loop_var), const(True) if where is None else where, made.body.block)
        parts.append(For(made.loop_var, const(0), const(extent), ForKind.SERIAL, realize))
    return with_root((a, out), For(i, const(0), const(rows), ForKind.SERIAL, Seq.of(*parts)), ATTRS, (t,))
