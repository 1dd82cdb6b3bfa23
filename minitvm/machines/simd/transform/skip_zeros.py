"""Skip products with zeros in sums: a loop marked `skip_zeros` runs only over iterations that may read more than
padding.

A convolution reads a copy of its image with zeros around it. If a kernel tap reads only zeros for all results that are
computed together, its products add nothing. With a large dilation, this holds for most taps.

The bounds cover everything that runs in one iteration of the loop, such as a tile. Skipped terms are products of zeros
with weights, which are zero if the weights are finite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .... import expr as ex
from ....expr.structural import structural_equal
from ....tir.annotations import SKIP_ZEROS
from ....tir.conditions import all_of, conjuncts
from ....tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt
from ....tir.transform import affine


@dataclass(slots=True)
class _Image:
    """A buffer with zeros outside a box: along each dimension, the elements before index `first` and from index
    `behind` on are zero.
    """

    first: dict[int, affine.Affine] = field(default_factory=dict)
    behind: dict[int, affine.Affine] = field(default_factory=dict)


@dataclass(slots=True)
class _Skipping:
    """The state of the pass. `narrow` counts the reads that no longer reach zeros along a dimension."""

    images: Mapping[Buffer, _Image]
    narrow: Counter[tuple[BufferLoad, int]] = field(default_factory=Counter)

    def visit(self, stmt: Any, ranges: affine.Ranges) -> Any:
        """Return the statement with bounds instead of marks."""
        if not isinstance(stmt, Stmt):
            return stmt
        if not isinstance(stmt, For):
            return ex.map_children(stmt, lambda child: self.visit(child, ranges))
        inner = affine.with_loop(stmt, ranges)
        if SKIP_ZEROS in stmt.annotations and stmt.kind == ForKind.SERIAL:
            notes = {key: value for key, value in stmt.annotations.items() if key != SKIP_ZEROS}
            stmt = self.clipped(ex.replace(stmt, annotations=notes))
        return ex.replace(stmt, body=self.visit(stmt.body, inner))

    def clipped(self, loop: For) -> For:
        """Return the loop over the iterations in which some element of the image is read."""
        reads = list(_sums(loop.body, {}))
        found = [None if read is None else self.reach(loop, *read) for read in reads]
        first = found[0] if found else None
        # Several sums stay in one loop if they need the same iterations.
        if first is None or any(other is None or not first.same(other) for other in found):
            return loop
        low, high = loop.start, loop.start + loop.extent
        low = low if first.begin is None else ex.Max(low, first.begin)
        high = high if first.end is None else ex.Min(high, first.end)
        for read, reach in zip(reads, found, strict=True):
            if read is not None and reach is not None and reach.single:
                self.narrow[read[0], reach.dim] += 1
        return ex.replace(loop, start=low, extent=ex.Max(high - low, ex.const(0, loop.extent.dtype)))

    def reach(self, loop: For, read: BufferLoad, ranges: affine.Ranges) -> _Reach | None:
        """Return the iterations in which an element of the image may be read, or None if they are not known."""
        image, inside = self.images.get(read.buffer), {*ranges, loop.var}
        for dim, index in enumerate(read.indices):
            form = affine.linear(index)
            step = affine.coefficient(form, loop.var)
            if image is None or step < 1 or not (dim in image.first or dim in image.behind):
                continue
            outer, moved = affine.split(form.without(loop.var), inside)
            limits = affine.interval(moved, ranges)
            if limits is None or affine.moves(outer, inside):
                return None
            least, greatest = limits
            dtype, first, behind = loop.var.dtype, image.first.get(dim), image.behind.get(dim)
            # step * k + outer + greatest >= first, and step * k + outer + least < behind
            begin = None if first is None else affine.expr(first - outer - greatest + (step - 1), dtype) // step
            end = None if behind is None else affine.expr(behind - outer - least + (step - 1), dtype) // step
            return _Reach(dim, begin, end, least == greatest)
        return None


@dataclass(frozen=True, slots=True)
class _Reach:
    """The iterations from `begin` up to but not including `end` read the image along `dim`. `single` says that each
    reads one position.
    """

    dim: int
    begin: ex.Expr | None
    end: ex.Expr | None
    single: bool

    def same(self, other: _Reach) -> bool:
        """Return whether two ranges of iterations are the same."""
        ends = ((self.begin, other.begin), (self.end, other.end))
        return all(a is b or (a is not None and b is not None and structural_equal(a, b)) for a, b in ends)


def skip_zeros(func: PrimFunc) -> PrimFunc:
    """Limit the loops marked `skip_zeros`. A loop that does anything besides summing keeps its bounds.

    before:
        A: T.Buffer((32,), "float32")
        W: T.Buffer((3,), "float32")
        C: T.Buffer((17,), "float32")
        P = T.decl_buffer((41,))
        for y in range(41):
            P[y] = T.if_then_else(12 <= y and y < 29, A[y - 12], 0.0)
        for i in range(17):
            C[i] = 0.0
            for k in T.serial(3, annotations={"skip_zeros": 1}):
                C[i] = C[i] + P[i + 12 * k] * W[k]
    after, simplified:
        P = T.decl_buffer((41,))
        for y in range(29):
            if y >= 12:
                P[y] = A[y - 12]
        for i in range(17):
            C[i] = 0.0
            for k in range((11 - i) // 12 + 1, (11 - i) // 12 + 1 + ((4 - i) // 12 - (11 - i) // 12 + 2)):
                C[i] = C[i] + P[k * 12 + i] * W[k]

    Lines of the copy that no sum reads any more are not written either.
    """
    if not any(SKIP_ZEROS in loop.annotations for loop in ex.find(func.body, For)):
        return func
    # Legal: a skipped iteration would add products with zero, which are zero if the weights are finite.
    skipping = _Skipping(_images(func))
    body = skipping.visit(func.body, {})
    return func.with_body(_without_unread(body, skipping))


def _without_unread(body: Stmt, skipping: _Skipping) -> Stmt:
    """Skip writing the elements of images that no read can reach, because every read was narrowed."""
    # A node may occur in several places, and each of them must be narrowed.
    reads = Counter(n for n in ex.find(body, BufferLoad) if n.buffer in skipping.images)
    narrow = {buffer: set(range(buffer.ndim)) for buffer in skipping.images}
    for read, count in reads.items():
        narrow[read.buffer] &= {dim for dim in range(read.buffer.ndim) if skipping.narrow[read, dim] == count}

    def guarded(node: ex.Node) -> Any:
        if not isinstance(node, BufferStore) or not narrow.get(node.buffer):
            return None
        image, conditions = skipping.images[node.buffer], []
        for dim in sorted(narrow[node.buffer]):
            place = node.indices[dim]
            conditions += [place >= affine.expr(f, place.dtype) for f in [image.first.get(dim)] if f is not None]
            conditions += [place < affine.expr(f, place.dtype) for f in [image.behind.get(dim)] if f is not None]
        return If(all_of(conditions), node)

    written: Stmt = ex.rewrite_statements(body, guarded)
    return written


def _images(func: PrimFunc) -> dict[Buffer, _Image]:
    """Return the buffers that a single statement fills with zeros outside a box."""
    stores: dict[Buffer, list[BufferStore]] = {}
    for node in ex.walk(func.body):
        if isinstance(node, BufferStore):
            stores.setdefault(node.buffer, []).append(node)
    found: dict[Buffer, _Image] = {}
    inner = {node.var for node in ex.find(func.body, For | LetStmt)}
    for buffer, made in stores.items():
        image = _padded(made[0], inner) if len(made) == 1 and buffer not in func.params else None
        if image is not None:
            found[buffer] = image
    return found


def _padded(store: BufferStore, inner: Collection[ex.Var]) -> _Image | None:
    """Return the box outside which a store writes zeros, derived from its conditions, or None. `inner` are loop
    variables.
    """
    value = store.value
    if not isinstance(value, ex.Call) or value.op != "if_then_else" or not _is_zero(value.args[2]):
        return None
    image = _Image()
    places = [affine.linear(index) for index in store.indices]
    for condition in conjuncts(value.args[0]):
        form = affine.slack(condition)  # f < 0 inside
        for dim, place in enumerate(places):
            if form is None or not place.terms:
                continue
            below, above = form + place, form - place
            if not affine.moves(below, inner):
                image.first[dim] = below + 1 if dim not in image.first else image.first[dim]
            elif not affine.moves(above, inner):
                image.behind[dim] = affine.Affine({}) - above if dim not in image.behind else image.behind[dim]
    return image if image.first or image.behind else None


def _is_zero(e: ex.Expr) -> bool:
    """Return whether an expression is the constant 0 and not negative zero, whose products have other signs."""
    return isinstance(e, ex.IntImm | ex.FloatImm) and e.value == 0


def _sums(stmt: Stmt, ranges: affine.Ranges) -> Iterator[tuple[BufferLoad, affine.Ranges] | None]:
    """Yield the reads of padded images in sums, with the ranges of the loops around them, and None for anything
    else.
    """
    if isinstance(stmt, For):
        yield from _sums(stmt.body, affine.with_loop(stmt, ranges))
    elif isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _sums(part, ranges)
    elif isinstance(stmt, If) and stmt.else_case is None:
        yield from _sums(stmt.then_case, ranges)
    else:
        read = _factor(stmt) if isinstance(stmt, BufferStore) else None
        yield None if read is None else (read, ranges)


def _factor(store: BufferStore) -> BufferLoad | None:
    """Return the first factor of the product that a statement adds to its own element, or None."""
    value = store.value
    if not isinstance(value, ex.Add) or not isinstance(value.a, BufferLoad) or value.a.buffer is not store.buffer:
        return None
    if not all(map(structural_equal, value.a.indices, store.indices)):
        return None
    factors = (value.b.a, value.b.b) if isinstance(value.b, ex.Mul) else ex.factors_of_words(value.b)
    if factors is None:
        return None
    factor: ex.Node = factors[0]
    while isinstance(factor, ex.Cast):
        factor = factor.value
    return factor if isinstance(factor, BufferLoad) else None
