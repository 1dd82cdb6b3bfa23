"""Convolutions of one dimension over a padded copy of their input, in tiles, whose loops over taps skip zeros."""

from __future__ import annotations

from typing import Any

from minitvm import te
from minitvm.tir import Schedule
from minitvm.tir.annotations import SKIP_ZEROS
from minitvm.tir.nodes import PrimFunc


def convolution(
    extent: Any, taps: int, stride: int = 1, dilation: int = 1, before: int = 0, after: int = 0, tile: int = 1,
    fill: float = 0.0, filled: bool = False,
) -> PrimFunc:  # fmt: skip
    """C[i] = sum over k of P[stride*i + dilation*k] * W[k], where P is A with `fill` around it; in tiles of C."""
    a, w = te.placeholder((extent,), name="A"), te.placeholder((taps,), name="W")
    padded = te.compute(
        (extent + before + after,),
        lambda i: te.if_then_else(te.all(i >= before, i < extent + before), a[i - before], te.const(fill, "float32")),
        name="P",
    )
    k = te.reduce_axis((0, taps), name="k")
    out = (extent + before + after - dilation * (taps - 1) - 1) // stride + 1
    c = te.compute((out,), lambda i: te.sum(padded[i * stride + k * dilation] * w[k], axis=k), name="C")
    results = [c, te.compute((extent + before + after,), lambda i: padded[i] + 1.0, name="D")] if filled else [c]
    sch = Schedule(te.create_prim_func([a, w, *results]))
    i, k_loop = sch.get_loops("C")
    over, inner = sch.split(i, [None, tile])
    sch.reorder(over, k_loop, inner)
    sch.decompose_reduction("C", k_loop)
    sch.annotate(k_loop, SKIP_ZEROS, True)
    return sch.func
