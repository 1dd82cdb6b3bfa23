"""How programs are lowered for GPUs: the passes of all machines, those for instructions of CPUs on processors only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...tir.nodes import PrimFunc
from ...tir.transform import pipeline
from ...tir.transform.pipeline import Pass

# Prefetches are instructions of CPUs, and shuffles of vectors pay on them: a GPU's threads have no vector registers.
_FOR_CPUS = ("inject_prefetch",)
_FOR_PROCESSORS = ("transpose_tiles", "strided_loads")


def _on_processors(step: Pass) -> Pass:
    def run(func: PrimFunc, target: Any) -> PrimFunc:
        return func if target is None or target.processor is None else step.run(func, target)

    return replace(step, run=run)


PASSES = tuple(
    _on_processors(step) if step.name in _FOR_PROCESSORS else step
    for step in pipeline.PASSES
    if step.name not in _FOR_CPUS
)
