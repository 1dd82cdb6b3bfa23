"""Predict the cost of a tiling of a reduction by closed formulas in the tile's extents, derived from the accesses.

    S[i..] = op(S[i..], e(A[f(i, k)], B[g(i, k)], ..))

A tile has `tile_i` results along each axis i of the result, with vectors of `lanes` along one of them. An access
depends on some of the axes, and along the vectors it is contiguous, the same for all lanes, or neither. This determines
the operations, loads and registers of one step of the sum. It also determines the number of tiles (a partial tile
counts as a whole one), how they are shared among the cores, and the bytes that are moved into each cache
(`sketch_traffic`).
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
# Edges along this many axes get separate versions (`unswitch_tiles`). With more axes, each vector of each tile checks
# its position, and each additional axis multiplies the time by this factor.
_VERSIONS, _ASKED = 2, 2.0
_WRITTEN_OUT = 8  # iterations of a loop that LLVM writes out
_LOADS = 2.0  # lines of the first cache that a core reads in a cycle
CONTIGUOUS, SAME, SCATTERED = "contiguous", "same", "scattered"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the block: its name, extent and variable."""

    name: str
    extent: int
    var: Var


@dataclass(frozen=True, slots=True)
class AccessedOperand:
    """An access: the axes that it depends on, the bytes of an element and of the whole operand, and its dimensions.

    `groups` maps an axis to a number of neighbouring iterations that read the same element, as in A[i // 4].
    """

    load: BufferLoad
    axes: frozenset[str]
    itemsize: int
    nbytes: int
    indices: tuple[Expr, ...]
    dimensions: tuple[Dimension, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)

    def along(self, axis: Axis) -> str:
        """Return what neighbours along an axis read: neighbouring elements, the same element, or neither."""
        if axis.name not in self.axes:
            return SAME
        *others, last = self.indices
        form = linear(last)
        alone = coefficient(form, axis.var) == 1 and not moves(form.without(axis.var), [axis.var])
        return CONTIGUOUS if alone and not any(n is axis.var for i in others for n in walk(i)) else SCATTERED

    def read(self, tile: Mapping[str, Formula], order: Sequence[str]) -> list[Formula]:
        """Return how many elements a tile reads along each axis. An axis that only selects a group counts its groups.

        If the position of group boundaries in a tile is unknown, each result counts as a separate group.
        """
        return [groups_read(tile[name], self.groups.get(name, 1)) for name in order if name in self.axes]

    def aligned(self, axis: Axis, lanes: int) -> bool:
        """Return whether vectors along an axis always begin at multiples of their length, whatever the other indices
        are.
        """
        steps = [one.stride * step for one in self.dimensions for name, step in one.moves if name != axis.name]
        return all(step % lanes == 0 for step in steps) and not any(one.folded for one in self.dimensions)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A block that adds, multiplies, or takes extremes: the axes of its result and of its sum, and the operands it
    reads.

    `operations` is the number of operations per term, including the one that adds it to the result.
    """

    block: Block
    spatial: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    operands: tuple[AccessedOperand, ...]
    operations: int
    itemsize: int

    @property
    def depth(self) -> int:
        """The number of terms per result."""
        return prod(axis.extent for axis in self.summed)

    @property
    def tiled(self) -> tuple[Axis, ...]:
        """The axes of the result with more than one element. Tiles have extent 1 along the others."""
        return tuple(axis for axis in self.spatial if axis.extent > 1)

    def summed_axis(self, name: str) -> Axis:
        """Return the axis of the sum with this name."""
        return next(axis for axis in self.summed if axis.name == name)

    def axis(self, name: str) -> Axis:
        """Return the axis of the result with this name."""
        return next(axis for axis in self.spatial if axis.name == name)

    def vector_axes(self) -> list[Axis]:
        """Return the axes along which the result is contiguous."""
        store = self.block.body
        assert isinstance(store, BufferStore)
        load = BufferLoad(store.buffer, store.indices)
        written = AccessedOperand(load, frozenset(a.name for a in self.spatial), 4, 0, load.indices)
        return [axis for axis in self.spatial if written.along(axis) == CONTIGUOUS]


def reduction_of(block: Block) -> Reduction | None:
    """Return a block as a reduction, or None if it is not one or has a symbolic extent."""
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
    """Return the number of operations on data per term. A product that is added counts once.

    With `conditions`, operations in conditions on positions are counted too.
    """
    if isinstance(node, BufferLoad):
        return 0
    inner = list(children(node))
    own = _COSTLY if isinstance(node, Call) and node.op in COSTLY else 1 if inner else 0
    if isinstance(node, Call) and node.op == "if_then_else" and not conditions:
        inner = inner[1:]
    return own + sum(operations(one, conditions) for one in inner)


@dataclass(frozen=True, slots=True)
class TilingCost:
    """The cycles of one core, for one choice of the vector axis, of `lanes`, and of the loop order.

    `compute`, `registers` and the bytes that each of the `nests` accesses are formulas in the tile's extents, which are
    called `names`. `sizes` holds the bytes of each operand and of the result, and `cpu` describes the machine.
    """

    names: tuple[str, ...]
    compute: Formula
    registers: Formula
    nests: tuple[Nest, ...]
    sizes: tuple[int, ...]
    cpu: CPU

    def at(self, tiles: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return (arithmetic cycles, memory cycles) for the tile's extents, which are numbers or arrays of numbers."""
        values = [tiles[name] for name in self.names]
        compute = self.compute.compiled(self.names)(*values)
        moved = self.moved(tiles)
        rates = (self.cpu.l2_rate, self.cpu.l3_rate, self.cpu.memory_rate)
        # Reading the closest cache overlaps with the arithmetic: only the rest of the time counts.
        near, *far = (part / rate for part, rate in zip(moved, rates, strict=True))
        memory = np.maximum(near - compute, 0.0) + sum(far)
        return compute, memory if np.ndim(memory) else float(memory)

    def moved(self, tiles: Mapping[str, Any]) -> list[Any]:
        """Return the bytes that are moved into each cache, as numbers or arrays."""
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
        # Data that fit in the last-level cache are already there at the start.
        found[2] = np.where(found[2] > held.max(axis=0).reshape(shape), found[2], 0.0)
        return found

    def formulas(self) -> dict[str, object]:
        """Return the formulas by name, including the bytes that each nest accesses."""
        bytes_of = {f"in {nest.name}": sum(nest.touched, formula(0)) for nest in self.nests}
        return {"compute": self.compute, "registers": self.registers, **bytes_of}


def knob(axis: Axis) -> str:
    """Return the name of the knob for a tile's extent along an axis."""
    return f"tile_{axis.name}"


def tiling_cost(
    reduction: Reduction, vector: str, lanes: int, order: Sequence[str], last: str, cpu: CPU,
    tasks: int | None = None, burdens: Mapping[Buffer, int] = MappingProxyType({}),
) -> TilingCost:  # fmt: skip
    """Return the formulas for a choice of vectors and loop order; see `TilingCost`.

    The loops over tiles are in this `order`, outermost first; the first `tasks` of them (default: all) are shared among
    the cores. The axis named `last` is the innermost loop of the sum. `burdens` gives the number of operations per
    element of an operand that is computed where it is read.
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
            # An unaligned vector is often in two cache lines, and then uses both ports.
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
    """Return the tile axis along which the innermost loop of the sum moves a window, or "".

    The result is "" if there is no such axis, or if the loop is too long for LLVM to unroll.
    """
    if last.extent > _WRITTEN_OUT:
        return ""
    for one in operand.dimensions:
        steps = dict(one.moves)
        for name in order:
            if name in steps and name != vector and steps[name] == steps.get(last.name):
                return name
    return ""


def _live(operand: AccessedOperand, tile: Mapping[str, Formula], order: Sequence[str], slides: str) -> Formula:
    """Return the registers in which an operand's elements are kept because the tile or the step uses them again.

    The tile is unrolled in this order. Along an axis on which the operand does not depend, the elements read inside
    that axis are used again. LLVM also unrolls a short innermost loop of the sum, and keeps the elements that two of
    its steps share: a window that slides along an axis of the tile (`slides`).
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
    """Return up to `most` tiles that fit in registers, cheapest first, each with (arithmetic cycles, memory cycles)."""
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
    """Return the extents of a tile along an axis that are worth trying: all small ones, and the whole axis."""
    whole = -(-axis.extent // lanes)
    return np.arange(1, min(whole, registers) + 1, dtype=np.int64)


def _sticks_out(axis: Axis, tiles: Formula, wide: Formula) -> Formula:
    """Return 1 if the last tile along an axis is incomplete, else 0."""
    return Formula(minimum((tiles * wide + -axis.extent).expr, formula(1).expr))


def rated(f: Formula, per_cycle: float) -> Formula:
    """Return the cycles for `f` things at `per_cycle` things per cycle, like `arith.formula.rated`, but as a product.

    This is faster to evaluate and easier to read.
    """
    return Formula(f.expr * (1 / per_cycle), f.exact)


def _product(factors: Any) -> Formula:
    result = formula(1)
    for factor in factors:
        result = result * factor
    return result


def _ceil(a: Formula | int, b: Formula) -> Formula:
    """Return a / b, rounded up."""
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
