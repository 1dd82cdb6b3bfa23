"""Kernels for Numba CUDA as they are, without a network around them: run by Python or on a device, compiled to PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc


def run_on_cuda(func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The arrays after so many blocks of one thread have run the kernel, each its share of a parallel loop.

    The simulator runs it, or the device that MINITVM_CUDA_DEVICE names.
    """
    pytest.importorskip("cuda.core")
    from minitvm.machines.cuda.runtime.compiler import ptx_of
    from minitvm.machines.cuda.runtime.devices import SimulatedDevice, current

    device = current()
    source = generate(func, Target("cuda"))
    if not isinstance(device, SimulatedDevice):
        return _launched(device, source, func.name, arrays, threads)
    assert f".visible .entry {func.name}(" in ptx_of(source, func.name)
    return _simulated(device, source, func, arrays, threads)


def _simulated(
    device: Any, source: str, func: PrimFunc, arrays: Sequence[np.ndarray], threads: int
) -> list[np.ndarray]:
    from minitvm.machines.cuda.runtime.faults import Address
    from minitvm.machines.cuda.runtime.simulator import simulated

    memory = [device.allocated(a.nbytes) for a in arrays]  # aligned, as on a device
    copies = [m.view(a.dtype).reshape(a.shape) for m, a in zip(memory, arrays, strict=True)]
    for copy, a in zip(copies, arrays, strict=True):
        copy[...] = a
    names = [param.name for param in func.params]
    words = [Address(a.ctypes.data, name, a.nbytes) for a, name in zip(copies, names, strict=True)]
    simulated(source, func.name)((threads, 1, 1), (1, 1, 1), words)
    return copies


def _launched(device: Any, source: str, entry: str, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
    from minitvm.machines.cuda.runtime.compiler import cubin_of
    from minitvm.runtime.device.device import Place

    code = device.call("cuModuleLoadData", cubin_of(source, entry, device.arch))
    kernel = device.call("cuModuleGetFunction", code, entry.encode())
    memory = [device.allocated(max(1, a.nbytes)) for a in arrays]
    copies = [np.array(a, order="C") for a in arrays]
    places = [Place(m, 0, a.nbytes) for m, a in zip(memory, arrays, strict=True)]
    for place, copy in zip(places, copies, strict=True):
        device.write(place, copy.reshape(-1).view(np.uint8))
    words = np.array([m.address for m in memory], np.int64)
    pointers = words.ctypes.data + 8 * np.arange(len(words), dtype=np.uint64)
    device.call("cuLaunchKernel", kernel, threads, 1, 1, 1, 1, 1, 0, device.queue, pointers.ctypes.data, 0)
    for place, copy in zip(places, copies, strict=True):
        device.read(copy.reshape(-1).view(np.uint8), place)
    device.finish()
    device.call("cuModuleUnload", code)
    return copies
