"""Products of warpgroups in the simulator: operands where descriptors say, sums where PTX has them, undefined uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from minitvm.machines.cuda.runtime.faults import KernelFault
from minitvm.machines.cuda.runtime.simulator import simulated

NAMES = (
    "shared_f16, wgmma_64x16x16_f16_nt, wgmma_64x72x16_f16, wgmma_commit, wgmma_fence, wgmma_store, wgmma_wait, "
    "wgmma_zeros_64x16, wgmma_zeros_64x72"
)
# Steps 16 to 31 of the first operand, in lines of 64 steps; the second one begins at element 4096.
HEAD = f"""from numba import cuda
from minitvm.machines.cuda.runtime.operations import {NAMES}
from minitvm.machines.simd.vectors.simd import pointer_f16, pointer_f32


def kernel(M_word, C_word):
    M, C = pointer_f16(M_word), pointer_f32(C_word)
    t = cuda.threadIdx.x
    S = shared_f16(8192)
    for e in range(t, 8192, 128):
        S[e] = M[e]
    cuda.syncthreads()
    sums = wgmma_zeros_64x16()
"""
BEGIN = "wgmma_fence()\nsums = wgmma_64x16x16_f16_nt(sums, S, 16, S, 4096 + 32, 0)\n"
STORE = "wgmma_store(sums, C, 0, 16, t, 2)\n"
END = "wgmma_commit()\nwgmma_wait(0)\n" + STORE


def run(body: str, columns: int = 16) -> tuple[Any, Any]:
    """What is in shared storage, lines of 64 float16 without their swizzle, and C after the body, [64, columns]."""
    memory = np.random.default_rng(0).integers(-8, 9, 8192).astype(np.float16)
    c = np.full((64, columns), np.nan, np.float32)
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    simulated(text, "kernel")((1, 1, 1), (128, 1, 1), [memory.ctypes.data, c.ctypes.data])
    return plain(memory), c


def plain(memory: Any) -> Any:
    """[128, 64]: in line r, the piece that belongs at place p lies at p ^ (r % 8)."""
    pieces = memory.astype(np.float64).reshape(128, 8, 8)
    return np.stack([pieces[r, np.arange(8) ^ (r % 8)] for r in range(128)]).reshape(128, 64)


def test_lines_go_along_the_steps() -> None:
    lines, c = run(BEGIN + BEGIN.splitlines()[1] + "\n" + END)
    np.testing.assert_array_equal(c, 2 * lines[:64, 16:32] @ lines[64:80, 32:48].T)


def test_lines_go_along_the_columns() -> None:
    """16 steps are 16 lines; columns 64 to 71 are in the next slab, here 24 lines further on."""
    product = "wgmma_64x72x16_f16(sums, S, 16, S, 4096 + 8 * 64, 24 * 128)"
    lines, c = run(f"sums = wgmma_zeros_64x72()\nwgmma_fence()\nsums = {product}\n" + END.replace("16, t", "72, t"), 72)
    b = np.concatenate([lines[72:88], lines[96:112, :8]], axis=1)
    np.testing.assert_array_equal(c, lines[:64, 16:32] @ b)


def test_threads_hold_the_sums_that_the_isa_says() -> None:
    lines, c = run(BEGIN + "wgmma_commit()\nwgmma_wait(0)\nfor k in range(8):\n    C[t * 8 + k] = sums[k]")
    held, wanted = c.reshape(128, 8), lines[:64, 16:32] @ lines[64:80, 32:48].T
    for thread, k, row, column in ((0, 0, 0, 0), (0, 1, 0, 1), (0, 2, 8, 0), (5, 0, 1, 2), (37, 7, 25, 11),
                                   (127, 4, 55, 14), (127, 3, 63, 7)):  # fmt: skip
        assert held[thread, k] == wanted[row, column]


def test_products_come_as_late_as_they_may() -> None:
    """What is overwritten before the wait is what is multiplied."""
    overwritten = "cuda.syncthreads()\nfor e in range(t, 1024, 128):\n    S[4096 + e] = S[e]\ncuda.syncthreads()\n"
    before, c = run(BEGIN + "wgmma_commit()\n" + overwritten + "wgmma_wait(0)\n" + STORE)
    np.testing.assert_array_equal(c, before[:64, 16:32] @ before[:16, 32:48].T)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BEGIN.removeprefix("wgmma_fence()\n") + END, "set since the last wgmma_fence"),
        (BEGIN + "wgmma_commit()\n" + STORE, "before their product was waited for"),
        (BEGIN + "wgmma_wait(0)\n" + STORE, "before their product was waited for"),
        (BEGIN.replace("S, 16,", "S, 20,") + END, "multiples of 16 bytes"),
        (BEGIN.replace("S, 16,", "S, 16 + t // 64 * 16,") + END, "different operands together"),
        (BEGIN + END.replace("C, 0", "C, 1"), "that their size does not divide"),
        ("if t < 127:\n    wgmma_fence()\n    " + BEGIN.splitlines()[1] + "\n    wgmma_commit()\n    wgmma_wait(0)",
         "lane 127 of group 0.* never comes"),
        (BEGIN.replace("S, 4096", "S, 7680") + END, "of an array of 8192"),
    ],
    ids=["unfenced", "read early", "no group", "odd", "others", "odd pair", "never", "outside"],
)  # fmt: skip
def test_what_is_undefined_is_an_error(body: str, message: str) -> None:
    with pytest.raises(KernelFault, match=message):
        run(body)
