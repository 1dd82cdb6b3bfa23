"""Products of warpgroups in the simulator: operands where descriptors say, sums where PTX has them, undefined uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from minitvm.runtime.cuda import simulated_warps
from minitvm.runtime.cuda.faults import KernelFault
from minitvm.runtime.cuda.simulator import simulated

NAMES = (
    "shared_f16, wgmma_64x16x16_f16, wgmma_64x16x16_f16_nt, wgmma_commit, wgmma_fence, wgmma_store, wgmma_wait, "
    "wgmma_zeros_64x16"
)
# Both operands in one array: bytes from a core matrix to the next one along the steps, and along the rows or columns.
HEAD = f"""from numba import cuda
from minitvm.runtime.cuda.operations import {NAMES}
from minitvm.runtime.vectors.simd import pointer_f16, pointer_f32


def kernel(M_word, C_word):
    M, C = pointer_f16(M_word), pointer_f32(C_word)
    t = cuda.threadIdx.x
    S = shared_f16(8192)
    for e in range(t, 8192, 128):
        S[e] = M[e]
    cuda.syncthreads()
    sums = wgmma_zeros_64x16()
"""
BEGIN = "wgmma_fence()\nsums = wgmma_64x16x16_f16(sums, S, 8, 2048, 160, S, 4096, 176, 400 * 2)\n"
END = "wgmma_commit()\nwgmma_wait(0)\nwgmma_store(sums, C, 0, 16, t)\n"


def run(body: str) -> tuple[Any, Any]:
    """What is in shared storage, 8192 float16, and C after the body, [64, 16]."""
    memory = np.random.default_rng(0).integers(-8, 9, 8192).astype(np.float16)
    c = np.full((64, 16), np.nan, np.float32)
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    simulated(text, "kernel")((1, 1, 1), (128, 1, 1), [memory.ctypes.data, c.ctypes.data])
    return memory.astype(np.float64), c


def matrix(memory: Any, start: int, along_rows: int, along_steps: int, rows: int, lines_of_steps: bool) -> Any:
    """[rows, 16]: core matrices of 8 lines of 8, these many elements apart."""
    found = np.empty((rows, 16))
    for r in range(rows):
        for s in range(16):
            line, place = (r % 8, s % 8) if lines_of_steps else (s % 8, r % 8)
            found[r, s] = memory[start + r // 8 * along_rows + s // 8 * along_steps + line * 8 + place]
    return found


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_lie_where_descriptors_say(transposed: bool) -> None:
    """The steps of a first operand, and of a transposed second one, are in lines; else the columns are."""
    second = (176, 800) if not transposed else (800, 176)
    suffix = "_nt" if transposed else ""
    product = f"sums = wgmma_64x16x16_f16{suffix}(sums, S, 8, 2048, 160, S, 4096, {second[0]}, {second[1]})\n"
    memory, c = run("wgmma_fence()\n" + product + product + END)
    a = matrix(memory, 8, 80, 1024, 64, lines_of_steps=True)
    b = matrix(memory, 4096, second[1] // 2, second[0] // 2, 16, lines_of_steps=transposed)
    np.testing.assert_array_equal(c, 2 * a @ b.T)


def test_threads_hold_the_sums_that_the_isa_says() -> None:
    memory, c = run(BEGIN + "wgmma_commit()\nwgmma_wait(0)\nfor k in range(8):\n    C[t * 8 + k] = sums[k]")
    a = matrix(memory, 8, 80, 1024, 64, lines_of_steps=True)
    b = matrix(memory, 4096, 400, 88, 16, lines_of_steps=False)
    held, wanted = c.reshape(128, 8), a @ b.T
    for thread, k, row, column in ((0, 0, 0, 0), (0, 1, 0, 1), (0, 2, 8, 0), (5, 0, 1, 2), (37, 7, 25, 11),
                                   (127, 4, 55, 14), (127, 3, 63, 7)):  # fmt: skip
        assert held[thread, k] == wanted[row, column]


def test_products_come_as_late_as_they_may() -> None:
    """What is overwritten before the wait is what is multiplied."""
    overwritten = "wgmma_commit()\ncuda.syncthreads()\nS[4096 + t] = S[t]\ncuda.syncthreads()\n"
    memory, c = run(BEGIN + overwritten + "wgmma_wait(0)\nwgmma_store(sums, C, 0, 16, t)")
    a = matrix(memory, 8, 80, 1024, 64, lines_of_steps=True)
    old = matrix(memory, 4096, 400, 88, 16, lines_of_steps=False)
    memory[4096 : 4096 + 128] = memory[:128]
    np.testing.assert_array_equal(c, a @ matrix(memory, 4096, 400, 88, 16, lines_of_steps=False).T)
    assert not np.array_equal(c, a @ old.T)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BEGIN.removeprefix("wgmma_fence()\n") + END, "set since the last wgmma_fence"),
        (BEGIN + "wgmma_commit()\nwgmma_store(sums, C, 0, 16, t)", "before their product was waited for"),
        (BEGIN + "wgmma_wait(0)\nwgmma_store(sums, C, 0, 16, t)", "before their product was waited for"),
        (BEGIN.replace("2048", "2056") + END, "multiples of 16 bytes"),
        (BEGIN.replace("S, 8,", "S, 8 + t // 64 * 8,") + END, "different operands together"),
        ("if t < 127:\n    wgmma_fence()\n    " + BEGIN.splitlines()[1] + "\n    wgmma_commit()\n    wgmma_wait(0)",
         "lane 127 of group 0.* never comes"),
        (BEGIN.replace("S, 4096", "S, 8000") + END, "of a shared array|of an array"),
    ],
    ids=["unfenced", "read early", "no group", "odd", "others", "never", "outside"],
)  # fmt: skip
def test_what_is_undefined_is_an_error(body: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "never comes" in message:
        monkeypatch.setattr(simulated_warps, "PATIENCE", 0.5)
    with pytest.raises(KernelFault, match=message):
        run(body)
