"""`Analyzer`: simplification, bounds and proofs about scalar expressions under the ranges of their variables.

    analyzer = Analyzer()
    analyzer.bind(i, 16)                                  # 0 <= i < 16; also Range, (low, high) inclusive
    analyzer.simplify((j * 16 + i) // 16)                 # j
    with analyzer.constraint(j < 3):
        analyzer.can_prove(j * 16 + i < 48)               # True

This follows TVM's `arith::Analyzer`. A proof is never wrong, but may not be found. int32 and int64 are index dtypes:
sums of indices do not overflow (see `normal`). Data and other integers wrap and floats round, so they are only
simplified in ways that preserve every value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import gcd
from typing import Any, Protocol
from weakref import ref

from .. import expr as ex
from ..errors import InternalError, TypeMismatch
from ..expr.node import kept_with_node
from . import fold, rules
from .affine import FLOORDIV, OPAQUE, Affine, Atom, term_variables
from .domain import UNKNOWN, Domain, Interval
from .normal import Normalizer, TooWide, imm, is_index_dtype

_ARITHMETIC = (ex.Add, ex.Sub, ex.Mul, ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod, ex.Min, ex.Max)
_TRUE, _FALSE = ex.IntImm(1, "bool"), ex.IntImm(0, "bool")  # type: ignore[arg-type]
_MEMO_LIMIT = 20_000


class Loop(Protocol):
    """A loop whose variable runs over the `extent` values from `start` on."""

    @property
    def var(self) -> ex.Var: ...
    @property
    def start(self) -> ex.Expr: ...
    @property
    def extent(self) -> ex.Expr: ...


class Analyzer:
    """A prover and simplifier for integer expressions, given the ranges of variables and further constraints.

    Variables that are bound earlier count as outer variables.
    """

    def __init__(self, ranges: Mapping[Any, Any] | None = None) -> None:
        self._domain = Domain()
        self._memo: dict[ex.Expr, ex.Expr] = {}
        self._normal = Normalizer(self._domain, ref(self))
        for var, values in (ranges or {}).items():
            self.bind(var, values)

    @classmethod
    def inside(cls, *around: Loop | ex.IterVar) -> Analyzer:
        """Return an analyzer for code inside the loops and blocks `around`, which are listed outermost first."""
        analyzer = cls()
        for each in around:
            analyzer.bind(each)
        return analyzer

    # -- what is known ----------------------------------------------------------------------------------------------

    def bind(
        self, var: ex.Var | ex.IterVar | Loop, values: ex.Range | tuple[Any, Any] | ex.IterVar | Any = None
    ) -> None:
        """Set the range of a variable: a `Range`, an inclusive pair (low, high), or an extent n for [0, n).

        The ends of a pair may be None. A loop and an `IterVar` have their own domains. Binding a variable again
        replaces its range. A symbolic range keeps its bounds as expressions.
        """
        if isinstance(var, ex.IterVar):
            values = var.dom if values is None else values
            var = var.var
        elif not isinstance(var, ex.Var):
            values = ex.Range(var.start, var.extent)
            var = var.var
        if isinstance(values, ex.IterVar):
            values = values.dom
        if values is None:
            raise TypeMismatch(f"bind({var.name}): wanted a Range, an extent or (low, high), found nothing")
        domain = self._domain
        domain.order.pop(var, None)
        domain.order[var] = next(reversed(domain.order.values()), -1) + 1
        domain.ranges.pop(var, None)
        domain.symbolic.pop(var, None)
        if isinstance(values, tuple):
            low, high = (self._end(v) for v in values)
        else:
            r = values if isinstance(values, ex.Range) else ex.Range.of(values)
            if isinstance(r.start, ex.IntImm) and isinstance(r.extent, ex.IntImm):  # most loops
                least = 0 if isinstance(var, ex.SizeVar) else r.start.value
                domain.ranges[var] = max(r.start.value, least), r.start.value + r.extent.value - 1
                self._forget()
                return
            start = self._normal.exact(r.start)
            low, high = start, start + self._normal.exact(r.extent) - 1
        self._forget()
        interval = (
            None if low is None else domain.bounds(low)[0],
            None if high is None else domain.bounds(high)[1],
        )
        if isinstance(var, ex.SizeVar):
            interval = (max(interval[0] or 0, 0), interval[1])
        domain.ranges[var] = interval
        symbols = tuple(end if end is not None and not end.is_const else None for end in (low, high))
        if symbols != (None, None):
            domain.symbolic[var] = symbols  # type: ignore[assignment]
        self._forget()

    def _end(self, value: Any) -> Affine | None:
        if isinstance(value, int) and value.bit_length() > 63:
            return None  # an end of uint64: no index dtype can hold it, and an open end is still correct
        return None if value is None else self._normal.exact(ex.as_expr(value))

    def bind_value(self, var: ex.Var, value: ex.Expr) -> None:
        """Set the range of a variable to the bounds on an expression, as for the variable of a `Let`."""
        self.bind(var, self.bounds(value))

    @contextmanager
    def constraint(self, *conditions: ex.Expr) -> Iterator[None]:
        """Within this scope, assume that the conditions hold: ranges become narrower and facts are added."""
        saved = self._domain, self._normal, self._memo
        self._domain = self._domain.copy()
        self._normal = Normalizer(self._domain, ref(self))
        self._memo = {}
        try:
            self.assume(*conditions)
            yield
        finally:
            self._domain, self._normal, self._memo = saved

    def assume(self, *conditions: ex.Expr) -> None:
        """Assume that these conditions hold until the innermost `constraint` scope ends."""
        for condition in conditions:
            self._assume(condition, True)

    def _forget(self) -> None:
        self._domain.forget_derived()
        self._normal.memo.clear()
        self._memo.clear()

    def _assume(self, condition: ex.Expr, holds: bool) -> None:
        if isinstance(condition, ex.Not):
            return self._assume(condition.a, not holds)
        if isinstance(condition, ex.Call) and condition.op == "likely":
            return self._assume(condition.args[0], holds)
        if isinstance(condition, ex.And if holds else ex.Or):
            self._assume(condition.a, holds)
            return self._assume(condition.b, holds)
        if not isinstance(condition, ex.CompareOp) or not is_index_dtype(condition.a.dtype):
            return None
        kind = type(condition) if holds else _NEGATED[type(condition)]
        # A sum of data that may wrap is one term, its wrapped value: the fact is about that number.
        x, y = self._normal.exact(condition.a), self._normal.exact(condition.b)
        if kind in (ex.LT, ex.LE, ex.EQ):
            self._assume_nonnegative(y - x - (1 if kind is ex.LT else 0))
        if kind in (ex.GT, ex.GE, ex.EQ):
            self._assume_nonnegative(x - y - (1 if kind is ex.GT else 0))
        if kind is ex.NE:
            self._assume_nonzero(x - y)
        return self._forget()

    def _assume_nonnegative(self, f: Affine) -> None:
        f = rules.tighten(self._domain, f)
        if not f.terms or self._domain.nonnegative(f):
            return
        self._domain.facts.append(f)
        for _ in range(3):  # facts affect each other's terms; more rounds are rarely needed for a fixed point
            if not any(list(map(self._propagate, self._domain.facts))):
                break
        self._domain.forget_derived()

    def _propagate(self, fact: Affine) -> bool:
        """Use a fact to narrow ranges; return whether a range changed.

        From c*t + rest >= 0 follows t >= -max(rest)/c for c > 0, and t <= max(rest)/-c for c < 0.
        """
        narrowed = False
        for term, c in fact.terms.items():
            highest = self._domain.interval(fact.without(term))[1]
            if highest is None:
                continue
            bound: Interval = (-(highest // c), None) if c > 0 else (None, highest // -c)
            narrowed |= self._domain.narrow(term, bound)
            if isinstance(term, Atom) and term.kind == FLOORDIV and term.args[1].is_const:
                narrowed |= self._narrow_dividend(term)
        return narrowed

    def _narrow_dividend(self, quotient: Atom) -> bool:
        """Use the range of a quotient to narrow the range of its dividend; return whether that range changed.

        From a <= t // d <= b follows a*d <= t <= b*d + d - 1, for a single term t.
        """
        t, d = quotient.args[0].single, quotient.args[1].const
        if t is None or d <= 0:
            return False
        low, high = self._domain.ranges.get(quotient, UNKNOWN)
        return self._domain.narrow(t, (None if low is None else low * d, None if high is None else high * d + d - 1))

    def _assume_nonzero(self, f: Affine) -> None:
        low, high = self._domain.interval(f)
        if low == 0:
            self._assume_nonnegative(f - 1)
        elif high == 0:
            self._assume_nonnegative(-f - 1)

    @property
    def domain(self) -> Domain:
        """The current ranges and facts, for the other modules of arith."""
        return self._domain

    def normal_form(self, e: ex.Expr) -> Affine | None:
        """Return an index expression as a sum of terms, or None if it has another dtype or contains data that may
        wrap.
        """
        if not is_index_dtype(e.dtype):
            return None
        x = self._normal.affine(e)
        return None if self._normal.may_wrap(x, e.dtype) else x

    def affine(self, e: ex.Expr) -> Affine:
        """Return an integer expression as a sum of terms, even if it contains data that may wrap.

        You may use the sum to rearrange the expression, but not to bound its value.
        """
        if not is_index_dtype(e.dtype):
            return Affine({}, e.value) if isinstance(e, ex.IntImm) else Affine.of(Atom(OPAQUE, (e,)))
        return self._normal.affine(e)

    def to_expr(self, x: Affine, dtype: Any) -> ex.Expr:
        """Convert a normal form back to an expression of dtype `dtype`.

        Raises `InternalError` if the sum does not even fit in int64.
        """
        x = self._fixed(x)
        try:
            return self._normal.expr(x, dtype)
        except TooWide:
            if dtype == "int64":
                raise InternalError(f"an index expression that int64 does not hold: {x}") from None
            return ex.Cast(ex.DType(dtype), self.to_expr(x, ex.DType("int64")))

    def _written(self, x: Affine, e: ex.Expr) -> ex.Expr:
        """Return the normal form of `e` as an expression, or `e` itself if the form does not fit in its dtype.

        In the second case, the operands of `e` stay unchanged too. If an operand `A[i] - A[i]` became 0, the sum would
        no longer contain data, and minitvm would assume that it cannot wrap.
        """
        try:
            return self._normal.expr(x, e.dtype)
        except TooWide:
            return e

    def _side(self, x: Affine, dtype: Any) -> ex.Expr:
        """Return one side of a comparison as an expression.

        Raises `TooWide` if the sum may wrap, because a wrapped sum is not the number that was compared.
        """
        if self._normal.may_wrap(x, dtype):
            raise TooWide
        return self._normal.expr(x, dtype)

    # -- questions --------------------------------------------------------------------------------------------------

    def bounds(self, e: Any) -> Interval:
        """Return (low, high), the inclusive bounds on an integer expression. An end is None if it is not known."""
        e = ex.as_expr(e)
        if isinstance(e, ex.IntImm):
            return e.value, e.value
        if e.dtype.is_bool:
            value = self.simplify(e)
            return (value.value, value.value) if isinstance(value, ex.IntImm) else (0, 1)
        if not is_index_dtype(e.dtype):
            if not e.dtype.is_int:
                return UNKNOWN
            value = self.simplify(e)
            return (value.value, value.value) if isinstance(value, ex.IntImm) else (int(e.dtype.min), int(e.dtype.max))
        x = self._normal.affine(e)
        return UNKNOWN if self._normal.may_wrap(x, e.dtype) else self._domain.bounds(x)

    def can_prove(self, condition: Any) -> bool:
        """Return whether a bool expression is proved to hold for all values in range.

        False only means that no proof was found.
        """
        e = ex.as_expr(condition)
        if isinstance(e, ex.And):
            return self.can_prove(e.a) and self.can_prove(e.b)
        value = self.simplify(e)
        return isinstance(value, ex.IntImm) and value.value != 0

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Return whether two integer expressions are proved equal for all values in range."""
        x, y = ex.as_expr(a), ex.as_expr(b)
        if is_index_dtype(x.dtype) and is_index_dtype(y.dtype):
            f, g = self._normal.affine(x), self._normal.affine(y)
            # Equal sums of data are also equal after wrapping, but not in two dtypes, in which they wrap differently.
            wraps = x.dtype != y.dtype and (self._normal.may_wrap(f, x.dtype) or self._normal.may_wrap(g, y.dtype))
            return (f == g and not wraps) or self.can_prove(
                ex.EQ(x.astype("int64"), y.astype("int64")) if x.dtype != y.dtype else ex.EQ(x, y)
            )
        return self.can_prove(x == y)

    def can_prove_nonnegative(self, e: Any) -> bool:
        """Return whether e >= 0 can be proved."""
        value = ex.as_expr(e)
        return self.can_prove(value >= ex.const(0, value.dtype))

    def modular(self, e: Any) -> tuple[int, int]:
        """Return (coefficient, base) such that e is always equal to base modulo coefficient.

        A coefficient of 0 means that e equals base; (1, 0) means that nothing is known.
        """
        e = ex.as_expr(e)
        x = self._normal.affine(e)
        coefficient = 1 << e.dtype.bits if self._normal.may_wrap(x, e.dtype) else 0
        for term, c in x.terms.items():
            step, base = self._term_modular(term)
            coefficient = gcd(coefficient, c * step)
            x = Affine(x.terms, x.const + c * base)
        return coefficient, x.const % coefficient if coefficient else x.const

    def _term_modular(self, term: Any) -> tuple[int, int]:
        low, high = self._domain.term_interval(term)
        return (0, low) if low is not None and low == high else (1, 0)

    # -- simplification ---------------------------------------------------------------------------------------------

    def simplify(self, e: Any) -> Any:
        """Return a simpler expression that is equal to `e`, or `e` itself if there is none.

        The parts of a `Range` are simplified separately.
        """
        if isinstance(e, ex.Range | ex.IterVar):
            return ex.map_children(e, self.simplify)
        if not isinstance(e, ex.Expr):
            e = ex.as_expr(e)
        kind = type(e)
        if kind is ex.IntImm:
            return e
        simpler = self._memo.get(e)
        if simpler is None:
            simpler = self._simplify(e)
            if simpler is not e and _alike(simpler, e):
                simpler = e
            if len(self._memo) > _MEMO_LIMIT:
                self._memo.clear()
            self._memo[e] = simpler
        return simpler

    def _simplify(self, e: ex.Expr) -> ex.Expr:
        if isinstance(e, (*_ARITHMETIC, ex.Var)):
            if is_index_dtype(e.dtype):
                return self._written(self._fixed(self._normal.affine(e)), e)
            return e if isinstance(e, ex.Var) else fold.arithmetic(ex.map_children(e, self.simplify))
        if isinstance(e, ex.CompareOp):
            return self._compare(e)
        if isinstance(e, ex.And | ex.Or):
            return self._logical(e)
        if isinstance(e, ex.Not):
            return self._not(e)
        if isinstance(e, ex.Select):
            return self._select(e)
        if isinstance(e, ex.Call):
            return self._call(e)
        if isinstance(e, ex.Let):
            return self._let(e)
        if isinstance(e, ex.Cast):
            return self._cast(e)
        return ex.map_children(e, lambda c: self.simplify(c) if isinstance(c, ex.Expr | ex.Range | ex.IterVar) else c)

    def _fixed(self, x: Affine) -> Affine:
        """Replace every term that has only one possible value with that value."""
        changed = False
        terms, constant = dict(x.terms), x.const
        for term, c in x.terms.items():
            low, high = self._domain.term_interval(term)
            if low is not None and low == high:
                del terms[term]
                constant += c * low
                changed = True
        return Affine(terms, constant) if changed else x

    def _compare(self, e: ex.CompareOp) -> ex.Expr:
        if not is_index_dtype(e.a.dtype):
            return fold.compare(ex.map_children(e, self.simplify))
        x, y = self._normal.affine(e.a), self._normal.affine(e.b)
        if self._normal.may_wrap(x, e.a.dtype) or self._normal.may_wrap(y, e.a.dtype):
            if x == y:
                return _TRUE if isinstance(e, ex.EQ | ex.LE | ex.GE) else _FALSE
            decided = self._decided_as_numbers(e)
            return ex.map_children(e, self.simplify) if decided is None else decided
        try:
            return self._decided(e, x, y)
        except TooWide:
            return e

    def _decided_as_numbers(self, e: ex.CompareOp) -> ex.Expr | None:
        """Decide a comparison of two sums that contain data and may wrap, by bounding the wrapped values themselves.

        Returns None if the bounds do not decide it.
        """
        if not isinstance(e, ex.LT | ex.LE | ex.GT | ex.GE):
            return None
        x, y = self._normal.exact(e.a), self._normal.exact(e.b)
        if isinstance(e, ex.GT | ex.GE):
            x, y = y, x
        f = y - x - (1 if isinstance(e, ex.LT | ex.GT) else 0)
        return _TRUE if self._domain.nonnegative(f) else _FALSE if self._domain.nonnegative(-f - 1) else None

    def _decided(self, e: ex.CompareOp, x: Affine, y: Affine) -> ex.Expr:
        if isinstance(e, ex.EQ | ex.NE):
            return self._equality(e, x - y)
        if isinstance(e, ex.GT | ex.GE):
            x, y = y, x
        f = y - x - (1 if isinstance(e, ex.LT | ex.GT) else 0)
        f = self._fixed(rules.tighten(self._domain, self._merged(f)))
        if self._domain.nonnegative(f):
            return _TRUE
        if self._domain.nonnegative(-f - 1):
            return _FALSE
        return self._inequality(f, e.a.dtype)

    def _merged(self, x: Affine) -> Affine:
        return rules.merge_splits(self._domain, x) if len(x.terms) > 1 else x

    def _inequality(self, f: Affine, dtype: Any) -> ex.Expr:
        """Return the condition f >= 0 in its usual written form, with only positive terms on either side."""
        positive = Affine({t: c for t, c in f.terms.items() if c > 0})
        negative = Affine({t: -c for t, c in f.terms.items() if c < 0})
        build = self._side
        if not negative.terms:
            return ex.GE(build(positive, dtype), imm(-f.const, dtype))
        if not positive.terms:
            return ex.LT(build(negative, dtype), imm(f.const + 1, dtype))
        if f.const >= 0:
            return ex.LE(build(negative, dtype), build(positive + f.const, dtype))
        return ex.LT(build(negative - (f.const + 1), dtype), build(positive, dtype))

    def _equality(self, e: ex.CompareOp, f: Affine) -> ex.Expr:
        f = self._fixed(self._merged(f))
        equal, unequal = (_TRUE, _FALSE) if isinstance(e, ex.EQ) else (_FALSE, _TRUE)
        step = f.content()
        if step and f.const % step:
            return unequal
        if not f.terms:
            return equal if f.const == 0 else unequal
        f = f.divided(step)
        low, high = self._domain.bounds(f)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return unequal
        above, below = self._domain.nonnegative(f), self._domain.nonnegative(-f)
        if above and below:
            return equal
        if (above and self._domain.nonnegative(f - 1)) or (below and self._domain.nonnegative(-f - 1)):
            return unequal
        positive = Affine({t: c for t, c in f.terms.items() if c > 0})
        negative = Affine({t: -c for t, c in f.terms.items() if c < 0})
        left, right = (positive, negative - f.const) if positive.terms else (negative, Affine({}, f.const))
        return type(e)(self._side(left, e.a.dtype), self._side(right, e.a.dtype))

    def _logical(self, e: ex.And | ex.Or) -> ex.Expr:
        a = self.simplify(e.a)
        decisive = isinstance(e, ex.Or)
        if isinstance(a, ex.IntImm):
            return a if bool(a.value) == decisive else self.simplify(e.b)
        with self.constraint(ex.Not(a) if decisive else a):
            b = self.simplify(e.b)
        if isinstance(b, ex.IntImm):
            # `a and False` is False, `a or True` True: a is pure, as every expression here is.
            return b if bool(b.value) == decisive else a
        return type(e)(a, b)

    def _not(self, e: ex.Not) -> ex.Expr:
        a = self.simplify(e.a)
        if isinstance(a, ex.IntImm):
            return _FALSE if a.value else _TRUE
        if isinstance(a, ex.Not):
            return a.a
        if isinstance(a, ex.CompareOp) and (not a.a.dtype.is_float or isinstance(a, ex.EQ | ex.NE)):
            return self.simplify(_NEGATED[type(a)](a.a, a.b))
        return ex.Not(a)

    def _select(self, e: ex.Select) -> ex.Expr:
        # Both sides are evaluated, so neither may be simplified under the condition: it might guard a load.
        condition = self.simplify(e.condition)
        if isinstance(condition, ex.IntImm):
            return self.simplify(e.true_value if condition.value else e.false_value)
        true, false = self.simplify(e.true_value), self.simplify(e.false_value)
        return true if _alike(true, false) else ex.Select(condition, true, false)

    def _call(self, e: ex.Call) -> ex.Expr:
        if e.op == "if_then_else":
            return self._if_then_else(e)
        if e.op == "likely":
            value = self.simplify(e.args[0])
            return value if isinstance(value, ex.IntImm) else ex.Call(e.dtype, "likely", (value,))
        if is_index_dtype(e.dtype) and e.op in ("shift_left", "shift_right", "bitwise_and"):
            return self._written(self._normal.affine(e), e)
        return fold.bits(ex.map_children(e, self.simplify))

    def _if_then_else(self, e: ex.Call) -> ex.Expr:
        condition = self.simplify(e.args[0])
        if isinstance(condition, ex.IntImm):
            return self.simplify(e.args[1] if condition.value else e.args[2])
        with self.constraint(condition):
            true = self.simplify(e.args[1])
        with self.constraint(ex.Not(condition)):
            false = self.simplify(e.args[2])
        return true if _alike(true, false) else ex.Call(e.dtype, e.op, (condition, true, false))

    def _let(self, e: ex.Let) -> ex.Expr:
        value = self.simplify(e.value)
        if isinstance(value, ex.IntImm | ex.Var):
            from ..expr import substitute

            return self.simplify(substitute(e.body, {e.var: value}))
        with self.constraint():
            if is_index_dtype(e.var.dtype):
                self.bind_value(e.var, value)
            return ex.Let(e.var, value, self.simplify(e.body))

    def _cast(self, e: ex.Cast) -> ex.Expr:
        if is_index_dtype(e.dtype) and is_index_dtype(e.value.dtype):
            return self._written(self._normal.affine(e), e)
        return fold.cast(ex.map_children(e, self.simplify))


_NEGATED: dict[type, type] = {ex.LT: ex.GE, ex.GE: ex.LT, ex.LE: ex.GT, ex.GT: ex.LE, ex.EQ: ex.NE, ex.NE: ex.EQ}


def _alike(a: Any, b: Any) -> bool:
    """Return whether two expressions have the same structure and the same variables."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, ex.Var):
        return False
    if isinstance(a, ex.IntImm):
        return a.value == b.value and a.dtype == b.dtype
    if isinstance(a, (*_ARITHMETIC, ex.CompareOp, ex.And, ex.Or)):
        return _alike(a.a, b.a) and _alike(a.b, b.b)
    if isinstance(a, ex.Not):
        return _alike(a.a, b.a)
    if isinstance(a, ex.Select | ex.Call | ex.Cast):
        from .affine import structural_key

        return bool(structural_key(a) == structural_key(b))
    return False


@kept_with_node
def plain_affine(e: ex.Expr) -> Affine:
    """Return the normal form of an expression without knowing anything about its variables."""
    return Analyzer().affine(e)


def simplify(e: Any, ranges: Mapping[Any, Any] | None = None) -> Any:
    """Simplify `e` once. `ranges` maps variables to a `Range`, an extent, or a pair (low, high)."""
    return Analyzer(ranges).simplify(e)


def uses(affine: Affine, var: ex.Var) -> bool:
    """Return whether a variable occurs in a normal form, at any depth."""
    return any(v is var for term in affine.terms for v in term_variables(term))
