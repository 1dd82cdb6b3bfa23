"""The instruction set for which kernels are compiled: this machine's, or that of a CPU which a target names."""

from __future__ import annotations

import functools
from contextvars import ContextVar

from ....errors import TargetError, report
from ....executable import Executable, Kernel
from ....target import Target
from ....target.host import native
from ....target.isas import NATIVE

ISA: ContextVar[str] = ContextVar("isa", default=NATIVE)  # of the kernel that is being compiled


def isa_of(kernel: Kernel, executable: Executable | None = None) -> str:
    """The name of the instruction set of a CPU kernel: that of its own target, or else of its executable's.

    Raises `TargetError` if this machine cannot run it.
    """
    return _runnable(kernel.target or ("" if executable is None else executable.target))


@functools.cache
def _runnable(text: str) -> str:
    target = Target(text or "cpu")
    if target.kind != "cpu":
        return NATIVE
    require_runnable(target)
    return str(target.isa)


def require_runnable(target: Target) -> None:
    """The part "require_runnable" of the back end. Raises `TargetError` if this machine cannot run code for a target.

    Lowering and export need no such machine.
    """
    if target.isa == NATIVE:
        return
    from .loader import lacking  # with LLVM

    missing = lacking(target.instruction_set)
    if missing:
        raise TargetError(
            report(
                f"this machine cannot run code for the target {target.brief}",
                wanted=f"a CPU with {', '.join(missing)}",
                found=f"this one, of {native().architecture}",
                tries=(
                    "--target cpu, which is this machine",
                    "minitvm.lower(model, target, stop_at=...) or `minitvm show`, which run nothing",
                ),
            )
        )
