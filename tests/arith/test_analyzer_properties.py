"""Every rule against brute force: simplified expressions are equal everywhere, proofs true, bounds wide enough."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, SizeVar, Var, const

from .expressions import Box, boxes, conditions, evaluate, integers, points

_MANY = settings(max_examples=50)


@given(st.data())
@_MANY
def test_simplify_keeps_every_value(data: st.DataObject) -> None:
    box = data.draw(boxes())
    e = data.draw(integers(list(box)))
    simple = Analyzer(box).simplify(e)
    for env in points(box):
        assert evaluate(simple, env) == evaluate(e, env), f"{e} -> {simple} at {env}"


@given(st.data())
@_MANY
def test_simplify_keeps_every_truth(data: st.DataObject) -> None:
    box = data.draw(boxes())
    e = data.draw(conditions(list(box)))
    simple = Analyzer(box).simplify(e)
    for env in points(box):
        assert bool(evaluate(simple, env)) == bool(evaluate(e, env)), f"{e} -> {simple} at {env}"


@given(st.data())
@_MANY
def test_bounds_hold_all_values(data: st.DataObject) -> None:
    box = data.draw(boxes())
    e = data.draw(integers(list(box)))
    low, high = Analyzer(box).bounds(e)
    values = [evaluate(e, env) for env in points(box)]
    assert low is None or low <= min(values)
    assert high is None or high >= max(values)


@given(st.data())
@_MANY
def test_under_constraints(data: st.DataObject) -> None:
    """What holds where the constraints hold; an analyzer outside the scope has forgotten them."""
    box = data.draw(boxes())
    constraint = data.draw(conditions(list(box), 2))
    e, c = data.draw(integers(list(box), 3)), data.draw(conditions(list(box), 2))
    analyzer = Analyzer(box)
    with analyzer.constraint(constraint):
        simple, bounds, proved = analyzer.simplify(e), analyzer.bounds(e), analyzer.can_prove(c)
    after = analyzer.simplify(e)
    for env in points(box):
        assert evaluate(after, env) == evaluate(e, env)
        if not evaluate(constraint, env):
            continue
        value = evaluate(e, env)
        assert evaluate(simple, env) == value, f"under {constraint}: {e} -> {simple} at {env}"
        assert bounds[0] is None or bounds[0] <= value
        assert bounds[1] is None or bounds[1] >= value
        assert not proved or evaluate(c, env), f"under {constraint}: proved {c}, false at {env}"


@given(st.data())
@_MANY
def test_modular_holds(data: st.DataObject) -> None:
    box = data.draw(boxes())
    e = data.draw(integers(list(box), 3))
    coefficient, base = Analyzer(box).modular(e)
    for env in points(box):
        value = evaluate(e, env)
        assert value == base if coefficient == 0 else value % coefficient == base % coefficient


@given(st.data())
@_MANY
def test_unbound_variables(data: st.DataObject) -> None:
    """Without ranges a result must hold for all integers; a window around zero is looked at."""
    x, y = Var("x"), Var("y")
    e = data.draw(integers([x, y]))
    simple = Analyzer().simplify(e)
    for env in points({x: (-13, 13), y: (-5, 5)}):
        assert evaluate(simple, env) == evaluate(e, env), f"{e} -> {simple} at {env}"


def _symbolic(variables: list[Var], sizes: list[Var], depth: int) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(st.sampled_from(variables), st.sampled_from(sizes), st.integers(-3, 4).map(const))
    if depth == 0:
        return leaf
    sub = st.deferred(lambda: _symbolic(variables, sizes, depth - 1))
    size = st.sampled_from(sizes)
    # Divisors are at least 1 wherever sizes are.
    divisor = st.one_of(
        size,
        st.builds(Mul, size, size),
        st.builds(lambda n, c: Mul(n, const(c)), size, st.integers(1, 4)),
        st.builds(lambda n, c: Add(n, const(c)), size, st.integers(0, 3)),
        st.builds(lambda n, m, c: Mul(Add(n, const(c)), m), size, size, st.integers(1, 2)),
        st.integers(1, 4).map(const),
    )
    return st.one_of(
        leaf,
        st.builds(Add, sub, sub),
        st.builds(Mul, sub, leaf),
        st.builds(lambda v, n, r: Add(Mul(v, n), r), sub, size, sub),
        st.builds(lambda v, n, m, w, r: Add(Add(Mul(Mul(v, n), m), Mul(w, m)), r), sub, size, size, sub, leaf),
        st.builds(FloorDiv, sub, divisor),
        st.builds(FloorMod, sub, divisor),
        st.builds(lambda x, d, e: FloorDiv(Mul(x, e), Mul(d, e)), sub, divisor, size),
        st.builds(lambda x, d, e: FloorMod(Mul(x, e), Mul(d, e)), sub, divisor, size),
        st.builds(lambda x, d, e: FloorDiv(FloorDiv(x, d), e), sub, divisor, size),
        st.builds(lambda x, d: Add(Mul(FloorDiv(x, d), d), FloorMod(x, d)), sub, divisor),
        st.builds(lambda a, b: a - b, sub, sub),
        st.builds(lambda a, b, c, d: Mul(a - b, c - d), leaf, leaf, leaf, leaf),
    )


@given(st.data())
@settings(max_examples=60)
def test_symbolic_shapes(data: st.DataObject) -> None:
    """Loops over symbolic extents, one of them over a product: every size from 1 to 3 is tried."""
    n, m, i, j, fused = SizeVar("n"), SizeVar("m"), Var("i"), Var("j"), Var("fused")
    e = data.draw(_symbolic([i, j, fused], [n, m], 3))
    f = data.draw(_symbolic([i, j, fused], [n, m], 2))
    analyzer = Analyzer()
    analyzer.bind(n, (1, None))
    analyzer.bind(m, (1, None))
    analyzer.bind(i, n)
    analyzer.bind(j, m)
    analyzer.bind(fused, n * m)
    simple, proved, equal = analyzer.simplify(e), analyzer.can_prove(e >= f), analyzer.can_prove_equal(e, f)
    refuted = analyzer.simplify(e < f)
    low, high = analyzer.bounds(e)
    for sizes in points({n: (1, 3), m: (1, 3)}):
        ends = {i: (0, sizes[n] - 1), j: (0, sizes[m] - 1), fused: (0, sizes[n] * sizes[m] - 1)}
        for env in points(ends):
            env.update(sizes)
            value, other = evaluate(e, env), evaluate(f, env)
            assert evaluate(simple, env) == value, f"{e} -> {simple} at {env}"
            assert not proved or value >= other, f"proved {e} >= {f}, false at {env}"
            assert bool(evaluate(refuted, env)) == (value < other), f"{e} < {f} -> {refuted} at {env}"
            assert not equal or value == other
            assert low is None or low <= value
            assert high is None or high >= value


@given(st.data())
@_MANY
def test_split_and_fused_indices_are_undone(data: st.DataObject) -> None:
    """The indices that split, fuse and reorder make simplify back to plain variables: completeness where it counts."""
    extents = data.draw(st.lists(st.integers(2, 9), min_size=2, max_size=4))
    loops = [Var(f"i{k}") for k in range(len(extents))]
    analyzer = Analyzer(dict(zip(loops, extents)))
    fused: Expr = loops[0]
    for loop, extent in zip(loops[1:], extents[1:]):
        fused = fused * extent + loop
    inner = 1
    for loop, extent in reversed(list(zip(loops, extents))):
        back = analyzer.simplify(fused // inner % extent)
        assert back is loop, f"{fused} // {inner} % {extent} -> {back}"
        inner *= extent
    x = Var("x")
    again = x // inner * inner + x % inner
    assert analyzer.simplify(again) is x


@given(st.data())
@_MANY
def test_simplify_is_stable(data: st.DataObject) -> None:
    """What is simple stays the very same object."""
    box: Box = data.draw(boxes())
    e = data.draw(integers(list(box), 3))
    analyzer = Analyzer(box)
    once = analyzer.simplify(e)
    twice = Analyzer(box).simplify(once)
    assert isinstance(once, IntImm) or str(Analyzer(box).simplify(twice)) == str(twice)
