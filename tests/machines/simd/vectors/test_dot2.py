"""`dot2_bf16`: the instruction of AVX-512 BF16, what is written out without it, OpenCL and CUDA, all the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minitvm import reference
from minitvm.expr import call, const
from minitvm.machines.cpu.runtime import machine_instructions
from minitvm.machines.cpu.runtime.compiler import kernel_assembly
from minitvm.reference.meaning.intrinsics import dot2_bf16
from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc
from tests.codegen.masked_kernels import run_compiled
from tests.machines.cuda.cuda_kernels import run_on_cuda
from tests.machines.opencl.opencl_kernels import run_on_device
from tests.machines.simd.codegen.brain_kernels import CORNERS, COUNT, products_alike, same

LANES = [0, 4, 8, 16]
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def words(size: int = COUNT) -> st.SearchStrategy[np.ndarray]:
    """Pairs of bfloat16, ordinary and extreme ones."""
    halves = st.one_of(st.sampled_from(CORNERS), st.integers(0x3E00, 0x4200), st.integers(0, 0xFFFF))
    return hnp.arrays(np.uint16, 2 * size, elements=halves).map(lambda a: a.view(np.int32))


def sums(size: int = COUNT) -> st.SearchStrategy[np.ndarray]:
    """float32, those near the end of the normal numbers among them."""
    corners = [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800001, 0x3F800000, 0x7F7FFFFF, 0xFF800000]
    bits = st.one_of(st.sampled_from(corners), st.integers(0x3E000000, 0x42000000), st.integers(0, 2**32 - 1))
    return hnp.arrays(np.uint32, size, elements=bits).map(lambda a: a.view(np.float32))


def source(lanes: int, why: str = "") -> str:
    """Kernel source that adds products of words of B and C to A, into R."""
    load = f"load({{}}, i, {lanes})" if lanes else "{}[i]"
    call = f"dot2_bf16({', '.join(load.format(p) for p in 'ABC')})"
    return "\n".join([
        f"from minitvm.machines.simd.vectors.simd import load, pointer_f32, pointer_i32, store, dot2_bf16  # {why}",
        "def kernel(args, thread, threads):",
        *(f"    {p} = pointer_{t}(args[{k}])" for k, (p, t) in enumerate(zip("ABCR", ("f32", "i32", "i32", "f32")))),
        f"    for i in range(0, {COUNT}, {lanes or 1}):",
        f"        store(R, i, {call})" if lanes else f"        R[i] = {call}",
    ])  # fmt: skip


@pytest.mark.parametrize("native", [True, False], ids=["the instruction", "by halves"])
@pytest.mark.parametrize("lanes", LANES)
def test_bits_on_this_cpu(kernel: Any, monkeypatch: Any, lanes: int, native: bool) -> None:
    if native and not machine_instructions.has_bf16(lanes or 16):
        pytest.skip("this CPU has no avx512_bf16")
    if not native:
        monkeypatch.setattr(machine_instructions, "has_bf16", lambda lanes: False)
    run = kernel(source(lanes, f"native: {native}"))

    @quick
    @given(sums(), words(), words())
    def check(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        result = np.empty_like(c)
        run(c, a, b, result)
        same(result, dot2_bf16(c, a, b))

    check()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_cpu_with_the_instruction_gets_it(monkeypatch: Any, lanes: int) -> None:
    """Compiled for Sapphire Rapids on any machine: one instruction for the vectors, none of what stands in for it."""
    monkeypatch.setenv("NUMBA_CPU_NAME", "sapphirerapids")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512bf16,+fma,+avx2")
    text = kernel_assembly(source(lanes, "for Sapphire Rapids"), "kernel")
    register = {4: "xmm", 8: "ymm", 16: "zmm"}[lanes]
    products = [line for line in text.splitlines() if "vdpbf16ps" in line]
    assert products and all(f"%{register}" in line for line in products)
    assert "vfmadd" not in text


@pytest.mark.parametrize(
    "run", [run_compiled, run_on_device, run_on_cuda], ids=["this CPU", "OpenCL", "CUDA, simulated"]
)
def test_bits_of_kernels(run: Callable[[PrimFunc, Sequence[np.ndarray]], list[np.ndarray]]) -> None:
    """Scalars and vectors; a sum with a product is one operation."""
    for seed in range(8):
        products_alike(seed, run)


def exactly(acc: float, a: Sequence[float], b: Sequence[float]) -> float:
    """The meaning of one lane from its definition: exact products and sums of fractions, rounded by NumPy."""
    from fractions import Fraction

    def flush(x: Any) -> np.float32:
        x = np.float32(x)
        return np.copysign(np.float32(0), x) if abs(x) < np.finfo(np.float32).tiny else x

    total = flush(acc)
    for left, right in reversed(list(zip(a, b, strict=True))):
        left, right = flush(left), flush(right)
        exact = Fraction(float(left)) * Fraction(float(right)) + Fraction(float(total))
        near = np.float32(float(exact))  # may round twice; the neighbours are looked at
        candidates = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
        gaps = [abs(Fraction(float(x)) - exact) for x in candidates]
        best = [x for x, gap in zip(candidates, gaps, strict=True) if gap == min(gaps)]
        total = flush(best[0] if len(best) == 1 else next(x for x in best if x.view(np.uint32) % 2 == 0))
    return float(total)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_definition(data: Any) -> None:
    """The interpreter against exact fractions, where no zero has a sign of its own and nothing overflows."""
    halves = st.one_of(st.integers(0, 0x5E00), st.integers(0x8000, 0xDE00))
    bits = [data.draw(st.lists(halves, min_size=2, max_size=2)) for _ in range(2)]
    a, b = (np.array(pair, np.uint16).view(ml_dtypes.bfloat16) for pair in bits)
    acc = np.uint32(data.draw(st.integers(0, 0x5E000000))).view(np.float32)
    wanted = exactly(acc, a.astype(np.float32), b.astype(np.float32))
    found = dot2_bf16(acc, a.view(np.int32)[0], b.view(np.int32)[0])
    assert found == np.float32(wanted)


def test_the_order_within_a_word() -> None:
    """The high halves are added first: with 2^24 in the sum, only then is the small product not lost twice."""
    acc = np.float32(-(2.0**24))
    a = np.array([1.0, 2.0**12], ml_dtypes.bfloat16).view(np.int32)[0]
    b = np.array([1.0, 2.0**12], ml_dtypes.bfloat16).view(np.int32)[0]
    assert dot2_bf16(acc, a, b) == 1.0  # (-2^24 + 2^24) + 1, where the other order loses the 1 on the way
    swapped = np.array([2.0**12, 1.0], ml_dtypes.bfloat16).view(np.int32)[0]
    assert dot2_bf16(np.float32(-(2.0**24) * 2), swapped, swapped) == -(2.0**24)


def test_meaning_of_a_sum_with_it() -> None:
    """`c + dot2_bf16(0, a, b)` is a sum that the instruction may do: compiled code stays within the bounds of both."""
    from minitvm.build import build

    func: Any = from_source("""
@T.prim_func
def main(A: T.Buffer((3, 8), "int32"), B: T.Buffer((3, 8), "int32"), C: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + T.dot2_bf16(T.float32(0), A[vi, vk], B[vi, vk])
""")
    built = build(func)
    for seed in range(4):
        inputs = reference.random_inputs(func, seed)
        results = [np.array(a) for a in inputs]
        built(*results)
        assert reference.bound.compare(func, inputs, results)
        # Products near the end of the normal numbers, which the instruction flushes where a plain sum does not.
        small = [(a.view(np.uint32) & 0x807F807F | 0x1F801F80).view(np.int32) for a in inputs[:2]]
        results = [*small, np.array(inputs[2])]
        built(*results)
        assert reference.bound.compare(func, [*small, inputs[2]], results)


def test_wrong_operands() -> None:
    from minitvm.errors import TypeMismatch

    with pytest.raises(TypeMismatch, match="takes float32, int32, int32"):
        call("dot2_bf16", const(0), const(1), const(2))
    made = call("dot2_bf16", const(0.0, "float32"), const(1), const(2))
    assert made.dtype == "float32"
