"""Matrix products and convolutions for the accelerator, written by hand: what a compiler for it has to beat.

Tensors lie in blocks of the array's size: an image is [channels / block_in][rows][columns] elements of inp, filters are
[out / block_out][in / block_in][rows][columns] elements of wgt, a result is [out / block_out][rows][columns] of out.

A layer goes through its output in tiles: some blocks of channels, some rows, all columns. For each tile the registers
are set to zero, the sum over the input's channels runs in steps, each with its own loads, and the result is shifted
right, cut to int8 and stored. With two *contexts* the scratchpads are divided in halves, and two tiles take turns:
while the array computes on one half, the other one is loaded. That is VTA's virtual threading. With one context the
same tiles use one half, and a load waits for the products of the step before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError
from .config import AccelConfig, Scratchpad
from .isa import AluOp, MicroOp, Program
from .stream import Handle, Stream

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Conv2d:
    """A convolution with square filters, padded so that stride 1 keeps the size; `shift` cuts its sums to int8."""

    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: int
    stride: int = 1
    shift: int = 8

    @property
    def pad(self) -> int:
        return self.kernel // 2

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return (self.height + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return (self.width + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def macs(self) -> int:
        return self.rows * self.columns * self.kernel**2 * self.in_channels * self.out_channels

    def reference(self, image: Array, filters: Array) -> Array:
        """The result in NumPy, from NCHW int8 and OIHW int8: sums of int32 that wrap, shifted, cut to int8."""
        p, k, s = self.pad, self.kernel, self.stride
        wide = np.pad(image.astype(np.int64), ((0, 0), (0, 0), (p, p), (p, p)))
        total = np.zeros((len(image), self.out_channels, self.rows, self.columns), dtype=np.int64)
        for y in range(k):
            for x in range(k):
                part = wide[:, :, y : y + s * (self.rows - 1) + 1 : s, x : x + s * (self.columns - 1) + 1 : s]
                total += np.einsum("nchw,oc->nohw", part, filters[:, :, y, x].astype(np.int64))
        return np.clip(total.astype(np.int32) >> self.shift, -128, 127).astype(np.int8)


def _square(size: int, in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> Conv2d:
    return Conv2d(size, size, in_channels, out_channels, kernel, stride)


# The convolutions of ResNet-18 (Chen et al., "TVM", OSDI'18, table 2) but the first, which has three channels.
RESNET18 = {
    "C2": _square(56, 64, 64, 3), "C3": _square(56, 64, 64, 1), "C4": _square(56, 64, 128, 3, 2),
    "C5": _square(56, 64, 128, 1, 2), "C6": _square(28, 128, 128, 3), "C7": _square(28, 128, 256, 3, 2),
    "C8": _square(28, 128, 256, 1, 2), "C9": _square(14, 256, 256, 3), "C10": _square(14, 256, 512, 3, 2),
    "C11": _square(14, 256, 512, 1, 2), "C12": _square(7, 512, 512, 3),
}  # fmt: skip
# How often each occurs in the network.
TIMES = {"C2": 4, "C3": 0, "C4": 1, "C5": 1, "C6": 3, "C7": 1, "C8": 1, "C9": 3, "C10": 1, "C11": 1, "C12": 3}


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of output, blocks of output channels, and blocks of input channels of a step."""

    rows: int
    outs: int
    ins: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """A layer in blocks of one machine."""

    layer: Conv2d
    ins: int
    outs: int
    fetched_rows: int  # how far apart the image's rows of a tile are fetched: filters of one row skip the others

    @classmethod
    def of(cls, layer: Conv2d, config: AccelConfig) -> _Shape:
        if config.batch != 1 or layer.in_channels % config.block_in or layer.out_channels % config.block_out:
            raise InputError(
                f"{layer} on {config.name}: wanted a batch of 1 and multiples of {config.block_in} and "
                f"{config.block_out} channels"
            )
        rows = layer.stride if layer.kernel == 1 else 1
        return cls(layer, layer.in_channels // config.block_in, layer.out_channels // config.block_out, rows)

    @property
    def columns(self) -> int:
        """Columns of the image, frame included, that a row of output needs."""
        return (self.layer.columns - 1) * self.layer.stride + self.layer.kernel

    def image_rows(self, rows: int) -> int:
        """Rows of the image in the scratchpad for so many rows of output."""
        step = self.layer.stride // self.fetched_rows
        return (rows - 1) * step + self.layer.kernel

    def tiles(self, config: AccelConfig) -> Iterator[Tile]:
        """The tiles that fit a half of every scratchpad, and whose loops fit their fields."""
        half = {pad: config.depth(pad) // 2 for pad in (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC)}
        for rows in range(1, self.layer.rows + 1):
            for outs in _divisors(self.outs):
                for ins in _divisors(self.ins):
                    if (
                        rows * self.layer.columns * outs <= half[Scratchpad.ACC]
                        and self.image_rows(rows) * self.columns * ins <= half[Scratchpad.INP]
                        and outs * ins * self.layer.kernel**2 <= half[Scratchpad.WGT]
                    ):
                        yield Tile(rows, outs, ins)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def cycles_of(layer: Conv2d, tile: Tile, config: AccelConfig) -> float:
    """An estimate: the longer of the array's cycles and the memory's, and what nothing hides at the beginning."""
    shape, dram = _Shape.of(layer, config), config.dram
    steps = shape.ins // tile.ins
    tiles = -(-layer.rows // tile.rows) * (shape.outs // tile.outs)
    registers = layer.rows * layer.columns * shape.outs
    compute = registers * (shape.ins * layer.kernel**2 + 4) + tiles * (steps + 4) * config.pipelines.gemm
    image = tile.ins * shape.image_rows(tile.rows) * shape.columns * config.element_bytes(Scratchpad.INP)
    filters = tile.outs * tile.ins * layer.kernel**2 * config.element_bytes(Scratchpad.WGT)
    step = (image + filters) / dram.bytes_per_cycle + dram.latency * (tile.ins + 1)
    memory = tiles * steps * step + registers * config.element_bytes(Scratchpad.OUT) / dram.bytes_per_cycle
    last = tile.rows * layer.columns * tile.outs * (4 + config.element_bytes(Scratchpad.OUT) / dram.bytes_per_cycle)
    return max(compute, memory) + 2 * step + last


def best_tile(layer: Conv2d, config: AccelConfig) -> Tile:
    """The tile with the smallest estimate. Raises InputError if none fits."""
    tiles = list(_Shape.of(layer, config).tiles(config))
    if not tiles:
        raise InputError(f"{layer}: not even one row of output fits half of {config.name}'s scratchpads")
    return min(tiles, key=lambda tile: cycles_of(layer, tile, config))


def conv2d(
    layer: Conv2d, config: AccelConfig, *, contexts: int = 2, tile: Tile | None = None, name: str = "conv2d"
) -> Program:
    """A program for a layer, with inputs "image" and "filters" and the output "result". Raises InputError."""
    if contexts not in (1, 2):
        raise InputError(f"one context or two, found {contexts}")
    return _LayerWriter(layer, config, contexts, tile or best_tile(layer, config), name).program()


class _Context:
    """A half of the scratchpads: where it begins, and which instructions used it last."""

    def __init__(self, number: int, config: AccelConfig) -> None:
        depths = {pad: config.depth(pad) // 2 for pad in (Scratchpad.INP, Scratchpad.WGT, Scratchpad.ACC)}
        self.inp, self.wgt, self.acc = (number * depths[pad] for pad in depths)
        self.computed: Handle | None = None  # the last GEMM that read what was loaded
        self.stored: Handle | None = None


class _LayerWriter:
    """Writes the stream of one layer."""

    def __init__(self, layer: Conv2d, config: AccelConfig, contexts: int, tile: Tile, name: str) -> None:
        self.layer, self.shape, self.tile = layer, _Shape.of(layer, config), tile
        self.stream = Stream(config, name)
        self.contexts = [_Context(number, config) for number in range(contexts)]
        block = layer.kernel**2
        self.image = self.stream.buffer("image", "input", Scratchpad.INP, self.shape.ins * layer.height * layer.width)
        self.filters = self.stream.buffer("filters", "input", Scratchpad.WGT, self.shape.outs * self.shape.ins * block)
        self.result = self.stream.buffer(
            "result", "output", Scratchpad.OUT, self.shape.outs * layer.rows * layer.columns
        )

    def program(self) -> Program:
        """Tiles in pairs, one for each context; their steps take turns."""
        outs, rows = range(0, self.shape.outs, self.tile.outs), range(0, self.layer.rows, self.tile.rows)
        places = [(out, row) for out in outs for row in rows]
        for first in range(0, len(places), len(self.contexts)):
            turns = list(zip(self.contexts, places[first:], strict=False))
            for step in range(0, self.shape.ins, self.tile.ins):
                loaded = [self.load(context, *place, step) for context, place in turns]
                for (context, place), handle in zip(turns, loaded, strict=True):
                    self.compute(context, place[1], step, handle)
            for context, place in turns:
                self.leave(context, *place)
        return self.stream.program()

    def rows(self, row: int) -> int:
        """Rows of the tile that begins at `row`; the last one may have fewer."""
        return min(self.tile.rows, self.layer.rows - row)

    def load(self, context: _Context, out: int, row: int, step: int) -> Handle:
        """The image's rows and the filters of one step, into one context."""
        layer, shape, tile = self.layer, self.shape, self.tile
        after = [] if context.computed is None else [context.computed]
        rows, columns = shape.image_rows(self.rows(row)), shape.columns
        apart = shape.fetched_rows
        top, left = row * layer.stride - layer.pad, -layer.pad
        above, before = max(0, -top), max(0, -left)
        inside = min(layer.height, top + (rows - 1) * apart + 1) - max(0, top)
        y_size = -(-inside // apart)
        x_size = min(layer.width, left + columns) - max(0, left)
        for number in range(tile.ins):
            handle = self.stream.load(
                Scratchpad.INP, context.inp + number * rows * columns, self.image,
                ((step + number) * layer.height + max(0, top)) * layer.width + max(0, left),
                y_size=y_size, x_size=x_size, x_stride=layer.width * apart,
                pads=(above, rows - above - y_size, before, columns - before - x_size), after=after,
            )  # fmt: skip
        block = layer.kernel**2
        return self.stream.load(
            Scratchpad.WGT, context.wgt, self.filters, (out * shape.ins + step) * block,
            y_size=tile.outs, x_size=tile.ins * block, x_stride=shape.ins * block, after=[handle, *after],
        )  # fmt: skip

    def compute(self, context: _Context, row: int, step: int, loaded: Handle) -> None:
        """One step of a tile's sum; the first one sets the registers to zero before."""
        layer, shape, tile, size = self.layer, self.shape, self.tile, self.layer.columns
        rows, k = self.rows(row), self.layer.kernel
        columns, image_rows = shape.columns, shape.image_rows(rows)
        if step == 0:
            free = [] if context.stored is None else [context.stored]
            self.registers("reset", context, rows, after=free)
        ops = [
            MicroOp(
                context.acc + out * rows * size,
                context.inp + (number * image_rows + y) * columns + x,
                context.wgt + (out * tile.ins + number) * k * k + y * k + x,
            )
            for number in range(tile.ins)
            for y in range(k)
            for x in range(k)
            for out in range(tile.outs)
        ]
        down = layer.stride // shape.fetched_rows * columns
        context.computed = self.stream.gemm(
            self.stream.micro_ops(ops), outer=rows, inner=size, dst=(size, 1), src=(down, layer.stride), after=[loaded]
        )

    def registers(self, what: str, context: _Context, rows: int, after: list[Handle]) -> Handle:
        """All registers of a tile: set to zero, or shifted and cut."""
        size = self.layer.columns
        kernel = self.stream.micro_ops([MicroOp(context.acc + out * rows * size, 0) for out in range(self.tile.outs)])
        loops: dict[str, Any] = {"outer": rows, "inner": size, "dst": (size, 1)}
        if what == "reset":
            return self.stream.gemm(kernel, reset=True, after=after, **loops)
        self.stream.alu(AluOp.SHR, kernel, immediate=self.layer.shift, after=after, **loops)
        if self.stream.config.options.clip:  # to -127 ... 127, as the option has it
            return self.stream.alu(AluOp.CLIP, kernel, immediate=127, **loops)
        self.stream.alu(AluOp.MAX, kernel, immediate=-128, **loops)
        return self.stream.alu(AluOp.MIN, kernel, immediate=127, **loops)

    def leave(self, context: _Context, out: int, row: int) -> None:
        """Shift, cut and store a tile."""
        layer, rows = self.layer, self.rows(row)
        ended = self.registers("cut", context, rows, after=[])
        context.stored = self.stream.store(
            context.acc, self.result, (out * layer.rows + row) * layer.columns,
            y_size=self.tile.outs, x_size=rows * layer.columns, x_stride=layer.rows * layer.columns, after=[ended],
        )  # fmt: skip


def matmul(rows: int, depth: int, columns: int, shift: int = 8) -> Conv2d:
    """int8 [rows, depth] @ [columns, depth].T, as the array sees it: an image of one column, filters of one point."""
    return Conv2d(rows, 1, depth, columns, 1, shift=shift)


# --- tensors in blocks ----------------------------------------------------------------------------------------------


def pack_image(image: Array, config: AccelConfig) -> Array:
    """NCHW of batch 1 -> elements of inp."""
    _, channels, height, width = image.shape
    blocks = image.reshape(channels // config.block_in, config.block_in, height, width)
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 1)).reshape(-1, 1, config.block_in)


def pack_filters(filters: Array, config: AccelConfig) -> Array:
    """OIHW -> elements of wgt."""
    out, channels, height, width = filters.shape
    o, i = config.block_out, config.block_in
    blocks = filters.reshape(out // o, o, channels // i, i, height, width)
    return np.ascontiguousarray(blocks.transpose(0, 2, 4, 5, 1, 3)).reshape(-1, o, i)


def unpack_image(image: Array, layer: Conv2d, config: AccelConfig) -> Array:
    """Elements of inp -> NCHW."""
    blocks = image.reshape(-1, layer.height, layer.width, config.block_in).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(blocks).reshape(1, layer.in_channels, layer.height, layer.width)


def unpack_filters(filters: Array, layer: Conv2d, config: AccelConfig) -> Array:
    """Elements of wgt -> OIHW."""
    k, o, i = layer.kernel, config.block_out, config.block_in
    blocks = filters.reshape(layer.out_channels // o, layer.in_channels // i, k, k, o, i)
    return np.ascontiguousarray(blocks.transpose(0, 4, 1, 5, 2, 3)).reshape(layer.out_channels, -1, k, k)


def unpack_result(result: Array, layer: Conv2d, config: AccelConfig) -> Array:
    """Elements of out -> NCHW."""
    blocks = result.reshape(-1, layer.rows, layer.columns, config.block_out).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(blocks).reshape(1, layer.out_channels, layer.rows, layer.columns)


def random_tensors(layer: Conv2d, seed: int = 0) -> tuple[Array, Array]:
    """An image and filters of small numbers."""
    rng = np.random.default_rng(seed)
    image = rng.integers(-128, 128, (1, layer.in_channels, layer.height, layer.width), dtype=np.int8)
    filters = rng.integers(
        -128, 128, (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel), dtype=np.int8
    )
    return image, filters
