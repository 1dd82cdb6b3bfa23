"""An executable prepared for this CPU: kernels are loaded, memory is laid out, steps become the executor's table.

`CpuProgram` holds the parts that do not depend on shapes, `BoundProgram` the others. A bound program runs repeatedly
without allocation: a call writes the addresses of its inputs and outputs into the argument table and starts the team.
"""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ....errors import verification_asked
from ....events import Listener, Step, heard
from ....executable import (
    ArenaSlice,
    Argument,
    Barrier,
    BindSize,
    CallExternal,
    CallKernel,
    ConstantRef,
    Copy,
    Executable,
    Input,
    Location,
    Loop,
    Output,
    State,
    evaluate,
)
from ....executable.alignment import ALIGNMENT, address, aligned, array_at
from ....executable.evaluation import Evaluation, Number, function_of
from ....expr import DType, Expr, Var, free_vars
from ....free_memory import out_of_memory
from ....runtime import externals
from ....runtime.hosted import hosted, room
from ....runtime.shapes import Bindings, SizeChecks, beyond_bound, require_room, rooms, shape_of
from ....runtime.states import zeros_of
from ....runtime.words import scalar_word
from .executor import BARRIER, COPY, PARALLEL, SEQUENTIAL
from .huge_pages import Room, move_to_huge_pages
from .segments import (
    BEYOND,
    DECISION,
    GOING,
    LANGUAGE,
    LIMIT,
    LOOP_WORDS,
    MOST,
    NUMBER,
    OVER,
    Alone,
    Repeated,
    Segment,
    Table,
    segments,
)
from .stamps import StampedProgram
from .step_table import NativeStep
from .team import ThreadTeam, default_threads, shared_team

if TYPE_CHECKING:
    from ....runtime.program import Progress

BOUND_LIMIT = 16  # shapes whose tables and arenas are kept; the least recently used go first


class LoadedCode(Protocol):
    """A kernel that can be called at its address for as long as this object lives."""

    @property
    def address(self) -> int: ...


class CpuProgram:
    """An executable whose kernels are compiled and loaded. One run at a time: the owner of the program holds a lock."""

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,
        *,
        workers: int | None = None,
        progress: Progress | None = None,
        team: ThreadTeam | None = None,
        kernels: Sequence[LoadedCode | None] | None = None,
    ) -> None:
        """`kernels` brings code for the executable's kernels, in order, None for each that is to be compiled."""
        self.executable = executable
        self.hosted = {n: hosted(k, LANGUAGE) for n, k in enumerate(executable.kernels) if k.language != LANGUAGE}
        own = [number for number, kernel in enumerate(executable.kernels) if kernel.language == LANGUAGE]
        held = [code for number in own if kernels is not None and (code := kernels[number]) is not None]
        ready = held if len(held) == len(own) else load_kernels(executable, workers, progress)
        self.kernels = dict(zip(own, ready, strict=True))
        self.team = team or shared_team(default_threads() if threads is None else threads)
        self.constants = [aligned(c.data) for c in executable.constants]
        self.constant_places = [address(array) for array in self.constants]
        self.states = [zeros_of(spec) for spec in executable.states]
        move_to_huge_pages([*self.constants, *self.states])
        # Shared by programs bound to different shapes, only one of which runs at a time; they only grow.
        self._arenas = [Room(max(a.alignment, ALIGNMENT), isinstance(a.size, int)) for a in executable.arenas]
        self._bound: OrderedDict[Any, BoundProgram] = OrderedDict()

    @property
    def threads(self) -> int:
        """The size of the thread team."""
        return self.team.threads

    def room(self, index: int) -> int:
        """The bytes that arena `index` has so far."""
        return self._arenas[index].memory.nbytes

    def arena(self, index: int, size: int) -> np.ndarray[Any, Any]:
        """At least `size` bytes for arena `index`; if a smaller one moves, the programs bound to it are dropped."""
        room = self._arenas[index]
        try:
            if room.grow(size):
                self._bound.clear()
        except (MemoryError, OSError, ValueError):
            raise out_of_memory(self.executable.name, "intermediate results", size) from None
        return room.memory

    def bind(self, key: Any, env: Bindings) -> BoundProgram:
        """The program at the dimensions `env`; `key` identifies them (the input shapes)."""
        earlier = self._bound.get(key)
        if earlier is not None:
            self._bound.move_to_end(key)
            return earlier
        bound = self._bound[key] = BoundProgram(self, env)
        if len(self._bound) > BOUND_LIMIT:
            self._bound.popitem(last=False)
        return bound

    def holds(self, bound: BoundProgram) -> bool:
        """Whether `bound` is still among those kept."""
        return any(b is bound for b in self._bound.values())


def load_kernels(executable: Executable, workers: int | None, progress: Progress | None) -> Sequence[LoadedCode]:
    """An executable's kernels for CPUs in order, compiled if they are not in the cache, and loaded."""
    from . import kernel_cache
    from .compile_pool import compile_kernels
    from .loader import load_kernel

    jobs = [(k.source, k.entry) for k in executable.kernels if k.language == LANGUAGE]
    codes = kernel_cache.compiled(jobs, lambda absent: compile_kernels(absent, workers, progress))
    return [load_kernel(code, entry) for code, (_, entry) in zip(codes, jobs, strict=True)]


class BoundProgram:
    """The tables for one choice of dimensions."""

    def __init__(self, program: CpuProgram, env: Bindings) -> None:
        x = program.executable
        self.program = program
        self.env = env
        if verification_asked():
            from ....executable import verify

            verify(x, env)
        self.output_shapes = rooms(x, env)
        self._evaluated = Evaluation(env)  # for the tables that are made here; no size that a step binds is in it
        sizes = [int(self._evaluated(a.size)) for a in x.arenas]
        require_room(x, env, [max(0, size - program.room(i)) for i, size in enumerate(sizes)])
        self._arenas = [program.arena(i, size) for i, size in enumerate(sizes)]
        self._places = [address(arena) for arena in self._arenas]
        self._input_slots: list[list[int]] = [[] for _ in x.inputs]
        self._output_slots: list[list[int]] = [[] for _ in x.outputs]
        self._words: list[int] = []
        # Words that depend on sizes which steps bind, by the last of these steps; all sizes that the words of a step
        # depend on, and their values when the words were made.
        self._binders = {step.var: number for number, step in enumerate(x.steps) if isinstance(step, BindSize)}
        self._later: dict[int, list[tuple[int, Callable[[Bindings], Number], str]]] = {
            number: [] for number in self._binders.values()
        }
        self._needed: dict[int, list[Var]] = {number: [] for number in self._later}
        self._made_for: dict[int, list[Number]] = {}
        self._checks = SizeChecks(x)
        starts = [self._lay_out(step) for step in x.steps]
        table = np.array(self._words or [0], np.int64)
        self._table, self._table_place = table, address(table)
        self._args = table.data
        self._starts = starts
        self._segments = self.segments()
        self._single: list[Segment] | None = None  # each step by itself, for listeners
        self._stamped: StampedProgram | None = None

    # -- the argument table

    def _lay_out(self, step: Any) -> int:
        """Append a step's arguments; returns the place of the first."""
        start = len(self._words)
        x = self.program.executable
        if isinstance(step, CallKernel):
            params = x.kernels[step.kernel].params
            for a, p in zip(step.args, params, strict=True):
                self._words.append(self._word(a, p.dtype))
        elif isinstance(step, Copy):
            self._words.append(self._word(step.dst, "handle"))
            self._words.append(self._word(step.src, "handle"))
            self._words.append(self._word(step.nbytes, "int64"))
        elif isinstance(step, BindSize):
            self._words.append(self._word(step.place, "handle"))
        elif isinstance(step, Loop):
            self._words += [0] * LOOP_WORDS
            places = {NUMBER: step.number, LIMIT: step.limit, GOING: step.going}
            for word, place in places.items():
                if place is not None:
                    self._set(start + word, place, "handle")
            self._set(start + MOST, -1 if step.most is None else step.most, "int64")
        elif isinstance(step, CallExternal):
            for a in step.args:
                self._words.append(self._word(a, "handle") if isinstance(a, Location) else 0)
        return start

    def _word(self, a: Argument, dtype: str) -> int:
        """The word of an argument at the end of the table: see `_value`."""
        return self._value(len(self._words), a, dtype)

    def _set(self, at: int, a: Argument, dtype: str) -> None:
        """Set a word in the middle of the table."""
        self._words[at] = self._value(at, a, dtype)

    def _value(self, at: int, a: Argument, dtype: str) -> int:
        """The word `at` of an argument; inputs and outputs are recorded, since each call fills them in."""
        if isinstance(a, Input):
            self._input_slots[a.index].append(at)
            return 0
        if isinstance(a, Output):
            self._output_slots[a.index].append(at)
            return 0
        if isinstance(a, ConstantRef):
            return self.program.constant_places[a.index]
        if isinstance(a, State):
            return address(self.program.states[a.index])
        if isinstance(a, ArenaSlice):
            return self._places[a.arena] + int(self._evaluated(a.offset))
        if not self._binders or not isinstance(a, Expr):
            return scalar_word(self._evaluated(a), dtype)
        late = [v for v in free_vars(a) if v in self._binders]
        if late:
            number = max(self._binders[v] for v in late)
            self._later[number].append((at, function_of(a), dtype))
            self._needed[number] += (v for v in late if v not in self._needed[number])
            return 0
        return scalar_word(self._evaluated(a), dtype)

    # -- the step table

    def _native_step(self, number: int) -> NativeStep:
        step: Any = self.program.executable.steps[number]
        if isinstance(step, Barrier):
            return (BARRIER, 0, 0, 0)
        args = self._arguments(number)
        if isinstance(step, Copy):
            return (COPY, 0, args, 0)
        code = self.program.kernels[step.kernel].address
        if not step.parallel:
            return (SEQUENTIAL, code, args, 0)
        return (PARALLEL, code, args, self.program.executable.kernels[step.kernel].tasks)

    def _arguments(self, number: int) -> int:
        """The address of a step's arguments."""
        return self._table_place + 8 * self._starts[number]

    def segments(self, stamp: Callable[[int], NativeStep] | None = None) -> list[Segment]:
        """Tables of native steps, and the steps between them that Python takes, with stamps as `segments.segments`."""
        program = self.program
        return segments(program.executable, program.threads, self._native_step, self._arguments, stamp)

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Run with the addresses of the input tensors (anything for scalars) and of the output tensors.

        The caller holds the module's lock: the argument table is this object's own. A listener of steps has the program
        run step by step.
        """
        self._point_to(inputs, outputs)
        begin, end = (heard(listeners, "step_begin"), heard(listeners, "step_end")) if listeners else (None, None)
        if begin is not None or end is not None:
            self._run_stepwise(begin, end)
            return
        self.run_segments(self._segments)

    def run_segments(self, parts: Sequence[Segment], stamp: Callable[[int], None] | None = None) -> None:
        """Run segments in order; `stamp(i)` is called before each step i that Python takes."""
        team_run = self.program.team.run
        for part in parts:
            if isinstance(part, Table):
                team_run(part.native.address, part.native.parallel)
                if part.bounded:
                    self._check_bounds(part.bounded)
                continue
            if stamp is not None:
                stamp(part.number)
            if isinstance(part, Repeated):
                for _ in self._iterations(part.number):
                    self.run_segments(part.inside, stamp)
            else:
                self.run_alone(part.number)

    def _iterations(self, number: int) -> Iterator[None]:
        """One item for each iteration of a loop that Python repeats."""
        start = self._starts[number]
        args = self._args
        done, limit = (array_at(args[start + word], DType("int64"), (1,)) for word in (NUMBER, LIMIT))
        going = array_at(args[start + GOING], DType("bool"), (1,)) if args[start + GOING] else None
        done[0] = 0
        while done[0] < limit[0] and (going is None or going[0]):
            if 0 <= args[start + MOST] <= done[0]:
                raise beyond_bound(self.program.executable, number, args[start + MOST])
            yield
            done[0] += 1

    def _check_bounds(self, loops: Sequence[int]) -> None:
        """Raises `InputError` if a loop of a table ended because it would have gone on beyond its bound."""
        for number in loops:
            start = self._starts[number]
            if self._args[start + DECISION] == BEYOND:
                self._args[start + DECISION] = OVER
                raise beyond_bound(self.program.executable, number, self._args[start + MOST])

    def run_stamped(self, inputs: Sequence[int], outputs: Sequence[int]) -> np.ndarray[Any, Any]:
        """Run as `run` does, and return when each thread reached each step: see `stamps.StampedProgram`."""
        if self._stamped is None:
            self._stamped = StampedProgram(self)
        self._point_to(inputs, outputs)
        return self._stamped.run(self)

    def _point_to(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Put the addresses of this call into the argument table."""
        args = self._args
        for slots, place in zip(self._input_slots, inputs, strict=True):
            for slot in slots:
                args[slot] = place
        for slots, place in zip(self._output_slots, outputs, strict=True):
            for slot in slots:
                args[slot] = place

    def _run_stepwise(self, begin: Any, end: Any) -> None:
        x = self.program.executable
        if self._single is None:
            self._single = [self._alone(number) for number in range(len(x.steps))]
        self._run_range(0, len(x.steps), begin, end)

    def _run_range(self, first: int, last: int, begin: Any, end: Any) -> None:
        """Run steps one by one; the listeners hear of a loop in front of its iterations."""
        x = self.program.executable
        index = first
        while index < last:
            step = x.steps[index]
            event = Step(
                index, _kind(step), x.kernels[step.kernel].name if isinstance(step, CallKernel) else _kind(step)
            )
            if begin is not None:
                begin(event, time.perf_counter())
            if not isinstance(step, Loop):
                assert self._single is not None
                self.run_segments(self._single[index : index + 1])
            if end is not None:
                end(event, time.perf_counter())
            index += 1
            if isinstance(step, Loop):
                for _ in self._iterations(index - 1):
                    self._run_range(index, index + step.steps, begin, end)
                index += step.steps

    def _alone(self, number: int) -> Segment:
        """One step by itself; a loop is taken by `_run_range`."""
        x = self.program.executable
        if isinstance(x.steps[number], Loop):
            return Repeated(number, ())
        only = replace(x, steps=x.steps[number : number + 1])
        (segment,) = segments(
            only, self.program.threads, lambda _: self._native_step(number), lambda _: self._arguments(number)
        )
        return segment if isinstance(segment, Table) else Alone(number)

    def run_alone(self, number: int) -> None:
        """Take a step that Python takes."""
        step: Any = self.program.executable.steps[number]
        start = self._starts[number]
        if isinstance(step, BindSize):
            self._bind_size(number, step, self._args[start])
        elif isinstance(step, CallKernel):
            self._run_hosted(step, start)
        else:
            self._run_external(step, start)

    def _run_hosted(self, step: CallKernel, start: int) -> None:
        """Run a kernel of another machine."""
        x = self.program.executable
        values: list[Any] = []
        for i, (a, param) in enumerate(zip(step.args, x.kernels[step.kernel].params, strict=True)):
            if isinstance(a, Location):
                count = room(x, a, self.env) // param.dtype.bytes
                values.append(array_at(self._args[start + i], param.dtype, (count,)))
            else:
                values.append(evaluate(a, self.env))
        self.program.hosted[step.kernel](values, step.parallel)

    def _bind_size(self, number: int, step: BindSize, place: int) -> None:
        """Read a size, and fill in the arguments that follow from it, unless the sizes are those of the last run."""
        self._checks.bind(step, ctypes.c_int64.from_address(place).value, self.env)
        later = self._later[number]
        if not later:
            return
        sizes = [self.env[var] for var in self._needed[number]]
        if sizes == self._made_for.get(number):
            return
        for slot, value, dtype in later:
            self._args[slot] = scalar_word(value(self.env), dtype)
        self._made_for[number] = sizes

    def _run_external(self, step: Any, start: int) -> None:
        """Call the engine of a step."""
        values: list[Any] = []
        for i, (a, spec) in enumerate(zip(step.args, step.specs, strict=False)):
            if isinstance(a, Location) and spec is not None:
                values.append(array_at(self._args[start + i], spec.dtype, shape_of(spec, self.env)))
            else:
                values.append(None if isinstance(a, Location) else evaluate(a, self.env))
        externals.engine(step.engine)(values, step.attrs)


_KINDS = {
    BindSize: "bind_size", CallKernel: "kernel", Barrier: "barrier", Copy: "copy", CallExternal: "external",
    Loop: "loop",
}  # fmt: skip


def _kind(step: Any) -> str:
    return _KINDS[type(step)]
