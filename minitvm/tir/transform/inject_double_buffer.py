"""Run blocks annotated with "double_buffer_scope" one iteration ahead of their readers, with two buffer versions.

The loop that contains the annotated block (`load` below) and its reader (`use`) is annotated as a software pipeline
with two stages. Only `load` is in the first stage, so `B[(i + 1) % 2]` is filled while `B[i % 2]` is in use. If the
loop is already annotated as a pipeline, the annotation of the block only requests the second version of the buffer.
"""

from __future__ import annotations

from ...expr import replace
from ..analysis import software_pipelines
from ..analysis.tree import Tree
from ..nodes import For, PrimFunc
from .inject_software_pipeline import refusal


def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """Annotate loops with double buffers as pipelines; raise `ScheduleError` if that would change the meaning of the
    program.

    before:
        A: T.Buffer((8, 4), "float32")
        C: T.Buffer((8, 4), "float32")
        B = T.alloc_buffer((8, 4))
        for i in range(8):
            for j in range(4):
                with T.block("load"):
                    T.block_attr({"double_buffer_scope": 0})
                    B[vi, vj] = A[vi, vj]
            for j in range(4):
                with T.block("use"): C[vi, vj] = B[vi, vj] + 1.0
    after:
        B = T.alloc_buffer((8, 4))
        for i in T.serial(8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            for j in range(4):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"double_buffer_scope": 0})
                    B[vi, vj] = A[vi, vj]
            for j in range(4):
                with T.block("use"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1.0
    """
    while True:
        loop = _next_loop(func)
        if loop is None:
            return func
        func, loop = software_pipelines.opened(func, loop)
        verdict = software_pipelines.double_buffered(func, loop)
        if not isinstance(verdict, software_pipelines.Pipeline):
            raise refusal(func, loop, verdict, "double buffer")
        notes = {
            **loop.annotations,
            software_pipelines.STAGE: list(verdict.stages),
            software_pipelines.ORDER: list(verdict.order),
        }
        func = Tree(func).rebuild({loop: replace(loop, annotations=notes)})


def _next_loop(func: PrimFunc) -> For | None:
    """Return a loop that contains a double buffer and is not yet annotated as a pipeline; None if there is none. Raises
    `ScheduleError` if an annotated block cannot fill a double buffer.
    """
    tree = Tree(func)
    for realize in tree.blocks.values():
        if software_pipelines.DOUBLE not in realize.block.annotations:
            continue
        around = software_pipelines.doubled_loop(tree, realize)
        wrong = software_pipelines.unusable_double(tree, realize)
        if wrong is not None or around is None:
            raise refusal(func, around[0] if around else None, wrong, f"double buffer of {realize.block.name}")
        if not any(key in around[0].annotations for key in software_pipelines.KEYS):
            return around[0]
    return None
