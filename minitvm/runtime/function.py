"""`Function`: one tir function as a callable on NumPy arrays, destination last, as in TVM."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..events import Listener
from ..executable import Executable, Input, ScalarSpec
from .arguments import Array, checked_array, checked_scalar, contiguous, destination, disjoint
from .cpu.compile_pool import Progress
from .cpu.program import CpuProgram
from .shapes import bind_dims, spec_text


class Function:
    """`f(a, b, c)` runs the function on the arrays given, in the order of its parameters, and writes `c` in place.

    An array that is only read may be anything of the right dtype and shape (it is copied if it is not contiguous); one
    that is written must be contiguous, writeable, and share no memory with another argument. Returns None.
    """

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,
        *,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.executable = executable
        self.listeners: Sequence[Listener] = ()
        self._program = CpuProgram(executable, threads, workers=workers, progress=progress)
        self._lock = threading.Lock()
        self._order = executable.calling_order
        self._specs = [
            executable.inputs[c.index] if isinstance(c, Input) else executable.outputs[c.index] for c in self._order
        ]

    @property
    def name(self) -> str:
        return self.executable.name

    @property
    def threads(self) -> int:
        return self._program.team.threads

    def __repr__(self) -> str:
        return f"Function({self.signature})"

    @property
    def signature(self) -> str:
        """Name and parameters, for messages."""
        return f"{self.name}({', '.join(map(spec_text, self._specs))})"

    def __call__(self, *args: Any) -> None:
        if len(args) != len(self._order):
            raise InputError(f"{len(args)} arguments; wanted {self.signature}")
        what = self.name
        inputs: list[Any] = [None] * len(self.executable.inputs)
        outputs: list[Any] = [None] * len(self.executable.outputs)
        tensors, scalars = [], []
        read: list[tuple[str, Array]] = []
        written: list[tuple[str, Array]] = []
        for place, spec, value in zip(self._order, self._specs, args):
            if isinstance(spec, ScalarSpec):
                inputs[place.index] = checked_scalar(what, spec, value)
                scalars.append((spec, inputs[place.index]))
                continue
            if isinstance(place, Input):
                array = inputs[place.index] = contiguous(checked_array(what, spec, value))
                read.append((spec.name, array))
            else:
                array = outputs[place.index] = destination(what, spec, value)
                written.append((spec.name, array))
            tensors.append((spec, array.shape))
        disjoint(what, written, read)
        env = bind_dims(what, tensors, scalars)
        key = (tuple(shape for _, shape in tensors), tuple(n for _, n in scalars))
        with self._lock:
            bound = self._program.bind(key, env)
            addresses = [0 if isinstance(a, int | float) else a.ctypes.data for a in inputs]
            bound.run(addresses, [a.ctypes.data for a in outputs], self.listeners)
