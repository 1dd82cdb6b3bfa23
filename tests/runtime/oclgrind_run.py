"""Kernels under Oclgrind, which reports races and uninitialised reads on stderr: a script of its own process.

OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 python -m tests.runtime.oclgrind_run canary|scalars|all
"""

from __future__ import annotations

import sys

import numpy as np

from minitvm import build
from minitvm.executable import Kernel
from minitvm.reference import tir as reference
from minitvm.runtime.opencl.devices import current, pyopencl
from minitvm.runtime.opencl.kernels import compiled
from minitvm.tir import Schedule
from tests.codegen.test_backends import GRIDS, PROGRAMS, inputs_for, on_a_plane

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


def grids(vectors: bool) -> None:
    """Programs on grids of threads, with and without shared storage, and with vectors if asked for."""
    for program in PROGRAMS:
        for schedule in (g for g in GRIDS if vectors or g is not on_a_plane):
            func = program()
            sch = Schedule(func)
            schedule(sch)
            arrays = inputs_for(func, np.random.default_rng(0))
            expected = [a.copy() for a in arrays]
            reference.run(func, *expected)
            build(sch.func, "opencl")(*arrays)
            assert np.array_equal(arrays[-1], expected[-1]), (program, schedule)
            print(program.__name__, schedule.__name__, "right", flush=True)


if __name__ == "__main__":
    print(current().name)
    if "canary" in sys.argv:
        canary()
    else:
        grids("all" in sys.argv)
