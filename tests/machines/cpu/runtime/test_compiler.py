"""From kernel source to object code: what is left out of Numba's pipeline does not change the code."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.machines.cpu.runtime import compiler


def assembly(source: str) -> str:
    """The machine code of a kernel, without the numbers that Numba gives to what it compiles."""
    entry = source.rpartition("\ndef ")[2].partition("(")[0]
    return re.sub(r"_ZN\w+", "", compiler.kernel_assembly(source, entry))


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.isenabled()
    compiler.compile_kernel("def k(args, thread, threads):\n    args[0] = 1\n", "k")
    with pytest.raises(minitvm.errors.InternalError):
        compiler.compile_kernel("def k(args, thread, threads):\n    return args.nothing\n", "k")
    assert gc.isenabled() == before


SUMS = """
from minitvm.machines.simd.vectors.simd import f32x8, fma, load, pointer_f32, store

def kernel(args, thread, threads):
    data = pointer_f32(args[0])
    total = f32x8(0.0)
    for i in range(2):
        for k in range(12):
            x = load(data, 8 * k, 8)
            total = fma(x, x, total)
    store(data, 0, total)
"""


def test_a_long_kernel_keeps_its_loops(kernel: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    multiplied = {}
    for most in (compiler._LONG, 3):
        monkeypatch.setattr(compiler, "_LONG", most)
        multiplied[most] = assembly(SUMS).count("fma") + assembly(SUMS).count("vmulps")
        data = np.arange(96, dtype=np.float32)
        kernel(SUMS)(data)
        assert data[:8].tolist() == [2.0 * sum((8 * k + lane) ** 2 for k in range(12)) for lane in range(8)]
    assert multiplied[3] < 12 <= multiplied[240]
