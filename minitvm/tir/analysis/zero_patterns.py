"""Sums in which most terms are zero in a regular pattern: a factor is nonzero only in every s-th iteration.

    A[p] = if_then_else(f(p) % s == 0 and .., .., 0)          X[i] += A[q(i, k)] * B[..]

The term of k is zero if f(q(i, k)) = a*k + g(i) is not a multiple of s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from ...arith import Analyzer
from ...arith.affine import Affine, variables
from ...expr import EQ, Call, Cast, Expr, FloatImm, FloorMod, IntImm, Mul, Node, Var, substitute, walk
from ..conditions import conjuncts, is_const
from ..nodes import BufferLoad, BufferStore, MatchBufferRegion, PrimFunc
from .accesses import handed_out

_ARITHMETIC = Analyzer()  # it knows nothing about any variable


@dataclass(frozen=True, slots=True)
class ZeroPattern:
    """The rule that a term is zero unless `times * k + rest` is a multiple of `step`.

    Here gcd(times, step) = 1, and `rest` does not contain k. `load` is the factor that is zero in these terms.
    """

    load: BufferLoad
    step: int
    times: int
    rest: Affine

    @property
    def first(self) -> Expr:
        """The smallest k >= 0 whose term may be nonzero; the others follow in steps of `step`."""
        # times * k = -rest (mod step); multiples of the step are left out
        terms = {term: times for term, times in self.rest.terms.items() if times % self.step}
        form = Affine(terms, self.rest.const).scaled(-pow(self.times, -1, self.step))
        z = _ARITHMETIC.to_expr(form, "int32")
        return z - z // self.step * self.step


def factors(term: Expr | None) -> Iterator[BufferLoad]:
    """Yield the factors of a product of loads: A[i] and B[j] for `cast(A[i]) * if_then_else(c, B[j], 0)`. Yields
    nothing for other terms.
    """
    while isinstance(term, Cast) or _or_zero(term):
        term = term.value if isinstance(term, Cast) else term.args[1]  # type: ignore[union-attr]
    if isinstance(term, Mul):
        yield from factors(term.a)
        yield from factors(term.b)
    elif isinstance(term, BufferLoad):
        yield term


def _or_zero(e: Expr | None) -> bool:
    """Return whether an expression is an `if_then_else` that evaluates to 0 if its condition is false."""
    if not isinstance(e, Call) or e.op != "if_then_else":
        return False
    other = e.args[2]
    return isinstance(other, IntImm | FloatImm) and other.value == 0


def zero_pattern(func: PrimFunc, term: Expr | None, iterator: Var) -> ZeroPattern | None:
    """Return the pattern of zero terms in a sum along an iterator; None if no pattern is found."""
    for load in factors(term):
        store = _only_store(func, load)
        if store is None:
            continue
        places = {p: q for p, q in zip(store.indices, load.indices, strict=True) if isinstance(p, Var)}
        for condition in _required(store):
            if not isinstance(condition, EQ) or not is_const(condition.b, 0) or not isinstance(condition.a, FloorMod):
                continue
            divided, step = condition.a.a, condition.a.b
            if not isinstance(step, IntImm) or step.value < 2 or not set(_linear(divided).terms) <= places.keys():
                continue
            form = _linear(substitute(divided, places))
            times, rest = form.terms.get(iterator, 0), form.without(iterator)
            if gcd(times, step.value) == 1 and all(v is not iterator for v in variables(rest)):
                return ZeroPattern(load, step.value, times, rest)
    return None


def _linear(e: Expr) -> Affine:
    return _ARITHMETIC.affine(e)


def _only_store(func: PrimFunc, load: BufferLoad) -> BufferStore | None:
    """Return the only store to the buffer of a load, which must be indexed by distinct variables; None if there is no
    such store.
    """
    if load.buffer in func.params:
        return None
    writers = [node for node in walk(func.body) if _may_write(node, load)]
    store = writers[0] if len(writers) == 1 else None
    if not isinstance(store, BufferStore) or store.predicate is not None:
        return None
    apart = len(set(store.indices)) == len(store.indices)
    return store if apart and all(isinstance(index, Var) for index in store.indices) else None


def _may_write(node: Node, load: BufferLoad) -> bool:
    if isinstance(node, MatchBufferRegion):
        return load.buffer in (node.buffer, node.source.buffer)
    return handed_out(node) is load.buffer or (isinstance(node, BufferStore) and node.buffer is load.buffer)


def _required(store: BufferStore) -> list[Expr]:
    """Return conditions that must all hold for the stored value to be nonzero."""
    value = store.value
    return list(conjuncts(value.args[0])) if isinstance(value, Call) and _or_zero(value) else []
