"""Boxes against enumeration of the points that an access touches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer, regions
from minitvm.expr import Expr, Min, Range, SizeVar, Var, const
from minitvm.tir.nodes import Buffer
from tests.fewer import examples

from .expressions import boxes, evaluate, integers, points

x, y, k = Var("x"), Var("y"), Var("k")
n = SizeVar("n")


def _text(box: regions.Box) -> list[tuple[str, str]]:
    return [(str(r.start), str(r.extent)) for r in box]


def _cells(box: regions.Box, env: dict[Var, int]) -> list[range]:
    starts = [(evaluate(r.start, env), evaluate(r.extent, env)) for r in box]
    return [range(a, a + e) for a, e in starts]


def _inside(cell: tuple[int, ...], ranges: list[range]) -> bool:
    return all(c in r for c, r in zip(cell, ranges))


@given(st.data())
@examples(20, 60)
def test_every_touched_cell_is_in_the_box_and_exact_ones_are_full(data: st.DataObject) -> None:
    box = data.draw(boxes(count=4, size=3))
    variables = list(box)
    moving = variables[data.draw(st.integers(0, len(variables) - 1)) :]
    still = {v: r for v, r in box.items() if v not in moving}
    rank = data.draw(st.integers(1, 2))
    affine = st.builds(
        lambda cs, c: sum((v * a for v, a in zip(variables, cs)), const(c)),
        st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.integers(-4, 4),
    )  # fmt: skip
    indices = [data.draw(st.one_of(affine, affine, integers(variables, 2))) for _ in range(rank)]
    found = regions.evaluate(indices, {v: Range.of(box[v][0], box[v][1] + 1) for v in moving}, Analyzer(still))
    for outer in points(still) or [{}]:
        ranges = _cells(found.box, outer)
        touched = set()
        for inner in points({v: box[v] for v in moving}):
            cell = tuple(evaluate(e, {**outer, **inner}) for e in indices)
            bounded = [d for d in range(rank) if d not in found.unbounded]
            assert all(cell[d] in ranges[d] for d in bounded), f"{indices} -> {_text(found.box)} at {outer}, {inner}"
            touched.add(cell)
        if found.exact:
            size = 1
            for r in ranges:
                size *= len(r)
            assert len(touched) == size


@given(st.data())
@settings(max_examples=60)
def test_hull_intersection_cover(data: st.DataObject) -> None:
    outer = data.draw(boxes(count=2, size=3))
    analyzer = Analyzer(outer)
    ends = st.builds(lambda v, a, c: v * a + c, st.sampled_from(list(outer)), st.integers(-2, 2), st.integers(-4, 4))
    a, b = (tuple(Range(data.draw(ends), const(data.draw(st.integers(1, 6)))) for _ in range(2)) for _ in range(2))
    joined, shared = regions.hull(a, b, analyzer), regions.intersect(a, b, analyzer)
    covered, apart, equal = (
        regions.covers(a, b, analyzer),
        regions.disjoint(a, b, analyzer),
        regions.same(a, b, analyzer),
    )
    assert regions.covers(joined, a, analyzer)
    among = regions.Boxes()
    among.add(b)
    assert among.hold(a) == regions.same(a, b, Analyzer())
    for env in points(outer):
        p, q, h, s = (_cells(box, env) for box in (a, b, joined, shared))
        for d in range(2):
            assert h[d] == range(min(p[d].start, q[d].start), max(p[d].stop, q[d].stop))
            assert set(s[d]) == set(p[d]) & set(q[d])
        assert not covered or all(set(q[d]) <= set(p[d]) for d in range(2))
        assert not apart or any(not set(q[d]) & set(p[d]) for d in range(2))
        assert not equal or p == q


def test_one_of_many_boxes() -> None:
    among = regions.Boxes()
    for start in (x * 4 + 2, x // 2 * 2 + x % 2, x // 4 * 4):
        among.add((Range(start, const(1)),))
    for start, held in (
        (2 + x * 4, True),
        (x, True),
        (x - x % 4, True),
        (x * 4 + 3, False),
        (x // 4, False),
        (y, False),
    ):
        assert among.hold((Range(start, const(1)),)) == held, start


def test_tiles_and_halos() -> None:
    tile = regions.evaluate([x * 16 + k, y], {k: Range.of(16), y: Range.of(8)})
    assert (_text(tile.box), tile.exact) == ([("x * 16", "16"), ("0", "8")], True)
    halo = regions.evaluate([x * 2 + k - 1], {x: Range.of(8), k: Range.of(3)})
    assert (_text(halo.box), halo.exact) == ([("-1", "17")], True)
    strided = regions.evaluate([x * 2], {x: Range.of(8)})
    assert (_text(strided.box), strided.exact) == ([("0", "15")], False)
    fused = regions.evaluate([k // 8, k % 8], {k: Range.of(64)})
    assert (_text(fused.box), fused.exact) == ([("0", "8"), ("0", "8")], False)
    symbolic = regions.evaluate([x * n + k], {k: Range.of(n)})
    assert (_text(symbolic.box), symbolic.exact) == ([("x * n", "n")], True)


def test_a_diagonal_is_not_the_whole_box() -> None:
    found = regions.evaluate([k, k], {k: Range.of(4)})
    assert (_text(found.box), found.exact) == ([("0", "4"), ("0", "4")], False)


def test_an_inner_domain_may_use_outer_loops() -> None:
    found = regions.evaluate([k], {x: Range.of(4), k: Range(x * 8, const(8))})
    assert _text(found.box) == [("0", "32")]


def test_data_dependent_indices_take_the_whole_dimension() -> None:
    table = Buffer("table", (8,), "int32")
    indices: list[Expr] = [table[k], k]
    found = regions.evaluate(indices, {k: Range.of(4)}, fallback=(Range.of(100), Range.of(50)))
    assert (_text(found.box), found.unbounded, found.exact) == ([("0", "100"), ("0", "4")], (0,), False)


def test_extents_of_clipped_tiles_have_a_bound() -> None:
    analyzer = Analyzer({x: 8})
    clipped = regions.intersect((Range(x * 4, const(4)),), (Range.of(n),), analyzer)
    assert analyzer.bounds(clipped[0].extent)[1] == 4
    clamped = regions.evaluate([Min(x * 4 + k, n - 1)], {k: Range.of(4)}, analyzer)
    assert analyzer.bounds(clamped.box[0].extent)[1] == 4


def test_strides() -> None:
    assert regions.stride_of(x * 16 + y * 3 + 1, x) == 16
    assert regions.stride_of(y * 3 + 1, x) == 0
    assert regions.stride_of(x // 4, x) is None
