"""Scans, sorts and scatters: the definition's results for every shape and axis, ties and NaN, in few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import te, topi
from minitvm.events import Access, Listener
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.reference import tir as loops
from minitvm.tir.nodes import PrimFunc

Run = Callable[..., Any]
DTYPES = ("float32", "float64", "int32", "uint8", "int8")


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[np.ndarray], dict[str, Any]]:
    """An operator, arrays and attributes: axes from 0 to 40 long, few different values, NaN and infinities."""
    shape = draw(st.lists(st.integers(0, 3), max_size=2))
    axis = draw(st.integers(0, len(shape)))
    extent = draw(st.sampled_from([0, 1, 2, 3, 7, 16, 17, 40]))
    shape.insert(axis, extent)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    dtype = draw(st.sampled_from(DTYPES))
    low = 0 if dtype == "uint8" else -3

    def data(*dims: int) -> np.ndarray:
        x = rng.integers(low, 4, dims).astype(dtype)
        if x.dtype.kind == "f" and draw(st.booleans()):
            x[rng.random(dims) < 0.2] = np.nan
            x[rng.random(dims) < 0.1] = np.inf
        return x

    x, flags = data(*shape), st.booleans()
    op = draw(st.sampled_from(["argsort", "topk", "cumsum", "scatter_elements"]))
    if op == "argsort":
        return op, [x], {"axis": axis, "is_ascend": draw(flags)}
    if op == "topk":
        k = draw(st.sampled_from([0, 1, 2, extent // 8, extent // 2, extent]))
        return op, [x], {"axis": axis, "is_ascend": draw(flags), "k": min(k, extent)}
    if op == "cumsum":
        return op, [x], {"axis": axis, "exclusive": draw(flags), "reverse": draw(flags)}
    other = [draw(st.integers(0, n)) for n in shape]
    other[axis] = draw(st.integers(0, 9))
    indices = rng.integers(-extent - 1, extent + 2, other)
    attrs = {"axis": axis, "reduction": draw(st.sampled_from(["none", "add", "mul", "max", "min"]))}
    return op, [x, indices.astype(draw(st.sampled_from(["int64", "int32", "int8"]))), data(*other)], attrs


def graph_of(op: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> Graph:
    b = GraphBuilder()
    made = b.op(op, *(b.input(f"x{k}", a.shape, a.dtype.name) for k, a in enumerate(arrays)), **attrs)
    return b.build(list(made) if isinstance(made, tuple) else made)


@given(calls())
@settings(max_examples=120)
def test_every_line_is_what_the_definition_says(run: Run, call: Any) -> None:
    op, arrays, attrs = call
    wanted = interpreter.run(graph_of(op, arrays, attrs), {f"x{k}": a for k, a in enumerate(arrays)})
    with np.errstate(invalid="ignore"):
        found = run(getattr(topi, op), *arrays, **attrs)
    for one, other in zip(found if isinstance(found, list) else [found], wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [("topk", {"k": 5}), ("topk", {"k": 300, "is_ascend": True}), ("argsort", {"axis": 0}), ("cumsum", {"axis": 1})],
)
def test_compiled(op: str, attrs: dict[str, Any], rng: np.random.Generator) -> None:
    x = rng.integers(-99, 99, (70, 301)).astype("float32")
    x[3, 5:20] = np.nan
    graph = graph_of(op, [x], attrs)
    found = minitvm.build(graph)(x0=x)
    wanted = interpreter.run(graph, {"x0": x})
    for one, other in zip(found if isinstance(found, list | tuple) else [found], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)


def test_open_sizes(run: Run, rng: np.random.Generator) -> None:
    n = te.size_var("n")
    x = te.placeholder((2, n), name="x")
    array = rng.integers(0, 9, (2, 12)).astype("float32")
    for made, wanted in [
        (topi.cumsum(x, axis=1), np.cumsum(array, 1)),
        (topi.argsort(x), np.argsort(array, 1, kind="stable")),
        (topi.topk(x, k=3)[0], -np.sort(-array, 1)[:, :3]),
    ]:
        func = te.create_prim_func([x, made])
        found = np.zeros(wanted.shape, made.dtype.numpy)
        loops.run(func, array, found)
        np.testing.assert_array_equal(found, wanted)


class Loads(Listener):
    """Counts the elements that are read."""

    count = 0

    def load(self, access: Access) -> None:
        """One more."""
        self.count += 1


def _loads(op: str, extent: int, **attrs: Any) -> int:
    x = te.placeholder((extent,), name="x")
    made = getattr(topi, op)(x, **attrs)
    outputs = made if isinstance(made, list) else [made]
    func: PrimFunc = te.create_prim_func([x, *outputs])
    data = np.random.default_rng(0).permutation(extent).astype("float32")
    listener = Loads()
    results = [np.zeros([int(d) for d in t.shape], t.dtype.numpy) for t in outputs]
    loops.run(func, data, *results, listeners=[listener])
    return listener.count


@pytest.mark.parametrize(("op", "attrs", "most"), [("cumsum", {}, 2.1), ("topk", {"k": 4}, 2.1), ("argsort", {}, 2.6)])
def test_twice_the_elements_are_about_twice_the_work(op: str, attrs: dict[str, Any], most: float) -> None:
    assert _loads(op, 512, **attrs) <= most * _loads(op, 256, **attrs)


@pytest.mark.parametrize("shape", [(3, 17), (2, 600), (0, 4)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_of_rows_read_nothing_that_is_not_written(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], exclusive: bool
) -> None:
    """The verifier of executables sees a result as written only: totals are kept beside it."""
    monkeypatch.setenv("MINITVM_VERIFY", "1")
    b = GraphBuilder("sums")
    graph = b.build(b.op("cumsum", b.input("x", shape), axis=0, exclusive=exclusive))
    x = np.random.default_rng(0).integers(-4, 5, shape).astype("float32")
    expected = np.cumsum(x, axis=0) - (x if exclusive else 0)
    np.testing.assert_array_equal(minitvm.build(graph, threads=1)(x), expected)


def test_a_pad_of_nothing_is_a_tensor_of_its_own() -> None:
    b = GraphBuilder("pad")
    graph = b.build(b.op("nn.pad", b.input("x", (3,)), pad_width=((0, 0),)))
    np.testing.assert_array_equal(minitvm.build(graph, threads=1)(np.ones(3, "float32")), np.ones(3, "float32"))
