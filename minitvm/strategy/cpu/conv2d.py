"""Direct convolution on NCHW[x]c, plain and depthwise: a register tile of output pixels by channel blocks."""

from __future__ import annotations

from typing import Any

from ...target import Target
from ...tir.nodes import PrimFunc
from ...tir.schedule import Schedule
from .register_tile import largest_divisor, register_tile

# Vectors that the micro-kernel needs beside its accumulators: the weights of each channel block and a broadcast pixel.
_SPARE_REGISTERS = 4


def schedule_conv2d(func: PrimFunc, target: Target) -> Schedule:
    """[N, O/y, OH, OW, y]: tiles of pixels along a row times one to four blocks of output channels."""
    sch = Schedule(func)
    conv = sch.get_block("conv2d")
    pad_stage(sch)
    shape = _output_shape(sch, conv)
    pixels, blocks = conv_tile(shape[3], shape[1], target.vector_registers - _SPARE_REGISTERS)
    register_tile(sch, conv, {1: blocks, 3: pixels}, parallel_axes=3)
    return sch


def schedule_depthwise(func: PrimFunc, target: Target) -> Schedule:
    """[N, C/x, OH, OW, x]: tiles of pixels along a row; a weight vector serves all of them."""
    sch = Schedule(func)
    conv = sch.get_block("depthwise_conv2d")
    pad_stage(sch)
    shape = _output_shape(sch, conv)
    pixels = largest_divisor(shape[3], (target.vector_registers - _SPARE_REGISTERS) // 2)
    register_tile(sch, conv, {3: pixels}, parallel_axes=3)
    return sch


def conv_tile(width: int, channel_blocks: int, registers: int) -> tuple[int, int]:
    """(pixels, channel blocks) of the tile: the most multiply-adds a load that fit the registers and divide evenly."""
    candidates = [
        (largest_divisor(width, registers // blocks), blocks) for blocks in (1, 2, 3, 4, 6) if channel_blocks % blocks == 0
    ]
    return max(candidates, key=lambda tile: (tile[0] * tile[1] / (tile[0] + tile[1]), tile[0]))


def pad_stage(sch: Schedule) -> None:
    """The padded copy of the input, where there is one: rows in parallel, channels as a vector."""
    from .generic import schedule_injective

    names = [sch.get(b).name for b in sch.get_child_blocks(sch.get_block("root"))]
    if "data_pad" in names:
        schedule_injective(sch, sch.get_block("data_pad"))


def _output_shape(sch: Schedule, block: Any) -> list[int]:
    return [int(d) for d in sch.get(block).writes[0].buffer.shape]
