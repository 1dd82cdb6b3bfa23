"""What a step must not believe of inputs that a loop writes again and again."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule

from .meaning import Step, keeps, refused, same_meaning, without_verifier  # noqa: F401 (a fixture of the module)
from .programs import loop

# ---- inputs that a loop writes again and again --------------------------------------------------------------------


@T.prim_func
def passed_on(X: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((1,))
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for t in range(8):
        with T.block("P"):
            vt = T.axis.spatial(8, t)
            P[0] = X[vt]
        with T.block("B"):
            vi = T.axis.spatial(8, t)
            B[vi] = P[0]
        with T.block("C"):
            vi = T.axis.spatial(8, t)
            C[vi] = A[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] + C[vi] * P[0]


@T.prim_func
def kept_for_later(X: T.Buffer((4, 8), "float32"), D: T.Buffer((4, 8), "float32")):
    P = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for t in range(4):
        for i in range(8):
            with T.block("P"):
                vt, vi = T.axis.remap("SS", [t, i])
                P[vi] = X[vt, vi]
        if t < 1:
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = P[vi]
        for i in range(8):
            with T.block("D"):
                vt, vi = T.axis.remap("SS", [t, i])
                D[vt, vi] = B[vi]


@T.prim_func
def used_at_once(X: T.Buffer((4, 8), "float32"), D: T.Buffer((4, 8), "float32")):
    P = T.alloc_buffer((8,))
    B = T.alloc_buffer((4, 8))
    for t in range(4):
        for i in range(8):
            with T.block("P"):
                vt, vi = T.axis.remap("SS", [t, i])
                P[vi] = X[vt, vi]
        for i in range(8):
            with T.block("B"):
                vt, vi = T.axis.remap("SS", [t, i])
                B[vt, vi] = X[vt, vi] + P[vi]
        for i in range(8):
            with T.block("D"):
                vt, vi = T.axis.remap("SS", [t, i])
                D[vt, vi] = B[vt, vi] * P[vi]


@pytest.mark.parametrize("func", [passed_on, kept_for_later], ids=lambda f: f.name)
def test_a_producer_whose_inputs_change_stays(func: Any) -> None:
    told = refused(func, "inputs_settled", lambda s: s.compute_inline("B"))
    assert "P may write what B reads again, in a later iteration" in told


def test_a_producer_whose_inputs_change_is_not_computed_later() -> None:
    refused(passed_on, "inputs_settled", lambda s: s.compute_at("B", loop(s, "D")))


def test_a_consumer_does_not_go_where_its_inputs_still_change() -> None:
    def inlined(s: Schedule) -> None:
        s.compute_inline("C")
        s.reverse_compute_inline("D")

    refused(passed_on, "other_inputs_ready", lambda s: s.reverse_compute_inline("D"))
    refused(passed_on, "other_inputs_ready", inlined)


def test_inputs_that_last_for_one_iteration_are_enough_for_it() -> None:
    keeps(used_at_once, lambda s: s.compute_inline("B"))
    keeps(used_at_once, lambda s: s.reverse_compute_inline("D"))
