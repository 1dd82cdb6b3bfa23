"""Simplify floor division and modulo by a symbolic divisor, such as `(i * n + j) // n`.

Division by zero has no meaning, so a divisor is assumed not to be zero. Divisors with one term (`n`, `n * 4`, `n * m`)
are handled here. For sums (`n + 1`), and for common factors (`RULES`), sympy's polynomial division is used.
"""

from __future__ import annotations

from collections.abc import Callable

from . import rules
from .affine import FLOORDIV, FLOORMOD, Affine, Atom, divide_monomial, multiply
from .domain import Domain
from .polynomials import common_factor, divisors, is_polynomial
from .reasons import Reason, note, text
from .sympy_bridge import divide


def _split(x: Affine, d: Affine) -> tuple[Affine, Affine] | None:
    """Return (q, r) such that x == q*d + r and r is closer to [0, d) than x, or None if no term is divisible."""
    division = divide_monomial(x, d)
    if division is None:
        division = divide(x, d)
        if division is not None and division[0] != Affine({}):
            q, r = division
            note(lambda: Reason("x = q*d + r", f"{text(x)} by {text(d)}", f"q = {text(q)}, r = {text(r)}", "division of polynomials"))  # fmt: skip # noqa: E501
    if division is None or division[0] == Affine({}):
        return None
    return division


def _in_range(domain: Domain, r: Affine, d: Affine) -> int | None:
    """Return the q in {0, -1} for which q*d <= r < (q+1)*d can be proved, or None if neither can."""
    if domain.nonnegative(r) and domain.nonnegative(d - r - 1):
        return 0
    if domain.nonnegative(-r - 1) and domain.nonnegative(d + r):
        return -1
    return None


def floordiv(domain: Domain, x: Affine, d: Affine) -> Affine | None:
    """Return x // d in a simpler form, or None if there is none."""
    split = _split(x, d)
    q, r = split if split is not None else (Affine({}), x)
    if r == Affine({}):
        return q
    within = _in_range(domain, r, d)
    if within is not None:
        return q + within
    simpler = _smaller(domain, r, d, FLOORDIV)
    if simpler is not None:
        return q + simpler
    if split is None:
        return None
    return q + Affine.of(Atom(FLOORDIV, (r, d)))


def floormod(domain: Domain, x: Affine, d: Affine) -> Affine | None:
    """Return x % d in a simpler form, or None if there is none."""
    split = _split(x, d)
    r = split[1] if split is not None else x
    if r == Affine({}):
        return r
    within = _in_range(domain, r, d)
    if within is not None:
        return r - d.scaled(within)
    simpler = _smaller(domain, r, d, FLOORMOD)
    if simpler is not None:
        return simpler
    return None if split is None else Affine.of(Atom(FLOORMOD, (r, d)))


def _smaller(domain: Domain, x: Affine, d: Affine, kind: str) -> Affine | None:
    """Return x // d or x % d, simplified by one of the rules, or None if no rule applies."""
    for rule in RULES:
        answer = rule(domain, x, d, kind)
        if answer is not None:
            result, fact = answer
            sign = "//" if kind == FLOORDIV else "%"
            name = (rule.__doc__ or "").split("    ")[0].strip()
            note(lambda: Reason(name, f"({text(x)}) {sign} ({text(d)})", text(result), fact))  # noqa: B023
            return result
    return None


def _again(domain: Domain, x: Affine, d: Affine, kind: str) -> Affine:
    """Return x // d or x % d, as `kind` says. If d has become a number, use the rules for constant divisors."""
    if d.is_const and d.const > 0:
        return (rules.floordiv if kind == FLOORDIV else rules.floormod)(domain, x, d.const)
    quotient = (floordiv if kind == FLOORDIV else floormod)(domain, x, d)
    return Affine.of(Atom(kind, (x, d))) if quotient is None else quotient


def _cancel(domain: Domain, x: Affine, d: Affine, kind: str) -> tuple[Affine, str] | None:
    """(g*a) // (g*b) -> a // b, (g*a) % (g*b) -> g*(a % b)    for g != 0, which holds because g divides d != 0"""
    common = common_factor(x, d)
    if common is None:
        return None
    g, a, b = common
    if b.is_const and b.const <= 0:
        return None
    result: Affine | None = _again(domain, a, b, kind)
    if kind == FLOORMOD and result is not None:
        result = multiply(result, g)
    return None if result is None else (result, f"both are multiples of {text(g)}")


def _grouped(domain: Domain, x: Affine, d: Affine, kind: str) -> tuple[Affine, str] | None:
    """(g*y + z) // (g*b) -> y // b, (g*y + z) % (g*b) -> g*(y % b) + z    for 0 <= z < g"""
    if not is_polynomial(x) or not (is_polynomial(d) or d.content() > 1):
        return None
    for g in divisors(d):
        split, whole = _split(x, g), _split(d, g)
        if split is None or whole is None or whole[1] != Affine({}) or whole[0] == Affine({}, 1):
            continue
        y, z = split
        if _in_range(domain, z, g) != 0 or (whole[0].is_const and whole[0].const <= 0):
            continue
        result: Affine | None = _again(domain, y, whole[0], kind)
        if kind == FLOORMOD and result is not None:
            result = multiply(result, g)
            result = None if result is None else result + z
        if result is not None:
            return result, f"0 <= {text(z)} < {text(g)}"
    return None


def _nested(domain: Domain, x: Affine, d: Affine, kind: str) -> tuple[Affine, str] | None:
    """(y // b) // d -> y // (b*d)    for d > 0"""
    inner = x.single
    if kind != FLOORDIV or not isinstance(inner, Atom) or inner.kind != FLOORDIV or not domain.nonnegative(d - 1):
        return None
    both = multiply(inner.args[1], d)
    return None if both is None else (_again(domain, inner.args[0], both, kind), f"{text(d)} > 0")


def _mod_of_mod(domain: Domain, x: Affine, d: Affine, kind: str) -> tuple[Affine, str] | None:
    """(c*(y % b) + z) % d -> (c*y + z) % d    where d divides c*b"""
    if kind != FLOORMOD:
        return None
    for term, c in x.terms.items():
        if not isinstance(term, Atom) or term.kind != FLOORMOD:
            continue
        split = _split(term.args[1].scaled(c), d)
        if split is not None and split[1] == Affine({}):
            plain = x.without(term) + term.args[0].scaled(c)
            return _again(domain, plain, d, kind), f"{text(d)} divides {text(term.args[1].scaled(c))}"
    return None


Rule = Callable[[Domain, Affine, Affine, str], tuple[Affine, str] | None]
RULES: list[Rule] = [_cancel, _nested, _mod_of_mod, _grouped]


def merged(domain: Domain, x: Affine, term: Atom, c: int) -> Affine | None:
    """Apply c*d*(y // d) + c*(y % d) -> c*y to a sum; return None if the rule does not apply.

    `term` is the remainder y % d, whose divisor is symbolic, and `c` is its coefficient.
    """
    y, d = term.args
    quotient = floordiv(domain, y, d)
    whole = multiply(Affine.of(Atom(FLOORDIV, (y, d))) if quotient is None else quotient, d.scaled(c))
    if whole is None or not whole.terms or any(x.terms.get(t) != k for t, k in whole.terms.items()):
        return None
    result = x + y.scaled(c) - whole - Affine.of(term, c)
    note(lambda: Reason("d*(y // d) + y % d -> y", text(x), text(result), f"quotient and remainder by {text(d)}"))
    return result
