"""Layers of ResNet-18 compiled for the accelerator, for `minitvm accel`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from ..accel.config import AccelConfig
    from ..accel.isa import Program
    from ..accel.layers import Conv2d
    from ..target import Target
    from ..tir import PrimFunc


def machine(config: str, memory: str, array: int | None = None, bandwidth: int | None = None) -> Target:
    """The target of a predefined machine, with an array of another size (and scratchpads of as many elements), or
    memory of another bandwidth. Raises `InputError` for unknown names.
    """
    from ..accel.config import configured, scaled
    from ..target import Target

    known = configured(config, memory)
    target = Target(f"accel -model={config} -memory={memory}")
    changed = known if array is None else scaled(known, array)
    sizes = {
        "block_in": changed.block_in, "block_out": changed.block_out, "input_buffer": changed.inp_bytes,
        "weight_buffer": changed.wgt_bytes, "accumulator_buffer": changed.acc_bytes,
        "bytes_per_cycle": bandwidth or changed.dram.bytes_per_cycle,
    }  # fmt: skip
    options = " ".join(f"-{name}={value}" for name, value in sizes.items())
    return Target(f"{target} {options}")


def layer_function(layer: Conv2d, config: AccelConfig) -> PrimFunc:
    """A layer as a tensor expression: "image" and "filters" of elements, and the "result"."""
    from .. import te, topi

    if config.batch != 1 or layer.in_channels % config.block_in or layer.out_channels % config.block_out:
        raise InputError(
            f"{layer} on {config.name}: wanted a batch of 1 and multiples of {config.block_in} and "
            f"{config.block_out} channels"
        )
    ins, outs = layer.in_channels // config.block_in, layer.out_channels // config.block_out
    image = te.placeholder((1, ins, layer.height, layer.width, 1, config.block_in), config.inp_dtype, name="image")
    square = (layer.kernel, layer.kernel)
    filters = te.placeholder((outs, ins, *square, config.block_out, config.block_in), config.wgt_dtype, name="filters")
    sums = topi.conv2d_elements(image, filters, stride=layer.stride, padding=layer.pad, out_dtype=config.acc_dtype)
    result = topi.requantize_elements(sums, shift=layer.shift, dtype=config.out_dtype)
    return te.create_prim_func([image, filters, result])


def compiled(layer: Conv2d, target: Target, contexts: int = 2, name: str = "conv2d") -> Program:
    """The program that the compiler makes of a layer.

    With one context it has the tiles of the schedule with two, where there is one: they differ in what runs at the same
    time, and in nothing else. Raises `InputError` for a layer of which nothing fits.
    """
    from .. import strategy
    from ..accel.assembler import assemble
    from ..build import lower

    config = target.config
    func = layer_function(layer, config)
    candidates = strategy.candidates(func, target)
    if not candidates:
        raise InputError(f"{layer}: no tile of the layer fits {config.name}'s scratchpads")
    two = next((one for one in candidates if one.knobs["contexts"] == 2), candidates[0])
    knobs = {**two.knobs, "contexts": contexts if two.knobs["contexts"] == 2 else 1}
    scheduled = strategy.schedule(func, target, knobs=knobs).func
    (kernel,) = lower(scheduled, target, stop_at="executable").kernels
    return replace(assemble(kernel.source, config, name), name=name)
