"""What the interpreter refuses: one tiny program for each finding, its text pinned, in both modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm.errors import ExecutionError
from minitvm.reference import tir
from minitvm.reference.meaning.findings import Finding, UndefinedBehaviour
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc


def refusal(func: Any, *args: Any, **options: Any) -> str:
    texts = []
    for mode in ("slow", "fast"):
        with pytest.raises(ExecutionError) as caught:
            tir.run(func, *(np.array(a) for a in args), mode=mode, **options)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return texts[0]


A, C = np.ones(4, "float32"), np.zeros(4, "float32")


def test_uninitialised_read() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        L = T.alloc_buffer((4,), "float32")
        for i in range(3):
            L[i] = A[i]
        for i in range(4):
            C[i] = L[i]

    assert refusal(func, A, C) == (
        "uninitialised read: element [3] of L has not been written yet\n  in:     L[i], where i = 3"
    )


def test_output_read_before_it_is_written() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = C[i] + A[i]

    assert refusal(func, A, C) == (
        "uninitialised read: element [0] of C has not been written yet\n  in:     C[i], where i = 0\n"
        "  try:    inout=['C'] if the function is meant to update what the caller passes in"
    )
    updated = np.full(4, 2, "float32")
    tir.run(func, A, updated, inout=["C"])
    assert updated.tolist() == [3, 3, 3, 3]


def test_fresh_storage_at_each_entry() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                L = T.alloc_buffer((1,), "float32")
                if vi == 0:
                    L[0] = A[vi]
                C[vi] = L[0]

    assert "element [0] of L has not been written yet" in refusal(func, A, C)


@pytest.mark.parametrize(("shift", "found"), [(1, 4), (-1, -1)])
def test_out_of_bounds(shift: int, found: int) -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = A[i + shift]

    text = str(func.body.block.body.body.value.indices[0])
    assert refusal(func, A, C) == (
        f"out of bounds: A[{text}] at index ({found})\n  wanted: 0 <= {text} < 4 in dimension 0 of A\n"
        f"  found:  {found}\n  in:     A[{text}], where i = {3 if found > 0 else 0}"
    )


def test_out_of_bounds_is_refused_without_shadow() -> None:
    @T.prim_func
    def func(A: T.Buffer((2, 2), "float32"), C: T.Buffer((2, 2), "float32")):
        for i, j in T.grid(2, 2):
            C[i, j + 1] = A[i, j]

    message = refusal(func, np.ones((2, 2), "f"), np.ones((2, 2), "f"), shadow=False)
    assert message.startswith("out of bounds: C[i, j + 1] at index (0, 2)")


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_write_write_conflict(kind: str) -> None:
    loop = getattr(T, kind)

    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
        for i in loop(4):
            C[0] = A[i]

    assert refusal(func, A, C[:1]) == (
        "conflicting accesses to element [0] of C: nothing orders them\n"
        "  written where i = 0 by: C[0] = A[i]\n  written where i = 1 by: C[0] = A[i]"
    )


def test_read_write_conflict() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        C[0] = A[0]
        for i in T.parallel(3):
            C[i + 1] = C[i] + A[i + 1]

    assert refusal(func, A, C) == (
        "conflicting accesses to element [1] of C: nothing orders them\n"
        "  written where i = 0 by: C[i + 1] = C[i] + A[i + 1]\n  read where i = 1 by: C[i]"
    )


def test_write_after_read_conflict() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = A[i]
        for i in T.parallel(3):
            C[i] = C[i + 1]

    assert refusal(func, A, C) == (
        "conflicting accesses to element [1] of C: nothing orders them\n"
        "  read where i = 0 by: C[i + 1]\n  written where i = 1 by: C[i] = C[i + 1]"
    )


def test_reduction_over_a_parallel_loop_is_a_conflict() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
        for k in T.parallel(4):
            with T.block("sum"):
                vk = T.axis.reduce(4, k)
                with T.init():
                    C[0] = 0.0
                C[0] = C[0] + A[vk]

    assert refusal(func, A, C[:1]).startswith("conflicting accesses to element [0] of C")


def test_nested_parallel_loops_name_both_iterations() -> None:
    @T.prim_func
    def func(A: T.Buffer((2, 2), "float32"), C: T.Buffer((2,), "float32")):
        for i in T.parallel(2):
            for j in T.parallel(2):
                C[i] = A[i, j]

    message = refusal(func, np.ones((2, 2), "f"), C[:2])
    assert "written where i = 0, j = 0" in message
    assert "written where i = 0, j = 1" in message


def test_loops_one_after_the_other_do_not_conflict() -> None:
    """The second loop reads what other iterations of the first wrote: that one is over."""

    @T.prim_func
    def func(A: T.Buffer((2, 4), "float32"), C: T.Buffer((2, 4), "float32")):
        L = T.alloc_buffer((2, 4), "float32")
        for b in T.parallel(2):
            for i in T.parallel(4):
                L[b, i] = A[b, i]
            for i in T.parallel(4):
                C[b, i] = L[b, 3 - i]

    data = np.arange(8, dtype="float32").reshape(2, 4)
    for mode in ("slow", "fast"):
        found = np.zeros_like(data)
        tir.run(func, data, found, mode=mode)
        assert (found == data[:, ::-1]).all()


def test_output_never_written() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(3):
            C[i] = A[i]

    assert refusal(func, A, C) == "output C is incomplete: 1 of 4 elements were never written, the first at [3]"


def test_block_outside_its_domain() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(5):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi]

    assert refusal(func, A, C) == (
        "block 'copy' runs outside its domain while its predicate holds\n  wanted: vi in [0, 0 + 4)\n  found:  vi = 4"
    )


def test_division_by_zero_and_assertions() -> None:
    @T.prim_func
    def divide(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            C[i] = A[i] // (A[i] - 2)

    assert refusal(divide, np.arange(4, dtype="int32"), np.zeros(4, "int32")) == "integer division of 2 by zero"


def test_a_guard_keeps_what_it_guards_from_being_evaluated() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((6,), "float32")):
        for i in range(6):
            C[i] = T.if_then_else(i >= 1 and i < 5, A[i - 1], T.float32(0))

    for mode in ("slow", "fast"):
        found = np.ones(6, "float32")
        tir.run(func, A, found, mode=mode)
        assert found.tolist() == [0, 1, 1, 1, 1, 0]


def test_select_guards_nothing() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((5,), "float32")):
        for i in range(5):
            C[i] = T.Select(i < 4, A[i], T.float32(0))

    assert refusal(func, A, np.zeros(5, "float32")).startswith("out of bounds: A[i] at index (4)")


def finding(func: PrimFunc, *args: np.ndarray) -> Finding:
    with pytest.raises(UndefinedBehaviour) as caught:
        tir.run(func, *(np.array(a) for a in args))
    return caught.value.finding


def test_a_conflict_has_both_accesses_with_all_loop_values() -> None:
    @T.prim_func
    def func(A: T.Buffer((2, 4), "float32"), C: T.Buffer((2, 4), "float32")):
        for k in range(2):
            for i in T.parallel(4):
                for j in range(2):
                    C[k, (i + j) % 4] = A[k, i]

    found = finding(func, np.ones((2, 4), "f"), np.ones((2, 4), "f"))
    assert (found.kind, found.buffer, found.index) == ("conflict", "C", (0, 1))
    first, second = found.accesses
    assert (first.verb, first.loops) == ("written", (("k", 0), ("i", 0), ("j", 1)))
    assert (second.verb, second.loops) == ("written", (("k", 0), ("i", 1), ("j", 0)))
    marked = found.script(func).splitlines()
    line = next(k for k, text in enumerate(marked) if "C[k, (i + j) % 4] = " in text)
    assert "^^^" in marked[line + 1]
    assert "written where k = 0, i = 0, j = 1; written where k = 0, i = 1, j = 0" in marked[line + 1]


def test_a_read_before_a_concurrent_write_is_a_conflict() -> None:
    """In this order the read comes first, of what nobody wrote: the write that should have been before it is named."""

    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        L = T.alloc_buffer((4,), "float32")
        for i in T.parallel(4):
            L[i] = A[i]
            C[i] = L[3 - i]

    found = finding(func, A, C)
    assert found.kind == "conflict" and found.buffer == "L"
    assert {(a.verb, a.loops) for a in found.accesses} == {("read", (("i", 1),)), ("written", (("i", 2),))}


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        ("out of bounds", "C[i] = A[i - 1]"),
        ("uninitialised read", "C[i] = L[i]"),
        ("output not written", "L[i] = A[i]"),
    ],
)
def test_other_findings(kind: str, program: str) -> None:
    other = "" if kind == "output not written" else "            L[i] = A[i]\n"
    after = "        for i in range(4):\n            C[0] = A[i]\n" if kind == "output not written" else ""
    text = (
        "from minitvm.script import tir as T\n@T.prim_func\n"
        'def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):\n'
        '        L = T.alloc_buffer((4,), "float32")\n'
        f"        for i in range(4):\n            {program}\n{other}{after}"
    )
    found = finding(from_source(text), A, C)
    assert found.kind == kind
    assert [a.loops for a in found.accesses] == ([] if kind == "output not written" else [(("i", 0),)])
