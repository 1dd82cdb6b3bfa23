"""What registers and the ALU do without the array: sums of tensors, pools, convolutions of each channel alone.

    for each tile of `outs` x `rows` elements of the result, all columns if they fit:
        vthread context:
            image = rows of the image, 8 bits      # load
            sums = 0                               # gemm reset
            for each point of a window:
                pixels = image                     # reset, alu
                pixels = pixels * factors          # alu
                sums = sums + pixels               # alu
            sums = shift, cut (sums)               # alu
            result = sums                          # store

The options of VTA's later versions are what this needs (`machines.vta.config.AluOptions`): numbers of 8 bits that come
into registers, a frame of the least one for a pool, and a product of the ALU for convolutions. An operation overwrites
its first operand, so pixels are copied first. All but the store is the compute module's, so two contexts hide the
stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....expr import Add, Call, Cast, Expr, IntImm, Max, Mul
from ....strategy.blocks import blocks_of, extents, is_reduction
from ....strategy.candidate import Candidate, Cost
from ....strategy.registry import rule
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import regions_read
from ....tir.nodes import Block, Buffer, BufferLoad, BufferStore, PrimFunc
from ...scratchpad.instruction_set import Elements
from ...scratchpad.strategy import convolution


@dataclass(frozen=True, slots=True)
class RegisterStages:
    """The blocks of a function as operations on registers, in order; the last one is the store.

    `points` are those of the window that `reduction` goes through, and `each` the blocks that are computed for each of
    them. `start` is the first value of the reduction. `loads` are the images of which a tile needs a part, by block;
    None stands for one element of each point and channel.
    """

    stages: tuple[convolution.Stage, ...]
    outs: int
    rows: int
    columns: int
    reduction: str | None = None
    start: int = 0
    points: int = 1
    each: tuple[str, ...] = ()
    loads: tuple[tuple[str, ImageWindows | None], ...] = ()

    @property
    def ins(self) -> int:
        """Nothing is summed over blocks of channels."""
        return 1


@dataclass(frozen=True, slots=True)
class ImageWindows:
    """How much of an image a tile needs: `(n - 1) * step + window` along each axis, rows first, for n of the result."""

    steps: tuple[int, int]
    window: tuple[int, int]

    def elements(self, *tile: convolution.Number) -> convolution.Number:
        """For a tile of `rows`, `columns`."""
        down, across = ((n - 1) * s + k for n, s, k in zip(tile, self.steps, self.window, strict=True))
        return down * across


def chain_of(func: PrimFunc) -> RegisterStages | None:
    """A function as operations on registers; None where it is anything else."""
    blocks = list(blocks_of(func))
    stages: list[convolution.Stage] = []
    held: dict[Buffer, Block] = {}  # what is in registers, and who computed it
    each: list[str] = []
    loads: list[str] = []
    reduction, start, window = None, 0, (1, 1)
    for block in blocks:
        if not isinstance(block.body, BufferStore):
            return None
        if is_reduction(block):
            reduced = _reduction(block, block.body, held)
            if reduced is None or reduction is not None:
                return None
            stage: convolution.Stage | None
            stage, start, window = reduced
            reduction = block.name
        else:
            stage = _load(block, block.body, held) or _each(block, block.body, held) or _behind(block, block.body, held)
            if stage is None:
                return None
            if stage.operation.startswith("load"):
                loads.append(block.name)
            elif stage.operation in ("copy", "alu_mul"):
                each.append(block.name)
        stages.append(stage)
        held[block.body.buffer] = block
    if not stages or stages[-1].operation != "store" or not loads or (each and reduction is None):
        return None
    last = blocks[-1]
    sizes = extents(axis.dom.extent for axis in last.iter_vars)
    if len(sizes) != 6 or None in sizes:
        return None
    _, outs, rows, columns, _, _ = (size or 1 for size in sizes)
    images = tuple((block.name, _image(block, rows, columns, window)) for block in blocks if block.name in loads)
    return RegisterStages(tuple(stages), outs, rows, columns, reduction, start, prod(window), tuple(each), images)


def _image(load: Block, rows: int, columns: int, window: tuple[int, int]) -> ImageWindows | None:
    """What a tile reads of a loaded tensor; windows step as far as its extents say."""
    sizes = extents(axis.dom.extent for axis in load.iter_vars)
    height, width = sizes[2] or 1, sizes[3] or 1
    if sizes[0] == 1 and (height, width) == window and (rows, columns) != (height, width):
        return None
    step, across = (1 if n == 1 else (size - k) // (n - 1) for size, k, n in
                    ((height, window[0], rows), (width, window[1], columns)))  # fmt: skip
    return ImageWindows((step, across), window)


def _load(block: Block, store: BufferStore, held: dict[Buffer, Block]) -> convolution.Stage | None:
    """Numbers that come into registers, extended; with a frame where a condition says so."""
    value, frame, least = store.value, "", 0
    if isinstance(value, Call) and value.op == "if_then_else":
        _, value, around = value.args
        around = around.value if isinstance(around, Cast) else around
        if not isinstance(around, IntImm):
            return None
        least = around.value
        frame = "_least" if least else "_padded"
    if not isinstance(value, Cast) or not isinstance(value.value, BufferLoad) or value.value.buffer in held:
        return None
    narrow = value.value.buffer.dtype
    if frame == "_least" and least != -(1 << narrow.bits - 1):
        return None
    wider = value.dtype.bits > narrow.bits
    return (
        convolution.Stage(block.name, f"load_acc8{frame}")
        if wider and value.value.indices[-2:] == store.indices[-2:]
        else None
    )


def _each(block: Block, store: BufferStore, held: dict[Buffer, Block]) -> convolution.Stage | None:
    """A copy, or a product of low bits."""
    value = store.value
    if isinstance(value, BufferLoad):
        return convolution.Stage(block.name, "copy") if _element_of(value, store, held) else None
    if isinstance(value, Mul):
        factors = [_low(factor) for factor in (value.a, value.b)]
        if all(isinstance(f, BufferLoad) and _element_of(f, store, held) for f in factors):
            return convolution.Stage(block.name, "alu_mul")
    return None


def _low(value: Expr) -> Expr:
    """What a factor takes the low bits of."""
    if isinstance(value, Cast) and isinstance(value.value, Cast):
        return value.value.value
    return value


def _element_of(load: BufferLoad, store: BufferStore, held: dict[Buffer, Block]) -> bool:
    return load.buffer in held and load.indices[-2:] == store.indices[-2:]


def _behind(block: Block, store: BufferStore, held: dict[Buffer, Block]) -> convolution.Stage | None:
    """An operation on what is in registers, and a constant, a tensor of int32, or registers."""
    for buffer in reversed(held):
        stage = convolution.stage_of(block, store, buffer)
        if stage is None:
            continue
        second = None if stage.other is None else regions_read(block)[stage.other].buffer
        return convolution.Stage(stage.block, stage.operation, constant=stage.constant) if second in held else stage
    return None


def _reduction(
    block: Block, store: BufferStore, held: dict[Buffer, Block]
) -> tuple[convolution.Stage, int, tuple[int, int]] | None:
    """(a sum or a maximum over a window, what it begins with, the window)."""
    value, kinds = store.value, [axis.kind for axis in block.iter_vars]
    name = "add" if isinstance(value, Add) else "max"
    if not isinstance(value, Add | Max) or kinds != ["S"] * 6 + ["R"] * 2 or not isinstance(block.init, BufferStore):
        return None
    first, second = value.a, value.b
    own = isinstance(first, BufferLoad) and first.buffer is store.buffer
    start = block.init.value.value if isinstance(block.init.value, Cast) else block.init.value
    sizes = extents(axis.dom.extent for axis in block.iter_vars[6:])
    if not own or not isinstance(second, BufferLoad) or not _element_of(second, store, held):
        return None
    if not isinstance(start, IntImm) or None in sizes:
        return None
    return convolution.Stage(block.name, f"accumulate_{name}"), start.value, (sizes[0] or 1, sizes[1] or 1)


def misfit(chain: RegisterStages, config: Any) -> str:
    """Why a machine does not compute a chain, whatever its sizes; "" if it does."""
    options, bits = config.options, int(config.inp_dtype[3:])
    done = {stage.operation for stage in chain.stages}
    if any(operation.startswith("load_acc8") for operation in done) and not options.widen:
        return f"the machine loads no {config.out_dtype} into registers (its option widen)"
    if "load_acc8_least" in done and not options.pad_value:
        return "the machine pads with zeros only (its option pad_value)"
    if "alu_mul" in done and options.multiply_bits != bits:
        return f"the machine has no ALU that multiplies {bits} bits (its option multiply_bits)"
    return convolution.beyond_constants(chain.stages, config, chain.start)


def is_chain(func: PrimFunc) -> bool:
    """Whether registers and the ALU compute a function."""
    return not convolution.is_convolution(func) and chain_of(func) is not None


@rule("accel", is_chain)
def in_registers(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Tiles of `rows` x `columns` x `outs` elements in registers, `contexts` that take turns."""
    chain, config = chain_of(func), target.config
    if chain is None or misfit(chain, config):
        return
    stages, elements = convolution.clipped(chain.stages, config), convolution.elements_of(config)

    def price(tile: convolution.Tile, contexts: int) -> Cost:
        return _cost(chain, stages, config, tile, contexts)

    def apply(sch: Schedule, tile: convolution.Tile, contexts: int) -> None:
        _schedule(sch, chain, stages, elements, tile, contexts)

    def fits(tile: convolution.Tile, contexts: int) -> bool:
        return _fits(chain, stages, config, tile, contexts)

    yield from convolution.tilings(chain, fits, price, apply)


def _loaded(
    chain: RegisterStages, rows: convolution.Number, columns: convolution.Number, outs: convolution.Number
) -> convolution.Number:
    """The elements that a tile loads."""
    return sum(outs * (chain.points if image is None else image.elements(rows, columns)) for _, image in chain.loads)


def _fits(
    chain: RegisterStages, stages: Sequence[convolution.Stage], config: Any, tile: convolution.Tile, contexts: int
) -> bool:
    """Whether the contexts' tiles fit the registers, and their micro-ops the store for these."""
    results = int(chain.reduction is not None) + int(bool(chain.each))
    others = sum(tile.outs if stage.spread else tile.registers for stage in stages if stage.other is not None)
    loaded = _loaded(chain, tile.rows, tile.columns, tile.outs)
    lists = tile.shapes(chain) * (3 * chain.points + len(stages)) * min(tile.rows, tile.columns, tile.outs)
    return (
        contexts * (loaded + results * tile.registers + others) <= config.depths()["acc"]
        and contexts * lists <= config.uop_bytes // 4
    )


_CYCLES = {"copy": 3, "alu_mul": 2, "store": 0}


def _cost(
    chain: RegisterStages, stages: Sequence[convolution.Stage], config: Any, tile: convolution.Tile, contexts: int
) -> Cost:
    """The ALU's cycles and the loads of the compute module; stores, which two contexts hide."""
    dram, pipeline = config.dram, config.pipelines.alu
    rows, columns, outs = (tile.mean(chain, axis) for axis in ("rows", "columns", "outs"))
    registers, tiles = rows * columns * outs, tile.all(chain)
    work = 0.0
    for stage in stages:
        times = chain.points if stage.block == chain.reduction or stage.block in chain.each else 1
        cycles = _CYCLES.get(stage.operation, 1 if stage.operation.endswith("_imm") else 2)
        if not stage.operation.startswith("load") and stage.operation != "store":
            work += times * (cycles * registers + pipeline)
    work += 2 * registers if chain.reduction else 0
    size = config.batch * config.block_out
    loaded = _loaded(chain, rows, columns, outs)
    load = loaded * size / dram.bytes_per_cycle + dram.latency * len(chain.loads) * outs
    store = registers * size / dram.bytes_per_cycle + dram.latency
    return Cost(tiles * work, tiles * load + (tiles if contexts == 1 else tile.alone(chain, contexts)) * store + store)


def _schedule(
    sch: Schedule,
    chain: RegisterStages,
    stages: Sequence[convolution.Stage],
    elements: Elements,
    size: convolution.Tile,
    contexts: int,
) -> None:
    tile, thread = convolution.tiled(sch, stages, size.rows, size.columns, size.outs, contexts)
    blocks, point = {stage: sch.get_block(stage.block) for stage in stages}, tile
    first: Any = None
    for stage in reversed(stages[:-1]):
        block = blocks[stage]
        convolution.staged(sch, block, point if stage.block in chain.each else tile, "acc")
        if stage.block == chain.reduction:
            *_, b, o, y, x, i, j, dy, dx = sch.get_loops(block)
            sch.reorder(dy, dx, b, o, y, x, i, j)
            first, point = sch.decompose_reduction(block, dy), dx
    others = convolution.others_loaded(sch, stages, tile)
    if thread is not None:
        sch.bind(thread, "vthread")
    if first is not None:
        convolution.element(sch, first, elements.name("fill_imm" if chain.start else "reset"))
    for other in others:
        convolution.element(sch, other, elements.name("load_acc"))
    for stage in stages:
        convolution.element(sch, blocks[stage], elements.name(stage.operation))
