"""Exact dependence tests with integer sets: may these loops run in another order?

    write = Access("A", (i, j), {i: 8, j: 8}, write=True)
    read = Access("A", (i - 1, j + 1), {i: 8, j: 8})
    find_dependence([write, read], {write: (i, j, 1), read: (i, j, 0)}, {write: (j, i, 1), read: (j, i, 0)})

Two accesses to the same cell must stay in order if one of them is a write. If a source runs before its sink in the old
order, it must run before it in the new order too:

    for all s, t:  before(s) < before(t)  and  cell(s) == cell(t)   =>   after(s) < after(t)

where `before` and `after` are vectors of integers, compared lexicographically. A counterexample is a pair of iterations
and their cell. A test with accesses that are not affine (`A[B[i]]`) is undecided; the answer is never guessed. A
library solves the equations: see `integer_sets`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import expr as ex
from .integer_sets import Condition, Term, Unanswered, point

_COMPARISONS = {ex.LT: "<", ex.LE: "<=", ex.GT: ">", ex.GE: ">=", ex.EQ: "=", ex.NE: "!="}


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A read or a write in a program.

    `buffer` is any hashable name for the array. `domain` lists the enclosing loops, outermost first; each has a `Range`
    (or an extent) that may use outer loops and symbolic sizes. `condition` limits the domain further. Accesses are
    compared by identity, because two accesses with equal fields may be at different places in the program.
    """

    buffer: Any
    indices: tuple[ex.Expr, ...]
    domain: Mapping[Any, Any]
    write: bool = False
    condition: Any = True
    label: str = ""

    @property
    def loops(self) -> tuple[ex.Var, ...]:
        return tuple(v.var if isinstance(v, ex.IterVar) else v for v in self.domain)


@dataclass(frozen=True, slots=True)
class Dependence:
    """A pair of accesses that shows that a new order is wrong: the two iterations, by loop variable, and the array
    element.

    `source` runs first in the old order but not in the new order. `sizes` holds the values of the symbolic sizes in
    this example.
    """

    source: Access
    sink: Access
    source_at: dict[ex.Var, int]
    sink_at: dict[ex.Var, int]
    cell: tuple[int, ...]
    sizes: dict[ex.Var, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of dependence: "read after write", "write after read" or "write after write"."""
        names = {True: "write", False: "read"}
        return f"{names[self.sink.write]} after {names[self.source.write]}"

    def __str__(self) -> str:
        def at(values: dict[ex.Var, int]) -> str:
            return "(" + ", ".join(f"{v.name}={n}" for v, n in values.items()) + ")"

        name = getattr(self.source.buffer, "name", self.source.buffer)
        verb = {True: "written", False: "read"}
        return (
            f"{name}[{', '.join(map(str, self.cell))}] is {verb[self.source.write]} at {at(self.source_at)} "
            f"and {verb[self.sink.write]} at {at(self.sink_at)}"
        )


@dataclass(frozen=True, slots=True)
class Undecided:
    """The result if a question could not be decided. `reason` says why, for example because an index is not affine."""

    reason: str

    def __bool__(self) -> bool:
        return True  # so a caller that forgets this case refuses the change


Order = Mapping[Access, Sequence[Any]]


def find_dependence(
    accesses: Sequence[Access],
    before: Order,
    after: Order,
    parallel: Sequence[int] = (),
    commutes: Callable[[Access, Access], bool] | None = None,
) -> Dependence | Undecided | None:
    """Find two iterations whose order `after` reverses. Returns None if there are none, or `Undecided`.

    `before` and `after` give each access its schedule: expressions over its loops (variables, sums, `//`, `%`) and
    numbers for textual positions, compared lexicographically; a shorter schedule is padded with zeros. Positions of
    `after` that are listed in `parallel` are unordered: iterations that first differ at such a position have no order
    at all (parallel, vectorized, thread loops), so any conflict between them is a dependence. `commutes(source, sink)`
    returns whether a pair may be exchanged, for example two updates of one reduction.
    """
    unordered = frozenset(parallel)
    undecided: Undecided | None = None
    for source, sink in itertools.product(accesses, accesses):
        if source.buffer != sink.buffer or not (source.write or sink.write):
            continue
        if commutes is not None and commutes(source, sink):
            continue
        if len(source.indices) != len(sink.indices):
            undecided = Undecided(
                f"{source.buffer} is indexed with {len(source.indices)} and {len(sink.indices)} dimensions"
            )
            continue
        try:
            dependence = _violation(source, sink, before, after, unordered)
        except (_NotAffine, Unanswered) as error:
            undecided = Undecided(str(error))
            continue
        if dependence is not None:
            return dependence
    return undecided


def carries(
    accesses: Sequence[Access], order: Order, level: int, commutes: Callable[[Access, Access], bool] | None = None
) -> Dependence | Undecided | None:
    """Find a dependence between two iterations that agree in the first `level` parts of `order` and differ in the next
    part.

    If the result is None, the loop at this position may run in parallel.
    """
    return find_dependence(accesses, order, order, (level,), commutes)


class _NotAffine(Exception):
    pass


class _Space:
    """An iteration of an access as integer unknowns: a name for the value of each loop variable, and the constraints on
    these names.
    """

    def __init__(self, tag: str, shared: dict[ex.Var, str]) -> None:
        self.tag = tag
        self.names: dict[ex.Var, str] = {}
        self.shared = shared  # symbolic sizes, the same in both instances
        self.constraints: list[Condition] = []
        self.extra: list[str] = []

    def loop(self, var: ex.Var) -> str:
        name = self.names[var] = f"{self.tag}{len(self.names)}"
        return name

    def term(self, e: Any) -> Term:
        """Return an affine expression as a term. `//` and `%` by constants are allowed; anything else raises
        `_NotAffine`.
        """
        e = ex.as_expr(e)
        if isinstance(e, ex.IntImm):
            return e.value
        if isinstance(e, ex.Var):
            if e in self.names:
                return self.names[e]
            return self.shared.setdefault(e, f"n{len(self.shared)}")
        if isinstance(e, ex.Add | ex.Sub):
            return ("+" if isinstance(e, ex.Add) else "-", self.term(e.a), self.term(e.b))
        if isinstance(e, ex.Mul):
            a, b = (e.a, e.b) if isinstance(e.b, ex.IntImm) else (e.b, e.a)
            if not isinstance(b, ex.IntImm):
                raise _NotAffine(f"{e} multiplies two variables")
            return ("*", b.value, self.term(a))
        if isinstance(e, ex.FloorDiv | ex.FloorMod):
            if not isinstance(e.b, ex.IntImm) or e.b.value <= 0:
                raise _NotAffine(f"{e} does not divide by a positive constant")
            dividend, divisor = self.term(e.a), e.b.value
            floor = ("floor", dividend, divisor)
            return floor if isinstance(e, ex.FloorDiv) else ("-", dividend, ("*", divisor, floor))
        if isinstance(e, ex.Cast) and e.dtype in ("int32", "int64") and e.value.dtype == "int32":
            return self.term(e.value)
        if isinstance(e, ex.Min | ex.Max):
            return self.extreme(e)
        raise _NotAffine(f"{e} is not affine in the loops")

    def extreme(self, e: ex.Min | ex.Max) -> str:
        """Return a new name m for a minimum, constrained by (m == a and a <= b) or (m == b and b <= a).

        A maximum is handled in the same way, with >= instead of <=.
        """
        name = f"{self.tag}m{len(self.extra)}"
        self.extra.append(name)
        a, b = self.term(e.a), self.term(e.b)
        sign = "<=" if isinstance(e, ex.Min) else ">="
        cases = [("and", ("=", name, p), (sign, p, q)) for p, q in ((a, b), (b, a))]
        self.constraints.append(("or", *cases))
        return name

    def condition(self, e: Any) -> Condition:
        e = ex.as_expr(e)
        if isinstance(e, ex.IntImm):
            return ("and",) if e.value else ("or",)
        if isinstance(e, ex.And | ex.Or):
            return ("and" if isinstance(e, ex.And) else "or", self.condition(e.a), self.condition(e.b))
        if isinstance(e, ex.Not):
            return ("not", self.condition(e.a))
        if isinstance(e, ex.Call) and e.op == "likely":
            return self.condition(e.args[0])
        if type(e) in _COMPARISONS:
            return (_COMPARISONS[type(e)], self.term(e.a), self.term(e.b))
        raise _NotAffine(f"{e} is not an affine condition")

    def enter(self, access: Access) -> None:
        for key, values in access.domain.items():
            var = key.var if isinstance(key, ex.IterVar) else key
            r = (
                values.dom
                if isinstance(values, ex.IterVar)
                else values
                if isinstance(values, ex.Range)
                else ex.Range.of(values)
            )
            start, extent = self.term(r.start), self.term(r.extent)
            name = self.loop(var)
            self.constraints += [("<=", start, name), ("<", name, ("+", start, extent))]
        if not (isinstance(access.condition, bool) and access.condition):
            self.constraints.append(self.condition(access.condition))


def _violation(
    source: Access, sink: Access, before: Order, after: Order, parallel: frozenset[int]
) -> Dependence | None:
    shared: dict[ex.Var, str] = {}
    a, b = _Space("s", shared), _Space("t", shared)
    a.enter(source)
    b.enter(sink)
    same_cell = [("=", a.term(x), b.term(y)) for x, y in zip(source.indices, sink.indices, strict=True)]
    old = _pairs(a, b, before[source], before[sink])
    new = _pairs(a, b, after[source], after[sink])
    order = _earlier(old, frozenset())
    kept = _earlier(new, parallel)
    sizes = [(">=", name, 0) for var, name in shared.items() if isinstance(var, ex.SizeVar)]
    names = (*a.names.values(), *b.names.values(), *shared.values(), *a.extra, *b.extra)
    example = point(names, ("and", *a.constraints, *b.constraints, *same_cell, *sizes, order, ("not", kept)))
    if example is None:
        return None
    values = dict(zip(names, example, strict=True))
    source_at = {v: values[n] for v, n in a.names.items()}
    sink_at = {v: values[n] for v, n in b.names.items()}
    found_sizes = {v: values[n] for v, n in shared.items()}
    env = {**source_at, **found_sizes}
    cell = tuple(_value(x, env) for x in source.indices)
    return Dependence(source, sink, source_at, sink_at, cell, found_sizes)


def _pairs(a: _Space, b: _Space, first: Sequence[Any], second: Sequence[Any]) -> list[tuple[Term, Term]]:
    return [(a.term(x), b.term(y)) for x, y in itertools.zip_longest(first, second, fillvalue=0)]


def _earlier(pairs: list[tuple[Term, Term]], parallel: frozenset[int]) -> Condition:
    """Return the condition that a vector comes lexicographically before another one, given the pairs (x, y) of their
    elements.

    For example, the condition for two pairs is `x0 < y0 or (x0 == y0 and x1 < y1)`. A position in `parallel` never
    decides the order.
    """
    cases = []
    for i, (x, y) in enumerate(pairs):
        if i in parallel:
            continue
        equal = [("=", p, q) for p, q in pairs[:i]]
        cases.append(("and", *equal, ("<", x, y)))
    return ("or", *cases)


def _value(e: Any, env: Mapping[ex.Var, int]) -> int:
    e = ex.as_expr(e)
    if isinstance(e, ex.Var):
        return env[e]
    if isinstance(e, ex.IntImm):
        return e.value
    if isinstance(e, ex.Cast):
        return _value(e.value, env)
    x, y = _value(e.a, env), _value(e.b, env)
    return {
        ex.Add: lambda: x + y, ex.Sub: lambda: x - y, ex.Mul: lambda: x * y, ex.FloorDiv: lambda: x // y,
        ex.FloorMod: lambda: x % y,
        ex.Min: lambda: min(x, y), ex.Max: lambda: max(x, y),
    }[type(e)]()  # fmt: skip
