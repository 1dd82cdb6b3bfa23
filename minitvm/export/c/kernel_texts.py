"""The kernels of an executable as C functions: of each, the text of `kernels.generate`."""

from __future__ import annotations

from ...errors import Unsupported
from ...executable import Executable
from ...target import Target
from .kernels import generate, library_text
from .program import KernelText


def kernel_texts(executable: Executable) -> KernelText:
    """Return the C functions of all kernels, in order. Raises `Unsupported` for a kernel that C cannot express."""
    target = Target(executable.target)
    kernels = []
    for kernel in executable.kernels:
        if kernel.func is None:
            raise Unsupported(
                f"{executable.name} as C: the kernel {kernel.name} has no loop program, because it was read from a "
                "file\n  try:    export the model instead"
            )
        kernels.append(generate(kernel.func(), target))
    return KernelText(library_text(kernels), [k.text for k in kernels], [k.name for k in kernels])
