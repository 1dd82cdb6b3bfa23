"""An executable that is ready to run on this CPU: its kernels are loaded, and its steps are the executor's table.

`CpuProgram` holds the parts that do not depend on shapes, `BoundProgram` the others. A bound program runs repeatedly
without allocation: a call writes the addresses of its inputs and outputs into the argument table and starts the team.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .... import executable as exe
from ....errors import verification_asked
from ....events import Listener
from ....executable.alignment import ALIGNMENT, address, aligned, array_at
from ....executable.evaluation import Evaluation, Number, function_of
from ....expr import DType, Expr, Var, free_vars
from ....free_memory import out_of_memory
from ....runtime.argument_reader import ArgumentReader, ExpectedArray
from ....runtime.hosted import hosted, room
from ....runtime.program import Program
from ....runtime.shapes import Bindings, beyond_bound, require_room, shape_of
from ....runtime.states import first_values
from ....runtime.steps import Array, BoundSteps, Part, Stretch
from ....runtime.words import scalar_word
from .compiled_for import isa_of
from .executor import BARRIER, COPY, PARALLEL, SEQUENTIAL, executor
from .huge_pages import Room, move_to_huge_pages
from .native_reader import NativeReader, arrays_are_readable
from .segments import BEYOND, DECISION, GOING, LANGUAGE, LIMIT, LOOP_WORDS, MOST, NUMBER, OVER, segments
from .stamps import StampedProgram
from .step_table import NativeStep, StepTable, step_table
from .team import ThreadTeam, default_threads, shared_team

if TYPE_CHECKING:
    from ....runtime.program import Progress

_READ: dict[str, Any] = {"int64": ctypes.c_int64, "bool": ctypes.c_bool}


class LoadedCode(Protocol):
    """A kernel that can be called at its address for as long as this object lives."""

    @property
    def address(self) -> int: ...


class CpuProgram(Program):
    """An executable whose kernels are compiled and loaded. Only one run at a time is allowed, so the owner must hold a
    lock.
    """

    def __init__(
        self,
        executable: exe.Executable,
        threads: int | None = None,
        *,
        workers: int | None = None,
        progress: Progress | None = None,
        team: ThreadTeam | None = None,
        kernels: Sequence[LoadedCode | None] | None = None,
    ) -> None:
        """Load the program. `kernels` holds machine code for its kernels, in order, with None for each that must be
        compiled.
        """
        super().__init__(executable)
        self.hosted = {n: hosted(k, LANGUAGE) for n, k in enumerate(executable.kernels) if k.language != LANGUAGE}
        own = [number for number, kernel in enumerate(executable.kernels) if kernel.language == LANGUAGE]
        held = [code for number in own if kernels is not None and (code := kernels[number]) is not None]
        ready = held if len(held) == len(own) else load_kernels(executable, workers, progress)
        self.kernels = dict(zip(own, ready, strict=True))
        self.team = team or shared_team(default_threads() if threads is None else threads)
        self.threads = self.team.threads
        self.constants = [aligned(c.data) for c in executable.constants]
        self.constant_places = [address(array) for array in self.constants]
        self.states = first_values(executable)
        move_to_huge_pages(self.constants)  # not the states: memory that no run has written to takes no pages
        # Shared by programs bound to different shapes, only one of which runs at a time; they only grow.
        self._arenas = [Room(max(a.alignment, ALIGNMENT), isinstance(a.size, int)) for a in executable.arenas]

    def room(self, index: int) -> int:
        """Return the number of bytes that arena `index` has so far."""
        return self._arenas[index].memory.nbytes

    def arena(self, index: int, size: int) -> np.ndarray[Any, Any]:
        """Return at least `size` bytes for arena `index`. If it moves, the programs bound to it are dropped."""
        room = self._arenas[index]
        try:
            if room.grow(size):
                self._bound.clear()
        except (MemoryError, OSError, ValueError):
            raise out_of_memory(self.executable.name, "intermediate results", size) from None
        return room.memory

    def bound_to(self, env: Bindings) -> BoundProgram:
        """Return a new bound program for the dimensions `env`. `bind` calls this."""
        return BoundProgram(self, env)


def load_kernels(executable: exe.Executable, workers: int | None, progress: Progress | None) -> Sequence[LoadedCode]:
    """Return an executable's loaded CPU kernels, in order. Kernels that are not in the cache are compiled."""
    from . import kernel_cache
    from .compile_pool import compile_kernels
    from .loader import load_kernel

    jobs = [(k.source, k.entry, isa_of(k, executable)) for k in executable.kernels if k.language == LANGUAGE]
    codes = kernel_cache.compiled(jobs, lambda absent: compile_kernels(absent, workers, progress))
    return [load_kernel(code, entry) for code, (_, entry, _) in zip(codes, jobs, strict=True)]


class BoundProgram(BoundSteps):
    """The step table and argument table for one choice of dimensions."""

    program: CpuProgram

    def __init__(self, program: CpuProgram, env: Bindings) -> None:
        x = program.executable
        if verification_asked():
            from ....executable import verify

            verify(x, env)
        super().__init__(program, env)
        self._evaluated = Evaluation(env)  # for the tables that are made here; no size that a step binds is in it
        sizes = [int(self._evaluated(a.size)) for a in x.arenas]
        require_room(x, env, [max(0, size - program.room(i)) for i, size in enumerate(sizes)])
        self._arenas = [program.arena(i, size) for i, size in enumerate(sizes)]
        self._places = [address(arena) for arena in self._arenas]
        # The first words are the addresses of this call's inputs and outputs.
        self._slots: dict[exe.Input | exe.Output, list[int]] = {
            place: [at] for at, place in enumerate(_arguments_of(x))
        }
        self._words = [0] * len(self._slots)
        # Words that depend on sizes which steps bind, by the last of these steps; all sizes that the words of a step
        # depend on, and their values when the words were made.
        self._binders = {step.var: number for number, step in enumerate(x.steps) if isinstance(step, exe.BindSize)}
        self._later: dict[int, list[tuple[int, Callable[[Bindings], Number], str]]] = {
            number: [] for number in self._binders.values()
        }
        self._needed: dict[int, list[Var]] = {number: [] for number in self._later}
        self._made_for: dict[int, list[Number]] = {}
        starts = [self._lay_out(step) for step in x.steps]
        table = np.array(self._words or [0], np.int64)
        self._table, self.table_place = table, address(table)
        self._args = table.data
        self._starts = starts
        self._parts = self.parts()
        self._run_all = self._command()
        self._alone: dict[int, Stretch] = {}  # each step that was run by itself
        self._stamped: StampedProgram | None = None

    # -- the argument table

    def _lay_out(self, step: Any) -> int:
        """Append a step's arguments to the argument table, and return the position of the first."""
        start = len(self._words)
        x = self.program.executable
        if isinstance(step, exe.CallKernel) and step.kernel not in self.program.hosted:
            params = x.kernels[step.kernel].params
            for a, p in zip(step.args, params, strict=True):
                self._words.append(self._word(a, p.dtype))
        elif isinstance(step, exe.Copy):
            self._words.append(self._word(step.dst, "handle"))
            self._words.append(self._word(step.src, "handle"))
            self._words.append(self._word(step.nbytes, "int64"))
        elif isinstance(step, exe.Loop):
            self._words += [0] * LOOP_WORDS
            places = {NUMBER: step.number, LIMIT: step.limit, GOING: step.going}
            for word, place in places.items():
                if place is not None:
                    self._set(start + word, place, "handle")
            self._set(start + MOST, -1 if step.most is None else step.most, "int64")
        return start

    def _word(self, a: exe.Argument, dtype: str) -> int:
        """Return the word for an argument at the end of the table; see `_value`."""
        return self._value(len(self._words), a, dtype)

    def _set(self, at: int, a: exe.Argument, dtype: str) -> None:
        """Set a word in the middle of the table."""
        self._words[at] = self._value(at, a, dtype)

    def _value(self, at: int, a: exe.Argument, dtype: str) -> int:
        """Return the word number `at` for an argument. Inputs and outputs are recorded, because each call fills them
        in.
        """
        if isinstance(a, exe.Input | exe.Output):
            self._slots[a].append(at)
            return 0
        if isinstance(a, exe.Location):
            return self._address(a)
        if not self._binders or not isinstance(a, Expr):
            return scalar_word(self._evaluated(a), dtype)
        late = [v for v in free_vars(a) if v in self._binders]
        if late:
            number = max(self._binders[v] for v in late)
            self._later[number].append((at, function_of(a), dtype))
            self._needed[number] += (v for v in late if v not in self._needed[number])
            return 0
        return scalar_word(self._evaluated(a), dtype)

    def _address(self, place: exe.Location) -> int:
        """Return the address of a location in this call."""
        if isinstance(place, exe.Input | exe.Output):
            return int(self._args[self._slots[place][0]])
        if isinstance(place, exe.ConstantRef):
            return self.program.constant_places[place.index]
        if isinstance(place, exe.State):
            return address(self.program.states[place.index])
        return self._places[place.arena] + int(self._evaluated(place.offset))

    # -- the step table

    def _native_step(self, number: int) -> NativeStep:
        step: Any = self.program.executable.steps[number]
        if isinstance(step, exe.Barrier):
            return (BARRIER, 0, 0, 0)
        args = self._arguments(number)
        if isinstance(step, exe.Copy):
            return (COPY, 0, args, 0)
        code = self.program.kernels[step.kernel].address
        if not step.parallel:
            return (SEQUENTIAL, code, args, 0)
        return (PARALLEL, code, args, self.program.executable.kernels[step.kernel].tasks)

    def _arguments(self, number: int) -> int:
        """Return the address of a step's arguments."""
        return self.table_place + 8 * self._starts[number]

    def parts(self, stamp: Callable[[int], NativeStep] | None = None) -> list[Part]:
        """Return tables of native steps and the steps between them that Python runs, with stamps as in
        `segments.segments`.
        """
        x, threads = self.executable, self.program.threads
        return segments(x, threads, self._native_step, self._arguments, self._stretch, stamp)

    def _stretch(self, table: StepTable, bounded: Sequence[int]) -> Stretch:
        """Return a table as one command of the team. `bounded` holds the numbers of its loops that have a bound."""
        run = self.program.team.command(table)
        if bounded:
            words = [(number, self._starts[number]) for number in bounded]
            run = partial(_run_bounded, run, self.executable, self._args, words)
        return Stretch(run, table)

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Run with the addresses of the input tensors (any number for scalars) and of the output tensors.

        The caller must hold the module's lock, because each run uses this object's argument table. With a listener for
        steps, the program runs step by step.
        """
        self._point_to(inputs, outputs)
        self.run_pointed(listeners)

    def run_pointed(self, listeners: Sequence[Listener]) -> None:
        """Run with the addresses that are in the argument table."""
        if listeners and self.run_heard(listeners):
            return
        self._run_all()

    def _command(self) -> Callable[[], None]:
        """Return all parts as one function. Most programs have only one part."""
        match self._parts:
            case [Stretch(run=run)]:
                return run
        return partial(self.run_parts, self._parts)

    def reader(self, arrays: Sequence[ExpectedArray]) -> ArgumentReader:
        if not arrays_are_readable():
            return super().reader(arrays)
        return NativeReader(self, arrays, executor()[1].address)

    def slots(self, place: exe.Input | exe.Output) -> Sequence[int]:
        """Return the words of the argument table that hold the address of an input or output."""
        return self._slots[place]

    def run_stamped(self, inputs: Sequence[int], outputs: Sequence[int]) -> np.ndarray[Any, Any]:
        """Run as `run` does, and return when each thread reached each step: see `stamps.StampedProgram`."""
        if self._stamped is None:
            self._stamped = StampedProgram(self)
        self._point_to(inputs, outputs)
        return self._stamped.run(self)

    def _point_to(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Put the addresses of this call into the argument table."""
        for slots, place in zip(self._slots.values(), (*inputs, *outputs), strict=True):
            for slot in slots:
                self._args[slot] = place

    # -- single steps

    def launch(self, number: int, step: exe.CallKernel | exe.Copy) -> None:  # noqa: ARG002 (its table says what it is)
        """Run one native step, with a separate table."""
        alone = self._alone.get(number)
        if alone is None:
            table = step_table([self._native_step(number)], self.program.threads)
            alone = self._alone[number] = Stretch(self.program.team.command(table), table)
        alone.run()

    copy = launch

    def read(self, place: exe.Location, dtype: str) -> Any:
        return _READ[dtype].from_address(self._address(place)).value

    def write(self, place: exe.Location, number: int) -> None:
        ctypes.c_int64.from_address(self._address(place)).value = number

    def array(self, place: exe.Location, spec: exe.TensorSpec) -> Array:
        return array_at(self._address(place), spec.dtype, shape_of(spec, self.env))

    def flat(self, place: exe.Location, dtype: DType) -> Array:
        return array_at(self._address(place), dtype, (room(self.executable, place, self.env) // dtype.bytes,))

    def size_bound(self, number: int) -> None:
        """Fill in the arguments that depend on a size, unless the sizes are the same as in the last run."""
        later = self._later[number]
        if not later:
            return
        sizes = [self.env[var] for var in self._needed[number]]
        if sizes == self._made_for.get(number):
            return
        for slot, value, dtype in later:
            self._args[slot] = scalar_word(value(self.env), dtype)
        self._made_for[number] = sizes


def _arguments_of(x: exe.Executable) -> Iterator[exe.Input | exe.Output]:
    yield from map(exe.Input, range(len(x.inputs)))
    yield from map(exe.Output, range(len(x.outputs)))


def _run_bounded(run: Callable[[], None], x: exe.Executable, args: Any, loops: Sequence[tuple[int, int]]) -> None:
    """Run a table. Raises `InputError` if one of its loops ended because it would have continued beyond its bound.

    `loops` holds the numbers of its loops, each with the position of its words in the argument table.
    """
    run()
    for number, start in loops:
        if args[start + DECISION] == BEYOND:
            args[start + DECISION] = OVER
            raise beyond_bound(x, number, args[start + MOST])
