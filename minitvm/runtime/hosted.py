"""Kernels of other machines in a program of the host: they run in the host's memory, by the back end of their target.

A simulated accelerator is such a machine, and so may be a chip that reads the memory of its processor. The program
takes them step by step, between the tables that its threads run.
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

Run = Callable[[Sequence[Any]], None]


def hosted(kernel: Kernel, own: str) -> Run:
    """What runs a kernel on its arguments, in order: flat arrays of the parameters' dtypes, and numbers.

    Raises `TargetError` if the back end of the kernel's target cannot do that beside a program in the language `own`.
    """
    make = lookup(kernel.target or None, "hosted")
    if make is None:
        raise TargetError(f"kernel {kernel.name} is written in {kernel.language}; this runtime runs {own}")
    run: Run = make(kernel)
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
