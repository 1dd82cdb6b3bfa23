"""The sizes at which conditions on a dimension change: `n > 1000`, `n % 97 == 5`, `i == 1999` in a loop up to n.

Each condition on dimensions and loop variables is evaluated for many values of one dimension at once, while the others
are small: for all values up to `DENSE`, and near the constants of the condition and their products. Both sides of a
condition are candidates, and so are the first two sizes at which it changes. A condition on two dimensions, such as
`n == 2 * m`, is also evaluated for pairs of values: those up to `PAIRED`, and those near its constants. Large sizes
are affordable as long as the arguments are few elements; a side that no affordable size reaches is reported in the
verdict.
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
PAIRED = 40  # all pairs of values up to this are looked at
FAR_PAIRED = 32  # other values of one dimension in pairs
BITS = ("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor")
PAIRS = 3  # of dimensions, for one condition


@dataclass(frozen=True)
class Change:
    """A side of a condition, as text, and sizes of dimensions, by name, that take this side; the best ones first.

    `missed` tells that none of the sizes that are tried anyway takes this side.
    """

    names: tuple[str, ...]
    text: str
    sizes: tuple[dict[str, int], ...]
    missed: bool


def changes(before: Program, after: Program, names: Sequence[str], tried: Sequence[Mapping[str, int]],
            beside: Mapping[str, int]) -> list[Change]:  # fmt: skip
    """Return the sides of all conditions, for one dimension and then for two; other dimensions have the sizes of
    `beside`.
    """
    result: dict[tuple[tuple[str, ...], str], Change] = {}
    for program in (before, after):
        flow, ranges = Flow(program), _ranges(program)
        for e in itertools.islice(_conditions(program), CONDITIONS):
            reach = {v: flow.variables([v]).intersection(names) | ({v.name} & {*names}) for v in x.free_vars(e)}
            deciding = [name for name in names if any(name in reached for reached in reach.values())]
            condition = _Condition(e, reach, ranges, beside)
            sides = [change for name in deciding for change in condition.sides(name, tried)]
            for pair in itertools.islice(itertools.combinations(deciding, 2), PAIRS):
                sides += condition.sides_of_two(pair, tried)
            for change in sides:
                result.setdefault((change.names, change.text), change)
    return sorted(result.values(), key=lambda change: len(change.names))


def _conditions(program: Program) -> Iterator[x.Expr]:
    """Yield each condition on sizes and loop variables with constants or bits, including those of `min` and `max`,
    once.
    """
    met: list[x.Expr] = []
    for n in nodes(program):
        if isinstance(n, x.Min | x.Max):
            n = x.LT(n.a, n.b)
        if not isinstance(n, x.CompareOp | x.LogicalOp) or n.a.dtype.is_float or not _is_plain(n):
            continue
        parts = list(x.walk(n))
        telling = any(2 <= abs(p.value) <= LARGEST for p in parts if isinstance(p, x.IntImm) and not p.dtype.is_bool)
        telling = telling or any(isinstance(p, x.Call) for p in parts)
        if telling and not any(x.structural_equal(n, m) for m in met):
            met.append(n)
            yield n


def _is_plain(e: x.Expr) -> bool:
    parts = list(x.walk(e))
    plain = all(isinstance(p, x.Var | x.IntImm | x.BinaryOp | x.Not | x.Cast) or _is_of_bits(p) for p in parts)
    sizes = [p for p in parts if isinstance(p, x.Var)]
    return plain and bool(sizes) and not any(isinstance(p, x.DataVar) or p.dtype.is_float for p in sizes)


def _is_of_bits(e: x.Node) -> bool:
    return isinstance(e, x.Call) and e.op in BITS and e.dtype.is_int


def _ranges(program: Program) -> dict[x.Var, int]:
    """Return the extents of loops that are constants."""
    ranges: dict[x.Var, int] = {}
    for n in nodes(program):
        if isinstance(n, t.For) and isinstance(n.extent, x.IntImm):
            ranges[n.var] = n.extent.value
        elif isinstance(n, x.IterVar) and n.dom is not None and isinstance(n.dom.extent, x.IntImm):
            ranges[n.var] = n.dom.extent.value
    return ranges


@dataclass(frozen=True)
class _Condition:
    """A condition, the dimensions that its variables depend on, and the known extents of loops and other dimensions."""

    e: Any
    reach: Mapping[x.Var, set[str]]
    ranges: Mapping[x.Var, int]
    beside: Mapping[str, int]

    def sides(self, name: str, tried: Sequence[Mapping[str, int]]) -> Iterator[Change]:
        """Yield the sides that are reached if one dimension varies."""
        sizes = _candidates(self.e)
        truth = self._truth({name: sizes})
        own = np.array(sorted({one[name] for one in tried}), np.int64)
        for holds in (True, False):
            here = (truth == holds).any(axis=0)
            if not here.any():
                if self._largest > DENSE:  # of a smaller one all values were looked at, so it holds always or never
                    yield Change((name,), self._text(holds), (), True)
                continue
            first = int(sizes[here][0])
            # A loop takes all values below its extent, so a larger size includes the cases of a smaller one.
            loops = self._has_loops(tried)
            missed = first > own.max(initial=0) if loops else not here[np.searchsorted(sizes, own)].any()
            edges = np.flatnonzero(here & ~np.concatenate([[False], here[:-1]]))[:CHANGES]
            near = [int(sizes[k]) + more for k in edges for more in (0, 1)]
            if holds and not missed:
                near += [int(sizes[k]) for k in np.flatnonzero(~here & np.concatenate([[False], here[:-1]]))[:CHANGES]]
            yield Change((name,), self._text(holds), tuple({name: n} for n in dict.fromkeys(near)), bool(missed))

    def sides_of_two(self, names: tuple[str, str], tried: Sequence[Mapping[str, int]]) -> Iterator[Change]:
        """Yield the sides that need two dimensions to vary and that no other sizes take, each with the smallest
        pair.
        """
        every = _candidates(self.e)
        each = np.concatenate([every[: PAIRED + 1], self._near_constants(every)[:FAR_PAIRED]])
        pairs = np.repeat(each, each.size), np.tile(each, each.size)
        columns = dict(zip(names, pairs, strict=True))
        own = {name: np.array([one[name] for one in tried], np.int64) for name in names}
        truth, taken = self._truth(columns), self._truth(own)
        for holds in (True, False):
            here = np.flatnonzero((truth == holds).any(axis=0))
            if (taken == holds).any() or not here.size:
                continue
            least = here[np.argmin((pairs[0][here] + 1) * (pairs[1][here] + 1))]
            sizes = {name: int(column[least]) for name, column in columns.items()}
            if self._has_loops(tried) and any(all(one[n] >= size for n, size in sizes.items()) for one in tried):
                continue
            yield Change(names, self._text(holds), (sizes,), True)

    def _near_constants(self, candidates: np.ndarray) -> np.ndarray:
        constants = [abs(p.value) for p in x.walk(self.e) if isinstance(p, x.IntImm)]
        near = {c + step for c in constants for step in NEAR}
        return candidates[(candidates > PAIRED) & np.isin(candidates, sorted(near))]

    def _text(self, holds: bool) -> str:
        return f"{self.e} {'holds' if holds else 'does not hold'}"

    @property
    def _largest(self) -> int:
        return max((abs(p.value) for p in x.walk(self.e) if isinstance(p, x.IntImm)), default=0)

    def _has_loops(self, tried: Sequence[Mapping[str, int]]) -> bool:
        return any(v.name not in self.beside and v.name not in tried[0] for v in self.reach)

    def _truth(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return whether the condition holds for each row of sizes, with loops at their begin, middle and end."""
        return np.stack([self._truth_at(columns, part) for part in (0.0, 0.5, 1.0)])

    def _truth_at(self, columns: Mapping[str, np.ndarray], part: float) -> np.ndarray:
        leaves: dict[x.Var, np.ndarray] = {}
        wide: dict[x.Var, x.Expr] = {}
        for v, reached in self.reach.items():
            leaf = wide[v] = x.Var(v.name, x.DType("int64"))
            if v.name in columns:
                leaves[leaf] = columns[v.name]
            elif v.name in self.beside:
                leaves[leaf] = np.full(1, self.beside[v.name], np.int64)
            else:
                extents = [columns[name] for name in columns if name in reached]
                if not extents:
                    extents = [np.full(1, min([self.beside.get(n, 1) for n in reached], default=1), np.int64)]
                if v in self.ranges:
                    extents = [np.full(1, self.ranges[v], np.int64)]
                extent = np.minimum.reduce(extents)
                leaves[leaf] = np.maximum(((extent - 1) * part).astype(np.int64), 0)
        count = next(iter(columns.values())).size
        batch = values_of([condition := _in_64_bits(self.e, wide)], leaves, count)
        return np.broadcast_to(np.where(batch.bad(condition), False, batch[condition]), (count,))


def _candidates(e: x.Expr) -> np.ndarray:
    constants = {abs(p.value) for p in x.walk(e) if isinstance(p, x.IntImm)} - {0, 1}
    centres = set(constants)
    for a, b in itertools.permutations(sorted(constants), 2):
        centres |= {a * b, a // b, a + b, a - b}
    centres |= {a * (b + 1) for a, b in itertools.permutations(sorted(constants), 2)}
    values = {c + step for c in centres for step in NEAR}
    far = np.array(sorted(v for v in values if DENSE < v <= 2 * LARGEST), np.int64)
    return np.concatenate([np.arange(DENSE + 1, dtype=np.int64), far])


def _in_64_bits(e: Any, wide: Mapping[x.Var, x.Expr]) -> Any:
    if isinstance(e, x.Var):
        return wide[e]
    if isinstance(e, x.IntImm):
        return e if e.dtype.is_bool else x.IntImm(e.value, x.DType("int64"))
    if isinstance(e, x.Cast):
        return _in_64_bits(e.value, wide)
    if isinstance(e, x.Call):
        return x.Call(x.DType("int64"), e.op, tuple(_in_64_bits(arg, wide) for arg in e.args))
    return x.map_children(e, lambda child: _in_64_bits(child, wide))
