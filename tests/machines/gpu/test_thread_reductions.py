"""Reductions over the threads of a block, as kernels: on PoCL by a tree, for CUDA by shuffles in Python and as PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from minitvm import build, lower
from minitvm.errors import ScheduleError, Unsupported
from minitvm.expr import IntImm, walk
from minitvm.reference import tir as reference
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import BufferStore, PrimFunc
from tests.fewer import number
from tests.machines.gpu.transform.test_thread_reductions import summed
from tests.tir.transform.reductions_on_threads import on_threads

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


def on_a_grid(draw: Any) -> tuple[PrimFunc, Schedule]:
    """A drawn reduction over threads; rows in a loop become blocks, for a grid is outermost in a kernel."""
    func, sch = on_threads(draw)
    outermost = sch.get_loops("C")[0]
    if not sch.get(outermost).thread:
        sch.bind(outermost, "blockIdx.x")
    return func, sch


def reduced_alike(draw: Any, target: str) -> None:
    """A drawn reduction leaves what the interpreter leaves. Inputs have few values: any order of sums is exact."""
    try:
        func, sch = on_a_grid(draw)
        module = build(sch.func, target)
    except ScheduleError:
        return
    except Unsupported as error:
        assert "cross-thread reduction" in str(error)
        return
    arrays = arrays_for(func, draw(st.integers(1, 4)), draw(st.integers(0, 99)))
    expected, got = ([a.copy() for a in arrays] for _ in range(2))
    reference.run(func, *expected)
    module(*got)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=sch.func.script())


def arrays_for(func: PrimFunc, rows: int, seed: int) -> list[np.ndarray]:
    """Random arguments; an open extent is `rows`, and what a function writes is 77."""
    rng, arrays = np.random.default_rng(seed), []
    for buffer in func.buffers:
        shape = tuple(int(d.value) if isinstance(d, IntImm) else rows for d in buffer.shape)
        arrays.append(rng.choice([-2, -1, 1, 2], shape).astype(buffer.dtype.numpy))
    written = {n.buffer.name for n in walk(func.body) if isinstance(n, BufferStore)}
    for buffer, array in zip(func.buffers, arrays, strict=True):
        if buffer.name in written:
            array[...] = 77
    return arrays


@pytest.mark.parametrize(("target", "needs"), [("opencl", "pyopencl"), ("cuda", "numba_cuda")])
def test_drawn_reductions_over_threads(target: str, needs: str) -> None:
    pytest.importorskip(needs)
    given(data=st.data())(settings(QUICK, max_examples=number(4, 8))(lambda data: reduced_alike(data.draw, target)))()


@pytest.mark.full
@pytest.mark.parametrize(("target", "needs"), [("opencl", "pyopencl"), ("cuda", "numba_cuda")])
def test_many_drawn_reductions_over_threads(target: str, needs: str) -> None:
    pytest.importorskip(needs)
    given(data=st.data())(settings(QUICK, max_examples=60)(lambda data: reduced_alike(data.draw, target)))()


@pytest.mark.parametrize(
    ("threads", "arch", "dtype", "shuffles", "barriers"),
    [
        (8, "sm_75", "float32", 4, 0),
        (32, "sm_80", "float32", 6, 0),
        (256, "sm_90a", "float32", 9, 1),
        (256, "sm_90", "float64", 18, 1),  # a value of 64 bits is two words
        (64, "sm_80", "float16", 7, 1),
    ],
)  # fmt: skip
def test_shuffles_and_barriers_of_ptx(threads: int, arch: str, dtype: str, shuffles: int, barriers: int) -> None:
    """As many as the kernel's text has: none is lost, none is added."""
    pytest.importorskip("numba_cuda")
    from minitvm.machines.cuda.runtime import compiler

    target = Target(f"cuda -arch={arch}")
    (kernel,) = lower(summed(2, 700, threads, dtype), target=target, stop_at="executable").kernels
    ptx = compiler.ptx_of(kernel.source, kernel.entry, arch)
    assert ptx.count("shfl.sync") == shuffles and ptx.count("bar.sync") == barriers
    taken = compiler.resources(compiler.linked(ptx, arch)[1])
    assert taken.spill_stores == taken.spill_loads == taken.stack_bytes == 0
    assert taken.registers <= 64 and taken.shared_bytes <= 32 * 8


def test_drawn_reductions_compile_to_cubins() -> None:
    pytest.importorskip("numba_cuda")
    from minitvm.machines.cuda.runtime import compiler

    target = Target("cuda -arch=sm_80")

    @given(data=st.data())
    @settings(QUICK, max_examples=4)
    def compiled(data: Any) -> None:
        try:
            _, sch = on_a_grid(data.draw)
            kernels = lower(sch.func, target=target, stop_at="executable").kernels
        except (ScheduleError, Unsupported):
            assume(False)
        for kernel in kernels:
            code, log = compiler.linked(compiler.ptx_of(kernel.source, kernel.entry, "sm_80"), "sm_80")
            taken = compiler.resources(log)
            assert code and taken.spill_stores == taken.spill_loads == 0
            assert taken.registers <= target.max_registers_per_thread

    compiled()
