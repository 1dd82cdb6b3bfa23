"""Interpret tensor expressions: compute the elements of tensors from their definitions.

The slow mode computes one element at a time. The fast mode computes all elements of a tensor together and goes through
the reduction axes in the same order, so that each element gets the same bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.te import nodes as te

from .domains.domain import Domain, stored
from .domains.domain_expressions import in_domain
from .fast.grid import GRID, MASK, GridCompiler, axis_values, inside, narrowed
from .judging.coverage import watched
from .meaning.runner import run_level_3
from .meaning.scalar import Environment, Evaluate, ScalarCompiler, Value
from .meaning.scalar import evaluate as evaluate_scalar
from .meaning.settings import Settings
from .meaning.steps import POINTS as POINTS_OF_A_STEP
from .meaning.steps import spend

POINTS = 1 << 18  # elements of a tensor that are computed together


def evaluate(
    outputs: Sequence[te.Tensor] | te.Tensor,
    inputs: Mapping[te.Tensor, np.ndarray],
    scalars: Mapping[x.Var, Any] | None = None,
    mode: str = "fast",
    compiler: type[TensorCompiler] | None = None,
    domain: Domain | None = None,
    coverage: Any = None,
) -> list[np.ndarray]:
    """Return the arrays of the outputs, given an array for each placeholder.

    Symbolic dimensions get their values from the arrays' shapes, and other free variables from `scalars`. An
    intermediate tensor may also be given; then it is not computed. `compiler` gives expressions another meaning, in
    fast mode. With a `domain`, floats are its elements (`domains.domain`), and a `coverage` records the comparisons.
    Raises `InputError` for arrays that do not fit, and `ExecutionError` if an element reads outside a tensor.
    """
    if mode not in ("fast", "slow"):
        raise InputError(f"mode {mode!r} is unknown; known: fast, slow")
    targets = [outputs] if isinstance(outputs, te.Tensor) else list(outputs)
    values: dict[x.Var, Any] = dict(scalars or {})
    arrays: dict[te.Tensor, np.ndarray] = {}
    for tensor, array in inputs.items():
        _bind(tensor, array, values, stored(domain, tensor.dtype))
        arrays[tensor] = array
    for tensor, array in inputs.items():
        _check_shape(tensor, array, values)
    with np.errstate(all="ignore"):
        for tensor in targets:
            fast = watched(compiler or TensorCompiler, coverage)
            kind = in_domain(_ElementCompiler if mode == "slow" else fast, domain)
            loops = None if compiler is not None else Settings(domain=domain, coverage=coverage)
            _compute(tensor, arrays, values, mode, kind, loops)
    return [arrays[tensor] for tensor in targets]


def _bind(tensor: te.Tensor, array: Any, values: dict[x.Var, Any], dtype: np.dtype) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != len(tensor.shape):
        actual = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(f"{tensor.name} takes an array of {tensor}, found {actual}")
    for dim, size in zip(tensor.shape, array.shape, strict=True):
        if isinstance(dim, x.Var):
            values.setdefault(dim, int(size))


def _check_shape(tensor: te.Tensor, array: np.ndarray, values: dict[x.Var, Any]) -> None:
    for axis, (dim, size) in enumerate(zip(tensor.shape, array.shape, strict=True)):
        expected = _size(dim, values)
        if expected != size:
            raise InputError(f"{tensor.name}: dimension {axis} does not fit\n  wanted: {expected}\n  found:  {size}")


def _size(dim: x.Expr, values: Mapping[x.Var, Any]) -> int:
    unknown = [v.name for v in x.free_vars(dim) if v not in values]
    if unknown:
        raise InputError(f"the size {dim} cannot be found: {', '.join(unknown)} has no value")
    return int(evaluate_scalar(dim, {v: values[v] for v in x.free_vars(dim)}))


def _compute(tensor: te.Tensor, arrays: dict[te.Tensor, np.ndarray], values: dict[x.Var, Any], mode: str,
             kind: type[Any], loops: Settings | None) -> None:  # fmt: skip
    """Compute a tensor's array, and first the tensors that it needs. Functions of loops run with the settings
    `loops`.
    """
    stack = [tensor]
    siblings: dict[te.Operation, list[np.ndarray]] = {}
    while stack:
        top = stack[-1]
        if top in arrays:
            stack.pop()
            continue
        if not isinstance(top.op, te.ComputeOp | te.ExternOp):
            raise InputError(f"no array was given for {top.name}")
        missing = [one for one in top.op.input_tensors if one not in arrays]
        if missing:
            stack.extend(missing)
            continue
        if top.op not in siblings:
            slow = mode == "slow"
            if isinstance(top.op, te.ExternOp):
                siblings[top.op] = _loops(top.op, arrays, values, mode, loops)
                continue
            siblings[top.op] = _slow(top.op, arrays, values, kind) if slow else _fast(top.op, arrays, values, kind)
        arrays[top] = siblings[top.op][top.value_index]
        stack.pop()


def _loops(op: te.ExternOp, arrays: Mapping[te.Tensor, np.ndarray], values: Mapping[x.Var, Any], mode: str,
           settings: Settings | None) -> list[np.ndarray]:  # fmt: skip
    """Return the results of a function of loops; it runs and is checked like a loop program."""
    if settings is None:
        raise Unsupported(f"{op.name}: loops have no other meaning of expressions")
    shapes = [tuple(_size(d, values) for d in b.shape) for b in op.results]
    results = [np.zeros(s, stored(settings.domain, b.dtype)) for s, b in zip(shapes, op.results, strict=True)]
    run_level_3(op.func, [*(arrays[one] for one in op.inputs), *results], settings, mode, ())
    return results


def _domain(axes: Sequence[x.IterVar], values: Mapping[x.Var, Any]) -> list[range]:
    ranges = []
    for axis in axes:
        first = _size(axis.dom.start, values)
        ranges.append(range(first, first + _size(axis.dom.extent, values)))
    return ranges


def _reduction(op: te.ComputeOp) -> x.Reduce | None:
    """Return the reduction that all bodies of an operation share, or None."""
    first = op.body[0]
    inner = [r for b in op.body for r in x.walk(b) if isinstance(r, x.Reduce)]
    if not inner:
        return None
    if not isinstance(first, x.Reduce) or len(inner) != len(op.body):
        raise Unsupported(f"{op.name}: a reduction inside an expression; it must be the whole body of a compute")
    return first


# --- one element at a time ----------------------------------------------------------------------------------------


class _ElementCompiler(ScalarCompiler):
    def __init__(self, arrays: Mapping[te.Tensor, np.ndarray]) -> None:
        super().__init__()
        self.arrays = arrays

    def load(self, e: x.Expr) -> Evaluate:
        if not isinstance(e, te.TensorLoad):
            return super().load(e)
        array, places, is_float = self.arrays[e.tensor], [self.expr(i) for i in e.indices], e.dtype.is_float

        def evaluate(env: Environment) -> Value:
            index = tuple(p(env) for p in places)
            if not all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
                raise _out_of_bounds(e, index, array.shape)
            return array[index] if is_float else array.item(index)

        return evaluate


def _slow(op: te.ComputeOp, arrays: Mapping[te.Tensor, np.ndarray], values: dict[x.Var, Any],
          kind: type[_ElementCompiler]) -> list[np.ndarray]:  # fmt: skip
    compiler = kind(arrays)
    spatial, results = _domain(op.axis, values), _results(op, values, compiler)
    reduce = _reduction(op)
    slots = [compiler.define(a.var) for a in op.axis]
    _note_reach(compiler, op.axis, spatial)
    for variable in values:
        compiler.define(variable)
    if reduce is None:
        elements = [compiler.expr(b) for b in op.body]
    else:
        fold = _Fold(compiler, reduce, _domain(reduce.axes, values))
    env: Environment = [None] * compiler.size
    for variable, value in values.items():
        env[compiler.slot(variable)] = value
    spend(math.prod(map(len, spatial)) * (1 if reduce is None else fold.count))
    for point in itertools.product(*spatial):
        for slot, value in zip(slots, point, strict=True):
            env[slot] = value
        values_at_point = [f(env) for f in elements] if reduce is None else fold.run(env)
        where = tuple(v - r.start for v, r in zip(point, spatial, strict=True))
        for result, value in zip(results, _chosen(op, values_at_point), strict=True):
            result[where] = value
    return results


def _chosen(op: te.ComputeOp, results: list[Value]) -> Iterator[Value]:
    for k, body in enumerate(op.body):
        yield results[body.value_index] if isinstance(body, x.Reduce) else results[k]


def _results(op: te.ComputeOp, values: Mapping[x.Var, Any], compiler: ScalarCompiler) -> list[np.ndarray]:
    shape = tuple(len(r) for r in _domain(op.axis, values))
    return [np.empty(shape, compiler.cells(b.dtype)) for b in op.body]


def _note_reach(compiler: ScalarCompiler, axes: Sequence[x.IterVar], domain: Sequence[range]) -> None:
    """Record the largest magnitudes of the variables of axes."""
    compiler.reach.update({a.var: max(abs(r.start), abs(r.stop)) for a, r in zip(axes, domain, strict=True)})


class _Fold:
    """A reduction: initial values, combined with one tuple of sources after the other, in the order of the axes."""

    def __init__(self, compiler: ScalarCompiler, reduce: x.Reduce, domain: list[range]) -> None:
        combiner = reduce.combiner
        start = reduce.init or combiner.identity
        self.start = [compiler.expr(e) for e in start]
        self.axes = [compiler.define(a.var) for a in reduce.axes]
        _note_reach(compiler, reduce.axes, domain)
        self.domain = domain
        self.count = math.prod(map(len, domain))
        self.condition = compiler.expr(reduce.condition)
        self.sources = [compiler.expr(e) for e in reduce.sources]
        self.dtypes = [compiler.cells(e.dtype) for e in reduce.sources]
        self.left, self.right = [compiler.define(v) for v in combiner.lhs], [compiler.define(v) for v in combiner.rhs]
        self.combine = [compiler.expr(e) for e in combiner.results]

    def run(self, env: Environment) -> list[Value]:
        total = [f(env) for f in self.start]
        for point in itertools.product(*self.domain):
            for slot, value in zip(self.axes, point, strict=True):
                env[slot] = value
            if self.condition(env):
                total = self.step(env, total)
        return total

    def step(self, env: Environment, total: list[Value]) -> list[Value]:
        sources = [f(env) for f in self.sources]
        for slot, value in zip(self.left, total, strict=True):
            env[slot] = value
        for slot, value in zip(self.right, sources, strict=True):
            env[slot] = value
        return [f(env) for f in self.combine]


# --- all elements together ----------------------------------------------------------------------------------------


class TensorCompiler(GridCompiler):
    """Compiles expressions of given tensors' elements, for all elements of another tensor."""

    def __init__(self, arrays: Mapping[te.Tensor, np.ndarray]) -> None:
        super().__init__()
        self.arrays = arrays

    def load(self, e: x.Expr) -> Evaluate:
        if not isinstance(e, te.TensorLoad):
            return super().load(e)
        array, places, is_float = self.arrays[e.tensor], [self.expr(i) for i in e.indices], e.dtype.is_float

        def evaluate(env: Environment) -> Value:
            index, mask = [], env[MASK]
            for place, extent in zip(places, array.shape, strict=True):
                safe, wrong = inside(place(env), extent, mask)
                if wrong is not None:
                    shape = np.broadcast_shapes(wrong.shape, *(np.shape(p(env)) for p in places))
                    where = np.unravel_index(int(np.argmax(np.broadcast_to(wrong, shape))), shape)
                    point = tuple(int(np.broadcast_to(np.asarray(p(env)), shape)[where]) for p in places)
                    raise _out_of_bounds(e, point, array.shape)
                index.append(safe)
            if any(type(i) is np.ndarray for i in index):
                return array[tuple(index)]
            return array[tuple(index)] if is_float else array.item(tuple(index))

        return evaluate


class _FoldAll(_Fold):
    def run(self, env: Environment) -> list[Value]:
        total = [f(env) for f in self.start]
        for point in itertools.product(*self.domain):
            for slot, value in zip(self.axes, point, strict=True):
                env[slot] = value
            holds = self.condition(env)
            if type(holds) is not np.ndarray:
                total = self.step(env, total) if holds else total
                continue
            mask = narrowed(env[MASK], holds)
            if mask is False:
                continue
            outer, env[MASK] = env[MASK], mask
            combined = self.step(env, total)
            env[MASK] = outer
            total = [
                np.where(holds, new, old).astype(d, copy=False)
                for new, old, d in zip(combined, total, self.dtypes, strict=True)
            ]
        return total


def _fast(op: te.ComputeOp, arrays: Mapping[te.Tensor, np.ndarray], values: dict[x.Var, Any],
          kind: type[TensorCompiler]) -> list[np.ndarray]:  # fmt: skip
    compiler = kind(arrays)
    spatial, results = _domain(op.axis, values), _results(op, values, compiler)
    reduce, rank = _reduction(op), len(op.axis)
    slots = [compiler.define(a.var) for a in op.axis]
    _note_reach(compiler, op.axis, spatial)
    for variable in values:
        compiler.define(variable)
    if reduce is None:
        elements = [compiler.expr(b) for b in op.body]
    else:
        fold = _FoldAll(compiler, reduce, _domain(reduce.axes, values))
    env: Environment = [None] * compiler.size
    env[GRID] = ()
    for variable, value in values.items():
        env[compiler.slot(variable)] = value
    points = math.prod(map(len, spatial)) // POINTS_OF_A_STEP
    spend((1 + points) * (1 if reduce is None else fold.count))
    for box in _boxes([len(r) for r in spatial]):
        for axis, (slot, part, whole) in enumerate(zip(slots, box, spatial, strict=True)):
            along = np.arange(part.start, part.stop) + whole.start
            env[slot] = axis_values(0, along, axis, rank, op.axis[axis].var.dtype)
        values_of_axes = [f(env) for f in elements] if reduce is None else fold.run(env)
        for result, value in zip(results, _chosen(op, values_of_axes), strict=True):
            result[box] = value[..., 0] if type(value) is np.ndarray else value
    return results


def _boxes(shape: list[int]) -> Iterator[tuple[slice, ...]]:
    """Yield boxes of at most `POINTS` elements that cover the index space, in order."""
    if 0 in shape:
        return
    steps, room = [], POINTS
    for axis in range(len(shape)):
        rest = math.prod(shape[axis + 1 :])
        steps.append(max(1, min(shape[axis], room // rest)))
    ranges = [[slice(b, min(n, b + s)) for b in range(0, n, s)] for n, s in zip(shape, steps, strict=True)]
    yield from itertools.product(*ranges)


def _out_of_bounds(e: te.TensorLoad, point: tuple[int, ...], shape: tuple[int, ...]) -> ExecutionError:
    axis = next(k for k, (i, n) in enumerate(zip(point, shape, strict=False)) if not 0 <= i < n)
    return ExecutionError(
        f"out of bounds: {e} at index ({', '.join(map(str, point))})\n"
        f"  wanted: 0 <= {e.indices[axis]} < {shape[axis]} in dimension {axis} of {e.tensor.name}\n"
        f"  found:  {point[axis]}"
    )
