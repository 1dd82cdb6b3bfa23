"""An executable on a device: constants and arenas stay there, a run copies its inputs in and its outputs out.

Commands run in the order in which they are queued, so barriers between steps need nothing. A kernel's arguments are set
once for a choice of dimensions, but for those that follow from sizes that the run itself finds. A device that can
record has all launches of a run as one command.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ExecutionError, TargetError
from ...events import Listener, Step, heard
from ...executable import (
    ArenaSlice,
    Barrier,
    BindSize,
    CallExternal,
    CallKernel,
    ConstantRef,
    Copy,
    Executable,
    Input,
    Location,
    Output,
    ScalarSpec,
    State,
    evaluate,
)  # fmt: skip
from ...executable.alignment import array_at
from ...expr import DType, Expr, free_vars
from .. import externals
from ..shapes import Bindings, bind_data_size, rooms, shape_of
from ..stamped import CLOCK
from ..states import zeros_of
from .device import Device, Launch, Place, Shape, checked_shape

if TYPE_CHECKING:
    from ..program import Progress

BOUND_LIMIT = 16  # choices of dimensions that are kept; the least recently used go first
_GROUP = 64  # work-items of a group where a kernel has no grid
_GROUPS = 4  # and groups for each of the device's units


class DeviceProgram:
    """An executable whose kernels are compiled for a device. One run at a time: the owner holds a lock."""

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,  # noqa: ARG002 (a device has as many as it has)
        *,
        workers: int | None = None,  # noqa: ARG002 (the device's compiler decides)
        progress: Progress | None = None,
        kernels: Sequence[Any] | None = None,
    ) -> None:
        self.executable = executable
        self.device = self.open_device()
        self.threads = self.device.limits.units
        self.kernels = self.device.compiled(executable, progress, kernels)
        self.states = [zeros_of(spec) for spec in executable.states]
        self.constants = [self.filled(c.data) for c in executable.constants]
        self._arenas: list[tuple[Any, int]] = [(None, -1)] * len(executable.arenas)
        self._bound: OrderedDict[Any, BoundProgram] = OrderedDict()

    def open_device(self) -> Device:
        """The device on which programs of this kind run; raises `TargetError` where there is none."""
        raise NotImplementedError

    def allocated(self, nbytes: int, what: str) -> Any:
        """Memory of the device; raises `TargetError` where it has too little."""
        limit = self.device.limits.piece
        if nbytes > limit:
            raise TargetError(f"{what} needs {nbytes} bytes; {self.device.name} gives out {limit} at a time")
        try:
            return self.device.allocated(max(1, nbytes))
        except (MemoryError, *self.device.errors) as error:  # type: ignore[misc]
            raise TargetError(f"{what} needs {nbytes} bytes, which {self.device.name} does not have: {error}") from None

    def filled(self, data: np.ndarray[Any, Any]) -> Any:
        """An array in the device's memory."""
        buffer = self.allocated(data.nbytes, "a constant")
        if data.nbytes:
            self.device.write(Place(buffer), _bytes(np.ascontiguousarray(data)))
            self.device.finish()
        return buffer

    def arena(self, index: int, size: int) -> Any:
        """At least `size` bytes for arena `index`; a smaller one is dropped, with the programs bound to it."""
        buffer, room = self._arenas[index]
        if room < size:
            self._bound.clear()
            buffer = self.allocated(size, f"arena {self.executable.arenas[index].name}")
            self._arenas[index] = (buffer, size)
        return buffer

    def bind(self, key: Any, env: Bindings) -> BoundProgram:
        """The program at the dimensions `env`; `key` identifies them."""
        bound = self._bound.pop(key, None) or BoundProgram(self, env)
        self._bound[key] = bound
        if len(self._bound) > BOUND_LIMIT:
            self._bound.popitem(last=False)
        return bound

    def holds(self, bound: BoundProgram) -> bool:
        """Whether `bound` is still among those kept."""
        return any(b is bound for b in self._bound.values())


class BoundProgram:
    """The memory and the launches for one choice of dimensions."""

    def __init__(self, program: DeviceProgram, env: Bindings) -> None:
        x = program.executable
        self.program, self.env, self.device = program, env, program.device
        self.output_shapes = rooms(x, env)
        arenas = [program.arena(k, int(evaluate(a.size, env))) for k, a in enumerate(x.arenas)]
        self._arenas = arenas
        self._inputs = [
            None
            if isinstance(spec, ScalarSpec)
            else self._memory(spec.dtype, shape_of(spec, env), f"input {spec.name}")
            for k, spec in enumerate(x.inputs)
        ]
        self._outputs = [
            self._memory(spec.dtype, shape, f"output {spec.name}")
            for spec, shape in zip(x.outputs, self.output_shapes, strict=True)
        ]
        self._states = [program.allocated(array.nbytes, "a state") for array in program.states]
        later = {step.var for step in x.steps if isinstance(step, BindSize)}
        self._late = [_depends(step, later) for step in x.steps]
        self._launches = [
            self._launch(step) if isinstance(step, CallKernel) and not late else None
            for step, late in zip(x.steps, self._late, strict=True)
        ]
        self._record: Launch | None = None
        self._runs = 0
        self._recordable = not later and all(isinstance(s, CallKernel | Copy | Barrier) for s in x.steps)

    def _memory(self, dtype: DType, shape: Sequence[int], what: str) -> Any:
        return self.program.allocated(int(np.prod(shape, dtype=np.int64)) * dtype.bytes, what)

    def place(self, at: Location) -> Place:
        """Where a location is on the device."""
        if isinstance(at, Input):
            return Place(self._inputs[at.index])
        if isinstance(at, Output):
            return Place(self._outputs[at.index])
        if isinstance(at, State):
            return Place(self._states[at.index])
        if isinstance(at, ConstantRef):
            return Place(self.program.constants[at.index])
        return Place(self._arenas[at.arena], int(evaluate(at.offset, self.env)))

    # -- launches

    def _launch(self, step: CallKernel) -> Launch:
        about = self.program.executable.kernels[step.kernel]
        values = [self.place(a) if isinstance(a, Location) else evaluate(a, self.env) for a in step.args]
        shape = self._shape(step, about.name)
        if shape is None:
            return _nothing
        return self.device.launch(self.program.kernels[step.kernel], about, values, shape)

    def _shape(self, step: CallKernel, name: str) -> Shape | None:
        """The launch of a kernel; None where there is nothing to do."""
        if step.grid:
            extents = [int(evaluate(d, self.env)) for d in step.grid]
            return None if min(extents) <= 0 else checked_shape(self.device, name, extents)
        if not step.parallel:
            return Shape((1, 1, 1), (1, 1, 1))
        limits = self.device.limits
        return Shape((_GROUPS * limits.units, 1, 1), (min(_GROUP, limits.threads), 1, 1))

    # -- a run

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Copy the inputs in, take all steps, copy the outputs out."""
        try:
            self._run(inputs, outputs, listeners)
        except self.device.errors as error:
            raise ExecutionError(
                f"{self.program.executable.name} failed on {self.device.name}: {error}\n"
                "  found:  its outputs and states are as they were before the run"
            ) from None

    def run_stamped(self, inputs: Sequence[int], outputs: Sequence[int]) -> np.ndarray[Any, Any]:
        """Run as `run` does, and return when each step began: `stamped.StampedRun.times` of one thread.

        The device finishes a step before the next begins, so that a launch counts to its step.
        """
        steps = len(self.program.executable.steps)
        times = np.zeros((1, steps + 1), np.int64)

        def stamp(number: int) -> None:
            self.device.finish()
            times[0, number] = time.clock_gettime_ns(CLOCK)

        self._run(inputs, outputs, (), stamp)
        return times

    def _run(
        self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener],
        stamp: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        x = self.program.executable
        begin, end = (heard(listeners, "step_begin"), heard(listeners, "step_end")) if listeners else (None, None)
        self._copy_in(inputs, outputs)
        if stamp is None and begin is None and end is None and self._recorded():
            self._copy_out(outputs)
            return
        for number, step in enumerate(x.steps):
            if stamp is not None:
                stamp(number)
            if begin is not None or end is not None:
                self.device.finish()
            name = x.kernels[step.kernel].name if isinstance(step, CallKernel) else getattr(step, "operator", "")
            event = Step(number, type(step).__name__, name)
            if begin is not None:
                begin(event, time.perf_counter())
            self._take(number, step)
            if end is not None:
                self.device.finish()
                end(event, time.perf_counter())
        if stamp is not None:
            stamp(len(x.steps))
        self._copy_out(outputs)

    def _take(self, number: int, step: Any) -> None:
        """Queue one step; waits where the host needs what a step has written."""
        x = self.program.executable
        if isinstance(step, CallKernel):
            (self._launches[number] or self._launch(step))()
        elif isinstance(step, Copy):
            self._copy(step)
        elif isinstance(step, BindSize):
            count = np.zeros(1, np.int64)
            self.device.read(_bytes(count), self.place(step.place))
            self.device.finish()
            bind_data_size(x, step, int(count[0]), self.env)
        elif isinstance(step, CallExternal):
            self._call_engine(step)
        elif not isinstance(step, Barrier):
            raise TargetError(f"a step {type(step).__name__} on {self.device.name}")

    def _recorded(self) -> bool:
        """Run all steps as one command, from the second run on; False where that is not possible."""
        self._runs += 1
        if not self._recordable or self._runs == 1:
            return False
        if self._record is None:
            self._record = self.device.recorded(self._queue_all)
            self._recordable = self._record is not None
        if self._record is not None:
            self._record()
        return self._record is not None

    def _queue_all(self) -> None:
        for number, step in enumerate(self.program.executable.steps):
            self._take(number, step)

    def _copy_in(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        x = self.program.executable
        for spec, buffer, at in zip(x.inputs, self._inputs, inputs, strict=True):
            if not isinstance(spec, ScalarSpec):
                self._write(Place(buffer), _bytes(array_at(at, spec.dtype, shape_of(spec, self.env))))
        for out, buffer, at, shape in zip(x.outputs, self._outputs, outputs, self.output_shapes, strict=True):
            # elements that are not written keep what the caller has in them
            self._write(Place(buffer), _bytes(array_at(at, out.dtype, shape)))
        for state, memory in zip(self._states, self.program.states, strict=True):
            self._write(Place(state), _bytes(memory))

    def _write(self, place: Place, data: Any) -> None:
        if data.size:
            self.device.write(place, data)

    def _read(self, data: Any, place: Place) -> None:
        if data.size:
            self.device.read(data, place)

    def _copy_out(self, outputs: Sequence[int]) -> None:
        """All results of a run at once, when every step has succeeded."""
        x = self.program.executable
        self.device.finish()
        for out, buffer, at, shape in zip(x.outputs, self._outputs, outputs, self.output_shapes, strict=True):
            self._read(_bytes(array_at(at, out.dtype, shape)), Place(buffer))
        for state, memory in zip(self._states, self.program.states, strict=True):
            self._read(_bytes(memory), Place(state))
        self.device.finish()

    def _copy(self, step: Copy) -> None:
        count = int(evaluate(step.nbytes, self.env))
        if count:
            self.device.copy(self.place(step.dst), self.place(step.src), count)

    def _call_engine(self, step: CallExternal) -> None:
        """An engine works on arrays of the host: they are copied to it, and what it writes is copied back."""
        values: list[Any] = []
        written: list[tuple[Place, Any]] = []
        for a, spec, access in zip(step.args, step.specs, step.access, strict=True):
            if not isinstance(a, Location):
                values.append(evaluate(a, self.env))
            elif spec is None:
                values.append(None)
            else:
                array, place = np.empty(shape_of(spec, self.env), spec.dtype.numpy), self.place(a)
                self._read(_bytes(array), place)
                values.append(array)
                if "w" in access:
                    written.append((place, array))
        self.device.finish()
        externals.engine(step.engine)(values, step.attrs)
        for place, array in written:
            self._write(place, _bytes(array))
        self.device.finish()


def _nothing() -> None:
    """A launch without threads."""


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


def _depends(step: Any, later: set[Any]) -> bool:
    """Whether a launch follows from sizes that are not known when the program is bound."""
    if not isinstance(step, CallKernel):
        return False
    parts: list[Any] = [*step.grid]
    for a in step.args:
        parts += [a.offset] if isinstance(a, ArenaSlice) else [a]
    return any(v in later for part in parts if isinstance(part, Expr) for v in free_vars(part))
