"""Which algorithm a convolution gets: what each should cost, in cycles of one core, by a model of the machine.

Costs are those of the schedules in this package. Multiply-adds run at the rate of the units, less what the shape of the
register tile loses; weights come from memory, once; `winograd_plan` prices the transforms of Winograd's algorithm, and
what its tasks read again. There is no search, and no measurement at build time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ...topi.winograd import TILES, winograd_error_growth
from .conv2d import conv_tile
from .model import KERNEL_EFFICIENCY, MEMORY_STALL, step_cycles
from .tiling import cpu_of
from .winograd_plan import WinogradShape, winograd_plans


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to compute a convolution: `tile` outputs at a time in each direction (1: direct), at a cost in cycles.

    `panel` blocks of output channels stand together in Winograd's weights.
    """

    tile: int
    cycles: float
    panel: int = 1

    @property
    def name(self) -> str:
        """`direct`, `winograd F(4x4,3x3)`."""
        return "direct" if self.tile == 1 else f"winograd F({self.tile}x{self.tile},3x3)"

    @property
    def error_growth(self) -> float:
        """By how much rounding errors may exceed those of direct convolution, in the worst case."""
        return 1.0 if self.tile == 1 else winograd_error_growth(self.tile)

    def __str__(self) -> str:
        growth = f", error at most {self.error_growth:.0f}x" if self.tile > 1 else ""
        return f"{self.name} {self.cycles / 1e6:.3g} Mcycles{growth}"


@dataclass(frozen=True, slots=True)
class Convolution:
    """What a 2-D convolution without groups computes; `image` is (height, width) of its result."""

    batch: int
    in_channels: int
    out_channels: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]


def convolution_algorithms(conv: Convolution, block: int, target: Any, accuracy: str = "fast") -> list[Algorithm]:
    """The algorithms that fit, the cheapest first; `block` is the number of channels that stand innermost.

    With `accuracy="strict"` only direct convolution fits. Winograd's is for 3x3, stride 1, without dilation.
    """
    cpu = cpu_of(target)
    found = [Algorithm(1, _direct(conv, block, cpu))]
    minimal = (conv.kernel, conv.strides, conv.dilation) == ((3, 3), (1, 1), (1, 1))
    if minimal and accuracy != "strict":
        found += [_winograd(conv, block, tile, cpu) for tile in TILES if min(conv.image) >= tile]
    return sorted(found, key=lambda algorithm: algorithm.cycles)


def described(algorithms: Sequence[Algorithm]) -> str:
    """The choice and what it was chosen over, in a line."""
    return "; ".join([f"chosen: {algorithms[0]}", *map(str, algorithms[1:])])


def _direct(conv: Convolution, block: int, cpu: Any) -> float:
    (height, width), (kh, kw) = conv.image, conv.kernel
    steps = conv.batch * height * width * conv.in_channels * kh * kw
    blocks = _vectors(conv.out_channels, block)
    weights = 4 * conv.in_channels * conv.out_channels * kh * kw
    return steps * blocks * _vector_step(width, blocks, cpu) + weights / MEMORY_STALL


def _winograd(conv: Convolution, block: int, tile: int, cpu: Any) -> Algorithm:
    height, width = conv.image
    image = (ceil(height / tile), ceil(width / tile))
    shape = WinogradShape(tile, conv.batch, image, conv.in_channels, _vectors(conv.out_channels, block), block)
    plan = winograd_plans(shape, cpu)[0]
    return Algorithm(tile, plan.cycles, plan.blocks)


def _vectors(channels: int, block: int) -> int:
    return ceil(channels / block)


def _vector_step(width: int, blocks: int, cpu: Any) -> float:
    """Cycles of one multiply-add of a vector in the register tile that the schedule takes."""
    pixels, columns = conv_tile(width, blocks, cpu)
    return step_cycles(pixels, columns, cpu) / (pixels * columns) / KERNEL_EFFICIENCY
