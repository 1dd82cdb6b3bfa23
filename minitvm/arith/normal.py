"""Convert index expressions to their normal form and back.

Only int32 and int64 are index dtypes. Sums and products that contain only indices (all variables except `DataVar`s) do
not overflow, by definition: see "Integers" in docs/semantics.md. Values from memory, from a call or from a `DataVar`
are data and may wrap: sums of data are rearranged (wrapping addition and multiplication form a ring) but never divided,
compared or converted to another dtype as if they could not wrap.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import ref

from .. import expr as ex
from . import affine as aff
from . import fold, rules, symbolic
from .domain import UNKNOWN, Domain, Interval, hull, intersect

if TYPE_CHECKING:
    from .analyzer import Analyzer

_INDEX_DTYPES = (ex.DType("int32"), ex.DType("int64"))
_INTEGERS = [ex.DType(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
_LIMITS = {dtype: (int(dtype.min), int(dtype.max)) for dtype in _INTEGERS}
_MEMO_LIMIT = 20_000


def is_index_dtype(dtype: ex.DType) -> bool:
    """Return whether arithmetic in this dtype is index arithmetic, which is true of int32 and int64 with one lane."""
    return dtype in _INDEX_DTYPES


class TooWide(Exception):
    """Raised when a sum does not fit in its dtype, either because of a constant or for some values of its variables."""


@lru_cache(maxsize=4096)
def imm(value: int, dtype: ex.DType) -> ex.Expr:
    """Return a shared integer constant. Raises `TooWide` if the dtype cannot hold it."""
    low, high = _LIMITS[dtype]
    if not low <= value <= high:
        raise TooWide
    return ex.IntImm(value, dtype)


class Normalizer:
    """Converts expressions to normal form in one domain. Its analyzer simplifies the parts of opaque terms.

    The reference to the analyzer is weak, because objects that refer to each other are only freed by the garbage
    collector.
    """

    def __init__(self, domain: Domain, analyzer: ref[Analyzer]) -> None:
        self.domain = domain
        self._analyzer = analyzer
        self.memo: dict[ex.Expr, aff.Affine] = {}

    # -- to the normal form -----------------------------------------------------------------------------------------

    def affine(self, e: ex.Expr) -> aff.Affine:
        """Return the normal form of an index expression.

        An expression of another integer dtype becomes a single term, because its sums wrap.
        """
        kept = self.memo.get(e)
        if kept is not None:
            return kept
        if not is_index_dtype(e.dtype) and not isinstance(e, ex.IntImm | ex.Var):
            return self._one_term(e)
        terms: dict[Any, int] = {}
        constant = self._add(e, 1, terms)
        if not terms and not _LIMITS[e.dtype][0] <= constant <= _LIMITS[e.dtype][1]:
            constant = fold.wrap(constant, e.dtype)
        result = aff.Affine(terms, constant)
        if len(terms) > 1:
            result = rules.merge_splits(self.domain, result)
        if terms and self._leaves(result, _LIMITS[e.dtype]) and any(map(_is_data, ex.walk(e))):
            result = self._one_term(e)  # if the data of a sum cancelled, the rest wraps as the sum did
        if len(self.memo) > _MEMO_LIMIT:
            self.memo.clear()
        self.memo[e] = result
        return result

    def _add(self, e: ex.Expr, scale: int, terms: dict[Any, int]) -> int:
        """Add scale * e to `terms`, and return the number to add to the constant."""
        kind = type(e)
        if kind is ex.Var or kind is ex.SizeVar or kind is ex.DataVar:
            total = terms.get(e, 0) + scale
            if total:
                terms[e] = total
            else:
                del terms[e]
            return 0
        if kind is ex.IntImm:
            return scale * e.value  # type: ignore[attr-defined]
        if kind is ex.Add:
            return self._add(e.a, scale, terms) + self._add(e.b, scale, terms)  # type: ignore[attr-defined]
        if kind is ex.Sub:
            return self._add(e.a, scale, terms) + self._add(e.b, -scale, terms)  # type: ignore[attr-defined]
        if kind is ex.Mul:
            a, b = e.a, e.b  # type: ignore[attr-defined]
            if type(b) is ex.IntImm:
                return self._add(a, scale * b.value, terms) if b.value else 0
            if type(a) is ex.IntImm:
                return self._add(b, scale * a.value, terms) if a.value else 0
        value = self._nonlinear(e)
        aff.add_into(terms, value.terms.items(), scale)
        return scale * value.const

    def _nonlinear(self, e: ex.Expr) -> aff.Affine:
        if isinstance(e, ex.Var):
            return aff.Affine.of(e)
        if isinstance(e, ex.Mul):
            return self._product(e)
        if isinstance(e, ex.FloorDiv | ex.FloorMod):
            return self._divide(e, type(e) is ex.FloorDiv)
        if isinstance(e, ex.Div | ex.Mod):
            return self._truncated(e)
        if isinstance(e, ex.Min | ex.Max):
            return self._extreme(e)
        if isinstance(e, ex.Cast):
            return self._cast(e)
        if isinstance(e, ex.Call):
            return self._call(e)
        return self._opaque(e)

    def _product(self, e: ex.Mul) -> aff.Affine:
        result = aff.multiply(self.affine(e.a), self.affine(e.b))
        return self._opaque(e) if result is None else result

    def _divide(self, e: ex.FloorDiv | ex.FloorMod, quotient: bool) -> aff.Affine:
        x, d = self.affine(e.a), self.affine(e.b)
        if self.may_wrap(x, e.dtype) or self.may_wrap(d, e.dtype):
            return self._opaque(e)
        if not d.is_const:
            result = symbolic.floordiv(self.domain, x, d) if quotient else symbolic.floormod(self.domain, x, d)
            if result is not None and not any(self._wraps_inside(term, e.dtype) for term in result.terms):
                return result
            return aff.Affine.of(aff.Atom(aff.FLOORDIV if quotient else aff.FLOORMOD, (x, d)))
        by = d.const
        # a // -d == -a // d and a % -d == -(-a % d), except for data whose negative wraps
        if by == 0 or (by < 0 and self.may_wrap(-x, e.dtype)):
            return self._opaque(e)
        sign = 1 if by > 0 else -1
        divided = (rules.floordiv if quotient else rules.floormod)(self.domain, x.scaled(sign), abs(by))
        if any(self._wraps_inside(term, e.dtype) for term in divided.terms):
            return self._opaque(e)
        return divided if quotient else divided.scaled(sign)

    def _truncated(self, e: ex.Div | ex.Mod) -> aff.Affine:
        """Return the normal form of C's division or remainder, which truncates.

        It agrees with floor division if neither operand is negative.
        """
        x, d = self.affine(e.a), self.affine(e.b)
        if x.is_const and d.is_const and d.const:
            quotient = abs(x.const) // abs(d.const) * (1 if (x.const < 0) == (d.const < 0) else -1)
            value = quotient if isinstance(e, ex.Div) else x.const - d.const * quotient
            return aff.Affine({}, value) if _inside((value, value), _LIMITS[e.dtype]) else self._opaque(e)
        positive = (self.domain.interval(d)[0] or 0) > 0
        if not positive or self.may_wrap(x, e.dtype) or self.may_wrap(d, e.dtype) or not self.domain.nonnegative(x):
            return self._opaque(e)
        return self._divide(
            ex.FloorDiv(e.a, e.b) if isinstance(e, ex.Div) else ex.FloorMod(e.a, e.b), isinstance(e, ex.Div)
        )

    def _extreme(self, e: ex.Min | ex.Max) -> aff.Affine:
        a, b = self.affine(e.a), self.affine(e.b)
        if self.may_wrap(a, e.dtype) or self.may_wrap(b, e.dtype):
            return a if a == b else self._opaque(e)
        low = isinstance(e, ex.Min)
        if self.domain.nonnegative(b - a):
            return a if low else b
        if self.domain.nonnegative(a - b):
            return b if low else a
        return aff.Affine.of(aff.Atom(aff.MIN if low else aff.MAX, (a, b)))

    def _cast(self, e: ex.Cast) -> aff.Affine:
        source = e.value.dtype
        if not is_index_dtype(source):
            return self._opaque(e)
        inner = self.affine(e.value)
        if self.may_wrap(inner, source):
            return self._opaque(e)
        if inner.is_const:
            return aff.Affine({}, fold.wrap(inner.const, e.dtype))
        narrows = e.dtype.bits < source.bits
        if not narrows and len(inner.terms) == 1 and not inner.const and not any(map(_has_data, inner.terms)):
            # A product of indices does not overflow: what is cast is in the range of its own dtype.
            ((term, factor),) = inner.terms.items()
            if isinstance(term, aff.Atom) and factor > 0:
                low, high = _LIMITS[source]
                self.domain.narrow(term, (-(-low // factor), high // factor))
        return self._opaque(e) if narrows and not self._fits(inner, _LIMITS[e.dtype]) else inner

    def _fits(self, x: aff.Affine, limits: Interval) -> bool:
        """Return whether a sum, its terms, and the parts of its terms all keep their values when converted to a
        narrower dtype, whose limits are `limits`.
        """
        if not _inside(self.domain.interval(x), limits):
            return False
        return all(self._term_fits(term, limits) for term in x.terms)

    def _term_fits(self, term: aff.Term, limits: Interval) -> bool:
        if isinstance(term, ex.Var) or term.kind == aff.OPAQUE:
            return _inside(self.domain.term_interval(term), limits)
        if term.kind == aff.PRODUCT:
            return all(self._term_fits(factor, limits) for factor in term.args)
        return all(self._fits(arg, limits) for arg in term.args)

    def _call(self, e: ex.Call) -> aff.Affine:
        if e.op in ("shift_left", "shift_right", "bitwise_and") and isinstance(e.args[1], ex.IntImm):
            x, n = self.affine(e.args[0]), e.args[1].value
            if e.op == "shift_left" and 0 <= n < e.dtype.bits - 1:
                return x.scaled(1 << n)
            if self.may_wrap(x, e.dtype):
                return self._opaque(e)
            if e.op == "shift_right" and 0 <= n < e.dtype.bits - 1:
                return rules.floordiv(self.domain, x, 1 << n)
            if e.op == "bitwise_and" and n > 0 and n & (n + 1) == 0:
                return rules.floormod(self.domain, x, n + 1)
        return self._opaque(e)

    def simplify(self, e: ex.Expr) -> ex.Expr:
        """Simplify a part of an opaque term, using the analyzer."""
        analyzer = self._analyzer()
        assert analyzer is not None  # the analyzer itself calls this
        return analyzer.simplify(e)

    def _opaque(self, e: ex.Expr) -> aff.Affine:
        simple = fold.bits(self.simplify_parts(e))
        if simple is not e and isinstance(simple, ex.Var | ex.IntImm | ex.Add | ex.Sub | ex.Min | ex.Max):
            return self.affine(simple)
        atom = aff.Atom(aff.OPAQUE, (simple,))
        self.domain.narrow(atom, self.value_interval(simple))
        return aff.Affine.of(atom)

    def simplify_parts(self, e: ex.Expr) -> ex.Expr:
        """Return `e` with its operands simplified. A Select whose condition is decided becomes the selected value."""
        if isinstance(e, ex.Select) or (isinstance(e, ex.Call) and e.op == "if_then_else"):
            return self.simplify(e)
        return ex.map_children(
            e, lambda c: self.simplify(c) if isinstance(c, ex.Expr) and not isinstance(e, ex.Let) else c
        )

    def value_interval(self, e: ex.Expr) -> Interval:
        """Return bounds on the value of an expression, derived from the kind of its node, or else the limits of its
        dtype.
        """
        limits: Interval = _LIMITS[e.dtype]
        if isinstance(e, ex.Cast):
            source = e.value.dtype
            if source.is_bool:
                return 0, 1
            if source.is_int and source.lanes == 1 and _inside((int(source.min), int(source.max)), limits):
                return int(source.min), int(source.max)
            if is_index_dtype(source):  # a value that fits stays the same, whatever its parts are
                inner = self._bounded(e.value)
                return inner if _inside(inner, limits) else limits
        if isinstance(e, ex.FloorMod) and isinstance(e.b, ex.IntImm) and e.b.value > 0:
            return 0, e.b.value - 1  # also for data that may wrap
        if isinstance(e, ex.Call) and e.op in ("bitwise_xor", "bitwise_or"):
            low, high = hull(*map(self._bounded, e.args))
            if low is not None and low >= 0 and high is not None:  # a bit that neither operand can have is not set
                return 0, (1 << high.bit_length()) - 1
        if isinstance(e, ex.Select):
            return intersect(limits, hull(self._bounded(e.true_value), self._bounded(e.false_value)))
        if isinstance(e, ex.Call) and e.op == "if_then_else":
            return intersect(limits, hull(self._bounded(e.args[1]), self._bounded(e.args[2])))
        return limits

    def _bounded(self, e: ex.Expr) -> Interval:
        value = self.affine(e)
        return UNKNOWN if self.may_wrap(value, e.dtype) else self.domain.bounds(value)

    def exact(self, e: ex.Expr) -> aff.Affine:
        """Return the normal form of the actual value, wrapping included.

        A sum of data that may wrap becomes one term, which represents the wrapped value.
        """
        x = self.affine(e)
        if not self.may_wrap(x, e.dtype):
            return x
        return self._one_term(e)

    def _one_term(self, e: ex.Expr) -> aff.Affine:
        atom = aff.Atom(aff.OPAQUE, (e,))
        self.domain.narrow(atom, _LIMITS[e.dtype])
        return aff.Affine.of(atom)

    def may_wrap(self, x: aff.Affine, dtype: ex.DType) -> bool:
        """Return whether the sum contains data and can leave the range of its dtype."""
        if not any(map(_has_data, x.terms)):
            return False
        return not _inside(self.domain.interval(x), _LIMITS[dtype])

    def _wraps_inside(self, term: aff.Term, dtype: ex.DType) -> bool:
        """Return whether a rule produced a dividend that may wrap.

        For example, x % 7 * 2 % 7 equals x * 2 % 7 only if x * 2 does not wrap.
        """
        if isinstance(term, ex.Var) or term.kind == aff.OPAQUE:
            return False
        if term.kind == aff.PRODUCT:
            return any(self._wraps_inside(factor, dtype) for factor in term.args)
        return any(
            self.may_wrap(arg, dtype) or any(self._wraps_inside(inner, dtype) for inner in arg.terms)
            for arg in term.args
        )

    # -- and back ---------------------------------------------------------------------------------------------------

    def expr(self, x: aff.Affine, dtype: ex.DType) -> ex.Expr:
        """Return the sum as an expression, with outer (larger) terms first, the constant last, and no leading minus if
        possible.

        Raises `TooWide` if a constant, or a sum of indices in it, is known not to fit in the dtype.
        """
        if not x.terms:
            return imm(x.const, dtype)
        if dtype in _LIMITS and self._leaves(x, _LIMITS[dtype]):
            raise TooWide
        ordered = self._ordered(x)
        if ordered[0][1] < 0:
            first = next((i for i, (_, c) in enumerate(ordered) if c > 0), None)
            if first is not None:
                ordered.insert(0, ordered.pop(first))
        result: ex.Expr | None = None
        if ordered[0][1] < 0:
            result = imm(x.const, dtype)
        for term, c in ordered:
            value = self._scaled(term, abs(c), dtype)
            result = value if result is None else ex.Add(result, value) if c > 0 else ex.Sub(result, value)
        assert result is not None
        if x.const and ordered[0][1] > 0:
            result = ex.Add(result, imm(x.const, dtype)) if x.const > 0 else ex.Sub(result, imm(-x.const, dtype))
        return result

    def _leaves(self, x: aff.Affine, limits: Interval) -> bool:
        """Return whether a sum of indices certainly has a value outside of the limits."""
        low, high = self.domain.interval(x)
        outside = (low is not None and low < limits[0]) or (high is not None and high > limits[1])  # type: ignore[operator]
        return outside and not any(map(_has_data, x.terms))

    def _ordered(self, x: aff.Affine) -> list[tuple[Any, int]]:
        if len(x.terms) == 1:
            return list(x.terms.items())
        order = self.domain.order

        def rank(item: tuple[Any, int]) -> tuple[bool, int, int]:
            term, c = item
            multiple = isinstance(term, aff.Atom) and term.kind == "product"
            outermost = order.get(term) if isinstance(term, ex.Var) else None
            if outermost is None:
                positions = [order[v] for v in aff.term_variables(term) if v in order]
                outermost = min(positions, default=1 << 30)
            return not multiple, -abs(c), outermost

        return sorted(x.terms.items(), key=rank)

    def _scaled(self, term: aff.Term, c: int, dtype: ex.DType) -> ex.Expr:
        value = self._term(term, dtype)
        return value if c == 1 else ex.Mul(value, imm(c, dtype))

    def _term(self, term: aff.Term, dtype: ex.DType) -> ex.Expr:
        if isinstance(term, ex.Var):
            return term.astype(dtype)
        if term.kind == aff.OPAQUE:
            opaque: ex.Expr = term.args[0]
            return opaque.astype(dtype)
        if term.kind == "product":
            order = self.domain.order
            parts = sorted(term.args, key=lambda t: order.get(t, 1 << 30) if isinstance(t, ex.Var) else 1 << 31)
            result = self._term(parts[0], dtype)
            for part in parts[1:]:
                result = ex.Mul(result, self._term(part, dtype))
            return result
        a, b = (self.expr(arg, dtype) for arg in term.args)
        return {aff.FLOORDIV: ex.FloorDiv, aff.FLOORMOD: ex.FloorMod, aff.MIN: ex.Min, aff.MAX: ex.Max}[term.kind](a, b)


def _inside(interval: Interval, limits: Interval) -> bool:
    low, high = interval
    bottom, top = limits
    return low is not None and high is not None and bottom <= low and high <= top  # type: ignore[operator]


def _has_data(term: aff.Term) -> bool:
    if isinstance(term, ex.Var):
        return isinstance(term, ex.DataVar)
    if term.data is None:
        term.data = _find_data(term)
    return term.data


def _find_data(term: aff.Atom) -> bool:
    if term.kind == aff.OPAQUE:
        return any(map(_is_data, ex.walk(term.args[0])))
    if term.kind == "product":
        return any(_has_data(factor) for factor in term.args)
    return any(_has_data(inner) for arg in term.args for inner in arg.terms)


def holds_data(e: ex.Expr) -> bool:
    """Return whether an index expression contains data (a load, a call, a `DataVar`, another dtype), and therefore
    may wrap.
    """
    return is_index_dtype(e.dtype) and any(map(_is_data, ex.walk(e)))


def _is_data(part: Any) -> bool:
    return isinstance(part, ex.Expr) and not _is_index_arithmetic(part)


def _is_index_arithmetic(e: ex.Expr) -> bool:
    """Return whether a node is arithmetic on variables, as opposed to a value from elsewhere such as a load."""
    if isinstance(e, ex.Call):
        return e.op in ("if_then_else", "likely", "shift_left", "shift_right", "bitwise_and")
    if isinstance(e, ex.Cast):
        return is_index_dtype(e.value.dtype) or e.value.dtype.is_bool
    return isinstance(e, ex.Var | ex.IntImm | ex.BinaryOp | ex.Not | ex.Select) and not isinstance(e, ex.DataVar)
