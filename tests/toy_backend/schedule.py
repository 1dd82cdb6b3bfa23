"""How the toy wants its programs: channels innermost, the innermost spatial loop a vector, few passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitvm.errors import ScheduleError
from minitvm.expr import SPATIAL
from minitvm.graph import Graph
from minitvm.graph.passes.convert_layout import ConvertLayout
from minitvm.strategy import Rule
from minitvm.tir import Schedule
from minitvm.tir.transform import pipeline

# Vectors are turned around, and memory is asked ahead of time, on machines that have such instructions.
PASSES = tuple(
    step for step in pipeline.PASSES if step.name not in ("transpose_tiles", "strided_loads", "inject_prefetch")
)


def layouts(target: Any, accuracy: str) -> list[tuple[str, Callable[[Graph], Graph]]]:
    """Images with their channels innermost."""
    return [("channels_last", ConvertLayout({"nn.conv2d": ["NHWC", "default"]}))]


def vectors(sch: Schedule, target: Any) -> Sequence[str] | None:
    """In each block the last spatial loop goes inside, and becomes a vector."""
    for block in sch.get_child_blocks(sch.get_block("root")):
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
    return None


def rules(target: Any) -> list[Rule]:
    """One rule for every function."""
    return [Rule("vectors", lambda func: True, vectors)]
