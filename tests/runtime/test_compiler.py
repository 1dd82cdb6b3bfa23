"""From kernel source to object code: what is left out of Numba's pipeline does not change the code."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.types.functions import BaseFunction

import minitvm
from minitvm import te
from minitvm.build import lower
from minitvm.runtime.cpu import compiler

TWO_TYPES = """
from minitvm.runtime.vectors.simd import f32, load, pointer_f32, store

def kernel(args, thread, threads):
    data = pointer_f32(args[0])
    for i in range(3):
        x = 3 - i
        x = load(data, x, 1)
        store(data, i, x + f32(1))
"""


def dense() -> str:
    """The source of a matrix product with a bias, as the strategy schedules it."""
    a, b, c = (te.placeholder(shape, name=n) for n, shape in (("A", (24, 32)), ("B", (40, 32)), ("C", (40,))))
    r = te.reduce_axis((0, 32), name="r")
    product = te.compute((24, 40), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="P")
    result = te.compute((24, 40), lambda i, j: product[i, j] + c[j], name="D")
    func = te.create_prim_func([a, b, c, result])
    (source,) = lower(minitvm.tir.Schedule(func).mod, stop_at="source").values()
    return str(source)


def assembly(source: str) -> str:
    """The machine code of a kernel, without the numbers that Numba gives to what it compiles."""
    entry = source.rpartition("\ndef ")[2].partition("(")[0]
    return re.sub(r"_ZN\w+", "", compiler.kernel_assembly(source, entry))


def test_a_name_of_two_types_is_two_variables(kernel: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypingError):
        monkeypatch.setattr(compiler._RenamingPipeline, "_passes", compiler._KernelPipeline._passes)
        compiler._optimised_module(TWO_TYPES, "kernel")
    monkeypatch.undo()
    data = np.array([0, 1, 2, 10], np.float32)
    kernel(TWO_TYPES)(data)
    assert data.tolist() == [11, 3, 4, 10]


def test_renaming_changes_no_code_where_each_name_has_one_type(monkeypatch: pytest.MonkeyPatch) -> None:
    source = dense()
    short = assembly(source)
    monkeypatch.setattr(compiler._KernelPipeline, "_passes", compiler._RenamingPipeline._passes)
    assert assembly(source) == short
    assert short.count("\n") > 50


def test_numba_and_the_collector_are_left_as_they_were() -> None:
    before = BaseFunction.get_call_type, gc.isenabled()
    compiler.compile_kernel("def k(args, thread, threads):\n    args[0] = 1\n", "k")
    with pytest.raises(minitvm.errors.InternalError):
        compiler.compile_kernel("def k(args, thread, threads):\n    return args.nothing\n", "k")
    assert (BaseFunction.get_call_type, gc.isenabled()) == before


SUMS = """
from minitvm.runtime.vectors.simd import f32x8, fma, load, pointer_f32, store

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
