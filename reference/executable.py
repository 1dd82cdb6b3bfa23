"""Interpret executables: run their steps on byte arenas, and their kernels by `reference.kernel`.

Arenas start uninitialised, and every byte remembers the slice through which it was written. It is an `ExecutionError`
to read bytes that were never written, or that were written through a slice that only partly overlaps with the one that
is read. It is also an error if two steps on different threads access the same bytes without a barrier between them.
External engines are refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.executable import nodes as n

from .kernel import Prepared
from .meaning.scalar import evaluate
from .meaning.settings import Settings
from .meaning.storage import Memory, View, poison, scalar_argument


def run(
    executable: n.Executable,
    inputs: Mapping[str, Any],
    *,
    mode: str = "fast",
    shadow: bool = True,
    threads: int = 1,
    order: str = "forward",
    seed: int = 0,
    listeners: Sequence[events.Listener] = (),
    states: dict[str, np.ndarray] | None = None,
    sizes: dict[x.Var, Any] | None = None,
) -> list[np.ndarray]:
    """Run an executable on arrays by name and return its outputs in order; the inputs are not changed.

    `states` are the program's states by name (a missing one has its first value); the run stores their new values
    there, for the next run. Without `states`, a run begins with the first values, and the new values are lost. The run
    adds to `sizes` the values of all sizes, including those that its steps computed. Outputs marked `inout` are also
    passed by name. Raises `InputError` for arrays that do not fit, `ExecutionError` for undefined behaviour of a kernel
    or of the steps' order, and `Unsupported` for external engines and kernels without a program.
    """
    machine = _Machine(executable, inputs, Settings(shadow, order, seed, listeners, threads), mode, states or {})
    begin, end = events.heard(listeners, "step_begin"), events.heard(listeners, "step_end")
    with np.errstate(all="ignore"):
        for index, step in machine.order():
            record = events.Step(index, type(step).__name__, machine.name(step))
            if begin is not None:
                begin(record, time.perf_counter())
            machine.step(index, step)
            if end is not None:
                end(record, time.perf_counter())
    machine.finish()
    if states is not None:
        states.update(zip((spec.name for spec in executable.states), machine.states, strict=True))
    if sizes is not None:
        sizes.update(machine.values)
    return machine.outputs


def _number(value: int | float | x.Expr, values: Mapping[x.Var, Any]) -> Any:
    if not isinstance(value, x.Expr):
        return value
    unknown = [v.name for v in x.free_vars(value) if v not in values]
    if unknown:
        raise InputError(f"{value} cannot be found: {', '.join(unknown)} has no value")
    return evaluate(value, {v: values[v] for v in x.free_vars(value)})


@dataclass(frozen=True)
class _Place:
    """The bytes [start, stop) of a piece of memory, which `key` identifies."""

    key: tuple[str, int]
    start: int
    stop: int


class _Bytes:
    """A piece of memory as bytes; `writer[k]` is the number of the place that wrote byte k, or 0."""

    def __init__(self, data: np.ndarray, initialised: bool) -> None:
        self.data = data
        self.writer = np.full(data.size, -1 if initialised else 0, np.int32)  # -1: the caller


class _Machine:
    def __init__(
        self,
        executable: n.Executable,
        inputs: Mapping[str, Any],
        settings: Settings,
        mode: str,
        states: Mapping[str, np.ndarray],
    ) -> None:
        self.program, self.settings = executable, settings
        self.kernels = [Prepared(k.func(), settings, mode) if k.func is not None else None for k in executable.kernels]
        self.values: dict[x.Var, Any] = {}
        self.pieces: dict[tuple[str, int], _Bytes] = {}
        self.places: dict[_Place, int] = {}
        self.since_barrier: list[tuple[_Place, bool, bool, int]] = []  # place, writes?, by all threads?, step
        self.outputs_by_number: dict[int, np.ndarray] = {}
        self.bound_by_steps = {step.var for step in executable.steps if isinstance(step, n.BindSize)}
        self.states: list[np.ndarray] = []
        self._bind(inputs)
        self._begin(states)
        self._check_bounds(inputs)

    # --- memory ----------------------------------------------------------------------------------------------------

    def _bind(self, inputs: Mapping[str, Any]) -> None:
        names = [*(s.name for s in self.program.inputs), *(s.name for s in self.program.outputs if s.inout)]
        unknown, missing = set(inputs) - set(names), [name for name in names if name not in inputs]
        if unknown or missing:
            raise InputError(
                f"{self.program.name}: the inputs do not fit\n  wanted: {', '.join(names)}\n"
                f"  found:  {', '.join(inputs)}"
            )
        for spec in self.program.inputs:
            if isinstance(spec, n.ScalarSpec):
                self.values[spec.var] = scalar_argument(spec.var, inputs[spec.name])
            else:
                self._learn(spec, inputs[spec.name])
        for spec in self.program.inputs:
            if isinstance(spec, n.TensorSpec):
                self._divide(spec, inputs[spec.name])
        for index, spec in enumerate(self.program.inputs):
            if isinstance(spec, n.TensorSpec):
                self._check(spec, inputs[spec.name])
                self._piece("input", index, np.array(inputs[spec.name], order="C"), True)
        self._check_guards()
        self._begin_outputs(inputs)
        for index, constant in enumerate(self.program.constants):
            self._piece("constant", index, np.ascontiguousarray(constant.data), True)
        for index, arena in enumerate(self.program.arenas):
            self._piece("arena", index, np.full(self.size(arena.size), 0x7F, np.uint8), False)

    def _begin_outputs(self, inputs: Mapping[str, Any]) -> None:
        """Allocate the outputs, once the sizes in their shapes are known."""
        for index, spec in enumerate(self.program.outputs):
            sizes = {v for d in spec.shape if isinstance(d, x.Expr) for v in x.free_vars(d)}
            if index in self.outputs_by_number or (sizes - self.values.keys()) & self.bound_by_steps:
                continue
            shape = tuple(self.size(d) for d in spec.shape)
            if spec.inout:
                self._check(spec, inputs[spec.name])
                array = np.array(inputs[spec.name], order="C")
            else:
                array = poison(int(np.prod(shape, dtype=np.int64)), spec.dtype).reshape(shape)
            self.outputs_by_number[index] = array
            self._piece("output", index, array, spec.inout)

    @property
    def outputs(self) -> list[np.ndarray]:
        """Return the outputs in order."""
        return [self.outputs_by_number[index] for index in range(len(self.program.outputs))]

    def _check_guards(self) -> None:
        """Raise `InputError` if a guard whose variables are known does not hold."""
        for guard in self.program.guards:
            sides = [guard.left, guard.right]
            sizes = {v for side in sides if isinstance(side, x.Expr) for v in x.free_vars(side)}
            if (sizes - self.values.keys()) & self.bound_by_steps:
                continue
            left, right = map(self.number, sides)
            if left != right:
                is_condition = isinstance(guard.left, x.Expr) and guard.left.dtype.is_bool
                needs = guard.left if is_condition else f"{guard.left} == {guard.right}"
                raise InputError(f"{self.program.name}: {guard.where} needs {needs}\n  found:  {left} and {right}")

    def _begin(self, states: Mapping[str, np.ndarray]) -> None:
        unknown = set(states) - {spec.name for spec in self.program.states}
        if unknown:
            raise InputError(f"{self.program.name} has no state {', '.join(sorted(unknown))}")
        for index, spec in enumerate(self.program.states):
            if spec.name in states:
                self._check(spec, states[spec.name])
                array = np.array(states[spec.name], order="C")
            else:
                array = n.beginning(self.program, spec)
            self.states.append(array)
            self._piece("state", index, array, True)

    def _check_bounds(self, inputs: Mapping[str, Any]) -> None:
        for bound in self.program.bounds:
            if isinstance(bound.place, n.State):
                name, array = self.program.states[bound.place.index].name, self.states[bound.place.index]
            else:
                name = self.program.inputs[bound.place.index].name
                array = np.asarray(inputs[name])
            low, high = self.size(bound.low), self.size(bound.high)
            for element in array.reshape(-1).tolist():
                if not low <= element <= high:
                    raise InputError(
                        f"{self.program.name}: {bound.where}\n  wanted: {name} from {low} to {high}\n"
                        f"  found:  {element}"
                    )

    def _learn(self, spec: n.TensorSpec, array: Any) -> None:
        if not isinstance(array, np.ndarray) or array.dtype != spec.dtype.numpy or array.ndim != len(spec.shape):
            actual = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise InputError(
                f"{spec.name} takes an array of {spec.dtype}[{', '.join(map(str, spec.shape))}], found {actual}"
            )
        for dim, size in zip(spec.shape, array.shape, strict=False):
            if isinstance(dim, x.Var):
                self.values.setdefault(dim, int(size))

    def _divide(self, spec: n.TensorSpec, array: np.ndarray) -> None:
        for dim, size in zip(spec.shape, array.shape, strict=True):
            quotient = x.divided(dim, int(size))
            if quotient is not None:
                self.values.setdefault(*quotient)

    def _check(self, spec: n.TensorSpec, array: Any) -> None:
        self._learn(spec, array)
        shape = tuple(self.size(d) for d in spec.shape)
        if shape != array.shape:
            raise InputError(f"{spec.name}: the shape does not fit\n  wanted: {shape}\n  found:  {array.shape}")

    def _piece(self, kind: str, index: int, array: np.ndarray, initialised: bool) -> None:
        self.pieces[kind, index] = _Bytes(array.reshape(-1).view(np.uint8), initialised)

    def size(self, dim: n.Dim) -> int:
        """Return the value of a size or offset."""
        return int(self.number(dim))

    def number(self, value: int | float | x.Expr) -> Any:
        return _number(value, self.values)

    def place(self, location: n.Location) -> _Place:
        if isinstance(location, n.ArenaSlice):
            start = self.size(location.offset)
            stop, limit = start + self.size(location.nbytes), self.pieces["arena", location.arena].data.size
            if not 0 <= start <= stop <= limit:
                raise ExecutionError(f"{location}: bytes [{start}, {stop}) of an arena of {limit}")
            return _Place(("arena", location.arena), start, stop)
        kinds = {n.Input: "input", n.Output: "output", n.State: "state", n.ConstantRef: "constant"}
        kind = kinds[type(location)]
        return _Place((kind, location.index), 0, self.pieces[kind, location.index].data.size)

    def initialised(self, place: _Place) -> np.ndarray:
        """Return which bytes of a place hold values that were written through this place, a part of it, or a larger
        place.
        """
        writers = self.pieces[place.key].writer[place.start : place.stop]
        written = writers != 0
        by_number = {number: other for other, number in self.places.items()}
        for number in np.unique(writers):
            other = by_number.get(int(number))
            if other is None:
                continue
            within = place.start <= other.start and other.stop <= place.stop
            around = other.start <= place.start and place.stop <= other.stop
            if not within and not around:
                written &= writers != number
        return written

    # --- steps -----------------------------------------------------------------------------------------------------

    def name(self, step: n.Step) -> str:
        """Return the name of a step's kernel or engine, for reports."""
        if isinstance(step, n.CallKernel):
            return self.program.kernels[step.kernel].name
        return step.engine if isinstance(step, n.CallExternal) else type(step).__name__.lower()

    def order(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, n.Step]]:
        """Yield the numbered steps in the order in which they run; a loop comes once, before its iterations."""
        index, steps = first, self.program.steps
        while index < (len(steps) if last is None else last):
            step = steps[index]
            yield index, step
            index += 1
            if isinstance(step, n.Loop):
                while self._goes_on(index - 1, step):
                    yield from self.order(index, index + step.steps)
                    for inner in steps[index : index + step.steps]:
                        if isinstance(inner, n.BindSize):  # such a size has a value until here
                            self.values.pop(inner.var, None)
                    self.since_barrier.clear()
                    self._count(step, self._word(index - 1, step.number) + 1)
                index += step.steps
                self.since_barrier.clear()

    def _goes_on(self, index: int, step: n.Loop) -> bool:
        """Return whether a loop has another iteration; raises `InputError` if it exceeds the maximum."""
        number = self._word(index, step.number)
        if number >= self._word(index, step.limit):
            return False
        if step.going is not None and not self._bytes(index, step.going, 1)[0]:
            return False
        if step.most is not None and number >= self.size(step.most):
            raise InputError(f"{self.program.name}: {step.where}: more than {self.size(step.most)} iterations")
        return True

    def _word(self, index: int, location: n.Location) -> int:
        return int(self._bytes(index, location, 8).view(np.int64)[0])

    def _bytes(self, index: int, location: n.Location, count: int) -> np.ndarray:
        """Return the first `count` bytes of a place that a step itself reads."""
        place = self.place(location)
        if self.settings.shadow and not self.initialised(place)[:count].all():
            raise ExecutionError(f"step {index} reads bytes of {location} that hold no value")
        return self.pieces[place.key].data[place.start : place.start + count]

    def _count(self, step: n.Loop, number: int) -> None:
        place = self.place(step.number)
        piece = self.pieces[place.key]
        piece.data[place.start : place.start + 8] = np.array([number], np.int64).view(np.uint8)
        piece.writer[place.start : place.start + 8] = self.places.setdefault(place, len(self.places) + 1)

    def step(self, index: int, step: n.Step) -> None:
        """Do one step; for a loop, begin it."""
        if isinstance(step, n.Barrier):
            self.since_barrier.clear()
        elif isinstance(step, n.Loop):
            self.since_barrier.clear()
            self._count(step, 0)
        elif isinstance(step, n.CallKernel):
            self._call(index, step)
        elif isinstance(step, n.Copy):
            self._copy(index, step)
        elif isinstance(step, n.BindSize):
            self._bind_size(index, step)
        else:
            raise Unsupported(f"step {index}: the engine {self.name(step)!r} is not minitvm's, and is not interpreted")

    def _touch(self, index: int, place: _Place, writes: bool, by_all: bool) -> None:
        """Raise `ExecutionError` if a step since the last barrier may still access these bytes on another thread."""
        for other, wrote, others_by_all, earlier in self.since_barrier:
            apart = other.key != place.key or other.stop <= place.start or place.stop <= other.start
            if apart or earlier == index or not (wrote or writes) or not (by_all or others_by_all):
                continue
            raise ExecutionError(
                f"no barrier between step {earlier} ({self.name(self.program.steps[earlier])}) and step {index}"
                f" ({self.name(self.program.steps[index])})\n  both touch bytes [{max(place.start, other.start)},"
                f" {min(place.stop, other.stop)}) of {place.key[0]} {place.key[1]}, one of them writing"
            )
        self.since_barrier.append((place, writes, by_all, index))

    def _call(self, index: int, step: n.CallKernel) -> None:
        kernel, prepared = self.program.kernels[step.kernel], self.kernels[step.kernel]
        if prepared is None:
            raise Unsupported(f"kernel {kernel.name} comes without its program: it was loaded from a file")
        args: list[Any] = []
        buffers: list[tuple[_Place, View]] = []
        for param, arg in zip(kernel.params, step.args, strict=False):
            if param.role == n.SCALAR:
                args.append(self.number(arg))  # type: ignore[arg-type]
                continue
            place = self.place(arg)  # type: ignore[arg-type]
            self._touch(index, place, "w" in param.access, step.parallel)
            view = self._view(index, place, param)
            args.append(view)
            buffers.append((place, view))
        try:
            prepared.call(args)
        except ExecutionError as error:
            raise ExecutionError(f"step {index}, {kernel.name}: {error}") from error
        for (place, view), param in zip(buffers, (p for p in kernel.params if p.role == n.BUFFER), strict=False):
            if "w" in param.access:
                self._wrote(place, view)

    def _view(self, index: int, place: _Place, param: n.KernelParam) -> View:
        itemsize = param.dtype.scalar.bytes
        if place.start % itemsize or (place.stop - place.start) % itemsize:
            raise ExecutionError(f"step {index}: {param.name} of {param.dtype} at bytes [{place.start}, {place.stop})")
        data = self.pieces[place.key].data[place.start : place.stop].view(param.dtype.numpy)
        init = None
        if self.settings.shadow:
            # The previous contents of a pure output do not matter: reading them is an error.
            fresh = param.access == "w"
            done = np.zeros(data.size, np.uint8) if fresh else self.initialised(place).reshape(-1, itemsize).all(1)
            init = bytearray(done.astype(np.uint8).tobytes())
        return View(Memory(param.name, data, "global", init), (data.size,), (1,), 0)

    def _wrote(self, place: _Place, view: View) -> None:
        if view.memory.init is None:
            return
        number = self.places.setdefault(place, len(self.places) + 1)
        written = np.repeat(np.frombuffer(view.memory.init, np.bool_), view.data.itemsize)
        self.pieces[place.key].writer[place.start : place.stop][written] = number

    def _copy(self, index: int, step: n.Copy) -> None:
        count, source, target = self.size(step.nbytes), self.place(step.src), self.place(step.dst)
        if count > min(source.stop - source.start, target.stop - target.start):
            raise ExecutionError(f"step {index}: a copy of {count} bytes from {step.src} to {step.dst}")
        source = _Place(source.key, source.start, source.start + count)
        target = _Place(target.key, target.start, target.start + count)
        self._touch(index, source, False, False)
        self._touch(index, target, True, False)
        if self.settings.shadow and not self.initialised(source).all():
            raise ExecutionError(f"step {index}: a copy of bytes of {step.src} that hold no value")
        moved = self.pieces[source.key].data[source.start : source.stop]
        self.pieces[target.key].data[target.start : target.stop] = moved
        number = self.places.setdefault(target, len(self.places) + 1)
        self.pieces[target.key].writer[target.start : target.stop] = number

    def _bind_size(self, index: int, step: n.BindSize) -> None:
        value = self._word(index, step.place)
        most = self.size(step.most)
        if not 0 <= value <= most and step.reason:
            raise InputError(f"{self.program.name}: {step.where}: {step.reason.format(found=value, most=most)}")
        if not 0 <= value <= most:
            raise InputError(f"{self.program.name}: {step.where}: {step.var.name} is {value}; wanted 0 to {most}")
        self.values[step.var] = value
        self.since_barrier.clear()
        self._check_guards()
        self._begin_outputs({})

    def finish(self) -> None:
        """Raise an error for outputs that are not complete."""
        if not self.settings.shadow:
            return
        for index, spec in enumerate(self.program.outputs):
            missing = self.pieces["output", index].writer == 0
            if missing.any():
                first = int(np.argmax(missing)) // spec.dtype.bytes
                raise ExecutionError(f"output {spec.name} is incomplete: element {first} was never written")
