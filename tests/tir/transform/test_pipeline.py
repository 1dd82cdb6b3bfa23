"""Every pass keeps the meaning: the interpreter sees the same results before and after each, on scheduled programs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm import strategy, te, topi
from minitvm.errors import VerificationError
from minitvm.expr import Add, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, const, structural_equal, walk
from minitvm.reference import check
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.te import create_prim_func
from minitvm.tir import Schedule
from minitvm.tir.analysis.software_pipelines import DOUBLE, ORDER, STAGE
from minitvm.tir.annotations import LANES, PREFETCH
from minitvm.tir.nodes import (
    Allocate,
    Block,
    Buffer,
    BufferStore,
    For,
    ForKind,
    If,
    IRModule,
    KernelCall,
    PrimFunc,
    Seq,
)
from minitvm.tir.op import if_then_else
from minitvm.tir.transform import lower, passes
from minitvm.tir.transform.affine import bounds, linear
from minitvm.tir.transform.simplify import fold
from minitvm.tir.transform.unroll import STATEMENT_BUDGET, unroll
from minitvm.tir.verifier import verify
from tests.machines.simd.transform.test_strided_stores import rows_in_turn
from tests.tir.schedule import programs

from .padded_sums import convolution
from .test_reuse_workspaces import tiles


def tiled_matmul() -> PrimFunc:
    """Imperfect tiles, a packed operand, vectors and unrolling."""
    sch = Schedule(programs.matmul(13, 21, 6))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, k, i1, j1)
    packed = sch.cache_read(block, 1, "local")
    sch.compute_at(packed, j0)
    sch.unroll(i1)
    sch.vectorize(j1)
    return sch.func


def two_stages() -> PrimFunc:
    """A stencil whose producer is computed where it is needed."""
    a = te.placeholder((34,), name="A")
    b = te.compute((34,), lambda i: a[i] * 2.0, name="B")
    sch = Schedule(create_prim_func([a, te.compute((32,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")]))
    (i,) = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 8])
    sch.compute_at(sch.get_block("B"), i0)
    sch.vectorize(i1)
    return sch.func


def register_tile() -> PrimFunc:
    """Rows of vectors that share what they load, the next elements asked for ahead of time."""
    sch = Schedule(programs.matmul(8, 16, 6))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(i0)
    sch.parallel(j0)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.annotate(k, PREFETCH, 2)
    return sch.func


def sum_in_lanes() -> PrimFunc:
    """A sum that is kept in several lanes, over rows of which every second element is read in vectors."""
    a = te.placeholder((3, 40), name="A")
    even = te.compute((3, 20), lambda i, j: a[i, 2 * j] * 2.0, name="E")
    k = te.reduce_axis((0, 20), "k")
    sch = Schedule(create_prim_func([a, te.compute((3,), lambda i: te.sum(even[i, k], axis=k), name="S")]))
    sch.vectorize(sch.split(sch.get_loops("E")[1], [None, 4])[1])
    sch.annotate(sch.get_loops("S")[1], LANES, 4)
    return sch.func


def turned_tile() -> PrimFunc:
    """A matrix turned around tile by tile."""
    a = te.placeholder((8, 16), name="A")
    sch = Schedule(create_prim_func([a, te.compute((16, 8), lambda i, j: a[j, i], name="B")]))
    i, j = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1)
    return sch.func


def padded_rows() -> PrimFunc:
    """Virtual threads, over a copy whose rows begin at odd places."""
    a = te.placeholder((6, 8), name="A")
    shifted = te.compute((6, 8), lambda i, j: if_then_else(j > 0, a[5 - i, j - 1], 0.0), name="B")
    sch = Schedule(create_prim_func([a, shifted]))
    copy = sch.cache_read("B", 0, "local")
    sch.storage_align(copy, 0, 0, 4, 1)
    i, j = sch.get_loops("B")
    sch.bind(sch.split(i, [None, 2])[1], "vthread.x")
    sch.unroll(j)
    return sch.func


@T.prim_func
def rows_through_views(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 8), "float32")):
    """Each thread has a buffer of its own, and sees its rows through views."""
    for i in T.parallel(3):
        with T.block("row"):
            vi = T.axis.spatial(3, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            S = T.alloc_buffer((8,))
            row = T.match_buffer(A[vi, 0:8], (8,))
            result = T.match_buffer(B[vi, 0:8], (8,))
            for j in range(8):
                with T.block("load"):
                    vj = T.axis.spatial(8, j)
                    S[vj] = row[vj] * T.float32(2)
            for j in range(8):
                with T.block("store"):
                    vj = T.axis.spatial(8, j)
                    result[vj] = S[7 - vj] + T.float32(1)


def ahead(note: str) -> Callable[[], PrimFunc]:
    """A row is loaded while the one before it is in use: as a pipeline or a double buffer."""

    @T.prim_func
    def main(A: T.Buffer((5, 4), "float32"), B: T.Buffer((5, 4), "float32")):
        S = T.alloc_buffer((4,))
        for i in range(5):
            for j in range(4):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    S[vj] = A[vi, vj] * T.float32(2)
            for j in range(4):
                with T.block("use"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = S[3 - vj] + T.float32(1)

    def annotated() -> PrimFunc:
        sch = Schedule(main)
        if note == DOUBLE:
            sch.annotate(sch.get_block("load"), DOUBLE, 0)
        else:
            loop = sch.get_loops("load")[0]
            sch.annotate(loop, STAGE, [0, 1])
            sch.annotate(loop, ORDER, [0, 1])
        return sch.func

    return annotated


@T.prim_func
def rows_with_gaps(A: T.Buffer((4, 5), "float32", strides=(7, 1)), B: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "plain": lambda: programs.matmul(5, 6, 7),
    "tiled_matmul": tiled_matmul,
    "two_stages": two_stages,
    "register_tile": register_tile,
    "sum_in_lanes": sum_in_lanes,
    "turned_tile": turned_tile,
    "padded_rows": padded_rows,
    "rows_through_views": lambda: rows_through_views,
    "rows_with_gaps": lambda: rows_with_gaps,
    "pipelined": ahead(STAGE),
    "double_buffered": ahead(DOUBLE),
}


def open_rows() -> PrimFunc:
    """Tiles of rows of which nobody knows how many there are, and vectors whose last lanes are masked."""
    m = te.size_var("m")
    a, b = te.placeholder((m, 3), name="a"), te.placeholder((3, 6), name="b")
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    target = Target("cpu -vector_bits=128 -vector_registers=16")
    return strategy.schedule(func, target, {"rows": 4, "vectors": 2, "pack": False}).func


def on_a_grid() -> PrimFunc:
    """A transposition through storage that threads share. Its meaning is that of the loop program at its start only:
    between passes its storage has no owner, and no interpreter is for that."""

    @T.prim_func
    def turned(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        S = T.alloc_buffer((8,), scope="shared")
        for b in T.thread_binding(8, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for u in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("S"):
                        vb, vu = T.axis.remap("SS", [b, u])
                        S[vu] = A[vb, vu]
                with T.block("B"):
                    vb, vt = T.axis.remap("SS", [b, t])
                    B[vb, vt] = S[7 - vt]

    return turned


def pieces_on_a_grid() -> PrimFunc:
    """A sum in pieces through storage that threads share, which is as large as one piece."""

    @T.prim_func
    def pieces(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 8), "float32")):
        S = T.alloc_buffer((32,), scope="shared")
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for ko in range(4):
                    for u in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("S"):
                            vb, vk = T.axis.spatial(4, b), T.axis.spatial(32, ko * 8 + u)
                            S[vk] = A[vb, vk]
                    for ki in range(8):
                        with T.block("C"):
                            vb, vt, vk = T.axis.spatial(4, b), T.axis.spatial(8, t), T.axis.reduce(32, ko * 8 + ki)
                            with T.init():
                                C[vb, vt] = T.float32(0.0)
                            C[vb, vt] = C[vb, vt] + S[vk]

    return pieces


def sums_of_teams() -> PrimFunc:
    """Sums over rows, whose terms the threads of a block share."""
    a, k = te.placeholder((3, 20), name="A"), te.reduce_axis((0, 20), name="k")
    sch = Schedule(te.create_prim_func([a, te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")]))
    i, inner = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(inner, [None, 8])[1], "threadIdx.x")
    return sch.func


def arrays_for(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [tuple(int(d) for d in b.shape) for b in func.buffers]
    return [rng.integers(-4, 5, s).astype(np.float32) for s in shapes]


def result(run: Any, program: Any, arrays: list[np.ndarray], flat: bool) -> np.ndarray:
    copies = [a.copy().reshape(-1) if flat else a.copy() for a in arrays]
    copies[-1][...] = 55
    run(program, *copies)
    return copies[-1].reshape(-1)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_every_pass_keeps_the_meaning(name: str) -> None:
    func = PROGRAMS[name]()
    arrays = arrays_for(func)
    expected = result(reference.run, func, arrays, flat=False)
    seen: list[str] = []

    def check(step: str, before: Any, after: Any) -> None:
        seen.append(step)
        flat = isinstance(after, IRModule) or after.buffers[0].ndim < func.buffers[0].ndim
        run = kernel_reference.run if isinstance(after, IRModule) else reference.run
        np.testing.assert_array_equal(result(run, after, arrays, flat), expected, err_msg=f"after {step}:\n{after}")

    module = lower(func, None, "main", callback=check)
    assert seen == [*(p.name for p in passes()), "split_host"]
    verify(module, "kernel")


def dilated_taps() -> PrimFunc:
    """Taps that read nothing but padding at the edges."""
    return convolution(64, 3, dilation=8, before=8, after=8, tile=8)


def read_twice() -> PrimFunc:
    """One statement whose value has each part of it two times."""
    a = te.placeholder((16,), name="A")

    def value(i: Any) -> Any:
        e = a[i]
        for _ in range(6):
            e = te.exp(e) * te.sqrt(e + 1.0)
        return e

    return te.create_prim_func([a, te.compute((16,), value, name="B")])


def in_turn() -> PrimFunc:
    """Two rows whose elements lie in turn in the result."""
    return rows_in_turn(2, 16, "float32")


SWIZZLED = """
@T.prim_func
def main(A: T.Buffer((16, 64), "float16"), B: T.Buffer((16, 64), "float16")):
    S = T.alloc_buffer((16, 64), "float16", scope="shared.dyn.swizzled")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for j in range(64):
                with T.block("S"):
                    vi, vj = T.axis.remap("SS", [t, j])
                    S[vi, vj] = A[vi, vj]
            for j in range(64):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [t, j])
                    B[vi, vj] = S[vi, vj]
"""


def swizzled() -> PrimFunc:
    """A tile in the order that warpgroups read."""
    return from_source(SWIZZLED)


def stored_rows() -> PrimFunc:
    """Rows of an open length that wait in memory, a few at a time."""
    return tiles(2, "parallel")


HALVES = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.parallel(32):
        B[i] = A[i]
    for i in T.parallel(32):
        B[i + 32] = A[i] + T.float32(1)
"""


def halves() -> PrimFunc:
    """Two halves of a result, each a parallel loop."""
    return from_source(HALVES)


REPEATS = """
@T.prim_func
def main(a: T.handle, c: T.handle, b: T.handle):
    n = T.int32(is_size_var=True)
    m = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n,))
    C = T.match_buffer(c, (m,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        B[i] = A[i] + C[T.Select(m == n, i, T.min(i, m - 1))]
"""


def repeats() -> PrimFunc:
    """A sum with a row of open length, which is as long as the other or repeats its last entry."""
    return from_source(REPEATS)


def test_every_pass_changes_one_of_the_programs() -> None:
    changed: set[str] = set()

    def compare(step: str, before: PrimFunc, after: Any) -> None:
        if isinstance(after, PrimFunc) and not structural_equal(before.body, after.body):
            changed.add(step)

    others = (
        on_a_grid, pieces_on_a_grid, open_rows, stored_rows, sums_of_teams, dilated_taps, read_twice, in_turn, swizzled,
        halves, repeats,
    )  # fmt: skip
    for make in (*PROGRAMS.values(), *others):
        lower(make(), callback=compare)
    assert [p.name for p in passes() if p.name not in changed] == []


def test_tail_is_peeled_so_that_the_main_part_has_no_condition() -> None:
    module = lower(tiled_matmul(), None, "main")
    loops = [n for n in walk(module["main_kernel_0"].body) if isinstance(n, For)]
    clean = [
        loop
        for loop in loops
        if not any(isinstance(n, If) or getattr(n, "predicate", None) is not None for n in walk(loop.body))
    ]
    assert clean, "some loop runs without conditions and masks"


def test_packed_tile_is_compacted_onto_the_stack() -> None:
    module = lower(tiled_matmul(), None, "main")
    allocations = [n.buffer for n in walk(module["main_kernel_0"].body) if isinstance(n, Allocate)]
    tile = next(b for b in allocations if b.name == "B_local")
    assert tile.scope == "local" and int(tile.shape[0]) == 6 * 8


def test_a_value_carried_between_iterations_keeps_its_buffer_outside() -> None:
    A, S = Buffer("A", (const(8),)), Buffer("S", (const(1),))
    B = Buffer("B", (const(8),))
    i = Var("i")
    zero = const(0)
    body = Seq((
        BufferStore(S, const(0.0), (zero,)),
        For(i, zero, const(8), ForKind.SERIAL, Seq((
            BufferStore(S, S[0] + A[i], (zero,)),
            BufferStore(B, S[0], (i,)),
        ))),
    ))  # fmt: skip
    from minitvm.tir.nodes import with_root

    module = lower(with_root((A, B), body, {"global_symbol": "scan"}, alloc_buffers=(S,)), None)
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel_reference.run(module, a, b)
    np.testing.assert_array_equal(b, np.cumsum(a))


def test_host_function_is_calls_and_kernels_have_one_parallel_loop() -> None:
    sch = Schedule(programs.matmul(16, 16, 16))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.parallel(i)
    sch.parallel(j)
    module = lower(sch.func, None, "mm")
    kernel = module["mm_kernel_0"].body
    assert isinstance(kernel, For) and kernel.kind == ForKind.PARALLEL and int(kernel.extent) == 256
    call = next(n for n in walk(module["mm"].body) if isinstance(n, KernelCall))
    assert call.parallel
    assert not any(isinstance(n, Block) for n in walk(module["mm"].body))


def test_unroll_keeps_within_its_budget() -> None:
    A = Buffer("A", (const(10),))
    i = Var("i")
    store = BufferStore(A, const(1.0), (i % 10,))
    small = PrimFunc((A,), For(i, const(0), const(4), ForKind.UNROLLED, store))
    assert len(unroll(small).body.stmts) == 4
    large = PrimFunc((A,), For(i, const(0), const(STATEMENT_BUDGET + 1), ForKind.UNROLLED, store))
    assert unroll(large).body.kind == ForKind.SERIAL


def test_the_verifier_names_the_rule() -> None:
    A = Buffer("A", (const(4), const(4)))
    func = PrimFunc((A,), BufferStore(A, const(1.0), (const(0), const(0))))
    with pytest.raises(VerificationError, match="flat_buffers"):
        verify(func, "kernel")
    flat = Buffer("A", (const(4),))
    i = Var("i")
    inner = For(i, const(0), const(4), ForKind.VECTORIZED, BufferStore(flat, const(1.0), (i,)))
    with pytest.raises(VerificationError, match="plain_loops"):
        verify(PrimFunc((flat,), inner), "kernel")


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 5, 8, 16])
def test_folding_of_divisions_against_brute_force(divisor: int) -> None:
    i, j = Var("i"), Var("j")
    ranges = {i: (-3, 5), j: (0, 7)}
    forms = [i * 8 + j, i * 4 + j, i * divisor + j + 1, (i * 16 + j) // 2, i * 24 + j * 3 + 2, j - 4]
    for e in forms:
        for made in (
            e // divisor,
            e % divisor,
            (e // divisor) // 3,
            (e % divisor) * 2 + e,
            (e // divisor) * divisor + e % divisor,
        ):
            folded = fold(made, ranges)
            limits = bounds(folded, ranges)
            for a in range(-3, 6):
                for b in range(8):
                    want, got = evaluate(made, {i: a, j: b}), evaluate(folded, {i: a, j: b})
                    assert want == got, f"{made} became {folded}"
                    assert limits is None or limits[0] <= got <= limits[1]


ARITHMETIC = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, FloorDiv: operator.floordiv, FloorMod: operator.mod,
}  # fmt: skip


def evaluate(e: Any, values: dict[Var, int]) -> int:
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return values[e]
    return ARITHMETIC[type(e)](evaluate(e.a, values), evaluate(e.b, values))


def test_linear_forms_compare_by_value() -> None:
    i, j = Var("i"), Var("j")
    assert linear(i * 3 + j - i) == linear(j + i * 2)
    assert linear(i) != linear(j)


def test_an_index_that_is_read_from_memory_is_read_where_it_stands() -> None:
    A, I = Buffer("A", (const(8),)), Buffer("I", (const(4),), "int32")
    i = Var("i")
    at = I[i] * 2 + i
    body = For(i, const(0), const(4), ForKind.SERIAL, Seq((
        BufferStore(A, A[at] + 1.0, (at,)),
        BufferStore(I, const(0), (i,)),
        BufferStore(A, A[at + 1] + 10.0, (at + 1,)),
    )))  # fmt: skip
    from minitvm.tir.nodes import with_root

    func = with_root((A, I), body, {"global_symbol": "main"})
    first = [np.zeros(8, np.float32), np.array([1, 2, 1, 2], np.int32)]
    second = [a.copy() for a in first]
    reference.run(func, *first, inout=["A", "I"])
    kernel_reference.run(lower(func, None), *second, inout=["A", "I"])
    np.testing.assert_array_equal(second[0], first[0])


def test_loops_of_a_gpu_grid_are_a_kernel() -> None:
    a = te.placeholder((10, 8), name="A")
    func = create_prim_func([a, te.compute((10, 8), lambda i, j: a[i, j] * 2.0, name="B")])
    for axis in ("blockIdx.x", "threadIdx.y"):
        sch = Schedule(func)
        sch.bind(sch.get_loops("B")[0], axis)
        module = lower(sch.func)
        verify(module, level="kernel")
        (kernel,) = [f for f in module.functions.values() if not f.attrs.get("host")]
        assert isinstance(kernel.body, For) and kernel.body.thread == axis
    sch = Schedule(func)
    sch.bind(sch.get_loops("B")[0], "vthread.x")
    verify(lower(sch.func), level="kernel")


def test_init_stays_inside_of_loops_that_bind_nothing() -> None:
    """Each iteration of `again` begins the sum anew; a condition on it, which binds nothing, comes along."""

    @T.prim_func
    def repeated(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
        for k, again in T.grid(4, 2):
            with T.block("B"):
                vk = T.axis.reduce(4, k)
                T.where(again < 1)
                with T.init():
                    B[0] = 0.0
                B[0] = B[0] + A[vk]

    out = np.zeros(1, np.float32)
    kernel_reference.run(lower(repeated, None), np.arange(4, dtype=np.float32), out)
    assert out[0] == 6


def test_init_stays_where_another_loop_skips_the_first_step() -> None:
    """A sum over the steps of a skewed nest: only in the first row does it begin."""

    @T.prim_func
    def skewed(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
        for i, k in T.grid(2, 4):
            with T.block("B"):
                vk = T.axis.reduce(4, k)
                T.where(i * 2 <= k and k <= i * 2 + 1)
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + A[vk]

    verdict = check(skewed, lower(skewed))
    assert verdict, str(verdict)
    assert verdict.ran == ("exact", "field", "shadow")


LET_ABOVE = """
@T.prim_func
def main(A: T.Buffer((3,), "uint32"), C: T.Buffer((3,), "uint32")):
    for i in range(3):
        with T.block("start"):
            vi = T.axis.remap("S", [i])
            C[vi] = T.uint32(2)
    lower: T.uint32 = {value}
    for i in range(3):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            T.where(A[i] < lower)
            C[vi] = C[vi] + T.max(A[vi], T.uint32(3))
"""


@pytest.mark.parametrize(("value", "parallel"), [("A[0]", True), ("C[0]", False)])
def test_a_parallel_loop_below_a_let_is_the_outermost_of_its_kernel(value: str, parallel: bool) -> None:
    """The let moves into the loop where nobody writes what it reads; else the loop runs serially."""
    func = from_source(LET_ABOVE.format(value=value))
    sch = Schedule(func)
    sch.parallel(sch.get_loops("C")[0])
    module = lower(sch.func, None, "main")
    assert any(n.parallel for n in walk(module["main"].body) if isinstance(n, KernelCall)) is parallel
    assert check(func, module)
