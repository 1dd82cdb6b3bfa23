"""Sums leave out products of zeros: a loop noted `skip_zeros` runs only where what it reads is not all padding.

A convolution reads a copy of its image with zeros around it. Where a tap of its kernel reads nothing but zeros for all
results that are computed together, its products add nothing; with a large dilation that is true of most taps.

    pad[y] = if_then_else(12 <= y and y < 29, image[y - 12], 0)
    for i in range(17):                       for i in range(17):
        for k in range(3):           ->           for k in range(max(0, (23 - i) // 12), min(3, (28 - i) // 12 + 1)):
            acc += pad[i + 12*k] * w[k]               acc += pad[i + 12*k] * w[k]

The bounds hold for whatever runs inside the loop at once, a tile for instance. What is left out are sums with zero,
and products of zero with weights, which are zero where the weights are finite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...expr import Add, Call, Cast, Expr, FloatImm, IntImm, Max, Min, Mul, Node, Var, const, factors_of_words, map_children, replace, walk
from ...expr.structural import structural_equal
from ..annotations import SKIP_ZEROS
from ..conditions import conjuncts
from ..nodes import Buffer, BufferLoad, BufferStore, For, If, LetStmt, PrimFunc, Seq, Stmt
from .affine import Affine, Ranges, coefficient, expr, interval, linear, moves, slack, split, with_loop


@dataclass(slots=True)
class _Image:
    """Along each dimension of a buffer, the places before which (`first`) or from which on (`behind`) all is zero."""

    first: dict[int, Affine] = field(default_factory=dict)
    behind: dict[int, Affine] = field(default_factory=dict)


def skip_zeros(func: PrimFunc) -> PrimFunc:
    """Follow the notes `skip_zeros` of loops; a loop that does anything but sum up keeps its bounds."""
    if not any(isinstance(node, For) and SKIP_ZEROS in node.annotations for node in walk(func.body)):
        return func
    return func.with_body(_skipping(func.body, _images(func), {}))


def _images(func: PrimFunc) -> dict[Buffer, _Image]:
    """The buffers that one statement fills, with zeros outside of a box."""
    stores: dict[Buffer, list[BufferStore]] = {}
    for node in walk(func.body):
        if isinstance(node, BufferStore):
            stores.setdefault(node.buffer, []).append(node)
    found: dict[Buffer, _Image] = {}
    inner = {node.var for node in walk(func.body) if isinstance(node, For | LetStmt)}
    for buffer, made in stores.items():
        image = _padded(made[0], inner) if len(made) == 1 and buffer not in func.params else None
        if image is not None:
            found[buffer] = image
    return found


def _padded(store: BufferStore, inner: Collection[Var]) -> _Image | None:
    """What conditions say of the places of an element that is not zero; `inner` are the variables of loops."""
    value = store.value
    if not isinstance(value, Call) or value.op != "if_then_else" or not _is_zero(value.args[2]):
        return None
    image = _Image()
    places = [linear(index) for index in store.indices]
    for condition in conjuncts(value.args[0]):
        form = slack(condition)  # f < 0 inside
        for dim, place in enumerate(places):
            if form is None or not place.terms:
                continue
            below, above = form + place, form - place
            if not moves(below, inner):
                image.first[dim] = below + 1 if dim not in image.first else image.first[dim]
            elif not moves(above, inner):
                image.behind[dim] = Affine({}) - above if dim not in image.behind else image.behind[dim]
    return image if image.first or image.behind else None


def _is_zero(e: Expr) -> bool:
    """Whether it is the constant 0, and no negative zero, whose products have other signs."""
    return isinstance(e, IntImm | FloatImm) and e.value == 0


def _skipping(stmt: Any, images: Mapping[Buffer, _Image], ranges: Ranges) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if not isinstance(stmt, For):
        return map_children(stmt, lambda child: _skipping(child, images, ranges))
    inner = with_loop(stmt, ranges)
    if SKIP_ZEROS in stmt.annotations:
        notes = {key: value for key, value in stmt.annotations.items() if key != SKIP_ZEROS}
        stmt = _clipped(replace(stmt, annotations=notes), images)
    return replace(stmt, body=_skipping(stmt.body, images, inner))


def _clipped(loop: For, images: Mapping[Buffer, _Image]) -> For:
    """The loop over those iterations in which some element of the image is read."""
    sums = list(_sums(loop.body, {}))
    if not sums or any(part is None for part in sums):
        return loop
    low, high = loop.start, loop.start + loop.extent
    ends: list[tuple[Expr | None, Expr | None]] = []
    for part in sums:
        assert part is not None
        read, ranges = part
        image = images.get(read.buffer)
        if image is None:
            return loop
        ends.append(_reach(loop, read, image, ranges))
    # Of several sums those iterations stay that one of them needs: here all of them have the same bounds.
    first, *others = ends
    if any(not _equal(first, other) for other in others) or first == (None, None):
        return loop
    if first[0] is not None:
        low = Max(low, first[0])
    if first[1] is not None:
        high = Min(high, first[1])
    zero = const(0, loop.extent.dtype)
    return replace(loop, start=low, extent=Max(high - low, zero))


def _equal(a: tuple[Expr | None, Expr | None], b: tuple[Expr | None, Expr | None]) -> bool:
    return all(x is y or (x is not None and y is not None and structural_equal(x, y)) for x, y in zip(a, b, strict=True))


def _reach(loop: For, read: BufferLoad, image: _Image, ranges: Ranges) -> tuple[Expr | None, Expr | None]:
    """From which iteration on, and up to which, an element of the image may be read."""
    inside = {*ranges, loop.var}
    for dim, index in enumerate(read.indices):
        form = linear(index)
        step = coefficient(form, loop.var)
        if step < 1:
            continue
        outer, moved = split(form.without(loop.var), inside)
        limits = interval(moved, ranges)
        if limits is None or moves(outer, inside):
            continue
        dtype, first, behind = loop.var.dtype, image.first.get(dim), image.behind.get(dim)
        # step * k + outer + greatest >= first, and step * k + outer + least < behind
        begins = None if first is None else expr(first - outer - limits[1] + (step - 1), dtype) // step
        ends = None if behind is None else expr(behind - outer - limits[0] + (step - 1), dtype) // step
        return begins, ends
    return None, None


def _sums(stmt: Stmt, ranges: Ranges) -> Iterator[tuple[BufferLoad, Ranges] | None]:
    """The reads of padded images in the sums below, with the ranges of the loops around; None for anything else."""
    if isinstance(stmt, For):
        yield from _sums(stmt.body, with_loop(stmt, ranges))
    elif isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _sums(part, ranges)
    elif isinstance(stmt, If) and stmt.else_case is None:
        yield from _sums(stmt.then_case, ranges)
    else:
        read = _factor(stmt) if isinstance(stmt, BufferStore) else None
        yield None if read is None else (read, ranges)


def _factor(store: BufferStore) -> BufferLoad | None:
    """The first factor of the product that a statement adds to what it stores to."""
    value = store.value
    if not isinstance(value, Add) or not isinstance(value.a, BufferLoad) or value.a.buffer is not store.buffer:
        return None
    if not all(map(structural_equal, value.a.indices, store.indices)):
        return None
    factors = (value.b.a, value.b.b) if isinstance(value.b, Mul) else factors_of_words(value.b)
    if factors is None:
        return None
    factor: Node = factors[0]
    while isinstance(factor, Cast):
        factor = factor.value
    return factor if isinstance(factor, BufferLoad) else None
