"""IndexMap: on every shape the answers agree with what NumPy says element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.expr import IntImm, SizeVar, Var, const, substitute
from minitvm.tir import IndexMap
from minitvm.tir.index_map import NotInjective

from .schedule.layout_programs import index_maps

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=3)


def places(index_map: IndexMap, shape: list[int]) -> list[tuple[int, ...]]:
    """Where each element goes, worked out one at a time."""
    result = []
    for point in np.ndindex(*shape):
        values = [const(int(p)) for p in point]
        result.append(tuple(evaluated(e) for e in index_map.map_indices(values)))
    return result


def evaluated(e: Any) -> int:
    operators = {
        "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
        "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b, "bitwise_xor": lambda a, b: a ^ b,
    }  # fmt: skip
    if isinstance(e, IntImm):
        return e.value
    parts = e.args if hasattr(e, "args") else (e.a, e.b)
    return operators[getattr(e, "op", type(e).__name__)](*map(evaluated, parts))


@given(st.data(), shapes)
def test_a_drawn_map_is_injective_and_its_shape_is_tight(data: Any, shape: list[int]) -> None:
    index_map = data.draw(index_maps(shape))
    found = places(index_map, shape)
    assert len(set(found)) == len(found)
    assert index_map.why_not_injective(shape) is None
    tops = [max(p[d] for p in found) + 1 for d in range(len(found[0]))]
    wanted = [int(d) for d in index_map.map_shape(shape) if isinstance(d, IntImm)]
    assert all(top <= extent for top, extent in zip(tops, wanted, strict=True))
    array = np.arange(1, np.prod(shape) + 1).reshape(shape)
    moved = index_map.map_ndarray(array)
    assert [moved[p] for p in found] == list(array.reshape(-1))
    assert np.count_nonzero(moved) == array.size


@given(st.data(), shapes)
def test_the_way_back_and_the_padding_are_exact(data: Any, shape: list[int]) -> None:
    index_map = data.draw(index_maps(shape))
    try:
        back, padding = index_map.non_surjective_inverse(shape)
    except NotInjective:
        return  # a swizzle: there is no quasi-affine way back
    found = set(places(index_map, shape))
    extents = [int(d) for d in index_map.map_shape(shape) if isinstance(d, IntImm)]
    from minitvm.arith import Analyzer

    for place in np.ndindex(*extents):
        values = dict(zip(back.initial_indices, (const(int(p)) for p in place), strict=True))
        is_padding = Analyzer().simplify(substitute(padding, values))
        assert isinstance(is_padding, IntImm)
        assert bool(is_padding.value) == (place not in found)
    for point, place in zip(np.ndindex(*shape), places(index_map, shape), strict=True):
        assert tuple(evaluated(e) for e in back.map_indices([const(p) for p in place])) == point


def test_two_elements_in_one_place_are_named() -> None:
    index_map = IndexMap.from_func(lambda i, j: (i // 2, j))
    assert index_map.why_not_injective([4, 3]) == "(0, 0) and (1, 0) both go to (0, 0)"
    with pytest.raises(NotInjective, match="both go to"):
        index_map.inverse([4, 3])


def test_padding_is_no_inverse_of_a_whole_shape() -> None:
    index_map = IndexMap.from_func(lambda i: (i // 4, i % 4))
    assert str(index_map.inverse([16])) == "lambda axis0, axis1: (axis0 * 4 + axis1,)"
    with pytest.raises(NotInjective, match=r"axis0 == 3 and 2 <= axis1"):
        index_map.inverse([14])


def test_symbolic_shapes() -> None:
    n = SizeVar("n")
    index_map = IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
    assert [str(d) for d in index_map.map_shape([n, 6])] == ["(n + 3) // 4", "6", "4"]
    _, padding = index_map.non_surjective_inverse([n, 6])
    assert str(padding) == "n <= axis0 * 4 + axis2"


@pytest.mark.parametrize(
    "of",
    [
        lambda n: lambda i, j: (i * 16 + j + n,), lambda n: lambda i, j: (i * 16 + j + 1,),
        lambda n: lambda i, j: (i * 16 + j,), lambda n: lambda i, j: (j * n + i,), lambda n: lambda i, j: (i + 1, j),
        lambda n: lambda i, j: ((i + 2) // 2, j, (i + 2) % 2), lambda n: lambda i, j: (j, i),
        lambda n: lambda i, j: (j // 4, i, j % 4), lambda n: lambda i, j: (i + n, j),
    ],
)  # fmt: skip
def test_what_fills_every_shape_fills_each(of: Any) -> None:
    """A map over a size fills its new shape only where it does for each size."""
    n = SizeVar("n")
    always = IndexMap.from_func(of(n)).fills([n, 16])
    assert always == all(IndexMap.from_func(of(size)).fills([size, 16]) for size in (1, 2, 3, 5))


def test_indices_of_another_dtype() -> None:
    i, j = Var("i", const(0, "int64").dtype), Var("j", const(0, "int64").dtype)
    mapped = IndexMap.from_func(lambda a, b: (b // 4, a, b % 4)).map_indices([i, j])
    assert [e.dtype for e in mapped] == ["int64"] * 3


def test_an_inverse_that_is_given_is_checked() -> None:
    turned = IndexMap.from_func(lambda i, j: (i, (j + i) % 8), inverse_index_map=lambda i, j: (i, (j - i) % 8))
    assert turned.inverse([8, 8]).map_indices([const(1), const(0)])
    wrong = IndexMap.from_func(lambda i, j: (i, (j + i) % 8), inverse_index_map=lambda i, j: (i, j))
    with pytest.raises(NotInjective, match="its inverse is not known"):
        wrong.inverse([8, 8])


def test_what_depends_on_a_size_has_no_table() -> None:
    """Of a map over other variables nothing is counted out: it is shown, or refused in words."""
    n = SizeVar("n")
    made = IndexMap.from_func(lambda i, j: (j * n + i % 3, i // 3 % n))
    for ask in (made.map_shape, made.inverse, made.non_surjective_inverse):
        with pytest.raises(InputError):
            ask([4, 4])
    assert made.why_not_injective([4, 4])
    with pytest.raises(InputError, match="depends on n, which has no value"):
        made.map_ndarray(np.zeros((4, 4)))
    given = IndexMap.from_func(lambda i, j: (j, i), inverse_index_map=lambda i, j: (j + n, i))
    with pytest.raises(InputError):
        given.inverse([4, 4])


def test_separators_and_equivalence() -> None:
    made, separators = IndexMap.from_func_with_separators(lambda i, j: (i, IndexMap.AXIS_SEPARATOR, j // 4, j % 4))
    assert separators == [1] and len(made.final_indices) == 3
    with pytest.raises(InputError, match="axis separators"):
        IndexMap.from_func(lambda i: (i, IndexMap.AXIS_SEPARATOR))
    assert made.is_equivalent_to(IndexMap.from_func(lambda a, b: (a, b // 4, b % 4)))
    assert not made.is_equivalent_to(IndexMap.from_func(lambda a, b: (a, b // 2, b % 2)))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda i: 1.5, "gives integers"),
        (lambda *i: i, r"needs ndim"),
    ],
)
def test_what_is_no_map(function: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        IndexMap.from_func(function)


@pytest.mark.parametrize(
    "function", [lambda i: i // 0, lambda i: i % 0, lambda i: [i // 2, i % (i - i)], lambda i: 7 // i, lambda i: 7 % i]
)
def test_a_map_that_divides_by_zero_is_refused(function: Any) -> None:
    made = IndexMap.from_func(function)
    for use in (made.why_not_injective, made.inverse, made.map_shape):
        with pytest.raises(InputError, match="divides by zero"):
            use((8,))
    with pytest.raises(InputError, match="divides by zero"):
        made.map_ndarray(np.zeros(8))
