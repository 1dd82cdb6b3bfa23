"""A common view of the programs of every level below the graph: their parameters, and one function to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from minitvm import expr as x
from minitvm.errors import InputError
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from .. import kernel
from .. import te as tensors
from ..domains.domain import Domain
from ..meaning import runner
from ..meaning.settings import Settings, stored_buffers
from ..tir import entry_function

Program = Any  # a PrimFunc, an IRModule (of one loop program, or lowered), or a list of te tensors


INOUT = "reference.inout"  # an attribute of a function: the places of the parameters that it updates


@dataclass(frozen=True)
class Parameter:
    """A parameter of a program. Two programs can only be compared if their parameters agree."""

    name: str
    dtype: x.DType
    shape: tuple[x.Expr, ...] | None  # None: a scalar
    written: bool
    var: x.Var | None = None
    inout: bool = False

    @property
    def is_input(self) -> bool:
        """Return whether the caller passes a value in."""
        return not self.written or self.inout

    @property
    def kind(self) -> str:
        """The dtype and the shape as text, such as "float32[n, 8]"."""
        return str(self.dtype) if self.shape is None else f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def entry(program: t.PrimFunc | t.IRModule) -> t.PrimFunc:
    """Return the function that a run starts with; raises `InputError` if a module has several and none is called
    "main".
    """
    if several_functions(program) and "main" not in program.functions:  # type: ignore[union-attr]
        names = list(program.functions)  # type: ignore[union-attr]
        raise InputError(
            f"a module of several functions beside one program: {', '.join(names)}\n"
            f"  try:    one of its functions, module[{names[0]!r}]"
        )
    return entry_function(program, None)


def is_lowered(program: Program) -> bool:
    """Return whether a program is at kernel level: a module with a host function, or kernels, which have no blocks."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return False
    if isinstance(program, t.IRModule) and any(f.attrs.get("host") for _, f in program.items()):
        return True
    func = entry(program)
    return bool(func.attrs.get("host")) or not isinstance(func.body, t.BlockRealize)


def several_functions(program: Program) -> bool:
    """Return whether a program is a module of independent functions, not of a host and its kernels."""
    if not isinstance(program, t.IRModule) or len(program.functions) < 2:
        return False
    return not any(f.attrs.get("host") for _, f in program.items())


def parameters(program: Program) -> list[Parameter]:
    """Return the parameters of a program in calling order."""
    if isinstance(program, t.PrimFunc | t.IRModule):
        func = entry(program)
        by_program = _PARAMETERS.setdefault(func, WeakKeyDictionary())
        if program not in by_program:
            by_program[program] = _of_function(func, program if isinstance(program, t.IRModule) else None)
        return list(by_program[program])
    if not isinstance(program, Sequence) or not all(isinstance(one, te.Tensor | x.Var) for one in program):
        raise InputError(
            f"a program is a PrimFunc, an IRModule or a list of te tensors, found {type(program).__name__}"
        )
    return [
        Parameter(one.name, one.dtype, one.shape, not isinstance(one.op, te.PlaceholderOp))
        if isinstance(one, te.Tensor)
        else Parameter(one.name, one.dtype, None, False, one)
        for one in program
    ]


_PARAMETERS: WeakKeyDictionary[t.PrimFunc, WeakKeyDictionary[t.PrimFunc | t.IRModule, list[Parameter]]] = (
    WeakKeyDictionary()
)


def _of_function(func: t.PrimFunc, module: t.IRModule | None) -> list[Parameter]:
    written = stored_buffers(func, module)
    inout = func.attrs.get(INOUT, ())
    return [
        Parameter(p.name, p.dtype, p.shape, p in written, inout=k in inout)
        if isinstance(p, t.Buffer)
        else Parameter(p.name, p.dtype, None, False, p)
        for k, p in enumerate(func.params)
    ]


def same_signature(before: Program, after: Program) -> str:
    """Return a text about parameters that only one of two programs writes; "" if they write the same parameters.

    Raises `InputError` if they cannot be called with the same arguments.
    """
    one, other = parameters(before), parameters(after)
    if len(one) != len(other):
        raise InputError(f"the programs have {len(one)} and {len(other)} parameters")
    for p, q in zip(one, other, strict=True):
        if p.dtype != q.dtype or (p.shape is None) != (q.shape is None):
            names = p.name if p.name == q.name else f"{p.name} and {q.name}"
            raise InputError(f"the parameters {names} differ: {p.kind} before, {q.kind} after")
    sentences = [f"{p.name} is written by {'before and not by after' if p.written else 'after and not by before'}"
            for p, q in zip(one, other, strict=True) if p.written != q.written]  # fmt: skip
    return "\n".join(sentences)


def execute(program: Program, args: Sequence[Any], shadow: bool = True, sizes: Mapping[str, int] | None = None,
            domain: Domain | None = None, coverage: Any = None, **options: Any) -> None:  # fmt: skip
    """Run any program on arrays in calling order; outputs are written in place.

    A `coverage` (`judging.coverage`) records the comparisons. `options` are passed to the level's interpreter: `mode`,
    `order`, `seed`; a te program only has `mode`.
    """
    if not isinstance(program, t.PrimFunc | t.IRModule):
        _run_tensors(program, args, options.get("mode", "fast"), domain, coverage)
        return
    func = entry(program)
    inout = [func.params[k].name for k in func.attrs.get(INOUT, ())]
    if is_lowered(program):
        kernel.run(program, *args, shadow=shadow, sizes=sizes, domain=domain, inout=inout, coverage=coverage, **options)
        return
    settings = Settings(shadow, options.get("order", "forward"), options.get("seed", 0), domain=domain,
                        coverage=coverage)  # fmt: skip
    runner.run_level_3(func, args, settings, options.get("mode", "fast"), inout)


def split_tensors(
    program: Sequence[Any], args: Sequence[Any]
) -> tuple[dict[te.Tensor, Any], dict[x.Var, Any], list[tuple[te.Tensor, Any]]]:
    """Return the placeholders, scalars and outputs of a te program, each with its argument."""
    inputs: dict[te.Tensor, Any] = {}
    scalars: dict[x.Var, Any] = {}
    outputs: list[tuple[te.Tensor, Any]] = []
    for one, arg in zip(program, args, strict=True):
        if isinstance(one, x.Var):
            scalars[one] = arg
        elif not isinstance(one.op, te.PlaceholderOp):
            outputs.append((one, arg))
        else:
            inputs[one] = arg
    return inputs, scalars, outputs


def _run_tensors(program: Sequence[Any], args: Sequence[Any], mode: str, domain: Domain | None,
                 coverage: Any = None) -> None:  # fmt: skip
    inputs, scalars, outputs = split_tensors(program, args)
    results = tensors.evaluate([one for one, _ in outputs], inputs, scalars, mode, domain=domain, coverage=coverage)
    for (_, array), result in zip(outputs, results, strict=True):
        array[...] = result
