"""Every operation on every dtype, as C and as machine code of the CPU back end: the same bits."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from minitvm import expr as ex
from minitvm.expr import DType, Expr, Ramp, Var, const
from minitvm.expr.intrin import COLLECTIVES, INTRINSICS
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Seq, Stmt
from tests.codegen.masked_kernels import run_compiled
from tests.export.c.c_kernels import ARM, FAST, SANITIZERS, run_many

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
BINARY = (ex.Add, ex.Sub, ex.Mul, ex.Div, ex.Mod, ex.FloorDiv, ex.FloorMod, ex.Min, ex.Max)
COMPARED = (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)
ROWS = 48


def special_values(dtype: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Numbers of all magnitudes, those at which functions change their form, and the ends of the dtype."""
    if dtype == "bool":
        return rng.random(count) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        far = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        near = rng.integers(max(info.min, -9), 10, count).astype(dtype)
        return np.where(rng.random(count) < 0.5, far, near)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    bits = rng.integers(0, 1 << 8 * kind.itemsize, count, dtype=f"uint{8 * kind.itemsize}").view(kind)
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, -2, 3, 1e-40, 100, -100, 2.5, 5e4]).astype(kind)
    usual = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)).astype(kind)
    values = np.where(rng.random(count) < 0.3, bits, usual)
    values[: 2 * len(ends)] = np.tile(ends, 2)
    rng.shuffle(values)
    return values


def operations(a: Expr, b: Expr, c: Expr) -> Iterator[Expr]:
    """All operations on values of one dtype, and conversions from it."""
    dtype = a.dtype
    if not dtype.is_bool:
        yield from (kind(a, b) for kind in BINARY if dtype.is_int or kind not in (ex.FloorDiv, ex.FloorMod))
    yield from (kind(a, b) for kind in COMPARED)
    yield ex.Select(a < b, a, c)
    for name, row in INTRINSICS.items():
        fits = row.domain == "any" or (row.domain == "float") == dtype.is_float
        if not fits or not row.pure or row.operands or name in COLLECTIVES or dtype.is_bool:
            continue
        if name not in ("if_then_else", "reinterpret", "likely", "round_tf32") and (name, dtype.is_half) != (
            "fma",
            True,
        ):
            yield ex.call(name, *(a, b, c)[: row.arity])
    for to in (*INTEGERS, *FLOATS, "bool"):
        within = a
        if dtype.is_float and to in INTEGERS:  # larger numbers are undefined
            low, high = (const(x, dtype.scalar) for x in ((0 if to[0] == "u" else -100), 100))
            within = ex.Select(ex.And(a > _all(low, dtype), a < _all(high, dtype)), a, _all(low, dtype))
        yield ex.Cast(DType(to).with_lanes(dtype.lanes), within)
    for to in (*INTEGERS, *FLOATS):
        if DType(to).bits == dtype.bits and not dtype.is_bool:
            yield ex.Call(DType(to).with_lanes(dtype.lanes), "reinterpret", (a,))
    if dtype.lanes > 1 and not dtype.is_bool:
        reductions = ("min", "max", "add") if dtype.scalar in ("float32", "float64") else ("min", "max", "add", "mul")
        yield from (ex.Call(dtype.scalar, f"vector_reduce_{name}", (a,)) for name in reductions)


def _all(x: Expr, dtype: DType) -> Expr:
    return x if dtype.lanes == 1 else ex.Broadcast(x, dtype.lanes)


def of_all_operations(dtype: str, lanes: int, seed: int = 0) -> tuple[PrimFunc, list[np.ndarray]]:
    """A loop over rows of three arrays. Each operation stores a row of results."""
    rng, i = np.random.default_rng(seed), Var("i")
    sources = [Buffer(name, (const(ROWS * lanes),), dtype) for name in "ABC"]

    def row(buffer: Buffer, width: int) -> BufferLoad:
        return BufferLoad(buffer, (Ramp(i * width, const(1), width) if width > 1 else i * width,))

    stores: list[Stmt] = []
    results = []
    for number, value in enumerate(operations(*(row(source, lanes) for source in sources))):
        results.append(Buffer(f"R{number}", (const(ROWS * value.dtype.lanes),), str(value.dtype.scalar)))
        stores.append(BufferStore(results[-1], value, row(results[-1], value.dtype.lanes).indices))
    loop = For(i, const(0), const(ROWS), ForKind.SERIAL, Seq.of(*stores))
    func = PrimFunc((*sources, *results), loop, {"global_symbol": f"{dtype}_by_{lanes}"})
    arrays = [special_values(dtype, rng, ROWS * lanes) for _ in sources]
    return func, [*arrays, *(np.zeros(r.shape[0].value, r.dtype.numpy) for r in results)]


def same_bits(dtypes: tuple[str, ...], lanes: int, seed: int = 0, compiler: str = "gcc", *flags: str) -> None:
    cases = [of_all_operations(dtype, lanes, seed) for dtype in dtypes]
    results = run_many([(func, arrays, 1) for func, arrays in cases], compiler, flags or (*FAST, *SANITIZERS))
    for (func, arrays), got in zip(cases, results, strict=True):
        stores = ex.find(func.body, BufferStore)
        for array, expected, store in zip(got[3:], run_compiled(func, arrays)[3:], stores, strict=True):
            with np.errstate(invalid="ignore"):
                nan = (array != array) & (expected != expected)
            wrong = np.flatnonzero((array.view(f"u{array.itemsize}") != expected.view(f"u{array.itemsize}")) & ~nan)
            assert not len(wrong), (
                f"{store.value}\n in C {array[wrong[:5]]}\n compiled {expected[wrong[:5]]}\n"
                f" of {[a.reshape(ROWS, -1)[wrong[:5] * ROWS // len(array)] for a in arrays[:3]]}"
            )


# A sanitizer looks at integers; without it, C compiles in a tenth of the time.
SANITIZED, PLAIN = (*FAST, *SANITIZERS), FAST


@pytest.mark.parametrize(("dtypes", "lanes", "flags"), [
    (("int8", "uint32", "int64", "bool"), 1, SANITIZED), (("int16", "int32", "bool"), 8, SANITIZED),
    (("float16", "bfloat16", "float32", "float64"), 1, PLAIN), (("float32",), 16, PLAIN),
    (("float64", "int64"), 3, PLAIN), (("bfloat16", "float16"), 8, PLAIN),
])  # fmt: skip
def test_operations_have_the_bits_of_the_cpu(dtypes: tuple[str, ...], lanes: int, flags: tuple[str, ...]) -> None:
    same_bits(dtypes, lanes, 0, "gcc", *flags)


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 16, 32])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
def test_all_operations_have_the_bits_of_the_cpu(dtype: str, lanes: int, compiler: str) -> None:
    for seed, flags in enumerate((SANITIZED, ("-O3", "-march=native"), ("-O2",))):
        same_bits((dtype,), lanes, seed, compiler, *flags)


@pytest.mark.parametrize(("dtype", "lanes", "arch"), [
    ("float32", 4, "a76"), ("int8", 16, "a76"),
    *(pytest.param(dtype, lanes, arch, marks=pytest.mark.full)
      for dtype in (*INTEGERS, *FLOATS, "bool") for lanes, arch in ((1, "a53"), (3, "a76"), (8, "a53"), (16, "a76"))),
])  # fmt: skip
def test_operations_on_arm(dtype: str, lanes: int, arch: str) -> None:
    same_bits((dtype,), lanes, 1, ARM, "-O1", f"-mcpu=cortex-{arch}")


@pytest.mark.parametrize("flags", [FAST, ("-O1",)], ids=["instructions", "without"])
def test_products_of_words_have_the_bits_of_the_cpu(flags: tuple[str, ...]) -> None:
    """Bytes and bfloat16 in words, by instructions of the processor or without: scalars, and vectors of each width."""
    rng, i, stores, results = np.random.default_rng(0), Var("i"), [], []
    words = [Buffer(name, (const(ROWS * 16),), "int32") for name in "AB"]
    sums = Buffer("S", (const(ROWS * 16),), "float32")
    for lanes in (1, 2, 4, 8, 16):
        at = Ramp(i * 16, const(1), lanes) if lanes > 1 else i * 16
        a, b, c = (BufferLoad(buffer, (at,)) for buffer in (*words, sums))
        product = ex.call("dot4_u8i8", a, b)
        for value in (product, a + product, ex.call("dot2_bf16", c, a, b)):
            results.append(Buffer(f"R{len(results)}", (const(ROWS * 16),), str(value.dtype.scalar)))
            stores.append(BufferStore(results[-1], value, (at,)))
    loop = For(i, const(0), const(ROWS), ForKind.SERIAL, Seq.of(*stores))
    func = PrimFunc((*words, sums, *results), loop, {"global_symbol": "k"})
    arrays = [special_values("int32", rng, ROWS * 16) for _ in words]
    arrays += [special_values("float32", rng, ROWS * 16), *(np.zeros(ROWS * 16, r.dtype.numpy) for r in results)]
    (results,) = run_many([(func, arrays, 1)], flags=flags)
    for array, expected in zip(results, run_compiled(func, arrays), strict=True):
        np.testing.assert_array_equal(array, expected)
