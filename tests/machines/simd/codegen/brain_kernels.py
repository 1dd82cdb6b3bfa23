"""Kernels of products of words of bfloat16, run by anything, beside the interpreter: the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from minitvm.expr import Broadcast, Ramp, Var, call, const
from minitvm.reference.meaning.intrinsics import dot2_bf16
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc

COUNT = 48
Run = Callable[[PrimFunc, Sequence[np.ndarray]], list[np.ndarray]]

# Subnormal numbers, zeros of both signs, ends, and what only one rounding of each product tells.
CORNERS = [
    0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x8080, 0x3F80, 0xBF80, 0x3F81, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0,
    0x1A80, 0x9A01, 0x0C00, 0x5A80,
]  # fmt: skip


def of_products(lanes: int = 1, summed: bool = False) -> PrimFunc:
    """R = dot2_bf16(A, B, C), or A + dot2_bf16(0, B, C) if `summed`; a share of the elements for each thread."""
    buffers = [Buffer(name, (const(COUNT),), d) for name, d in zip("ABCR", ("float32", "int32", "int32", "float32"))]
    i = Var("i")
    index = Ramp(i * lanes, const(1), lanes) if lanes > 1 else i
    a, b, c = (BufferLoad(x, (index,)) for x in buffers[:3])
    zero = const(0.0, "float32")
    if summed:
        value = a + call("dot2_bf16", zero if lanes == 1 else Broadcast(zero, lanes), b, c)
    else:
        value = call("dot2_bf16", a, b, c)
    store = BufferStore(buffers[3], value, (index,))
    loop = For(i, const(0), const(COUNT // lanes), ForKind.PARALLEL, store)
    return PrimFunc(tuple(buffers), loop, {"global_symbol": "products"})


def drawn(seed: int) -> list[np.ndarray]:
    """float32 sums and two arrays of words: ordinary numbers, corners, any bits."""
    rng = np.random.default_rng(seed)
    halves = [np.where(rng.integers(0, 2, 2 * COUNT) == 0, rng.choice(np.array(CORNERS, np.uint16), 2 * COUNT),
                       rng.standard_normal(2 * COUNT).astype(ml_dtypes.bfloat16).view(np.uint16))
              for _ in range(2)]  # fmt: skip
    bits = rng.integers(0, 2**32, COUNT, np.uint32)
    ordinary = rng.standard_normal(COUNT).astype(np.float32).view(np.uint32)
    sums = np.where(rng.integers(0, 3, COUNT) > 0, ordinary, np.where(rng.integers(0, 2, COUNT) > 0, bits, bits >> 9))
    return [sums.astype(np.uint32).view(np.float32), *(h.astype(np.uint16).view(np.int32) for h in halves)]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same bits, but for the payload of a NaN."""
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found[numbers].view(np.uint32), wanted[numbers].view(np.uint32))


def products_alike(seed: int, run: Run) -> None:
    """A kernel of every fourth seed's form on that seed's data, beside the interpreter's meaning."""
    lanes, summed = ((1, False), (4, False), (1, True), (4, True))[seed % 4]
    c, a, b = drawn(seed)
    result = run(of_products(lanes, summed), [c, a, b, np.zeros(COUNT, np.float32)])[3]
    same(result, dot2_bf16(c, a, b))
