"""Tiles of an open extent get versions without conditions, one for each number of rows that may be left."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import reference
from minitvm.expr import walk
from minitvm.machines.simd.transform.unmask_registers import unmask_registers
from minitvm.machines.simd.transform.unswitch_tiles import unswitch_tiles
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import BufferStore, If, PrimFunc
from minitvm.tir.transform import lower

TILED = """
@T.prim_func(lowered=True)
def main(n: T.int32, A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in {loop}:
        for r in T.unroll({rows}):
            if i * {rows} + r < n:
                B[i * {rows} + r] = A[i * {rows} + r]
"""


KEPT = """
@T.prim_func(lowered=True)
def main(n: T.int32, A: T.Buffer((640,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(4):
        S = T.decl_buffer(({rows},), scope="local")
        for r in T.unroll({rows}):
            if i * {rows} + r < n:
                S[r] = 0.0
        for k in range(10):
            for r in T.unroll({rows}):
                if i * {rows} + r < n:
                    S[r] = S[r] + A[(i * {rows} + r) * 10 + k]
        for r in T.unroll({rows}):
            if i * {rows} + r < n:
                B[i * {rows} + r] = S[r]
        for r in T.unroll({rows}):
            if i * {rows} + r < n:
                C[i * {rows} + r] = A[i * {rows} + r]
"""


def tiled(rows: int, loop: str = "range(4)") -> PrimFunc:
    """A copy in tiles."""
    return from_source(TILED.format(rows=rows, loop=loop))  # type: ignore[return-value]


def summed(rows: int) -> PrimFunc:
    """Sums that a tile keeps in registers, and a copy beside them."""
    return from_source(KEPT.format(rows=rows))  # type: ignore[return-value]


def versions(func: PrimFunc) -> int:
    return sum(isinstance(node, If) for node in walk(func.body))


def test_each_number_of_rows_in_registers_has_a_version() -> None:
    text = str(unswitch_tiles(summed(4)))
    assert "if i * 4 + 3 < n:" in text
    assert [text.count(f"if i * 4 + {rest} == n:") for rest in (3, 2, 1)] == [1] * 3
    assert "S[0] = T.float32(0.0)" in text, "one row needs no loop"


def test_statements_that_share_no_registers_have_versions_of_their_own() -> None:
    """The copy beside the sums is not in their versions: it has two, one for a whole tile and one with conditions."""
    text = str(unswitch_tiles(summed(4)))
    assert text.count("if i * 4 + 3 < n:") == 2
    assert text.count(" C[") == 2


@pytest.mark.parametrize("rows", [4, 17])
def test_a_copy_has_a_version_for_a_whole_tile_and_one_with_conditions(rows: int) -> None:
    assert versions(unswitch_tiles(tiled(rows))) == 2


def test_too_many_versions_are_not_made() -> None:
    text = str(unswitch_tiles(summed(17)))
    assert "if i * 17 + 16 < n:" in text and "== n" not in text


def test_a_loop_that_runs_in_parallel_is_not_cut() -> None:
    made = unswitch_tiles(tiled(4, "T.parallel(4)"))
    assert str(made).count("T.parallel(4)") == 1 and "if i * 4 + 3 < n:" in str(made)


NESTED = """
@T.prim_func(lowered=True)
def main(n: T.int32, A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    for f in T.parallel(64):
        q: T.int32 = f // 4
{lets}        S = T.decl_buffer((128,), scope="local")
        for v in T.unroll(8):
            for lane in T.vectorized(16):
                if q * 128 + v * 16 + lane < n:
                    S[v * 16 + lane] = A[q * 128 + v * 16 + lane]
        for v in T.unroll(8):
            for lane in T.vectorized(16):
                if q * 128 + v * 16 + lane < n:
                    B[q * 128 + v * 16 + lane] = S[v * 16 + lane]
"""


@pytest.mark.parametrize("lets", [0, 1, 4])
def test_versions_of_an_edge_are_made_once_however_many_lets_are_inside(lets: int) -> None:
    """Places inside of a version have the same edge: versions of versions grow with a power of their number."""
    lines = "".join(f"        r{k}: T.int32 = f % {k + 2}\n" for k in range(lets))
    made = unswitch_tiles(from_source(NESTED.format(lets=lines)))  # type: ignore[arg-type]
    assert str(made).count("T.vectorized(16)") == 2 * 9, "a whole tile, and 8 numbers of vectors"


def test_known_extents_are_left_to_the_partition() -> None:
    func = tiled(4)
    text = str(func).replace("< n", "< 13")
    known = from_source(text)
    assert isinstance(known, PrimFunc) and unswitch_tiles(known) is known


def test_a_grid_of_threads_keeps_its_conditions() -> None:
    """Threads that wait for one another must all come there."""
    func = tiled(4, 'T.thread_binding(4, thread="threadIdx.x")')
    assert unswitch_tiles(func) is func


@pytest.mark.parametrize("rows", [2, 3, 16])
def test_versions_compute_the_same(rows: int) -> None:
    text = f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n, 5))
    B = T.match_buffer(b, (n,))
    for i in range((n + {rows - 1}) // {rows}):
        for k in range(5):
            for r in T.unroll({rows}):
                with T.block("b"):
                    vi = T.axis.spatial(n, i * {rows} + r)
                    vk = T.axis.reduce(5, k)
                    T.where(i * {rows} + r < n)
                    with T.init():
                        B[vi] = 0.0
                    B[vi] = B[vi] + A[vi, vk]
"""
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    module = lower(func, None, "main")
    for n in (1, rows - 1, rows, rows + 1, 2 * rows + 1):
        assert check(func, module, sizes={"n": n}).equal, n


MASKED = """
@T.prim_func(lowered=True)
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    S = T.decl_buffer((16,), scope="local")
    S[T.Ramp(0, 1, 8)] = A[T.Ramp(0, 1, 8)]
    S.vstore([T.Ramp({second}, 1, 8)], A[T.Ramp(8, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast({left}, 8))
    B[T.Ramp(0, 1, 8)] = S[T.Ramp(0, 1, 8)]
    B.vstore([T.Ramp(8, 1, 8)], S.vload([T.Ramp({second}, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast({read}, 8)), predicate=T.Ramp(0, 1, 8) < T.Broadcast({left}, 8))
"""  # noqa: E501


def masked(second: int = 8, left: int = 5, read: int = 5) -> PrimFunc:
    return from_source(MASKED.format(second=second, left=left, read=read))  # type: ignore[return-value]


def local_masks(func: PrimFunc) -> int:
    stores = [n for n in walk(func.body) if isinstance(n, BufferStore) and n.buffer.scope == "local"]
    return sum(store.predicate is not None for store in stores)


def test_masks_of_accumulators_go() -> None:
    made = unmask_registers(masked())
    assert local_masks(made) == 0 and local_masks(masked()) == 1


def test_slots_that_share_lanes_in_use_stay() -> None:
    assert local_masks(unmask_registers(masked(second=7))) == 1


def test_lanes_that_another_mask_reads_stay() -> None:
    assert local_masks(unmask_registers(masked(left=5, read=6))) == 1


COLUMNS = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (2, 3))
    B = T.match_buffer(b, (3, n))
    C = T.match_buffer(c, (2, n))
    S = T.alloc_buffer((2, n), scope="local")
    for j in range((n + 11) // 12):
        for i in T.unroll(2):
            for v in T.unroll(3):
                for l in T.vectorized(4):
                    with T.block("init"):
                        vi = T.axis.spatial(2, i)
                        vj = T.axis.spatial(n, j * 12 + v * 4 + l)
                        T.where(j * 12 + v * 4 + l < n)
                        S[vi, vj] = 0.0
        for k in range(3):
            for i in T.unroll(2):
                for v in T.unroll(3):
                    for l in T.vectorized(4):
                        with T.block("sum"):
                            vi = T.axis.spatial(2, i)
                            vj = T.axis.spatial(n, j * 12 + v * 4 + l)
                            vk = T.axis.reduce(3, k)
                            T.where(j * 12 + v * 4 + l < n)
                            S[vi, vj] = S[vi, vj] + A[vi, vk] * B[vk, vj]
        for i in T.unroll(2):
            for v in T.unroll(3):
                for l in T.vectorized(4):
                    with T.block("result"):
                        vi = T.axis.spatial(2, i)
                        vj = T.axis.spatial(n, j * 12 + v * 4 + l)
                        T.where(j * 12 + v * 4 + l < n)
                        C[vi, vj] = S[vi, vj] + 1.0
"""


def summed_columns() -> PrimFunc:
    """Sums in three vectors of four lanes, of columns of which nobody knows how many there are."""
    return from_source(COLUMNS)  # type: ignore[return-value]


def test_each_number_of_vectors_has_a_version() -> None:
    """Vectors without a column are in none of them."""
    text = "".join(str(func) for _, func in lower(summed_columns()).items())
    assert [text.count(f"j * 12 + {last} < n:") for last in (11, 8, 4)] == [1] * 3
    assert (text.count("= B[T.Ramp("), text.count("= B.vload([T.Ramp(")) == (3, 3 + 2 + 1)


def test_each_number_of_vectors_keeps_the_meaning() -> None:
    func, module = summed_columns(), lower(summed_columns())
    rng = np.random.default_rng(0)
    for n in range(1, 26):
        a, b = (rng.integers(-9, 9, shape).astype("float32") for shape in ((2, 3), (3, n)))
        expected, found = np.zeros((2, n), "float32"), np.zeros((2, n), "float32")
        reference.tir.run(func, a, b, expected)
        reference.kernel.run(module, a, b, found, sizes={"n": n})
        np.testing.assert_array_equal(found, expected)
