"""The memory plan of an executable as a report: the place and lifetime of each value, and the memory of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..expr import Expr, Var, format_expr, free_vars
from .evaluation import Number, evaluate
from .nodes import BindSize, CallExternal, CallKernel, Copy, Dim, Executable, Loop, Resident, TensorSpec

# --- Sizes that steps bind, with their bounds: the memory for what has such a size in its shape.
#
# A step `BindSize` gives a variable a value from 0 to its bound, an expression over variables that are known before a
# run.


def data_sizes(executable: Executable) -> dict[Var, Dim]:
    """Return the variables that steps bind at run time, each with its upper bound."""
    return {step.var: step.most for step in executable.steps if isinstance(step, BindSize)}


def shape_variables(executable: Executable) -> list[Var]:
    """Return the variables in the shapes of inputs and outputs, each once, in the order of the shapes."""
    tensors = [spec for spec in (*executable.inputs, *executable.outputs) if isinstance(spec, TensorSpec)]
    dims = [dim for spec in tensors for dim in spec.shape if isinstance(dim, Expr)]
    return list(dict.fromkeys(var for dim in dims for var in sorted(free_vars(dim), key=lambda v: v.name)))


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory that a program's intermediate values need, in bytes. It is an expression if a symbolic dimension has
    no value.

    `peak` is all the memory that a run needs besides inputs, outputs and weights; it is allocated before the first run,
    and a run allocates nothing. `lower_bound` is the largest total of constant sizes in use at one step; no plan can
    need less. `unshared` is the memory that would be needed without sharing. `constants` is the size of the weights,
    and `states` the size of the values that a module keeps from run to run. `operators[step]` is the operator that a
    step belongs to.
    """

    residents: tuple[Resident, ...]
    peak: Dim
    lower_bound: int
    unshared: Dim
    constants: int
    operators: tuple[str, ...]
    states: int = 0

    def __str__(self) -> str:
        head = ("value", "offset", "bytes", "steps", "from", "to")
        rows = [
            (r.name, _text(r.offset), _text(r.nbytes), f"{r.first}..{r.last}", *self._between(r))
            for r in sorted(self.residents, key=lambda r: (r.first, r.last))
        ]
        return "\n".join(
            [
                *_aligned([head, *rows]),
                "",
                f"peak {_text(self.peak)} bytes; at least {self.lower_bound:,} live at once; "
                f"without sharing it would be {_text(self.unshared)}",
                f"weights {self.constants:,} bytes",
                *([f"states {self.states:,} bytes"] if self.states else []),
            ]
        )

    def _between(self, r: Resident) -> tuple[str, str]:
        return self.operators[r.first], self.operators[r.last]


def memory_plan(executable: Executable, sizes: Mapping[Var, Number] | None = None) -> MemoryPlan:
    """Return the memory plan of an executable. `sizes` gives values to symbolic dimensions."""

    def at(n: Dim) -> Dim:
        can_evaluate = not isinstance(n, Expr) or sizes is not None
        return int(evaluate(n, sizes or {})) if can_evaluate else n

    residents = tuple(
        Resident(r.name, at(r.offset), at(r.nbytes), r.first, r.last) for a in executable.arenas for r in a.residents
    )
    return MemoryPlan(
        residents,
        _sum([at(a.size) for a in executable.arenas]),
        _most_alive(residents),
        _sum([r.nbytes for r in residents]),
        sum(c.data.nbytes for c in executable.constants),
        tuple(_operator(executable, number) for number in range(len(executable.steps))),
        sum(prod(int(evaluate(d, {})) for d in s.shape) * s.dtype.bytes for s in executable.states),
    )


def _sum(sizes: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for size in sizes:
        total = size if isinstance(total, int) and total == 0 else total + size
    return total


def _most_alive(residents: Sequence[Resident]) -> int:
    """Return the largest total of constant sizes that are in use at one step."""
    fixed = [(r.first, r.last, r.nbytes) for r in residents if isinstance(r.nbytes, int)]
    return max((sum(n for a, b, n in fixed if a <= step <= b) for step, _, _ in fixed), default=0)


def _operator(executable: Executable, number: int) -> str:
    step = executable.steps[number]
    if isinstance(step, CallKernel):
        return step.operator or executable.kernels[step.kernel].name
    if isinstance(step, Copy):
        return step.operator or "copy"
    if isinstance(step, BindSize):
        return step.operator or "bind_size"
    if isinstance(step, Loop):
        return step.operator or "loop"
    return step.operator if isinstance(step, CallExternal) else "barrier"


def _text(n: Dim) -> str:
    return format_expr(n) if isinstance(n, Expr) else f"{n:,}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in (1, 2, 3) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
