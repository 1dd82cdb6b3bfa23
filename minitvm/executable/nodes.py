"""Level 5, the executable, which every target compiles to.

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

A *state* is memory that outlives a run: it is zero before the first run, and then keeps its contents from run to run.
The runtime module that runs the executable owns this memory.

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


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input, output or state of the program: row-major and dense.

    `inout` (outputs): the program also reads its old contents.
    """

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    inout: bool = False


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar that the caller passes in; expressions of the executable use it as the variable `var`."""

    name: str
    dtype: DType
    var: Var


@dataclass(frozen=True, slots=True)
class KernelParam:
    """One parameter: a buffer (`access` is "r", "w" or "rw") or a scalar (access "r")."""

    name: str
    dtype: DType
    role: str = BUFFER
    access: str = "r"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel.

    `source` is text in `language`, which the back end of the executable's target writes and reads. `script` is the
    kernel-level TVMScript. `func()` is the kernel-level PrimFunc for the interpreter: opaque here, and not serialised.
    `shared_bytes` is the number of bytes that a launch gives each block for storage of scope "shared.dyn". `target` is
    the target of the machine that runs the kernel, if it is not the executable's (see `runtime.hosted`). `refusal` is
    the reason why the kernel does not run on the machine that the network was compiled for; "" if it does. `tasks` is
    the number of iterations that threads share; 0 if it depends on a symbolic size.
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
    """A weight: a C-contiguous array with the given dtype and shape, which is never written."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Resident:
    """A value in an arena: `nbytes` bytes from byte `offset`, in use from step `first` to step `last`."""

    name: str
    offset: Dim
    nbytes: Dim
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Scratch memory of `size` bytes at an address that is a multiple of `alignment`; uninitialised at the start of
    each run.

    `residents` lists the values in the arena for people to read; steps refer to bytes. `target` is the target in whose
    memory the arena is, if that is not the executable's.
    """

    name: str
    size: Dim
    alignment: int = 64
    residents: tuple[Resident, ...] = field(default=(), compare=False)
    target: str = ""


@dataclass(frozen=True, slots=True)
class Input:
    """The whole of input tensor `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Output:
    """The whole of output tensor `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class State:
    """The whole of state `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class ConstantRef:
    """The whole of constant `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class ArenaSlice:
    """`nbytes` bytes from byte `offset` of arena `arena`."""

    arena: int
    offset: Dim
    nbytes: Dim


Location: TypeAlias = Input | Output | State | ConstantRef | ArenaSlice
Argument: TypeAlias = Location | int | float | Expr


@dataclass(frozen=True, slots=True)
class CallKernel:
    """Run kernel number `kernel` with one argument per parameter. `operator` is the operator it belongs to, for people.

    `grid` is for kernels of machines with a grid: the numbers of blocks along x, y and z, then the numbers of threads
    of a block along x, y and z. For other kernels it is empty.
    """

    kernel: int
    args: tuple[Argument, ...]
    parallel: bool = True
    operator: str = field(default="", compare=False)
    grid: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Barrier:
    """No thread continues until all threads have reached this step."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Thread 0 copies `nbytes` bytes. The two places do not overlap, and may be in different memories."""

    dst: Location
    src: Location
    nbytes: Dim
    operator: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CallExternal:
    """Call the registered engine `engine` with the arguments; `access` has "r", "w" or "rw" for each, like a kernel.

    `specs` gives the dtype and shape of each location, so that the engine gets arrays. `attrs` are options of the
    engine.
    """

    engine: str
    args: tuple[Argument, ...]
    access: tuple[str, ...]
    specs: tuple[TensorSpec | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BindSize:
    """Set `var` to the int64 at `place`. If it is not between 0 and `most`, the run ends with an error.

    The steps after this one may use `var`. `where` names the operator that needs it, for the error. If the step has a
    `reason`, the error says this text instead, with the two numbers in place of {found} and {most}.
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
    """A run is refused before its first step unless `left` and `right` are equal; `where` names the operator that needs
    this.

    If the guard contains sizes that are bound during the run, it is checked as soon as all of them are bound. For a
    condition, `left` is a bool and `right` is 1 or 0: the condition must hold, or must not hold.
    """

    left: Dim
    right: Dim
    where: str = field(default="", compare=False)

    def sizes(self) -> set[Var]:
        """The variables in the guard."""
        return {v for side in (self.left, self.right) if isinstance(side, Expr) for v in free_vars(side)}


@dataclass(frozen=True, slots=True)
class Bound:
    """A run is refused before its first step unless every element of an input or state is from `low` to `high`.

    Both ends are allowed values, and may be expressions over the sizes of inputs. `where` names the operator that needs
    it.
    """

    place: Input | State
    low: Dim
    high: Dim
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Executable:
    """A compiled program.

    `target` is text that `Target` can read; its first word is the kind. `calling` is the order of the arguments of a
    tir function, including its outputs; if it is empty, the inputs come first and then the outputs. The shapes of
    `states` are constant. `model_nodes` maps names of operators to the model's names of the nodes that they compute,
    for people.
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
    states: tuple[TensorSpec, ...] = ()
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
