"""The simulated tensor accelerator as a target: its description, its models, its names."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

from ...target import Kind


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The simulated tensor accelerator: one GEMM of batch x block_in x block_out a cycle; scratchpads in bytes.

    `memory` is "tsim" or "board", of a latency of 1 or 100 cycles; it moves `bytes_per_cycle`. The last four are the
    options of its instructions, `machines.vta.config.AluOptions`.
    """

    name: str = "vta"
    mhz: int = 100
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    input_bits: int = 8
    weight_bits: int = 8
    accumulator_bits: int = 32
    uop_buffer: int = 32 * 1024
    input_buffer: int = 32 * 1024
    weight_buffer: int = 256 * 1024
    accumulator_buffer: int = 128 * 1024
    memory: str = "tsim"
    bytes_per_cycle: int = 8
    multiply_bits: int = 0
    pad_value: bool = False
    clip: bool = False
    widen: bool = False

    @property
    def cycle_seconds(self) -> float:
        """Seconds of a cycle."""
        return 1e-6 / self.mhz

    @property
    def config(self) -> Any:
        """The machine in full, an `machines.vta.config.AccelConfig`: what drives programs, meaning and cycles alike.

        A model's name brings fields, queues and pipelines; index fields are as wide as these scratchpads need. Raises
        `InputError` for a machine that cannot be.
        """
        return _configured(self)


@functools.cache
def _configured(machine: Accelerator) -> Any:
    from .config import CONFIGS, AluOptions, configured

    model = machine.name if machine.name in CONFIGS else "vta"
    fields = {
        "batch": machine.batch, "block_in": machine.block_in, "block_out": machine.block_out,
        "inp_dtype": f"int{machine.input_bits}", "wgt_dtype": f"int{machine.weight_bits}",
        "acc_dtype": f"int{machine.accumulator_bits}", "uop_bytes": machine.uop_buffer,
        "inp_bytes": machine.input_buffer, "wgt_bytes": machine.weight_buffer, "acc_bytes": machine.accumulator_buffer,
        "clock_mhz": machine.mhz,
        "options": AluOptions(machine.multiply_bits, machine.pad_value, machine.clip, machine.widen),
    }  # fmt: skip
    changed = {name: value for name, value in fields.items() if value != getattr(CONFIGS[model], name)}
    config = configured(model, machine.memory, **changed)
    rate = machine.bytes_per_cycle
    burst = max(config.dram.burst // rate, 1) * rate
    return replace(config, dram=replace(config.dram, bytes_per_cycle=rate, burst=burst))


MODELS = {
    "vta": Accelerator(),
    "vdla": Accelerator("vdla", 200, weight_buffer=32 * 1024),
    "vta2": Accelerator("vta2", multiply_bits=8, pad_value=True, clip=True, widen=True),
}
KIND = Kind(("accel", "vta"), Accelerator, Accelerator, "accel", MODELS)
