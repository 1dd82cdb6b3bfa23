"""Scans, sorts and scatters: the definition's results for every shape and axis, ties and NaN, in few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te, topi
from minitvm.events import Access, Listener
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference import graph as interpreter
from minitvm.reference import tir as loops
from minitvm.tir.nodes import PrimFunc
from tests.drawing import Seeded

Run = Callable[..., Any]
DTYPES = ("float32", "float64", "int32", "uint8", "int8")


Call = tuple[str, list[np.ndarray], dict[str, Any]]


def call_of(seed: int) -> Call:
    """An operator, arrays and attributes: axes from 0 to 40 long, few different values, NaN and infinities.

    Now and then neighbouring lines are more than are taken together.
    """
    d = Seeded(seed)
    shape = [d.one(0, 1, 1, 2, 2, 3, 3) for _ in range(d.int(0, 2))]
    axis = d.int(0, len(shape))
    extent = d.one(0, 1, 2, 3, 7, 16, 17, 40)
    shape.insert(axis, extent)
    if axis < len(shape) - 1 and d.int(0, 2) == 0:
        shape = [d.int(1, 2) for _ in shape[:-1]] + [d.one(65, 130, 521)]
    extent, dtype = shape[axis], d.one(*DTYPES)
    low, high = d.one((-3, 4), (-3, 4), (1, 9) if dtype == "uint8" else (-9, -1))

    def data(*dims: int) -> np.ndarray:
        x = d.data(dims, dtype, low, high)
        if x.dtype.kind == "f" and d.flag():
            x[d.rng.random(dims) < 0.2] = np.nan
            x[d.rng.random(dims) < 0.1] = np.inf
        return x

    x = data(*shape)
    op = d.one("argsort", "topk", "cumsum", "cumsum", "cumprod", "cummax", "cummin", *["scatter_elements"] * 3)
    if op == "argsort":
        return op, [x], {"axis": axis, "is_ascend": d.flag()}
    if op == "topk":
        k = d.one(0, 1, 2, extent // 8, extent // 2, extent)
        return op, [x], {"axis": axis, "is_ascend": d.flag(), "k": min(k, extent)}
    if op in ("cummax", "cummin"):
        return op, [x], {"axis": axis}
    if op.startswith("cum"):
        x = np.sign(x) if op == "cumprod" else x
        return op, [x], {"axis": axis, "exclusive": d.flag(), "reverse": d.flag()}
    other = [n - (n > 0 and d.int(0, 3) == 0) for n in shape]
    other[axis] = d.int(0, 9)
    indices = d.data(other, d.one("int64", "int32", "int8"), -extent - 1, extent + 1)
    return op, [x, indices, data(*other)], {"axis": axis, "reduction": d.one("none", "add", "mul", "max", "min")}


def graph_of(op: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> Graph:
    b = GraphBuilder()
    made = b.op(op, *(b.input(f"x{k}", a.shape, a.dtype.name) for k, a in enumerate(arrays)), **attrs)
    return b.build(list(made) if isinstance(made, tuple) else made)


def test_every_line_is_what_the_definition_says(run: Run) -> None:
    for seed in range(150):
        op, arrays, attrs = call_of(seed)
        with np.errstate(invalid="ignore", over="ignore"):
            wanted = interpreter.run(graph_of(op, arrays, attrs), {f"x{k}": a for k, a in enumerate(arrays)})
            found = run(getattr(topi, op), *arrays, **attrs)
        for one, other in zip(found if isinstance(found, list) else [found], wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=f"{op} of seed {seed}: {attrs}")


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
