"""Iteration maps against enumeration: what is called injective or independent is; common bindings are recognised."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.arith.iter_check import inverse
from minitvm.arith.iter_map import detect
from minitvm.arith.iter_map import simplify as iter_map_simplify
from minitvm.expr import EQ, Expr, Range, SizeVar, Var, const
from tests.fewer import examples

from .expressions import evaluate

i, j, k = Var("i"), Var("j"), Var("k")
n, m = SizeVar("n"), SizeVar("m")


def _expressions(loops: list[Var]) -> st.SearchStrategy[Expr]:
    """Sums, quotients and remainders with the constants that tiles have, right or wrong for the extents at hand."""
    number = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
    leaf = st.sampled_from(loops)
    return st.recursive(
        leaf,
        lambda sub: st.one_of(
            st.builds(lambda a, c, b: a * c + b, sub, number, sub),
            st.builds(lambda a, c: a // c, sub, number),
            st.builds(lambda a, c: a % c, sub, number),
            st.builds(lambda a, c: a * c, sub, number),
            st.builds(lambda a, c: a + c, sub, number),
        ),
        max_leaves=4,
    )


def _image(bindings: list[Expr], domain: dict[Var, int], predicate: Expr) -> list[tuple[int, ...]]:
    envs = (dict(zip(domain, p)) for p in itertools.product(*(range(x) for x in domain.values())))
    return [tuple(evaluate(b, env) for b in bindings) for env in envs if evaluate(predicate, env)]


def _is_injective(image: list[tuple[int, ...]]) -> bool:
    return len(set(image)) == len(image)


def _is_product(image: list[tuple[int, ...]]) -> bool:
    """Whether every combination of the bindings' values is reached."""
    columns = [set(c) for c in zip(*image)]
    size = 1
    for column in columns:
        size *= len(column)
    return len(set(image)) == size


@given(st.data())
@examples(40, 120)
def test_what_is_claimed_holds(data: st.DataObject) -> None:
    loops = [i, j, k][: data.draw(st.integers(1, 3))]
    domain = {v: data.draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for v in loops}
    bindings = data.draw(st.lists(_expressions(loops), min_size=1, max_size=3))
    predicate: Expr = const(True)
    for _ in range(data.draw(st.integers(0, 2))):
        predicate = (data.draw(_expressions(loops)) < data.draw(st.integers(1, 40))) & predicate
    image = _image(bindings, domain, predicate)
    if detect(bindings, domain, predicate, "injective"):
        assert _is_injective(image)
    if image and detect(bindings, domain, predicate, "surjective"):
        assert _is_product(image)
    bijective = detect(bindings, domain, predicate, "bijective")
    if image and bijective:
        assert _is_injective(image)
        assert _is_product(image)


@given(st.data())
@settings(max_examples=60)
def test_inverse_gives_the_loops_back(data: st.DataObject) -> None:
    loops = [i, j, k][: data.draw(st.integers(1, 3))]
    domain = {v: data.draw(st.sampled_from([2, 3, 4, 6, 8])) for v in loops}
    bindings = data.draw(st.lists(_expressions(loops), min_size=1, max_size=3))
    found = detect(bindings, domain, level="injective")
    if not found:
        return
    outputs = [Var(f"o{d}") for d in range(len(bindings))]
    back = inverse(found, outputs)
    for point in itertools.product(*(range(x) for x in domain.values())):
        env = dict(zip(domain, point))
        values = {o: evaluate(b, env) for o, b in zip(outputs, bindings)}
        assert {v: evaluate(e, values) for v, e in back.items()} == {v: x for v, x in env.items() if v in back}
        assert set(back) == set(loops)


@given(st.data())
@examples(20, 60)
def test_simplify_keeps_values_where_the_predicate_holds(data: st.DataObject) -> None:
    loops = [i, j]
    domain = {v: data.draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for v in loops}
    bindings = data.draw(st.lists(_expressions(loops), min_size=1, max_size=2))
    predicate = data.draw(_expressions(loops)) < data.draw(st.integers(1, 40))
    simple = iter_map_simplify(bindings, domain, predicate)
    assert _image(list(simple), domain, predicate) == _image(bindings, domain, predicate)


@pytest.mark.parametrize(
    ("bindings", "domain", "predicate", "level"),
    [
        ([i * 128 + j], {i: 8, j: 128}, True, "bijective"),
        ([i * 128 + j], {i: 8, j: 128}, i * 128 + j < 1000, "bijective"),
        ([(i * 128 + j) // 10, (i * 128 + j) % 10], {i: 8, j: 128}, i * 128 + j < 1000, "bijective"),
        ([i // 4, i % 4], {i: 10}, True, "injective"),
        ([i * 4 + j], {i: 8, j: 3}, True, "injective"),
        ([j, i], {i: 8, j: 9}, True, "bijective"),
        ([i + 3], {i: Range.of(2, 8)}, True, "bijective"),
        ([i], {i: 8, j: 4}, True, "surjective"),
        ([i * n + j], {i: 8, j: n}, True, "bijective"),
        ([i // n, i % n], {i: Range.of(n * m)}, True, "bijective"),
        ([i * 128 + j], {i: Range.of((n + 127) // 128), j: 128}, i * 128 + j < n, "bijective"),
        ([(i * 8 + j) * 8 + k], {i: 3, j: 8, k: 8}, (i * 8 + j) * 8 + k < 130, "bijective"),
        ([i * 16 + j, k], {i: 4, j: 16, k: 5}, (i * 16 + j < 60) & (k < 4), "bijective"),
    ],
)
def test_bindings_of_schedules_are_recognised(bindings: Any, domain: Any, predicate: Any, level: str) -> None:
    found = detect(bindings, domain, predicate, level)
    assert found, found.errors


@pytest.mark.parametrize(
    ("bindings", "domain", "reason"),
    [
        ([i + j], {i: 8, j: 3}, "j overlaps with the smaller terms of i + j"),
        ([i], {i: 8, j: 3}, "loop j is not used"),
        ([i // 4], {i: 8}, "only i // 4 of loop i is used"),
        ([i * j], {i: 8, j: 3}, "i * j multiplies two iterators"),
        ([i // j], {i: 8, j: 3}, "i // j divides by an iterator"),
        ([EQ(i, j).astype("int32")], {i: 8, j: 3}, "is not a sum of iterators"),
        ([i % 3, i // 6], {i: 12}, "only i % 3, i // 6 of loop i is used"),
    ],
)
def test_reasons(bindings: Any, domain: Any, reason: str) -> None:
    errors = detect(bindings, domain, level="injective").errors
    assert len(errors) == 1
    assert reason in errors[0]


def test_surjective_refusals_say_why() -> None:
    assert "use the same part of i" in detect([i, i], {i: 4}).errors[0]
    assert (
        "apart from the sum that the predicate bounds" in detect([i, j], {i: 8, j: 128}, i * 128 + j < 1000).errors[0]
    )
    assert "is not a bound of one fused iterator" in detect([i], {i: 4}, EQ(i, const(2))).errors[0]
    with pytest.raises(ValueError, match="is not one of"):
        detect([i], {i: 4}, level="total")
    with pytest.raises(ValueError, match="has an inverse"):
        inverse(detect([i], {i: 4}, level="surjective"), [i])


def test_the_callers_analyzer_is_left_alone() -> None:
    analyzer = Analyzer({i: (0, 100)})
    assert detect([i], {i: 4}, analyzer=analyzer)
    assert analyzer.bounds(i) == (0, 100)
