"""Read the arguments of a call whose sizes were seen before: check all of them in one step, and run on their memory.

A first call checks its arguments one by one, with errors that say what to change, and works out its sizes. Later calls
usually pass arrays of the same kind, so they need a yes or no. A machine may answer in native code (`machines.cpu`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..executable import Input, Output
from ..expr import DType
from .arguments import overlapping
from .device.arrays import DeviceArray, argument

if TYPE_CHECKING:
    from ..events import Listener
    from .steps import BoundSteps


@dataclass(frozen=True, slots=True)
class ExpectedArray:
    """An argument of a known type. An `Output` must be writeable."""

    place: Input | Output
    dtype: DType
    shape: tuple[int, ...]


class ArgumentReader:
    """Checks the arguments of a call, and keeps their memory for the run. `arrays` are in the order of the call."""

    def __init__(self, bound: BoundSteps, arrays: Sequence[ExpectedArray]) -> None:
        self.bound, self.arrays = bound, arrays
        self._device = getattr(bound.program, "device", None)
        self._dtypes = [array.dtype.numpy for array in arrays]
        self._memory: tuple[list[Any], list[Any]] = [], []  # of the inputs and outputs, between `read` and `run`

    def read(self, values: tuple[Any, ...], shared: bool) -> bool:
        """Return True if the values are as expected; then `run` uses them, and the caller must keep them alive.

        False means that a value is anything else: another type, dtype or shape, an array that is not contiguous, not
        aligned or (an output) read-only, or, with `shared`, an output that shares memory with another argument.
        """
        if not all(map(self._fits, values, self.arrays, self._dtypes)):
            return False
        if shared:
            written = [v for v, array in zip(values, self.arrays, strict=True) if isinstance(array.place, Output)]
            read = [v for v, array in zip(values, self.arrays, strict=True) if isinstance(array.place, Input)]
            if overlapping(written, read) is not None:
                return False
        x = self.bound.executable
        inputs: list[Any] = [0] * len(x.inputs)
        outputs: list[Any] = [0] * len(x.outputs)
        for value, array in zip(values, self.arrays, strict=True):
            (inputs if isinstance(array.place, Input) else outputs)[array.place.index] = argument(value)
        self._memory = inputs, outputs
        return True

    def _fits(self, value: Any, array: ExpectedArray, dtype: np.dtype[Any]) -> bool:
        if type(value) is DeviceArray:
            return value.device is self._device and value.type == array.dtype and value.shape == array.shape
        if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != array.shape:
            return False
        flags = value.flags
        writeable = flags.writeable or isinstance(array.place, Input)
        return bool(flags.c_contiguous and flags.aligned and writeable)

    def run(self, listeners: Sequence[Listener]) -> None:
        """Run the program on the values that were read last."""
        (inputs, outputs), self._memory = self._memory, ([], [])  # a device's arrays can be freed after the run
        self.bound.run(inputs, outputs, listeners)


def remember(readers: dict[Any, ArgumentReader], key: Any, bound: BoundSteps, arrays: Iterable[ExpectedArray]) -> None:
    """Keep a reader for later calls with the sizes `key`, and drop the readers whose program is no longer in use."""
    for old in [k for k, reader in readers.items() if not bound.program.holds(reader.bound)]:
        del readers[old]
    if key not in readers or readers[key].bound is not bound:
        readers[key] = bound.reader(list(arrays))
