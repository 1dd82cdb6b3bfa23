"""Evaluate expressions at many points at once.

`GridCompiler` compiles an expression to a closure that evaluates it with NumPy at all points of a grid of loop
iterations. At each point the result has the same bits as that of `reference.scalar`. A value is either a single value,
the same at all points, or an array with one axis for each loop of the grid (of length 1 if the value does not depend on
that loop) and a last axis for the lanes of a vector. The environment's slot `MASK` holds the points that matter (None:
all). Results at other points are never used, and evaluation must not raise there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError

from ..meaning import operations
from ..meaning.index_arithmetic import is_sum, overflow
from ..meaning.intrinsics import VECTOR_REDUCTIONS, as_value, meaning
from ..meaning.scalar import _REDUCERS, Environment, Evaluate, ScalarCompiler, Value

MASK = 0  # slot of the mask: None or a bool array
GRID = 1  # slot of the grid's shape, lanes not included
RESERVED = 2


def narrowed(mask: Any, condition: np.ndarray) -> Any:
    """Return the points of a mask at which a condition also holds; None for all points, False for no point."""
    both = condition if mask is None else condition & mask
    if not both.any():
        return False
    return None if mask is None and both.all() else both


class GridCompiler(ScalarCompiler):
    """Compiles expressions to closures over arrays."""

    mask_slot = MASK

    def __init__(self, reserved: int = RESERVED) -> None:
        super().__init__(reserved)

    def _checked_sum(self, e: x.Expr, low: int, high: int) -> Evaluate:
        # A float64 sum is computed as well; it is accurate enough to tell whether the integer sum wrapped.
        wrapped, near = self._wrapped_sum(e), self._exact_sum(e)

        def evaluate(env: Environment) -> Value:
            value, size = wrapped(env), near(env)
            if type(size) is not np.ndarray:
                if low <= size <= high:
                    return value
                raise overflow(e, size)
            if size.size == 0 or (size.min() >= low and size.max() <= high):
                return value
            wrong = (size < low) | (size > high)
            needed = wrong if env[MASK] is None else wrong & env[MASK]
            if needed.any():
                raise overflow(e, int(np.broadcast_to(size, needed.shape)[needed].flat[0]))
            return value

        return evaluate

    def _exact_sum(self, e: Any) -> Evaluate:
        if is_sum(e):
            return super()._exact_sum(e)
        value = self.expr(e)

        def evaluate(env: Environment) -> Value:
            term = value(env)
            return term.astype(np.float64) if type(term) is np.ndarray else term

        return evaluate

    def _operation(self, e: x.BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
        on_arrays = operations.on_arrays(type(e), e.a.dtype)
        on_values = operations.on_values(type(e), e.a.dtype.scalar)

        def evaluate(env: Environment) -> Value:
            first, second = a(env), b(env)
            if type(first) is np.ndarray or type(second) is np.ndarray:
                return on_arrays(first, second, env[MASK])
            return on_values(first, second)

        return evaluate

    def _cast(self, e: x.Cast) -> Evaluate:
        value = self.expr(e.value)
        on_array = operations.cast_array(e.value.dtype, e.dtype)
        on_value = operations.cast_value(e.value.dtype.scalar, e.dtype.scalar)

        def evaluate(env: Environment) -> Value:
            operand = value(env)
            return on_array(operand, env[MASK]) if type(operand) is np.ndarray else on_value(operand)

        return evaluate

    def _and(self, e: x.And) -> Evaluate:
        a, b = self.expr(e.a), self.expr(e.b)

        def evaluate(env: Environment) -> Value:
            first = a(env)
            if type(first) is not np.ndarray:
                return b(env) if first else False
            return first & _where(env, first, b, False)

        return evaluate

    def _or(self, e: x.Or) -> Evaluate:
        a, b = self.expr(e.a), self.expr(e.b)

        def evaluate(env: Environment) -> Value:
            first = a(env)
            if type(first) is not np.ndarray:
                return True if first else b(env)
            return first | _where(env, ~first, b, False)

        return evaluate

    def _not(self, e: x.Not) -> Evaluate:
        a = self.expr(e.a)

        def evaluate(env: Environment) -> Value:
            value = a(env)
            return ~value if type(value) is np.ndarray else not value

        return evaluate

    def _select(self, e: x.Select) -> Evaluate:
        condition, yes, no = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        numpy = self.cells(e.dtype)

        def evaluate(env: Environment) -> Value:
            holds, first, second = condition(env), yes(env), no(env)
            if type(holds) is not np.ndarray:
                return first if holds else second
            return np.asarray(np.where(holds, first, second), numpy)

        return evaluate

    def _if_then_else(self, e: x.Call) -> Evaluate:
        condition, yes, no = (self.expr(a) for a in e.args)
        numpy = self.cells(e.dtype)
        zero = np.zeros((), numpy)[()]

        def evaluate(env: Environment) -> Value:
            holds = condition(env)
            if type(holds) is not np.ndarray:
                return yes(env) if holds else no(env)
            first, second = _where(env, holds, yes, zero), _where(env, ~holds, no, zero)
            return np.asarray(np.where(holds, first, second), numpy)

        return evaluate

    def _call(self, e: x.Call) -> Evaluate:
        plain = e.op in x.INTRINSICS and x.INTRINSICS[e.op].pure and e.op != "if_then_else"
        if not plain or e.op in VECTOR_REDUCTIONS:
            return super()._call(e)
        checked = self.index_sum(e)
        return self._function(e, [self.expr(a) for a in e.args]) if checked is None else checked

    def _function(self, e: x.Call, args: list[Evaluate]) -> Evaluate:
        function, dtype = meaning(e.op, e.dtype, e.args[0].dtype), e.dtype.scalar

        def evaluate(env: Environment) -> Value:
            values = [a(env) for a in args]
            if e.op.startswith("shift") and type(values[1]) is np.ndarray and env[MASK] is not None:
                values[1] = np.where(env[MASK], values[1], 0).astype(values[1].dtype)
            return as_value(function(*values), dtype)

        return evaluate

    def _vector_reduce(self, e: x.Call) -> Evaluate:
        vector, dtype = self.expr(e.args[0]), e.args[0].dtype
        kind = _REDUCERS[VECTOR_REDUCTIONS[e.op]]
        on_arrays, on_values = operations.on_arrays(kind, dtype), operations.on_values(kind, dtype.scalar)

        def evaluate(env: Environment) -> Value:
            value = vector(env)
            if type(value) is not np.ndarray:
                total = value
                for _ in range(dtype.lanes - 1):
                    total = on_values(total, value)
                return total
            lanes = spread(value, dtype.lanes)
            total = lanes[..., :1]
            for lane in range(1, dtype.lanes):
                total = on_arrays(total, lanes[..., lane : lane + 1], env[MASK])
            return total

        return evaluate

    def _ramp(self, e: x.Ramp) -> Evaluate:
        base, stride, numpy = self.expr(e.base), self.expr(e.stride), e.dtype.numpy
        steps = np.arange(e.lanes).astype(numpy)

        def evaluate(env: Environment) -> Value:
            return np.asarray(base(env), numpy) + steps * np.asarray(stride(env), numpy)

        return evaluate

    def _broadcast(self, e: x.Broadcast) -> Evaluate:
        value, inner, lanes = self.expr(e.value), e.value.dtype.lanes, e.lanes
        if inner == 1:
            return value  # one lane stands for all: NumPy repeats it where it meets a vector
        return lambda env: np.concatenate([spread(np.asarray(value(env)), inner)] * lanes, axis=-1)

    def _shuffle(self, e: x.Shuffle) -> Evaluate:
        vectors = list(zip(self.operands(e), (v.dtype.lanes for v in e.vectors), strict=True))
        indices, numpy = list(e.indices), self.cells(e.dtype)

        def evaluate(env: Environment) -> Value:
            outer = env[MASK]
            if outer is not None:  # the points at which any lane of the result matters
                env[MASK] = outer.any(axis=-1, keepdims=True)
            parts = [spread(np.atleast_1d(np.asarray(v(env), numpy)), lanes) for v, lanes in vectors]
            env[MASK] = outer
            around = np.broadcast_shapes(*(p.shape[:-1] for p in parts))
            joined = np.concatenate([np.broadcast_to(p, (*around, p.shape[-1])) for p in parts], axis=-1)
            return joined[..., indices]

        return evaluate


def spread(value: np.ndarray, lanes: int) -> np.ndarray:
    """Return the value with the axis of its lanes expanded to `lanes`."""
    return value if value.shape[-1] == lanes else np.broadcast_to(value, (*value.shape[:-1], lanes))


def _where(env: Environment, condition: np.ndarray, evaluate: Evaluate, otherwise: Value) -> Value:
    """Return `evaluate` at the points where the condition holds, and `otherwise` elsewhere."""
    outer = env[MASK]
    inner = narrowed(outer, condition)
    if inner is False:
        return otherwise
    env[MASK] = inner
    value = evaluate(env)
    env[MASK] = outer
    return value


def inside(index: Value, extent: int, mask: Any) -> tuple[Value, Any]:
    """Return an index clamped to its extent, and the mask of the points that matter where it is out of bounds, or
    None.
    """
    if type(index) is not np.ndarray:
        if 0 <= index < extent:
            return index, None
        return 0, np.ones(1, np.bool_) if mask is None else mask
    if index.size == 0 or (index.min() >= 0 and index.max() < extent):
        return index, None
    wrong = (index < 0) | (index >= extent)
    safe = np.where(wrong, 0, index)
    needed = wrong if mask is None else wrong & mask
    return safe, needed if needed.any() else None


def axis_values(first: Value, values: np.ndarray, axis: int, rank: int, dtype: x.DType) -> Value:
    """Return the values of a loop variable along its axis of a grid of `rank` loops."""
    shape = [1] * (rank + 1)
    shape[axis] = len(values)
    along = values.astype(dtype.numpy).reshape(shape)
    return along + np.asarray(first, dtype.numpy)


Refuse = Callable[[Environment, tuple[int, ...]], ExecutionError]
