"""Random programs for the cache family: updates in place, several readers, imperfect tiles, ragged rows, computed
indices."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm.expr import Expr, IterVar, Min, Range, Var, binary, const
from minitvm.script import tir as T
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    Seq,
    Stmt,
    with_root,
)

DTYPES = ("float32", "int32", "int8")


def _region(buffer: Buffer, *indices: Any) -> BufferRegion:
    whole = [i if isinstance(i, Range) else Range(i, const(1)) for i in indices]
    return BufferRegion(buffer, tuple(whole))


def _grid(draw: Any, extents: list[int], block: Block) -> Stmt:
    """A block in a loop for each of its iterators, the first perhaps in imperfect tiles."""
    loops = [Var(name) for name in "ijkl"[: len(extents)]]
    values: list[Expr] = list(loops)
    predicate: Expr = const(True)
    sizes = list(extents)
    if draw(st.booleans()):
        factor = draw(st.integers(2, 3))
        loops = [Var("i_0"), Var("i_1"), *loops[1:]]
        values[0] = loops[0] * factor + loops[1]
        sizes = [-(-extents[0] // factor), factor, *extents[1:]]
        if extents[0] % factor:
            predicate = values[0] < extents[0]
    body: Stmt = BlockRealize(tuple(values), predicate, block)
    for var, extent in reversed(list(zip(loops, sizes))):
        body = For(var, const(0), const(extent), ForKind.SERIAL, body)
    return body


def _block(name: str, axes: list[tuple[Var, int]], reads: list[BufferRegion], writes: list[BufferRegion],
           body: Stmt) -> Block:  # fmt: skip
    iters = tuple(IterVar(v, Range.of(const(n)), "S") for v, n in axes)
    return Block(iters, tuple(reads), tuple(writes), name, body)


@st.composite
def in_place(draw: Any) -> PrimFunc:
    """B = A, updated in place one to three times, element by element or row by row; C (and D) read it."""
    dtype = draw(st.sampled_from(DTYPES))
    rows, columns = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    shape = (const(rows), const(columns))
    A, B, C, D = (Buffer(name, shape, dtype) for name in "ABCD")  # type: ignore[arg-type]
    nests: list[Stmt] = []

    def pointwise(name: str, target: Buffer, sources: list[Buffer], value: Any) -> None:
        vi, vj = Var("vi"), Var("vj")
        store = BufferStore(target, value(vi, vj), (vi, vj))
        reads = [_region(s, vi, vj) for s in sources]
        block = _block(name, [(vi, rows), (vj, columns)], reads, [_region(target, vi, vj)], store)
        nests.append(_grid(draw, [rows, columns], block))

    pointwise("fill", B, [A], lambda i, j: A[i, j] + 1)
    for step in range(draw(st.integers(1, 3))):
        constant = draw(st.integers(-2, 2))
        if draw(st.booleans()):
            pointwise(f"update_{step}", B, [B, A], lambda i, j, c=constant: B[i, j] * c + A[i, j])
            continue
        vi, k = Var("vi"), Var("k")
        row = Range.of(const(columns))
        # The last element of the row may be read after the first was written: the order inside a block stays.
        value = B[vi, k] + BufferLoad(B, (vi, const(columns - 1))) * constant
        inside = For(k, const(0), const(columns), ForKind.SERIAL, BufferStore(B, value, (vi, k)))
        block = _block(f"update_{step}", [(vi, rows)], [_region(B, vi, row)], [_region(B, vi, row)], inside)
        nests.append(_grid(draw, [rows], block))
    pointwise("C", C, [B], lambda i, j: B[i, j] - 1)
    if draw(st.booleans()):
        pointwise("D", D, [B, A], lambda i, j: B[i, j] + A[i, j])
        return with_root((A, C, D), Seq.of(*nests), {"global_symbol": "main"}, (B,))
    return with_root((A, C), Seq.of(*nests), {"global_symbol": "main"}, (B,))


@st.composite
def ragged(draw: Any) -> PrimFunc:
    """B = A and C = C + B over a part of each row, in one loop over the rows: the parts have lengths of their own."""
    dtype = draw(st.sampled_from(DTYPES))
    rows, first = draw(st.integers(2, 4)), draw(st.integers(0, 1))
    columns = rows + first
    shape = (const(rows), const(columns))
    A, B, C = (Buffer(name, shape, dtype) for name in "ABC")  # type: ignore[arg-type]
    length = draw(st.sampled_from(["growing", "shrinking", "up to two", "same"]))

    def over(i: Var, name: str, target: Buffer, sources: list[Buffer], value: Any, whole: bool = False) -> Stmt:
        parts = {"growing": i + 1, "shrinking": rows - i, "up to two": binary(Min, i + 1, const(2)), "same": const(2)}
        vi, vj, j = Var("vi"), Var("vj"), Var("j")
        reads = [_region(s, vi, vj) for s in sources]
        store = BufferStore(target, value(vi, vj), (vi, vj))
        block = _block(name, [(vi, rows), (vj, columns)], reads, [_region(target, vi, vj)], store)
        place: Expr = j + first if first and not whole else j
        extent = const(columns) if whole else parts[length]
        return For(j, const(0), extent, ForKind.SERIAL, BlockRealize((i, place), const(True), block))

    i, k = Var("i"), Var("k")
    fill = over(i, "fill", C, [A], lambda a, b: A[a, b] * 2, whole=True)
    produce = over(k, "B", B, [A], lambda a, b: A[a, b] + 1)
    consume = over(k, "C", C, [B, C], lambda a, b: C[a, b] + B[a, b])
    nests = [
        For(v, const(0), const(rows), ForKind.SERIAL, body) for v, body in ((i, fill), (k, Seq.of(produce, consume)))
    ]
    return with_root((A, C), Seq.of(*nests), {"global_symbol": "main"}, (B,))


@st.composite
def computed_indices(draw: Any) -> PrimFunc:
    """B = A at indices that are sums, quotients and remainders of the iterators, some of them twice."""
    dtype = draw(st.sampled_from(DTYPES))
    m, n = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    A = Buffer("A", (const(2 * (m + n)), const(m * n)), dtype)
    B = Buffer("B", (const(m), const(n)), dtype)
    vi, vj = Var("vi"), Var("vj")
    q = draw(st.integers(1, 4))
    rows = [vi // q + vj, (vi + vj) % (q + 1), vi + vj, vi * 2 + vj // q]
    columns = [vi // q, vj, (vi + vj) % n, const(0), vi * vj]
    points = [(draw(st.sampled_from(rows)), draw(st.sampled_from(columns))) for _ in range(draw(st.integers(1, 3)))]
    value: Expr = A[points[0]]
    for point in points[1:]:
        value = value + A[point]
    reads = [_region(A, Range.of(A.shape[0]), Range.of(A.shape[1]))]
    block = _block("B", [(vi, m), (vj, n)], reads, [_region(B, vi, vj)], BufferStore(B, value, (vi, vj)))
    return with_root((A, B), _grid(draw, [m, n], block), {"global_symbol": "main"}, ())


@T.prim_func
def transposed(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 2.0
