"""Conversions between dtypes: NumPy's bits at every level, for every half float and the corners of all others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te, topi
from minitvm.expr.dtypes import is_floating
from minitvm.graph import GraphBuilder
from minitvm.reference import graph as graph_interpreter
from minitvm.reference import kernel as kernel_interpreter
from minitvm.reference import te as te_interpreter
from minitvm.reference import tir as tir_interpreter
from minitvm.target import Target

HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
NARROW = ("int8", "uint8", "int16", "uint16", "int32")
COUNT = 203  # a tail for every width


def around(values: np.ndarray) -> np.ndarray:
    """The numbers, what lies halfway between two neighbours, and the next ones to either side of that."""
    exact = values.astype("float64")
    middle = (exact[:-1] + exact[1:]) / 2
    return np.concatenate([exact, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])


@cache
def samples(dtype: str) -> np.ndarray:
    """Numbers at which a conversion of that dtype goes wrong, in its bits."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        corners = [0, 1, info.max, info.max - 1, info.min, 2047, 2049, 4099, 65504, 65519, 65520, 65535, 2**24 + 1]
        spread = np.random.default_rng(1).integers(info.min, info.max, 600, dtype=kind, endpoint=True)
        return np.concatenate([np.array([c for c in corners if info.min <= c <= info.max], kind), spread])
    halves = {name: np.arange(65536, dtype=np.uint32).astype("uint16").view(name) for name in HALVES}
    if dtype in HALVES:
        return halves[dtype]
    with np.errstate(invalid="ignore"):  # signalling NaNs are among them
        finite = [np.sort(h[np.isfinite(h)].astype("float64")) for h in halves.values()]
    specials = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 6e-8, 65504, 65519.9, 65520, 7e4, 3e38, 1e-320, 1e300]
    with np.errstate(over="ignore"):
        return np.concatenate([*map(around, finite), specials]).astype(kind)


def within(values: np.ndarray, dtype: str) -> np.ndarray:
    """What a conversion to an integer is defined for."""
    kind = np.dtype(dtype)
    if not is_floating(values.dtype) or kind.kind not in "iu":
        return values
    info = np.iinfo(kind)
    with np.errstate(invalid="ignore"):
        wide = np.trunc(values.astype("float64"))
        return values[np.isfinite(values) & (wide >= info.min) & (wide <= info.max)]


def converted(values: np.ndarray, dtype: str) -> np.ndarray:
    """By NumPy; from integers to floats of 16 bits by way of float64.

    NumPy goes from integers to float16 through float32, and rounds twice. bfloat16 is reached through float32 from
    everywhere.
    """
    with np.errstate(all="ignore"):
        through = values.astype("float64") if dtype in HALVES and values.dtype.kind in "iu" else values
        return through.astype(dtype)


def same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal, signs of zeros and subnormals included; one NaN is as good as another."""
    assert found.dtype == wanted.dtype
    if not is_floating(wanted.dtype):
        np.testing.assert_array_equal(found, wanted)
        return
    unsigned = f"u{wanted.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.isnan(found), ~number)
    np.testing.assert_array_equal(found[number].view(unsigned), wanted[number].view(unsigned))


PAIRS = [
    *((a, b) for a in FLOATS for b in (*FLOATS, *NARROW, "bool") if a != b),
    *((a, b) for a in NARROW for b in (*HALVES, "float32", "int8", "uint8", "int32") if a != b),
]


@cache
def module(source: str) -> Any:
    """All conversions from one dtype in one module, of any number of elements."""
    b = GraphBuilder()
    x = b.input("x", (te.size_var("n"),), source)
    return minitvm.build(b.build([b.op("cast", x, dtype=to) for a, to in PAIRS if a == source]), threads=1)


@pytest.mark.parametrize("source", [*FLOATS, *NARROW])
def test_compiled(source: str) -> None:
    """Every sample goes through vectors and, at another length, through the tail."""
    targets = [to for a, to in PAIRS if a == source]
    for k, to in enumerate(targets):
        values = within(samples(source), to)
        for part in (values, values[: len(values) // 16 * 16 - 5], values[:3]):
            same_bits(module(source)(part)[k], converted(part, to))


def rounded_before_it_is_used(target: str, source: str) -> None:
    """A number that becomes a half float is rounded where it is used in registers, not only where it is stored."""
    values = samples(source)
    b = GraphBuilder()
    x = b.input("x", (len(values),), source)
    halves = [b.op("cast", x, dtype=half) for half in HALVES if half != source]
    built = minitvm.build(b.build([b.op("cast", half, dtype="float64") for half in halves]), target=target, threads=1)
    for found, half in zip(np.atleast_2d(built(values)), (half for half in HALVES if half != source), strict=True):
        same_bits(np.asarray(found), converted(converted(values, half), "float64"))


def rounded_on_a_device() -> None:
    """A check without arguments, by which faults are noticed."""
    for source in NARROW:
        rounded_before_it_is_used("opencl", source)


@pytest.mark.parametrize("source", [*FLOATS, *NARROW])
@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_halves_are_rounded_before_they_are_used(target: str, source: str) -> None:
    if target == "opencl":
        pytest.importorskip("pyopencl")
    rounded_before_it_is_used(target, source)


def function(source: str, to: str) -> Any:
    a = te.placeholder((COUNT,), source, name="A")
    return [a, topi.cast(a, dtype=to)]


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_interpreted(source: str, to: str) -> None:
    """te, tir, the kernels of three vector widths, and the graph."""
    chosen = np.random.default_rng(3).permutation(within(samples(source), to))
    values = np.concatenate([within(samples(source), to)[-40:], np.resize(chosen, COUNT)])[:COUNT]
    wanted = converted(values, to)
    tensors = function(source, to)
    same_bits(te_interpreter.evaluate([tensors[1]], {tensors[0]: values})[0], wanted)
    func = te.create_prim_func(tensors)
    found = np.zeros(COUNT, to)
    tir_interpreter.run(func, values, found)
    same_bits(found, wanted)
    b = GraphBuilder()
    graph = b.build(b.op("cast", b.input("x", (COUNT,), source), dtype=to))
    same_bits(graph_interpreter.run(graph, [values])[0], wanted)
    for bits in (128, 256, 512):
        (kernels,) = minitvm.lower(graph, Target(f"cpu -vector_bits={bits}"), "kernel").values()
        found = np.zeros(COUNT, to)
        kernel_interpreter.run(kernels, values, found)
        same_bits(found, wanted)


@pytest.mark.parametrize(("source", "to"), [("float16", "float32"), ("float32", "float16"), ("uint8", "float32")])
def test_conversions_are_vectors(source: str, to: str) -> None:
    b = GraphBuilder()
    graph = b.build(b.op("cast", b.input("x", (64,), source), dtype=to))
    (text,) = minitvm.lower(graph, Target("cpu -vector_bits=256"), "source").values()
    short = {"float16": "f16", "float32": "f32"}[to]
    assert f"{short}x8(load(" in text
