"""An executable on an OpenCL device: constants and arenas stay there, a run copies its inputs in and its outputs out.

Commands run in the order in which they are queued, so barriers between steps need nothing. A kernel's arguments are set
once for a choice of dimensions, but for those that follow from sizes that the run itself finds.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    KernelParam,
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
from .devices import Device, current, pyopencl
from .kernels import compiled

if TYPE_CHECKING:
    from ..program import Progress

BOUND_LIMIT = 16  # choices of dimensions that are kept; the least recently used go first
_GROUP = 64  # work-items of a group where a kernel has no grid
_GROUPS = 4  # and groups for each of the device's units
_WORD = 2**64


@dataclass(frozen=True, slots=True)
class Place:
    """Memory of the device from a byte of a buffer on."""

    buffer: Any
    offset: int = 0


@dataclass(slots=True)
class _Launch:
    """A kernel with its arguments, and the work-items that run it; None where there is nothing to do."""

    kernel: Any
    work: tuple[tuple[int, ...], tuple[int, ...]] | None


class OpenCLProgram:
    """An executable whose kernels are compiled for a device. One run at a time: the owner holds a lock."""

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,  # noqa: ARG002 (a device has as many as it has)
        *,
        workers: int | None = None,  # noqa: ARG002 (the driver compiles)
        progress: Progress | None = None,
        kernels: Sequence[Any] | None = None,  # noqa: ARG002 (sources are compiled where they run)
    ) -> None:
        self.executable = executable
        self.device: Device = current()
        self.threads = int(self.device.handle.max_compute_units)
        self.programs = compiled(self.device, executable.kernels, progress)
        self.states = [zeros_of(spec) for spec in executable.states]
        self.constants = [self.filled(c.data) for c in executable.constants]
        self._arenas: list[tuple[Any, int]] = [(None, -1)] * len(executable.arenas)
        self._bound: OrderedDict[Any, BoundProgram] = OrderedDict()

    def allocated(self, nbytes: int, what: str) -> Any:
        """Memory of the device; raises `TargetError` where it has too little."""
        cl = pyopencl()
        limit = int(self.device.handle.max_mem_alloc_size)
        try:
            if nbytes > limit:
                raise TargetError(f"{what} needs {nbytes} bytes; {self.device.name} gives out {limit} at a time")
            return cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, max(1, nbytes))
        except (cl.MemoryError, cl.RuntimeError) as error:
            raise TargetError(f"{what} needs {nbytes} bytes, which {self.device.name} does not have: {error}") from None

    def filled(self, data: np.ndarray[Any, Any]) -> Any:
        """An array in the device's memory."""
        buffer = self.allocated(data.nbytes, "a constant")
        if data.nbytes:
            pyopencl().enqueue_copy(self.device.queue, buffer, _bytes(np.ascontiguousarray(data)))
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

    def __init__(self, program: OpenCLProgram, env: Bindings) -> None:
        x = program.executable
        self.program, self.env = program, env
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

    def _launch(self, step: CallKernel) -> _Launch:
        cl, number = pyopencl(), step.kernel
        about = self.program.executable.kernels[number]
        kernel = cl.Kernel(self.program.programs[number], about.entry)  # its own: it keeps its arguments
        values: list[Any] = []
        for a, param in zip(step.args, about.params, strict=True):
            if isinstance(a, Location):
                place = self.place(a)
                values += [place.buffer, np.uint64(place.offset)]
            else:
                values.append(_scalar(evaluate(a, self.env), param))
        kernel.set_args(*values)
        return _Launch(kernel, self._work(step, about.name))

    def _work(self, step: CallKernel, name: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """All work-items, and those of a group, along three axes."""
        handle = self.program.device.handle
        if not step.grid:
            if not step.parallel:
                return (1, 1, 1), (1, 1, 1)
            group = min(_GROUP, int(handle.max_work_group_size))
            return (group * _GROUPS * int(handle.max_compute_units), 1, 1), (group, 1, 1)
        extents = [int(evaluate(d, self.env)) for d in step.grid]
        if min(extents) <= 0:
            return None
        blocks, threads = extents[:3], extents[3:]
        limit, sizes = int(handle.max_work_group_size), handle.max_work_item_sizes
        if np.prod(threads) > limit or any(n > most for n, most in zip(threads, sizes, strict=False)):
            raise TargetError(
                f"kernel {name} has groups of {' x '.join(map(str, threads))} work-items\n"
                f"  found:  {self.program.device.name} runs up to {limit} in a group, "
                f"{' x '.join(map(str, sizes))} along its axes"
            )
        return tuple(b * t for b, t in zip(blocks, threads, strict=True)), tuple(threads)

    # -- a run

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Copy the inputs in, take all steps, copy the outputs out."""
        cl = pyopencl()
        try:
            self._run(inputs, outputs, listeners)
        except (cl.RuntimeError, cl.MemoryError) as error:
            raise ExecutionError(
                f"{self.program.executable.name} failed on {self.program.device.name}: {error}\n"
                "  found:  its outputs and states are as they were before the run"
            ) from None

    def run_stamped(self, inputs: Sequence[int], outputs: Sequence[int]) -> np.ndarray[Any, Any]:
        """Run as `run` does, and return when each step began: `stamped.StampedRun.times` of one thread.

        The device finishes a step before the next begins, so that a launch counts to its step.
        """
        steps = len(self.program.executable.steps)
        times = np.zeros((1, steps + 1), np.int64)

        def stamp(number: int) -> None:
            self.program.device.queue.finish()
            times[0, number] = time.clock_gettime_ns(CLOCK)

        self._run(inputs, outputs, (), stamp)
        return times

    def _run(
        self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener],
        stamp: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        cl, x, queue = pyopencl(), self.program.executable, self.program.device.queue
        begin, end = (heard(listeners, "step_begin"), heard(listeners, "step_end")) if listeners else (None, None)
        self._copy_in(inputs, outputs)
        for number, step in enumerate(x.steps):
            if stamp is not None:
                stamp(number)
            if begin is not None or end is not None:
                queue.finish()
            name = x.kernels[step.kernel].name if isinstance(step, CallKernel) else getattr(step, "operator", "")
            event = Step(number, type(step).__name__, name)
            if begin is not None:
                begin(event, time.perf_counter())
            if isinstance(step, CallKernel):
                launch = self._launches[number] or self._launch(step)
                if launch.work is not None:
                    cl.enqueue_nd_range_kernel(queue, launch.kernel, *launch.work)
            elif isinstance(step, Copy):
                self._copy(step)
            elif isinstance(step, BindSize):
                count = np.zeros(1, np.int64)
                place = self.place(step.place)
                cl.enqueue_copy(queue, count, place.buffer, src_offset=place.offset)
                bind_data_size(x, step, int(count[0]), self.env)
            elif isinstance(step, CallExternal):
                self._call_engine(step)
            elif not isinstance(step, Barrier):
                raise TargetError(f"a step {type(step).__name__} on {self.program.device.name}")
            if end is not None:
                queue.finish()
                end(event, time.perf_counter())
        if stamp is not None:
            stamp(len(x.steps))
        self._copy_out(outputs)

    def _copy_in(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        cl, x, queue = pyopencl(), self.program.executable, self.program.device.queue
        for spec, buffer, at in zip(x.inputs, self._inputs, inputs, strict=True):
            if isinstance(spec, ScalarSpec):
                continue
            array = _bytes(array_at(at, spec.dtype, shape_of(spec, self.env)))
            if array.size:
                cl.enqueue_copy(queue, buffer, array, is_blocking=False)
        for out, buffer, at, shape in zip(x.outputs, self._outputs, outputs, self.output_shapes, strict=True):
            array = _bytes(array_at(at, out.dtype, shape))
            if array.size:  # elements that are not written keep what the caller has in them
                cl.enqueue_copy(queue, buffer, array, is_blocking=False)
        for state, memory in zip(self._states, self.program.states, strict=True):
            if memory.nbytes:
                cl.enqueue_copy(queue, state, _bytes(memory), is_blocking=False)

    def _copy_out(self, outputs: Sequence[int]) -> None:
        """All results of a run at once, when every step has succeeded."""
        cl, x, queue = pyopencl(), self.program.executable, self.program.device.queue
        queue.finish()
        for out, buffer, at, shape in zip(x.outputs, self._outputs, outputs, self.output_shapes, strict=True):
            array = _bytes(array_at(at, out.dtype, shape))
            if array.size:
                cl.enqueue_copy(queue, array, buffer, is_blocking=False)
        for state, memory in zip(self._states, self.program.states, strict=True):
            if memory.nbytes:
                cl.enqueue_copy(queue, _bytes(memory), state, is_blocking=False)
        queue.finish()

    def _copy(self, step: Copy) -> None:
        count = int(evaluate(step.nbytes, self.env))
        if count:
            to, source = self.place(step.dst), self.place(step.src)
            pyopencl().enqueue_copy(
                self.program.device.queue, to.buffer, source.buffer, byte_count=count, src_offset=source.offset,
                dst_offset=to.offset,
            )  # fmt: skip

    def _call_engine(self, step: CallExternal) -> None:
        """An engine works on arrays of the host: they are copied to it, and what it writes is copied back."""
        cl, queue = pyopencl(), self.program.device.queue
        values: list[Any] = []
        written: list[tuple[Place, Any]] = []
        for a, spec, access in zip(step.args, step.specs, step.access, strict=True):
            if not isinstance(a, Location):
                values.append(evaluate(a, self.env))
            elif spec is None:
                values.append(None)
            else:
                array, place = np.empty(shape_of(spec, self.env), spec.dtype.numpy), self.place(a)
                if array.size:
                    cl.enqueue_copy(queue, _bytes(array), place.buffer, src_offset=place.offset)
                values.append(array)
                if "w" in access and array.size:
                    written.append((place, array))
        externals.engine(step.engine)(values, step.attrs)
        for place, array in written:
            cl.enqueue_copy(queue, place.buffer, _bytes(array), dst_offset=place.offset)


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


def _scalar(value: Any, param: KernelParam) -> Any:
    """A number as the kernel takes it: integers as long, floats as themselves, those of 16 bits as float32."""
    dtype = DType(param.dtype)
    if dtype.is_float:
        return np.float64(value) if dtype == "float64" else np.float32(dtype.numpy.type(value))
    word = int(value) % _WORD
    return np.int64(word - _WORD if word >= _WORD // 2 else word)


def _depends(step: Any, later: set[Any]) -> bool:
    """Whether a launch follows from sizes that are not known when the program is bound."""
    if not isinstance(step, CallKernel):
        return False
    parts: list[Any] = [*step.grid]
    for a in step.args:
        parts += [a.offset] if isinstance(a, ArenaSlice) else [a]
    return any(v in later for part in parts if isinstance(part, Expr) for v in free_vars(part))
