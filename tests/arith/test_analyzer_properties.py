"""Every rule against brute force: simplified expressions are equal everywhere, proofs true, bounds wide enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import Expr, IntImm, Var
from tests.fewer import examples

from .expressions import Box, SymbolicShape, boxes, conditions, evaluate, integers, points

_MANY = examples(12, 30)


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


@given(st.data())
@examples(10, 30)
def test_symbolic_shapes(data: st.DataObject) -> None:
    """Loops over symbolic extents, one of them over a product: every size from 1 to 3 is tried."""
    shape = SymbolicShape(data.draw)
    assert shape.mistake() == ""


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
