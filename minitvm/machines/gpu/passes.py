"""The additional lowering passes of GPUs: those for threads, and those for vectors.

Shuffles of vectors are only worthwhile on processors that OpenCL offers as devices, because a GPU's threads have no
vector registers.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ...target import Target
from ...tir.nodes import PrimFunc
from ...tir.transform.pipeline import Additions, Pass, plain
from ..simd.passes import PASSES as OF_VECTORS
from .transform.bind_threads import bind_threads
from .transform.insert_barriers import insert_barriers
from .transform.lower_thread_allreduce import lower_thread_allreduce
from .transform.lower_thread_reductions import lower_thread_reductions
from .transform.shrink_shared import shrink_shared

_FOR_PROCESSORS = ("transpose_tiles", "strided_loads")


def _on_processors(step: Pass) -> Pass:
    @functools.wraps(step.run)
    def run(func: PrimFunc, target: Target) -> PrimFunc:
        return func if target is None or target.processor is None else step.run(func, target)

    return replace(step, run=run)


PASSES: Additions = {
    "inject_software_pipeline": (
        plain(lower_thread_reductions, "threads that reduce have partial results, which they combine"),
        plain(shrink_shared, "storage that threads share shrinks to what one iteration of their loop uses"),
    ),
    "drop_blocks": (
        Pass(
            "lower_thread_allreduce", lower_thread_allreduce, "threads combine values by shuffles, or by a shared tree"
        ),
        plain(bind_threads, "a loop that binds an axis again is its thread; what all threads would do alike, one does"),
    ),
    "separate_allocations": (
        plain(insert_barriers, "threads wait where one may touch shared storage that another one touched before"),
    ),
    **{
        place: tuple(_on_processors(step) if step.name in _FOR_PROCESSORS else step for step in steps)
        for place, steps in OF_VECTORS.items()
    },
}
