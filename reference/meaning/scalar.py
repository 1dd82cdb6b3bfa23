"""The meaning of expressions on single values, and of vector expressions lane by lane.

`ScalarCompiler` turns an expression into a Python closure over the environment, a list with one slot per variable, so
that a loop does not walk the tree again. Levels add their own nodes by overriding `load`. Single values are as in
`reference.meaning.operations`; a vector is a NumPy array with one element per lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InternalError, Unsupported

from ..domains.domain import Domain, stored
from . import operations
from .index_arithmetic import is_index_sum, is_sum, overflow, reach
from .intrinsics import VECTOR_REDUCTIONS, as_value, meaning

Value = Any
Environment = list[Any]
Evaluate = Callable[[Environment], Value]
Execute = Callable[[Environment], None]

_REDUCERS: dict[str, type] = {"add": x.Add, "mul": x.Mul, "min": x.Min, "max": x.Max}
ITERATION = 0  # slot of the parallel iteration that runs, for levels that have such; None outside of all
LANES = 1  # slot of the mask of the lanes that matter while a vector is computed; None: all
RESERVED = 2


class ScalarCompiler:
    """Compiles expressions; there is one instance per function, because it assigns the slots of the environment.

    `domain` gives floats another meaning (`reference.domains.domain`); None means ordinary numbers.
    """

    domain: Domain | None = None
    mask_slot = LANES
    checks_indices = True  # whether a sum of indices that leaves its dtype is an error; else it wraps

    def __init__(self, reserved: int = RESERVED) -> None:
        self.reach: dict[x.Var, int] = {}  # the largest magnitude of variables, where the program says it
        self.slots: dict[Any, int] = {}
        self.size = reserved
        self._handlers: dict[type, Callable[[Any], Evaluate]] = {
            x.Var: self._var, x.SizeVar: self._var, x.DataVar: self._var, x.IntImm: self._constant,
            x.FloatImm: self._constant, x.Cast: self._cast, x.And: self._and, x.Or: self._or, x.Not: self._not,
            x.Select: self._select,
            x.Let: self._let, x.Call: self._call, x.Ramp: self._ramp, x.Broadcast: self._broadcast,
            x.Shuffle: self._shuffle,
        }  # fmt: skip

    def define(self, key: Any) -> int:
        """Return the slot of a variable or buffer, a new one if it has none yet."""
        if key not in self.slots:
            self.slots[key] = self.size
            self.size += 1
        return self.slots[key]

    def slot(self, key: Any) -> int:
        """Return the slot of a variable or buffer; raises an error if it is used outside its scope."""
        if key not in self.slots:
            raise ExecutionError(f"{getattr(key, 'name', key)} is used where it has no value")
        return self.slots[key]

    def expr(self, e: x.Expr) -> Evaluate:
        """Return the closure that evaluates `e` in an environment."""
        handler = self._handlers.get(type(e))
        if handler is not None:
            return handler(e)
        if isinstance(e, x.BinaryOp):
            return self._binary(e)
        return self.load(e)

    def cells(self, dtype: x.DType) -> np.dtype:
        """Return the NumPy dtype that stores values of a dtype; compilers with another meaning of values override
        it.
        """
        return stored(self.domain, dtype)

    def load(self, e: x.Expr) -> Evaluate:
        """Compile an expression that only one level has; levels override this."""
        raise Unsupported(f"the reference interpreter has no meaning for {type(e).__name__}: {e}")

    def picked(self, e: x.Expr, lanes: np.ndarray) -> Evaluate:
        """Compile a vector of which only some lanes are used; levels with memory need not read the others."""
        return self.expr(e)

    def operation(self, name: str, dtype: x.DType, evaluate: Evaluate) -> Evaluate:
        """Wrap the closure of an arithmetic operation; levels override this to report operations to listeners."""
        return evaluate

    def _var(self, e: x.Var) -> Evaluate:
        slot = self.slot(e)
        return lambda env: env[slot]

    def _constant(self, e: Any) -> Evaluate:
        value = operations.constant(e)
        return lambda env: value

    def index_sum(self, e: x.Expr) -> Evaluate | None:
        """Return the closure of a sum of indices that might overflow its dtype; None for other expressions."""
        if not (self.checks_indices and is_sum(e)) or not is_index_sum(e):
            return None
        low, high = int(e.dtype.min), int(e.dtype.max)
        most = reach(e, self.reach)
        return None if most is not None and most <= high else self._checked_sum(e, low, high)

    def _checked_sum(self, e: x.Expr, low: int, high: int) -> Evaluate:
        exact = self._exact_sum(e)

        def evaluate(env: Environment) -> int:
            value: int = exact(env)
            if low <= value <= high:
                return value
            raise overflow(e, value)

        return evaluate

    def _exact_sum(self, e: Any) -> Evaluate:
        """Compile the same sum with Python integers."""
        if not is_sum(e):
            return self.expr(e)
        if isinstance(e, x.Call):
            shifted, factor = self._exact_sum(e.args[0]), 1 << e.args[1].value  # type: ignore[attr-defined]
            return self.operation(e.op, e.dtype, lambda env: shifted(env) * factor)
        a, b = self._exact_sum(e.a), self._exact_sum(e.b)
        return self.operation(type(e).__name__.lower(), e.dtype, _EXACT[type(e)](a, b))

    def _wrapped_sum(self, e: Any) -> Evaluate:
        """Compile a sum that wraps, and the sums inside it: if one of them contains data, all count as data."""
        if not is_sum(e):
            return self.expr(e)
        if isinstance(e, x.Call):
            return self._function(e, [self._wrapped_sum(e.args[0]), self.expr(e.args[1])])
        return self._operation(e, self._wrapped_sum(e.a), self._wrapped_sum(e.b))

    def _binary(self, e: x.BinaryOp) -> Evaluate:
        checked = self.index_sum(e)
        if checked is not None:
            return checked
        return self._wrapped_sum(e) if is_sum(e) else self._operation(e, self.expr(e.a), self.expr(e.b))

    def _operation(self, e: x.BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
        kind, dtype = type(e), e.a.dtype
        if dtype.lanes > 1:
            function = operations.on_arrays(kind, dtype)
            evaluate: Evaluate = lambda env: function(a(env), b(env), env[LANES])  # noqa: E731
        elif dtype.is_float and kind in (x.Add, x.Sub, x.Mul):
            evaluate = _FLOAT_FORMS[kind](a, b)
        elif dtype.is_int and dtype.kind == "int" and kind in (x.Add, x.Sub, x.Mul):
            evaluate = _INTEGER_FORMS[kind](a, b, int(dtype.min), int(dtype.max), operations.wrapping(dtype))
        else:
            apply = operations.on_values(kind, dtype)
            evaluate = lambda env: apply(a(env), b(env))  # noqa: E731
        return self.operation(kind.__name__.lower(), dtype, evaluate)

    def _cast(self, e: x.Cast) -> Evaluate:
        value = self.expr(e.value)
        if e.dtype.lanes > 1:
            convert = operations.cast_array(e.value.dtype, e.dtype)
            return lambda env: convert(value(env), env[LANES])
        single = operations.cast_value(e.value.dtype, e.dtype)
        return lambda env: single(value(env))

    def _and(self, e: x.And) -> Evaluate:
        a, b = self.expr(e.a), self.expr(e.b)
        if e.dtype.lanes > 1:
            return lambda env: _guarded_and(env, a(env), b)
        return lambda env: bool(a(env)) and bool(b(env))

    def _or(self, e: x.Or) -> Evaluate:
        a, b = self.expr(e.a), self.expr(e.b)
        if e.dtype.lanes > 1:
            return lambda env: ~_guarded_and(env, ~(first := a(env)), lambda inner: ~b(inner)) | first
        return lambda env: bool(a(env)) or bool(b(env))

    def _not(self, e: x.Not) -> Evaluate:
        a = self.expr(e.a)
        if e.dtype.lanes > 1:
            return lambda env: np.logical_not(a(env))
        return lambda env: not a(env)

    def _select(self, e: x.Select) -> Evaluate:
        # Select evaluates both sides, as hardware does; if_then_else is the one that guards.
        condition, yes, no = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        if e.dtype.lanes > 1:
            return lambda env: np.where(condition(env), yes(env), no(env))

        def evaluate(env: Environment) -> Value:
            first, second = yes(env), no(env)
            return first if condition(env) else second

        return evaluate

    def _let(self, e: x.Let) -> Evaluate:
        value = self.expr(e.value)
        slot = self.define(e.var)
        body = self.expr(e.body)

        def evaluate(env: Environment) -> Value:
            env[slot] = value(env)
            return body(env)

        return evaluate

    def _call(self, e: x.Call) -> Evaluate:
        if e.op == "if_then_else":
            return self._if_then_else(e)
        if e.op in VECTOR_REDUCTIONS:
            return self._vector_reduce(e)
        checked = self.index_sum(e)
        if checked is not None:
            return checked
        if e.op not in x.INTRINSICS or not x.INTRINSICS[e.op].pure:
            return self.opaque(e)
        return self._function(e, [self.expr(a) for a in e.args])

    def _function(self, e: x.Call, args: list[Evaluate]) -> Evaluate:
        function = meaning(e.op, e.dtype, e.args[0].dtype)
        dtype = e.dtype
        if dtype.is_bool:
            return lambda env: as_value(function(*[a(env) for a in args]), dtype)
        return self.operation(e.op, dtype, lambda env: function(*[a(env) for a in args]))

    def opaque(self, e: x.Call) -> Evaluate:
        """Compile a call that depends on more than its arguments; levels that have such calls override this."""
        raise Unsupported(f"the reference interpreter has no meaning for the call {e}")

    def _if_then_else(self, e: x.Call) -> Evaluate:
        condition, yes, no = (self.expr(a) for a in e.args)
        if e.args[0].dtype.lanes > 1:
            return self._choose_lanes(condition, yes, no)
        return lambda env: yes(env) if condition(env) else no(env)

    def _choose_lanes(self, condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
        """Compile a choice lane by lane: neither side is evaluated in lanes where the other one is chosen."""

        def evaluate(env: Environment) -> Value:
            holds = condition(env)
            first, second = _on_lanes(env, holds, yes), _on_lanes(env, ~holds, no)
            if first is None or second is None:
                return second if first is None else first
            return np.where(holds, first, second)

        return evaluate

    def _vector_reduce(self, e: x.Call) -> Evaluate:
        # Go from the first lane to the last: for floats, the order is part of the meaning.
        vector, dtype = self.expr(e.args[0]), e.args[0].dtype
        apply = operations.on_values(_REDUCERS[VECTOR_REDUCTIONS[e.op]], dtype.scalar)

        def evaluate(env: Environment) -> Value:
            lanes = [as_value(lane, dtype.scalar) for lane in vector(env)]
            total = lanes[0]
            for lane in lanes[1:]:
                total = apply(total, lane)
            return total

        return evaluate

    def _ramp(self, e: x.Ramp) -> Evaluate:
        base, stride, numpy = self.expr(e.base), self.expr(e.stride), e.dtype.numpy
        if e.base.dtype.lanes > 1:
            raise Unsupported(f"a ramp of vectors: {e}")
        steps = np.arange(e.lanes).astype(numpy)
        return lambda env: numpy.type(base(env)) + steps * numpy.type(stride(env))

    def _broadcast(self, e: x.Broadcast) -> Evaluate:
        value, numpy, lanes, inner = self.expr(e.value), self.cells(e.dtype), e.lanes, e.value.dtype.lanes
        if inner > 1:
            return lambda env: np.tile(value(env), lanes)
        return lambda env: np.full(lanes, value(env), numpy)

    def operands(self, e: x.Shuffle) -> list[Evaluate]:
        """Return the vectors of a shuffle, each compiled for the lanes that are picked from it.

        A load in a shuffle reads the elements of those lanes. The elements of the other lanes must be inside the
        buffer, because hardware accesses them, but they may be unwritten, or belong to another iteration: their values
        are not used.
        """
        lanes = [v.dtype.lanes for v in e.vectors]
        used = np.zeros(sum(lanes), np.bool_)
        if not all(0 <= i < len(used) for i in e.indices):
            raise InternalError(f"{e}: a lane outside the {len(used)} that there are")
        used[list(e.indices)] = True
        return [self.picked(v, own) for v, own in zip(e.vectors, np.split(used, np.cumsum(lanes)[:-1]), strict=True)]

    def _shuffle(self, e: x.Shuffle) -> Evaluate:
        vectors, indices, dtype, numpy = self.operands(e), list(e.indices), e.dtype, self.cells(e.dtype)

        def evaluate(env: Environment) -> Value:
            outer, env[LANES] = env[LANES], None  # that mask is of the lanes of the result
            joined = np.concatenate([np.atleast_1d(v(env)) for v in vectors])
            env[LANES] = outer
            return joined[indices].astype(numpy) if len(indices) > 1 else as_value(joined[indices[0]], dtype)

        return evaluate


def _on_lanes(env: Environment, lanes: np.ndarray, evaluate: Evaluate) -> Value | None:
    """Evaluate a vector for some lanes only; return None if there are none."""
    outer = env[LANES]
    needed = lanes if outer is None else lanes & outer
    if not needed.any():
        return None
    env[LANES] = needed
    value = evaluate(env)
    env[LANES] = outer
    return value


def _guarded_and(env: Environment, first: np.ndarray, second: Evaluate) -> np.ndarray:
    other = _on_lanes(env, first, second)
    return np.zeros_like(first) if other is None else np.asarray(first & other)


_EXACT: dict[type, Callable[[Evaluate, Evaluate], Evaluate]] = {
    x.Add: lambda a, b: lambda env: a(env) + b(env),
    x.Sub: lambda a, b: lambda env: a(env) - b(env),
    x.Mul: lambda a, b: lambda env: a(env) * b(env),
}
_FLOAT_FORMS = _EXACT


def _add(a: Evaluate, b: Evaluate, low: int, high: int, wrap: Callable[[int], int]) -> Evaluate:
    def evaluate(env: Environment) -> int:
        v = a(env) + b(env)
        return v if low <= v <= high else wrap(v)

    return evaluate


def _sub(a: Evaluate, b: Evaluate, low: int, high: int, wrap: Callable[[int], int]) -> Evaluate:
    def evaluate(env: Environment) -> int:
        v = a(env) - b(env)
        return v if low <= v <= high else wrap(v)

    return evaluate


def _mul(a: Evaluate, b: Evaluate, low: int, high: int, wrap: Callable[[int], int]) -> Evaluate:
    def evaluate(env: Environment) -> int:
        v = a(env) * b(env)
        return v if low <= v <= high else wrap(v)

    return evaluate


_INTEGER_FORMS: dict[type, Callable[..., Evaluate]] = {x.Add: _add, x.Sub: _sub, x.Mul: _mul}


def evaluate(e: x.Expr, values: dict[x.Var, Value] | None = None) -> Value:
    """Return the value of an expression without loads, given its free variables."""
    if isinstance(e, x.IntImm):
        return operations.constant(e)
    compiler = ScalarCompiler()
    bindings = dict(values or {})
    for var in bindings:
        compiler.define(var)
    run = compiler.expr(e)
    env: Environment = [None] * compiler.size
    for var, value in bindings.items():
        env[compiler.slot(var)] = value
    with np.errstate(all="ignore"):
        return run(env)
