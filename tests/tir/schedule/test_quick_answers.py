"""The quick answers about bindings and dependences are never wrong: held against enumeration of small loop nests."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import Expr, IterVar, Range, Var, const, replace
from minitvm.tir.analysis.bindings import covers_domain, why_not_injective
from minitvm.tir.analysis.dependences import Access, shown_apart, touched_once
from minitvm.tir.conditions import all_of
from minitvm.tir.nodes import Block, BlockRealize, Buffer, BufferRegion, Evaluate, For, ForKind, Stmt
from minitvm.tir.values import values


@st.composite
def nests(draw: Any) -> tuple[list[For], list[Expr]]:
    """Loops with small extents, and indices that are sums of parts of them, as splitting and fusing make."""
    loops: list[For] = []
    for name in "ijk"[: draw(st.integers(1, 3))]:
        body: Stmt = Evaluate(const(0))
        loops.append(For(Var(name), const(0), const(draw(st.integers(1, 6))), ForKind.SERIAL, body))
    return loops, [draw(indices(loops)) for _ in range(draw(st.integers(1, 2)))]


@st.composite
def indices(draw: Any, loops: list[For]) -> Expr:
    total: Expr = const(draw(st.integers(0, 2)))
    for loop in loops:
        if draw(st.booleans()):
            part: Expr = loop.var
            divisor = draw(st.sampled_from([1, 1, 2, 3]))
            part = part // divisor if divisor > 1 else part
            modulus = draw(st.sampled_from([1, 1, 2, 3]))
            part = part % modulus if modulus > 1 else part
            total = total + part * draw(st.integers(1, 6))
    return total


def _points(loops: list[For], indices: list[Expr]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    iterations = list(itertools.product(*(range(int(loop.extent)) for loop in loops)))  # type: ignore[call-overload]
    found = []
    for point in iterations:
        at = {loop.var: v for loop, v in zip(loops, point)}
        found.append(tuple(int(values(e, at)) for e in indices))
    return iterations, found


def _block(indices: list[Expr], extents: list[int]) -> BlockRealize:
    iters = tuple(IterVar(Var(f"v{d}"), Range.of(extent)) for d, extent in enumerate(extents))
    return BlockRealize(tuple(indices), const(True), Block(iters, (), (), "B", Evaluate(const(0))))


def _analyzer(loops: list[For]) -> Analyzer:
    return Analyzer({loop.var: Range(loop.start, loop.extent) for loop in loops})


@settings(max_examples=200)
@given(nests())
def test_injective_bindings_are_injective(nest: tuple[list[For], list[Expr]]) -> None:
    loops, found = nest
    _, values = _points(loops, found)
    if why_not_injective(_block(found, [1] * len(found)), loops, _analyzer(loops)) is None:
        assert len(set(values)) == len(values)


@settings(max_examples=200)
@given(nests())
def test_covered_domains_are_covered(nest: tuple[list[For], list[Expr]]) -> None:
    loops, found = nest
    _, values = _points(loops, found)
    extents = [max(v[d] for v in values) + 1 for d in range(len(found))]
    if covers_domain(_block(found, extents), loops, _analyzer(loops)):
        assert set(values) == set(itertools.product(*map(range, extents)))


@settings(max_examples=200)
@given(nests(), st.data())
def test_accesses_shown_apart_are_apart(nest: tuple[list[For], list[Expr]], data: Any) -> None:
    loops, first = nest
    second = [data.draw(st.one_of(st.just(e), indices(loops))) for e in first]
    position = data.draw(st.integers(0, len(loops) - 1))
    buffer = Buffer("A", tuple(const(99) for _ in first))
    widths = [data.draw(st.integers(1, 3)) for _ in first]

    def access(at: list[Expr]) -> Access:
        box = tuple(Range(e, const(w)) for e, w in zip(at, widths))
        return Access(Evaluate(const(0)), buffer, box, True, tuple(loops), BufferRegion(buffer, box))

    if not shown_apart(loops[:position], loops[position], access(first), access(second)):
        return
    iterations, mine = _points(loops, first)
    _, theirs = _points(loops, second)
    for (p, a), (q, b) in itertools.product(zip(iterations, mine), zip(iterations, theirs)):
        if p[:position] == q[:position] and p[position] != q[position]:
            assert any(abs(x - y) >= w for x, y, w in zip(a, b, widths)), (p, q)


@settings(max_examples=200)
@given(nests(), st.data())
def test_an_element_touched_once_is_touched_once(nest: tuple[list[For], list[Expr]], data: Any) -> None:
    loops, bindings = nest
    extents = [data.draw(st.integers(1, 12)) for _ in bindings]
    within = data.draw(st.booleans())
    predicate = all_of(b < extent for b, extent in zip(bindings, extents)) if within else const(True)
    block = replace(_block(bindings, extents), predicate=predicate)
    iterators = [
        For(it.var, it.dom.start, it.dom.extent, ForKind.SERIAL, Evaluate(const(0))) for it in block.block.iter_vars
    ]
    region = BufferRegion(Buffer("A", (const(99),)), (Range(data.draw(indices(iterators)), const(1)),))
    if not touched_once((), Access(block, region.buffer, region.region, True, tuple(loops), region)):
        return
    _, values_of = _points(loops, [*bindings, predicate])
    instances = [v[:-1] for v in values_of if v[-1]]
    elements = [int(values(region.region[0].start, dict(zip((l.var for l in iterators), v)))) for v in instances]
    assert len(set(elements)) == len(elements)


def test_an_element_of_a_tiled_shuffle_is_touched_once() -> None:
    """The indices tell the iterators apart, but in no form of parts of them; the loops are split and fused."""
    fused, inner = (
        For(Var(n), const(0), const(e), ForKind.SERIAL, Evaluate(const(0))) for n, e in (("f", 44), ("i", 6))
    )
    block = _block([fused.var // 11, fused.var % 11 * 6 + inner.var], [4, 64])
    block = replace(block, predicate=fused.var % 11 * 6 + inner.var < 64)
    v, w = (it.var for it in block.block.iter_vars)
    cell = (w // 8 * 2 + v // 2, w % 8 * 2 - v // 2 * 2 + v)
    region = BufferRegion(Buffer("A", (const(16), const(16))), tuple(Range(e, const(1)) for e in cell))
    assert touched_once((), Access(block, region.buffer, region.region, True, (fused, inner), region))


def test_what_is_kept_for_some_loops_is_not_taken_for_others() -> None:
    """An element that is touched once while the inner loop runs, and by each iteration of the outer one."""
    outer, inner = (For(Var(n), const(0), const(4), ForKind.SERIAL, Evaluate(const(0))) for n in "oi")
    block = _block([inner.var], [4])
    region = BufferRegion(Buffer("A", (const(4),)), (Range(block.block.iter_vars[0].var, const(1)),))
    access = Access(block, region.buffer, region.region, True, (outer, inner), region)
    assert [touched_once(around, access) for around in ([outer], [], [outer])] == [True, False, True]


def test_an_element_touched_twice_is_not_touched_once() -> None:
    loop = For(Var("f"), const(0), const(8), ForKind.SERIAL, Evaluate(const(0)))
    for bindings, extents, index in (
        ([loop.var], [4], lambda v: v % 4),  # iterators leave their domain
        ([loop.var // 2], [4], lambda v: v),  # two iterations have one value
        ([loop.var // 4, loop.var % 4], [2, 4], lambda v, w: v),  # no index names w
        ([loop.var], [8], lambda v: v - v // 4 * 3),  # elements of which several values tell one
    ):
        block = _block(bindings, extents)
        cell = Range(index(*(it.var for it in block.block.iter_vars)), const(1))  # type: ignore[operator]
        region = BufferRegion(Buffer("A", (const(16),)), (cell,))
        assert not touched_once((), Access(block, region.buffer, region.region, True, (loop,), region)), cell.start


def test_what_splitting_and_fusing_make_is_recognised() -> None:
    """The answers are of use: a refusal of these would make every tiled schedule illegal."""
    i, j = (For(Var(name), const(0), const(n), ForKind.SERIAL, Evaluate(const(0))) for name, n in (("i", 4), ("j", 8)))
    fused = For(Var("f"), const(0), const(32), ForKind.SERIAL, Evaluate(const(0)))
    for loops, found, extents in (
        ([i, j], [i.var * 8 + j.var], [32]),
        ([fused], [fused.var // 8, fused.var % 8], [4, 8]),
        ([fused, i], [fused.var // 8 * 4 + i.var, fused.var % 8], [16, 8]),
    ):
        block = _block(found, extents)
        assert why_not_injective(block, loops, _analyzer(loops)) is None
        assert covers_domain(block, loops, _analyzer(loops))
