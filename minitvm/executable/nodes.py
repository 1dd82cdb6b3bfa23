"""Level 5, the executable: what every target compiles to. Plain data: constants, arenas, kernels and a list of steps.

    executable ::= inputs, outputs, states, constants, arenas, kernels, guard*, bound*, step*
    step       ::= CallKernel | Barrier | Copy | CallExternal | BindSize | Loop
    argument   ::= location | number | Expr                          numbers and Exprs are scalars
    location   ::= Input(i) | Output(i) | State(i) | ConstantRef(i) | ArenaSlice(arena, offset, nbytes)

**Meaning.** A team of threads runs the steps in order. A `parallel` kernel call runs on every thread, each doing its
share; every other step runs on thread 0 while the other threads continue with the next step. `Barrier` waits for all
threads. So two steps that touch the same bytes, one of them writing, need a barrier between them unless both run on
thread 0. `CallExternal`, `BindSize`, and the end of the program, are barriers too; so are the begin of a `Loop`, the
end of each of its iterations, and its end.

A `Loop` repeats the steps behind it, so many as it says: a program is one list of steps, and loops are ranges of it.

A *state* is memory that outlives a run: zeros before the first one, then what the run before left. Whoever runs the
executable owns that memory; each module has its own.

*Two memories.* Inputs, outputs and states lie in the memory of the executable's machine, and so do arenas, but for
those that name another `target`. A kernel of such a target works on arenas of its own and on constants, which each
machine has where its kernels read them. A `Copy` may go from one memory to the other.

Sizes, offsets and scalar arguments may be expressions over the symbolic dimensions, `expr.Var`s whose values are
determined in each call by an input's shape (or by a scalar input), or in the middle of a run by a step `BindSize`: a
number that the steps before computed. What stands behind that step may use the variable, and so may the shapes of
outputs. Memory is for the largest value that it may have (`largest`).
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
    """A tensor at the border of the program: row-major and dense. `inout` (outputs): its old contents are read too."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    inout: bool = False


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar that the caller passes in; `var` is its value in the executable's expressions."""

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
    """A compiled unit. `source` is text in `language`, which the back end of the executable's target writes and reads.

    `script` is the kernel-level TVMScript. `func()` is the kernel-level PrimFunc for the interpreter: opaque here, and
    not serialised. `shared_bytes` is how much a launch gives a block for storage of scope "shared.dyn". `target` is
    that of the machine on which the kernel runs, if it is not the executable's: see `runtime.hosted`. `refusal` is why
    the kernel does not run on the machine that the network was compiled for, "" if it does. `tasks` is how many
    iterations threads share, 0 if a size decides that.
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
    """A weight: a C-contiguous array of the stated dtype and shape, never written."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Resident:
    """A value that lives in `nbytes` bytes of an arena from byte `offset`, from step `first` to step `last`."""

    name: str
    offset: Dim
    nbytes: Dim
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Scratch memory of `size` bytes, uninitialised at the start of each run, at a multiple of `alignment`.

    `residents` lists the values in it for people; steps name the bytes themselves. `target` is that of the machine in
    whose memory it lies, if that is not the executable's.
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
    """Run kernel number `kernel`; one argument per parameter. `operator` is the operator it belongs to, for people.

    `grid` is how many blocks there are along x, y and z, then how many threads in a block along these, for a kernel of
    a machine with such a grid; else it is empty.
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
    """Thread 0 copies `nbytes` bytes; the two places do not overlap, and may lie in different memories."""

    dst: Location
    src: Location
    nbytes: Dim
    operator: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CallExternal:
    """Call the registered engine `engine` with the arguments; `access` has a letter or two for each, as in a kernel's.

    `specs` gives each location's dtype and shape, so that the engine gets arrays. `attrs` are the engine's own.
    """

    engine: str
    args: tuple[Argument, ...]
    access: tuple[str, ...]
    specs: tuple[TensorSpec | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BindSize:
    """`var` is, from here on, the int64 at `place`; unless that is from 0 to `most`, the run ends here with an error.

    `where` names what needs it. A step with a `reason` checks what data say: it ends a run for that reason, a text in
    which {found} and {most} stand for the numbers.
    """

    var: Var
    place: Location
    most: Dim
    where: str = field(default="", compare=False)
    operator: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeat the next `steps` steps; `number`, an int64 that thread 0 writes, counts the iterations that are done.

        number = 0
        while number < limit and going:     # the int64 at `limit`, the bool at `going`; without `going` it is true
            the next `steps` steps
            number = number + 1

    The run ends with an error if `number` is `most` and the loop would go on; `where` names what needs that. Steps of
    the body may write `going`. A body may hold loops, which end inside of it. A size that is bound in the body has a
    value until the end of the iteration.
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
    """A run is refused before its first step unless `left` and `right` are equal; `where` names what needs that.

    With sizes that data decide in it, it is checked as soon as they are bound. A condition, of type bool, is `left`
    with 1 or 0 in `right`: it holds, or it does not.
    """

    left: Dim
    right: Dim
    where: str = field(default="", compare=False)

    def sizes(self) -> set[Var]:
        """The variables in it."""
        return {v for side in (self.left, self.right) if isinstance(side, Expr) for v in free_vars(side)}


@dataclass(frozen=True, slots=True)
class Bound:
    """A run is refused before its first step unless every element of an input or state is from `low` to `high`.

    Both are included, and may be expressions over the sizes of inputs. `where` names what needs that.
    """

    place: Input | State
    low: Dim
    high: Dim
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Executable:
    """A compiled program.

    `target` is text that `Target` reads, its first word the kind. `calling` is the order in which a tir function takes
    its arguments, destinations included; empty: inputs, then outputs. The shapes of `states` are constant.
    `model_nodes` has for the names of operators the model's names for the nodes that they compute, for people.
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
