"""Kernels run by OpenCL as they are, without a network around them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest

from minitvm.executable import Kernel
from minitvm.machines.opencl.codegen.statements import generate
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc


@functools.cache
def target() -> Target:
    return Target("opencl -device=pocl")


def run_on_device(
    func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1, source: str | None = None
) -> list[np.ndarray]:
    """The arrays after so many work-items have run the kernel, or this source of it, each its share of a loop."""
    cl = pytest.importorskip("pyopencl")
    from minitvm.machines.opencl.runtime.devices import current
    from minitvm.machines.opencl.runtime.kernels import LANGUAGE, compiled

    device = current()
    copies = [a.copy() for a in arrays]
    text = generate(func, target()) if source is None else source
    (program,) = compiled(device, [Kernel(func.name, LANGUAGE, text, func.name, ())], None)
    kernel = cl.Kernel(program, func.name)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(device.context, flags, hostbuf=a.reshape(-1).view(np.uint8)) for a in copies]
    kernel.set_args(*(value for buffer in buffers for value in (buffer, np.uint64(0))))
    cl.enqueue_nd_range_kernel(device.queue, kernel, (threads,), (1,))
    for a, buffer in zip(copies, buffers, strict=True):
        cl.enqueue_copy(device.queue, a.reshape(-1).view(np.uint8), buffer)
    return copies
