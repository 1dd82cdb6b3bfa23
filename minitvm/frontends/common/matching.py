"""Dimensions that an operator requires to be equal, and that may be equal: this is assumed, and checked at run time.

Two dimensions of a model may be equal at every size at which it is meant to run, although nothing in the model shows
this. Examples are the levels of a feature pyramid, or the lengths of two inputs. If an operator refuses its operands,
it is asked which dimensions it requires to be equal (`topi.shapes.assuming`). Each of these gets a `match_cast`, which
asserts the equality. This is an idea of Relax (Lai et al., "Relax: composable abstractions for end-to-end dynamic
machine learning", ASPLOS'25).

In a branch that a run may not take, the dimensions must be equal only if the branch's condition holds. There, a tensor
is cut or padded to the new dimension. It is the same tensor if both are equal, and has harmless contents otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import MinitvmError
from ...expr import Expr, Not, Or, as_expr, structural_equal, walk
from ...graph.builder import GraphBuilder
from ...graph.nodes import Dim, Value
from ...topi import registry
from ...topi.shapes import assuming, condition_of, is_condition, same, simple

Pairs = list[tuple[Dim, Dim]]


def fitted(
    builder: GraphBuilder,
    op: str,
    values: Sequence[Value],
    attrs: Mapping[str, Any],
    where: str,
    under: Expr | None = None,
) -> tuple[list[Value], dict[str, Any]] | None:
    """Return operands and attributes that the operator `op` accepts once some dimensions are assumed to be equal, or
    None.

    `where` names the node, for the error of a run in which they differ. They may differ in runs in which the condition
    `under` does not hold. Returns None if the operator requires no such equality.
    """
    operator = registry.get(op)
    complete = operator.normalize(attrs)
    with assuming() as assumed:
        try:
            operator.output_types([(v.shape, v.dtype) for v in values], complete)
        except MinitvmError:
            return None
    pairs = _rewriting([(a, b) for a, b in assumed if not is_condition(a)])
    if not pairs or not values:
        return None
    used: set[int] = set()
    cast = []
    for value in values:
        own = [k for k, (old, _) in enumerate(pairs) if any(_alike(old, d) for d in value.shape)]
        used.update(own)
        cast.append(match_cast(builder, value, [pairs[k] for k in own], where, under))
    rest = [pair for k, pair in enumerate(pairs) if k not in used]
    cast[0] = match_cast(builder, cast[0], rest, where, under)
    return cast, {name: _written(value, pairs) for name, value in attrs.items()}


def match_cast(builder: GraphBuilder, value: Value, pairs: Pairs, where: str, under: Expr | None = None) -> Value:
    """Return the value with the first dimension of each pair written as the second, or the value itself without pairs.

    With `under`, a condition on sizes, the pairs must be equal only if it holds.
    """
    if not pairs:
        return value
    if under is not None:
        shape = tuple(_written(d, pairs) for d in value.shape)
        value = resized(builder, value, shape)
        conditions = [Or(Not(under), condition_of(a, b)) for a, b in pairs]
        pairs = [(condition, 1) for condition in map(simple, conditions) if not isinstance(condition, int)]
        if not pairs:
            return value
    result: Value = builder.op("match_cast", value, name=value.name, dims=tuple(pairs), where=where)
    return result


def resized(builder: GraphBuilder, value: Value, shape: Sequence[Dim]) -> Value:
    """Return the value cut or padded with zeros at the end of each axis, or the value itself if it has that shape."""
    more = [0 if same(old, new) else simple(as_expr(new) - old) for old, new in zip(value.shape, shape, strict=True)]
    if all(isinstance(amount, int) and not amount for amount in more):
        return value
    result: Value = builder.op("nn.pad", value, name=value.name, pad_width=tuple((0, amount) for amount in more))
    return result


def _rewriting(assumed: Pairs) -> Pairs:
    """Return replacements of dimensions that make all assumed equalities hold. Of two dimensions, the simpler one
    stays.
    """
    pairs: Pairs = []
    for a, b in assumed:
        left, right = _written(a, pairs), _written(b, pairs)
        if same(left, right):
            continue
        new, old = (left, right) if _weight(left) <= _weight(right) else (right, left)
        pairs = [(first, _written(second, [(old, new)])) for first, second in pairs]
        pairs.append((old, new))
    return pairs


def _weight(dim: Dim) -> int:
    return sum(1 for _ in walk(dim)) if isinstance(dim, Expr) else 0


def _written(value: Any, pairs: Pairs) -> Any:
    """Return a dimension, or an attribute that contains dimensions, rewritten by the pairs."""
    if isinstance(value, tuple | list):
        return type(value)(_written(part, pairs) for part in value)
    if not isinstance(value, Expr):
        return value
    return next((new for old, new in pairs if _alike(old, value)), value)


def _alike(a: Dim, b: Dim) -> bool:
    return isinstance(a, Expr) and isinstance(b, Expr) and structural_equal(as_expr(a), as_expr(b))
