"""`GraphModule`: a compiled model. You can call it directly, or use TVM's `set_input`, `run`, `get_output`."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterator, Sequence
from threading import current_thread
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import doors
from ..errors import InputError
from ..events import Listener
from ..executable import Executable, Input, Output, ScalarSpec, TensorSpec
from ..executable.alignment import aligned_array
from ..executable.memory_report import MemoryPlan, data_sizes, memory_plan
from ..expr.largest import depends
from ..forks import recursive_lock
from ..free_memory import out_of_memory
from .argument_reader import ArgumentReader, ExpectedArray, remember
from .arguments import Array, checked_array, checked_scalar, contiguous, destination, disjoint, listing, named
from .device.arrays import DeviceArray, argument, resident
from .program import Progress, called_again, open_program, stamped_times
from .shapes import SizeChecks, bind_dims, check_fixed_dims, shape_function, shapes_of, spec_text
from .states import States, check_bounds, memory_of
from .steps import BoundSteps
from .time_evaluator import StampedRun
from .tvm_methods import TvmMethods

if TYPE_CHECKING:
    from .artifact.sign import Key


class GraphModule(TvmMethods):
    """A compiled model, ready to run on this machine.

    `module(x, y)` or `module(name=x)` returns the output array, or a tuple of them if there are several. Outputs are
    new arrays, which later calls do not change; with `out=`, the call writes into your arrays. Inputs must have the
    dtype that the model declares; an input that is not contiguous is copied. Calls from several Python threads run one
    after the other.

    Arrays on the module's device, from any library, are used there without a copy (through DLPack). `out="device"`
    leaves the outputs on the device, as `DeviceArray`s. An array on another device raises an error.

    `state` holds the values that a run leaves for the next run, by name: `module.state["k0"]` reads a state, an
    assignment sets it, and `module.reset()` gives all states their first values again. Modules never share states, even
    if they come from the same executable.

    `listeners` (see `events`) are notified of each step; the program then runs step by step.
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
        self._what = executable.name
        self._program = open_program(executable, threads, workers, progress, kernels, device)
        self._device = getattr(self._program, "device", None)
        self._lock = recursive_lock()
        self.state = States(executable, memory_of(executable, self._program), self._lock)
        self._inputs = executable.inputs
        self._names = [s.name for s in self._inputs]
        self._output_dtypes = [s.dtype.numpy for s in executable.outputs]
        self._has_rooms = any(s.room for s in executable.outputs)
        self._simple = all(isinstance(s, TensorSpec) for s in self._inputs)
        tensors = [s for s in self._inputs if isinstance(s, TensorSpec)]
        self._has_one_size = self._simple and all(isinstance(d, int) for s in tensors for d in s.shape)
        self._known: dict[Any, ArgumentReader] = {}  # for calls with the same sizes as an earlier one
        self._sizes = data_sizes(executable)
        self._late_shapes = {
            number: shape_function(spec)
            for number, spec in enumerate(executable.outputs)
            if any(depends(dim, self._sizes) for dim in spec.shape)
        }
        self._checks = SizeChecks(executable)
        self._set: dict[str, Any] = {}
        self._results: list[Array] = []

    @property
    def threads(self) -> int:
        return self._program.threads

    @property
    def num_inputs(self) -> int:
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        return len(self._output_dtypes)

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self._names)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.executable.outputs)

    @property
    def memory(self) -> MemoryPlan:
        """The place and lifetime (in steps) of each intermediate value. `memory.peak` is the memory that a run
        needs.
        """
        return memory_plan(self.executable)

    def __repr__(self) -> str:
        return f"GraphModule({self._what}: {listing(self._inputs)} -> {listing(self.executable.outputs)})"

    def reset(self) -> None:
        """Give all states their first values again: zeros, unless the model sets another value."""
        self.state.reset()

    def share_states(self, other: GraphModule) -> None:
        """Use the states of another module from now on: what a run of one leaves, a run of the other reads.

        So a program for many tokens and a program for one can have the same caches, without copies. Raises `InputError`
        unless both have states of the same names and types, and `Unsupported` on a GPU.
        """
        if not isinstance(other, GraphModule):
            raise InputError(f"share_states: wanted another module, found {type(other).__name__}")
        first, second = sorted((self._lock, other._lock), key=id)  # so two threads cannot wait for each other
        with first, second:
            self._program.use_states(self.state.memory_in(other.state))
            self.state.share(other.state)
            self._known.clear()
            self._lock = other._lock

    def export(
        self, path: str | os.PathLike[str], *, key: Key | None = None, architectures: Sequence[str] = ()
    ) -> None:
        """Write this module to a single file that `minitvm.runtime.load` can run; see `artifact.export`."""
        from .artifact.export import export

        export(self, path, key, architectures)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the module as its artifact and its states; see `artifact.pickled`."""
        from .artifact.pickled import pickled

        return pickled(self)

    # -- TVM's methods

    def set_input(self, name: str | int | None = None, value: Any = None, /, **inputs: Any) -> None:
        """Store a copy of an input for the next `run`, by name or position: `set_input("x", x)` or `set_input(x=x)`.

        An array on the module's device is stored without a copy.
        """
        if name is not None:
            if isinstance(name, int | np.integer):
                if not 0 <= name < len(self._names):
                    raise InputError(f"{self._what}: input {name} of {len(self._names)}")
                name = self._names[name]
            inputs = {name: value, **inputs}
        with self._lock:
            trial = {**self._set, **inputs}
            placed = dict.fromkeys(self._names)
            named(self._what, self._inputs, {**placed, **trial})
            checked: dict[str, Any] = {}  # either all of them are valid, or none is set
            for spec in self._inputs:
                if spec.name not in inputs:
                    continue
                if isinstance(spec, ScalarSpec):
                    checked[spec.name] = checked_scalar(self._what, spec, inputs[spec.name])
                    continue
                array = self._checked(spec, inputs[spec.name])
                check_fixed_dims(self._what, spec, array.shape)
                checked[spec.name] = np.array(array, order="C") if isinstance(array, np.ndarray) else array
            self._set.update(checked)

    def run(self, **inputs: Any) -> None:
        """Run with the stored inputs. Inputs that you pass here are stored first."""
        with self._lock:
            if inputs:
                self.set_input(**inputs)
            self._results = self._call(named(self._what, self._inputs, self._set), None)

    def get_output(self, index: int = 0) -> Array:
        """Return output `index` of the last call of `run`. Raises `InputError` if there was no run, or no such
        output.
        """
        if not self._results and self.num_outputs:
            raise InputError(f"{self._what}: get_output before run")
        if not isinstance(index, int | np.integer) or not 0 <= index < self.num_outputs:
            raise InputError(f"{self._what}: output {index} of {self.num_outputs}")
        return self._results[index]

    def __getitem__(self, name: str) -> Any:
        """Return the entry called `name`: "main" takes inputs and returns outputs, and "run" uses the stored inputs."""
        return self.run if name == "run" else super().__getitem__(name)

    # -- the plain call

    def __call__(self, *args: Any, out: Any = None, **inputs: Any) -> Any:
        values = self._in_order(args, inputs) if inputs or len(args) != len(self._names) else args
        results = self._call(values, out)
        return results[0] if len(results) == 1 else tuple(results)

    def _in_order(self, args: tuple[Any, ...], inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the values of a call in the order of the inputs."""
        if not args and len(inputs) == len(self._names):
            try:
                return tuple([inputs[name] for name in self._names])
            except KeyError:  # an unknown name, which is reported below
                pass
        if args:
            if len(args) + len(inputs) > len(self._names):
                raise InputError(
                    f"{self._what}: {len(args) + len(inputs)} inputs given; wanted {listing(self._inputs)}"
                )
            for name in self._names[: len(args)]:
                if name in inputs:
                    raise InputError(f"{self._what}: {name} is given twice, by position and by name")
        if inputs or len(args) != len(self._names):
            return tuple(named(self._what, self._inputs, {**dict(zip(self._names, args, strict=False)), **inputs}))
        return args

    def _call(self, values: Sequence[Any], out: Any) -> list[Array]:
        arrays: Sequence[Any] = values if self._device is None else self._on_device(values)
        program = self._program
        with self._lock:
            if program.running is current_thread():
                raise called_again(self._what)
            reader = self._known.get(() if self._has_one_size else shapes_of(arrays))
            if reader is not None:
                bound = reader.bound
                in_place = out is not None and not _is_device(out)
                results = self._out_arrays(out) if in_place else self._new_outputs(bound, out)
                try:
                    program.running = current_thread()
                    if results is not None and reader.read((*arrays, *results), in_place):
                        if self.executable.bounds:
                            check_bounds(self.executable, arrays, program.states, bound.env)
                        reader.run(self.listeners)
                        return self._shaped(results, bound) if self._late_shapes else results
                finally:
                    program.running = None
            arrays, bound = self._prepare(arrays)
            if self.executable.bounds:
                check_bounds(self.executable, arrays, program.states, bound.env)
            results = self._destinations(bound, out, arrays)
            written = results if out is None or not self._has_rooms else self._with_room(results)
            try:
                program.running = current_thread()
                bound.run(list(map(argument, arrays)), list(map(argument, written)), self.listeners)
            finally:
                program.running = None
            return self._shaped(results if written is results else _copied(written, results), bound)

    # -- timing

    def profile(self, *args: Any, runs: int = 20, **inputs: Any) -> Any:
        """Run repeatedly on these inputs, measure each operator, and return a `minitvm.tools.profile.Profile`.

        The profile has one row per operator, with seconds, operations, bytes, and the share of the machine's peak. The
        program runs as in a plain call, with a time stamp between its steps.
        """
        profile = importlib.import_module(doors.PROFILE).profile
        return profile(self, *args, runs=runs, **inputs)

    def stamped(self, *args: Any, out: Any = None, **inputs: Any) -> StampedRun:
        """Run once with time stamps. Returns the outputs, and the times at which each thread reached each step."""
        with self._lock:
            if self._program.running is current_thread():
                raise called_again(self._what)
            arrays, bound = self._prepare(self._in_order(args, inputs))
            if self.executable.bounds:
                check_bounds(self.executable, arrays, self._program.states, bound.env)
            results = self._destinations(bound, out, arrays)
            written = results if out is None or not self._has_rooms else self._with_room(results)
            addresses, places = list(map(argument, arrays)), list(map(argument, written))
            try:
                self._program.running = current_thread()
                times = stamped_times(bound, self.executable.target, addresses, places)
            finally:
                self._program.running = None
            results = results if written is results else _copied(written, results)
            return StampedRun(self._shaped(results, bound), times, bound.env)

    # -- steps of every call

    def _prepare(self, values: Sequence[Any]) -> tuple[list[Any], BoundSteps]:
        """Check all inputs, work out the symbolic dimensions, and return the inputs and the program for these
        dimensions.
        """
        arrays: list[Any] = []
        tensors, scalars = [], []
        for spec, value in zip(self._inputs, values, strict=True):
            if isinstance(spec, ScalarSpec):
                arrays.append(checked_scalar(self._what, spec, value))
                scalars.append((spec, arrays[-1]))
            else:
                arrays.append(self._checked(spec, value))
                tensors.append((spec, arrays[-1].shape))
        env = bind_dims(self._what, tensors, scalars)
        self._checks.before_run(env)
        shapes = tuple(shape for _, shape in tensors)
        bound = self._program.bind((shapes, tuple(n for _, n in scalars)), env)
        if self._simple:
            key = () if self._has_one_size else shapes
            remember(self._known, key, bound, self._expected(shapes, bound))
        return arrays, bound

    def _with_room(self, results: list[Any]) -> list[Any]:
        """Return the caller's arrays for the outputs, with new arrays for those outputs that need room after them."""
        return [
            aligned_array(result.shape, result.dtype, spec.room) if spec.room else result
            for spec, result in zip(self.executable.outputs, results, strict=True)
        ]

    def _expected(self, shapes: Sequence[tuple[int, ...]], bound: BoundSteps) -> Iterator[ExpectedArray]:
        """Yield the inputs, of these shapes, and the outputs."""
        for number, (spec, shape) in enumerate(zip(self._inputs, shapes, strict=True)):
            yield ExpectedArray(Input(number), spec.dtype, shape)
        for number, (spec, shape) in enumerate(zip(self.executable.outputs, bound.output_shapes, strict=True)):
            yield ExpectedArray(Output(number), spec.dtype, shape)

    def _too_large(self, bound: BoundSteps) -> InputError:
        """Return the error for outputs that do not fit in this machine's memory."""
        rooms = list(zip(self.executable.outputs, bound.output_shapes, strict=True))
        nbytes = sum(math.prod(shape) * spec.dtype.bytes for spec, shape in rooms)
        return out_of_memory(self._what, listing([spec for spec, _ in rooms]), nbytes)

    def _shaped(self, results: list[Array], bound: BoundSteps) -> list[Array]:
        """Return the outputs of a run, after giving outputs with data-dependent shapes their final shapes."""
        shaped = list(results)
        for number, shape_in in self._late_shapes.items():
            array, shape = results[number], shape_in(bound.env)
            if isinstance(array, np.ndarray):
                shaped[number] = array[: math.prod(shape)].reshape(shape)
            else:
                shaped[number] = array.beginning(shape)
        return shaped

    def _on_device(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of a call, with other libraries' arrays on the device wrapped as `DeviceArray`s."""
        return [
            value
            if type(value) is DeviceArray or type(value) is np.ndarray or isinstance(spec, ScalarSpec)
            else resident(self._what, spec, value, self._device) or value
            for spec, value in zip(self._inputs, values, strict=True)
        ]

    def _checked(self, spec: TensorSpec, value: Any) -> Any:
        """Check an input and return it as a NumPy array, or as an array on the module's device."""
        array = resident(self._what, spec, value, self._device)
        return contiguous(checked_array(self._what, spec, value)) if array is None else array

    def to_device(self, array: Any) -> Any:
        """Copy a host array to the module's device, to use it as an input. On the CPU, return the array itself."""
        if self._device is None:
            return array
        array, pool = np.asarray(array), self._program.pool  # type: ignore[attr-defined]
        with self._lock:
            return pool.filled(self._device, array)

    def _new_outputs(self, bound: BoundSteps, out: Any) -> list[Any]:
        """Return new arrays for the outputs: on the host if `out` is None, and otherwise on the device."""
        results: list[Any] = []
        try:
            if self._device is None:
                for new_output in bound.new_outputs:  # a comprehension or `map` takes longer
                    results.append(new_output())
                return results
            if out is None:
                return list(map(aligned_array, bound.output_shapes, self._output_dtypes))
        except (MemoryError, OSError, ValueError):
            raise self._too_large(bound) from None
        pool = self._program.pool  # type: ignore[attr-defined]
        outputs = zip(self.executable.outputs, bound.output_shapes, strict=True)
        return [pool.array(self._device, spec.dtype, shape, f"output {spec.name}") for spec, shape in outputs]

    def _out_arrays(self, out: Any) -> list[Any] | None:
        """Return the caller's arrays for the outputs, or None if a run cannot simply write them."""
        arrays = list(out) if isinstance(out, list | tuple) else [out]
        is_other = self._late_shapes or self._has_rooms or len(arrays) != self.num_outputs
        return None if is_other else arrays

    def _destinations(self, bound: BoundSteps, out: Any, arrays: Sequence[Any]) -> list[Any]:
        specs = self.executable.outputs
        if out is None or _is_device(out):
            return self._new_outputs(bound, out)
        for spec in specs:
            if any(depends(dim, self._sizes) for dim in spec.shape):
                raise InputError(
                    f"{self._what}: out= takes arrays of the outputs' shapes, and data decide that of {spec_text(spec)}"
                )
        if not isinstance(out, np.ndarray | DeviceArray | list | tuple) and not hasattr(out, "__dlpack__"):
            raise InputError(f"{self._what}: out is a {type(out).__name__}; wanted arrays: {listing(specs)}")
        arrays_out = out if isinstance(out, list | tuple) else [out]
        if len(arrays_out) != len(specs):
            raise InputError(f"{self._what}: out has {len(arrays_out)} arrays; wanted {listing(specs)}")
        results = [
            destination(self._what, s, a, shape, self._device)
            for s, a, shape in zip(specs, arrays_out, bound.output_shapes, strict=True)
        ]
        inputs = [(s.name, a) for s, a in zip(self._inputs, arrays, strict=True) if hasattr(a, "nbytes")]
        disjoint(self._what, list(zip(self.output_names, results, strict=True)), inputs)
        return results


def _copied(written: Sequence[Any], results: list[Any]) -> list[Any]:
    """Copy the arrays that a run wrote to the caller's arrays, and return these."""
    for array, result in zip(written, results, strict=True):
        if array is not result:
            result[...] = array
    return results


def _is_device(out: Any) -> bool:
    return isinstance(out, str) and out == "device"
