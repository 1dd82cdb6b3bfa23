"""Divisions of iteration spaces: each is checked at every point of the loops."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.arith.subspace import subspace_divide
from minitvm.expr import And, Expr, IntImm, Range, Var, const, substitute

i, j, k, l = (Var(n) for n in "ijkl")


def at(e: Expr, point: dict[Var, Expr]) -> int:
    value = Analyzer().simplify(substitute(e, point))
    assert isinstance(value, IntImm)
    return value.value


def check(bindings: list[Expr], extents: dict[Var, int], inner: list[Var], predicate: Expr | bool = True) -> None:
    """The equation holds everywhere, and the inner parts run once through the product of their extents."""
    divided = subspace_divide(bindings, {v: Range.of(n) for v, n in extents.items()}, inner, predicate)
    assert divided, divided
    for part in divided.parts:
        seen = set()
        for values in itertools.product(*(range(n) for n in extents.values())):
            point = dict(zip(extents, map(const, values), strict=True))
            outside, inside = at(part.outer, point), at(part.inner, point)
            assert 0 <= inside < at(part.inner_extent, point)
            first = at(part.outer_range.start, point)
            assert first <= outside < first + at(part.outer_range.extent, point)
            position = divided.parts.index(part)
            assert at(bindings[position], point) == outside * at(part.inner_extent, point) + inside
            seen.add(inside)
        assert seen == set(range(at(part.inner_extent, {})))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_tiles(a: int, b: int, c: int, d: int) -> None:
    extents = {i: a, j: b, k: c, l: d}
    check([i * c + k, j * d + l], extents, [k, l])
    check([(i * b + j) * c + k, l], extents, [k, l])
    check([i * b + j + 3, k * d + l], extents, [k, l])


def test_quotients_of_inner_loops() -> None:
    check([i * 3 + k // 4, k % 4], {i: 2, k: 12}, [k])
    check([(i * 12 + k) // 4, k % 4], {i: 2, k: 12}, [k])


def test_conditions_go_to_their_side() -> None:
    ranges = {i: Range.of(4), k: Range.of(4)}
    divided = subspace_divide([i, k], ranges, [k], (i < 3) & (k < 2))
    assert divided and str(divided.outer_predicate) == "i < 3" and str(divided.inner_predicate) == "k < 2"
    assert [str(p.inner_extent) for p in divided.parts] == ["1", "2"]
    short = subspace_divide([i * 2 + k], {i: Range.of(2), k: Range.of(2)}, [i, k], i * 2 + k < 3)
    assert short and str(short.parts[0].inner_extent) == "3"
    never = subspace_divide([i, k], ranges, [k], And(const(False), i < 3))
    assert never and str(never.outer_predicate) == "bool(False) and i < 3"
    holes = subspace_divide([i * 4 + k], ranges, [k], k < 2)
    assert not holes and "leaves holes" in holes.predicate_errors[0]
    mixed = subspace_divide([i * 4 + k], ranges, [k], i * 4 + k < 14)
    assert not mixed and "joins outer and inner loops" in mixed.predicate_errors[0]


@pytest.mark.parametrize(
    ("bindings", "text"),
    [
        ([i * 3 + k], "not a multiple"),  # tiles of 4 at distance 3 overlap
        ([(i * 2 + k) // 3], "mixes outer and inner"),
        ([i * k], "mixes outer and inner"),
        ([i], "loop k is not used"),
        ([i * 8 + k * 2], "does not take all values"),
        ([k, k], "same part"),
    ],
)
def test_what_does_not_divide(bindings: list[Expr], text: str) -> None:
    divided = subspace_divide(bindings, {i: Range.of(4), k: Range.of(4)}, [k])
    assert not divided and text in divided.errors[0], divided
