"""Kernels as WebAssembly in node, for the suites that run kernels on every back end."""

from __future__ import annotations

import atexit
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from minitvm.executable import CallKernel, Executable, Kernel, KernelParam, Output, TensorSpec
from minitvm.export.wasm import TARGET
from minitvm.machines.cpu.codegen.numba_cpu import generate
from minitvm.tir.nodes import PrimFunc

from .node import Exported, Node, absent


@functools.cache
def _node() -> Node:
    node = Node()
    atexit.register(node.close)
    return node


def run_in_wasm(func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The arrays after the kernel has run; there is one thread, which has the shares of all."""
    reason = absent()
    if reason:
        pytest.skip(reason)
    specs = [TensorSpec(b.name, b.dtype, a.shape, inout=True) for b, a in zip(func.params, arrays, strict=True)]
    params = tuple(KernelParam(spec.name, spec.dtype, access="rw") for spec in specs)
    kernel = Kernel(func.name, "numba", generate(func), func.name, params)
    call = CallKernel(0, tuple(Output(number) for number in range(len(specs))))
    executable = Executable(func.name, TARGET, (), tuple(specs), (), (), (kernel,), (call,))
    with tempfile.TemporaryDirectory() as folder:
        exported = Exported(_node(), Path(folder))
        inputs = {spec.name: np.asarray(a) for spec, a in zip(specs, arrays, strict=True)}
        return exported.run(executable, exported.write(executable), inputs, drop=True)
