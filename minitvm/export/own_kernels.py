"""Check that a program consists only of minitvm's kernels for a CPU: a written program contains nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Unsupported, report
from ..executable import CallExternal, CallKernel, Executable


def require_own_kernels(executable: Executable, what: str) -> None:
    """Raise `Unsupported` if a step calls an engine, or a kernel of another machine than the CPU.

    `what` describes the export in the error.
    """
    for step in executable.steps:
        if isinstance(step, CallExternal):
            found = f"a call of the engine {step.engine}, which is a library of Python's"
            raise _unsupported(what, found, ["compile without the engine"])
        if isinstance(step, CallKernel):
            kernel = executable.kernels[step.kernel]
            if kernel.target or kernel.language != "numba":
                found = f"the kernel {kernel.name} in {kernel.language}, for {kernel.target or executable.target}"
                raise _unsupported(what, found, ['target="cpu" (--target cpu)'])


def _unsupported(what: str, found: str, tries: Sequence[str]) -> Unsupported:
    return Unsupported(report(what, wanted="steps that call minitvm's kernels for one CPU", found=found, tries=tries))
