"""Schedule convolutions and matrix products for the accelerator: tiles in scratchpads, with two alternating contexts.

    for each tile of `outs` x `rows` elements of the result, all columns:
        vthread context:                        # 2: each has its own half of the scratchpads
            acc = 0                             # gemm reset
            for each `ins` blocks of input channels:
                inp = image's rows, wgt = filters       # load
                acc += inp @ wgt.T                      # gemm
            acc = shift, cut (acc)                      # alu
            result = acc                                # store

The virtual threads are interleaved, so one context is loaded while the array computes on the other. VTA's compiler does
the same, as decoupled access and execute (Moreau et al., "A hardware-software blueprint for flexible deep learning
specialization"). A formula chooses the tiles by the machine's figures. The cost is the larger of the array's and the
memory's cycles, plus the time that nothing hides: at the beginning, at the end, and during a tile without a partner in
the other context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isqrt, prod
from typing import Any, Protocol, TypeVar

from ....expr import Add, Call, Cast, Expr, IntImm, Max, Min, Var, structural_equal, walk
from ....strategy.blocks import blocks_of, constant_extent, extents, is_reduction
from ....strategy.candidate import Candidate, Cost, Knob
from ....strategy.registry import rule
from ....strategy.roles import operands
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_read, buffers_written, regions_read
from ....tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ..instruction_set import Elements

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Stage:
    """An element-wise block after the sums: the machine's operation, and the position of another tensor that it reads.

    `other` is the position of a tensor from memory among the block's reads, or None. If `spread` is set, this tensor
    has one element for all pixels of a channel, like a bias. `constant` is an immediate operand. `inlines` is the block
    that is inlined into this one.
    """

    block: str
    operation: str
    other: int | None = None
    spread: bool = False
    constant: int | None = None
    inlines: str | None = None


@dataclass(frozen=True, slots=True)
class ConvolutionNest:
    """A sum of products of elements, the stages after it, and the extents of its axes in elements.

    `image` and `filters` are the positions of the operands among the reads of the block. `pad` is the block that pads
    the image, or None.
    """

    block: str
    image: int
    filters: int
    pad: str | None
    stages: tuple[Stage, ...]
    outs: int
    rows: int
    columns: int
    ins: int  # blocks of input channels
    points: int  # of a filter
    kernel_rows: int
    kernel_columns: int
    row_step: int
    column_step: int
    padded: bool

    def image_columns(self, columns: Number) -> Number:
        """Return the columns of the image, including its frame, that this many columns of the result read."""
        return (columns - 1) * self.column_step + self.kernel_columns


def convolution_of(func: PrimFunc) -> ConvolutionNest | None:
    """Return the convolution that a function consists of, or None for any other function."""
    blocks = list(blocks_of(func))
    sums = [block for block in blocks if is_reduction(block)]
    if len(sums) != 1:
        return None
    (block,) = sums
    loads, kinds = operands(block), [axis.kind for axis in block.iter_vars]
    sizes = extents(axis.dom.extent for axis in block.iter_vars)
    if loads is None or None in sizes or kinds != ["S"] * 6 + ["R"] * 4 or not isinstance(block.body, BufferStore):
        return None
    axes = [axis.var for axis in block.iter_vars]
    _, o, y, x, i, j, ko, dy, dx, ki = axes
    image = next((load for load in loads if load.indices[-2:] == (i, ki) and load.indices[1] is ko), None)
    filters = next((load for load in loads if load.indices == (o, ko, dy, dx, j, ki)), None)
    if image is None or filters is None or list(block.body.indices) != axes[:6]:
        return None
    stages = stages_behind(blocks[blocks.index(block) + 1 :], buffers_written(block)[0])
    before = blocks[: blocks.index(block)]
    pads = [b for b in before if buffers_written(b)[0] is image.buffer]
    if stages is None or len(before) != len(pads) or len(pads) > 1:
        return None
    at = {r.buffer: k for k, r in enumerate(regions_read(block))}
    _, outs, rows, columns, _, _, ins, kernel_rows, kernel_columns, _ = (size or 1 for size in sizes)
    row_step, column_step = _step(image.indices[2], y), _step(image.indices[3], x)
    if row_step is None or column_step is None:
        return None
    return ConvolutionNest(
        block.name, at[image.buffer], at[filters.buffer], pads[0].name if pads else None, stages, outs, rows, columns,
        ins, kernel_rows * kernel_columns, kernel_rows, kernel_columns, row_step, column_step,
        bool(pads) and any(isinstance(n, Call) and n.op == "if_then_else" for n in walk(pads[0].body)),
    )  # fmt: skip


def _step(index: Expr, var: Var) -> int | None:
    from ....tir.transform.affine import coefficient, linear

    return coefficient(linear(index), var) or None


def stages_behind(blocks: Sequence[Block], sums: Any) -> tuple[Stage, ...] | None:
    """Return the machine's operation for each block after the sums, the last of which is a store.

    Returns None if a block is not an operation of the machine.
    """
    stages: list[Stage] = []
    held = sums
    for block in blocks:
        if not isinstance(block.body, BufferStore) or list(block.body.indices) != [a.var for a in block.iter_vars]:
            return None
        stage = stage_of(block, block.body, held)
        if stage is None:
            return None
        stages.append(stage)
        held = block.body.buffer
    return tuple(stages) if stages and stages[-1].operation == "store" else None


_OPERATORS = {Add: "add", Max: "max", Min: "min"}
_SHIFTS = {"shift_right": "shr", "shift_left": "shl"}


def stage_of(block: Block, store: BufferStore, held: Any) -> Stage | None:
    value = store.value
    if isinstance(value, Cast):
        return Stage(block.name, "store") if whole(value.value, store, held) else None
    if isinstance(value, Call) and value.op in _SHIFTS:
        first, second, op = *value.args, _SHIFTS[value.op]
        if not isinstance(second, IntImm):
            return None
    elif type(value) in _OPERATORS:
        first, second, op = value.a, value.b, _OPERATORS[type(value)]  # type: ignore[attr-defined, index]
        if whole(second, store, held):
            first, second = second, first
    else:
        return None
    if not whole(first, store, held):
        return None
    if isinstance(second, IntImm):
        return Stage(block.name, f"alu_{op}_imm", constant=second.value)
    if isinstance(second, BufferLoad) and second.buffer is not held and covers(second, store):
        spread = isinstance(second.indices[2], IntImm) and isinstance(second.indices[3], IntImm)
        return Stage(block.name, f"alu_{op}", buffers_read(block).index(second.buffer), spread)
    return None


def clipped(stages: Sequence[Stage], config: Any) -> tuple[Stage, ...]:
    """Return the stages with symmetric limits merged into one clip, if the machine has that option."""
    result: list[Stage] = []
    for stage in stages:
        before = result[-1] if result else None
        if (
            config.options.clip and before is not None and stage.operation == "alu_max_imm"
            and before.operation == "alu_min_imm" and before.constant == -(stage.constant or 0)
        ):  # fmt: skip
            result[-1] = Stage(stage.block, "alu_clip_imm", constant=before.constant, inlines=before.block)
        else:
            result.append(stage)
    return tuple(result)


def beyond_constants(stages: Sequence[Stage], config: Any, *others: int) -> str:
    """Return why a constant of the stages, or one of `others`, does not fit in the machine's instructions, or "" if all
    fit.
    """
    bits, places = config.widths.immediate, int(config.acc_dtype[3:])
    for stage in stages:
        if stage.constant is not None and (why := beyond_shift(stage, places)):
            return why
    constants = [*others, *(stage.constant for stage in stages if stage.constant is not None)]
    wide = next((n for n in constants if not -(1 << bits - 1) <= n < 1 << bits - 1), None)
    return "" if wide is None else f"its constant {wide} is beyond the {bits} bits that instructions have for one"


def beyond_shift(stage: Stage, places: int) -> str:
    """Return why a stage shifts too far for numbers of `places` bits, or "" if it does not, or is not a shift."""
    if not stage.operation.startswith(("alu_shr", "alu_shl")) or 0 <= (stage.constant or 0) < places:
        return ""
    return f"it shifts by {stage.constant}; numbers of {places} bits are shifted by 0 to {places - 1}"


def elements_of(config: Any) -> Elements:
    """Return the elements of a machine."""
    return Elements(
        config.batch, config.block_in, config.block_out, config.inp_dtype, config.wgt_dtype, config.acc_dtype,
        config.out_dtype,
    )  # fmt: skip


def covers(load: BufferLoad, store: BufferStore) -> bool:
    """Return whether a load reads the element at the position of the result, or one that is broadcast along some
    axes.
    """
    return len(load.indices) == len(store.indices) and all(
        structural_equal(at, to) or (axis < 4 and isinstance(at, IntImm) and at.value == 0)
        for axis, (at, to) in enumerate(zip(load.indices, store.indices, strict=True))
    )


def whole(e: Expr, store: BufferStore, buffer: Any) -> bool:
    """Return whether an expression loads the element of `buffer` at the position of the result."""
    return isinstance(e, BufferLoad) and e.buffer is buffer and structural_equal(e.indices, store.indices)


def is_convolution(func: PrimFunc) -> bool:
    """Return whether a function is a convolution on elements, followed only by operations of the machine."""
    return convolution_of(func) is not None


@rule("accel", is_convolution)
def conv2d_elements(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield tiles of `rows` x `columns` x `outs` elements, with sums in steps of `ins` blocks of channels.

    `contexts` contexts alternate. Rows are divided only if no tile of whole rows fits.
    """
    conv, config = convolution_of(func), target.config
    if conv is None or beyond_constants(conv.stages, config):
        return
    conv = replace(conv, stages=clipped(conv.stages, config))
    depths, elements = config.depths(), elements_of(config)

    def price(tile: Tile, contexts: int) -> Cost:
        return _cost(conv, config, tile, contexts)

    def apply(sch: Schedule, tile: Tile, contexts: int) -> None:
        schedule_tiles(sch, conv, elements, tile, contexts)

    def fits(tile: Tile, contexts: int) -> bool:
        return _fits(conv, depths, config, tile, contexts)

    yield from tilings(conv, fits, price, apply)


class Tiled(Protocol):
    """A result that is computed in tiles: its extents in elements, and the blocks of input channels of its sums."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def outs(self) -> int: ...
    @property
    def ins(self) -> int: ...


def tilings(
    result: Tiled,
    fits: Callable[[Tile, int], bool],
    price: Callable[[Tile, int], Cost],
    apply: Callable[[Schedule, Tile, int], None],
) -> Iterator[Candidate]:
    """Yield a machine's candidates: tile sizes that lead to different numbers of tiles, with two contexts and with one.

    If a size does not divide the extent, the last tile along the axis is smaller. A row of the result is divided only
    if no tile of whole rows fits. The functions take a tile and the number of contexts.
    """

    def priced(contexts: int, **tile: int) -> Cost:
        return price(Tile(**tile), contexts)

    def applied(sch: Schedule, contexts: int, **tile: int) -> None:
        apply(sch, Tile(**tile), contexts)

    for columns in reversed(tile_sizes(result.columns)):
        fitting = False
        for rows, outs, ins in product(tile_sizes(result.rows), tile_sizes(result.outs), tile_sizes(result.ins)):
            tile = Tile(rows, columns, outs, ins)
            for contexts in (2, 1):
                turns = take_turns(contexts, tile.count(result, "rows"), tile.count(result, "outs"))
                if turns and fits(tile, contexts):
                    knobs: dict[str, Knob] = {
                        "rows": rows, "outs": outs, "ins": ins, "contexts": contexts, "columns": columns,
                    }  # fmt: skip
                    fitting = True
                    yield Candidate(knobs=knobs, price=priced, apply=applied)
        if fitting:
            return


@dataclass(frozen=True, slots=True)
class Tile:
    """The elements of the result that are computed together, and the blocks of input channels per step of their
    sums.
    """

    rows: int
    columns: int
    outs: int
    ins: int

    @property
    def registers(self) -> int:
        return self.rows * self.columns * self.outs

    def count(self, result: Tiled, axis: str) -> int:
        """Return the number of tiles along an axis."""
        return -(-int(getattr(result, axis)) // int(getattr(self, axis)))

    def all(self, result: Tiled) -> int:
        """Return the number of tiles of the result."""
        return prod(self.count(result, axis) for axis in ("rows", "columns", "outs"))

    def mean(self, result: Tiled, axis: str) -> float:
        """Return the mean size of the tiles along an axis."""
        return float(getattr(result, axis)) / self.count(result, axis)

    def parts(self, result: Tiled) -> Iterator[tuple[Tile, int]]:
        """Yield the shapes of tiles, each with their number. Tiles at an edge are smaller."""
        axes = []
        for axis in ("rows", "columns", "outs"):
            size, extent = getattr(self, axis), getattr(result, axis)
            axes.append([(size, extent // size), *([(extent % size, 1)] if extent % size else [])])
        for (rows, a), (columns, b), (outs, c) in product(*axes):
            yield Tile(rows, columns, outs, self.ins), a * b * c

    def alone(self, result: Tiled, contexts: int) -> int:
        """Return how many tiles have no partner in the other context, because the number of tiles is odd."""
        counts = [self.count(result, axis) for axis in ("outs", "rows")]
        count = counts[taking_turns(contexts, counts)]
        return self.all(result) // count * (count % contexts)

    def shapes(self, result: Tiled) -> int:
        """Return an upper bound on the number of different tile shapes. Tiles at an edge are smaller."""
        axes = ("rows", "columns", "outs", "ins")
        return 1 << sum(getattr(result, axis) % getattr(self, axis) != 0 for axis in axes)


def tile_sizes(n: int) -> list[int]:
    """Return, for each possible number k of tiles, the smallest tile size, which is `ceil(n / k)`."""
    few = range(1, isqrt(n) + 2)  # tiles, or elements of a tile: one of the two is few
    return sorted({-(-n // k) for k in few} | {size for size in few if -(-n // -(-n // size)) == size})


def image_rows(conv: ConvolutionNest, rows: Number) -> Number:
    """Return the rows of the image that this many rows of the result read."""
    return (rows - 1) * conv.row_step + conv.kernel_rows


def _fits(conv: ConvolutionNest, depths: Any, config: Any, tile: Tile, contexts: int) -> bool:
    """Return whether the contexts' tiles fit in the scratchpads, and their micro-ops in the micro-op store."""
    others = sum(stage.other is not None and not stage.spread for stage in conv.stages)
    spread = sum(stage.spread for stage in conv.stages)
    needs = {
        "acc": tile.registers * (1 + others) + tile.outs * spread,
        "inp": image_rows(conv, tile.rows) * conv.image_columns(tile.columns) * tile.ins,
        "wgt": tile.outs * tile.ins * conv.points,
    }
    lists = tile.shapes(conv) * _micro_ops(conv, tile)
    return all(contexts * n <= depths[pad] for pad, n in needs.items()) and contexts * lists <= config.uop_bytes // 4


def _micro_ops(conv: ConvolutionNest, tile: Tile) -> int:
    """Return the number of micro-ops of a context: all loops of a product except the two longest, and a list per block
    of channels.
    """
    filter_rows = conv.kernel_rows
    loops = sorted((tile.rows, tile.columns, tile.outs, tile.ins, filter_rows, conv.points // filter_rows))
    return prod(loops[:-2]) + 2 * tile.outs


def _cost(conv: ConvolutionNest, config: Any, tile: Tile, contexts: int) -> Cost:
    """Return the cost of a tile: for each step, the longer of its loads and its products, or their sum with one
    context.

    Loads run one step ahead. The ALU's work hides the loads of the next tile's first step. Nothing hides the first
    loads and the last store. The products of a smaller tile hide the loads of a whole one.
    """
    dram, stages = config.dram, len(conv.stages) - 1
    sizes = {pad: prod(shape) for pad, shape in config.elements().items()}
    steps, tiles, ins = tile.count(conv, "ins"), tile.all(conv), tile.mean(conv, "ins")
    image = tile.ins * image_rows(conv, tile.rows) * conv.image_columns(tile.columns) * sizes["inp"]
    filters = tile.outs * tile.ins * conv.points * sizes["wgt"]
    load = (image + filters) / dram.bytes_per_cycle + dram.latency * (tile.ins + 1)
    store = tile.registers * config.batch * config.block_out / dram.bytes_per_cycle
    micro_ops = contexts * _micro_ops(conv, tile) * 4 / dram.bytes_per_cycle
    compute = waiting = 0.0
    shared = load + store / steps  # loads and stores have one memory
    for part, count in tile.parts(conv):
        multiply = part.registers * ins * conv.points + config.pipelines.gemm
        other = (1 + stages) * (part.registers + config.pipelines.alu)
        compute += count * (steps * multiply + other)
        waiting += count * ((steps - 1) * max(0.0, shared - multiply) + max(0.0, shared - multiply - other))
    alone = tile.alone(conv, contexts)
    if contexts == 1:
        return Cost(compute, tiles * (steps * load + store) + micro_ops)
    return Cost(compute, waiting + alone * (steps * load + store) + max(micro_ops, load) + store)


def schedule_tiles(sch: Schedule, conv: ConvolutionNest, elements: Elements, size: Tile, contexts: int) -> None:
    """Schedule the program in this module's docstring, with the instructions that `elements` names."""
    tile, thread = tiled(sch, conv.stages, size.rows, size.columns, size.outs, contexts)
    block = sch.get_block(conv.block)
    for stage in reversed(conv.stages[:-1]):
        staged(sch, sch.get_block(stage.block), tile, "acc")
    staged(sch, block, tile, "acc")
    *_, o, y, x, i, j, ko, dy, dx, ki = sch.get_loops(block)
    step, ko = sch.split(ko, [None, size.ins])
    sch.reorder(step, y, x, ko, dy, dx, o, i, j, ki)
    filters = sch.cache_read(block, conv.filters, "wgt")
    if conv.pad is None:
        image = sch.cache_read(block, conv.image, "inp")
    else:
        image = sch.get_block(conv.pad)
        sch.set_scope(image, 0, "inp")
    for copy in (image, filters):
        sch.compute_at(copy, step, preserve_unit_loops=True)
    init = sch.decompose_reduction(block, step)
    others = others_loaded(sch, conv.stages, tile)
    if thread is not None:
        sch.bind(thread, "vthread")
    sch.tensorize(i, elements.name("gemm"))
    element(sch, init, elements.name("reset"))
    element(sch, image, elements.name("load_inp_padded" if conv.padded else "load_inp"))
    element(sch, filters, elements.name("load_wgt"))
    for other in others:
        element(sch, other, elements.name("load_acc"))
    for stage in conv.stages:
        element(sch, sch.get_block(stage.block), elements.name(stage.operation))


def tiled(sch: Schedule, stages: Sequence[Stage], rows: int, columns: int, outs: int, contexts: int) -> tuple[Any, Any]:
    """Inline blocks into stages, and split the loops of the last stage. Return (loop around a tile, loop over
    contexts).

    The second loop is None if there is one context. Otherwise tiles alternate along the channels or the rows
    (`taking_turns`).
    """
    for stage in stages:
        if stage.inlines:
            sch.compute_inline(sch.get_block(stage.inlines))
    n, o, y, x, *_ = sch.get_loops(sch.get_block(stages[-1].block))
    (o, tile_o), (y, tile_y) = sch.split(o, [None, outs]), sch.split(y, [None, rows])
    parts, tile_x = [], [x]
    if columns < (constant_extent(sch, x) or columns):
        part, within = sch.split(x, [None, columns])
        parts, tile_x = [part], [within]
    thread, counts = None, [constant_extent(sch, loop) or 1 for loop in (o, y)]
    if contexts > 1 and taking_turns(contexts, counts) == 0:
        o, thread = sch.split(o, [None, contexts])
    elif contexts > 1:
        y, thread = sch.split(y, [None, contexts])
    around = [n, o, *parts, y] if thread is None else [n, o, *parts, y, thread]
    sch.reorder(*around, tile_o, tile_y, *tile_x)
    return around[-1], thread


def taking_turns(contexts: int, tiles: Sequence[int]) -> int:
    """Return the axis along which contexts share the tiles. `tiles` holds the number of tiles along each axis.

    It is the first axis whose number of tiles is a multiple of the contexts, or else the axis with the most tiles. In
    the second case, one context has one tile less than the other.
    """
    shared = [k for k, count in enumerate(tiles) if count % contexts == 0]
    return shared[0] if shared else tiles.index(max(tiles))


def take_turns(contexts: int, *tiles: int) -> bool:
    """Return whether this many contexts can share the tiles. `tiles` holds the number of tiles along each axis."""
    return any(count >= contexts for count in tiles)


def others_loaded(sch: Schedule, stages: Sequence[Stage], tile: Any) -> list[Any]:
    """Return the blocks that load a tile of each additional tensor that stages read."""
    loaded = []
    for stage in stages:
        if stage.other is not None:
            loaded.append(sch.cache_read(sch.get_block(stage.block), stage.other, "acc"))
            sch.compute_at(loaded[-1], tile, preserve_unit_loops=True)
    return loaded


def staged(sch: Schedule, block: Any, tile: Any, scope: str) -> None:
    """Compute a tile of a block's result in a scratchpad."""
    sch.set_scope(block, 0, scope)
    sch.compute_at(block, tile, preserve_unit_loops=True)


def element(sch: Schedule, block: Any, name: str) -> None:
    """Replace the last two loops of a block, which run over an element, with one instruction."""
    sch.tensorize(sch.get_loops(block)[-2], name)
