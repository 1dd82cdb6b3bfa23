"""The kernels of an executable as C functions: of each, the text of `kernels.generate`."""

from __future__ import annotations

from typing import Any

from ...executable import Executable
from ...expr import IntImm, find
from ...script import from_source
from ...target import Target
from ...tir.nodes import Allocate, PrimFunc
from .kernels import generate, library_text
from .program import KernelText


def kernel_texts(executable: Executable) -> KernelText:
    """Return the C functions of all kernels, in order. Raises `Unsupported` for a kernel that C cannot express."""
    target = Target(executable.target)
    kernels, stacks = [], [0]
    for kernel in executable.kernels:
        func: Any = from_source(kernel.script) if kernel.func is None else kernel.func()  # a file has only the text
        kernels.append(generate(func, target))
        stacks.append(_array_bytes(func))
    names = [kernel.name for kernel in kernels]
    return KernelText(library_text(kernels), [kernel.text for kernel in kernels], names, max(stacks))


def _array_bytes(func: PrimFunc) -> int:
    """Return the bytes of the arrays that a kernel allocates; some of them become registers."""
    buffers = [stmt.buffer for stmt in find(func.body, Allocate)]
    sizes = [dim.value for buffer in buffers for dim in buffer.shape if isinstance(dim, IntImm)]
    return sum(size * buffer.dtype.bytes for size, buffer in zip(sizes, buffers, strict=True))
