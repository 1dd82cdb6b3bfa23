"""Kernels for Numba CUDA as they are, without a network around them: run by Python, and compiled to PTX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from minitvm.codegen.numba_cuda import generate
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc


def run_simulated(func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The arrays after so many threads have run the kernel, each its share of a parallel loop."""
    pytest.importorskip("cuda.core")
    from minitvm.runtime.cuda.compiler import ptx_of
    from minitvm.runtime.cuda.devices import SimulatedDevice
    from minitvm.runtime.cuda.faults import Address
    from minitvm.runtime.cuda.simulator import simulated

    source = generate(func, Target("cuda"))
    assert f".visible .entry {func.name}(" in ptx_of(source, func.name)
    memory = [SimulatedDevice().allocated(a.nbytes) for a in arrays]  # aligned, as on a device
    copies = [m.view(a.dtype).reshape(a.shape) for m, a in zip(memory, arrays, strict=True)]
    for copy, a in zip(copies, arrays, strict=True):
        copy[...] = a
    names = [param.name for param in func.params]
    words = [Address(a.ctypes.data, name, a.nbytes) for a, name in zip(copies, names, strict=True)]
    simulated(source, func.name)((threads, 1, 1), (1, 1, 1), words)
    return copies
