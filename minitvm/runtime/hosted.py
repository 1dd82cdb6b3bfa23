"""Kernels of another machine in a program: they run in the host's memory, by the back end of their target.

In a program of the host, a simulated accelerator is such a machine, and so may be a chip that reads the memory of its
processor: the program takes its kernels step by step, between the tables that its threads run. In a program of a
device with memory of its own, the host is: `runtime.device.host`.
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

Run = Callable[[Sequence[Any], bool], None]  # of the arguments, and whether all threads take part


def hosted(kernel: Kernel, own: str, threads: int | None = None, code: Any = None) -> Run:
    """What runs a kernel on its arguments, in order: flat arrays of the parameters' dtypes, and numbers.

    `threads` is how many a parallel kernel may use, None for as many as its machine likes. `code` is the kernel's, if
    an artifact holds it. Raises `TargetError` if the back end of the kernel's target cannot
    run it beside a program for `own`.
    """
    make = lookup(kernel.target or None, "hosted")
    if make is None:
        raise TargetError(f"kernel {kernel.name} is written in {kernel.language}; this runtime runs {own}")
    run: Run = make(kernel, threads) if code is None else make(kernel, threads, code)
    return run


def room(executable: Executable, place: Location, env: Bindings) -> int:
    """How many bytes are at a place, for the sizes in `env`."""
    if isinstance(place, ArenaSlice):
        return int(evaluate(place.nbytes, env))
    if isinstance(place, ConstantRef):
        return executable.constants[place.index].data.nbytes
    if isinstance(place, Input | State):
        specs: Sequence[Any] = executable.inputs if isinstance(place, Input) else executable.states
        spec = specs[place.index]
        return math.prod(shape_of(spec, env)) * int(spec.dtype.bytes)
    return math.prod(rooms(executable, env)[place.index]) * executable.outputs[place.index].dtype.bytes
