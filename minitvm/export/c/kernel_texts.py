"""The kernels of an executable as C functions: of each, the text of `kernels.generate`."""

from __future__ import annotations

from ...executable import Executable
from ...expr import Cast, IntImm, find
from ...target import Target
from ...tir.nodes import Allocate, PrimFunc
from ...tir.script.source import kernel_function
from .kernels import generate, library_text
from .program import KernelText


def kernel_texts(executable: Executable) -> KernelText:
    """Return the C functions of all kernels, in order. Raises `Unsupported` for a kernel that C cannot express."""
    target = Target(executable.target)
    kernels, stacks, casts_to_unsigned = [], [0], False
    for kernel in executable.kernels:
        func = kernel_function(kernel)
        kernels.append(generate(func, target))
        stacks.append(_array_bytes(func))
        casts_to_unsigned |= any(map(_is_to_unsigned, find(func.body, Cast)))
    return KernelText(library_text(kernels), kernels, max(stacks), casts_to_unsigned)


def _is_to_unsigned(x: Cast) -> bool:
    """Return whether results of a cast from negative floats depend on the processor; narrow ones wrap on each."""
    return x.value.dtype.is_float and x.dtype.kind == "uint" and x.dtype.bits >= 32


def _array_bytes(func: PrimFunc) -> int:
    """Return the bytes of the arrays that a kernel allocates; some of them become registers."""
    buffers = [stmt.buffer for stmt in find(func.body, Allocate)]
    sizes = [dim.value for buffer in buffers for dim in buffer.shape if isinstance(dim, IntImm)]
    return sum(size * buffer.dtype.bytes for size, buffer in zip(sizes, buffers, strict=True))
