"""Find the roles of the axes of a contraction from the indices of its operands and its result.

    C[i.., j..] += A[f(i, k)] * B[g(j, k)]

Vectors are along a *column*: an axis that is contiguous in the result, and on which only one operand depends. This
operand is read in vectors. Elements of the other operand are broadcast; an axis on which only this operand depends is a
*row*. All other axes of the result are outside: there is a matrix product for each of their points. Neighbouring axes
that can be treated as one axis in all accesses are joined (for example, the lines and columns of an image in a 1x1
convolution, or a batch of rows).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from .. import expr as ex
from ..errors import ScheduleError
from ..expr.conditions import is_const
from ..tir import IndexMap, Schedule
from ..tir.analysis.block_regions import buffers_read
from ..tir.nodes import Block, BufferLoad, BufferStore
from ..tir.transform.affine import coefficient, linear, moves
from .blocks import block_of, constant_extent, extents, volume
from .candidate import Unfit

LONG = 384  # the extent that is assumed for an open one
Axis = tuple[int, ...]  # positions of the iterators that form one axis, outer ones first
Access = BufferLoad | BufferStore


@dataclass(frozen=True, slots=True)
class Product:
    """The extents that determine the cost of a contraction: `outside` products of an m x depth and a depth x n matrix.

    `m_open` and `n_open` say that the extent is known only when the kernel runs; m or n is then replaced by a large
    number. `contiguous` says that the vectors of the vector operand are contiguous in memory, and `packed` that its
    panels are. `pitch` is the distance, in elements, between consecutive rows of this operand along the sum, or 0 if it
    is not constant.
    """

    m: int
    n: int
    depth: int
    outside: int = 1
    m_open: bool = False
    n_open: bool = False
    contiguous: bool = True
    packed: bool = False
    pitch: int = 0


@dataclass(frozen=True, slots=True)
class Roles:
    """A way to view a block as a contraction. `row` (None if there are no rows) and `column` are positions in `axes`.

    If the operand that is read in vectors depends on the row, it depends only on row // `group` (a grouped
    convolution): each group of rows is a separate product. `read` is the position of this operand in the block's reads.
    `panel` is the number of columns that are contiguous in it: 0 if neighbours are not contiguous, None if all columns
    are. `step` is the distance between neighbours in elements of its last axis, or 0 if neighbours differ in another
    axis.
    """

    block: Block
    axes: tuple[Axis, ...]
    row: int | None
    column: int
    read: int
    panel: int | None
    group: int | None = None
    step: int = 0

    @property
    def contiguous(self) -> bool:
        """Return whether the vectors that are read are contiguous in memory."""
        return self.panel != 0

    @property
    def vectors(self) -> BufferLoad:
        """The load of the operand that is read in vectors."""
        buffer = buffers_read(self.block)[self.read]
        return next(load for load in operands(self.block) or () if load.buffer is buffer)

    @property
    def shared(self) -> list[int]:
        """The outside axes on which the vector operand does not depend, so that all their points share it."""
        others = [p for p in range(len(self.axes)) if p not in (self.row, self.column)]
        return [p for p in others if not self.needed(p)]

    def needed(self, position: int) -> bool:
        """Return whether the vector operand depends on the axis at `position`, and this axis has more than one
        element.
        """
        iterators = [self.block.iter_vars[p] for p in self.axes[position]]
        return any(depends(self.vectors, axis.var) and not is_const(axis.dom.extent, 1) for axis in iterators)

    def extent(self, position: int) -> int | None:
        """Return the extent of an axis, or None if it is not known at compile time."""
        known = extents(self.block.iter_vars[p].dom.extent for p in self.axes[position])
        return None if None in known else prod(extent or 0 for extent in known)

    @property
    def pitch(self) -> int:
        """The distance, in elements of the vector operand, between consecutive steps of the sum.

        It is 0 for a sum over several axes, or if the shape is symbolic.
        """
        summed = [axis for axis in self.block.iter_vars if axis.kind == ex.REDUCE and not is_const(axis.dom.extent, 1)]
        shape = extents(self.vectors.buffer.shape)
        if len(summed) != 1 or None in shape:
            return 0
        steps = [coefficient(linear(index), summed[0].var) or 0 for index in self.vectors.indices]
        return sum(step * prod(n or 0 for n in shape[p + 1 :]) for p, step in enumerate(steps))

    @property
    def product(self) -> Product:
        """The extents of the contraction, as a `Product`."""
        others = [self.extent(p) for p in range(len(self.axes)) if p not in (self.row, self.column)]
        outside = prod(LONG if extent is None else extent for extent in others)
        rows, columns = 1 if self.row is None else self.extent(self.row), self.extent(self.column)
        if self.group is not None and rows is not None:
            rows, outside = self.group, outside * (rows // self.group)
        m, n = LONG if rows is None else rows, LONG if columns is None else columns
        depth = volume((axis.dom.extent for axis in self.block.iter_vars if axis.kind == ex.REDUCE), LONG)
        is_open = rows is None, columns is None
        return Product(m, n, depth, outside, *is_open, self.contiguous, bool(self.panel), self.pitch)


def operands(block: Block) -> tuple[BufferLoad, BufferLoad] | None:
    """Return the two loads, from different buffers, whose products a block adds up, or None for any other block.

    Conversions and roundings around the loads are ignored. A product may also be a dot product of packed words:
    `dot4_u8i8` takes words of four bytes, `dot2_bf16` words of two bfloat16.
    """
    body = block.body
    if not isinstance(body, BufferStore) or not isinstance(body.value, ex.Add) or block.init is None:
        return None
    factors = next(filter(None, map(_factors, (body.value.b, body.value.a))), None)
    if factors is None:
        return None
    a, b = map(_load, factors)
    return None if a is None or b is None or a.buffer is b.buffer else (a, b)


def roles(block: Block, kept: Collection[int] | None = None) -> list[Roles]:
    """Return the ways to view a block as a contraction. The list is empty unless it sums products of two buffers.

    If `kept` is given, axes at other positions are not joined with their neighbours, because another block rearranges
    them.
    """
    loads, store = operands(block), block.body
    if loads is None or not isinstance(store, BufferStore):
        return []
    axes, ways = axes_of(block, (store, *loads), kept), []
    last = [block.iter_vars[axis[-1]].var for axis in axes]
    for column in (p for p in range(len(axes)) if contiguous_along(store, last[p])):
        for scalars, vectors in (loads, loads[::-1]):
            read = next((p for p, buffer in enumerate(buffers_read(block)) if buffer is vectors.buffer), None)
            if depends(scalars, last[column]) or not depends(vectors, last[column]) or read is None:
                continue
            step = step_along(vectors, last[column])
            panel = None if step == 1 else panel_along(vectors, last[column])
            rows = [(p, _group(block, axes[p], vectors)) for p in _rows(block, axes) if depends(scalars, last[p])]
            tiled: list[tuple[int | None, int | None]] = [(p, group or None) for p, group in rows if group != 1]
            ways += [Roles(block, axes, p, column, read, panel, group, step) for p, group in tiled or [(None, None)]]
    return ways


def _rows(block: Block, axes: Sequence[Axis]) -> list[int]:
    """Return the positions of the axes in the order in which they are tried as the row.

    Among axes of unknown extent, the inner one comes first. The outer one is usually a batch, often with a single
    element, so that tiles of rows along it would be mostly empty.
    """
    is_open = [None in extents(block.iter_vars[p].dom.extent for p in axis) for axis in axes]
    inner_first = iter([p for p in reversed(range(len(axes))) if is_open[p]])
    return [next(inner_first) if is_open[p] else p for p in range(len(axes))]


def depends(access: Access, var: ex.Var) -> bool:
    """Return whether some index of an access contains a variable."""
    return any(item is var for index in access.indices for item in ex.walk(index))


def contiguous_along(access: Access, var: ex.Var) -> bool:
    """Return whether consecutive values of a variable access consecutive elements in memory."""
    return step_along(access, var) == 1


def step_along(access: Access, var: ex.Var) -> int:
    """Return the distance along the last axis between the elements for consecutive values of a variable.

    The distance is 0 if it is not constant.
    """
    indices = list(access.indices)
    while indices and is_const(access.buffer.shape[len(indices) - 1], 1):
        indices.pop()  # an axis of extent 1 does no harm
    if not indices:
        return 0
    *others, last = indices
    if any(item is var for index in others for item in ex.walk(index)):
        return 0
    form = linear(last)
    step = coefficient(form, var)
    return step if step is not None and step > 0 and not moves(form.without(var), [var]) else 0


def axes_of(block: Block, accesses: Sequence[Access], kept: Collection[int] | None = None) -> tuple[Axis, ...]:
    """Return the axes of the result. Neighbours that can be treated as one axis in all accesses are joined."""
    spatial = [p for p, axis in enumerate(block.iter_vars) if axis.kind != ex.REDUCE]
    axes: list[Axis] = []
    for position in spatial:
        stay = kept is None or {position - 1, position} <= set(kept)
        if axes and axes[-1][-1] == position - 1 and stay and all(neighbours(block, position, a) for a in accesses):
            axes[-1] = (*axes[-1], position)
        else:
            axes.append((position,))
    return tuple(axes)


def neighbours(block: Block, position: int, access: Access, may_be_open: bool = False) -> bool:
    """Return whether the iterator at `position` and the one before it directly index neighbouring dimensions of
    `access`, or neither occurs in it.
    """
    outer, inner = (block.iter_vars[p] for p in (position - 1, position))
    if not isinstance(inner.dom.extent, ex.IntImm) and not may_be_open:
        return False
    units = {axis.var for axis in block.iter_vars if is_const(axis.dom.extent, 1)} - {outer.var, inner.var}
    uses = [
        p for p, e in enumerate(access.indices) if any(item is outer.var or item is inner.var for item in ex.walk(e))
    ]
    if not uses:
        return True
    if len(uses) != 2 or uses[1] != uses[0] + 1:
        return False
    first, second = (access.indices[p] for p in uses)
    extent, dim = inner.dom.extent, access.buffer.shape[uses[1]]
    whole = is_const(dim, int(extent.value)) if isinstance(extent, ex.IntImm) else ex.structural_equal(dim, extent)
    return _is_iterator(first, outer.var, units) and _is_iterator(second, inner.var, units) and whole


def _is_iterator(index: ex.Expr, var: ex.Var, units: Collection[ex.Var]) -> bool:
    """Return whether an index is `var`, possibly plus iterators from `units`, which are always 0."""
    form = linear(index)
    return coefficient(form, var) == 1 and form.const == 0 and all(t in units for t in form.without(var).terms)


def panel_along(access: BufferLoad, var: ex.Var) -> int:
    """Return c if an access has the form `[var // c, .., var % c]`, so that c neighbours are contiguous, or 0
    otherwise.
    """
    *others, last = access.indices
    if not isinstance(last, ex.FloorMod) or last.a is not var or not isinstance(last.b, ex.IntImm):
        return 0
    width = int(last.b.value)
    return width if quotients(others, var) == {width} else 0


def quotients(nodes: Sequence[ex.Node], var: ex.Var) -> set[int] | None:
    """Return the constants by which a variable is divided wherever it occurs, or None if it also occurs undivided."""
    constants: set[int] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node is var:
            return None
        if isinstance(node, ex.FloorDiv) and node.a is var and isinstance(node.b, ex.IntImm):
            constants.add(int(node.b.value))
        else:
            todo += ex.children(node)
    return constants


def _group(block: Block, axis: Axis, vectors: BufferLoad) -> int:
    """Return how many neighbours along an axis read the same element of `vectors` (0: all of them, 1: unknown)."""
    if not any(depends(vectors, block.iter_vars[p].var) for p in axis):
        return 0
    inner, extent = block.iter_vars[axis[-1]].var, block.iter_vars[axis[-1]].dom.extent
    constants = quotients(vectors.indices, inner) if len(axis) == 1 else None
    if not constants or not isinstance(extent, ex.IntImm):
        return 1
    group = min(constants)
    return group if all(n % group == 0 for n in (extent.value, *constants)) else 1


def _factors(e: ex.Expr) -> tuple[ex.Expr, ex.Expr] | None:
    if isinstance(e, ex.Mul):
        return e.a, e.b
    return ex.factors_of_words(e)


def _load(e: ex.Expr) -> BufferLoad | None:
    while isinstance(e, ex.Cast) or (isinstance(e, ex.Call) and e.op == "round_tf32"):
        e = e.value if isinstance(e, ex.Cast) else e.args[0]
    return e if isinstance(e, BufferLoad) else None


def loops_as_one(sch: Schedule, handle: Any, loops: Sequence[tuple[int, Any]]) -> list[Any]:
    """Fuse the loops of a block whose axes are neighbours in memory, and return the resulting loops.

    `loops` are pairs (position of the iterator, loop). At most two loops of unknown extent are fused, innermost first,
    because the quotients that three would need could not be simplified again.
    """
    block = block_of(sch, handle)
    accesses = list(ex.find(block.body, Access))
    groups: list[list[tuple[int, Any]]] = []
    for position, loop in reversed(loops):
        inner = groups[0] if groups else []
        known = all(constant_extent(sch, other) is not None for _, other in inner)
        follows = bool(inner) and inner[0][0] == position + 1 and (known or len(inner) == 1)
        if follows and all(neighbours(block, position + 1, access, may_be_open=True) for access in accesses):
            inner.insert(0, (position, loop))
        else:
            groups.insert(0, [(position, loop)])
    return [sch.fuse(*(loop for _, loop in group)) if len(group) > 1 else group[0][1] for group in groups]


def names_of(way: Roles) -> tuple[str, str]:
    """Return the names of the row and the column. A number tells iterators with equal names apart."""
    names = [axis.var.name for axis in way.block.iter_vars]
    unique = [name if names.count(name) == 1 else f"{name}_{position}" for position, name in enumerate(names)]
    row, column = (way.axes[way.column if p is None else p] for p in (way.row, way.column))
    return "*".join(unique[p] for p in row), "*".join(unique[p] for p in column)


def way_of(block: Block, row: str, column: str, kept: Collection[int] | None = None) -> Roles:
    """Return the way to view a block as a contraction whose row and column have the names `row` and `column`. The block
    may have been changed since the way was chosen.

    If `row` is `column`, there are no rows: every other axis is outside. A change may add an axis on which only the
    scalar operand depends; `roles` treats it as a row and yields no way without rows. Raises `ScheduleError` if the
    block has no such way.
    """
    ways = roles(block, kept)
    for way in ways:
        if names_of(way) == (row, column):
            return way
    for way in ways if row == column else ():
        alone = replace(way, row=None, group=None)
        if names_of(alone) == (row, column):
            return alone
    raise ScheduleError(f"{block.name}: wanted a sum of products along {row} and {column}; the changed block has none")


def writer_of_sum(sch: Schedule, way: Roles, block: Any, written: Callable[[Schedule, Any], Any]) -> Any:
    """Return the block that writes a sum. `written(sch, block)` keeps the sum in registers; both blocks get the axes of
    `way`.

    Raises `Unfit` if the axes of the sum do not come last, or if the writer has other axes than the sum.
    """
    kinds = [axis.kind for axis in way.block.iter_vars]
    spatial = len(kinds) - kinds.count(ex.REDUCE)
    if kinds != sorted(kinds, key=lambda kind: kind == ex.REDUCE):
        raise Unfit("contraction: wanted the axes of the sum behind those of the result")
    main = written(sch, block)
    if len(sch.get_loops(main)) != spatial:
        raise Unfit("contraction: wanted as many axes behind the sum as the sum has")
    if len(way.axes) < spatial:
        join_axes(sch, block, main, way.axes)
    return main


def joined(places: Sequence[Any], iterators: Sequence[Any], axes: Sequence[Sequence[int]]) -> list[Any]:
    """Return one index per axis: the row-major index that combines the indices `places` of the iterators that form the
    axis.
    """
    indices = []
    for axis in axes:
        index = places[axis[0]]
        for position in axis[1:]:
            index = index * iterators[position].dom.extent + places[position]
        indices.append(index)
    return indices


def join_axes(sch: Schedule, block: Any, main: Any, all_axes: Sequence[Axis]) -> None:
    """Join the iterators of each axis into one: in the sum, in its accumulators, and in the block that writes the
    result.
    """
    iterators = block_of(sch, block).iter_vars
    spatial = sum(map(len, all_axes))

    _change_axes(sch, block, main, lambda *places: [*joined(places, iterators, all_axes), *places[spatial:]])


def split_axis(sch: Schedule, block: Any, main: Any, position: int, size: int) -> None:
    """Split an axis into place // size and place % size: in the sum, its accumulators, and the block that writes the
    result.
    """

    def split(*places: Any) -> list[Any]:
        place = places[position]
        return [*places[:position], place // size, place % size, *places[position + 1 :]]

    _change_axes(sch, block, main, split)


def _change_axes(sch: Schedule, block: Any, main: Any, change: Callable[..., list[Any]]) -> None:
    """Change the axes of a sum, of its accumulators and of its writer. `change` computes the new indices from the old
    ones.
    """
    behind, own = (len(block_of(sch, one).iter_vars) for one in (main, block))
    sch.transform_layout(block, ("write", 0), IndexMap.from_func(change, ndim=behind))
    sch.transform_block_layout(block, IndexMap.from_func(change, ndim=own))
    sch.transform_block_layout(main, IndexMap.from_func(change, ndim=behind))
