"""Evaluate expressions in bound mode: floats are cells of `domains.bound_numbers`, and choices may be uncertain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import Unsupported

from ..fast.grid import MASK, GridCompiler, narrowed, spread
from ..meaning import operations
from ..meaning.intrinsics import VECTOR_REDUCTIONS
from ..meaning.scalar import Environment, Evaluate, Value
from . import bound_functions as functions
from . import bound_numbers as numbers
from .bound_numbers import CELL, Undecided, exact, format_of, is_cells

_ARITHMETIC: dict[type, Callable[..., Value]] = {
    x.Add: numbers.add,
    x.Sub: lambda a, b, f: numbers.add(a, b, f, -1.0),
    x.Mul: numbers.multiply,
    x.Div: numbers.divide,
    x.FloorDiv: numbers.floor_divide,
    x.Mod: lambda a, b, f: numbers.remainder(a, b, f, np.trunc),
    x.FloorMod: lambda a, b, f: numbers.remainder(a, b, f, np.floor),
    x.Min: functions.MINIMUM,
    x.Max: functions.MAXIMUM,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    x.EQ: np.equal, x.NE: np.not_equal, x.LT: np.less, x.LE: np.less_equal, x.GT: np.greater, x.GE: np.greater_equal,
}  # fmt: skip
_CLASSES: dict[str, Callable[[Any], Any]] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
Condition = Callable[[Environment], tuple[Value, Value]]  # what holds, and where that is not certain (None: nowhere)


class BoundCompiler(GridCompiler):
    """Compiles expressions so that floats are cells of `bound_numbers`. Integers are ordinary."""

    def cells(self, dtype: x.DType) -> np.dtype:
        return CELL if dtype.is_float else dtype.numpy

    def _constant(self, e: Any) -> Evaluate:
        plain = super()._constant(e)
        if not e.dtype.is_float:
            return plain
        value = exact(plain([]))
        return lambda env: value

    def _var(self, e: x.Var) -> Evaluate:
        slot = self.slot(e)
        if not e.dtype.is_float:
            return lambda env: env[slot]
        return lambda env: env[slot] if is_cells(env[slot]) else exact(env[slot])

    def _binary(self, e: x.BinaryOp) -> Evaluate:
        if not e.a.dtype.is_float:
            return super()._binary(e)
        if isinstance(e, x.CompareOp):
            return self._decided(e)
        function, f = _ARITHMETIC.get(type(e)), format_of(e.a.dtype)
        if function is None:
            raise Unsupported(f"bound mode: no error analysis for {type(e).__name__} on {e.a.dtype}")
        a, b = self.expr(e.a), self.expr(e.b)
        if isinstance(e, x.Add) and e.dtype.is_float and any(map(x.factors_of_words, (e.a, e.b))):
            # The dot-product instruction may also do this addition; it flushes both addends and the sum to zero.
            flush = functions.flushable
            return lambda env: flush(numbers.add(flush(a(env)), flush(b(env)), f))
        return lambda env: function(a(env), b(env), f)

    def _cast(self, e: x.Cast) -> Evaluate:
        source, target = e.value.dtype, e.dtype
        if not source.is_float and not target.is_float:
            return super()._cast(e)
        value = self.expr(e.value)
        if not source.is_float:
            convert = super()._cast(e)
            return lambda env: exact(convert(env))
        f = format_of(source)
        if target.is_float:
            g = format_of(target)
            return lambda env: numbers.converted(value(env), f, g)
        return self._to_integer(e, value, f)

    def _to_integer(self, e: x.Cast, value: Evaluate, f: numbers.Format) -> Evaluate:
        is_bool = e.dtype.is_bool
        on_array = operations.cast_array(x.DType("float64"), e.dtype.scalar)
        on_value = operations.cast_value(x.DType("float64"), e.dtype.scalar)

        def evaluate(env: Environment) -> Value:
            cells = value(env)
            number, error = cells["value"], numbers.error_of(cells, f)
            if is_bool:
                unsure = (error > 0) & (np.abs(number) <= error)
            else:
                unsure = (error > 0) & ~(np.trunc(number - error) == np.trunc(number + error))
            _refuse(env, unsure, e)
            return on_array(number, env[MASK]) if type(number) is np.ndarray else on_value(number)

        return evaluate

    # --- choices ---------------------------------------------------------------------------------------------------

    def condition(self, e: x.Expr) -> Condition:
        """Compile a condition to a function that returns whether it holds, and at which points this is uncertain."""
        if isinstance(e, x.CompareOp) and e.a.dtype.is_float:
            a, b, f, compare = self.expr(e.a), self.expr(e.b), format_of(e.a.dtype), _COMPARE[type(e)]

            def comparison(env: Environment) -> tuple[Value, Value]:
                first, second = a(env), b(env)
                return compare(first["value"], second["value"]), numbers.too_near(first, second, f)

            return comparison
        if isinstance(e, x.Call) and e.op in _CLASSES:
            value, f, test = self.expr(e.args[0]), format_of(e.args[0].dtype), _CLASSES[e.op]

            def classified(env: Environment) -> tuple[Value, Value]:
                cells = value(env)
                return test(cells["value"]), ~np.isfinite(numbers.error_of(cells, f))

            return classified
        if isinstance(e, x.Not) and _looks_at_floats(e):
            inner = self.condition(e.a)

            def negated(env: Environment) -> tuple[Value, Value]:
                holds, unsure = inner(env)
                return np.logical_not(holds), unsure

            return negated
        if isinstance(e, x.And | x.Or) and _looks_at_floats(e):
            return self._both(self.condition(e.a), self.condition(e.b), isinstance(e, x.And))
        plain = self.expr(e)
        return lambda env: (plain(env), None)

    def _both(self, a: Condition, b: Condition, conjunction: bool) -> Condition:
        """Combine two conditions by And or Or; the second one matters where the first does not decide."""

        def evaluate(env: Environment) -> tuple[Value, Value]:
            holds, unsure = a(env)
            maybe = np.asarray(holds if conjunction else np.logical_not(holds))
            if unsure is not None:
                maybe = maybe | unsure
            operand = _under(env, maybe, b)
            if operand is None:
                return holds, unsure
            other, open_ = operand
            joined = np.logical_and(holds, other) if conjunction else np.logical_or(holds, other)
            if unsure is None and open_ is None:
                return joined, None
            mine, theirs = (np.asarray(False) if u is None else u for u in (unsure, open_))
            # The result is certain where one operand alone decides.
            settled = (~mine & (~maybe)) | (~theirs & np.asarray(np.logical_not(other) if conjunction else other))
            return joined, (mine | theirs) & ~settled

        return evaluate

    def _decided(self, e: x.Expr) -> Evaluate:
        condition = self.condition(e)

        def evaluate(env: Environment) -> Value:
            holds, unsure = condition(env)
            _refuse(env, unsure, e)
            return holds if type(holds) is np.ndarray else bool(holds)

        return evaluate

    def _select(self, e: x.Select) -> Evaluate:
        if not e.dtype.is_float:
            return super()._select(e)
        condition, yes, no = self.condition(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        f = format_of(e.dtype)

        def evaluate(env: Environment) -> Value:
            holds, unsure = condition(env)
            return numbers.either(holds, unsure, yes(env), no(env), f)

        return evaluate

    def _if_then_else(self, e: x.Call) -> Evaluate:
        if not e.dtype.is_float:
            return super()._if_then_else(e)
        condition, yes, no = self.condition(e.args[0]), self.expr(e.args[1]), self.expr(e.args[2])
        f = format_of(e.dtype)

        def evaluate(env: Environment) -> Value:
            holds, unsure = condition(env)
            maybe = holds if unsure is None else holds | unsure
            perhaps_not = np.logical_not(holds) if unsure is None else np.logical_not(holds) | unsure
            first, second = _under(env, maybe, yes), _under(env, perhaps_not, no)
            if first is None or second is None:
                return second if first is None else first
            return numbers.either(holds, unsure, first, second, f)

        return evaluate

    # --- functions and vectors -------------------------------------------------------------------------------------

    def _call(self, e: x.Call) -> Evaluate:
        if e.op in _CLASSES and e.args[0].dtype.is_float:
            return self._decided(e)
        if e.op == "reinterpret" and (e.dtype.is_float or e.args[0].dtype.is_float):
            return self._reinterpret(e)
        if (
            not e.dtype.is_float
            or e.op == "if_then_else"
            or e.op in VECTOR_REDUCTIONS
            or e.op not in x.INTRINSICS
            or not x.INTRINSICS[e.op].pure
        ):
            return super()._call(e)
        args, f, name = [self.expr(a) for a in e.args], format_of(e.dtype), e.op
        return lambda env: functions.apply(name, [a(env) for a in args], f)

    def _reinterpret(self, e: x.Call) -> Evaluate:
        value, source, target = self.expr(e.args[0]), e.args[0].dtype, e.dtype

        def evaluate(env: Environment) -> Value:
            bits = value(env)
            if source.is_float:
                _refuse(env, numbers.error_of(bits, format_of(source)) > 0, e)
                bits = bits["value"]
            seen = np.asarray(bits).astype(source.numpy).view(target.numpy)
            return exact(seen) if target.is_float else seen[()] if seen.ndim else seen.item()

        return evaluate

    def _vector_reduce(self, e: x.Call) -> Evaluate:
        dtype = e.args[0].dtype
        if not dtype.is_float:
            return super()._vector_reduce(e)
        vector, f, kind = self.expr(e.args[0]), format_of(dtype), VECTOR_REDUCTIONS[e.op]
        step = {"mul": numbers.multiply, "min": functions.MINIMUM, "max": functions.MAXIMUM}.get(kind)

        def evaluate(env: Environment) -> Value:
            lanes = spread(np.atleast_1d(vector(env)), dtype.lanes)
            if step is None:
                return numbers.total(lanes, f)
            result = lanes[..., :1]
            for k in range(1, dtype.lanes):
                result = np.atleast_1d(step(result, lanes[..., k : k + 1], f))
            return result

        return evaluate


def _looks_at_floats(e: x.Expr) -> bool:
    return any(isinstance(n, x.Expr) and n.dtype.is_float for n in x.walk(e))


def _refuse(env: Environment, unsure: Value, e: x.Expr) -> None:
    """Raise `Undecided` if a point that matters is uncertain."""
    if unsure is None:
        return
    needed = unsure if env[MASK] is None else unsure & env[MASK]
    if np.any(needed):
        raise Undecided(f"bound mode: {e} is nearer to a tie than its error, and decides more than a float")


def _under(env: Environment, where: Value, evaluate: Callable[[Environment], Any]) -> Any:
    """Evaluate something at some points only; return None if there are none."""
    if type(where) is not np.ndarray or where.ndim == 0:
        return evaluate(env) if where else None
    outer = env[MASK]
    inner = narrowed(outer, where)
    if inner is False:
        return None
    env[MASK] = inner
    value = evaluate(env)
    env[MASK] = outer
    return value
