"""Kernels under Oclgrind, which reports races and uninitialised reads on stderr: a script of its own process.

    OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 \
        python -m tests.machines.opencl.oclgrind_run [canary|candidates N|reductions N]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from minitvm import build, strategy
from minitvm.errors import ScheduleError, Unsupported
from minitvm.executable import Kernel
from minitvm.machines.opencl.runtime.devices import current, pyopencl
from minitvm.machines.opencl.runtime.kernels import compiled
from minitvm.reference import tir as reference
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc
from tests.codegen.test_backends import GRIDS, PROGRAMS, inputs_for
from tests.machines.gpu.test_thread_reductions import arrays_for, on_a_grid
from tests.strategy.families import GPU_FAMILIES, Family

# Each work-item writes its own element and reads its neighbour's, and nobody waits.
CANARY = """
__kernel void canary(__global int *out) {
    __local int shared[16];
    const int tx = (int)get_local_id(0);
    shared[tx] = tx;
    out[tx] = shared[(tx + 1) % 16];
}
"""


def canary() -> None:
    """A kernel with a race."""
    cl, device = pyopencl(), current()
    (program,) = compiled(device, [Kernel("canary", "opencl", CANARY, "canary", ())], None)
    kernel, out = cl.Kernel(program, "canary"), cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64)
    kernel.set_args(out)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (16,), (16,))
    device.queue.finish()


def grids() -> None:
    """Programs on grids of threads, with and without shared storage, and with vectors."""
    kept = []  # Oclgrind takes memory that is given out a second time for uninitialised, whatever is written to it
    for program in PROGRAMS:
        for schedule in GRIDS:
            func = program()
            sch = Schedule(func)
            schedule(sch)
            arrays = inputs_for(func, np.random.default_rng(0))
            expected = [a.copy() for a in arrays]
            reference.run(func, *expected)
            kept.append(build(sch.func, "opencl"))
            kept[-1](*arrays)
            assert np.array_equal(arrays[-1], expected[-1]), (program, schedule)
            print(program.__name__, schedule.__name__, "right", flush=True)


def candidates(count: int) -> None:
    """Candidates of each rule for GPUs, `count` of each family: tiles that blocks share, windows, rows, reductions."""
    kept: list[Any] = []

    def one(family: Family, data: Any) -> None:
        func = family.draw(data.draw)
        target = Target(data.draw(st.sampled_from([name for name in family.targets if name.startswith("opencl")])))
        fitting = [c for c in strategy.candidates(func, target) if c.rule == family.rule and family.among(c.knobs)]
        assume(fitting)
        candidate = data.draw(st.sampled_from(fitting))
        try:
            schedule = candidate.schedule(func)
        except ScheduleError:
            assume(False)
        _alike(func, schedule, target, data, kept)
        print(family.rule, dict(candidate.knobs), "right", flush=True)

    for family in GPU_FAMILIES:
        if any(name.startswith("opencl") for name in family.targets):
            _drawn(count, lambda data, family=family: one(family, data))


def reductions(count: int) -> None:
    """Reductions over the threads of a block, drawn."""
    kept: list[Any] = []

    def one(data: Any) -> None:
        try:
            func, sch = on_a_grid(data.draw)
            _alike(func, sch, Target("opencl"), data, kept)
        except (ScheduleError, Unsupported):
            assume(False)
        print("reduction right", flush=True)

    _drawn(count, one)


def _drawn(count: int, check: Callable[[Any], None]) -> None:
    quick = settings(
        derandomize=True, deadline=None, database=None, phases=[Phase.generate], max_examples=count,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    given(data=st.data())(quick(lambda data: check(data)))()


def _alike(func: PrimFunc, schedule: Schedule, target: Target, data: Any, kept: list[Any]) -> None:
    """Build and run a schedule, and compare what it leaves with the interpreter; the module is kept."""
    arrays = arrays_for(func, data.draw(st.integers(1, 5)), data.draw(st.integers(0, 99)))
    expected = [a.copy() for a in arrays]
    reference.run(func, *expected)
    kept.append(build(schedule.func, target))
    kept[-1](*arrays)
    for found, wanted in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    print(current().name)
    what, *number = sys.argv[1:] or ["grids"]
    {"canary": canary, "grids": grids, "candidates": candidates, "reductions": reductions}[what](*map(int, number))
