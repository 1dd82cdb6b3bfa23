"""Level 5, the executable: what every target compiles to. Plain data: constants, arenas, kernels and a list of steps.

    executable ::= inputs, outputs, constants, arenas, kernels, step*
    step       ::= CallKernel | Barrier | Copy | CallExternal
    argument   ::= location | number | Expr                          numbers and Exprs are scalars
    location   ::= Input(i) | Output(i) | ConstantRef(i) | ArenaSlice(arena, offset, nbytes)

**Meaning.** A team of threads walks the steps in order. A `parallel` kernel call runs on every thread, each doing its
share; everything else runs on thread 0 while the others go on to the next step. `Barrier` waits for all threads. So two
steps that touch the same bytes, one of them writing, need a barrier between them unless both run on thread 0.
`CallExternal`, and the end of the program, are barriers too.

Sizes, offsets and scalar arguments may be expressions over the symbolic dimensions, `expr.Var`s that some input's
shape (or a scalar input) gives a value in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..expr import DType, Expr, Var

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
    """A scalar handed over by the caller; `var` stands for its value in the executable's expressions."""

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
    not serialised.
    """

    name: str
    language: str
    source: str
    entry: str
    params: tuple[KernelParam, ...]
    script: str = ""
    func: Callable[[], Any] | None = None


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

    `residents` tells for people who lives where and when; steps name the bytes themselves.
    """

    name: str
    size: Dim
    alignment: int = 64
    residents: tuple[Resident, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Input:
    """The whole of input tensor `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Output:
    """The whole of output tensor `index`."""

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


Location: TypeAlias = Input | Output | ConstantRef | ArenaSlice
Argument: TypeAlias = Location | int | float | Expr


@dataclass(frozen=True, slots=True)
class CallKernel:
    """Run kernel number `kernel`; one argument a parameter. `operator` is whose work this is, for people."""

    kernel: int
    args: tuple[Argument, ...]
    parallel: bool = True
    operator: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Barrier:
    """No thread goes on before all have come here."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Thread 0 copies `nbytes` bytes; the two places do not overlap."""

    dst: Location
    src: Location
    nbytes: Dim
    operator: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CallExternal:
    """Call the registered engine `engine` with the arguments; `access` has a letter or two for each, as in a kernel's.

    `specs` gives each location's dtype and shape, so that the engine is handed arrays. `attrs` are its own.
    """

    engine: str
    args: tuple[Argument, ...]
    access: tuple[str, ...]
    specs: tuple[TensorSpec | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


Step: TypeAlias = CallKernel | Barrier | Copy | CallExternal


@dataclass(frozen=True, slots=True, eq=False)
class Executable:
    """A compiled program.

    `calling` is the order in which a tir function takes its arguments, destinations included; empty: inputs, then
    outputs.
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

    @property
    def calling_order(self) -> tuple[Input | Output, ...]:
        if self.calling:
            return self.calling
        return (*(Input(i) for i in range(len(self.inputs))), *(Output(i) for i in range(len(self.outputs))))
