"""The C interface of a program: the name and type of every size, tensor and state that the caller provides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import mul

from ... import executable as exe
from ...errors import Unsupported, report
from ...executable.alignment import ALIGNMENT
from ...executable.memory_report import data_sizes, shape_variables
from ...expr import DType, Expr, IntImm, Max, Var, format_expr, free_vars
from ...expr.largest import depends, largest
from ..own_kernels import require_own_kernels
from .names import unique


@dataclass(frozen=True, slots=True)
class CTensor:
    """A tensor that the caller provides. `place` is its location, and `name` its C identifier.

    `elements` is their number, or the largest number if data decide it. `is_open` says whether the caller passes their
    number, and `late` whether only a run determines the shape.
    """

    place: exe.Input | exe.Output | exe.State
    name: str
    spec: exe.TensorSpec
    elements: exe.Dim
    is_open: bool
    late: bool

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return ctype(self.spec.dtype)

    @property
    def shape_text(self) -> str:
        """The dtype and shape for a comment or an error."""
        return f"{self.spec.dtype}[{', '.join(map(dim_text, self.spec.shape))}]"

    @property
    def title(self) -> str:
        """The tensor in the words of an error, for example "input x"."""
        return f"{type(self.place).__name__.lower()} {self.spec.name}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar input."""

    name: str
    spec: exe.ScalarSpec


@dataclass(frozen=True)
class Interface:
    """The interface of an executable under a program name, which prefixes all public names."""

    executable: exe.Executable
    name: str

    @property
    def macro(self) -> str:
        """The prefix of macros."""
        return self.name.upper()

    @cached_property
    def sizes(self) -> dict[Var, str]:
        """The sizes that the caller sets, with their C names."""
        x = self.executable
        late = data_sizes(x)
        scalars = {spec.var for spec in x.inputs if isinstance(spec, exe.ScalarSpec)}
        variables = [var for var in shape_variables(x) if var not in late and var not in scalars]
        return dict(zip(variables, unique([var.name for var in variables]), strict=True))

    @cached_property
    def late_sizes(self) -> dict[Var, str]:
        """The sizes that steps bind, with their C names."""
        sizes = data_sizes(self.executable)
        return dict(zip(sizes, unique([v.name for v in sizes], self.sizes.values()), strict=True))

    @cached_property
    def inputs(self) -> list[CTensor | Scalar]:
        """The inputs, in the executable's order."""
        specs = self.executable.inputs
        return [
            Scalar(name, spec) if isinstance(spec, exe.ScalarSpec) else self._tensor(exe.Input(number), name, spec)
            for number, (name, spec) in enumerate(zip(unique([s.name for s in specs]), specs, strict=True))
        ]

    @property
    def input_tensors(self) -> list[CTensor]:
        """The inputs that are no scalars."""
        return [t for t in self.inputs if isinstance(t, CTensor)]

    @cached_property
    def outputs(self) -> list[CTensor]:
        """The outputs, in the executable's order."""
        specs = self.executable.outputs
        names = unique([s.name for s in specs])
        return [
            self._tensor(exe.Output(k), name, spec) for k, (name, spec) in enumerate(zip(names, specs, strict=True))
        ]

    @cached_property
    def firsts(self) -> list[tuple[CTensor, int]]:
        """The states that do not begin as zeros, each with the index of the constant that is its first value."""
        pairs = zip(self.states, self.executable.states, strict=True)
        return [(tensor, spec.first) for tensor, spec in pairs if spec.first is not None]

    @cached_property
    def states(self) -> list[CTensor]:
        """The states, in the executable's order."""
        specs = self.executable.states
        names = unique([s.name for s in specs])
        return [self._tensor(exe.State(k), names[k], spec) for k, spec in enumerate(specs)]

    def tensor(self, place: exe.Location) -> CTensor:
        """Return the tensor of a location."""
        tensors: Sequence[CTensor | Scalar] = self.states
        if isinstance(place, exe.Input | exe.Output):
            tensors = self.inputs if isinstance(place, exe.Input) else self.outputs
        tensor = tensors[place.index]  # type: ignore[union-attr]
        assert isinstance(tensor, CTensor)
        return tensor

    @cached_property
    def arena_offsets(self) -> list[exe.Dim]:
        """The offset of each arena in the caller's memory."""
        offsets: list[exe.Dim] = []
        end: exe.Dim = 0
        for arena in self.executable.arenas:
            offsets.append(end)
            end = _aligned(plus(end, arena.size))
        return offsets

    @cached_property
    def arena_bytes(self) -> exe.Dim:
        """The bytes of all arenas: an expression if they depend on sizes."""
        arenas = self.executable.arenas
        return _aligned(plus(self.arena_offsets[-1], arenas[-1].size)) if arenas else 0

    @property
    def is_open(self) -> bool:
        """Whether the caller sets sizes."""
        return bool(self.sizes)

    def _tensor(self, place: exe.Input | exe.Output | exe.State, name: str, spec: exe.TensorSpec) -> CTensor:
        late = data_sizes(self.executable)
        elements: exe.Dim = reduce(mul, spec.shape) if spec.shape else 1
        is_late = any(depends(dim, late) for dim in spec.shape)
        if is_late:
            elements = largest(elements, late)
            elements = Max(elements, IntImm(0, elements.dtype)) if isinstance(elements, Expr) else max(elements, 0)
        if isinstance(elements, Expr) and not free_vars(elements):
            from ...executable import evaluate

            elements = int(evaluate(elements, {}))
        return CTensor(place, name, spec, elements, isinstance(elements, Expr), is_late)


def plus(a: exe.Dim, b: exe.Dim) -> exe.Dim:
    """Return a sum of sizes, without zeros."""
    if isinstance(a, int) and a == 0:
        return b
    return a if isinstance(b, int) and b == 0 else a + b


def _aligned(n: exe.Dim) -> exe.Dim:
    """Round up to a multiple of the alignment."""
    if isinstance(n, int):
        return -(-n // ALIGNMENT) * ALIGNMENT
    return (n + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def ctype(dtype: DType) -> str:
    """Return the C type of an element: bools are bytes that are 0 or 1, and 16-bit floats are their bits."""
    if dtype.is_bool:
        return "uint8_t"
    if dtype.is_half:
        return "uint16_t"
    if dtype.is_float:
        return {32: "float", 64: "double"}[dtype.bits]
    return f"{dtype}_t"


def dim_text(dim: exe.Dim) -> str:
    """Return a dimension as text."""
    return format_expr(dim) if isinstance(dim, Expr) else str(dim)


def interface(executable: exe.Executable, name: str) -> Interface:
    """Return the interface of an executable. Raises `Unsupported` if no C program can express it."""
    what = f"{executable.name} as C"
    require_own_kernels(executable, what)
    for scalar in executable.inputs:
        if isinstance(scalar, exe.ScalarSpec) and scalar.dtype.is_half:
            raise Unsupported(report(what, wanted="scalars that C has", found=f"{scalar.name}: {scalar.dtype}"))
    for spec in executable.outputs:
        if spec.inout:
            raise Unsupported(report(what, wanted="outputs that are only written", found=f"{spec.name} is read too"))
    if any(arena.target for arena in executable.arenas):
        raise Unsupported(report(what, wanted="memory of one CPU", found="an arena of another machine"))
    return Interface(executable, name)
