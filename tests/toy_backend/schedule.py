"""How the toy wants its programs: channels innermost, the innermost spatial loop a vector, few passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from minitvm.compat.tvm.convert_layout import ConvertLayout
from minitvm.errors import ScheduleError
from minitvm.expr import SPATIAL, IntImm, walk
from minitvm.graph import Graph
from minitvm.machines.simd.transform.vector_reductions import vectorize_reductions
from minitvm.strategy import Candidate, Cost, Rule
from minitvm.tir import Schedule
from minitvm.tir.nodes import Block, PrimFunc
from minitvm.tir.transform.pipeline import Additions, plain

_VECTORS = plain(vectorize_reductions, "annotated reduction loops accumulate in several lanes")
PASSES: Additions = {"unswitch_repeats": [_VECTORS]}  # the neutral passes, and one more behind one of them


def layouts(target: Any, accuracy: str) -> list[tuple[str, Callable[[Graph], Graph]]]:
    """Images with their channels innermost."""
    return [("channels_last", ConvertLayout({"nn.conv2d": ["NHWC", "default"]}))]


def vectors(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """In each block the last spatial loop goes inside, and becomes a vector; or the loops run as written."""

    def price(lanes: bool) -> Cost:
        """NumPy calls: a loop in plain Python costs one an iteration, a vector one in all."""
        return Cost(float(sum(_calls(block, lanes) for block in walk(func.body) if isinstance(block, Block))))

    for lanes in (True, False):
        yield Candidate(knobs={"lanes": lanes}, price=price, apply=_vectorized)


def _calls(block: Block, lanes: bool) -> int:
    spatial = [axis for axis in block.iter_vars if axis.kind == SPATIAL]
    looped = [axis.dom.extent for axis in block.iter_vars if not (lanes and axis in spatial[-1:])]
    return math.prod(extent.value if isinstance(extent, IntImm) else 1 for extent in looped)


def _vectorized(sch: Schedule, lanes: bool) -> None:
    for block in sch.get_child_blocks(sch.get_block("root")) if lanes else ():
        loops = sch.get_loops(block)
        axes = sch.get(block).iter_vars
        spatial = [loop for loop, axis in zip(loops, axes) if axis.kind == SPATIAL]
        others = [loop for loop in loops if loop not in spatial[-1:]]
        if not spatial or len(loops) != len(axes):
            continue
        try:
            sch.reorder(*others, spatial[-1])
            sch.vectorize(spatial[-1])
        except ScheduleError:
            continue


def rules(target: Any) -> list[Rule]:
    """One rule for every function."""
    return [Rule("vectors", lambda func: True, vectors)]
