"""Which combinations of values indices take while loops run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import IntImm, Range, Var, substitute
from minitvm.tir.analysis.bindings import reaches_every_point

A, B, C = (Var(name, "int32") for name in "abc")
FUSED = A * 256 + B * 4 + C


@pytest.mark.parametrize(
    ("indices", "extents", "all_are_reached"),
    [
        ([FUSED // 256, FUSED // 64 % 4, FUSED // 4 % 16, FUSED % 4], (3, 64, 4), True),
        ([FUSED // 64 % 4, FUSED // 4 % 16], (1, 64, 4), True),
        ([FUSED // 64 % 4, FUSED // 4 % 16], (1, 63, 4), False),  # the last one of 64 is missing
        ([B // 16, B // 4 % 4], (1, 64, 1), True),
        ([B // 16, B // 8 % 4], (1, 64, 1), False),  # they have a part in common
    ],
)
def test_parts_of_a_fused_loop_that_was_split_another_way(
    indices: list[Any], extents: tuple[int, ...], all_are_reached: bool
) -> None:
    domains = {v: Range(IntImm(0), IntImm(n)) for v, n in zip((A, B, C), extents, strict=True)}
    assert reaches_every_point(indices, domains, Analyzer()) is all_are_reached
    assert counted(indices, extents) is all_are_reached


def counted(indices: list[Any], extents: tuple[int, ...]) -> bool:
    """Whether as many combinations occur as there are points in the box around them."""
    seen = set()
    for point in itertools.product(*map(range, extents)):
        values = dict(zip((A, B, C), map(IntImm, point), strict=True))
        seen.add(tuple(int(Analyzer().simplify(substitute(index, values))) for index in indices))
    volume = 1
    for axis in zip(*seen, strict=True):
        volume *= max(axis) - min(axis) + 1
    return len(seen) == volume


@given(st.data())
def test_only_what_is_reached_is_claimed(data: Any) -> None:
    extents = tuple(data.draw(st.integers(1, 6)) for _ in range(3))
    number: Callable[[], int] = lambda: data.draw(st.integers(1, 8))  # noqa: E731
    fused = A * number() + B * number() + C
    indices = [
        data.draw(st.sampled_from([fused // number(), fused % number(), fused // number() % number(), A, B]))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    domains = {v: Range(IntImm(0), IntImm(n)) for v, n in zip((A, B, C), extents, strict=True)}
    if reaches_every_point(indices, domains, Analyzer()):
        assert counted(indices, extents)
