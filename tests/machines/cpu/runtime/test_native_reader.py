"""Native code and Python read the arguments of calls: they accept the same values, and see the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import MinitvmError
from minitvm.executable import (
    CallKernel,
    Constant,
    ConstantRef,
    Copy,
    Executable,
    Input,
    Kernel,
    KernelParam,
    Output,
    TensorSpec,
)
from minitvm.executable.alignment import address
from minitvm.expr import DType
from minitvm.machines.cpu.runtime import native_reader
from minitvm.machines.cpu.runtime import program as cpu_program
from minitvm.machines.cpu.runtime.native_reader import NativeReader, arrays_are_readable
from minitvm.machines.cpu.runtime.program import CpuProgram
from minitvm.runtime import GraphModule
from minitvm.runtime.argument_reader import ArgumentReader, ExpectedArray

DTYPES = ("float32", "int8", "bfloat16", "bool")
ADD = (
    "from minitvm.machines.simd.vectors.simd import pointer_f32\n"
    "def add(args, thread, threads):\n"
    "    a, b, c = pointer_f32(args[0]), pointer_f32(args[1]), pointer_f32(args[2])\n"
    "    for i in range(6):\n        c[i] = a[i] + b[i]\n"
)


class Subclass(np.ndarray):
    """An array of another type, which may mean anything."""


def program(shapes: list[tuple[int, ...]], dtypes: list[str], outputs: int) -> CpuProgram:
    """A program that writes zeros. The last arguments are its outputs."""
    specs = [TensorSpec(f"x{k}", DType(d), shape) for k, (shape, d) in enumerate(zip(shapes, dtypes))]
    inputs, written = tuple(specs[: len(specs) - outputs]), tuple(specs[len(specs) - outputs :])
    zeros = [np.zeros(shapes[len(inputs) + k], spec.dtype.numpy) for k, spec in enumerate(written)]
    constants = tuple(Constant(f"c{k}", s.dtype, z.shape, z) for k, (s, z) in enumerate(zip(written, zeros)))
    steps = tuple(Copy(Output(k), ConstantRef(k), zeros[k].nbytes) for k in range(outputs))
    return CpuProgram(Executable("zeros", "cpu", inputs, written, constants, (), (), steps), 1)


@st.composite
def calls(draw: st.DrawFn) -> tuple[CpuProgram, list[ExpectedArray], tuple[Any, ...], bool]:
    """A program, the types of its arguments, and values: most of them fit."""
    sizes = st.integers(0, 3)
    shapes = draw(st.lists(st.lists(sizes, max_size=3).map(tuple), min_size=1, max_size=4))
    dtypes = [draw(st.sampled_from(DTYPES)) for _ in shapes]
    outputs = draw(st.integers(0, len(shapes)))
    places: list[Any] = [Input(k) for k in range(len(shapes) - outputs)] + [Output(k) for k in range(outputs)]
    arrays = [ExpectedArray(place, DType(d), shape) for place, d, shape in zip(places, dtypes, shapes)]
    memory = np.zeros(512, np.uint8)
    values = tuple(draw(value(array, memory)) for array in arrays)
    return program(shapes, dtypes, outputs), arrays, values, draw(st.booleans())


@st.composite
def value(draw: st.DrawFn, array: ExpectedArray, memory: np.ndarray) -> Any:
    """An array as expected, or something else."""
    dtype, shape = array.dtype.numpy, array.shape
    good = np.zeros(shape, dtype)
    match draw(st.sampled_from(["good"] * 6 + ["part", "frozen", "other", "odd"])):
        case "part":  # of memory that other arguments use too
            start = draw(st.integers(0, 200))
            return memory[start : start + good.nbytes].view(dtype).reshape(shape)
        case "frozen":
            good.flags.writeable = False
        case "other":
            other = draw(st.sampled_from(DTYPES))
            return np.zeros((*shape, 1) if draw(st.booleans()) else shape[::-1], DType(other).numpy)
        case "odd":
            wide = np.zeros((*shape, 2), dtype)[..., 0]
            return draw(st.sampled_from([wide, good.T, good.view(Subclass), good.tolist(), None, "x", 1.0, dtype]))
    return good


@pytest.mark.skipif(not arrays_are_readable(), reason="Python or NumPy has another layout, so Python reads")
@settings(max_examples=300, deadline=None)
@given(calls())
def test_the_same_values_are_accepted(call: tuple[CpuProgram, list[ExpectedArray], tuple[Any, ...], bool]) -> None:
    """Only arrays without elements may be refused by native code alone: they share no memory wherever they are."""
    opened, arrays, values, shared = call
    bound = opened.bind((), {})
    native, plain = bound.reader(arrays), ArgumentReader(bound, arrays)
    assert type(native) is NativeReader
    accepted = plain.read(values, shared)
    if accepted and shared and not all(array.size for array in values):
        return
    assert native.read(values, shared) == accepted
    if accepted:
        for array, v in zip(arrays, values):
            assert {bound._args[slot] for slot in bound.slots(array.place)} == {v.__array_interface__["data"][0]}


def add() -> Executable:
    f32 = DType("float32")
    a, b, c = (TensorSpec(name, f32, (6,)) for name in "abc")
    params = (KernelParam("a", f32), KernelParam("b", f32), KernelParam("c", f32, access="w"))
    kernel = Kernel("add", "numba", ADD, "add", params)
    step = CallKernel(0, (Input(0), Input(1), Output(0)))
    return Executable("sum", "cpu", (a, b), (c,), (), (), (kernel,), (step,))


@pytest.mark.parametrize("readable", [True, False])
def test_calls_are_the_same_without_native_code(readable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_program, "arrays_are_readable", lambda: readable)
    module = GraphModule(add(), threads=1)
    a, b, out = np.arange(6, dtype=np.float32), np.ones(6, np.float32), np.zeros(6, np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(module(a, b), a + 1)
        np.testing.assert_array_equal(module(b=b, a=list(a)), a + 1)
        assert module(a, b, out=out) is out
        np.testing.assert_array_equal(out, a + 1)
        for bad in ({"out": a}, {"out": out[:5]}, {"out": [out, out]}, {"out": out.astype(np.int32)}, {"out": None}):
            with pytest.raises(MinitvmError):
                module(a, b if bad["out"] is not None else b.astype(np.float64), **bad)
    first, second = module(a, b), module(a, a)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, a + 1)


def test_another_layout_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word further, the type is not the type. Nothing is read through a pointer then."""
    items, header = native_reader._headers()
    for other in ((items, header + 1), (items + 1, header)):
        monkeypatch.setattr(native_reader, "_headers", lambda other=other: other)
        assert not arrays_are_readable.__wrapped__()
    assert address(np.zeros(3)) > 0
