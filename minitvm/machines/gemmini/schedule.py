"""Tiles, passes and refusals.

The program is that of `machines.scratchpad.strategy.convolution`; what follows the sums is another.

    acc = products of the tile          # preload, compute; the first ones overwrite
    acc += bias                         # mvin that adds, where there is one
    result = shifted, cut (acc)         # mvout

Shift and cut are inlined into the block that leaves the accumulator: one instruction does all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...strategy import Candidate, Cost
from ...strategy.registry import RULES, Rule, rule
from ...target import Target
from ...tir import Schedule
from ...tir.nodes import PrimFunc
from ..scratchpad.instruction_set import Elements
from ..scratchpad.passes import SCRATCHPADS
from ..scratchpad.strategy import convolution
from .config import Gemmini

PASSES = SCRATCHPADS  # the hardware tracks hazards, so no tokens are inserted
WAY_OUT = ("alu_shr_imm", "alu_min_imm", "alu_max_imm", "store")


def rules(target: Target) -> list[Rule]:
    """The part "rules" of the back end."""
    return list(RULES[target.kind])


def misfit(func: PrimFunc) -> str:
    """Why the machine cannot compute a function; "" if it can."""
    conv = convolution.convolution_of(func)
    if conv is None:
        return "it is no convolution on elements of int8, with a way out behind it"
    operations = tuple(stage.operation for stage in conv.stages)
    if operations not in (WAY_OUT, ("alu_add", *WAY_OUT)):
        return f"behind its sums are {', '.join(operations)}; the way out is a bias, a shift, two limits and bytes"
    if why := convolution.beyond_shift(conv.stages[-4], 32):
        return why
    most, least = (stage.constant for stage in conv.stages[-3:-1])
    if least not in (-128, 0) or most != 127:
        return f"results are kept between {least} and {most}; the way out has -128 or 0, and 127"
    return ""


def fits_the_machine(func: PrimFunc) -> bool:
    """Whether a function is a convolution that the machine computes, to the last stage."""
    return misfit(func) == ""


@rule("gemmini", fits_the_machine)
def conv2d_elements(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Tiles of `rows` x `columns` x `outs` elements, sums in steps of `ins` blocks, `contexts` that take turns."""
    conv, config = convolution.convolution_of(func), target.config
    if conv is None:
        return
    elements = Elements(1, config.side, config.side, machine="gemmini")
    *bias, shift, most, least, store = conv.stages
    behind = (
        *(convolution.Stage(stage.block, "alu_accumulate") for stage in bias),
        convolution.Stage(store.block, "store"),
    )

    def price(tile: convolution.Tile, contexts: int) -> Cost:
        return _cost(conv, config, tile, contexts)

    def apply(sch: Schedule, tile: convolution.Tile, contexts: int) -> None:
        for stage in (shift, most, least):
            sch.compute_inline(sch.get_block(stage.block))
        convolution.schedule_tiles(sch, replace(conv, stages=behind), elements, tile, contexts)

    def fits(tile: convolution.Tile, contexts: int) -> bool:
        image = convolution.image_rows(conv, tile.rows) * conv.image_columns(tile.columns) * tile.ins
        return (
            contexts * (image + tile.outs * tile.ins * conv.points * config.side) <= config.scratchpad_rows
            and contexts * tile.registers <= config.accumulator_rows
        )

    yield from convolution.tilings(conv, fits, price, apply)


def _cost(conv: convolution.ConvolutionNest, config: Gemmini, tile: convolution.Tile, contexts: int) -> Cost:
    """The array's cycles, and those in which it waits. With two contexts a step's loads run during the other one's
    step, and so does, between two tiles, the way out. Nothing hides the first loads and the last way out. A step counts
    eight cycles more than it takes: of tiles that are about as fast, those with the shorter program are better. The
    products of a smaller tile hide the loads of a whole one.
    """
    side, rate, latency, steps = config.side, config.dram.bytes_per_cycle, config.dram.latency, tile.count(conv, "ins")
    image = tile.ins * convolution.image_rows(conv, tile.rows) * conv.image_columns(tile.columns) * side
    load = (image + tile.outs * tile.ins * conv.points * side * side) / rate + 2 * latency
    out = tile.registers * side * (1 + 4 * (len(conv.stages) - 4)) / rate + latency + config.drain
    tiles, ins = tile.all(conv), tile.mean(conv, "ins")
    longer = 8 * tiles * steps
    compute = waiting = 0.0
    for part, count in tile.parts(conv):
        multiply = part.outs * ins * conv.points * max(part.rows * part.columns, side)  # of a step
        compute += count * steps * multiply
        waiting += count * ((steps - 1) * max(0.0, load - multiply) + max(0.0, load + out - multiply))
    if contexts == 1:
        return Cost(compute, tiles * (steps * load + out) + longer)
    return Cost(compute, waiting + tile.alone(conv, contexts) * (steps * load + out) + load + out + longer)


def refusal(func: PrimFunc, target: Target) -> str:
    """Why a function does not run on the machine; "" for one that does. The part "refusal" of the back end."""
    why = misfit(func)
    if not why and next(iter(conv2d_elements(func, target)), None) is None:
        return "no tile of it fits the scratchpad and the accumulator"
    return why
