"""The loop over an executable's steps that all machines share.

`BoundSteps` runs steps, repeats loops, binds sizes, calls engines and the kernels of other machines, and notifies
listeners. A machine adds its kernels and its kind of memory: memory of the host, where a place is an address
(`machines.cpu`), or memory of a device, which the host reads and writes by copies (`device.bound`).

A machine may run several steps as one command: a table of native steps, or a recorded graph. Such a `Stretch` has the
same effect as its steps one by one, and saves the time between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from .. import executable as exe
from ..errors import TargetError
from ..events import Listener, heard
from ..events import Step as Event
from ..executable.alignment import aligned_array
from ..expr import DType
from .argument_reader import ArgumentReader, ExpectedArray
from .externals import EngineCall
from .shapes import Bindings, SizeChecks, beyond_bound, rooms

Array = np.ndarray[Any, Any]
Hook = Callable[[int], None]  # called with the number of a step


@dataclass(frozen=True, slots=True)
class Stretch:
    """A group of steps that the machine runs as one command. `keeps` must live as long as the command."""

    run: Callable[[], None]
    keeps: Any = None


@dataclass(frozen=True, slots=True)
class Single:
    """A single step, given by its number. For a loop, `inside` holds the parts of its body."""

    number: int
    inside: tuple[Part, ...] = ()


Part: TypeAlias = "Stretch | Single"


def singles(steps: Sequence[exe.Step], first: int = 0, last: int | None = None) -> list[Single]:
    """Return the steps from `first` up to but not including `last`, each as a separate part."""
    parts, at = list[Single](), first
    while at < (len(steps) if last is None else last):
        step, number = steps[at], at
        at += 1 + (step.steps if isinstance(step, exe.Loop) else 0)
        parts.append(Single(number, tuple(singles(steps, number + 1, at))))
    return parts


class BoundSteps:
    """A program for one set of dimensions. `env` holds their values, and `output_shapes` the resulting shapes.

    If the shape of an output depends on data, its entry in `output_shapes` has one dimension: the largest number of
    elements that it can have. A run stores the sizes that it found in `env`. `new_outputs` holds a function for each
    output, which returns a new array in host memory.

    A program with a `device` (`device.device.Device`) also accepts `device.arrays.DeviceArray`s instead of addresses;
    its `pool` creates them. A program that also has `run_stamped(inputs, outputs)` can be profiled: this method runs
    like `run` and returns `time_evaluator.StampedRun.times`.

    A machine overrides the methods in the first part of the class. Only the methods that the program's steps need are
    called.
    """

    def __init__(self, program: Any, env: Bindings) -> None:
        self.program, self.env = program, env
        self.executable: exe.Executable = program.executable
        self.output_shapes = rooms(self.executable, env)
        outputs = zip(self.output_shapes, self.executable.outputs, strict=True)
        self.new_outputs = [
            partial(aligned_array, shape, spec.dtype.numpy, spec.room)
            if spec.room
            else partial(np.empty, shape, spec.dtype.numpy)
            for shape, spec in outputs
        ]
        self._checks = SizeChecks(self.executable)

    # -- methods for a machine's kernels and memory

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Run all steps, using `run_parts` or `run_heard`. Returns when the outputs have been written.

        `inputs` and `outputs` are the addresses of dense arrays in host memory, in the executable's order. For a scalar
        input the number is ignored, because its value is in `env`. `listeners` are notified of each step. Only one run
        at a time is allowed, so the caller must hold a lock.
        """
        raise NotImplementedError

    def launch(self, number: int, step: exe.CallKernel) -> None:
        """Run a kernel on this machine."""
        raise NotImplementedError

    def copy(self, number: int, step: exe.Copy) -> None:
        """Copy bytes from one location to another."""
        raise NotImplementedError

    def read(self, place: exe.Location, dtype: str) -> Any:
        """Return the number of type `dtype` that earlier steps wrote to a location."""
        raise NotImplementedError

    def write(self, place: exe.Location, number: int) -> None:
        """Write an int64 to a location."""
        raise NotImplementedError

    def array(self, place: exe.Location, spec: exe.TensorSpec) -> Array:
        """Return a tensor as an array in host memory, for an engine."""
        raise NotImplementedError

    def put_back(self, place: exe.Location, array: Array) -> None:
        """Copy `array`, which an engine wrote, back to its location, unless the array shares that memory."""

    def flat(self, place: exe.Location, dtype: DType) -> Array:
        """Return a flat host array over the elements of a location, for a kernel of another machine."""
        raise NotImplementedError

    def size_bound(self, number: int) -> None:
        """Hook that is called after step `number` has set its size in `env`."""

    def finish(self) -> None:
        """Wait for all steps that have been started."""

    # -- the run

    def reader(self, arrays: Sequence[ExpectedArray]) -> ArgumentReader:
        """Return a reader for later calls with arrays of these types."""
        return ArgumentReader(self, arrays)

    @cached_property
    def one_by_one(self) -> list[Single]:
        """All steps as separate parts, without stretches."""
        return singles(self.executable.steps)

    def run_parts(self, parts: Sequence[Part], before: Hook | None = None, after: Hook | None = None) -> None:
        """Run parts in order, calling `before` and `after` around each step that is not in a stretch.

        A loop counts as a step before its iterations. Raises `InputError` if a loop would continue beyond its bound.
        """
        for part in parts:
            if isinstance(part, Stretch):
                part.run()
                continue
            number, step = part.number, self.executable.steps[part.number]
            if before is not None:
                before(number)
            self._take(number, step)
            if after is not None:
                after(number)
            if isinstance(step, exe.Loop):
                for _ in self._iterations(number, step):
                    self.run_parts(part.inside, before, after)

    def run_heard(self, listeners: Sequence[Listener]) -> bool:
        """Run step by step and return True if a listener is interested in steps; otherwise run nothing and return
        False.
        """
        begin, end = heard(listeners, "step_begin"), heard(listeners, "step_end")
        if begin is None and end is None:
            return False
        self.run_parts(self.one_by_one, self._told(begin), self._told(end))
        return True

    def _told(self, hear: Callable[[Event, float], None] | None) -> Hook | None:
        if hear is None:
            return None

        def tell(number: int) -> None:
            self.finish()
            hear(self._event(number), time.perf_counter())

        return tell

    def _event(self, number: int) -> Event:
        step: Any = self.executable.steps[number]
        kind = type(step).__name__
        if isinstance(step, exe.CallKernel):
            return Event(number, kind, self.executable.kernels[step.kernel].name)
        return Event(number, kind, getattr(step, "operator", "") or kind.lower())

    def _take(self, number: int, step: exe.Step) -> None:
        if isinstance(step, exe.CallKernel):
            hosted = self.program.hosted.get(step.kernel)
            if hosted is None:
                self.launch(number, step)
            else:
                hosted(self.hosted_arguments(number, step), step.parallel)
        elif isinstance(step, exe.Copy):
            self.copy(number, step)
        elif isinstance(step, exe.BindSize):
            self._checks.bind(step, int(self.read(step.place, "int64")), self.env)
            self.size_bound(number)
        elif isinstance(step, exe.CallExternal):
            self._call_engine(self.program.engine_call(number))
        elif not isinstance(step, exe.Barrier | exe.Loop):  # steps run in order, which is more than a barrier requires
            raise TargetError(f"a step {type(step).__name__}, which no machine takes")

    def hosted_arguments(self, number: int, step: exe.CallKernel) -> list[Any]:  # noqa: ARG002 (a machine may keep them)
        """Return the arguments for a kernel of another machine: flat arrays and numbers."""
        params = self.executable.kernels[step.kernel].params
        return [
            self.flat(a, param.dtype) if isinstance(a, exe.Location) else exe.evaluate(a, self.env)
            for a, param in zip(step.args, params, strict=True)
        ]

    def _iterations(self, number: int, step: exe.Loop) -> Iterator[None]:
        """Yield once for each iteration of a loop. Raises `InputError` if the loop would continue beyond its bound."""
        done = 0
        self.write(step.number, done)
        while done < self.read(step.limit, "int64") and (step.going is None or self.read(step.going, "bool")):
            most = None if step.most is None else int(exe.evaluate(step.most, self.env))
            if most is not None and done >= most:
                raise beyond_bound(self.executable, number, most)
            yield
            done += 1
            self.write(step.number, done)

    def _call_engine(self, call: EngineCall) -> None:
        """Call an engine on arrays in host memory."""
        values: list[Any] = []
        written: list[tuple[exe.Location, Array]] = []
        for a, spec, access in call.args:
            if not isinstance(a, exe.Location):
                values.append(exe.evaluate(a, self.env))
            elif spec is None:
                values.append(None)
            else:
                values.append(self.array(a, spec))
                if "w" in access:
                    written.append((a, values[-1]))
        self.finish()
        call.run(values)
        for place, array in written:
            self.put_back(place, array)
