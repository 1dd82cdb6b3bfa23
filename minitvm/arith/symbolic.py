"""Floor division and modulo by a symbolic divisor: what `i * n + j` over `n` comes to.

Division by zero has no meaning, so a divisor is taken not to be zero. One-term divisors (`n`, `n * 4`, `n * m`) are
split here; for sums (`n + 1`) polynomial division is asked of sympy.
"""

from __future__ import annotations

from .affine import FLOORDIV, FLOORMOD, Affine, Atom, divide_monomial
from .domain import Domain


def _split(domain: Domain, x: Affine, d: Affine) -> tuple[Affine, Affine] | None:
    """(q, r) with x == q*d + r and r closer to [0, d) than x; None where nothing divides."""
    found = divide_monomial(x, d)
    if found is None:
        from .sympy_bridge import divide

        found = divide(x, d)
    if found is None or found[0] == Affine({}):
        return None
    return found


def _in_range(domain: Domain, r: Affine, d: Affine) -> int | None:
    """q with q*d <= r < (q+1)*d where one of 0 and -1 is shown to be it."""
    if domain.nonnegative(r) and domain.nonnegative(d - r - 1):
        return 0
    if domain.nonnegative(-r - 1) and domain.nonnegative(d + r):
        return -1
    return None


def floordiv(domain: Domain, x: Affine, d: Affine) -> Affine | None:
    """x // d, or None where nothing simplifies."""
    split = _split(domain, x, d)
    q, r = split if split is not None else (Affine({}), x)
    if r == Affine({}):
        return q
    within = _in_range(domain, r, d)
    if within is not None:
        return q + within
    if split is None:
        return None
    return q + Affine.of(Atom(FLOORDIV, (r, d)))


def floormod(domain: Domain, x: Affine, d: Affine) -> Affine | None:
    """x % d, or None where nothing simplifies."""
    split = _split(domain, x, d)
    r = split[1] if split is not None else x
    if r == Affine({}):
        return r
    within = _in_range(domain, r, d)
    if within is not None:
        return r - d.scaled(within)
    return None if split is None else Affine.of(Atom(FLOORMOD, (r, d)))
