"""What an iteration of a concurrent loop allocates belongs to it, on the stack of a thread or in a workspace."""

from __future__ import annotations

import pytest

from minitvm.expr import walk
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import Allocate, BufferStore, For, PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.transform.place_allocations import STACK_BUFFER_BYTES


def rows_through_a_buffer(columns: int, kind: str) -> PrimFunc:
    text = f"""
@T.prim_func
def main(A: T.Buffer((3, {columns}), "float32"), C: T.Buffer((3, {columns}), "float32")):
    for i in T.{kind}(3):
        with T.block("row"):
            vi = T.axis.spatial(3, i)
            T.reads(A[vi, 0:{columns}])
            T.writes(C[vi, 0:{columns}])
            S = T.alloc_buffer(({columns},))
            for j in range({columns}):
                with T.block("load"):
                    vj = T.axis.spatial({columns}, j)
                    S[vj] = A[vi, vj] * 2.0
            for j in range({columns}):
                with T.block("use"):
                    vj = T.axis.spatial({columns}, j)
                    C[vi, vj] = S[{columns - 1} - vj] + 1.0
"""
    return from_source(text)  # type: ignore[return-value]


def allocation(func: PrimFunc) -> Allocate | None:
    return next((n for n in walk(func.body) if isinstance(n, Allocate)), None)


@pytest.mark.parametrize("kind", ["parallel", "vectorized", "serial"])
@pytest.mark.parametrize("columns", [8, STACK_BUFFER_BYTES // 4 + 1])
def test_iterations_do_not_meet_in_what_they_allocate(kind: str, columns: int) -> None:
    func = rows_through_a_buffer(columns, kind)
    if columns > 8 and kind == "vectorized":
        columns //= 16  # lanes that run in turn take long
        func = rows_through_a_buffer(columns, kind)
    verdict = check(func, lower(func), modes=("exact", "shadow"))
    assert verdict, verdict


def test_lanes_use_neighbouring_elements_in_step() -> None:
    module = lower(rows_through_a_buffer(8, "vectorized"))
    stores = [n for _, f in module.items() for n in walk(f.body) if isinstance(n, BufferStore) and n.buffer.name == "S"]
    assert stores and all(n.value.dtype.lanes == 3 for n in stores), module


def test_small_storage_stays_on_the_stack_of_a_thread() -> None:
    module = lower(rows_through_a_buffer(8, "parallel"))
    kernel = next(f for _, f in module.items() if not f.attrs.get("host"))
    assert isinstance(kernel.body, For)
    found = allocation(kernel)
    assert found is not None
    assert [str(d) for d in found.buffer.shape] == ["8"]


def test_large_storage_is_a_workspace_with_a_part_for_each_iteration() -> None:
    columns = STACK_BUFFER_BYTES // 4 + 1
    module = lower(rows_through_a_buffer(columns, "parallel"))
    found = allocation(next(f for _, f in module.items() if f.attrs.get("host")))
    assert found is not None
    assert [str(d) for d in found.buffer.shape] == [str(3 * columns)]


def blocks_with_scratch(columns: str, scope: str) -> PrimFunc:
    """Each owner writes all of a buffer that is allocated outside of the grid, and reads it turned around."""
    local = scope == "local"
    owner, sharing = ('"threadIdx.x"', "serial(4") if local else ('"blockIdx.x"', 'thread_binding(4, "threadIdx.x"')
    text = f"""
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (3, {columns}))
    C = T.match_buffer(c, (3, {columns}))
    S = T.alloc_buffer(({columns},), scope="{scope}")
    for i in T.thread_binding(3, thread={owner}):
        for j in T.{sharing}):
            for k in range(({columns} + 3) // 4):
                with T.block("load"):
                    vi, vj = T.axis.spatial(3, i), T.axis.spatial({columns}, k * 4 + j)
                    T.where(k * 4 + j < {columns})
                    S[vj] = A[vi, vj] * 2.0
        for j in T.{sharing}):
            for k in range(({columns} + 3) // 4):
                with T.block("use"):
                    vi, vj = T.axis.spatial(3, i), T.axis.spatial({columns}, k * 4 + j)
                    T.where(k * 4 + j < {columns})
                    C[vi, vj] = S[{columns} - 1 - vj] + 1.0
"""
    return from_source(text)  # type: ignore[return-value]


@pytest.mark.parametrize("scope", ["shared", "local"])
@pytest.mark.parametrize("columns", ["11", str(STACK_BUFFER_BYTES // 4 + 1), "n"])
def test_owners_on_a_grid_do_not_meet_in_what_does_not_fit_their_storage(columns: str, scope: str) -> None:
    func = blocks_with_scratch(columns, scope)
    module = lower(func)
    if len(columns) < 3:
        verdict = check(func, module, modes=("exact", "shadow"))
        assert verdict, verdict
    found = [n.buffer for _, f in module.items() for n in walk(f.body) if isinstance(n, Allocate)]
    assert len(found) == 1
    workspace = {"11": "11", "n": "n * 3"}.get(columns, str(3 * (STACK_BUFFER_BYTES // 4 + 1)))
    assert (str(found[0].shape[0]), found[0].scope) == (workspace, scope if columns == "11" else "global")
