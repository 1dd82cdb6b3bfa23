"""Storage that an iteration of a parallel loop has for itself: what it means, and what it does not excuse."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from minitvm import reference
from minitvm.expr import free_vars, walk
from minitvm.reference.meaning.findings import UndefinedBehaviour
from minitvm.reference.meaning.scalar import evaluate
from minitvm.reference.meaning.threads import written_out
from minitvm.script import from_source
from minitvm.tir.nodes import Allocate, PrimFunc
from minitvm.tir.transform import lower


def rows(kind: str, scope: str, read: str = "L[2 - vj]", store: str = "L[vj]", shape: str = "3,") -> PrimFunc:
    """Each row of A turned around, by way of a buffer for one row that is allocated outside of the loop."""
    return from_source(f"""
    @T.prim_func
    def main(A: T.Buffer((4, 3)), B: T.Buffer((4, 3))):
        L = T.alloc_buffer(({shape}), scope="{scope}")
        for i in T.{kind}(4):
            for j in range(3):
                with T.block("L"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    {store} = A[vi, vj]
            for j in range(3):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = {read} * T.float32(2)
    """)


def test_each_iteration_has_its_own() -> None:
    serial, parallel = rows("serial", "global"), rows("parallel", "local")
    verdict = reference.check(serial, parallel, modes=("exact", "shadow"))
    assert verdict, verdict
    assert reference.check(serial, lower(parallel, "cpu -model=skylake-avx512"), modes=("exact",))


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_what_is_shared_is_still_a_race(mode: str) -> None:
    a, b = np.zeros((4, 3), "float32"), np.zeros((4, 3), "float32")
    with pytest.raises(UndefinedBehaviour, match="conflicting accesses"):
        reference.tir.run(rows("parallel", "global"), a, b, mode=mode)
    # What an iteration did not write itself is nothing, whoever else wrote it.
    with pytest.raises(UndefinedBehaviour, match="uninitialised|before"):
        reference.tir.run(rows("parallel", "local", store="L[vj * (1 - vi // 3)]"), a, b, mode=mode)


def test_what_is_divided_by_its_indices_stays_one() -> None:
    divided = rows("parallel", "local", "L[vi, 2 - vj]", "L[vi, vj]", "4, 3")
    assert written_out(divided) is divided
    assert written_out(rows("parallel", "local")) is not None


@pytest.mark.parametrize("size", ["n", "300000"])
def test_where_the_stack_has_no_room_each_iteration_has_a_part_of_the_workspace(size: str) -> None:
    func = from_source(f"""
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((8,))):
        n = T.int32()
        A = T.match_buffer(a, (n,))
        L = T.alloc_buffer(({size},), scope="local")
        for i in T.parallel(8):
            for j in range({size}):
                with T.block("L"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    L[vj] = A[vj] + T.Cast("float32", vi)
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = L[{size} - 1]
    """)
    (workspace,) = [
        n.buffer for f in lower(func, "cpu").functions.values() for n in walk(f.body) if isinstance(n, Allocate)
    ]
    whole = workspace.shape[0]
    assert int(evaluate(whole, dict.fromkeys(free_vars(whole), 10))) == 8 * (10 if size == "n" else int(size))


CHECKS = [
    test_each_iteration_has_its_own,
    test_what_is_divided_by_its_indices_stays_one,
    partial(test_where_the_stack_has_no_room_each_iteration_has_a_part_of_the_workspace, "n"),
]
