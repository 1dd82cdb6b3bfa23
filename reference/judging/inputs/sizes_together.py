"""Find sizes of several dimensions that only together fulfil a program's conditions: `n > m and m > 8`.

`inputs.sizes` handles conditions on one dimension. A condition on several dimensions, or several conditions on one, is
the goal of a search (`reference.judging.inputs.search`), which starts from the sizes that are tried anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from minitvm import expr as x

from ..programs import Program
from .search import Search
from .signs import nodes

SEARCHED = 4  # sizes that a search adds, at most
ITERATIONS = 1 << 11  # the product of the dimensions
CONDITIONS = 8


def together(before: Program, after: Program, names: Sequence[str],
             tried: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:  # fmt: skip
    """Return the first tried sizes with some dimensions changed, one set for each side of a condition that none
    takes.
    """
    dims = {name: x.Var(name, x.DType("int64")) for name in names}
    both = [list(dict.fromkeys(_conditions(program, dims)))[:CONDITIONS] for program in (before, after)]
    if not any(both) or not tried:
        return []
    product: x.Expr = x.IntImm(1, x.DType("int64"))
    for var in dims.values():
        product = x.Mul(product, var)
    most = x.IntImm(ITERATIONS, product.dtype)
    guards: list[tuple[x.Expr, bool]] = [(x.GE(var, x.IntImm(1, var.dtype)), True) for var in dims.values()]
    guards += [(x.LE(e, most), True) for e in (*dims.values(), product)]
    start = {var: np.array([one[name] for one in tried], np.int64) for name, var in dims.items()}
    search = Search(both[0], both[1], list(dims.values()), guards=tuple(guards))
    search.run(start, len(tried))
    candidates = [{**tried[0], **{name: int(point[var][0]) for name, var in dims.items()}} for point in search.reached]
    return [one for k, one in enumerate(candidates) if one not in candidates[:k] and one not in tried][:SEARCHED]


def _conditions(program: Program, dims: Mapping[str, x.Var]) -> Iterator[x.Expr]:
    """Yield the conditions on dimensions alone, on several of them or with several parts, over the variables `dims`."""
    inner: set[int] = set()
    for n in nodes(program):
        if id(n) in inner or not isinstance(n, x.And | x.Or | x.CompareOp):
            continue
        parts = list(x.walk(n))
        variables = [v for v in parts if isinstance(v, x.Var)]
        plain = all(isinstance(p, x.Var | x.IntImm | x.BinaryOp | x.Not) and not p.dtype.is_float for p in parts)
        if not plain or not variables or any(v.name not in dims for v in variables):
            continue
        inner.update(map(id, parts))
        if isinstance(n, x.LogicalOp) or len({v.name for v in variables}) > 1:
            yield _wide(n, dims)


def _wide(e: x.Expr, dims: Mapping[str, x.Var]) -> x.Expr:
    """Return an expression in 64 bits, where no size overflows."""
    if isinstance(e, x.Var):
        return dims[e.name]
    if isinstance(e, x.IntImm):
        return e if e.dtype.is_bool else x.IntImm(e.value, x.DType("int64"))
    return x.map_children(e, lambda child: _wide(child, dims))
