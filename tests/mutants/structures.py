"""Random programs by their structure: reductions, chains of producers and consumers, views, nests, private storage.

Like those of `programs`, on small integers in whatever dtype.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm import te, topi
from minitvm.compat.tvm.ir import IRModule
from minitvm.expr import (
    EQ,
    And,
    Cast,
    Expr,
    Max,
    Min,
    Range,
    Select,
    Var,
    binary,
    call,
    const,
    replace,
)
from minitvm.machines.simd.topi.blocked import block_axis, unblock_axis
from minitvm.reference.strategies.tensors import best_of
from minitvm.script import from_source
from minitvm.tir.nodes import (
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
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform.place_allocations import STACK_BUFFER_BYTES

from .programs import ATTRS, FLOATS, Draw, nest, region


def contraction(draw: Draw) -> PrimFunc:
    """C[i, j] = sum (or max, or min) over k of A[i, k] * B[k, j], some of it with a bias or a clamp behind."""
    m, n, k = draw(st.integers(1, 9)), draw(st.sampled_from([8, 4, 5, 16, 3, 11])), draw(st.integers(1, 7))
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "int32"]))
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), "k")
    kind, plain = draw(st.sampled_from([te.sum, te.sum, te.max, te.min])), draw(st.booleans())
    c = te.compute(
        (m, n), lambda i, j: kind(a[i, r] * b[r, j] if plain else a[i, r] * b[r, j] - a[i, r], axis=r), name="C"
    )
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
    """Producers and consumers along one axis with halos, strides and padding between them; some are outputs, too."""
    n = draw(st.integers(6, 20))
    last = te.placeholder((n,), draw(st.sampled_from(["float32", "int32"])), name="A")
    params = [last]
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
            )
        elif kind == "reverse":
            last = te.compute((length,), lambda i, s=source, n=length: s[n - 1 - i] * 2, name=name)
        else:
            last = te.compute((length,), lambda i, s=source: s[i] + 1, name=name)
        params.append(last)
    hidden = [p for p in params[1:-1] if draw(st.booleans())]
    return te.create_prim_func([p for p in params if p not in hidden])


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
    """Loops inside a block that stop by data, some of which start anew in their first iteration:
    `for k: (if k == 0: B[i] = c); if B[i] < d: B[i] = B[i] + A[i, k]`."""
    rows, columns, limit = draw(st.integers(1, 3)), draw(st.integers(2, 6)), draw(st.integers(-2, 6))
    a, b = Buffer("A", (rows, columns), "int32"), Buffer("B", (rows,), "int32")
    kind = draw(st.sampled_from([ForKind.SERIAL, ForKind.UNROLLED]))
    by_index, again = draw(st.booleans()), draw(st.sampled_from(["", "first", "first of some"]))

    def body(i: Expr) -> tuple[Stmt, None, list, list]:
        k = Var("k")
        condition: Expr = b[i] < limit
        if by_index:
            condition = And(condition, i < draw(st.integers(1, rows)))
        update: Stmt = If(condition, BufferStore(b, b[i] + a[i, k] + 2, (i,)))
        if again:
            first = EQ(k, const(0)) if again == "first" else And(EQ(k, const(0)), i < rows // 2)
            update = Seq((If(first, BufferStore(b, const(-3, "int32"), (i,))), update))
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


def in_turns(draw: Draw) -> PrimFunc:
    """B[i] = the sum of A[i, k] in a skewed nest, turn by turn: all but the first turn skip the first step.

    for i, t, k in grid(rows, turns, turns * share): where t * share <= k < (t + 1) * share
    """
    rows, turns, share = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    steps = turns * share
    a, b, t = Buffer("A", (rows, steps), "int32"), Buffer("B", (rows,), "int32"), Var("t")

    def update(vi: Expr, vk: Expr) -> tuple[Stmt, Stmt, list, list]:
        init = BufferStore(b, const(0, "int32"), (vi,))
        return BufferStore(b, b[vi] + a[vi, vk] * 3, (vi,)), init, [region(a, (vi, vk))], [region(b, (vi,))]

    i = nest([rows, steps], "SR", "B", update)
    k = i.body  # type: ignore[attr-defined]
    mine = And(t * share <= k.loop_var, k.loop_var < (t + 1) * share)
    body = For(t, const(0), const(turns), ForKind.SERIAL, replace(k, body=replace(k.body, predicate=mine)))
    return with_root((a, b), replace(i, body=body), ATTRS)  # type: ignore[type-var]


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


def gaps(draw: Draw) -> PrimFunc:
    """T gets first values everywhere, new ones at every so many elements, and is read from the first of these on."""
    n, step = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    shift = draw(st.integers(0, step - 1))
    a, t = Buffer("A", (n,), "int32"), Buffer("T", (n * step,), "int32")
    out = Buffer("B", ((n - 1) * step + 1,), "int32")

    def first(i: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(t, i * 5, (i,)), None, [], [region(t, (i,))]

    def some(i: Expr) -> tuple[Stmt, None, list, list]:
        at = (i * step + shift,)
        return BufferStore(t, a[i] * 3, at), None, [region(a, (i,))], [region(t, at)]

    def read(i: Expr) -> tuple[Stmt, None, list, list]:
        return BufferStore(out, t[i + shift] + 1, (i,)), None, [region(t, (i + shift,))], [region(out, (i,))]

    parts = [nest([n * step], "S", "F", first), nest([n], "S", "T", some), nest([(n - 1) * step + 1], "S", "B", read)]
    return with_root((a, out), Seq.of(*parts), ATTRS, (t,))


def private(draw: Draw, columns: int = 0) -> PrimFunc:
    """Rows computed in storage that a block allocates for itself: each iteration of the outer loop has its own."""
    rows, columns = draw(st.integers(2, 5)), columns or draw(st.integers(2, 6))
    kind = draw(st.sampled_from(["serial", "parallel", "vectorized", "serial"]))
    tile = draw(st.sampled_from([1, 1, 2]))
    source = draw(st.sampled_from(["vj", f"{columns - 1} - vj"]))
    factor = draw(st.integers(2, 4))
    text = f"""
@T.prim_func
def main(A: T.Buffer(({rows * tile}, {columns}), "int32"), C: T.Buffer(({rows * tile}, {columns}), "int32")):
    for i in T.{kind}({rows}):
        with T.block("row"):
            vi = T.axis.spatial({rows}, i)
            T.reads(A[vi * {tile}:vi * {tile} + {tile}, 0:{columns}])
            T.writes(C[vi * {tile}:vi * {tile} + {tile}, 0:{columns}])
            S = T.alloc_buffer(({tile}, {columns}), "int32")
            for r, j in T.grid({tile}, {columns}):
                with T.block("load"):
                    vr, vj = T.axis.remap("SS", [r, j])
                    S[vr, vj] = A[vi * {tile} + vr, vj] * {factor}
            for r, j in T.grid({tile}, {columns}):
                with T.block("use"):
                    vr, vj = T.axis.remap("SS", [r, j])
                    C[vi * {tile} + vr, vj] = S[vr, {source}] + vj
"""
    made = from_source(text)
    return made if isinstance(made, PrimFunc) else IRModule(made.functions)["main"]


def private_workspaces(draw: Draw) -> PrimFunc:
    """The same, in storage that is too large for the stack of a thread."""
    return private(draw, STACK_BUFFER_BYTES // 4 + draw(st.integers(1, 9)))


def staged_loops(draw: Draw) -> PrimFunc:
    """Loops of loads, computations and stores: what pipelines are tried on."""
    from tests.tir.schedule import pipeline_programs

    return draw(pipeline_programs.staged_loops())


def tiled_products(draw: Draw) -> PrimFunc:
    """Matrix products in tiles that the package's intrinsics compute."""
    from tests.tir.schedule import layout_programs

    func, tile = draw(layout_programs.tiled_matmuls())
    sch = Schedule(func)
    tile(sch)
    return sch.func


def perhaps_open(draw: Draw, extent: int) -> Any:
    """The extent, or in one case of three an open one."""
    return te.size_var("n") if draw(st.integers(0, 2)) == 0 else extent


def turned(draw: Draw) -> PrimFunc:
    """Copies that read along one axis and write along another: transposes, channels into blocks and out of them."""
    dtype = draw(st.sampled_from(["float32", "int32", "float64", "float16", "bfloat16"]))
    kind = draw(st.sampled_from(["transpose", "transpose", "block", "unblock"]))
    width = st.sampled_from([4, 8, 8, 12, 16, 5])
    if kind == "transpose":
        shape = [draw(st.integers(1, 3)), draw(width), perhaps_open(draw, draw(width))][draw(st.integers(0, 1)) :]
        axes = draw(st.permutations(range(len(shape))))
        a = te.placeholder(shape, dtype, name="A")
        return te.create_prim_func([a, topi.transpose(a, axes=tuple(axes))])
    block = draw(st.sampled_from([4, 8]))
    rows, columns, blocks = draw(st.integers(1, 2)), perhaps_open(draw, draw(width)), draw(st.integers(1, 2))
    channels = blocks * block - draw(st.sampled_from([0, 0, 1, 2]))
    if kind == "block":
        a = te.placeholder((1, channels, rows, columns), dtype, name="A")
        return te.create_prim_func([a, block_axis(a, axis=1, block=block)])
    a = te.placeholder((1, blocks, rows, columns, block), dtype, name="A")
    return te.create_prim_func([a, unblock_axis(a, axis=1, extent=channels)])


# ---- tensor expressions ----------------------------------------------------------------------------------------------


@st.composite
def tuple_reductions(draw: Any) -> list[te.Tensor]:
    """The greatest or least value and its place, where ties keep the first or the last."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    a = te.placeholder((rows, columns), draw(st.sampled_from(["int32", "float32"])), name="A")
    k = te.reduce_axis((0, columns), "k")
    largest, strict = draw(st.booleans()), draw(st.booleans())
    reducer = best_of(largest, strict)
    return [a, *te.compute((rows,), lambda i: reducer((k.var, a[i, k]), axis=k), name="B")]


@st.composite
def several(draw: Any) -> list[te.Tensor]:
    """One compute of several values, and some of them used again."""
    n, dtype = draw(st.integers(1, 6)), draw(st.sampled_from(["int32", "float32"]))
    a = te.placeholder((n,), dtype, name="A")
    factors = [draw(st.integers(-3, 3)) for _ in range(draw(st.integers(2, 3)))]
    parts = te.compute((n,), lambda i: tuple(a[i] * const(f, dtype) + const(k, dtype) for k, f in enumerate(factors)))
    last = te.compute((n,), lambda i: parts[-1][i] - parts[0][n - 1 - i], name="D")
    return [a, *parts[: draw(st.integers(0, len(parts)))], last]


@st.composite
def filtered_sums(draw: Any) -> list[te.Tensor]:
    """A reduction of the points that a condition leaves, from the identity or from a start of its own, and its use."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    dtype = draw(st.sampled_from(["int32", "float32"]))
    a = te.placeholder((rows, columns), dtype, name="A")
    k = te.reduce_axis((draw(st.integers(0, columns - 1)), columns), "k")
    reducer = draw(st.sampled_from([te.sum, te.max, te.min]))
    limit, start = draw(st.integers(0, columns)), draw(st.sampled_from([None, 0, 3, -50, 50]))
    where = draw(st.sampled_from([None, "column", "value"]))

    def element(i: Expr) -> Expr:
        condition = {None: None, "column": k.var < limit, "value": a[i, k] > const(0, dtype)}[where]
        return reducer(a[i, k] * const(2, dtype), axis=k, where=condition, init=start)

    b = te.compute((rows,), element, name="B")
    width = draw(st.integers(1, 3))
    c = te.compute((rows, width), lambda i, j: b[i] - b[rows - 1 - i] * Cast(b.dtype, j), name="C")
    return [a, b, c] if draw(st.booleans()) else [a, c]


def repeated(draw: Draw) -> PrimFunc:
    """One statement whose value has the same parts many times: each step reads what it is made of twice, or three
    times, once perhaps where a condition leaves it out."""
    rows, columns = draw(st.integers(1, 3)), draw(st.sampled_from([4, 8, 11]))
    dtype = draw(st.sampled_from(["int32", "float32"]))
    a, b = Buffer("A", (rows, columns), dtype), Buffer("B", (rows, columns), dtype)
    limit, shift = draw(st.integers(0, columns)), draw(st.integers(0, 1))
    steps = draw(st.lists(st.sampled_from(["square", "chosen", "larger", "guarded", "halves"]), min_size=3, max_size=5))

    def body(i: Expr, j: Expr) -> tuple[Stmt, None, list, list]:
        value: Expr = a[i, j] + const(1, dtype)
        other: Expr = a[i, j] * const(3, dtype) - const(2, dtype)
        for number, kind in enumerate(steps):
            if kind == "square":
                value = value * (value - other) + value
            elif kind == "chosen":
                value = Select(value > other, value + const(number, dtype), value - other)
            elif kind == "larger":
                value = Max(value, other) - Min(value - const(1, dtype), other)
            elif kind == "guarded":
                guarded = call("if_then_else", j + shift < limit, a[i, j + shift] + value, other * value)
                value = value + guarded * guarded
            else:
                value, other = value + other, value - other
            if dtype == "float32":
                value = Max(Min(value, const(9.0, dtype)), const(-9.0, dtype))
        whole = BufferRegion(a, tuple(Range(const(0), d) for d in a.shape))
        return BufferStore(b, value, (i, j)), None, [whole], [region(b, (i, j))]

    return with_root((a, b), nest([rows, columns], "SS", "B", body), ATTRS)
