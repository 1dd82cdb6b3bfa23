"""`Formula`: a closed formula in symbolic sizes as a sympy expression, and whether it is exact or an upper bound.

All numbers except rates are integers. `//` is the floor division of `sympy_bridge.functions()`, because `floor(n / 49)`
would round in floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from ..errors import InputError


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula `expr` over integer symbols that are named after sizes. `exact` is False if it is only an upper bound.

    You can add formulas and multiply them by numbers. The result is a bound if any of the operands is one.
    """

    expr: Any
    exact: bool = True

    def __add__(self, other: Formula | int) -> Formula:
        other = formula(other)
        return Formula(self.expr + other.expr, self.exact and other.exact)

    __radd__ = __add__

    def __mul__(self, other: Formula | int) -> Formula:
        other = formula(other)
        return Formula(self.expr * other.expr, self.exact and other.exact)

    __rmul__ = __mul__

    def __str__(self) -> str:
        return f"{'' if self.exact else 'at most '}{text(self.expr)}"

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the sizes that the formula depends on."""
        return tuple(sorted(s.name for s in self.expr.free_symbols))

    def at(self, sizes: Mapping[Any, Any]) -> Any:
        """Return the value of the formula for the sizes in `sizes`, which are keyed by name or variable.

        The result is a number, or an array if some of the sizes are arrays. Raises `InputError` if a size is missing.
        """
        values = {getattr(key, "name", key): value for key, value in sizes.items()}
        names = self.symbols
        missing = [name for name in names if name not in values]
        if missing:
            raise InputError(f"{', '.join(missing)}: no value for a size of the formula {self}")
        return self.compiled(names)(*(values[name] for name in names))

    def compiled(self, names: Sequence[str] | None = None) -> Callable[..., Any]:
        """Return a NumPy function of the sizes, taken in the order of `names` (by default the order of `symbols`).

        Arguments are integers or int64 arrays, which broadcast. The result is an array if any argument is one.
        """
        return _compiled(self.expr, tuple(self.symbols if names is None else names))


def formula(value: Formula | int) -> Formula:
    """Convert a number to a formula; a formula is returned unchanged."""
    import sympy

    return value if isinstance(value, Formula) else Formula(sympy.Integer(value))


def largest(*formulas: Formula) -> Formula:
    """Return the maximum of several formulas. It is exact if all of them are."""
    return Formula(maximum(*(f.expr for f in formulas)), all(f.exact for f in formulas))


def capped(f: Formula, limit: Formula) -> Formula:
    """Limit an upper bound to the value of `limit`; an exact formula is returned unchanged."""
    return f if f.exact else Formula(minimum(f.expr, limit.expr), False)


def rated(f: Formula, per_cycle: float) -> Formula:
    """Return the number of cycles that f operations take at a rate of `per_cycle` operations per cycle."""
    import sympy

    return Formula(sympy.expand(f.expr * sympy.Float(1 / per_cycle)), f.exact)


def up_to(f: Formula, limit: int, below: Formula, above: Formula) -> Formula:
    """Return the formula that is `below` where f is at most `limit`, and `above` otherwise."""
    import sympy

    expr = sympy.Piecewise((below.expr, sympy.Le(f.expr, limit)), (above.expr, True))
    return Formula(expr, f.exact and below.exact and above.exact)


def symbol(name: str, positive: bool = True) -> Any:
    """Return the symbol for a size, or, with `positive=False`, for an integer of any sign."""
    import sympy

    return sympy.Symbol(name, integer=True, positive=True if positive else None)


@lru_cache(maxsize=1)
def extremes() -> tuple[Any, Any]:
    """Return (Min, Max) as sympy functions. They compare two arguments only if all terms of their difference have the
    same sign.

    sympy's own functions factor every difference to find the larger argument, which takes milliseconds per comparison.
    """
    import sympy

    def chosen(cls: Any, args: tuple[Any, ...]) -> Any:
        flat = [part for a in args for part in (a.args if isinstance(a, cls) else (a,))]
        kept: list[Any] = []
        for a in dict.fromkeys(flat):
            if any(cls.first(a, b) for b in kept):
                continue
            kept = [b for b in kept if not cls.first(b, a)] + [a]
        ordered = tuple(sorted(kept, key=lambda a: a.sort_key()))
        if len(ordered) == 1:
            return ordered[0]
        return None if ordered == args else cls(*ordered)

    class Max(sympy.Function):
        is_integer = True

        @classmethod
        def eval(cls, *args: Any) -> Any:
            return chosen(cls, args)

        @staticmethod
        def first(a: Any, b: Any) -> bool:
            """Return whether a is never larger than b, which means that a can be dropped."""
            return _never_negative(b - a)

        def _eval_is_nonnegative(self) -> bool | None:
            return True if any(a.is_nonnegative for a in self.args) else None

        def _eval_is_positive(self) -> bool | None:
            return True if any(a.is_positive for a in self.args) else None

    class Min(sympy.Function):
        is_integer = True

        @classmethod
        def eval(cls, *args: Any) -> Any:
            return chosen(cls, args)

        @staticmethod
        def first(a: Any, b: Any) -> bool:
            """Return whether a is never smaller than b, which means that a can be dropped."""
            return _never_negative(a - b)

        def _eval_is_nonnegative(self) -> bool | None:
            return True if all(a.is_nonnegative for a in self.args) else None

        def _eval_is_positive(self) -> bool | None:
            return True if all(a.is_positive for a in self.args) else None

    return Min, Max


def minimum(*args: Any) -> Any:
    """Return the minimum of sympy expressions."""
    return extremes()[0](*args)


def maximum(*args: Any) -> Any:
    """Return the maximum of sympy expressions."""
    return extremes()[1](*args)


def _never_negative(difference: Any) -> bool:
    """Return whether a difference is >= 0 if each of its terms takes its smallest value (1 for a product of sizes)."""
    import sympy

    lowest = sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand_mul(difference)):
        c, rest = term.as_coeff_Mul()
        if rest == 1 or (c > 0 and rest.is_positive):
            lowest += c
        elif not (c > 0 and rest.is_nonnegative):
            return False
    return bool(lowest >= 0)


# -- sums and quotients of sympy expressions --------------------------------------------------------------------------


def quotient(a: Any, d: Any) -> Any:
    """Return a // d after moving multiples of d out of the quotient. For example, (16*n + 3) // 16 becomes n."""
    import sympy

    from .sympy_bridge import functions

    if d == 1:
        return a
    floordiv = functions()[0]
    if not d.is_Integer:
        return floordiv(a, d)
    whole, rest = sympy.Integer(0), sympy.Integer(0)
    for part in sympy.Add.make_args(sympy.expand_mul(a)):
        c, term = part.as_coeff_Mul()
        if term == 1:
            whole, rest = whole + c // d, rest + c % d
        elif c.is_Integer and c % d == 0:
            whole = whole + (c // d) * term
        else:
            rest = rest + part
    if rest.is_Integer:
        return whole + rest // d
    return whole + floordiv(rest, d)


def clamped(value: Any) -> Any:
    """Return max(0, value)."""
    import sympy

    return maximum(sympy.Integer(0), value)


def holds(value: Any) -> Any:
    """Return 1 if value >= 0, and 0 otherwise, as a sympy expression."""
    import sympy

    return minimum(sympy.Integer(1), maximum(sympy.Integer(0), value + 1))


# -- text and code ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _printer() -> Any:
    from sympy.printing.str import StrPrinter

    class Printer(StrPrinter):
        def _print_Float(self, e: Any) -> str:
            return f"{float(e):.4g}"

        def _print_Piecewise(self, e: Any) -> str:
            (value, condition), (other, _) = e.args
            return f"({self._print(value)} if {self._print(condition)} else {self._print(other)})"

        def _print_Function(self, e: Any) -> str:
            name = type(e).__name__
            if name in ("Min", "Max"):
                return f"{name.lower()}({', '.join(self._print(a) for a in e.args)})"
            a, b = (self._print(x) if x.is_Atom else f"({self._print(x)})" for x in e.args)
            return f"({a} {'//' if name == 'FloorDiv' else '%'} {b})"

    return Printer()


def text(expr: Any) -> str:
    """Return a formula as Python source text."""
    return str(_printer().doprint(expr))


@lru_cache(maxsize=2048)
def _compiled(expr: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    numerator, denominator = _source(expr, {name: f"_{i}" for i, name in enumerate(names)})
    body = numerator if denominator == 1 else f"({numerator}) {_division(expr)} {denominator}"
    scope = {"minimum": np.minimum, "maximum": np.maximum, "where": np.where, "inf": np.inf}
    function = eval(f"lambda {', '.join(f'_{i}' for i in range(len(names)))}: {body}", scope)
    wrapped: Callable[..., Any] = lambda *sizes: _number(  # noqa: E731
        function(*(np.asarray(s, np.int64) if np.ndim(s) else int(s) for s in sizes))
    )
    return wrapped


def _number(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    )


def _source(e: Any, names: Mapping[str, str]) -> tuple[str, int]:
    """Return (text, denominator); the value is text / denominator.

    The denominator keeps polynomials such as n*(n + 1)/2 in integers.
    """
    if e.is_Symbol:
        return names[e.name], 1
    if e.is_Rational:
        return f"({e.p})", int(e.q)
    if e.is_Float or e.is_Number:
        return f"({float(e)!r})", 1
    if e.is_Piecewise:
        (value, condition), (other, _) = e.args
        return f"where({_plain(condition.lhs, names)} {condition.rel_op} {_plain(condition.rhs, names)}, {_plain(value, names)}, {_plain(other, names)})", 1  # fmt: skip # noqa: E501
    parts = [_source(a, names) for a in e.args]
    if e.is_Add:
        common = lcm(*(d for _, d in parts))
        return f"({' + '.join(t if d == common else f'{common // d}*{t}' for t, d in parts)})", common
    if e.is_Mul:
        denominator = 1
        for _, d in parts:
            denominator *= d
        return f"({'*'.join(t for t, _ in parts)})", denominator
    if e.is_Pow and e.exp.is_Integer and e.exp > 0:
        base, d = parts[0]
        return f"({base}**{int(e.exp)})", d ** int(e.exp)
    plain = [_plain(a, names) for a in e.args]
    if isinstance(e, extremes()):
        name = "minimum" if isinstance(e, extremes()[0]) else "maximum"
        result = plain[0]
        for other in plain[1:]:
            result = f"{name}({result}, {other})"
        return result, 1
    sign = {"FloorDiv": "//", "Mod": "%"}[type(e).__name__]
    return f"({plain[0]} {sign} {plain[1]})", 1


def _plain(e: Any, names: Mapping[str, str]) -> str:
    numerator, denominator = _source(e, names)
    return numerator if denominator == 1 else f"(({numerator}) {_division(e)} {denominator})"


def _division(e: Any) -> str:
    import sympy

    return "/" if e.has(sympy.Float) else "//"
