"""Bound mode: compute a program's results, and bounds of the error that any honest float computation may have.

`evaluate` runs a program of any level on numbers that carry an error (`domains.bound_numbers`). `compare` checks
results against these bounds, such as the results of compiled code: instead of one tolerance for all, each element has
its own bound, derived from the operations that compute it. Additions may have been reassociated and fused; other
algebra (such as expanding x * (y + z)) is not foreseen. A value that is closer to a jump than its error is undecided: a
float gets an infinite bound, and for an integer, an index or a branch the run raises `Undecided`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.expr.dtypes import is_floating
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from .. import te as tensors
from ..fast.grid_storage import GridView
from ..fast.lockstep import LockstepCompiler
from ..judging.programs import Parameter, Program, parameters, split_tensors
from ..judging.verdict import Verdict
from ..kernel import LockstepKernels
from ..meaning.runner import Run
from ..meaning.scalar import Evaluate, Value
from ..meaning.storage import Argument, Memory, View
from .analysis import prepared
from .bound_expressions import BoundCompiler
from .bound_numbers import CELL, Undecided, error_of, exact, format_of, is_cells

__all__ = ["Bounded", "Undecided", "compare", "evaluate"]


class _Storage(BoundCompiler, LockstepCompiler):
    """Cells in the memory of loop programs."""

    def fresh(self, size: int, dtype: x.DType) -> np.ndarray:
        return _unknown(size) if dtype.is_float else super().fresh(size, dtype)

    def _plain_load(self, e: t.BufferLoad, picked: np.ndarray | None) -> Evaluate:
        read = super()._plain_load(e, picked)
        # A single cell of a structured array is a view: it would change with the next store.
        return (lambda env: _owned(read(env))) if e.dtype.is_float else read


def _owned(value: Value) -> Value:
    return value.copy() if type(value) is np.void else value


class BoundStatements(_Storage):
    """Computes error bounds of a loop program."""


class BoundKernels(_Storage, LockstepKernels):
    """Computes error bounds of a lowered program."""


class BoundTensors(BoundCompiler, tensors.TensorCompiler):
    """Computes error bounds of tensor expressions."""

    def load(self, e: x.Expr) -> Evaluate:
        read = super().load(e)
        if not (isinstance(e, te.TensorLoad) and e.dtype.is_float):
            return read
        return lambda env: _owned(value) if is_cells(value := read(env)) else exact(value)


def _unknown(size: int) -> np.ndarray:
    cells = np.zeros(size, CELL)
    cells["value"], cells["terms"] = np.nan, np.inf
    return cells


class _BoundRun(Run):
    """A run in which float arguments are cells; it keeps the results in `bound`."""

    def _bind(self) -> list[Argument]:
        self.bound = super()._bind()
        for argument in self.bound:
            if argument.param.dtype.is_float:
                old = argument.view
                data = exact(old.data)
                if argument.param in self.outputs:
                    data = np.where(np.isnan(data["value"]), _unknown(1), data)  # what is not written is not known
                memory = Memory(old.memory.name, np.atleast_1d(data), old.memory.scope, None)
                argument.view = View(memory, old.shape, old.strides, old.offset)
                argument.copied = False
        return self.bound

    def _one_by_one(self) -> None:
        """Run every loop in order, as a fallback if lockstep is not possible."""
        loops = {n for f in (self.func, *self.called) for n in x.walk(f.body) if isinstance(n, t.For)}
        compiler = self.fast(loops)
        bound = self._bind()
        for key in (*self.values, *(a.param for a in bound)):
            compiler.define(key)
        execute = compiler.stmt(self.func.body)
        env = compiler.environment()
        for variable, value in self.values.items():
            env[compiler.slot(variable)] = value
        for argument in bound:
            env[compiler.slot(argument.param)] = GridView.of(argument.view)
        execute(env)
        self._finish(bound)

    called: Sequence[t.PrimFunc] = ()


@dataclass(frozen=True)
class Bounded:
    """The allowed results of an output: float64 values, and how far a result may be from each (integers: 0).

    `sums` is, for each element, the number of additions in the longest sum that it depends on.
    """

    value: np.ndarray
    error: np.ndarray
    sums: np.ndarray

    @property
    def undecided(self) -> np.ndarray:
        """Return a mask of the elements with an infinite bound."""
        return ~np.isfinite(self.error)

    def wrong(self, result: np.ndarray) -> np.ndarray:
        """Return a mask of the elements of `result` that are outside of their bounds. NaN and infinities must match."""
        if not is_floating(result.dtype):
            return np.asarray(result != self.value)
        with np.errstate(all="ignore"):
            wide = result.astype(np.float64)
            near = np.abs(wide - self.value) <= self.error
        same = (wide == self.value) | (np.isnan(wide) & np.isnan(self.value))
        return ~(near | same | self.undecided)


def evaluate(program: Program, args: Sequence[Any], sizes: Mapping[str, int] | None = None) -> list[Bounded | None]:
    """Return, for each parameter, the values and bounds after a run on `args`; None for parameters that are only read.

    `args` are not changed. Raises `Undecided`, or `Unsupported` for operations without an error analysis, and
    `ExecutionError` as the interpreters do.
    """
    with np.errstate(all="ignore"):
        if isinstance(program, t.PrimFunc | t.IRModule):
            return _of_function(program, args, sizes)
        return _of_tensors(program, args)


def _of_function(program: t.PrimFunc | t.IRModule, args: Sequence[Any], sizes: Mapping[str, int] | None) -> list[Any]:
    compilers = BoundStatements, BoundKernels
    run = prepared(_BoundRun, program, args, sizes, compilers, "bound mode has no slow form", lasting=True)
    if isinstance(program, t.IRModule):
        run.called = [f for _, f in program.items()]
    run.start("fast")
    views: dict[Any, View] = {a.param: a.view for a in run.bound}
    bounds: list[Bounded | None] = []
    for param, array in zip(run.func.params, args, strict=True):
        if param not in run.outputs:
            bounds.append(None)
            continue
        view = views[param]
        bounds.append(_bounded(view.data[view.offsets()].reshape(np.shape(array)), param.dtype))
    return bounds


def _of_tensors(program: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    inputs, scalars, outputs = split_tensors(program, args)
    tensors_written = [one for one, _ in outputs]
    results = dict(
        zip(tensors_written, tensors.evaluate(tensors_written, inputs, scalars, compiler=BoundTensors), strict=True)
    )
    return [_bounded(results[one], one.dtype) if one in results else None for one in program]


def _bounded(cells: np.ndarray, dtype: x.DType) -> Bounded:
    if not is_cells(cells):
        return Bounded(cells, np.zeros(cells.shape), np.zeros(cells.shape))
    sums = np.maximum(cells["sums"], cells["adds"])
    return Bounded(np.array(cells["value"]), np.asarray(error_of(cells, format_of(dtype))), sums)


def compare(program: Program, inputs: Sequence[Any], results: Sequence[Any],
            sizes: Mapping[str, int] | None = None) -> Verdict:  # fmt: skip
    """Return whether results may come from a program: each float within its bound, integers equal.

    `inputs` and `results` are the arguments in calling order, before and after a run of any implementation (compiled
    code, another program). Raises the errors of `evaluate`, and `Undecided` if no element of an output has a finite
    bound.
    """
    unsure, total = 0, 0
    for p, must, result in zip(parameters(program), evaluate(program, inputs, sizes), results, strict=True):
        if must is None:
            continue
        wrong = must.wrong(np.asarray(result).reshape(must.value.shape))
        if wrong.any():
            return _difference(p, must, np.asarray(result).reshape(must.value.shape), wrong, inputs)
        unsure, total = unsure + int(must.undecided.sum()), total + must.error.size
        if must.undecided.all() and must.error.size:
            raise Undecided(f"bound mode: no element of {p.name} has a finite bound")
    text = f"equal (bound; {unsure} of {total} elements could not be decided)" if unsure else ""
    return Verdict(True, "bound", text)


def _difference(p: Parameter, must: Bounded, result: np.ndarray, wrong: np.ndarray, inputs: Sequence[Any]) -> Verdict:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    value, error = must.value[index], must.error[index]
    allowed = f" +- {error:.3g}" if is_floating(result.dtype) else ""
    message = (
        f"the programs differ in {p.name}[{', '.join(map(str, index))}] (bound mode,"
        f" {int(wrong.sum())} of {wrong.size} elements)\n  before: {value!r}{allowed}\n  after:  {result[index]!r}"
    )
    return Verdict(False, "bound", message, p.name, index, value, result[index], inputs)
