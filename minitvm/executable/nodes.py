"""The executable, which every target compiles to.

It is plain data: constants, arenas, kernels, a list of steps.

    executable ::= inputs, outputs, states, constants, arenas, kernels, guard*, bound*, step*
    step       ::= CallKernel | Barrier | Copy | CallExternal | BindSize | Loop
    argument   ::= location | number | Expr                          numbers and Exprs are scalars
    location   ::= Input(i) | Output(i) | State(i) | ConstantRef(i) | ArenaSlice(arena, offset, nbytes)

**Meaning.** A team of threads runs the steps in order. A `parallel` kernel call runs on every thread, and each thread
does its share; every other step runs on thread 0 while the other threads continue with the next step. `Barrier` waits
for all threads. So two steps that touch the same bytes, one of them writing, need a barrier between them unless both
run on thread 0. `CallExternal`, `BindSize` and the end of the program are barriers too; so are the start of a `Loop`,
the end of each of its iterations, and its end.

A `Loop` repeats the steps that follow it; its field `steps` is their number. So a program is one list of steps, and
each loop is a range of this list.

A *state* is memory that outlives a run: it keeps its contents from run to run. Before the first run, it holds its first
value, which is a constant or zero. The runtime module that runs the executable owns this memory.

*Two memories.* Inputs, outputs and states are in the memory of the executable's machine. Arenas are too, except those
that name another `target`. A kernel of such a target works on arenas of that target and on constants; each machine has
a copy of the constants that its kernels read. A `Copy` may go from one memory to the other.

Sizes, offsets and scalar arguments may be expressions over the symbolic dimensions, `expr.Var`s whose values are
determined in each call by an input's shape (or by a scalar input), or in the middle of a run by a step `BindSize`, from
a number that earlier steps computed. The steps after it may use the variable, and so may the shapes of outputs. Memory
is allocated for the largest value that the variable may have (`largest`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..expr import DType, Expr, Var, free_vars

Dim: TypeAlias = int | Expr
BUFFER, SCALAR = "buffer", "scalar"
PYTHON = "python"  # the engine of the Python function that a step's attribute "function" names


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output of the program. It is dense and row-major.

    `inout` marks an output whose old contents the program also reads. `room` is the number of bytes after an output
    that a run may overwrite; such an output begins at a multiple of 64.
    """

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    inout: bool = False
    room: int = 0


@dataclass(frozen=True, slots=True)
class StateSpec(TensorSpec):
    """A state of the program, whose shape is constant. Before the first run, its contents are those of constant number
    `first`, or zeros if `first` is None.
    """

    first: int | None = None


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar that the caller passes in. Expressions in the executable refer to it by the variable `var`."""

    name: str
    dtype: DType
    var: Var


@dataclass(frozen=True, slots=True)
class KernelParam:
    """A parameter of a kernel: a buffer (`access` is "r", "w" or "rw") or a scalar (`access` is "r")."""

    name: str
    dtype: DType
    role: str = BUFFER
    access: str = "r"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel.

    `source` is text in `language`, which the back end of the executable's target writes and reads. `script` is the
    kernel-level TVMScript. `func()` returns the kernel-level PrimFunc for the interpreter; it is opaque here and is not
    serialised. `shared_bytes` is the number of bytes that a launch gives each block for storage of scope "shared.dyn".
    `target` is the target of the machine that runs the kernel, if it differs from the executable's (see
    `runtime.hosted`). `refusal` is the reason why the kernel does not run on the machine that the network was compiled
    for, or "" if it does. `tasks` is the number of iterations that the threads share, or 0 if it depends on a symbolic
    size.
    """

    name: str
    language: str
    source: str
    entry: str
    params: tuple[KernelParam, ...]
    script: str = ""
    func: Callable[[], Any] | None = None
    shared_bytes: int = 0
    target: str = ""
    refusal: str = ""
    tasks: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A weight: a C-contiguous array of the dtype `dtype` and the shape `shape`. It is never written to."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Resident:
    """A value in an arena. It occupies `nbytes` bytes from `offset` on, and is in use from step `first` to step
    `last`.
    """

    name: str
    offset: Dim
    nbytes: Dim
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Scratch memory of `size` bytes at a multiple of `alignment`. It is uninitialised at the start of each run.

    `residents` lists the values in the arena for human readers; steps refer to byte ranges. `target` is the target
    whose memory holds the arena, if it differs from the executable's.
    """

    name: str
    size: Dim
    alignment: int = 64
    residents: tuple[Resident, ...] = field(default=(), compare=False)
    target: str = ""


@dataclass(frozen=True, slots=True)
class Input:
    """A location: all of input tensor `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Output:
    """A location: all of output tensor `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class State:
    """A location: all of state `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class ConstantRef:
    """A location: all of constant `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class ArenaSlice:
    """A location: `nbytes` bytes of arena number `arena`, starting at byte `offset`."""

    arena: int
    offset: Dim
    nbytes: Dim


Location: TypeAlias = Input | Output | State | ConstantRef | ArenaSlice
Argument: TypeAlias = Location | int | float | Expr


@dataclass(frozen=True, slots=True)
class CallKernel:
    """A step that runs kernel number `kernel` with one argument per parameter. `operator` names its operator for human
    readers.

    `grid` is for kernels of machines with a grid: the numbers of blocks along x, y and z, followed by the numbers of
    threads in a block along x, y and z. It is empty for other kernels.
    """

    kernel: int
    args: tuple[Argument, ...]
    parallel: bool = True
    operator: str = field(default="", compare=False)
    grid: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Barrier:
    """A step at which all threads wait until every one of them has arrived."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A step in which thread 0 copies `nbytes` bytes. The two locations do not overlap, but may be in different
    memories.
    """

    dst: Location
    src: Location
    nbytes: Dim
    operator: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CallExternal:
    """A step that calls the registered engine `engine`. `access` says "r", "w" or "rw" for each argument, as for a
    kernel.

    `specs` gives the dtype and shape of each location, so that the engine gets arrays. `attrs` are options of the
    engine. If they contain a "region", the name of a part of the network, the step computes this part, and the other
    attributes describe it (`engines.regions`).
    """

    engine: str
    args: tuple[Argument, ...]
    access: tuple[str, ...]
    specs: tuple[TensorSpec | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        """The name of the region that the engine computes, or of the engine if it computes no region."""
        name: str = self.attrs.get("region", self.engine)
        return name


@dataclass(frozen=True, slots=True)
class BindSize:
    """A step that sets `var` to the int64 at `place`. If it is not between 0 and `most`, the run ends with an error.

    The following steps may use `var`. `where` names the operator that needs the size, for the error. If the step has a
    `reason`, this text is the error message instead, with the two numbers filled in for {found} and {most}.
    """

    var: Var
    place: Location
    most: Dim
    where: str = field(default="", compare=False)
    operator: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeat the next `steps` steps. `number`, an int64 that thread 0 writes, counts the finished iterations.

        number = 0
        while number < limit and going:     # the int64 at `limit`, the bool at `going`; without `going` it is true
            the next `steps` steps
            number = number + 1

    The run ends with an error if `number` is `most` and the loop would continue; `where` names the operator, for the
    error. Steps of the body may write `going`. A body may contain loops that end inside of it. A size that the body
    binds has a value until the end of the iteration.
    """

    steps: int
    number: Location
    limit: Location
    going: Location | None = None
    most: Dim | None = None
    where: str = field(default="", compare=False)
    operator: str = field(default="", compare=False)


Step: TypeAlias = CallKernel | Barrier | Copy | CallExternal | BindSize | Loop


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that must hold before a run: `left` and `right` are equal. `where` names the operator that needs it.

    If the guard contains sizes that are bound during the run, it is checked as soon as all of them are bound. For a
    condition, `left` is a bool and `right` is 1 or 0: the condition must hold, or must not hold.
    """

    left: Dim
    right: Dim
    where: str = field(default="", compare=False)

    def sizes(self) -> set[Var]:
        """Return the variables in the guard."""
        return {v for side in (self.left, self.right) if isinstance(side, Expr) for v in free_vars(side)}


@dataclass(frozen=True, slots=True)
class Bound:
    """A condition that must hold before a run: every element of an input or state is between `low` and `high`,
    inclusive.

    The ends may be expressions over the sizes of inputs. `where` names the operator that needs the bound.
    """

    place: Input | State
    low: Dim
    high: Dim
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Executable:
    """A compiled program.

    `target` is text that `Target` can read; its first word is the kind. `calling` is the order of the arguments of a
    tir function, including its outputs; if it is empty, the inputs come first, followed by the outputs. `model_nodes`
    maps the names of operators to the model's own names for the nodes that they compute, for human readers.
    """

    name: str
    target: str
    inputs: tuple[TensorSpec | ScalarSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[Constant, ...]
    arenas: tuple[Arena, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    calling: tuple[Input | Output, ...] = ()
    guards: tuple[Guard, ...] = ()
    states: tuple[StateSpec, ...] = ()
    bounds: tuple[Bound, ...] = ()
    model_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        from .printer import script

        return script(self)

    @property
    def calling_order(self) -> tuple[Input | Output, ...]:
        if self.calling:
            return self.calling
        return (*(Input(i) for i in range(len(self.inputs))), *(Output(i) for i in range(len(self.outputs))))


def beginning(executable: Executable, state: StateSpec) -> np.ndarray[Any, Any]:
    """Return a new array with the contents of a state before the first run."""
    shape = tuple(dim for dim in state.shape if isinstance(dim, int))
    return np.zeros(shape, state.dtype.numpy) if state.first is None else executable.constants[state.first].data.copy()
