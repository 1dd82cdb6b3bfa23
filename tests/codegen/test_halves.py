"""OpenCL kernels that compute with halves of the device: what they say, and that it is what float32 gives."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.machines.opencl.codegen.statements import generate
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.tir.transform import lower
from tests.machines.opencl.opencl_kernels import run_on_device

HALF = Target("opencl -half_arithmetic=true")
PRAGMA = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"


@T.prim_func
def arithmetic(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float16"), C: T.Buffer((256,), "float16")):
    for i in range(64):
        for j in T.vectorized(4):
            with T.block("C"):
                v = T.axis.spatial(256, i * 4 + j)
                C[v] = T.max(A[v] * B[v] - A[v], B[v]) + A[v] / B[v]


@T.prim_func
def scalars(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float32"), C: T.Buffer((256,), "float16")):
    for i in range(256):
        with T.block("C"):
            v = T.axis.spatial(256, i)
            C[v] = T.Cast("float16", B[v] * B[v]) * A[v] + T.Cast("float16", v)


def kernel_of(func):
    (kernel,) = (f for name, f in lower(func, HALF).functions.items() if "kernel" in name)
    return kernel


def test_sums_and_products_are_of_halves_where_the_device_has_them() -> None:
    kernel = kernel_of(scalars)
    source = generate(kernel, HALF)
    assert PRAGMA in source and "rounded_float16" not in source
    assert "convert_half(vload_half(i, A))" in source
    wide = generate(kernel_of(arithmetic), HALF)
    assert "convert_float4(convert_half4(" in wide
    assert PRAGMA not in generate(kernel, Target("opencl"))


# PoCL's processors have no halves. A result of halves is that of float32, rounded once: so these names say it, too.
_EMULATED = "".join(
    f"static float{n} emulated{n}(float{n} x) {{ ushort h[{lanes}]; vstore_half{n}_rte(x, 0, (__private half *)h); "
    f"return vload_half{n}(0, (const __private half *)h); }}\n"
    f"#define convert_half{n}(x) (x)\n#define convert_float{n}(x) emulated{n}(x)\n"
    for n, lanes in (("", 1), ("4", 4))
)


@pytest.mark.parametrize("func", [arithmetic, scalars], ids=lambda func: func.name)
def test_halves_give_what_float32_gives(func) -> None:
    kernel = kernel_of(func)
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 1 << 16, (2, 256)).astype(np.uint16).view(np.float16)
    arrays = {"A": a, "B": b.astype(np.float32) if func is scalars else b, "C": np.zeros(256, np.float16)}
    given = [arrays[param.name] for param in kernel.params]
    expected = run_on_device(kernel, given)
    results = run_on_device(kernel, given, source=_EMULATED + generate(kernel, HALF).replace(PRAGMA, ""))
    for left, right in zip(expected, results, strict=True):
        np.testing.assert_array_equal(left, right)
    assert np.isfinite(results[[p.name for p in kernel.params].index("C")]).sum() > 50
