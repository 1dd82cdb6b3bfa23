# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls that would move a block which means something only where it stands."""

from __future__ import annotations

from minitvm.script import tir as T

from .case import CASES, loop, on


@T.prim_func
def loop_in_the_body(X: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = X[i]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            C[vi] = B[vi] * X[i]


@T.prim_func
def loop_in_a_sum(X: T.Buffer((16, 4), "float32"), C: T.Buffer((16,), "float32")):
    for i, k in T.grid(16, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + X[i, vk]


@T.prim_func
def partly_read(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] * 2.0
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(8, i + 2)
            C[vi] = B[vi]


CASES["reverse_compute_inline.runs_everywhere"] = on(partly_read, lambda s: s.reverse_compute_inline("C"))
CASES["compute_at.own_iterators"] = on(loop_in_the_body, lambda s: s.compute_at("B", loop(s, "C")))
CASES["reverse_compute_at.own_iterators"] = on(loop_in_the_body, lambda s: s.reverse_compute_at("C", loop(s, "B")))
CASES["compute_inline.own_iterators"] = on(loop_in_the_body, lambda s: s.compute_inline("B"))
CASES["reverse_compute_inline.own_iterators"] = on(loop_in_the_body, lambda s: s.reverse_compute_inline("C"))
CASES["transform_block_layout.own_iterators"] = on(
    loop_in_the_body, lambda s: s.transform_block_layout("B", lambda i: (i // 4, i % 4))
)
CASES["rfactor.own_iterators_below"] = on(loop_in_a_sum, lambda s: s.rfactor(loop(s, "C", 1), 0))
