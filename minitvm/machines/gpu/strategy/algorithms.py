"""Choose the algorithm of a convolution on a GPU: the one whose best schedule has the lowest cost, by `costs`."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import Any

from .... import te
from ....strategy.algorithms import DIRECT, WINOGRAD, Convolution, direct_alone
from ....strategy.candidate import Cost, Option, cheapest_first
from ....target import Target
from ....tir.nodes import PrimFunc
from ...simd.strategy import algorithms as processors
from ...simd.topi.blocked import conv2d_nchwc
from ...simd.topi.winograd import TILES, winograd_conv2d_nchwc
from .contraction import contraction
from .winograd import winograd


def convolution_algorithms(conv: Convolution, block: int, target: Target, accuracy: str = "fast") -> list[Option]:
    """Return the algorithms that fit, cheapest first. `block` is the number of channels in the innermost axis.

    Winograd's algorithm requires a 3x3 kernel, stride 1, constant image extents and no dilation, and is left out with
    `accuracy="strict"`. It has the same knobs as on CPUs, but a panel contains all output channels, so that the weights
    of a place are one matrix.
    """
    if target.processor is not None:
        return processors.convolution_algorithms(conv, block, target, accuracy)
    plain = (conv.kernel, conv.strides, conv.dilation) == ((3, 3), (1, 1), (1, 1))
    if not plain or None in conv.image or accuracy == "strict" or conv.in_channels % block or conv.groups > 1:
        return direct_alone(conv, block, target, accuracy)
    panel = ceil(conv.out_channels / block)
    found = [Option(rule=DIRECT, knobs={}, price=lambda: _direct(conv, block, str(target)))]

    def transformed(tile: int, panel: int) -> Cost:  # noqa: ARG001 (a knob)
        return _winograd(conv, block, tile, str(target))

    for tile in (tile for tile in TILES if tile <= min(n or 0 for n in conv.image)):
        found.append(Option(rule=WINOGRAD, knobs={"tile": tile, "panel": panel}, price=transformed))
    return cheapest_first(found)


@lru_cache(maxsize=256)
def _direct(conv: Convolution, block: int, target: str) -> Cost:
    data = _image(conv, block)
    shape = (ceil(conv.out_channels / block), conv.in_channels // block, *conv.kernel, block, block)
    weight = te.placeholder(shape, name="weight")
    func = te.create_prim_func([data, weight, conv2d_nchwc(data, weight)])
    return _cheapest(contraction, func, target)


@lru_cache(maxsize=256)
def _winograd(conv: Convolution, block: int, tile: int, target: str) -> Cost:
    data, places = _image(conv, block), tile + 2
    shape = (1, places, places, conv.in_channels // block, block, ceil(conv.out_channels / block), block)
    weight = te.placeholder(shape, name="weight")
    func = te.create_prim_func([data, weight, winograd_conv2d_nchwc(data, weight, tile=tile)])
    return _cheapest(winograd, func, target)


def _image(conv: Convolution, block: int) -> te.Tensor:
    """Return the input of a 3x3 convolution of stride 1, including its padding."""
    sides = [(n or 1) + 2 for n in conv.image]
    return te.placeholder((conv.batch, conv.in_channels // block, *sides, block), name="data")


def _cheapest(rule: Any, func: PrimFunc, target: str) -> Cost:
    costs = [candidate.cost for candidate in rule(func, Target(target))]
    return min(costs, key=lambda cost: cost.cycles)
