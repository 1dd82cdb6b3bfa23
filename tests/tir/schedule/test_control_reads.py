"""What a predicate, a bound of a loop, a condition or a let looks up is read: by all primitives."""

from __future__ import annotations

import pytest

from minitvm.errors import ScheduleError
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower


def program(around: str, where: str = "True", name: str = "j") -> PrimFunc:
    """B: made of A; C: filled, and then where B decides."""
    lines = around.split("\n")
    nest = "\n".join("    " * (k + 1) + line for k, line in enumerate(lines))
    inside = "    " * (len(lines) + 1)
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi] * 2
    for i in range(10):
        with T.block("C0"):
            vi = T.axis.spatial(10, i)
            C[vi] = 0
{nest}
{inside}with T.block("C"):
{inside}    vi = T.axis.spatial(10, {name})
{inside}    T.where({where})
{inside}    C[vi] = A[vi] + 1
""")


BY_PREDICATE = program("for j in range(10):", "B[j] < 3")
AROUND = {
    "condition": program("for j in range(10):\nif B[j] < 3:"),
    "bound": program("for j in range(T.max(T.min(B[4], 10), 0)):"),
}


def test_a_producer_is_inlined_into_a_predicate() -> None:
    sch = Schedule(BY_PREDICATE)
    sch.compute_inline("B")
    assert "B[" not in sch.func.script()
    assert check(BY_PREDICATE, sch.func)


@pytest.mark.parametrize("what", AROUND)
def test_a_producer_that_a_statement_between_blocks_reads_is_not_inlined(what: str) -> None:
    with pytest.raises(ScheduleError, match="visible_loads"):
        Schedule(AROUND[what]).compute_inline("B")


@pytest.mark.parametrize("func", [BY_PREDICATE, *AROUND.values()], ids=["predicate", *AROUND])
def test_who_is_asked_where_to_run_is_a_producer(func: PrimFunc) -> None:
    sch = Schedule(func)
    assert [sch.get(b).name for b in sch.get_producers("C")] == ["B"]
    assert [sch.get(b).name for b in sch.get_consumers("B")] == ["C"]


@pytest.mark.parametrize("func", [BY_PREDICATE, *AROUND.values()], ids=["predicate", *AROUND])
def test_a_producer_comes_before_what_asks_for_it(func: PrimFunc) -> None:
    sch = Schedule(func)
    try:
        sch.compute_at("B", sch.get_loops("C")[0])
    except ScheduleError:
        return
    assert check(func, sch.func)


@pytest.mark.parametrize("func", [BY_PREDICATE, *AROUND.values()], ids=["predicate", *AROUND])
@pytest.mark.parametrize("block", ["B", "C"])
def test_a_remainder_is_asked_before_memory(func: PrimFunc, block: str) -> None:
    sch = Schedule(func)
    try:
        sch.split(sch.get_loops(block)[0], [None, 4])
    except ScheduleError:
        return
    assert check(func, sch.func)
    assert check(func, lower(sch.func))
