"""Every element-wise operation against NumPy, on every dtype, as a scalar and in 4 and 16 lanes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minitvm.expr.dtypes import is_floating, limits
from minitvm.machines.cpu.runtime import machine_instructions
from minitvm.machines.simd.vectors.lanes import ELEMENTS

COUNT = 48
LANES = [0, 4, 16]  # on most machines 16 take two instructions of 8
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _floor_divide(a: Any, b: Any) -> Any:
    if is_floating(a.dtype):
        return np.floor(a / b)
    return np.floor_divide(a, b)


def _truncated_divide(a: Any, b: Any) -> Any:
    """C's quotient, by exact Python integers; x / 0 is 0 and the result wraps."""
    exact = [
        0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.tolist(), b.tolist())
    ]
    bits = 8 * a.dtype.itemsize
    wrapped = [e & ((1 << bits) - 1) for e in exact]
    return np.array([w - (1 << bits) if a.dtype.kind == "i" and w >> (bits - 1) else w for w in wrapped], a.dtype)


def _truncated_modulo(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0, a - _truncated_divide(a, b) * b).astype(a.dtype)


def _shift(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def shift(a: Any, b: Any) -> Any:
        bits = 8 * a.dtype.itemsize
        unsigned = b.astype(f"u{a.dtype.itemsize}")
        inside = unsigned < bits
        far = np.where((a < 0) & (op is operator.rshift), -1, 0).astype(a.dtype)
        return np.where(inside, op(a, np.where(inside, b, 0)), far).astype(a.dtype)

    return shift


# name, what NumPy says, kinds
BINARY: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    ("add", np.add, "fiub"), ("sub", lambda a, b: a ^ b if a.dtype == bool else a - b, "fiub"),
    ("mul", np.multiply, "fiub"), ("div", lambda a, b: a / b, "f"), ("truncdiv", _truncated_divide, "iu"),
    ("truncmod", _truncated_modulo, "iu"), ("floordiv", _floor_divide, "fiu"), ("floormod", np.mod, "iu"),
    ("maximum", np.maximum, "fiub"), ("minimum", np.minimum, "fiub"),
    ("max_select", lambda a, b: np.where(a > b, a, b), "fiub"),
    ("min_select", lambda a, b: np.where(a < b, a, b), "fiub"),
    ("bitand", np.bitwise_and, "iub"), ("bitor", np.bitwise_or, "iub"), ("bitxor", np.bitwise_xor, "iub"),
    ("shl", _shift(operator.lshift), "iu"), ("shr", _shift(operator.rshift), "iu"), ("copysign", np.copysign, "f"),
]  # fmt: skip
COMPARE = [(name, getattr(np, full), "fiub") for name, full in (
    ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("eq", "equal"),
    ("ne", "not_equal"),
)]  # fmt: skip
UNARY: list[tuple[str, Callable[[Any], Any], str]] = [
    ("neg", lambda a: -a, "fiu"), ("absolute", np.abs, "fiub"), ("sign", np.sign, "fiu"), ("invert", np.invert, "iub"),
    ("popcount", lambda a: np.bitwise_count(a.view(f"u{a.dtype.itemsize}")).astype(a.dtype), "iu"),
    ("sqrt", np.sqrt, "f"), ("floor", np.floor, "f"), ("ceil", np.ceil, "f"), ("trunc", np.trunc, "f"),
    ("rint", np.rint, "f"), ("round_away", lambda a: np.copysign(np.floor(np.abs(a) + a.dtype.type(0.5)), a), "halves"),
]  # fmt: skip
TESTS = [("isnan", np.isnan, "f"), ("isinf", np.isinf, "f"), ("isfinite", np.isfinite, "f")]


def rows(kind: str) -> list[tuple[str, Any, int, bool]]:
    """(name, reference, arity, gives a mask) of the operations on a kind of dtype."""
    found = [(n, f, 2, False) for n, f, k in BINARY if kind in k] + [
        (n, f, 2, True) for n, f, k in COMPARE if kind in k
    ]
    return (
        found
        + [(n, f, 1, False) for n, f, k in UNARY if kind in k]
        + [(n, f, 1, True) for n, f, k in TESTS if kind in k]
    )


@functools.cache
def source(element: str, lanes: int) -> str:
    """One kernel that applies every operation: results of one dtype in R, masks in M, a row of COUNT each."""
    e = ELEMENTS[element]
    body, results, masks, names = [], 0, 0, set()
    for name, _, arity, mask in rows(e.kind):
        names.add(name)
        out, row = ("M", masks) if mask else ("R", results)
        masks, results = masks + mask, results + (not mask)
        value = f"{name}({'a, b' if arity == 2 else 'a'})"
        body.append(
            f"        store({out}, {row * COUNT} + i, {value})"
            if lanes
            else f"        {out}[{row * COUNT} + i] = {value}"
        )
    imports = sorted({f"pointer_{element}", "pointer_b1", "load", "store", *names})
    get = [
        f"        {v} = load({p}, i, {lanes})" if lanes else f"        {v} = {p}[i]"
        for v, p in (("a", "A"), ("b", "B"))
    ]
    return "\n".join([
        f"from minitvm.machines.simd.vectors.simd import {', '.join(imports)}",
        "def kernel(args, thread, threads):",
        *(f"    {p} = pointer_{'b1' if p == 'M' else element}(args[{i}])" for i, p in enumerate("ABRM")),
        f"    for i in range(0, {COUNT}, {lanes or 1}):", *get, *body,
    ])  # fmt: skip


def arrays(dtype: str) -> st.SearchStrategy[Any]:
    """Arrays with the values at which arithmetic goes wrong."""
    d = np.dtype(dtype)
    if is_floating(d):
        ends = limits(d)
        corners = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, float(ends.max),
                   float(ends.tiny), float(ends.smallest_subnormal)]  # fmt: skip
        bits = np.dtype(f"u{d.itemsize}")
        patterns = [int(c) for c in np.array(corners, d).view(bits)]
        elements = st.one_of(st.sampled_from(patterns), st.integers(0, np.iinfo(bits).max))
        return hnp.arrays(bits, COUNT, elements=elements).map(lambda a: a.view(d))
    if d.kind == "b":
        return hnp.arrays(d, COUNT, elements=st.booleans())
    info = np.iinfo(d)
    corner = st.sampled_from([0, 1, info.min, info.max, info.max - 1, -1 if d.kind == "i" else 2])
    elements = st.one_of(corner, st.integers(max(-9, info.min), 70), st.integers(info.min, info.max))
    return hnp.arrays(d, COUNT, elements=elements)


def dot4(a: Any, b: Any) -> Any:
    """Of int32 words: unsigned bytes of a times signed bytes of b."""
    left, right = a.view("u1").reshape(-1, 4).astype("i4"), b.view("i1").reshape(-1, 4).astype("i4")
    return (left * right).sum(axis=1, dtype="i4")


def same(found: Any, wanted: Any) -> None:
    """Equal, NaN where NaN is wanted; the sign of a zero is not compared."""
    np.testing.assert_array_equal(plain(found), plain(wanted))


def plain(array: Any) -> Any:
    """An array of a dtype that `np.testing` knows."""
    return np.asarray(array, np.float32) if np.asarray(array).dtype.name == "bfloat16" else array


@pytest.mark.alike("lanes", "element")
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_against_numpy(kernel: Any, element: str, lanes: int) -> None:
    e = ELEMENTS[element]
    run = kernel(source(element, lanes))
    table = rows(e.kind)

    @quick
    @given(st.data())
    def check(data: Any) -> None:
        a, b = data.draw(arrays(e.dtype)), data.draw(arrays(e.dtype))
        masks = sum(mask for *_, mask in table)
        found = np.empty((len(table) - masks, COUNT), e.dtype)
        flags = np.empty((masks, COUNT), bool)
        run(a, b, found, flags)
        results, marks = iter(found), iter(flags)
        for name, reference, arity, mask in table:
            with np.errstate(all="ignore"):
                wanted = reference(a, b) if arity == 2 else reference(a)
            try:
                same(next(marks if mask else results), wanted)
            except AssertionError as error:
                raise AssertionError(f"{name} on {element}: a={a.tolist()} b={b.tolist()}") from error

    check()


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("target", ELEMENTS)
def test_conversions(kernel: Any, target: str, lanes: int) -> None:
    """From every dtype to `target`, for values that both hold (NumPy leaves the rest undefined)."""
    sources = [s for s in ELEMENTS if s != target]
    to = f"{target}x{lanes}" if lanes else target
    lines = []
    for k, s in enumerate(sources):
        value = f"{to}(load(A{k}, i, {lanes}))" if lanes else f"{to}(A{k}[i])"
        write = f"store(R, {k * COUNT} + i, {value})" if lanes else f"R[{k * COUNT} + i] = {value}"
        lines.append(
            f"    A{k} = pointer_{s}(args[{k}])\n    for i in range(0, {COUNT}, {lanes or 1}):\n        {write}"
        )
    names = ", ".join(sorted({to, "load", "store", *(f"pointer_{s}" for s in ELEMENTS)}))
    run = kernel(
        f"from minitvm.machines.simd.vectors.simd import {names}\n"
        f"def kernel(args, thread, threads):\n    R = pointer_{target}(args[{len(sources)}])\n" + "\n".join(lines)
    )
    rng = np.random.default_rng(7)
    found = np.empty((len(sources), COUNT), ELEMENTS[target].dtype)
    inputs = []
    for s in sources:
        d = np.dtype(ELEMENTS[s].dtype)
        values = rng.integers(0, 120, COUNT) + rng.choice([0.0, 0.25, 0.75], COUNT)
        to_float = ELEMENTS[target].kind == "f"
        both_signed = (is_floating(d) or d.kind == "i") and (to_float or target[0] == "i")
        values = np.where(rng.random(COUNT) < 0.5, -values, values) if both_signed else values
        x = (values > 60).astype(d) if d.kind == "b" else values.astype(d)
        if is_floating(d) and to_float:
            x[:4] = [np.nan, np.inf, -np.inf, -0.0]
        if d.kind in "iu" and target[0] in "iu":
            x = rng.integers(np.iinfo(d).min, np.iinfo(d).max, COUNT, dtype=d, endpoint=True)
        inputs.append(x)
    run(*inputs, found)
    for s, x, row in zip(sources, inputs, found):
        wanted = x.astype(ELEMENTS[target].dtype)
        np.testing.assert_array_equal(plain(row), plain(wanted), err_msg=f"{s} to {to}")


def test_float64_to_float16_rounds_once(kernel: Any) -> None:
    run = kernel(
        "from minitvm.machines.simd.vectors.simd import f16x8, load, pointer_f16, pointer_f64, store\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f64(args[0])\n    R = pointer_f16(args[1])\n"
        "    for i in range(0, args[2], 8):\n        store(R, i, f16x8(load(A, i, 8)))\n"
    )
    rng = np.random.default_rng(1)
    halves = rng.integers(0, 1 << 16, 4000).astype(np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = halves[:-1] / 2 + halves[1:] / 2  # ties; their neighbours would break in a rounding through float32
        near = np.nextafter(np.float64(1 + 2.0**-11), [0.0, 2.0])
        x = np.concatenate(
            [halves, middle, near, -near, np.nextafter(middle, np.inf), 10.0 ** rng.uniform(-9, 6, 4000)]
        )
        x = np.resize(x, len(x) // 8 * 8)
        wanted = x.astype(np.float16)
    found = np.empty_like(wanted)
    run(x, found, len(x))
    np.testing.assert_array_equal(found, wanted)


def test_operators_match_named_operations(kernel: Any) -> None:
    """`v + w` and `add(v, w)` are one thing; a scalar beside a vector is broadcast."""
    run = kernel(
        "from minitvm.machines.simd.vectors.simd import f32x4, i32x4, load, pointer_f32, pointer_i32, store\n"
        "def kernel(args, thread, threads):\n"
        "    A = pointer_f32(args[0])\n    B = pointer_i32(args[1])\n    R = pointer_f32(args[2])\n"
        "    S = pointer_i32(args[3])\n"
        "    a = load(A, 0, 4)\n    b = load(B, 0, 4)\n"
        "    store(R, 0, 2 * a + 1 - a / 4.0)\n"
        "    a += a\n    store(R, 4, -a)\n"
        "    store(S, 0, b // 3)\n    store(S, 4, b % -3)\n    store(S, 8, (b << 2) | (b >> 1) ^ (b & 5))\n"
        "    store(S, 12, i32x4((b < 0) | ~(a >= 3.0)))\n"
    )
    a, b = np.array([1, -2, 3.5, 0], np.float32), np.array([7, -7, 3, -1], np.int32)
    r, s = np.empty(8, np.float32), np.empty(16, np.int32)
    run(a, b, r, s)
    np.testing.assert_array_equal(r[:4], 2 * a + 1 - a / 4)
    np.testing.assert_array_equal(r[4:], -2 * a)
    np.testing.assert_array_equal(
        s.reshape(4, 4), [b // 3, b % -3, (b << 2) | (b >> 1) ^ (b & 5), (b < 0) | ~(2 * a >= 3)]
    )


@pytest.mark.parametrize("instruction", [True, False], ids=["as on this machine", "in two halves"])
@pytest.mark.parametrize("lanes", LANES)
def test_products_of_bytes(kernel: Any, monkeypatch: Any, lanes: int, instruction: bool) -> None:
    """The instruction, where there is one, and what is written out without it."""
    if not instruction:
        monkeypatch.setattr(machine_instructions, "has_vnni", lambda lanes: False)
    load = f"load(P, i, {lanes})" if lanes else "P[i]"
    put = "store({p}, i, {v})" if lanes else "{p}[i] = {v}"
    run = kernel("\n".join([
        f"# {instruction}",
        "from minitvm.machines.simd.vectors.simd import load, pointer_i32, store, dot4_u8i8, dot4_add",
        "def kernel(args, thread, threads):",
        *(f"    {p} = pointer_i32(args[{k}])" for k, p in enumerate("ABCRS")),
        f"    for i in range(0, {COUNT}, {lanes or 1}):",
        *(f"        {p.lower()} = {load.replace('P', p)}" for p in "ABC"),
        "        " + put.format(p="R", v="dot4_u8i8(a, b)"),
        "        " + put.format(p="S", v="dot4_add(a, b, c)"),
    ]))  # fmt: skip

    @quick
    @given(st.data())
    def check(data: Any) -> None:
        a, b, c = (data.draw(arrays("int32")) for _ in range(3))
        products, sums = np.empty_like(a), np.empty_like(a)
        run(a, b, c, products, sums)
        same(products, dot4(a, b))
        same(sums, c + dot4(a, b))

    check()
