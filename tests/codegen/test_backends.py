"""One program through every way to run it: the interpreter and every back end's kernels must agree bit for bit.

Inputs are small integers, so that any order of additions, and any fused multiply-add, gives the same floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm import build, te
from minitvm.expr import call
from minitvm.reference import tir as reference
from minitvm.te import create_prim_func
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc
from tests import toy_backend
from tests.tir.schedule import programs


def elementwise(m: int = 13, n: int = 37) -> PrimFunc:
    A, B = te.placeholder((m, n), name="A"), te.placeholder((n,), name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] * 2.0 + B[j], name="C")
    return create_prim_func([A, B, C])


def matmul() -> PrimFunc:
    """Sizes that no tile divides."""
    return programs.matmul(21, 34, 17)


def row_max(m: int = 9, n: int = 50) -> PrimFunc:
    A = te.placeholder((m, n), name="A")
    r = te.reduce_axis((0, n), "k")
    B = te.compute((m,), lambda i: te.max(A[i, r], axis=r), name="B")
    return create_prim_func([A, B])


def padded_stencil(n: int = 40) -> PrimFunc:
    A = te.placeholder((n,), name="A")
    P = te.compute((n + 2,), lambda i: te.if_then_else(te.all(i >= 1, i < n + 1), A[i - 1], 0.0), name="P")
    B = te.compute((n,), lambda i: P[i] + P[i + 1] + P[i + 2], name="B")
    return create_prim_func([A, B])


def transposed(m: int = 19, n: int = 23) -> PrimFunc:
    A = te.placeholder((m, n), name="A")
    B = te.compute((n, m), lambda i, j: A[j, i], name="B")
    return create_prim_func([A, B])


def reshaped() -> PrimFunc:
    A = te.placeholder((6, 35), name="A")
    B = te.compute((14, 15), lambda i, j: A[(i * 15 + j) // 35, (i * 15 + j) % 35], name="B")
    return create_prim_func([A, B])


def integers(n: int = 45) -> PrimFunc:
    A = te.placeholder((n,), dtype="int32", name="A")
    B = te.compute((n,), lambda i: A[i] // 3 * 7 + A[i] % 5 - i, name="B")
    return create_prim_func([A, B])


def bytes_to_sum(m: int = 5, n: int = 70) -> PrimFunc:
    A = te.placeholder((m, n), dtype="uint8", name="A")
    r = te.reduce_axis((0, n), "k")
    B = te.compute((m,), lambda i: te.sum(A[i, r].astype("int32"), axis=r), name="B")
    return create_prim_func([A, B])


def gathered(n: int = 33) -> PrimFunc:
    A, I = te.placeholder((20,), name="A"), te.placeholder((n,), dtype="int32", name="I")
    B = te.compute((n,), lambda i: A[call("bitwise_and", I[i], 15)], name="B")
    return create_prim_func([A, I, B])


def looked_up(n: int = 45) -> PrimFunc:
    X, A = te.placeholder((n,), dtype="int8", name="X"), te.placeholder((256,), dtype="int8", name="A")
    B = te.compute((n,), lambda i: A[X[i].astype("uint8").astype("int32")], name="B")
    return create_prim_func([X, A, B])


PROGRAMS = [
    elementwise, matmul, row_max, padded_stencil, transposed, reshaped, integers, bytes_to_sum, gathered, looked_up,
]  # fmt: skip


def plain(sch: Schedule) -> None:
    """No schedule at all."""


def vector_tail(sch: Schedule) -> None:
    """Split the last spatial loop by a number that does not divide it, and vectorise."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = spatial_loops(sch, block)
        _, inner = sch.split(loops[-1], [None, 16])
        if is_last(sch, block, inner):
            sch.vectorize(inner)


def whole_vector(sch: Schedule) -> None:
    """Vectorise the last loop as it is, where it is spatial."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        if loops[-1:] == spatial_loops(sch, block)[-1:]:
            sch.vectorize(loops[-1])


def parallel_tiles(sch: Schedule) -> None:
    """Tile the first loop imperfectly, run tiles in parallel and unroll inside."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = spatial_loops(sch, block)
        outer, inner = sch.split(loops[0], [None, 4])
        sch.parallel(outer)
        sch.unroll(inner)


def register_tile(sch: Schedule) -> None:
    """Spatial loops in tiles inside the reduction loops: what a micro-kernel looks like."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = spatial_loops(sch, block)
        rest = [loop for loop in sch.get_loops(block) if loop not in loops]
        outer, inner = zip(*(sch.split(loop, [None, 4 if i + 1 < len(loops) else 8]) for i, loop in enumerate(loops)))
        sch.reorder(*outer, *rest, *inner)
        for loop in inner[:-1]:
            sch.unroll(loop)
        sch.vectorize(inner[-1])


SCHEDULES = [plain, vector_tail, whole_vector, parallel_tiles, register_tile]


def spatial_loops(sch: Schedule, block: Any) -> list[Any]:
    count = sum(axis.kind == "S" for axis in sch.get(block).iter_vars)
    return list(sch.get_loops(block))[:count]


def is_last(sch: Schedule, block: Any, loop: Any) -> bool:
    return list(sch.get_loops(block))[-1] == loop


def inputs_for(func: PrimFunc, rng: np.random.Generator) -> list[np.ndarray]:
    arrays = []
    for buffer in func.buffers:
        low = 0 if buffer.dtype.kind == "uint" else -4
        shape = tuple(int(d) for d in buffer.shape)
        arrays.append(rng.integers(low, 9, shape).astype(buffer.dtype.numpy))
    arrays[-1][...] = 77  # the output: whatever is not written is seen
    return arrays


def on_threads(sch: Schedule) -> None:
    """The spatial loops of each block as one, over blocks of 16 threads, which do not divide it."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = spatial_loops(sch, block)
        whole = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        blocks, threads = sch.split(whole, [None, 16])
        sch.bind(blocks, "blockIdx.x")
        sch.bind(threads, "threadIdx.x")


def on_a_plane(sch: Schedule) -> None:
    """Two axes of blocks and threads where there are two loops, vectors inside."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = spatial_loops(sch, block)
        rest = [loop for loop in sch.get_loops(block) if loop not in loops]
        split = [sch.split(loop, [None, 4, 2]) for loop in loops]
        sch.reorder(*(part[0] for part in split), *(part[1] for part in split), *rest, *(part[2] for part in split))
        for axis, (over, thread, _) in zip("yx"[2 - len(loops) :], split):
            sch.bind(over, f"blockIdx.{axis}")
            sch.bind(thread, f"threadIdx.{axis}")
        if is_last(sch, block, split[-1][2]):
            sch.vectorize(split[-1][2])


def through_shared_storage(sch: Schedule, scope: str = "shared") -> None:
    """What a block of threads reads is fetched by all of them together, and used behind a barrier."""
    on_threads(sch)
    for block in sch.get_child_blocks(sch.get_block("root")):
        threads = sch.get_loops(block)[1]
        for number in range(len(sch.get(block).reads)):
            copy = sch.cache_read(block, number, scope)
            sch.compute_at(copy, sch.get_loops(block)[0])
            own = sch.get_loops(copy)[1:]
            _, thread = sch.split(own[-1], [None, 16])
            sch.bind(thread, "threadIdx.x")
        assert sch.get(threads).thread == "threadIdx.x"


def through_given_storage(sch: Schedule) -> None:
    """The same through storage that a launch gives a block."""
    through_shared_storage(sch, "shared.dyn")


GRIDS = [on_threads, on_a_plane, through_shared_storage, through_given_storage]


OPENCL = ("opencl", "opencl -device=mali", "opencl -device=pocl")


def on_devices() -> list[Any]:
    """Each program with each schedule in one language, as on a chessboard; in OpenCL on one kind of device.

    So each program and each schedule is in both languages. The schedule is given and PoCL runs all three kinds, so they
    differ in little that both a program and a schedule decide. `make test-full` runs all combinations.
    """
    cases = []
    for row, program in enumerate(PROGRAMS):
        for column, schedule in enumerate([*SCHEDULES, *GRIDS]):
            stays = "cuda" if (row + column) % 2 else OPENCL[(row + column) // 2 % len(OPENCL)]
            for target in (*OPENCL, "cuda"):
                name = f"{program.__name__}-{schedule.__name__}-{target}"
                marks = [] if target == stays else [pytest.mark.full]
                cases.append(pytest.param(program, schedule, target, id=name, marks=marks))
    return cases


@pytest.mark.alike("program", "schedule", "target", most=3)  # a CPU runs each program under each schedule
@pytest.mark.parametrize(("program", "schedule", "target"), on_devices())
def test_kernels_of_devices_agree_with_the_interpreter(
    program: Callable[[], PrimFunc], schedule: Callable[[Schedule], None], target: str, rng: np.random.Generator
) -> None:
    pytest.importorskip("numba_cuda" if target == "cuda" else "pyopencl")
    runs_alike(program, schedule, target, rng)


def runs_alike(
    program: Callable[[], PrimFunc],
    schedule: Callable[[Schedule], None],
    target: str = "opencl",
    rng: np.random.Generator | None = None,
) -> None:
    """A program that is scheduled, and runs on a device, leaves what the interpreter leaves."""
    func = program()
    sch = Schedule(func)
    schedule(sch)
    arrays = inputs_for(func, rng or np.random.default_rng(0))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    module = build(sch.func, target)
    got = [a.copy() for a in arrays]
    module(*got)
    sources = "\n".join(kernel.source for kernel in module.executable.kernels)
    np.testing.assert_array_equal(got[-1], expected[-1], err_msg=sources)


@pytest.mark.parametrize("target", ["cpu", toy_backend.BACKEND.kind])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled_kernels_agree_with_the_interpreter(
    program: Callable[[], PrimFunc], schedule: Callable[[Schedule], None], target: str, rng: np.random.Generator
) -> None:
    func = program()
    sch = Schedule(func)
    schedule(sch)
    arrays = inputs_for(func, rng)
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    for threads in (1, 3):
        module = build(sch.func, target, threads=threads)
        got = [a.copy() for a in arrays]
        module(*got)
        sources = "\n".join(kernel.source for kernel in module.executable.kernels)
        np.testing.assert_array_equal(got[-1], expected[-1], err_msg=sources)
