"""A program for one choice of dimensions, in the memory of a device: its launches, and the copies of a run.

Commands run in the order in which they are queued, so a barrier between steps needs no command. The arguments of a
kernel are set once for each choice of memory, except arguments that depend on sizes found during the run. Arrays on the
device are used in place, and so are arrays of the host if the device shares the host's memory; all others are copied.
If a device can record commands, all launches of a run become one command; or, if the host has steps in between, all
launches between two steps of the host. A kernel of the host waits for the copies that were queued before it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import executable as exe
from ...errors import ExecutionError, InternalError
from ...events import Listener
from ...executable.alignment import ALIGNMENT, address, aligned_empty, array_at
from ...expr import DType, Expr, free_vars
from ..shapes import Bindings, require_room, shape_of
from ..steps import Array, BoundSteps, Part, Single, Stretch
from ..time_evaluator import CLOCK, fill_skipped
from .arrays import DeviceArray
from .device import Bytes, Launch, Place, Shape, as_bytes, checked_shape, reported
from .host import HostPlace, slice_of

if TYPE_CHECKING:
    from .program import DeviceProgram

MEMORIES = 16  # the most choices of memory whose launches are kept
_GROUP = 64  # work-items of a group if a kernel has no grid
_GROUPS = 4  # groups for each of the device's units, in that case


class _Memory:
    """The places of the inputs and outputs of one or more runs, and the launches that use these places.

    The arguments in `fetched` are copied to the device before a run, and the outputs in `returned` are copied back
    after it.
    """

    def __init__(self, inputs: list[Place | None], outputs: list[Place]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.fetched: list[exe.Input | exe.Output] = []
        self.returned: list[int] = []
        self.launches: list[Launch | None] = []
        self.parts: list[Part] = []  # including stretches, once they are recorded
        self.runs = 0


class BoundProgram(BoundSteps):
    """A program on a device with its memory and launches, for one set of dimensions."""

    program: DeviceProgram

    def __init__(self, program: DeviceProgram, env: Bindings) -> None:
        super().__init__(program, env)
        x, self.device = self.executable, program.device
        require_room(x, env)
        self._arenas = [program.arena(k, int(exe.evaluate(a.size, env))) for k, a in enumerate(x.arenas)]
        self._specs: list[tuple[exe.TensorSpec, tuple[int, ...]] | None] = [
            None if isinstance(spec, exe.ScalarSpec) else (spec, shape_of(spec, env)) for spec in x.inputs
        ]
        self._room: dict[exe.Input | exe.Output, Any] = {}  # the program's memory for arrays that are not on the device
        self._room_of_host: dict[
            exe.Input | exe.Output, Bytes
        ] = {}  # the same memory as the host sees it, if both use it
        later = {step.var for step in x.steps if isinstance(step, exe.BindSize)}
        self._late = [_depends(step, later) for step in x.steps]
        self._own = [_is_own(step) for step in x.steps]
        self._shared: dict[int, Launch] = {}  # launches that use no inputs and outputs, by their steps
        self._memories: OrderedDict[tuple[int, ...], _Memory] = OrderedDict()
        self._memory: _Memory  # the memory of the present run
        self._stretches = [] if later else self._of_the_device()
        self._copies_under_way = False  # copies from or to memory of the host that its kernels use
        self._host_values: dict[int, list[Any]] = {}  # the arguments of its kernels, by their steps

    def _of_the_device(self) -> list[range]:
        """Return the stretches of steps that a device may record as a single command.

        Between two stretches, the host computes or copies. A single step is one command already. The list is empty if
        the program has loops, which the host repeats.
        """
        steps = self.program.executable.steps
        if any(isinstance(step, exe.Loop) for step in steps):
            return []
        ends = [k for k, step in enumerate(steps) if not self._is_of_the_device(step)]
        stretches = [range(a + 1, b) for a, b in pairwise([-1, *ends, len(steps)])]
        alone = len(stretches) == 1
        return [
            part for part in stretches if sum(not isinstance(steps[k], exe.Barrier) for k in part) > (0 if alone else 1)
        ]

    def _is_of_the_device(self, step: Any) -> bool:
        """Return whether the device can execute a step without the host."""
        if isinstance(step, exe.Copy):
            return not any(
                isinstance(at, exe.ArenaSlice) and self.program.host.has(at.arena) for at in (step.dst, step.src)
            )
        return isinstance(step, exe.CallKernel | exe.Barrier) and not self.program.host.runs(step)

    # -- memory

    def _chosen(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> _Memory:
        """Choose the memory for a run. Arguments that the device can access are used in place; for each of the others,
        the program has a copy.
        """
        key = (*map(self._address, inputs), *map(self._address, outputs))
        memory = self._memories.pop(key, None) or self._new_memory(key, inputs, outputs)
        self._memories[key] = self._memory = memory
        if len(self._memories) > MEMORIES:
            self._memories.popitem(last=False)
        return memory

    def _address(self, array: Any) -> int:
        """Return the address at which the device uses an argument in place, or 0 if the argument must be copied.

        If `array` is an int, it is an address in host memory.
        """
        if isinstance(array, DeviceArray):
            return array.address if self.device.is_aligned(array.buffer) else 0
        return array if self.device.shares_host and array % ALIGNMENT == 0 else 0

    def _new_memory(self, key: tuple[int, ...], inputs: Sequence[Any], outputs: Sequence[Any]) -> _Memory:
        x = self.program.executable
        places: list[Place | None] = []
        for k, (about, array) in enumerate(zip(self._specs, inputs, strict=True)):
            places.append(None if about is None else self._placed(exe.Input(k), *about, array, key[k]))
        written: list[Place] = []
        for k, (spec, array) in enumerate(zip(x.outputs, outputs, strict=True)):
            written.append(self._placed(exe.Output(k), spec, self.output_shapes[k], array, key[len(inputs) + k]))
        memory = self._memory = _Memory(places, written)
        here = [spec is None or in_place or not prod(spec[1]) for spec, in_place in zip(self._specs, key, strict=False)]
        memory.fetched = [exe.Input(k) for k, stays in enumerate(here) if not stays]
        for k, (spec, shape) in enumerate(zip(x.outputs, self.output_shapes, strict=True)):
            if key[len(inputs) + k] or not prod(shape):
                continue
            memory.returned.append(k)
            if x.calling or spec.inout:  # elements that a function does not write keep the caller's values
                memory.fetched.append(exe.Output(k))
        for number, step in enumerate(x.steps):
            launch = None
            if isinstance(step, exe.CallKernel) and not self._late[number] and not self.program.host.runs(step):
                launch = self._shared.get(number) or self._launch(step)
                if self._own[number]:
                    self._shared[number] = launch
            memory.launches.append(launch)
        return memory

    def _placed(
        self, at: exe.Input | exe.Output, spec: exe.TensorSpec, shape: Sequence[int], array: Any, in_place: int
    ) -> Place:
        nbytes = int(np.prod(shape, dtype=np.int64)) * spec.dtype.bytes
        if in_place and nbytes:
            buffer = array.buffer if isinstance(array, DeviceArray) else self.device.over_host(in_place, nbytes)
            return Place(buffer, 0, nbytes)
        if at not in self._room:
            what = f"{'input' if isinstance(at, exe.Input) else 'output'} {spec.name}"
            if self.device.shares_host and nbytes:
                self._room_of_host[at] = aligned_empty(nbytes)
                self._room[at] = self.device.over_host(address(self._room_of_host[at]), nbytes)
            else:
                self._room[at] = self.program.allocated(nbytes, what)
        return Place(self._room[at], 0, nbytes)

    def place(self, at: exe.Location) -> Place:
        """Return the place on the device that a location refers to. Raises `InternalError` if it is in host memory."""
        place = self._anywhere(at)
        if isinstance(place, HostPlace):
            raise InternalError(f"a step on {self.device.name} works on {at}, which is in the host's memory")
        return place

    def _anywhere(self, at: exe.Location) -> Place | HostPlace:
        """Return the place that a location refers to, on the device or on the host."""
        if isinstance(at, exe.Input):
            return self._memory.inputs[at.index] or Place(None)
        if isinstance(at, exe.Output):
            return self._memory.outputs[at.index]
        if isinstance(at, exe.State):
            state = self.program.states[at.index]
            return Place(state.buffer, 0, state.nbytes)
        if isinstance(at, exe.ConstantRef):
            nbytes = self.program.executable.constants[at.index].data.nbytes
            return Place(self.program.constants[at.index], 0, nbytes)
        if self.program.host.has(at.arena):
            return slice_of(self._arenas[at.arena], at, self.env)
        begin, nbytes = (int(exe.evaluate(n, self.env)) for n in (at.offset, at.nbytes))
        return Place(self._arenas[at.arena], begin, nbytes)

    # -- launches

    def _launch(self, step: exe.CallKernel) -> Launch:
        about = self.program.executable.kernels[step.kernel]
        values = [self.place(a) if isinstance(a, exe.Location) else exe.evaluate(a, self.env) for a in step.args]
        shape = self._shape(step, about.name)
        if shape is None:
            return _nothing
        return self.device.launch(self.program.kernels[step.kernel], about, values, shape)

    def _shape(self, step: exe.CallKernel, name: str) -> Shape | None:
        """Return the launch shape of a kernel, or None if there are no blocks or threads to run."""
        if step.grid:
            extents = [int(exe.evaluate(d, self.env)) for d in step.grid]
            return None if min(extents) <= 0 else checked_shape(self.device, name, extents)
        if not step.parallel:
            return Shape((1, 1, 1), (1, 1, 1))
        limits = self.device.limits
        return Shape((_GROUPS * limits.units, 1, 1), (min(_GROUP, limits.threads), 1, 1))

    # -- a run

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any], listeners: Sequence[Listener] = ()) -> None:
        """Run all steps. Each argument is an address in host memory or a `DeviceArray`.

        Raises `ExecutionError` if the device fails. In that case, results that would be copied to the host are
        unchanged, and states are unknown until you set them.
        """
        try:
            self._run(inputs, outputs, listeners)
        except self.device.errors as error:
            raise ExecutionError(
                f"{self.program.executable.name} failed on {self.device.name}: {error}\n{self._left(outputs)}"
            ) from None

    def _left(self, outputs: Sequence[Any]) -> str:
        """Mark the states as unknown, and return the line of an error that lists what a failed run may have changed."""
        self.program.memory.lose()
        in_place = [
            spec.name
            for spec, array in zip(self.program.executable.outputs, outputs, strict=True)
            if self._address(array)
        ]
        changed = [*in_place, *(state.spec.name for state in self.program.states)]
        if not changed:
            return "  found:  its outputs are as they were before the run"
        return f"  found:  {', '.join(changed)} may be partly changed, all else is as before the run"

    def run_stamped(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Run like `run`, and return the time at which each step began, as in `time_evaluator.StampedRun.times` for one
        thread.

        The device finishes each step before the next one begins, so that each step is charged for its own time.
        """
        steps = len(self.program.executable.steps)
        times = np.zeros((1, steps + 1), np.int64)

        def stamp(number: int) -> None:
            self.device.finish()
            times[0, number] = time.clock_gettime_ns(CLOCK)

        with reported(self.device, self.executable.name):
            memory = self._entered(inputs, outputs)
            self.run_parts(self.one_by_one, stamp)
            stamp(steps)
            self._copy_out(memory, outputs)
        fill_skipped(times, self.executable)
        return times

    def _run(self, inputs: Sequence[Any], outputs: Sequence[Any], listeners: Sequence[Listener]) -> None:
        memory = self._entered(inputs, outputs)
        if not listeners or not self.run_heard(listeners):
            self.run_parts(self._parts_in(memory))
        self._copy_out(memory, outputs)

    def _entered(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> _Memory:
        """Begin a run: choose its memory, copy its inputs to the device, and return the memory."""
        self.device.enter()
        self.program.memory.require_known()
        memory = self._chosen(inputs, outputs)
        self._copy_in(memory, inputs, outputs)
        return memory

    def _parts_in(self, memory: _Memory) -> Sequence[Part]:
        """Return the parts of a run. From the second run in this memory on, each stretch of device steps is a single
        command.
        """
        memory.runs += 1
        if not self._stretches or memory.runs == 1:
            return self.one_by_one
        if not memory.parts:
            parts: list[Part] = []
            done = 0
            for stretch in self._stretches:
                record = self.device.recorded(partial(self.run_parts, _each(stretch)))
                if record is None:
                    self._stretches = []
                    return self.one_by_one
                parts += [*_each(range(done, stretch.start)), Stretch(record)]
                done = stretch.stop
            memory.parts = [*parts, *_each(range(done, len(self.executable.steps)))]
        return memory.parts

    # -- single steps

    def launch(self, number: int, step: exe.CallKernel) -> None:
        (self._memory.launches[number] or self._launch(step))()

    def copy(self, number: int, step: exe.Copy) -> None:  # noqa: ARG002
        """Queue a copy, or copy immediately if both places are in host memory."""
        nbytes = int(exe.evaluate(step.nbytes, self.env))
        if not nbytes:
            return
        to, source = self._anywhere(step.dst), self._anywhere(step.src)
        if isinstance(to, Place) and isinstance(source, Place):
            self.device.copy(to, source, nbytes)
        elif isinstance(to, Place) and isinstance(source, HostPlace):
            self.device.write(to, source.data[:nbytes])
            self._copies_under_way = True
        elif isinstance(to, HostPlace) and isinstance(source, Place):
            self.device.read(to.data[:nbytes], source)
            self._copies_under_way = True
        elif isinstance(to, HostPlace) and isinstance(source, HostPlace):
            self._finish_copies()
            to.data[:nbytes] = source.data[:nbytes]

    def _finish_copies(self) -> None:
        """Wait for all queued copies from and to host memory."""
        if self._copies_under_way:
            self.finish()
            self._copies_under_way = False

    def finish(self) -> None:
        self.device.finish()

    def read(self, place: exe.Location, dtype: str) -> Any:
        one = np.zeros(1, dtype)
        self.device.read(as_bytes(one), self.place(place))
        self.finish()
        return one[0]

    def write(self, place: exe.Location, number: int) -> None:
        self.put_back(place, np.array([number], np.int64))

    def array(self, place: exe.Location, spec: exe.TensorSpec) -> Array:
        """Return a tensor as an array in host memory. It is complete only when all steps have finished."""
        array = np.empty(shape_of(spec, self.env), spec.dtype.numpy)
        if array.size:
            self.device.read(as_bytes(array), self.place(place))
        return array

    def put_back(self, place: exe.Location, array: Array) -> None:
        if array.size:
            self.device.write(self.place(place), as_bytes(array))
            self.finish()

    def flat(self, place: exe.Location, dtype: DType) -> Array:
        return self.program.host.flat(place, dtype, self.env, self._arenas)

    def hosted_arguments(self, number: int, step: exe.CallKernel) -> list[Any]:
        """Return the arguments of a kernel that runs on the host.

        They are built once, unless they depend on sizes that are found during the run.
        """
        values = self._host_values.get(number)
        if values is None:
            values = super().hosted_arguments(number, step)
            if not self._late[number]:
                self._host_values[number] = values
        self._finish_copies()
        return values

    def commands(self, calls: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> Launch:
        """Return a function that queues all steps for each set of inputs and outputs. They become one command if the
        device can record all of them and the host has nothing to do between them.

        This call copies the inputs from the host. The returned function does not copy them again, and copies no results
        to the host.
        """
        self.device.enter()
        memories = []
        for inputs, outputs in calls:
            memories.append(self._chosen(inputs, outputs))
            self._copy_in(memories[-1], inputs, outputs)
        self.device.finish()

        def queue() -> None:
            for self._memory in memories:
                self.run_parts(self.one_by_one)

        at_once = self._stretches == [range(len(self.program.executable.steps))]
        return (self.device.recorded(queue) if at_once else None) or queue

    # -- copies at the edges

    def _copy_in(self, memory: _Memory, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for at in memory.fetched:
            self._fetch(at, memory, inputs, outputs)

    def _fetch(
        self, at: exe.Input | exe.Output, memory: _Memory, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Copy to the device an input that is not used in place, or an output whose old elements are needed.

        If possible, the host writes the data itself, which is faster than a command of the device.
        """
        spec: exe.TensorSpec
        if isinstance(at, exe.Input):
            about, array, place = self._specs[at.index], inputs[at.index], memory.inputs[at.index]
            assert about is not None and place is not None
            spec, shape = about
        else:
            spec, array, place = self.program.executable.outputs[at.index], outputs[at.index], memory.outputs[at.index]
            shape = tuple(self.output_shapes[at.index])
        if isinstance(array, DeviceArray):
            self.device.copy(place, Place(array.buffer), array.nbytes)
        elif at in self._room_of_host:
            self._room_of_host[at][:] = as_bytes(array_at(array, spec.dtype, shape))
        else:
            self.device.write(place, as_bytes(array_at(array, spec.dtype, shape)))

    def _copy_out(self, memory: _Memory, outputs: Sequence[Any]) -> None:
        """Copy all results of a run to the host in one go, after every step has succeeded."""
        self.device.finish()
        queued = False
        for k in memory.returned:
            spec, place, array = self.program.executable.outputs[k], memory.outputs[k], outputs[k]
            shape = tuple(self.output_shapes[k])
            if exe.Output(k) in self._room_of_host and not isinstance(array, DeviceArray):
                as_bytes(array_at(array, spec.dtype, shape))[:] = self._room_of_host[exe.Output(k)]
                continue
            queued = True
            if isinstance(array, DeviceArray):
                self.device.copy(Place(array.buffer), place, array.nbytes)
            else:
                self.device.read(as_bytes(array_at(array, spec.dtype, shape)), place)
        if queued:
            self.device.finish()


def _each(numbers: range) -> list[Part]:
    """Return each step of a range without loops as a separate part."""
    return [Single(number) for number in numbers]


def _nothing() -> None:
    """Do nothing. This is the launch of a kernel that has no threads to run."""


def _is_own(step: Any) -> bool:
    """Return whether a launch uses only memory that belongs to the program."""
    return isinstance(step, exe.CallKernel) and not any(isinstance(a, exe.Input | exe.Output) for a in step.args)


def _depends(step: Any, later: set[Any]) -> bool:
    """Return whether a launch depends on sizes that are not known when the program is bound."""
    if not isinstance(step, exe.CallKernel):
        return False
    parts: list[Any] = [*step.grid]
    for a in step.args:
        parts += [a.offset] if isinstance(a, exe.ArenaSlice) else [a]
    return any(v in later for part in parts if isinstance(part, Expr) for v in free_vars(part))
