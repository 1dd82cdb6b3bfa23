"""Which algorithm a convolution gets: what each should cost, in cycles of one core, by a model of the machine.

Costs are those of the schedules in this package. Multiply-adds run at the rate of the units, less what the shape of the
register tile loses; transforms of Winograd's algorithm cost loads and stores; weights that are read again for every row
of tiles come from the cache that holds them. There is no search, and no measurement at build time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ...topi.winograd import TILES, winograd_error_growth
from .conv2d import conv_tile
from .tiling import cpu_of

# Measured on Zen 5 and Zen 3; a cycle of one core.
KERNEL_EFFICIENCY = 0.92  # of the multiply-add units, in a micro-kernel that does not spill
_TRANSFORM = 8.0  # cycles a vector of channels and place of the tile, for either transform
L3_BYTES, MEMORY_BYTES = 16.0, 5.0  # bytes that one core streams in a cycle
_STEP_LOADS = 0.5  # cycles of a load or broadcast in the micro-kernel


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to compute a convolution: `tile` outputs at a time in each direction (1: direct), at a cost in cycles."""

    tile: int
    cycles: float

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
        found += [Algorithm(tile, _winograd(conv, block, tile, cpu)) for tile in TILES if min(conv.image) >= tile]
    return sorted(found, key=lambda algorithm: algorithm.cycles)


def described(algorithms: Sequence[Algorithm]) -> str:
    """The choice and what it was chosen over, in a line."""
    return "; ".join([f"chosen: {algorithms[0]}", *map(str, algorithms[1:])])


def _direct(conv: Convolution, block: int, cpu: Any) -> float:
    (height, width), (kh, kw) = conv.image, conv.kernel
    steps = conv.batch * height * width * conv.in_channels * kh * kw
    return steps * _vectors(conv.out_channels, block) * _vector_step(width, _vectors(conv.out_channels, block), cpu)


def _winograd(conv: Convolution, block: int, tile: int, cpu: Any) -> float:
    places = (tile + 2) ** 2
    down, across = (ceil(extent / tile) for extent in conv.image)
    tiles = conv.batch * down * across
    steps = tiles * places * conv.in_channels
    products = (
        steps
        * _vectors(conv.out_channels, block)
        * _vector_step(across, _vectors(conv.out_channels, block), cpu, whole=True)
    )
    channels = _vectors(conv.in_channels, block) + _vectors(conv.out_channels, block)
    transforms = tiles * places * channels * _TRANSFORM
    weights = 4 * places * conv.in_channels * conv.out_channels
    return max(products, _streaming(weights, conv.batch * down, cpu)) + transforms


def _streaming(size: int, times: int, cpu: Any) -> float:
    """Cycles to read `size` bytes that many times, from the cache that keeps them."""
    if size <= cpu.l2.size // 2:
        return 0.0
    first = size / MEMORY_BYTES
    again = size / (L3_BYTES if size <= cpu.l3.size // 2 else MEMORY_BYTES)
    # Weights that fit a cache stay there from one run to the next.
    return times * again if size <= cpu.l3.size // 2 else first + (times - 1) * again


def _vectors(channels: int, block: int) -> int:
    return ceil(channels / block)


def _vector_step(width: int, blocks: int, cpu: Any, whole: bool = False) -> float:
    """Cycles of one multiply-add of a vector in the register tile that the schedule takes."""
    pixels, columns = conv_tile(width, blocks, cpu.vector_registers, whole=whole)
    count = pixels * columns
    busy = max(count / cpu.fma_ports, float(cpu.fma_latency), (pixels + columns) * _STEP_LOADS)
    return busy / count / KERNEL_EFFICIENCY
