"""The normal form of index expressions: a sum of integer multiples of terms, in a plain dict.

    affine ::= constant + sum of coefficient * term
    term   ::= Var | Atom                 an Atom is a part that is not linear: x // 4, n * m, min(a, b), A[i], ...

Two expressions with the same normal form are equal for all values of their variables; the converse holds for linear
expressions. A product of terms is an Atom of kind "product", so symbolic shapes (`i * n + j`) have a normal form too:
polynomials. Terms keep the order in which they were added, so that printed expressions are easy to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import Any

from ..expr import Expr, Node, Var, find
from ..expr.node import kept_with_node

PRODUCT, FLOORDIV, FLOORMOD, MIN, MAX, OPAQUE = "product", "floordiv", "floormod", "min", "max", "opaque"
_MAX_EXPANSION = 64  # terms of an expanded product; an index that a person writes does not have more


class Atom:
    """A term other than a variable. Atoms are compared by structure.

    `args` holds two `Affine`s (floordiv, floormod, min, max), several terms (product), or one expression (an opaque
    term: only bounds on its value are known).
    """

    __slots__ = ("_hash", "_key", "args", "data", "kind")

    def __init__(self, kind: str, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.args = args
        if kind == OPAQUE:
            self._key: Any = structural_key(args[0])
        elif kind in (MIN, MAX):
            self._key = frozenset(args)
        elif kind == PRODUCT:
            self._key = tuple(sorted(args, key=hash))  # `args` keep the order in which they were written
        else:
            self._key = args
        self._hash = hash((kind, self._key))
        self.data: bool | None = None  # whether it contains values from memory or calls; computed by `normal` on demand

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Atom)
            and self._hash == other._hash
            and self.kind == other.kind
            and self._key == other._key
        )

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.args))})"


Term = Var | Atom


def structural_key(value: Any) -> Any:
    """Return a hashable key for an expression. Expressions with the same structure over the same variables and
    buffers have equal keys.
    """
    if isinstance(value, Var):
        return value
    if isinstance(value, Expr) and value._children:
        return _key_of(value)
    return _key(value)


@kept_with_node
def _key_of(value: Expr) -> Any:
    return _key(value)


def _key(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(structural_key(item) for item in value)
    if isinstance(value, Node) and not getattr(value, "_renamable", False):
        fields = value.__dataclass_fields__  # type: ignore[attr-defined]
        return (type(value), *(structural_key(getattr(value, name)) for name in fields))
    if isinstance(value, float):
        return value.hex()
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


class Affine:
    """The sum `const + sum(coefficient * term)`. It is immutable and has no zero coefficients.

    Equality ignores the order of the terms.
    """

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, terms: dict[Any, int], const: int = 0) -> None:
        self.terms = terms
        self.const = const
        self._hash: int | None = None

    @staticmethod
    def of(term: Term, coefficient: int = 1) -> Affine:
        """Return a sum that consists of one term."""
        return Affine({term: coefficient})

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def single(self) -> Term | None:
        """The only term, if the sum is just one term with coefficient 1; None otherwise."""
        if len(self.terms) == 1 and self.const == 0:
            ((term, coefficient),) = self.terms.items()
            return term if coefficient == 1 else None
        return None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms.items()), self.const))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Affine) or self.const != other.const or len(self.terms) != len(other.terms):
            return False
        theirs = other.terms
        return all(theirs.get(term) == coefficient for term, coefficient in self.terms.items())

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.const + other) if other else self
        return self._plus(other, 1)

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.const - other) if other else self
        return self._plus(other, -1)

    def _plus(self, other: Affine, scale: int) -> Affine:
        terms = dict(self.terms)
        add_into(terms, other.terms.items(), scale)
        return Affine(terms, self.const + scale * other.const)

    def __neg__(self) -> Affine:
        return self.scaled(-1)

    def scaled(self, factor: int) -> Affine:
        """Return this sum multiplied by a number."""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Affine({t: c * factor for t, c in self.terms.items()}, self.const * factor)

    def divided(self, divisor: int) -> Affine:
        """Return this sum divided by a number, which must divide every coefficient and the constant."""
        return Affine({t: c // divisor for t, c in self.terms.items()}, self.const // divisor)

    def without(self, term: Term) -> Affine:
        """Return this sum without `term`."""
        return Affine({t: c for t, c in self.terms.items() if t != term}, self.const)

    def content(self) -> int:
        """Return the greatest common divisor of the coefficients (the constant is ignored), or 0 if there are no
        terms.
        """
        return gcd(*self.terms.values())

    def __repr__(self) -> str:
        return " + ".join([*(f"{c}*{t}" for t, c in self.terms.items()), str(self.const)])


ZERO = Affine({})


def add_into(terms: dict[Any, int], items: Iterable[tuple[Any, int]], scale: int) -> None:
    """Add `scale * items` to `terms` in place."""
    for term, coefficient in items:
        total = terms.get(term, 0) + coefficient * scale
        if total:
            terms[term] = total
        else:
            terms.pop(term, None)


def factors(term: Term) -> tuple[Any, ...]:
    """Return the factors of a term: all factors of a product, or just the term itself."""
    return term.args if isinstance(term, Atom) and term.kind == PRODUCT else (term,)


def product(parts: Iterable[Any]) -> Term:
    """Return the product of these factors as a term. Equality ignores their order."""
    ordered = tuple(parts)
    return ordered[0] if len(ordered) == 1 else Atom(PRODUCT, ordered)


def multiply(a: Affine, b: Affine) -> Affine | None:
    """Return the product of two sums, multiplied out, or None if it would have too many terms."""
    if a.is_const:
        return b.scaled(a.const)
    if b.is_const:
        return a.scaled(b.const)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > _MAX_EXPANSION:
        return None
    terms: dict[Any, int] = {}
    for s, c in a.terms.items():
        add_into(terms, ((product(factors(s) + factors(t)), d) for t, d in b.terms.items()), c)
    add_into(terms, a.terms.items(), b.const)
    add_into(terms, b.terms.items(), a.const)
    return Affine(terms, a.const * b.const)


def divide_monomial(numerator: Affine, divisor: Affine) -> tuple[Affine, Affine] | None:
    """Return (quotient, rest) such that numerator == quotient * divisor + rest, or None if the divisor is not a
    single term.
    """
    if len(divisor.terms) != 1 or divisor.const:
        return None
    ((by, scale),) = divisor.terms.items()
    divisor_factors = list(factors(by))
    quotient: dict[Any, int] = {}
    constant = 0
    rest: dict[Any, int] = {}
    for term, coefficient in numerator.terms.items():
        remaining = list(factors(term))
        divisible = coefficient % scale == 0
        for factor in divisor_factors:
            if factor not in remaining:
                divisible = False
                break
            remaining.remove(factor)
        if not divisible:
            rest[term] = coefficient
        elif remaining:
            add_into(quotient, [(product(remaining), coefficient // scale)], 1)
        else:
            constant += coefficient // scale
    return Affine(quotient, constant), Affine(rest, numerator.const)


def variables(affine: Affine) -> Iterator[Var]:
    """Yield every variable in a sum, including nested ones. A variable may be yielded several times."""
    for term in affine.terms:
        yield from term_variables(term)


def term_variables(term: Term) -> Iterator[Var]:
    """Yield every variable in a term. A variable may be yielded several times."""
    if isinstance(term, Var):
        yield term
        return
    for arg in term.args:
        if isinstance(arg, Affine):
            yield from variables(arg)
        elif isinstance(arg, Expr) and not isinstance(arg, Var):
            yield from (item for item in find(arg, Var))
        else:
            yield from term_variables(arg)
