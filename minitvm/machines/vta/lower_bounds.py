"""What a convolution needs at least on a machine, whatever the program: cycles of the array, of DRAM, of compute.

- Array: one product of elements a cycle.
- DRAM: each element of the image that is read, each filter, and each result passes once.
- Compute: GEMM and ALU are one module, which does one micro-op a cycle. Beside its products each register takes

      1   to become zero: a product only adds, and a load of a register takes longer
      1   for the shift: minimum and maximum do not divide, and an addition does not either
      2   for the limits: a shift and an addition leave large and small numbers apart, a minimum bounds them from above
          alone, a maximum from below alone. The option `clip` does both where the limits have one size: 1

  so four for the limits -128 and 127 of `bound`, and three for -127 and 127 with `clip`. A store is another module's,
  and a bias takes one more addition of two registers, two cycles.
- Behind compute: the register that is finished last is stored after that, which is answered a latency later.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import AccelConfig, Scratchpad
from .layers import TIMES, Conv2d


@dataclass(frozen=True, slots=True)
class CycleBound:
    """Cycles that a layer takes at least: of the array, of DRAM, of the module with array and ALU, and behind that."""

    array: int
    dram: int
    compute: int
    behind: int

    @property
    def cycles(self) -> int:
        """What no program can beat."""
        return max(self.dram, self.compute + self.behind)

    @property
    def name(self) -> str:
        return "DRAM" if self.dram > self.compute + self.behind else "compute"


def bound(layer: Conv2d, config: AccelConfig) -> CycleBound:
    """The least cycles of a layer whose sums are shifted and kept between -128 and 127.

    Channels fill whole blocks, the batch is one.
    """
    outs, ins = layer.out_channels // config.block_out, layer.in_channels // config.block_in
    registers = layer.rows * layer.columns * outs
    products = registers * ins * layer.kernel**2
    step = layer.stride if layer.kernel < layer.stride else 1  # filters of one point read no other pixels
    pixels = -(-layer.height // step) * -(-layer.width // step)
    moved = (
        ins * pixels * config.element_bytes(Scratchpad.INP)
        + outs * ins * layer.kernel**2 * config.element_bytes(Scratchpad.WGT)
        + registers * config.element_bytes(Scratchpad.OUT)
    )
    dram = config.dram
    return CycleBound(products, -(-moved // dram.bytes_per_cycle), products + 4 * registers, dram.latency)


# A Cortex-A9 has one NEON unit of 64 bits, that is two multiply-adds of float32 a cycle; two of them at 667 MHz stand
# beside `vdla` on its board.
A9_PEAK = 2 * 2 * 2 * 0.667  # GFLOP/s
PUBLISHED = 40  # times as fast on the offloaded convolutions (Chen et al., "TVM", OSDI'18)


def beside_a_processor(cycles: dict[str, int], layers: dict[str, Conv2d], config: AccelConfig) -> str:
    """ResNet-18's layers, each as often as it occurs, beside the dual Cortex-A9 of the papers."""
    total = sum(TIMES[name] * cycles[name] for name in layers)
    giga = 2e-9 * sum(TIMES[name] * layer.macs for name, layer in layers.items())
    rate = giga / (total / (config.clock_mhz * 1e6))
    implied = rate / PUBLISHED
    return (
        f"all of ResNet-18's, as often as they occur: {total:,} cycles, {rate:.1f} GOP/s at {config.clock_mhz} MHz\n"
        f"a dual Cortex-A9 at 667 MHz has at most {A9_PEAK:.1f} GFLOP/s: {rate / A9_PEAK:.1f} times as fast as that; "
        f"{PUBLISHED} times as fast (published) as {implied:.2f} GFLOP/s, {100 * implied / A9_PEAK:.0f} % of that"
    )
