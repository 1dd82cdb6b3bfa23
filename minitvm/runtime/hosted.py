"""Kernels of another machine in a program: the back end of their target runs them in the host's memory.

In a program of the host, the other machine is for example a simulated accelerator, or a chip that reads the memory of
its processor: the program runs each of its kernels as a separate step, between the tables of steps that the host's
threads run. In a program of a device with its own memory, the other machine is the host: `runtime.device.host`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backend import lookup
from ..errors import TargetError
from ..executable import ArenaSlice, ConstantRef, Executable, Input, Kernel, Location, State, evaluate
from .shapes import rooms, shape_of

if TYPE_CHECKING:
    from .shapes import Bindings

Run = Callable[[Sequence[Any], bool], None]  # called with the arguments, and whether all threads take part


def hosted(kernel: Kernel, own: str, threads: int | None = None, code: Any = None) -> Run:
    """Return a function that runs a kernel. It takes flat arrays of the parameters' dtypes, and numbers, in order.

    `threads` is the number of threads that a parallel kernel may use; None leaves it to the machine. `code` is the
    kernel's machine code, if an artifact contains it. Raises `TargetError` if the back end of the kernel's target
    cannot run it in a program for `own`.
    """
    make = lookup(kernel.target or None, "hosted")
    if make is None:
        raise TargetError(f"kernel {kernel.name} is written in {kernel.language}; this runtime runs {own}")
    run: Run = make(kernel, threads) if code is None else make(kernel, threads, code)
    return run


def room(executable: Executable, place: Location, env: Bindings) -> int:
    """Return the number of bytes that a location spans, for the sizes in `env`."""
    if isinstance(place, ArenaSlice):
        return int(evaluate(place.nbytes, env))
    if isinstance(place, ConstantRef):
        return executable.constants[place.index].data.nbytes
    if isinstance(place, Input | State):
        specs: Sequence[Any] = executable.inputs if isinstance(place, Input) else executable.states
        spec = specs[place.index]
        return math.prod(shape_of(spec, env)) * int(spec.dtype.bytes)
    return math.prod(rooms(executable, env)[place.index]) * executable.outputs[place.index].dtype.bytes
