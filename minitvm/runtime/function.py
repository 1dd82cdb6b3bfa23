"""`Function`: one tir function that you can call with NumPy arrays, destination last, as in TVM."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from threading import current_thread
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, nearest
from ..events import Listener
from ..executable import Executable, Input, ScalarSpec
from ..forks import recursive_lock
from .argument_reader import ArgumentReader, ExpectedArray, remember
from .arguments import checked_array, checked_scalar, contiguous, destination, disjoint
from .device.arrays import argument, resident
from .program import Progress, called_again, open_program
from .shapes import bind_dims, shapes_of, spec_text
from .steps import BoundSteps
from .tvm_methods import TvmMethods

if TYPE_CHECKING:
    from .artifact.sign import Key
    from .device.clock import Clock


class Function(TvmMethods):
    """A compiled function. `f(a, b, c)` runs it on arrays in the order of its parameters, and writes `c` in place.

    An array that is only read may be any array of the right dtype and shape; it is copied if it is not contiguous. An
    array that is written must be contiguous and writeable, and must not share memory with another argument. The call
    returns None.
    """

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,
        *,
        workers: int | None = None,
        progress: Progress | None = None,
        kernels: Sequence[Any] | None = None,
        device: str | int | None = None,
    ) -> None:
        self.executable = executable
        self.listeners: Sequence[Listener] = ()
        self._program = open_program(executable, threads, workers, progress, kernels, device)
        self._device = getattr(self._program, "device", None)
        self._lock = recursive_lock()
        self._order = executable.calling_order
        self._specs = [
            executable.inputs[c.index] if isinstance(c, Input) else executable.outputs[c.index] for c in self._order
        ]
        self._simple = not any(isinstance(spec, ScalarSpec) for spec in self._specs)
        self._known: dict[Any, ArgumentReader] = {}  # for calls with the same sizes as an earlier one

    @property
    def name(self) -> str:
        return self.executable.name

    @property
    def threads(self) -> int:
        return self._program.threads

    def __repr__(self) -> str:
        return f"Function({self.signature})"

    @property
    def signature(self) -> str:
        """The function's name and parameters, for messages."""
        return f"{self.name}({', '.join(map(spec_text, self._specs))})"

    def export(
        self, path: str | os.PathLike[str], *, key: Key | None = None, architectures: Sequence[str] = ()
    ) -> None:
        """Write this function to a single file that `minitvm.runtime.load` can run; see `artifact.export`."""
        from .artifact.export import export

        export(self, path, key, architectures)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function as its artifact; see `artifact.pickled`."""
        from .artifact.pickled import pickled

        return pickled(self)

    def __call__(self, *args: Any) -> None:
        program = self._program
        with self._lock:
            if program.running is current_thread():
                raise called_again(self.name)
            reader = self._known.get(shapes_of(args)) if self._simple else None
            try:
                program.running = current_thread()
                if reader is not None and reader.read(args, True):
                    reader.run(self.listeners)
                    return
            finally:
                program.running = None
            bound, inputs, outputs = self._bound(args)
            try:
                program.running = current_thread()
                bound.run(list(map(argument, inputs)), list(map(argument, outputs)), self.listeners)
            finally:
                program.running = None

    def to_device(self, array: Any) -> Any:
        """Copy a host array to the function's device, to use it as an argument. On the CPU, return the array itself."""
        if self._device is None:
            return array
        with self._lock:
            return self._program.pool.filled(self._device, np.asarray(array))  # type: ignore[attr-defined]

    def clock(self, calls: Sequence[Sequence[Any]]) -> Clock | None:
        """Return a clock that times these calls (each a list of arguments) by the device's clock, or None on the CPU.

        The arguments should be on the device. All calls must have the same shapes as the first call.
        """
        if self._device is None:
            return None
        from .device.clock import Clock

        with self._lock:
            bound = [self._bound(args) for args in calls]
            taken = [(list(map(argument, inputs)), list(map(argument, outputs))) for _, inputs, outputs in bound]
            return Clock(bound[0][0], taken, kept=bound)  # type: ignore[arg-type]

    def _bound(self, args: Sequence[Any]) -> tuple[BoundSteps, list[Any], list[Any]]:
        """Check the arguments, and return the bound program, its inputs and its outputs.

        The caller must keep references to the inputs and outputs, because some are copies that nothing else refers to.
        """
        if len(args) != len(self._order):
            raise InputError(f"{len(args)} arguments; wanted {self.signature}")
        what = self.name
        inputs: list[Any] = [None] * len(self.executable.inputs)
        outputs: list[Any] = [None] * len(self.executable.outputs)
        tensors, scalars = [], []
        read: list[tuple[str, Any]] = []
        written: list[tuple[str, Any]] = []
        for place, spec, value in zip(self._order, self._specs, args, strict=True):
            if isinstance(spec, ScalarSpec):
                inputs[place.index] = checked_scalar(what, spec, value)
                scalars.append((spec, inputs[place.index]))
                continue
            if isinstance(place, Input):
                array: Any = resident(what, spec, value, self._device)
                array = contiguous(checked_array(what, spec, value)) if array is None else array
                inputs[place.index] = array
                read.append((spec.name, array))
            else:
                array = outputs[place.index] = destination(what, spec, value, None, self._device)
                written.append((spec.name, array))
            tensors.append((spec, array.shape))
        disjoint(what, written, read)
        env = bind_dims(what, tensors, scalars)
        key = (tuple(shape for _, shape in tensors), tuple(n for _, n in scalars))
        bound = self._program.bind(key, env)
        if self._simple:
            dtypes = [spec.dtype for spec in self._specs]
            remember(self._known, key[0], bound, map(ExpectedArray, self._order, dtypes, key[0]))
        return bound, inputs, outputs


# --- Several compiled functions of one module, by name: `rt["add"](a, b, c)`.


class Functions(Mapping[str, Function]):
    """The functions of a compiled module, by name. `build` returns this for a module of several functions."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = dict(functions)

    def __getitem__(self, name: str) -> Function:
        """Return the function called `name`. If there is none, raise an `InputError` that suggests existing names."""
        if name not in self._functions:
            raise InputError(f"the module has no function {name!r}; {nearest(str(name), list(self._functions))}")
        return self._functions[name]

    get_function = __getitem__

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __repr__(self) -> str:
        return f"Functions({', '.join(f.signature for f in self._functions.values())})"
