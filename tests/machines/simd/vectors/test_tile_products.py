"""Products of tiles of bytes: what the description says, on this CPU, and as AMX's instruction where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import reference, te, tir
from minitvm.machines.cpu.runtime.compiler import kernel_assembly
from minitvm.machines.cpu.runtime.loader import cpu_description
from minitvm.tir import TensorIntrin

NAME = "tile_dot_16x16x64_i8i8i32"


def product(rows: int = 32, depth: int = 128, columns: int = 48) -> Any:
    """rows x columns sums over `depth`; the second factor is in words of four rows."""
    a = te.placeholder((rows, depth), "int8", name="a")
    b = te.placeholder((depth // 4, columns, 4), "int8", name="b")
    ko, ki = te.reduce_axis((0, depth // 4), name="ko"), te.reduce_axis((0, 4), name="ki")

    def element(i: Any, j: Any) -> Any:
        return te.sum(a[i, ko * 4 + ki].astype("int32") * b[ko, j, ki].astype("int32"), axis=[ko, ki])

    return te.create_prim_func([a, b, te.compute((rows, columns), element, name="c")])


def tensorized(func: Any) -> Any:
    sch = tir.Schedule(func)
    i, j, ko, ki = sch.get_loops("c")
    (i, ti), (j, tj), (ko, tk) = (sch.split(loop, [None, 16]) for loop in (i, j, ko))
    sch.reorder(i, j, ko, ti, tj, tk, ki)
    sch.decompose_reduction("c", ko)
    sch.tensorize(ti, NAME)
    return sch.func


def test_the_meaning_is_the_description() -> None:
    func = product(16, 128, 16)
    assert reference.check(func, tensorized(func))
    assert TensorIntrin.get(NAME) is not None


def test_on_this_cpu() -> None:
    """All numbers: the least byte times itself, 128 times, and any other; results in the middle of a larger matrix."""
    rng = np.random.default_rng(0)
    func = tensorized(product())
    module = minitvm.build(func, target="cpu")
    for a, b in (
        (np.full((32, 128), -128, np.int8), np.full((32, 48, 4), -128, np.int8)),
        (rng.integers(-128, 128, (32, 128), np.int8), rng.integers(-128, 128, (32, 48, 4), np.int8)),
    ):
        c = np.zeros((32, 48), np.int32)
        module(a, b, c)
        plain = b.transpose(0, 2, 1).reshape(128, 48)
        np.testing.assert_array_equal(c, a.astype(np.int32) @ plain.astype(np.int32))


def test_without_the_instruction() -> None:
    """What any other CPU computes, on this one."""
    features = [name for name in cpu_description()[1].split(",") if "amx" not in name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CPU_FEATURES", ",".join(features))
        test_on_this_cpu()


def source() -> tuple[str, str]:
    executable = minitvm.lower(tensorized(product()), target="cpu", stop_at="executable")
    (kernel,) = executable.kernels
    return kernel.source, kernel.name


def test_a_cpu_with_the_instruction_gets_it(monkeypatch: Any) -> None:
    """Compiled for Sapphire Rapids on any machine: tiles are configured, loaded, multiplied and stored."""
    text, name = source()
    monkeypatch.setenv("NUMBA_CPU_NAME", "sapphirerapids")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+amx-tile,+amx-int8,+avx512f,+avx512vl,+avx512bw,+avx512dq,+fma,+avx2")
    assembly = kernel_assembly(text, name)
    for instruction in ("ldtilecfg", "tileloadd", "tdpbssd", "tilestored", "tilerelease"):
        assert instruction in assembly, instruction
    assert "vpmulld" not in assembly


def test_other_cpus_multiply_vectors(monkeypatch: Any) -> None:
    text, name = source()
    monkeypatch.setenv("NUMBA_CPU_NAME", "haswell")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+avx2,+fma")
    assembly = kernel_assembly(text, name)
    assert "tdpbssd" not in assembly and "pmulld" in assembly
