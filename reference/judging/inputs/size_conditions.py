"""The sizes at which conditions on a dimension change: `n > 1000`, `n % 97 == 5`, `i == 1999` in a loop up to n.

Each condition on dimensions and loop variables is evaluated for many values of one dimension at once, while the others
are small: for all values up to `DENSE`, and near the constants of the condition and their products. Both sides of a
condition are candidates, and so are the first two sizes at which it changes. Large sizes are affordable as long as the
arguments are few elements; a side that no affordable size reaches is reported in the verdict.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.tir import nodes as t

from ..flow import Flow
from ..programs import Program
from .batch import values_of
from .signs import nodes

DENSE = 1 << 12  # all values up to this are looked at
LARGEST = 1 << 40  # constants beyond this are no sizes
NEAR = range(-2, 4)  # values around a constant, and around a product or quotient of two
CONDITIONS = 24  # of one program
CHANGES = 2  # sizes at which one condition changes, with their neighbours


@dataclass(frozen=True)
class Change:
    """A side of a condition, as text, and the values of a dimension at which to see it, the best one first.

    `missed` tells that none of the sizes that are tried anyway takes that side.
    """

    name: str
    text: str
    sizes: tuple[int, ...]
    missed: bool


def changes(before: Program, after: Program, names: Sequence[str], tried: Sequence[Mapping[str, int]],
            beside: Mapping[str, int]) -> list[Change]:  # fmt: skip
    """The sides of all conditions, each for one dimension; the other dimensions have the sizes of `beside`."""
    result: dict[tuple[str, str], Change] = {}
    for program in (before, after):
        flow, ranges = Flow(program), _ranges(program)
        for e in itertools.islice(_conditions(program), CONDITIONS):
            reach = {v: flow.variables([v]).intersection(names) | ({v.name} & {*names}) for v in x.free_vars(e)}
            for name in names:
                if any(name in reached for reached in reach.values()):
                    for change in _sides(e, name, reach, ranges, tried, beside):
                        result.setdefault((change.name, change.text), change)
    return list(result.values())


def _conditions(program: Program) -> Iterator[x.Expr]:
    """Comparisons of sizes and loop variables with constants, also those of `min` and `max`, each once."""
    met: list[x.Expr] = []
    for n in nodes(program):
        if isinstance(n, x.Min | x.Max):
            n = x.LT(n.a, n.b)
        if not isinstance(n, x.CompareOp) or n.a.dtype.is_float or not _is_plain(n):
            continue
        constants = [p.value for p in x.walk(n) if isinstance(p, x.IntImm)]
        if any(2 <= abs(c) <= LARGEST for c in constants) and not any(x.structural_equal(n, m) for m in met):
            met.append(n)
            yield n


def _is_plain(e: x.Expr) -> bool:
    parts = list(x.walk(e))
    plain = all(isinstance(p, x.Var | x.IntImm | x.BinaryOp | x.Cast) and not p.dtype.is_float for p in parts)
    return plain and any(isinstance(p, x.Var) for p in parts) and not any(isinstance(p, x.DataVar) for p in parts)


def _ranges(program: Program) -> dict[x.Var, int]:
    """The extents of loops that are constant."""
    ranges: dict[x.Var, int] = {}
    for n in nodes(program):
        if isinstance(n, t.For) and isinstance(n.extent, x.IntImm):
            ranges[n.var] = n.extent.value
        elif isinstance(n, x.IterVar) and n.dom is not None and isinstance(n.dom.extent, x.IntImm):
            ranges[n.var] = n.dom.extent.value
    return ranges


def _sides(e: Any, name: str, reach: Mapping[x.Var, set[str]], ranges: Mapping[x.Var, int],
           tried: Sequence[Mapping[str, int]], beside: Mapping[str, int]) -> Iterator[Change]:  # fmt: skip
    inner = [v for v in reach if v.name not in beside and v.name not in tried[0]]
    sizes = _candidates(e)
    truth = np.stack([_truth(e, name, sizes, reach, ranges, beside, part) for part in (0.0, 0.5, 1.0)])
    own = np.array(sorted({one[name] for one in tried}), np.int64)
    largest = max(abs(p.value) for p in x.walk(e) if isinstance(p, x.IntImm))
    for holds in (True, False):
        here = (truth == holds).any(axis=0)
        if not here.any():
            if largest > DENSE:  # of a smaller one all values were looked at, and so it holds always or never
                yield Change(name, f"{e} {'holds' if holds else 'does not hold'}", (), True)
            continue
        first = int(sizes[here][0])
        # A loop takes all values below its extent, so that a larger size shows what a smaller one does.
        missed = first > own.max(initial=0) if inner else not here[np.searchsorted(sizes, own)].any()
        edges = np.flatnonzero(here & ~np.concatenate([[False], here[:-1]]))[:CHANGES]
        near = [int(sizes[k]) + more for k in edges for more in (0, 1)]
        if holds and not missed:
            near += [int(sizes[k]) for k in np.flatnonzero(~here & np.concatenate([[False], here[:-1]]))[:CHANGES]]
        yield Change(name, f"{e} {'holds' if holds else 'does not hold'}", tuple(dict.fromkeys(near)), bool(missed))


def _candidates(e: x.Expr) -> np.ndarray:
    constants = {abs(p.value) for p in x.walk(e) if isinstance(p, x.IntImm)} - {0, 1}
    centres = set(constants)
    for a, b in itertools.permutations(sorted(constants), 2):
        centres |= {a * b, a // b, a + b, a - b}
    centres |= {a * (b + 1) for a, b in itertools.permutations(sorted(constants), 2)}
    values = {c + step for c in centres for step in NEAR}
    far = np.array(sorted(v for v in values if DENSE < v <= 2 * LARGEST), np.int64)
    return np.concatenate([np.arange(DENSE + 1, dtype=np.int64), far])


def _truth(e: Any, name: str, sizes: np.ndarray, reach: Mapping[x.Var, set[str]], ranges: Mapping[x.Var, int],
           beside: Mapping[str, int], part: float) -> np.ndarray:  # fmt: skip
    """Whether the condition holds at each size, where loops are at a part of their way."""
    leaves: dict[x.Var, np.ndarray] = {}
    wide: dict[x.Var, x.Expr] = {}
    for v, reached in reach.items():
        leaf = wide[v] = x.Var(v.name, x.DType("int64"))
        if v.name == name:
            leaves[leaf] = sizes
        elif v.name in beside:
            leaves[leaf] = np.full(1, beside[v.name], np.int64)
        else:
            least = [sizes] if name in reached else []
            extent = least[0] if least else np.full(1, min([beside.get(n, 1) for n in reached], default=1), np.int64)
            if v in ranges:
                extent = np.full(1, ranges[v], np.int64)
            leaves[leaf] = np.maximum(((extent - 1) * part).astype(np.int64), 0)
    batch = values_of([condition := _in_64_bits(e, wide)], leaves, sizes.size)
    return np.broadcast_to(np.where(batch.bad(condition), False, batch[condition]), sizes.shape)


def _in_64_bits(e: Any, wide: Mapping[x.Var, x.Expr]) -> Any:
    if isinstance(e, x.Var):
        return wide[e]
    if isinstance(e, x.IntImm):
        return e if e.dtype.is_bool else x.IntImm(e.value, x.DType("int64"))
    if isinstance(e, x.Cast):
        return _in_64_bits(e.value, wide)
    return x.map_children(e, lambda child: _in_64_bits(child, wide))
