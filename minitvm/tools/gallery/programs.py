"""Small programs on which bad calls are made, and which the tests of schedules share."""

# mypy: disable-error-code="arg-type,attr-defined,index,misc,operator,valid-type"
from __future__ import annotations

from minitvm import te
from minitvm.expr import Expr, IterVar, Range, SizeVar, Var, const
from minitvm.script import tir as T
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    with_root,
)


def matmul(m: int | Expr = 8, n: int = 6, k: int = 4) -> PrimFunc:
    """C = A @ B as one reduction block "C" in loops i, j, k."""
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    axis = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, axis] * B[axis, j], axis=axis), name="C")
    return te.create_prim_func([A, B, C])


def symbolic_matmul() -> PrimFunc:
    """As `matmul`, with a symbolic number of rows."""
    return matmul(SizeVar("m"))


def chain(rows: int = 10, columns: int = 6) -> PrimFunc:
    """B = A * 2; C = B[i] + B[i+1] + B[i+2] (a halo of two rows); D = C + 1."""
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((rows - 2, columns), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="C")
    D = te.compute((rows - 2, columns), lambda i, j: C[i, j] + 1.0, name="D")
    return te.create_prim_func([A, D])


def two_consumers(rows: int = 8) -> PrimFunc:
    """B = A * 2; C = B + 1; D = B - C."""
    A = te.placeholder((rows,), name="A")
    B = te.compute((rows,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((rows,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((rows,), lambda i: B[i] - C[i], name="D")
    return te.create_prim_func([A, D])


def nest(
    extents: list[int],
    kinds: str,
    buffer: Buffer,
    writes: list[object],
    value: object,
    reads: list[list[object]],
    name: str = "A",
) -> PrimFunc:
    """One block over a grid: `buffer[writes] = value`; the callables take the block's iterators."""
    loops = [Var("ijkl"[d]) for d in range(len(extents))]
    iters = [Var("v" + loop.name) for loop in loops]

    def at(functions: list[object]) -> tuple[Expr, ...]:
        return tuple(f(*iters) for f in functions)

    def region(indices: tuple[Expr, ...]) -> BufferRegion:
        return BufferRegion(buffer, tuple(Range(i, const(1)) for i in indices))

    block = Block(
        tuple(IterVar(v, Range.of(e), kind) for v, e, kind in zip(iters, extents, kinds, strict=False)),
        tuple(region(at(r)) for r in reads),
        (region(at(writes)),),
        name,
        BufferStore(buffer, value(*iters), at(writes)),
    )
    body: Stmt = BlockRealize(tuple(loops), const(True), block)
    for loop, extent in reversed(list(zip(loops, extents, strict=False))):
        body = For(loop, const(0), const(extent), ForKind.SERIAL, body)
    return with_root((buffer,), body, {"global_symbol": "main"})


def wavefront() -> PrimFunc:
    """A[i+1, j+1] = A[i, j+2] + 1, in place: i and j must not change places."""
    A = Buffer("A", (10, 10))
    return nest(
        [8, 8],
        "SS",
        A,
        [lambda i, j: i + 1, lambda i, j: j + 1],
        lambda i, j: A[i, j + 2] + 1.0,
        [[lambda i, j: i, lambda i, j: j + 2]],
    )


def opaque() -> PrimFunc:
    """A[i, j] = 1 with iterators that claim that their order matters."""
    A = Buffer("A", (4, 4))
    return nest([4, 4], "OO", A, [lambda i, j: i, lambda i, j: j], lambda i, j: const(1.0), [])


@T.prim_func
def row_sums(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for i, k_0, k_1 in T.grid(8, 2, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, k_0 * 4 + k_1)
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def sum_of_four(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(C[0])
        with T.init():
            C[0] = 0.0
        for k in range(4):
            with T.block("sum"):
                vk = T.axis.reduce(4, k)
                C[0] = C[0] + A[vk]


@T.prim_func
def triangle(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1.0


@T.prim_func
def nested(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = A[vi, vj]


@T.prim_func
def sparse(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi * 2] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi * 2]


@T.prim_func
def written_twice(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("again"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def fused_reduction(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for f in range(32):
        with T.block("B"):
            vi = T.axis.spatial(8, f // 4)
            vk = T.axis.reduce(4, f % 4)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def watched_sum(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = B[vi]
