"""Compile the kernels of another CPU for this machine, so that their results can be compared."""

from __future__ import annotations

from dataclasses import replace

from ..executable import Executable
from ..target import Target
from ..target.isas import NATIVE


def on_this_machine(executable: Executable) -> Executable:
    """Return an executable whose CPU kernels are compiled for this machine, whatever CPU its target names.

    The kernels keep their schedules and vectors, so they compute the same, unless only one of the two CPUs has fused
    multiply-adds. For example, tests compare the results of C code for a Cortex-M7 with those of this executable.
    """
    kernels = tuple(replace(kernel, target=_here(kernel.target)) for kernel in executable.kernels)
    return replace(executable, target=_here(executable.target), kernels=kernels)


def target_here(target: Target) -> Target:
    """Return the target with the instruction set of this machine: the same schedules, compiled for this CPU."""
    if getattr(target.description, "isa", NATIVE) == NATIVE:
        return target
    return Target({**target.export(), "isa": NATIVE})


def _here(text: str) -> str:
    if not text:
        return text
    target = Target(text)
    here = target_here(target)
    return text if here is target else here.brief
