"""Dependences against running both orders by hand, two libraries against each other, and the examples in messages."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import integer_sets
from minitvm.arith.dependence import Access, Dependence, Undecided, carries, find_dependence
from minitvm.errors import MissingExtra
from minitvm.expr import EQ, LE, LT, NE, Expr, Max, Min, Range, SizeVar, Var, const

from .expressions import evaluate

i, j = Var("i"), Var("j")


def _skewed(extent: int) -> tuple[Access, Access]:
    """A[i, j] = A[i - 1, j + 1] + 1"""
    domain = {i: Range.of(1, extent), j: extent}
    return Access("A", (i, j), domain, write=True), Access("A", (i - 1, j + 1), domain)


def test_interchange_of_a_skewed_loop_names_the_pair() -> None:
    write, read = _skewed(4)
    found = find_dependence([write, read], {write: (i, j, 1), read: (i, j, 0)}, {write: (j, i, 1), read: (j, i, 0)})
    assert isinstance(found, Dependence)
    assert found.kind == "read after write"
    assert str(found) == "A[1, 1] is written at (i=1, j=1) and read at (i=2, j=0)"


def test_harmless_orders() -> None:
    write, read = _skewed(4)
    old = {write: (i, j, 1), read: (i, j, 0)}
    assert find_dependence([write, read], old, old) is None
    # The inner loop carries nothing, the outer one does.
    assert carries([write, read], old, 1) is None
    assert isinstance(carries([write, read], old, 0), Dependence)


def test_a_split_keeps_the_order_and_its_swap_breaks_it() -> None:
    write, read = Access("A", (i,), {i: Range.of(1, 13)}, write=True), Access("A", (i - 1,), {i: Range.of(1, 13)})
    old = {write: (i, 1), read: (i, 0)}
    assert find_dependence([write, read], old, {write: (i // 4, i % 4, 1), read: (i // 4, i % 4, 0)}) is None
    found = find_dependence([write, read], old, {write: (i % 4, i // 4, 1), read: (i % 4, i // 4, 0)})
    assert isinstance(found, Dependence)


def test_a_question_is_asked_once_whatever_its_variables_are_called() -> None:
    asked = []
    for outer, inner in ((i, j), (Var("a"), Var("b")), (i, j)):
        domain = {outer: Range.of(1, 9), inner: 7}
        write, read = Access("A", (outer, inner), domain, write=True), Access("A", (outer - 1, inner + 1), domain)
        old, new = (
            {write: (outer, inner, 1), read: (outer, inner, 0)},
            {write: (inner, outer, 1), read: (inner, outer, 0)},
        )
        before = integer_sets.point.cache_info().misses
        found = find_dependence([write, read], old, new)
        assert isinstance(found, Dependence)
        assert list(found.source_at) == [outer, inner] and list(found.source_at.values()) == [1, 1]
        asked.append(integer_sets.point.cache_info().misses - before)
    assert asked[0] > 0 and asked[1:] == [0, 0]


def test_symbolic_sizes_give_an_example_size() -> None:
    n = SizeVar("n")
    write, read = Access("A", (i,), {i: n}, write=True), Access("A", (i + 3,), {i: n})
    found = carries([write, read], {write: (i, 1), read: (i, 0)}, 0)
    assert isinstance(found, Dependence)
    assert found.sizes[n] >= 4


def test_a_condition_and_a_minimum_are_understood() -> None:
    write, read = Access("A", (i,), {i: 8}, write=True), Access("A", (Min(i + 1, const(7)),), {i: 8})
    order = {write: (i, 1), read: (i, 0)}
    assert isinstance(carries([write, read], order, 0), Dependence)
    only_last = Access("A", (Min(i + 1, const(7)),), {i: 8}, condition=i >= 7)
    assert carries([write, only_last], {write: (i, 1), only_last: (i, 0)}, 0) is None


def test_what_is_not_affine_is_undecided() -> None:
    write = Access("A", (i * j,), {i: 4, j: 4}, write=True)
    found = carries([write], {write: (i, j)}, 0)
    assert isinstance(found, Undecided)
    assert "multiplies two variables" in found.reason
    assert found


def test_reductions_may_be_exchanged_when_told() -> None:
    update, read = Access("C", (i,), {i: 4, j: 4}, write=True), Access("C", (i,), {i: 4, j: 4})
    old, new = {update: (i, j, 1), read: (i, j, 0)}, {update: (i, -j, 1), read: (i, -j, 0)}
    assert isinstance(find_dependence([update, read], old, new), Dependence)
    assert find_dependence([update, read], old, new, commutes=lambda a, b: True) is None


def _index(variables: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    coefficient = st.integers(-2, 2)
    plain = st.builds(lambda a, b, c: variables[0] * a + variables[1] * b + c, coefficient, coefficient, coefficient)
    return st.one_of(
        plain,
        st.builds(lambda e, d: e // d, plain, st.integers(2, 4)),
        st.builds(lambda e, d: e % d, plain, st.integers(2, 4)),
    )


_ORDERS = [(i, j), (j, i), (-i, j), (i, -j), (i // 2, j, i % 2), (i % 2, i // 2, j), (i + j, j)]


@given(st.data())
@settings(max_examples=60)
def test_against_enumeration(data: st.DataObject) -> None:
    domain = {i: data.draw(st.integers(1, 4)), j: data.draw(st.integers(1, 4))}
    write = Access("A", (data.draw(_index((i, j))),), domain, write=True)
    read = Access("A", (data.draw(_index((i, j))),), domain)
    order, again = data.draw(st.sampled_from(_ORDERS)), data.draw(st.sampled_from(_ORDERS))
    parallel = data.draw(st.sampled_from([(), (0,), (1,)]))
    before = {write: (*order, 1), read: (*order, 0)}
    after = {write: (*again, 1), read: (*again, 0)}
    found = find_dependence([write, read], before, after, parallel)
    assert not isinstance(found, Undecided)
    assert (found is not None) == bool(_brute(write, read, domain, before, after, parallel))
    if found is not None:
        envs = (found.source, found.source_at), (found.sink, found.sink_at)
        cells = [evaluate(access.indices[0], env) for access, env in envs]
        assert cells == [found.cell[0]] * 2
        assert _place(found.source, found.source_at, before) < _place(found.sink, found.sink_at, before)


def _place(access: Access, env: dict[Var, int], order: dict) -> tuple[int, ...]:
    return tuple(evaluate(e, env) if isinstance(e, Expr) else e for e in order[access])


def _brute(write, read, domain, before, after, parallel) -> list[object]:
    envs = [dict(zip(domain, values)) for values in itertools.product(*(range(n) for n in domain.values()))]
    broken = []
    for a, b in itertools.product([write, read], repeat=2):
        if not (a.write or b.write):
            continue
        for s, t in itertools.product(envs, envs):
            if evaluate(a.indices[0], s) != evaluate(b.indices[0], t):
                continue
            if _place(a, s, before) < _place(b, t, before) and not _ordered(
                _place(a, s, after), _place(b, t, after), parallel
            ):
                broken.append((s, t))
    return broken


def _ordered(x: tuple[int, ...], y: tuple[int, ...], parallel: tuple[int, ...]) -> bool:
    for k, (p, q) in enumerate(zip(x, y)):
        if p != q:
            return k not in parallel and p < q
    return False


@pytest.mark.parametrize("extent", [1, 3])
def test_empty_and_single_iterations_carry_nothing(extent: int) -> None:
    write = Access("A", (const(0),), {i: extent}, write=True)
    found = carries([write], {write: (i,)}, 0)
    assert (found is None) == (extent == 1)


def _answer_of(
    package: str, accesses: Sequence[Access], before: Mapping, after: Mapping, parallel: tuple[int, ...]
) -> Dependence | Undecided | None:
    """The answer of one library; what the other one said is not taken from the cache."""
    integer_sets.point.cache_clear()
    with patch.object(integer_sets, "ENGINES", {package: integer_sets.ENGINES[package]}):
        return find_dependence(accesses, before, after, parallel)


@st.composite
def nests(draw: st.DrawFn) -> tuple[list[Access], dict, dict, tuple[int, ...]]:
    """Two or three accesses in a nest of up to three loops, and two orders of it: tiled, skewed, reversed, swapped."""
    loops = [Var(name) for name in "ijk"[: draw(st.integers(1, 3))]]
    n = SizeVar("n")
    extents = st.one_of(st.integers(1, 40), st.sampled_from([n, n + 1, n * 2, Min(n, const(9)), n // 4]))
    domain = {loop: Range.of(draw(st.sampled_from([0, 0, 1, -2])), draw(extents)) for loop in loops}

    def term(depth: int = 2) -> Expr:
        kind = draw(st.integers(0, 5)) if depth else 0
        loop = draw(st.sampled_from(loops))
        if kind <= 1:
            return loop * draw(st.integers(-3, 3)) + draw(st.integers(-3, 3))
        if kind == 2:
            return term(depth - 1) + draw(st.sampled_from([*loops, n]))
        if kind == 3:
            return term(depth - 1) // draw(st.integers(2, 8))
        if kind == 4:
            return term(depth - 1) % draw(st.integers(2, 8))
        return draw(st.sampled_from([Min, Max]))(term(depth - 1), term(depth - 1))

    def condition() -> Expr | bool:
        kind = draw(st.sampled_from([LT, LE, EQ, NE, None, None]))
        return True if kind is None else kind(term(1), term(1))

    rank, count = draw(st.integers(1, 2)), draw(st.integers(2, 3))
    accesses = [
        Access("A", tuple(term() for _ in range(rank)), domain, write=number == 0, condition=condition())
        for number in range(count)
    ]

    def order() -> list[Expr | int]:
        parts: list[Expr | int] = []
        for loop in draw(st.permutations(loops)):
            factor = draw(st.sampled_from([None, None, 2, 4]))
            parts += [-loop if draw(st.booleans()) else loop] if factor is None else [loop // factor, loop % factor]
        if draw(st.booleans()):
            parts[0] = parts[0] + parts[-1]  # skewed
        return parts

    shared = draw(st.booleans())  # all accesses run in the same iterations, or each has loops of its own
    orders = []
    for _ in range(2):
        common = order()
        orders.append({access: (*(common if shared else order()), k) for k, access in enumerate(accesses)})
    return accesses, orders[0], orders[1], draw(st.sampled_from([(), (), (0,), (1,)]))


@given(nests())
@settings(deadline=None)
def test_the_two_libraries_agree(question: tuple[list[Access], dict, dict, tuple[int, ...]]) -> None:
    accesses, before, after, parallel = question
    by_isl, by_z3 = (_answer_of(package, accesses, before, after, parallel) for package in ("islpy", "z3"))
    assert type(by_isl) is type(by_z3), (str(by_isl), str(by_z3))
    if isinstance(by_isl, Undecided):
        assert by_isl == by_z3
    for example in (by_isl, by_z3):
        if isinstance(example, Dependence):
            _is_reversed(example, before, after, parallel)


def _is_reversed(example: Dependence, before: Mapping, after: Mapping, parallel: tuple[int, ...]) -> None:
    """An example shows what it claims: both iterations exist, touch the cell, and are in order only in `before`."""
    places = []
    for access, loops in ((example.source, example.source_at), (example.sink, example.sink_at)):
        env = {**loops, **example.sizes}
        for loop, r in access.domain.items():
            start, extent = evaluate(r.start, env), evaluate(r.extent, env)
            assert start <= env[loop] < start + extent
        assert access.condition is True or evaluate(access.condition, env)
        assert tuple(evaluate(index, env) for index in access.indices) == example.cell
        places.append(
            [tuple(evaluate(e, env) if isinstance(e, Expr) else e for e in o[access]) for o in (before, after)]
        )
    (old, new), (old_sink, new_sink) = places
    assert old < old_sink and not _ordered(new, new_sink, parallel)


def test_without_islpy_z3_answers_and_without_both_the_error_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = _skewed(4)
    question = [write, read], {write: (i, j, 1), read: (i, j, 0)}, {write: (j, i, 1), read: (j, i, 0)}
    by_isl = find_dependence(*question)
    integer_sets.point.cache_clear()
    monkeypatch.setitem(sys.modules, "islpy", None)  # its import fails
    assert find_dependence(*question) == by_isl
    integer_sets.point.cache_clear()
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(MissingExtra) as error:
        find_dependence(*question)
    assert str(error.value) == (
        "islpy is not installed, and it is needed to decide whether iterations may run in another order\n"
        "  try:    pip install islpy\n"
        "          pip install z3-solver, which answers the same questions"
    )


def test_a_library_that_gives_up_leaves_the_question_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    integer_sets.point.cache_clear()
    monkeypatch.setattr(integer_sets, "_RESOURCES", 1)
    n, loops = SizeVar("n"), [Var(name) for name in "ijk"]
    a, b, c = loops
    write = Access("A", ((a * 7 + b * 5 + c) % 8, (a + b * 3) // 7), dict.fromkeys(loops, n), write=True)
    found = _answer_of("z3", [write], {write: (a, b, c)}, {write: (c, b, a)}, ())
    assert isinstance(found, Undecided)
    assert found.reason.startswith("z3 gave up")
