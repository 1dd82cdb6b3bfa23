"""What a grid of threads means: storage with owners, threads in step, loops that are shared out."""

from __future__ import annotations

from textwrap import dedent, indent

import numpy as np
import pytest

from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr import structural_equal
from minitvm.reference import check, tir
from minitvm.reference.domains import bound
from minitvm.reference.domains.exact import Peaks
from minitvm.reference.judging.inputs.exact import measure
from minitvm.reference.meaning.threads import written_out
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc


def program(body: str, allocate: str = "") -> PrimFunc:
    """A function of A and B, 8 elements each, with this body."""
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
    text = head + indent(dedent(allocate) + dedent(body), "    ")
    return from_source(text)


SHARED = 'S = T.alloc_buffer((8,), scope="shared")\n'
LOCAL = 'S = T.alloc_buffer((8,), scope="local")\n'
REVERSE = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    S[t] = A[t]
    B[t] = S[7 - t]
"""


def result(func: PrimFunc, **options: str) -> np.ndarray:
    out = np.zeros(8, np.float32)
    tir.run(func, np.arange(8, dtype=np.float32), out, **options)
    return out


@pytest.mark.parametrize("mode", ["fast", "slow"])
@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_threads_that_share_storage_go_in_step(mode: str, order: str) -> None:
    np.testing.assert_array_equal(result(program(REVERSE, SHARED), mode=mode, order=order), np.arange(8)[::-1])


def test_what_another_thread_has_in_its_own_storage_nobody_sees() -> None:
    with pytest.raises(ExecutionError, match="uninitialised read"):
        result(program(REVERSE, LOCAL))


def test_blocks_do_not_see_the_shared_storage_of_others() -> None:
    body = """
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            S[b * 4 + t] = A[b * 4 + t]
            B[b * 4 + t] = S[7 - b * 4 - t]
    """
    with pytest.raises(ExecutionError, match="uninitialised read"):
        result(program(body, SHARED))


def test_an_inner_loop_over_the_same_axis_is_shared_out() -> None:
    body = """
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for k in range(2):
            for u in T.thread_binding(4, thread="threadIdx.x"):
                S[k * 4 + u] = A[k * 4 + u]
        for k in range(2):
            B[k * 4 + t] = S[7 - k * 4 - t]
    """
    np.testing.assert_array_equal(result(program(body, SHARED)), np.arange(8)[::-1])


def test_an_axis_has_one_extent() -> None:
    body = """
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for u in T.thread_binding(8, thread="threadIdx.x"):
            S[u] = A[u]
        B[t] = S[t]
        B[t + 4] = S[t + 4]
    """
    with pytest.raises(ExecutionError, match="wanted: 4 threads from 0, as outside\n  found:  8 from 0"):
        result(program(body, SHARED))


def test_what_is_the_same_for_all_threads_one_does() -> None:
    body = """
    for t in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(8):
            S[k] = A[k]
        B[t] = S[7 - t]
    """
    func = program(body, SHARED)
    np.testing.assert_array_equal(result(func), np.arange(8)[::-1])
    assert str(written_out(func)).count("thread_binding") == 1


def test_two_threads_that_write_one_element_of_shared_storage_race() -> None:
    body = """
    for t in T.thread_binding(8, thread="threadIdx.x"):
        S[t // 2] = A[t]
        B[t] = S[t // 2]
    """
    with pytest.raises(ExecutionError, match="conflicting accesses"):
        result(program(body, SHARED))


def test_a_loop_of_another_length_in_each_thread_cannot_go_in_step() -> None:
    body = """
    for t in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(t + 1):
            S[k] = A[t]
        B[t] = S[0]
    """
    with pytest.raises(Unsupported, match="has another length in each thread"):
        result(program(body, SHARED))


def test_programs_without_a_grid_are_left_as_they_are() -> None:
    func = program("for i in T.parallel(8):\n    B[i] = A[i]\n")
    assert written_out(func) is func
    virtual = program('for i in T.thread_binding(8, thread="vthread"):\n    B[i] = A[i]\n')
    assert structural_equal(written_out(virtual), virtual)  # it owns no storage


IN_TURNS = """
for t in T.thread_binding(8, thread="threadIdx.x"):
    for k in range(2):
        S[t] = A[k * 4 + t % 4] FIRST
        if t < 4:
            B[k * 4 + t] = S[7 - t] * T.float32(1000)
"""


def test_error_bounds_are_those_of_threads_in_step() -> None:
    """One thread after the other would read what nobody has written."""
    func = program(IN_TURNS.replace("FIRST", "/ T.float32(3)"), SHARED)
    a = np.arange(8, dtype=np.float32)
    must = bound.evaluate(func, [a, np.zeros(8, np.float32)])[1]
    assert must is not None
    np.testing.assert_allclose(must.value, a.reshape(2, 4)[:, ::-1].reshape(8) / 3 * 1000, rtol=1e-6)
    assert (must.error < 1e-2).all()
    assert check(func, func, modes="bound")


def test_magnitudes_are_those_of_threads_in_step() -> None:
    peaks = Peaks()
    func = program(IN_TURNS.replace("FIRST", "* T.float32(1000)"), SHARED)
    measure(func, [np.full(8, 16, np.float32), np.zeros(8, np.float32)], peaks)
    assert peaks.filled == 16e6 / 2**24
