# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad annotations: software pipelines and double buffers that would read other values."""

from __future__ import annotations

from minitvm.script import tir as T

from . import programs
from .case import CASES, loop, on


@T.prim_func
def load_and_use(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    S = T.alloc_buffer((4,))
    for i in range(8):
        for j in range(4):
            with T.block("load"):
                vi, vj = T.axis.remap("SS", [i, j])
                S[vj] = A[vi, vj]
        for j in range(4):
            with T.block("use"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = S[vj] * 2.0


@T.prim_func
def passing_on(A: T.Buffer((8,), "float32"), H: T.Buffer((9,), "float32"), C: T.Buffer((8,), "float32")):
    with T.block("first"):
        H[0] = 0.0
    for i in range(8):
        with T.block("use"):
            vi = T.axis.spatial(8, i)
            C[vi] = H[vi]
        with T.block("next"):
            vi = T.axis.spatial(8, i)
            H[vi + 1] = H[vi] + A[vi]


CASES["annotate.note_in_place"] = on(programs.matmul, lambda s: s.annotate(loop(s, "C"), "double_buffer_scope", 0))
CASES["annotate.note_is_data"] = on(programs.matmul, lambda s: s.annotate(loop(s, "C"), "tile", {"i": [4, b"x"]}))
CASES["annotate.counts"] = on(programs.matmul, lambda s: s.annotate(loop(s, "C"), "prefetch", "far"))
CASES["annotate.alignment_fits"] = on(programs.matmul, lambda s: s.annotate("C", "buffer_dim_align", [[0, 9, 32, 8]]))
CASES["annotate.pipelines_well_formed"] = on(
    load_and_use, lambda s: s.annotate(loop(s, "use"), "software_pipeline_stage", [0])
)
CASES["annotate.keeps_pipelines"] = on(
    passing_on, lambda s: s.annotate(loop(s, "use"), "software_pipeline_stage", [0, 2])
)
CASES["unroll.pipelines_well_formed"] = on(
    load_and_use,
    lambda s: s.unroll(loop(s, "use")),
    lambda s: s.annotate("load", "double_buffer_scope", 0),
)
