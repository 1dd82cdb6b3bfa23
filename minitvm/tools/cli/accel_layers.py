"""Layers of ResNet-18 compiled for the accelerator, for `minitvm accel`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, nearest

if TYPE_CHECKING:
    from ...executable import Executable
    from ...machines.scratchpad.timeline import Timeline
    from ...machines.vta.config import AccelConfig
    from ...machines.vta.isa import Program
    from ...machines.vta.layers import Conv2d
    from ...target import Target
    from ...tir import PrimFunc


def machine(config: str, memory: str, array: int | None = None, bandwidth: int | None = None) -> Target:
    """The target of a predefined machine, with an array of another size (and scratchpads of as many elements), or
    memory of another bandwidth. Raises `InputError` for unknown names.

    A machine that is no model of the tensor accelerator is a kind of target, whose back end counts cycles.
    """
    from ...backend import registered
    from ...machines.vta.config import CONFIGS, configured, scaled
    from ...target import Target

    kinds = [kind for kind, backend in registered().items() if backend.timed is not None and kind != "accel"]
    if config in kinds:
        if array is not None:
            raise InputError(f"--array is for {' and '.join(CONFIGS)}; Target({config!r}) has options for its array")
        rate = "" if bandwidth is None else f" -bytes_per_cycle={bandwidth}"
        return Target(f"{config} -memory={memory}{rate}")
    if config not in CONFIGS:
        raise InputError(f"no accelerator is called {config!r}: {nearest(config, [*CONFIGS, *kinds])}")
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
    from ... import te
    from ...machines.scratchpad.topi import conv2d_elements, requantize_elements

    if config.batch != 1 or layer.in_channels % config.block_in or layer.out_channels % config.block_out:
        raise InputError(
            f"{layer} on {config.name}: wanted a batch of 1 and multiples of {config.block_in} and "
            f"{config.block_out} channels"
        )
    ins, outs = layer.in_channels // config.block_in, layer.out_channels // config.block_out
    image = te.placeholder((1, ins, layer.height, layer.width, 1, config.block_in), config.inp_dtype, name="image")
    square = (layer.kernel, layer.kernel)
    filters = te.placeholder((outs, ins, *square, config.block_out, config.block_in), config.wgt_dtype, name="filters")
    sums = conv2d_elements(image, filters, stride=layer.stride, padding=layer.pad, out_dtype=config.acc_dtype)
    result = requantize_elements(sums, shift=layer.shift, dtype=config.out_dtype)
    return te.create_prim_func([image, filters, result])


def compiled(layer: Conv2d, target: Target, contexts: int = 2, name: str = "conv2d") -> Program:
    """The program that the compiler makes of a layer.

    With one context it has the tiles of the schedule with two, where there is one: they differ in what runs at the same
    time, and in nothing else. Raises `InputError` for a layer of which nothing fits.
    """
    from ...machines.vta.assembler import assemble

    return replace(assemble(source(layer, target, contexts), target.config, name), name=name)


def source(layer: Conv2d, target: Target, contexts: int = 2) -> str:
    """The text that the compiler makes of a layer, for a machine of any kind; raises as `compiled`."""
    from ...build import lower

    (kernel,) = lower(scheduled(layer, target, contexts), target, stop_at="executable").kernels
    return kernel.source


def scheduled(layer: Conv2d, target: Target, contexts: int = 2) -> PrimFunc:
    """A layer in the tiles that the schedule with two contexts chooses; see `compiled`."""
    from ... import strategy

    func = layer_function(layer, target.config)
    candidates = strategy.candidates(func, target)
    if not candidates:
        raise InputError(f"{layer}: no tile of the layer fits {target.config.name}'s scratchpads")
    two = next((one for one in candidates if one.knobs["contexts"] == 2), candidates[0])
    knobs = {**two.knobs, "contexts": contexts if two.knobs["contexts"] == 2 else 1}
    return strategy.schedule(func, target, knobs=knobs).func


def timed(layer: Conv2d, target: Target, contexts: int = 2, name: str = "conv2d") -> Timeline:
    """The cycles of a layer, as the target's back end counts them."""
    from ...build import lower

    return _timeline(lower(scheduled(layer, target, contexts), target, stop_at="executable"), name)


def _timeline(executable: Executable, name: str) -> Timeline:
    """The timeline of an executable's one kernel, under a name."""
    from ...machines.scratchpad.simulated_device import timelines

    (timeline,) = timelines(executable).values()
    timeline.program = replace(timeline.program, name=name)
    return timeline


def run(name: str, layer: Conv2d, target: Target, contexts: int) -> tuple[dict[str, Any], Timeline, bool]:
    """(the result, the cycles, whether it is NumPy's) of a layer on seeded random inputs, by any machine's runtime."""
    from ...build import build
    from ...machines.vta.layers import pack_filters, pack_image, random_tensors, unpack_result

    image, filters = random_tensors(layer)
    func, config = scheduled(layer, target, contexts), target.config
    module = build(func, target=target)
    shapes = [[d.value for d in p.shape] for p in func.params]  # type: ignore[union-attr]
    arrays = (pack_image(image, config), pack_filters(filters, config), np.zeros(shapes[2], config.out_dtype))
    arguments = [array.reshape(shape) for array, shape in zip(arrays, shapes, strict=True)]
    module(*arguments)
    result = arguments[2]
    same = bool((unpack_result(result, layer, config) == layer.reference(image, filters)).all())
    return {"result": result}, _timeline(module.executable, name), same
