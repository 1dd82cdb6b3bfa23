"""States in the memory of a device: they stay there between runs, and are copied only when you read or set them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ExecutionError
from ...executable import TensorSpec
from ..states import first_values
from .device import Place, as_bytes, reported

if TYPE_CHECKING:
    from .program import DeviceProgram


class DeviceState:
    """The memory of one state. You read and set it like an array: `copy()`, `state[...] = array`."""

    def __init__(self, owner: States, program: DeviceProgram, spec: TensorSpec, first: np.ndarray[Any, Any]) -> None:
        self._owner, self._program, self.spec = owner, program, spec
        self.dtype, self.shape, self.size, self.nbytes = first.dtype, first.shape, first.size, first.nbytes
        self.buffer = program.filled(first)
        self.is_known = True  # a run that failed may have left anything

    def copy(self) -> np.ndarray[Any, Any]:
        """Return a copy of the state in host memory."""
        self._owner.require_known()
        array = np.empty(self.shape, self.dtype)
        if array.size:
            with reported(self._program.device, f"a copy of {self.spec.name} to the host"):
                self._program.device.read(as_bytes(array), Place(self.buffer))
                self._program.device.finish()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.copy() if dtype is None else self.copy().astype(dtype)

    def __setitem__(self, everything: Any, value: Any) -> None:
        array = np.empty(self.shape, self.dtype)
        array[...] = value
        if array.size:
            with reported(self._program.device, f"a copy of {self.spec.name} to the device"):
                self._program.device.write(Place(self.buffer), as_bytes(array))
                self._program.device.finish()
        self.is_known = True


class States:
    """The memory of all states of a program."""

    def __init__(self, program: DeviceProgram) -> None:
        self._program, specs = program, program.executable.states
        firsts = first_values(program.executable)
        self.arrays = [DeviceState(self, program, spec, first) for spec, first in zip(specs, firsts, strict=True)]

    def lose(self) -> None:
        """Mark the values of all states as unknown, because a run failed."""
        for state in self.arrays:
            state.is_known = False

    def require_known(self) -> None:
        """Raise `ExecutionError` if a failed run may have changed a state that has not been set since then."""
        lost = [state.spec.name for state in self.arrays if not state.is_known]
        if lost:
            raise ExecutionError(
                f"{self._program.executable.name}: a run failed on {self._program.device.name}, and may have changed "
                f"{', '.join(lost)}\n  try:    module.reset(), or module.state[{lost[0]!r}] = ..."
            )
