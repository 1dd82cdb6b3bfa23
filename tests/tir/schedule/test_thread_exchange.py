"""Threads that hand values over in shared storage: no step may break that, or give each thread storage of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minitvm.errors import ScheduleError
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower


def in_two_loops(column: str) -> PrimFunc:
    """Threads fill a tile, each its row; then each reads another one's row."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3, 4), "float32")):
    S = T.alloc_buffer((4, 3), scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(3):
                with T.block("S"):
                    vt, vk = T.axis.remap("SS", [t, k])
                    S[vt, vk] = A[vk, vt]
            for k in range(3):
                with T.block("B"):
                    vt, vk = T.axis.remap("SS", [t, k])
                    B[vk, vt] = S[3 - vt, {column}]
""")


def in_one_loop(scope: str, other: str) -> PrimFunc:
    """Threads write and read a row again and again."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3, 4), "float32")):
    S = T.alloc_buffer((4,), scope="{scope}")
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for k in range(3):
            with T.block("S"):
                vt, vk = T.axis.remap("SS", [t, k])
                S[{"vt" if scope == "shared" else "0"}] = A[vk, vt]
            with T.block("B"):
                vt, vk = T.axis.remap("SS", [t, k])
                B[vk, vt] = S[{other}]
""")


PLACES = {
    "a row each": ("vv * {t} + vt", True), "a column each": ("vt * {v} + vv", True), "one for all": ("vt", False),
    "passed on": ("(vt + vv) % {t}", False),
}  # fmt: skip


def lanes_that_exchange(place: str, axis: str, other: str, threads: int = 4, lanes: int = 2) -> PrimFunc:
    """In each iteration of a loop inside, threads write an element each and read another thread's."""
    at = place.format(t=threads, v=lanes)
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({lanes}, {threads}), "float32"), B: T.Buffer(({lanes}, {threads}), "float32")):
    S = T.alloc_buffer(({lanes * threads},), scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding({threads}, thread="{axis}"):
            for v in range({lanes}):
                with T.block("S"):
                    vt, vv = T.axis.remap("SS", [t, v])
                    S[{at}] = A[vv, vt] * T.float32(2)
                with T.block("B"):
                    vt, vv = T.axis.remap("SS", [t, v])
                    B[vv, vt] = S[{at.replace("vt", f"({other})")}]
""")


@pytest.mark.parametrize("kind", ["vectorize", "parallel"])
@pytest.mark.parametrize("axis", ["threadIdx.x", "vthread"])
@pytest.mark.parametrize("other", ["3 - vt", "(vt + 1) % 4"])
@pytest.mark.parametrize("place", PLACES)
def test_threads_go_in_step_through_lanes(place: str, other: str, axis: str, kind: str) -> None:
    """Lanes are independent if no thread touches in one what any thread touches in another."""
    at, independent = PLACES[place]
    func = lanes_that_exchange(at, axis, other)
    sch = Schedule(func)
    loop = sch.get_loops("B")[2]
    if not independent:
        with pytest.raises(ScheduleError, match="no_races"):
            getattr(sch, kind)(loop)
        return
    getattr(sch, kind)(loop)
    for after in (sch.func, lower(sch.func)):
        verdict = check(func, after)
        assert verdict, f"{verdict}\n{after.script()}"


def merged(sch: Schedule) -> Any:
    return sch.merge(*(sch.get_loops(block)[2] for block in ("S", "B")))


def test_loops_merge_where_each_turn_exchanges_its_own_column() -> None:
    func = in_two_loops("vk")
    sch = Schedule(func)
    merged(sch)
    assert check(func, sch.func)


@pytest.mark.parametrize("column", ["2 - vk", "(vk + 1) % 3"])
def test_loops_do_not_merge_past_what_another_thread_has_yet_to_write(column: str) -> None:
    sch = Schedule(in_two_loops(column))
    with pytest.raises(ScheduleError, match="keeps_order_of_nests"):
        merged(sch)


STEPS: dict[str, Callable[[Schedule], Any]] = {
    "set_scope": lambda s: s.set_scope("S", 0, "local"),
    "set_scope_global": lambda s: s.set_scope("S", 0, "global"),
    "cache_read": lambda s: s.cache_read("B", 0, "local"),
    "cache_write": lambda s: s.cache_write("S", 0, "local"),
    "read_at": lambda s: s.read_at(s.get_loops("B")[-1], "B", 0, "local"),
    "write_at": lambda s: s.write_at(s.get_loops("S")[-1], "S", 0, "local"),
    "reindex": lambda s: s.reindex("B", ("read", 0)),
    "reindex_cache_read": lambda s: s.reindex_cache_read("B", 0, "local", lambda i, j: (i, j)),
    "reindex_cache_write": lambda s: s.reindex_cache_write("S", 0, "local", lambda i, j: (i, j)),
    "vectorize": lambda s: s.vectorize(s.get_loops("B")[-1]),
    "bind": lambda s: s.bind(s.get_loops("B")[-1], "threadIdx.y"),
    "compute_at": lambda s: s.compute_at("S", s.get_loops("B")[-1]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("B", s.get_loops("S")[-1]),
    "compute_inline": lambda s: s.compute_inline("S"),
    "reverse_compute_inline": lambda s: s.reverse_compute_inline("B"),
    "reorder": lambda s: s.reorder(*s.get_loops("B")[::-1]),
}
PROGRAMS = {
    "two loops": in_two_loops("2 - vk"), "one loop": in_one_loop("shared", "3 - vt"), "own": in_one_loop("local", "0"),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_step_between_threads_is_refused_or_keeps_the_meaning(program: str, step: str) -> None:
    func = PROGRAMS[program]
    sch = Schedule(func)
    try:
        STEPS[step](sch)
    except ScheduleError:
        return
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{sch.func.script()}"


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("program", ["two loops", "one loop"])
def test_what_threads_exchange_stays_shared(program: str, scope: str) -> None:
    with pytest.raises(ScheduleError, match="one_owner"):
        Schedule(PROGRAMS[program]).set_scope("S", 0, scope)


@pytest.mark.parametrize("scope", ["shared", "global"])
def test_what_each_thread_has_for_itself_is_not_shared(scope: str) -> None:
    with pytest.raises(ScheduleError, match="one_owner"):
        Schedule(PROGRAMS["own"]).set_scope("S", 0, scope)


def staged(row: str) -> PrimFunc:
    """Threads fetch a tile in loops that bind their axis again, and store it in others; then each reads all of it."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3, 4), "float32")):
    R = T.alloc_buffer((3, 4), scope="shared")
    S = T.alloc_buffer((3, 4), scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(3):
                for t_0 in T.thread_binding(4, thread="threadIdx.x"):
                    with T.block("R"):
                        vk, vt = T.axis.remap("SS", [k, t_0])
                        R[vk, vt] = A[vk, vt]
                for t_1 in T.thread_binding(4, thread="threadIdx.x"):
                    with T.block("S"):
                        vk, vt = T.axis.remap("SS", [k, t_1])
                        S[vk, vt] = R[vk, {row}]
                with T.block("B"):
                    vk, vt = T.axis.remap("SS", [k, t])
                    B[vk, vt] = S[vk, 3 - vt] * T.float32(2)
""")


def test_what_each_thread_fetches_for_itself_may_be_its_own() -> None:
    """Loops that bind the axis again are the thread then; what they fill together still is one tile an iteration."""
    func = staged("vt")
    sch = Schedule(func)
    sch.set_scope("R", 0, "local")
    assert sch.func.script().count("thread_binding") == 2 and 'scope="local"' in sch.func.script()
    k = sch.get_loops("B")[2]
    sch.annotate("S", "double_buffer_scope", 0)
    sch.annotate(k, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(k, "software_pipeline_order", [0, 2, 1])  # fetch, use the last one, store
    for after in (sch.func, lower(sch.func)):
        verdict = check(func, after)
        assert verdict, f"{verdict}\n{after.script()}"


def test_what_a_thread_fetches_for_another_one_stays_shared() -> None:
    with pytest.raises(ScheduleError, match="one_owner"):
        Schedule(staged("3 - vt")).set_scope("R", 0, "local")


def test_a_tile_is_not_used_before_all_threads_have_stored_it() -> None:
    sch = Schedule(staged("vt"))
    sch.set_scope("R", 0, "local")
    k = sch.get_loops("B")[2]
    sch.annotate(k, "software_pipeline_stage", [0, 0, 0])
    with pytest.raises(ScheduleError, match="keeps_pipelines"):
        sch.annotate(k, "software_pipeline_order", [0, 2, 1])
