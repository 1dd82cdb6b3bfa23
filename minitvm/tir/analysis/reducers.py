"""The associative reducers that `rfactor` supports, and how a block's update is matched with one of them.

An update `X = f(X, e)` of one buffer, or of several at once, is matched against `combine(x, y)` of each reducer: x are
the elements that are accumulated, and y are the values combined into them. `register_reducer` adds a reducer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ... import expr as ex
from ...errors import InputError, TypeMismatch
from .. import op

Values = tuple[ex.Expr, ...]
Combine = Callable[[Values, Values], Sequence[ex.Expr]]


@dataclass(frozen=True, slots=True)
class Relative:
    """Marks the values of a reducer as sums relative to a reference: the value at position `reference`, which is
    combined independently.

    If r is the combined reference, the other values are `x[k] * weight(x[reference], r) + y[k] * weight(y[reference],
    r)`, and weight(a, b) * weight(b, c) = weight(a, c).
    """

    reference: int
    weight: Callable[[ex.Expr, ex.Expr], ex.Expr]


@dataclass(frozen=True, slots=True)
class Reducer:
    """An associative combination of tuples of `count` values.

    In `combine(x, y)`, x are the accumulated values. `identity(dtypes)` returns the neutral element: combine(identity,
    y) = y. If `commutative` is set, the values may be combined in any order. If `idempotent` is set, combining a value
    twice changes nothing, so all partial results may start from the same init.

    If `relative` is set, all values except the reference are sums relative to the reference, and may be computed once
    it is known.
    """

    name: str
    count: int
    combine: Combine
    identity: Callable[[tuple[ex.DType, ...]], Sequence[ex.Expr]]
    commutative: bool = True
    idempotent: bool = False
    relative: Relative | None = None

    def apply(self, x: Values, y: Values) -> Values:
        """Return the combination of two tuples of values."""
        return tuple(ex.as_expr(value) for value in self.combine(x, y))


@dataclass(frozen=True, slots=True)
class ReducerMatch:
    """An update that matches `reducer.combine(x, operand)`, or `reducer.combine(operand, x)` if `swapped` is set."""

    reducer: Reducer
    operand: Values
    swapped: bool = False

    def apply(self, x: Values, y: Values) -> Values:
        """Combine `y` into `x` the way the update does."""
        return self.reducer.apply(y, x) if self.swapped else self.reducer.apply(x, y)

    def start(self, init: Values) -> Values:
        """Return the initial value of a partial result, given that the whole reduction starts from `init`."""
        if self.reducer.idempotent:
            return init
        return tuple(self.reducer.identity(tuple(value.dtype for value in init)))


REDUCERS: list[Reducer] = []


def register_reducer(
    name: str,
    combine: Combine,
    identity: Callable[[tuple[ex.DType, ...]], Sequence[ex.Expr]],
    count: int = 1,
    *,
    commutative: bool = True,
    idempotent: bool = False,
    relative: Relative | None = None,
) -> Reducer:
    """Make `rfactor` accept reductions of this form. A later registration with the same name replaces an earlier one.

    `combine(x, y)` takes and returns tuples of `count` expressions; x is the accumulated value. It must be associative,
    and `identity(dtypes)` must be its neutral element on the left; this is not checked here. Pass `commutative=False`
    if the order matters (for example, the first of equal values wins): then only the outermost reduction loop may be
    factored. For `relative` see `Relative`.

        register_reducer("xor", lambda x, y: (x[0] ^ y[0],), lambda dtypes: (const(0, dtypes[0]),))

    (TVM's `tir.schedule.RegisterReducer`.)
    """
    if count < 1:
        raise InputError(f"register_reducer {name}: wanted at least one value, found count={count}")
    reducer = Reducer(name, count, combine, identity, commutative, idempotent, relative)
    if name in (other.name for other in REDUCERS):
        REDUCERS[:] = [reducer if other.name == name else other for other in REDUCERS]
    else:
        REDUCERS.append(reducer)
    return reducer


def recognise(own: Values, update: Values) -> ReducerMatch | None:
    """Return the reducer that turns the elements `own` into `update` by combining a value into them; None if there is
    none.

    If no reducer combines all elements at once, each element may have its own. For example, one may be a sum and the
    other a sum of squares.
    """
    for reducer in REDUCERS:
        if reducer.count != len(own):
            continue
        for swapped in (False, True):
            operand = _match(reducer, own, update, swapped)
            if operand is not None:
                return ReducerMatch(reducer, operand, swapped)
    parts = [recognise((o,), (u,)) for o, u in zip(own, update, strict=True)] if len(own) > 1 else []
    matches = [part for part in parts if part is not None]
    return _beside(matches) if matches and len(matches) == len(parts) else None


def _beside(parts: Sequence[ReducerMatch]) -> ReducerMatch:
    """Merge several updates of one element each into a single update of all elements."""

    def combine(x: Values, y: Values) -> Sequence[ex.Expr]:
        return [value for part, a, b in zip(parts, x, y, strict=True) for value in part.apply((a,), (b,))]

    def identity(dtypes: tuple[ex.DType, ...]) -> Sequence[ex.Expr]:
        return [value for part, t in zip(parts, dtypes, strict=True) for value in part.reducer.identity((t,))]

    reducer = Reducer(
        " beside ".join(part.reducer.name for part in parts),
        len(parts),
        combine,
        identity,
        commutative=all(part.reducer.commutative for part in parts),
        idempotent=all(part.reducer.idempotent for part in parts),
    )
    return ReducerMatch(reducer, tuple(value for part in parts for value in part.operand))


def _match(reducer: Reducer, own: Values, update: Values, swapped: bool) -> Values | None:
    x = tuple(ex.Var(f"x{k}", e.dtype) for k, e in enumerate(own))
    y = tuple(ex.Var(f"y{k}", e.dtype) for k, e in enumerate(own))
    try:
        pattern = reducer.apply(y, x) if swapped else reducer.apply(x, y)
    except TypeMismatch:
        return None  # the reducer has no meaning for these dtypes
    operands: dict[ex.Var, ex.Expr] = {}
    fixed = dict(zip(x, own, strict=True))
    if not all(_unify(_upright(p), _upright(u), fixed, y, operands) for p, u in zip(pattern, update, strict=True)):
        return None
    if any(v not in operands for v in y):
        return None
    return tuple(operands[v] for v in y)


def _upright(e: ex.Expr) -> ex.Expr:
    """Make all comparisons point the same way: `a < b` becomes `b > a`."""
    turned: dict[type[ex.Node], type[ex.GT] | type[ex.GE]] = {ex.LT: ex.GT, ex.LE: ex.GE}

    def change(node: ex.Node) -> ex.Node | None:
        other = turned.get(type(node))
        return None if other is None else other(node.b, node.a)  # type: ignore[attr-defined]

    upright: ex.Expr = ex.rewrite(e, change)
    return upright


def _unify(
    pattern: ex.Node, e: ex.Node, fixed: Mapping[ex.Var, ex.Expr], holes: Values, operands: dict[ex.Var, ex.Expr]
) -> bool:
    """Return whether an expression matches a pattern in which the variables `holes` stand for any values; these values
    are added to `operands`.
    """
    if isinstance(pattern, ex.Var):
        if pattern in fixed:
            return ex.structural_equal(fixed[pattern], e)
        if not isinstance(e, ex.Expr) or pattern.dtype != e.dtype:
            return False
        earlier = operands.setdefault(pattern, e)
        return earlier is e or ex.structural_equal(earlier, e)
    if isinstance(pattern, ex.Mul) and pattern.a in holes:
        # The weighted value may be on either side of its weight; if it is not written, it is 1.
        written = [(e.a, e.b), (e.b, e.a)] if isinstance(e, ex.Mul) else []
        for value, weight in (*written, (ex.const(1, pattern.dtype), e)):
            attempt = dict(operands)
            if _unify(pattern.b, weight, fixed, holes, attempt) and _unify(pattern.a, value, fixed, holes, attempt):
                operands.update(attempt)
                return True
        return False
    if type(pattern) is not type(e):
        return False
    for name in pattern._children:
        mine, theirs = getattr(pattern, name), getattr(e, name)
        several = isinstance(mine, tuple)
        if several and len(mine) != len(theirs):
            return False
        for a, b in zip(mine, theirs, strict=True) if several else ((mine, theirs),):
            if a is None or b is None:
                if a is not b:
                    return False
            elif not _unify(a, b, fixed, holes, operands):
                return False
    # The children agree: put those of the expression into the pattern, so that only the node's other fields are
    # compared.
    return ex.structural_equal(ex.replace(pattern, **{name: getattr(e, name) for name in pattern._children}), e)


# ---- the reducers that come with the package -----------------------------------------------------------------------


register_reducer("sum", lambda x, y: (ex.Add(x[0], y[0]),), lambda t: (ex.const(0, t[0]),))
register_reducer("prod", lambda x, y: (ex.Mul(x[0], y[0]),), lambda t: (ex.const(1, t[0]),))
register_reducer("min", lambda x, y: (ex.Min(x[0], y[0]),), lambda t: (op.highest(t[0]),), idempotent=True)
register_reducer("max", lambda x, y: (ex.Max(x[0], y[0]),), lambda t: (op.lowest(t[0]),), idempotent=True)


def _running_softmax(at: int) -> Combine:
    """Return the function that combines two partial results of online softmax. A partial result is the maximum of the
    scores, at position `at`, and sums weighted by exp(score - maximum).

    (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.)
    """

    def combine(x: Values, y: Values) -> Sequence[ex.Expr]:
        top = ex.Max(x[at], y[at])
        old, new = op.exp(ex.Sub(x[at], top)), op.exp(ex.Sub(y[at], top))
        sums = (ex.Add(ex.Mul(a, old), ex.Mul(b, new)) for a, b in zip(x, y, strict=True))
        return [top if k == at else total for k, total in enumerate(sums)]

    return combine


def _no_scores(at: int) -> Callable[[tuple[ex.DType, ...]], Sequence[ex.Expr]]:
    """Return the neutral element of online softmax: empty sums relative to the lowest finite score.

    Combining a masked score of -inf with it adds nothing.
    """
    return lambda dtypes: [op.min_value(t) if k == at else ex.const(0, t) for k, t in enumerate(dtypes)]


def _below(score: ex.Expr, reference: ex.Expr) -> ex.Expr:
    return op.exp(ex.Sub(score, reference))


for _sums in range(1, 4):
    for _at in range(_sums + 1):
        register_reducer(
            f"softmax (of {_sums}, maximum at {_at})",
            _running_softmax(_at),
            _no_scores(_at),
            1 + _sums,
            relative=Relative(_at, _below),
        )


def _better(largest: bool, a: ex.Expr, b: ex.Expr, or_equal: bool = False) -> ex.Expr:
    kind = ex.GE if or_equal else ex.GT
    return kind(a, b) if largest else kind(b, a)


def _chosen(largest: bool, at: int, ties: str, value: str) -> Combine:
    """Return the function that combines two (index, value) pairs for argmax (`largest`) or argmin; `at` is the position
    of the index in the pair.

    `ties` says which index wins if the values are equal: "kept" is the old one, "taken" the new one, "first" the
    smaller one and "last" the larger one. The suffix "+nan" means that NaN counts as the best value. `value` says how
    the selection of the value is written.
    """

    def combine(x: Values, y: Values) -> Sequence[ex.Expr]:
        a, b, i, j = x[1 - at], y[1 - at], x[at], y[at]
        rule, _, with_nan = ties.partition("+")
        better = _better(largest, a, b, rule == "kept")
        whole = better
        if rule in ("first", "last"):
            equal: ex.Expr = _equal(a, b)
            earlier = ex.GT(j, i) if rule == "first" else ex.GT(i, j)
            if with_nan:
                better = op.any(better, op.all(op.isnan(a), _equal(b, b)))
                equal = op.any(equal, op.all(op.isnan(a), op.isnan(b)))
            whole = op.any(better, op.all(equal, earlier))
        winner: ex.Expr
        if value == "same":
            winner = op.select(whole, a, b)
        elif value == "extreme":
            winner = (ex.Max if largest else ex.Min)(a, b)
        else:
            winner = op.select(_better(largest, a, b, value == "or_equal"), a, b)
        index = op.select(whole, i, j)
        return (index, winner) if at == 0 else (winner, index)

    return combine


def _equal(a: ex.Expr, b: ex.Expr) -> ex.Expr:
    return ex.binary(ex.EQ, a, b)


def _worst(largest: bool, at: int, last: bool) -> Callable[[tuple[ex.DType, ...]], Sequence[ex.Expr]]:
    def identity(dtypes: tuple[ex.DType, ...]) -> Sequence[ex.Expr]:
        value = op.lowest(dtypes[1 - at]) if largest else op.highest(dtypes[1 - at])
        index = ex.const(0 if dtypes[at].kind == "uint" else -1, dtypes[at]) if last else op.max_value(dtypes[at])
        return (index, value) if at == 0 else (value, index)

    return identity


# "kept" and "taken" choose by the order of the elements; "first" and "last" only by the index. All except "taken" may
# start every partial result from the init: its index wins again, or loses again. With "taken", an init that is equal to
# earlier elements would win against them, so partial results start from a value that loses every tie.
for _largest, _at in product((True, False), (0, 1)):
    for _ties, _value in (
        *product(("kept", "taken"), ("same", "extreme")),
        ("kept", "strict"),
        ("taken", "or_equal"),
        *product(("first", "last"), ("same", "strict", "or_equal", "extreme")),
        ("first+nan", "same"),
        ("last+nan", "same"),
    ):
        register_reducer(
            f"arg{'max' if _largest else 'min'} ({_ties}, {_value}, index {'first' if _at == 0 else 'second'})",
            _chosen(_largest, _at, _ties, _value),
            _worst(_largest, _at, _ties in ("taken", "last", "last+nan")),
            2,
            commutative=_ties not in ("kept", "taken"),
            idempotent=_ties != "taken",
        )

__all__ = ["REDUCERS", "Reducer", "ReducerMatch", "Relative", "recognise", "register_reducer"]
