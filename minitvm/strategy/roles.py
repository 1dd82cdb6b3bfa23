"""What the axes of a contraction are for, read off how its operands and its result are indexed.

    C[i.., j..] += A[f(i, k)] * B[g(j, k)]

Vectors lie along a *column*: an axis that is contiguous in the result and that only one operand depends on. That one is
read in vectors; of the other, elements are broadcast to the *rows*, an axis that only it depends on. All other axes of
the result are outside: a product of matrices for each of their points. Neighbouring axes that are one axis wherever
they index (the lines and columns of an image in a 1x1 convolution, a batch of rows) are taken as one.
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
from ..tir.nodes import Block, BufferLoad, BufferStore
from ..tir.transform.affine import coefficient, linear, moves
from .blocks import block_of, constant_extent, extents, volume
from .candidate import Unfit

LONG = 384  # what an open extent counts as
Axis = tuple[int, ...]  # positions of the iterators that are one axis, outer ones first
Access = BufferLoad | BufferStore


@dataclass(frozen=True, slots=True)
class Product:
    """The extents on which the cost of a contraction depends: `outside` products of m x depth by depth x n.

    `m_open` and `n_open` say that the extent is only known when the kernel runs, and stands for a long one here;
    `contiguous` that vectors of the operand are contiguous in memory, `packed` that its panels are. `pitch` is how many
    elements lie from a row of this operand to the next one of the sum; 0 where that is no constant.
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
    """A way to see a block as a contraction: `row` (None without rows) and `column` are positions among the `axes`.

    Where the vectors' operand depends on the row, it is on its quotient by `group` alone (a grouped convolution): a
    group of rows is a product of its own. `read` is the position of the vectors' operand among the block's reads,
    `panel` the columns that are contiguous in it: 0 where neighbours are not, None where all are. `step` is how many
    elements of its last axis lie between neighbours; 0 where neighbours differ in another axis.
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
        """Whether vectors are contiguous in their operand."""
        return self.panel != 0

    @property
    def vectors(self) -> BufferLoad:
        """The read of the operand that is read in vectors."""
        buffer = self.block.reads[self.read].buffer
        return next(load for load in operands(self.block) or () if load.buffer is buffer)

    @property
    def shared(self) -> list[int]:
        """The axes outside on which the vectors' operand does not depend: for all their points it is the same."""
        others = [p for p in range(len(self.axes)) if p not in (self.row, self.column)]
        return [p for p in others if not self.needed(p)]

    def needed(self, position: int) -> bool:
        """Whether the vectors' operand depends on an axis, of more than one element."""
        iterators = [self.block.iter_vars[p] for p in self.axes[position]]
        return any(depends(self.vectors, axis.var) and not is_const(axis.dom.extent, 1) for axis in iterators)

    def extent(self, position: int) -> int | None:
        """The extent of an axis; None where it is open."""
        known = extents(self.block.iter_vars[p].dom.extent for p in self.axes[position])
        return None if None in known else prod(extent or 0 for extent in known)

    @property
    def pitch(self) -> int:
        """How many elements lie between neighbours of the sum in the vectors' operand; 0 for a sum over more axes."""
        summed = [axis for axis in self.block.iter_vars if axis.kind == ex.REDUCE and not is_const(axis.dom.extent, 1)]
        shape = extents(self.vectors.buffer.shape)
        if len(summed) != 1 or None in shape:
            return 0
        steps = [coefficient(linear(index), summed[0].var) or 0 for index in self.vectors.indices]
        return sum(step * prod(n or 0 for n in shape[p + 1 :]) for p, step in enumerate(steps))

    @property
    def product(self) -> Product:
        """Its extents."""
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
    """Return the two loads, from different buffers, whose products a block adds up; None for any other block.

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
    """The ways to see a block as a contraction; none for a block that is no sum of products of two buffers.

    Axes whose positions are not among the `kept` ones are not joined with others: another block rearranges them.
    """
    loads, store = operands(block), block.body
    if loads is None or not isinstance(store, BufferStore):
        return []
    axes, ways = axes_of(block, (store, *loads), kept), []
    last = [block.iter_vars[axis[-1]].var for axis in axes]
    for column in (p for p in range(len(axes)) if contiguous_along(store, last[p])):
        for scalars, vectors in (loads, loads[::-1]):
            read = next((p for p, region in enumerate(block.reads) if region.buffer is vectors.buffer), None)
            if depends(scalars, last[column]) or not depends(vectors, last[column]) or read is None:
                continue
            step = step_along(vectors, last[column])
            panel = None if step == 1 else panel_along(vectors, last[column])
            rows = [(p, _group(block, axes[p], vectors)) for p in _rows(block, axes) if depends(scalars, last[p])]
            tiled: list[tuple[int | None, int | None]] = [(p, group or None) for p, group in rows if group != 1]
            ways += [Roles(block, axes, p, column, read, panel, group, step) for p, group in tiled or [(None, None)]]
    return ways


def _rows(block: Block, axes: Sequence[Axis]) -> list[int]:
    """The axes in the order in which they are preferred as rows where they cost the same: of open ones the inner first.

    The outer one is a batch as a rule, often of a single element, and tiles of rows along it would be empty.
    """
    is_open = [None in extents(block.iter_vars[p].dom.extent for p in axis) for axis in axes]
    inner_first = iter([p for p in reversed(range(len(axes))) if is_open[p]])
    return [next(inner_first) if is_open[p] else p for p in range(len(axes))]


def depends(access: Access, var: ex.Var) -> bool:
    """Whether a variable decides which element is accessed."""
    return any(item is var for index in access.indices for item in ex.walk(index))


def contiguous_along(access: Access, var: ex.Var) -> bool:
    """Whether the next along a variable is the next in memory."""
    return step_along(access, var) == 1


def step_along(access: Access, var: ex.Var) -> int:
    """How many elements of the last axis the next along a variable is away; 0 where it is not a constant number."""
    indices = list(access.indices)
    while indices and is_const(access.buffer.shape[len(indices) - 1], 1):
        indices.pop()  # an axis of extent 1 is in nobody's way
    if not indices:
        return 0
    *others, last = indices
    if any(item is var for index in others for item in ex.walk(index)):
        return 0
    form = linear(last)
    step = coefficient(form, var)
    return step if step is not None and step > 0 and not moves(form.without(var), [var]) else 0


def axes_of(block: Block, accesses: Sequence[Access], kept: Collection[int] | None = None) -> tuple[Axis, ...]:
    """The axes of the result, neighbours that are one axis in all accesses together."""
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
    """Whether an iterator and the one before it index neighbouring dimensions as they are, or neither indexes."""
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
    """Whether an index is an iterator, beside others that are always 0."""
    form = linear(index)
    return coefficient(form, var) == 1 and form.const == 0 and all(t in units for t in form.without(var).terms)


def panel_along(access: BufferLoad, var: ex.Var) -> int:
    """c where neighbours along a variable are contiguous in panels of c: `[var // c, .., var % c]`; else 0."""
    *others, last = access.indices
    if not isinstance(last, ex.FloorMod) or last.a is not var or not isinstance(last.b, ex.IntImm):
        return 0
    width = int(last.b.value)
    return width if quotients(others, var) == {width} else 0


def quotients(nodes: Sequence[ex.Node], var: ex.Var) -> set[int] | None:
    """The constants by which a variable is divided wherever it occurs; None where it occurs as itself."""
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
    """How many neighbours along an axis read the same of `vectors`: 0 where all do, 1 where that cannot be said."""
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
    """Loops of a block, given with the positions of their iterators, neighbours that are one axis in memory fused.

    Of open extents two are fused, the innermost ones first: the quotients of three are not put together again.
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
    """Names of the row and the column; iterators of one name are told apart by their positions."""
    names = [axis.var.name for axis in way.block.iter_vars]
    unique = [name if names.count(name) == 1 else f"{name}_{position}" for position, name in enumerate(names)]
    row, column = (way.axes[way.column if p is None else p] for p in (way.row, way.column))
    return "*".join(unique[p] for p in row), "*".join(unique[p] for p in column)


def way_of(block: Block, row: str, column: str, kept: Collection[int] | None = None) -> Roles:
    """The way to see a changed block that has these names; without rows (`row` is `column`) every axis is outside.

    A change may add an axis, along which the scalars' operand then differs: `roles` calls it a row, and yields no way
    without rows. Raises `ScheduleError` if the block has no such way.
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
    """The block that writes a sum, which `written(sch, block)` keeps in registers; both get the axes of `way`.

    Raises `Unfit` for a sum whose axes are in another order, or other axes than those of what follows it.
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
    """One index for each axis, of the places that the iterators have."""
    indices = []
    for axis in axes:
        index = places[axis[0]]
        for position in axis[1:]:
            index = index * iterators[position].dom.extent + places[position]
        indices.append(index)
    return indices


def join_axes(sch: Schedule, block: Any, main: Any, all_axes: Sequence[Axis]) -> None:
    """Make one axis of those of `all_axes` in the sum, in its accumulators, and behind it."""
    iterators = block_of(sch, block).iter_vars
    spatial = sum(map(len, all_axes))

    _change_axes(sch, block, main, lambda *places: [*joined(places, iterators, all_axes), *places[spatial:]])


def split_axis(sch: Schedule, block: Any, main: Any, position: int, size: int) -> None:
    """Make two axes of one, in the sum, in its accumulators, and behind it: which part of so many, and where in it."""

    def split(*places: Any) -> list[Any]:
        place = places[position]
        return [*places[:position], place // size, place % size, *places[position + 1 :]]

    _change_axes(sch, block, main, split)


def _change_axes(sch: Schedule, block: Any, main: Any, change: Callable[..., list[Any]]) -> None:
    """Give a sum, its accumulators, and what is behind it other axes: those that `change` makes of the places."""
    behind, own = (len(block_of(sch, one).iter_vars) for one in (main, block))
    sch.transform_layout(block, ("write", 0), IndexMap.from_func(change, ndim=behind))
    sch.transform_block_layout(block, IndexMap.from_func(change, ndim=own))
    sch.transform_block_layout(main, IndexMap.from_func(change, ndim=behind))
