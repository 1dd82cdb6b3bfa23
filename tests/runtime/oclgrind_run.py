"""Kernels under Oclgrind, which reports races and uninitialised reads on stderr: a script of its own process.

OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 python -m tests.runtime.oclgrind_run [canary]
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
from tests.codegen.test_backends import GRIDS, PROGRAMS, inputs_for

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


if __name__ == "__main__":
    print(current().name)
    (canary if "canary" in sys.argv else grids)()
