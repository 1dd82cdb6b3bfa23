"""What a tiling of a reduction costs, as closed formulas in the extents of the tile, read off the block's accesses.

    S[i..] = op(S[i..], e(A[f(i, k)], B[g(i, k)], ..))

A tile has `tile_i` results along each axis i of the result, vectors of `lanes` along one of them. An access depends on
some of the axes, and along the vectors it is contiguous, the same for all lanes, or neither. From that follow, for one
step of the sum: operations, loads, registers. For the whole: tiles (what sticks out of the result counts as if it were
in it), their share among the cores, and the bytes that come into each cache (`sketch_traffic`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ....arith.formula import Formula, clamped, formula, largest, minimum, quotient, symbol
from ....expr import REDUCE, Call, Expr, Node, Var, children, find, walk
from ....strategy.blocks import COSTLY, extents
from ....target import CPU
from ....tir.nodes import Block, Buffer, BufferLoad, BufferStore
from ....tir.transform.affine import coefficient, linear, moves
from .model import KERNEL_EFFICIENCY
from .sketch_traffic import Dimension, Nest, dimensions, groups_of, groups_read, into, merged, touched

_COSTLY = 20  # operations that a function such as exp is as good as
_MASKED = 2  # operations at most by which a vector is computed where it is read
# Edges along so many axes have versions of their own (`unswitch_tiles`); with more, each vector of each tile asks where
# it is, and for each axis more it takes so many times as long again.
_VERSIONS, _ASKED = 2, 2.0
_WRITTEN_OUT = 8  # iterations of a loop that LLVM writes out
_LOADS = 2.0  # lines of the first cache that a core reads in a cycle
CONTIGUOUS, SAME, SCATTERED = "contiguous", "same", "scattered"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the block: its name, its extent."""

    name: str
    extent: int
    var: Var


@dataclass(frozen=True, slots=True)
class AccessedOperand:
    """An access: the names of the axes on which it depends, its bytes an element and in all, its dimensions.

    On the axes of `groups` it depends by a quotient alone: so many neighbours read the same.
    """

    load: BufferLoad
    axes: frozenset[str]
    itemsize: int
    nbytes: int
    indices: tuple[Expr, ...]
    dimensions: tuple[Dimension, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)

    def along(self, axis: Axis) -> str:
        """What neighbours along an axis read: neighbours, the same, or neither."""
        if axis.name not in self.axes:
            return SAME
        *others, last = self.indices
        form = linear(last)
        alone = coefficient(form, axis.var) == 1 and not moves(form.without(axis.var), [axis.var])
        return CONTIGUOUS if alone and not any(n is axis.var for i in others for n in walk(i)) else SCATTERED

    def read(self, tile: Mapping[str, Formula], order: Sequence[str]) -> list[Formula]:
        """How many elements a tile reads along each of the axes: along one that only chooses a group, its groups.

        A tile of which nobody knows where a group ends reads one for each of its results.
        """
        return [groups_read(tile[name], self.groups.get(name, 1)) for name in order if name in self.axes]

    def aligned(self, axis: Axis, lanes: int) -> bool:
        """Whether vectors along an axis begin at multiples of their length, whatever the other axes are."""
        steps = [one.stride * step for one in self.dimensions for name, step in one.moves if name != axis.name]
        return all(step % lanes == 0 for step in steps) and not any(one.folded for one in self.dimensions)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A block that sums, multiplies, or takes extremes: axes of its result and of its sum, what it reads.

    `operations` are those of one term, its joining included.
    """

    block: Block
    spatial: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    operands: tuple[AccessedOperand, ...]
    operations: int
    itemsize: int

    @property
    def depth(self) -> int:
        """Terms of one result."""
        return prod(axis.extent for axis in self.summed)

    @property
    def tiled(self) -> tuple[Axis, ...]:
        """The axes of the result that are longer than one element; along the others a tile has one."""
        return tuple(axis for axis in self.spatial if axis.extent > 1)

    def summed_axis(self, name: str) -> Axis:
        """The axis of the sum of that name."""
        return next(axis for axis in self.summed if axis.name == name)

    def axis(self, name: str) -> Axis:
        """The axis of the result of that name."""
        return next(axis for axis in self.spatial if axis.name == name)

    def vector_axes(self) -> list[Axis]:
        """Axes along which the result is contiguous."""
        store = self.block.body
        assert isinstance(store, BufferStore)
        load = BufferLoad(store.buffer, store.indices)
        written = AccessedOperand(load, frozenset(a.name for a in self.spatial), 4, 0, load.indices)
        return [axis for axis in self.spatial if written.along(axis) == CONTIGUOUS]


def reduction_of(block: Block) -> Reduction | None:
    """A block as a reduction; None where it is not one, or an extent is open."""
    store, kinds = block.body, [axis.kind for axis in block.iter_vars]
    sizes = extents(axis.dom.extent for axis in block.iter_vars)
    named = len({axis.var.name for axis in block.iter_vars}) == len(kinds)
    if block.init is None or not isinstance(store, BufferStore) or None in sizes or not named:
        return None
    axes = [Axis(axis.var.name, size or 0, axis.var) for axis, size in zip(block.iter_vars, sizes, strict=True)]
    own = [n for n in find(store.value, BufferLoad) if n.buffer is not store.buffer]
    known = {axis.var: axis.name for axis in axes}
    operands = tuple(_operand(load, known) for load in {load.buffer: load for load in own}.values())
    spatial = tuple(axis for axis, kind in zip(axes, kinds, strict=True) if kind != REDUCE)
    summed = tuple(axis for axis, kind in zip(axes, kinds, strict=True) if kind == REDUCE)
    if not summed or all(axis.extent == 1 for axis in spatial) or not all(axis.extent > 0 for axis in axes):
        return None
    work = operations(store.value, conditions=False)
    return Reduction(block, spatial, summed, operands, work, store.buffer.dtype.bytes)


def _operand(load: BufferLoad, known: Mapping[Var, str]) -> AccessedOperand:
    indices, shape = merged(load)
    used = frozenset(known[n] for i in indices for n in find(i, Var) if n in known)
    itemsize = load.buffer.dtype.bytes
    places = dimensions(indices, shape, known)
    return AccessedOperand(load, used, itemsize, itemsize * prod(shape), indices, places, groups_of(indices, known))


def operations(node: Node, conditions: bool = True) -> int:
    """Operations on data of one term; a product that is added is one of them. With `conditions`, those of places are
    counted, too."""
    if isinstance(node, BufferLoad):
        return 0
    inner = list(children(node))
    own = _COSTLY if isinstance(node, Call) and node.op in COSTLY else 1 if inner else 0
    if isinstance(node, Call) and node.op == "if_then_else" and not conditions:
        inner = inner[1:]
    return own + sum(operations(one, conditions) for one in inner)


@dataclass(frozen=True, slots=True)
class TilingCost:
    """Cycles of one core for a choice of the vectors' axis, of `lanes`, of the order of the loops.

    `compute`, `registers` and what each of the `nests` touches are formulas in the extents of the tile, one for each of
    `names`. `sizes` are the bytes of each operand and of the result, `cpu` the description of the machine.
    """

    names: tuple[str, ...]
    compute: Formula
    registers: Formula
    nests: tuple[Nest, ...]
    sizes: tuple[int, ...]
    cpu: CPU

    def at(self, tiles: Mapping[str, Any]) -> tuple[Any, Any]:
        """(arithmetic, memory) for extents of the tile: numbers, or arrays of them."""
        values = [tiles[name] for name in self.names]
        compute = self.compute.compiled(self.names)(*values)
        moved = self.moved(tiles)
        rates = (self.cpu.l2_rate, self.cpu.l3_rate, self.cpu.memory_rate)
        # The nearest cache is read beside the arithmetic: only what that does not hide is waited for.
        near, *far = (part / rate for part, rate in zip(moved, rates, strict=True))
        memory = np.maximum(near - compute, 0.0) + sum(far)
        return compute, memory if np.ndim(memory) else float(memory)

    def moved(self, tiles: Mapping[str, Any]) -> list[Any]:
        """Bytes that come into each cache: numbers, or arrays of them."""
        values = [tiles[name] for name in self.names]
        shape = np.broadcast_shapes(*map(np.shape, values))

        def numbers(f: Formula) -> Any:
            return np.broadcast_to(np.asarray(f.compiled(self.names)(*values), float), shape).reshape(-1)

        *operands, result = self.sizes
        held = np.array([sum(np.minimum(numbers(f), size) for f, size in zip(nest.touched, operands, strict=True))
                         for nest in self.nests])  # fmt: skip
        trips = np.array([numbers(nest.trips) for nest in self.nests])
        found = []
        for cache in (self.cpu.l1, self.cpu.l2, self.cpu.l3):
            bytes_in = into(cache.size // cache.shared_by, held, trips)
            found.append(bytes_in.reshape(shape) if shape else float(bytes_in[0]))
        found[1] = found[1] + 2 * result  # it is fetched, and written back
        # What fits the last cache is there before it begins.
        found[2] = np.where(found[2] > held.max(axis=0).reshape(shape), found[2], 0.0)
        return found

    def formulas(self) -> dict[str, object]:
        """What is computed, by what it is; of each nest the bytes that it touches."""
        bytes_of = {f"in {nest.name}": sum(nest.touched, formula(0)) for nest in self.nests}
        return {"compute": self.compute, "registers": self.registers, **bytes_of}


def knob(axis: Axis) -> str:
    """The name of an axis' extent in the tile."""
    return f"tile_{axis.name}"


def tiling_cost(
    reduction: Reduction, vector: str, lanes: int, order: Sequence[str], last: str, cpu: CPU,
    tasks: int | None = None, burdens: Mapping[Buffer, int] = MappingProxyType({}),
) -> TilingCost:  # fmt: skip
    """The formulas; see `TilingCost`.

    The loops over tiles are in this `order`, the outermost first; the first `tasks` of them (default: all) are shared
    among the cores. Of the axes of the sum the one named `last` is innermost. `burdens` are the operations by which an
    element of an operand is computed where it is read.
    """
    names = tuple(knob(axis) for axis in reduction.tiled)
    tile = {axis.name: Formula(symbol(knob(axis))) for axis in reduction.tiled}
    tile = {axis.name: tile.get(axis.name, formula(1)) for axis in reduction.spatial}
    wide = {axis.name: tile[axis.name] * (lanes if axis.name == vector else 1) for axis in reduction.spatial}
    tiles = {axis.name: _ceil(axis.extent, wide[axis.name]) for axis in reduction.spatial}
    results = _product(tile.values())

    axis, order_in = reduction.axis(vector), [*(name for name in tile if name != vector), vector]
    rate, innermost = min(_LOADS, cpu.l1_rate / (lanes * reduction.itemsize)), reduction.summed_axis(last)
    loads, lines, registers, beside = formula(0), formula(0), results + 1, formula(0)
    for operand in reduction.operands:
        own, kind = _product(operand.read(tile, order_in)), operand.along(axis)
        loaded, slides = own, _slides_along(operand, order_in, vector, innermost)
        if slides:  # what two steps share is loaded once
            steps = innermost.extent
            loaded = rated(_product(operand.read({**tile, slides: tile[slides] + (steps - 1)}, order_in)), steps)
        if kind == SCATTERED:
            loaded = loaded * lanes
        loads, crossed = loads + loaded, loaded
        if kind == CONTIGUOUS and not operand.aligned(axis, lanes):
            # A vector that begins anywhere often lies in two lines, and takes both of the ports.
            crossed = rated(loaded, 1 / (1 + (lanes - 1) * operand.itemsize / cpu.l1.line))
        lines = lines + crossed
        registers = registers + _live(operand, tile, order_in, slides)
        # Conditions of a vector are a mask and its use; those of single elements are computed one by one.
        most = _MASKED if kind == CONTIGUOUS else _COSTLY
        beside = beside + own * min(most, burdens.get(operand.load.buffer, 0))
    spilled = Formula(clamped(registers.expr - cpu.vector_registers))
    chains = formula(cpu.fma_latency)
    work = max(1, reduction.operations - 1)  # the multiply-add of a sum of products is one instruction
    step = largest(rated(results * work + beside, cpu.fma_ports), chains, rated(loads, rate), rated(lines, _LOADS))
    step = step + rated(spilled, rate / 2)

    shared = order[: len(order) if tasks is None else tasks]
    rounds = _ceil(_product(tiles[name] for name in shared), formula(cpu.cores)) * cpu.cores
    rounds = rounds * _product(tiles[name] for name in tiles if name not in shared)
    compute = rated(rounds * step * reduction.depth, KERNEL_EFFICIENCY)
    edges = [_sticks_out(axis, tiles[axis.name], wide[axis.name]) for axis in reduction.tiled]
    if len(edges) > _VERSIONS:
        asked = Formula(clamped((sum(edges, formula(0)) + -_VERSIONS).expr))
        compute = compute * (rated(asked, 1 / _ASKED) + 1)

    sums = [one for one in reduction.summed if one.name != last]
    loops = [reduction.summed_axis(last), *reversed(sums)]
    outside = [reduction.axis(name) for name in reversed(order) if reduction.axis(name).extent > 1]
    sizes = {**wide, **{axis.name: formula(1) for axis in reduction.summed}}

    def nest(name: str, trips: Formula) -> Nest:
        bytes_of = tuple(touched(one.dimensions, one.itemsize, sizes, cpu.l1.line) for one in reduction.operands)
        return Nest(name, trips, bytes_of)

    nests = [nest("a step", formula(1))]
    for one in (*loops, *outside):
        sizes[one.name] = formula(one.extent)
        nests.append(nest(one.name, tiles.get(one.name, formula(one.extent))))
    result = reduction.itemsize * prod(one.extent for one in reduction.spatial)
    nbytes = (*(one.nbytes for one in reduction.operands), result)
    return TilingCost(names, compute, registers, tuple(nests), nbytes, cpu)


def _slides_along(operand: AccessedOperand, order: Sequence[str], vector: str, last: Axis) -> str:
    """The axis of the tile along which a step of the innermost loop moves a window; "" where there is none, or where
    LLVM does not write that loop out."""
    if last.extent > _WRITTEN_OUT:
        return ""
    for one in operand.dimensions:
        steps = dict(one.moves)
        for name in order:
            if name in steps and name != vector and steps[name] == steps.get(last.name):
                return name
    return ""


def _live(operand: AccessedOperand, tile: Mapping[str, Formula], order: Sequence[str], slides: str) -> Formula:
    """Registers for an operand beside the one that passes: what is used again before the tile or the step is over.

    The tile is written out in this order. Along an axis on which the operand does not depend, what lies inside is used
    again. A short innermost loop of the sum is written out too (by LLVM), and what two of its steps share is kept: a
    window that slides along an axis of the tile (`slides`).
    """
    kept = formula(0)
    for position, name in enumerate(order):
        if name not in operand.axes:
            inside = _product(tile[other] for other in order[position + 1 :] if other in operand.axes)
            again = minimum((tile[name] + -1).expr, (inside + -1).expr, formula(1).expr)
            kept = largest(kept, inside * Formula(again))
    if slides:
        others = _product(tile[name] for name in order if name in operand.axes and name != slides)
        kept = kept + (tile[slides] + -1) * others
    return kept


def fitting_tiles(
    reduction: Reduction, vector: str, lanes: int, cost: TilingCost, registers: int, most: int
) -> list[tuple[dict[str, int], tuple[float, float]]]:
    """The tiles that fit the registers, `most` of them, the cheapest first, with (arithmetic, memory) of each."""
    grid = np.ones((1, 0), np.int64)
    for axis in reduction.tiled:
        options = _extents(axis, lanes if axis.name == vector else 1, registers)
        grid = np.hstack([np.repeat(grid, len(options), axis=0), np.tile(options, len(grid))[:, None]])
        grid = grid[grid.prod(axis=1) <= registers]  # the results of a tile are in registers
    points = dict(zip(cost.names, grid.T, strict=True))
    fits = np.broadcast_to(np.asarray(cost.registers.compiled(cost.names)(*grid.T)) <= registers, len(grid))
    points = {name: column[fits] for name, column in points.items()}
    compute, memory = cost.at(points)
    compute, memory = (np.broadcast_to(part, int(fits.sum())) for part in (compute, memory))
    order = np.argsort(compute + memory, kind="stable")[:most]
    tiles = [{name: int(column[i]) for name, column in points.items()} for i in order]
    return [(tile, (float(compute[i]), float(memory[i]))) for tile, i in zip(tiles, order, strict=True)]


def _extents(axis: Axis, lanes: int, registers: int) -> np.ndarray[Any, Any]:
    """Extents of a tile along an axis that are worth a look: all small ones, and the axis as a whole."""
    whole = -(-axis.extent // lanes)
    return np.arange(1, min(whole, registers) + 1, dtype=np.int64)


def _sticks_out(axis: Axis, tiles: Formula, wide: Formula) -> Formula:
    """1 where the last tile along an axis is not full, else 0."""
    return Formula(minimum((tiles * wide + -axis.extent).expr, formula(1).expr))


def rated(f: Formula, per_cycle: float) -> Formula:
    """Cycles for so many things, as `arith.formula.rated`; factors stay factors, which is faster and reads better."""
    return Formula(f.expr * (1 / per_cycle), f.exact)


def _product(factors: Any) -> Formula:
    result = formula(1)
    for factor in factors:
        result = result * factor
    return result


def _ceil(a: Formula | int, b: Formula) -> Formula:
    """a / b rounded up."""
    if a == 1 or b == 1:
        return formula(a)
    return Formula(quotient(formula(a).expr + b.expr - 1, b.expr))


__all__ = [
    "AccessedOperand",
    "Axis",
    "Reduction",
    "TilingCost",
    "fitting_tiles",
    "knob",
    "reduction_of",
    "tiling_cost",
]  # fmt: skip
