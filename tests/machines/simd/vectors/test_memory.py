"""Loads, stores, masks, gathers, and moving lanes about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm.errors import InternalError
from minitvm.machines.cpu.runtime import machine_instructions
from minitvm.machines.cpu.runtime.compiler import compile_kernel, kernel_assembly
from minitvm.machines.simd.vectors import simd
from minitvm.machines.simd.vectors.lanes import ELEMENTS

GUARD = 77


def filled(dtype: str, count: int) -> Any:
    return (np.arange(count) % 2).astype(bool) if dtype == "bool" else (np.arange(count) + 1).astype(dtype)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("element", ELEMENTS)
def test_masked_access_touches_nothing_else(kernel: Any, element: str, lanes: int) -> None:
    """A copy of n elements at an odd offset, in whole vectors and a masked tail, for each n."""
    run = kernel(
        "from minitvm.machines.simd.vectors.simd import first, load, load_masked, store, store_masked\n"
        f"from minitvm.machines.simd.vectors.simd import pointer_{element}\n"
        f"def kernel(args, thread, threads):\n"
        f"    A = pointer_{element}(args[0])\n    R = pointer_{element}(args[1])\n    n = args[2]\n"
        f"    whole = n // {lanes} * {lanes}\n"
        f"    for i in range(0, whole, {lanes}):\n        store(R, i + 1, load(A, i + 1, {lanes}))\n"
        f"    m = first(n - whole, {lanes})\n"
        f"    store_masked(R, whole + 1, load_masked(A, whole + 1, m), m)\n"
    )
    dtype = ELEMENTS[element].dtype
    for n in range(2 * lanes + 1):
        a = filled(dtype, n + 1)
        r = np.full(n + 1 + lanes, GUARD, dtype)
        run(a, r, n)
        np.testing.assert_array_equal(r[1 : n + 1], a[1:])
        assert (r[0] == np.full(1, GUARD, dtype)).all() and (r[n + 1 :] == np.full(1, GUARD, dtype)).all()


@pytest.mark.parametrize("instruction", [True, False], ids=["as on this machine", "gathered"])
@pytest.mark.parametrize("lanes", [4, 16, 32, 64])
def test_bytes_are_places_in_a_table(kernel: Any, monkeypatch: Any, lanes: int, instruction: bool) -> None:
    """Every byte, from a table of unsigned and of signed ones, at any address."""
    if not instruction:
        monkeypatch.setattr(machine_instructions, "has_vbmi", lambda: False)
    run = kernel(
        f"from minitvm.machines.simd.vectors.simd import load, lookup, pointer_i8, pointer_u8, store  # {instruction}\n"
        f"def kernel(args, thread, threads):\n"
        f"    A = pointer_u8(args[0])\n    B = pointer_i8(args[1])\n    X = pointer_u8(args[2])\n"
        f"    R = pointer_u8(args[3])\n    S = pointer_i8(args[4])\n"
        f"    for i in range(0, 256, {lanes}):\n"
        f"        store(R, i, lookup(A, load(X, i, {lanes})))\n"
        f"        store(S, i, lookup(B, load(X, i, {lanes})))\n"
    )
    rng = np.random.default_rng(lanes)
    a, b = rng.integers(0, 256, 257).astype("uint8")[1:], rng.integers(-128, 128, 256).astype("int8")
    x, r, s = rng.permutation(256).astype("uint8"), np.empty(256, "uint8"), np.empty(256, "int8")
    run(a, b, x, r, s)
    np.testing.assert_array_equal(r, a[x])
    np.testing.assert_array_equal(s, b[x])


@pytest.mark.parametrize("element", ELEMENTS)
def test_gather_and_scatter(kernel: Any, element: str) -> None:
    dtype = ELEMENTS[element].dtype
    run = kernel(
        f"from minitvm.machines.simd.vectors.simd import gather, load, pointer_i32, pointer_{element}\n"
        "from minitvm.machines.simd.vectors.simd import ramp, scatter, store\n"
        f"def kernel(args, thread, threads):\n"
        f"    A = pointer_{element}(args[0])\n    I = pointer_i32(args[1])\n    R = pointer_{element}(args[2])\n"
        f"    S = pointer_{element}(args[3])\n    start = args[4]\n"
        f"    at = load(I, 0, 8)\n"
        f"    store(R, 0, gather(A, at))\n"
        f"    store(R, 8, gather(A, ramp(start, -3, 8)))\n"
        f"    store(R, 16, gather(A, at, at > 11))\n"
        f"    scatter(S, at, load(A, 0, 8))\n"
        f"    scatter(S, at, load(A, 8, 8), at > 11)\n"
    )
    a = filled(dtype, 32)
    at = np.array([3, 0, 31, 7, 12, 13, 2, 20], np.int32)
    r, s = np.zeros(24, dtype), np.zeros(32, dtype)
    run(a, at, r, s, 29)
    np.testing.assert_array_equal(r[:8], a[at])
    np.testing.assert_array_equal(r[8:16], a[29 - 3 * np.arange(8)])
    np.testing.assert_array_equal(r[16:], np.where(at > 11, a[at], np.zeros(1, dtype)))
    wanted = np.zeros(32, dtype)
    wanted[at] = a[:8]
    wanted[at[at > 11]] = a[8:16][at > 11]
    np.testing.assert_array_equal(s, wanted)


@pytest.mark.parametrize("lanes", [1, 3, 4, 7, 16])
def test_lanes(kernel: Any, lanes: int) -> None:
    n = lanes
    run = kernel(
        "from minitvm.machines.simd.vectors.simd import (broadcast, concat, extract, f32, insert, lanes, load,\n"
        "    pointer_f32, ramp, reduce_add, reduce_max, reduce_min, reduce_mul, select, shuffle, stack_f32, store)\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f32(args[0])\n    R = pointer_f32(args[1])\n    i = args[2]\n"
        f"    a = load(A, 0, {n})\n    b = load(A, {n}, {n})\n"
        f"    store(R, 0, concat(a, b, a))\n"
        f"    store(R, {3 * n}, shuffle(a, b, {', '.join(str(2 * n - 1 - k) for k in range(n))}))\n"
        f"    store(R, {4 * n}, insert(broadcast(f32(0.5), {n}), i, extract(b, i)))\n"
        f"    store(R, {5 * n}, ramp(b[i], 2, {n}))\n"
        f"    store(R, {6 * n}, select(a > b, a, f32(-1.0)))\n"
        f"    store(R, {7 * n}, lanes(concat(a, b), {n // 2}, {n}))\n"
        f"    S = stack_f32({n})\n    store(S, 0, a)\n    S[i] = f32(9.0)\n    store(R, {8 * n}, load(S, 0, {n}))\n"
        f"    R[{9 * n}] = reduce_add(a)\n    R[{9 * n + 1}] = reduce_mul(a)\n"
        f"    R[{9 * n + 2}] = reduce_max(a)\n    R[{9 * n + 3}] = reduce_min(a)\n"
    )
    rng = np.random.default_rng(n)
    x = rng.permutation(2 * n).astype(np.float32) + 1
    a, b, i = x[:n], x[n:], n - 1
    r = np.empty(9 * n + 4, np.float32)
    run(x, r, i)
    rows = r[: 9 * n].reshape(9, n)
    half = np.full(n, 0.5, np.float32)
    half[i] = b[i]
    spill = a.copy()
    spill[i] = 9
    np.testing.assert_array_equal(rows[:3], [a, b, a])
    np.testing.assert_array_equal(rows[3], x[::-1][:n])
    np.testing.assert_array_equal(rows[4], half)
    np.testing.assert_array_equal(rows[5], b[i] + 2 * np.arange(n))
    np.testing.assert_array_equal(rows[6], np.where(a > b, a, -1))
    np.testing.assert_array_equal(rows[7], x[n // 2 : n // 2 + n])
    np.testing.assert_array_equal(rows[8], spill)
    np.testing.assert_allclose(r[9 * n :], [a.sum(), a.prod(), a.max(), a.min()], rtol=1e-6)


def test_reductions_with_nan_and_bits(kernel: Any) -> None:
    run = kernel(
        "from minitvm.machines.simd.vectors.simd import (i32x8, load, pointer_f32, pointer_i32, reduce_and,\n"
        "    reduce_max, reduce_min, reduce_or)\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f32(args[0])\n    R = pointer_f32(args[1])\n    S = pointer_i32(args[2])\n"
        "    a = load(A, 0, 8)\n    R[0] = reduce_max(a)\n    R[1] = reduce_min(a)\n"
        "    b = i32x8(load(A, 8, 8))\n    S[0] = reduce_and(b)\n    S[1] = reduce_or(b)\n"
        "    S[2] = reduce_or(a > 6.0)\n    S[3] = reduce_and(a > 6.0)\n"
    )
    a = np.array([1, 2, 3, np.nan, 5, 6, 7, 8, *range(8, 16)], np.float32)
    r, s = np.empty(2, np.float32), np.empty(4, np.int32)
    run(a, r, s)
    assert np.isnan(r).all()
    assert s.tolist() == [8, 15, 1, 0]


def test_scalar_parameters(kernel: Any) -> None:
    """Words of the argument table: integers by value, floats by their bits."""
    from minitvm.machines.cpu.runtime.program import scalar_word

    values = {"i8": -3, "u8": 250, "i32": -(2**31), "u32": 2**32 - 1, "i64": -(2**63), "u64": 2**64 - 1, "b1": 1,
              "f16": 1.5, "bf16": -2.5, "f32": -0.1, "f64": 1e300}  # fmt: skip
    for element, value in values.items():
        run = kernel(
            f"from minitvm.machines.simd.vectors.simd import pointer_{element}, scalar_{element}\n"
            f"def kernel(args, thread, threads):\n"
            f"    R = pointer_{element}(args[0])\n    R[0] = scalar_{element}(args[1])\n"
        )
        r = np.zeros(1, ELEMENTS[element].dtype)
        run(r, scalar_word(value, ELEMENTS[element].dtype))
        assert r[0] == np.array(value, r.dtype)


def test_a_request_for_memory_reads_nothing(kernel: Any) -> None:
    run = kernel(
        "from minitvm.machines.simd.vectors.simd import pointer_f32, prefetch\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f32(args[0])\n    prefetch(A, 1)\n    prefetch(A, -(1 << 40))\n    A[0] = A[0] + A[0]\n"
    )
    a = np.ones(1, np.float32)
    run(a)
    assert a[0] == 2


def test_a_request_for_memory_is_one_instruction() -> None:
    assembly = kernel_assembly(
        "from minitvm.machines.simd.vectors.simd import pointer_f32, prefetch\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f32(args[0])\n    for i in range(100):\n        prefetch(A, i * 16)\n",
        "kernel",
    )
    assert "prefetcht0" in assembly or "pldl1keep" in assembly  # into the L1 cache


def test_vectors_fill_the_widest_registers() -> None:
    """16 float32 are one register where the machine has such; LLVM may prefer half the width unless told otherwise."""
    import llvmlite.binding as llvm

    if not llvm.get_host_cpu_features().get("avx512f"):
        pytest.skip("no AVX-512")
    text = kernel_assembly(
        "from minitvm.machines.simd.vectors.simd import f32x16, fma, load, pointer_f32, store\n"
        "def kernel(args, thread, threads):\n    A = pointer_f32(args[0])\n"
        "    for i in range(0, args[1], 16):\n        store(A, i, fma(load(A, i, 16), load(A, i, 16), f32x16(1.0)))\n",
        "kernel",
    )
    assert any("vfmadd" in line and "zmm" in line for line in text.splitlines())


def test_source_that_does_not_compile_is_shown_with_line_numbers() -> None:
    source = (
        "from minitvm.machines.simd.vectors.simd import load\n\n"
        "def bad(args, thread, threads):\n    x = load(args, 3)\n"
    )
    with pytest.raises(InternalError, match=r"(?s)kernel bad does not compile.*   4      x = load\(args, 3\)"):
        compile_kernel(source, "bad")
    with pytest.raises(InternalError, match="kernel bad does not compile"):
        compile_kernel("from minitvm.machines.simd.vectors.simd import f32x99\n", "bad")
    with pytest.raises(InternalError, match="kernel bad does not compile"):
        compile_kernel("def other(args, thread, threads):\n    pass\n", "bad")


def test_every_name_of_the_contract_exists() -> None:
    import re

    text = simd.__doc__ or ""
    named = re.findall(r"^    ((?:[a-z_0-9]+ +){2,}[a-z_0-9]+)", text, re.M)
    words = {w for line in named for w in line.split() if w not in ("import",)}
    assert len(words) > 40
    for word in words - {"at", "most", "else", "both", "sides", "are", "evaluated", "each"}:
        if re.fullmatch(r"[a-z][a-z_0-9]+", word):
            getattr(simd, word)


def test_a_name_out_of_range_is_refused() -> None:
    for name in ("f32x0", "f32x65", "f8x4", "nothing"):
        with pytest.raises(AttributeError):
            getattr(simd, name)
