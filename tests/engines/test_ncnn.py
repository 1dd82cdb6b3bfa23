"""ncnn: its layers against the interpreter, and its allocations in our memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.executable import CallExternal
from minitvm.executable.alignment import address
from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.reference import graph as interpreter
from minitvm.tools.models import squeezenet
from tests.fewer import examples

pytest.importorskip("ncnn")


def weights(seed: int, *shape: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


def sessions(module: Any) -> list[Any]:
    """The regions of a module as ncnn runs them. Fails if our kernels compute one of them."""
    numbers = [k for k, step in enumerate(module.executable.steps) if isinstance(step, CallExternal)]
    calls = [module._program.engine_call(number).run for number in numbers]
    assert [call.reason for call in calls] == [""] * len(calls)
    return [call.run for call in calls]


def check(graph: Graph, regions: int | None = None, threads: int = 1) -> Any:
    """Build a graph with ncnn, compare it with the interpreter in two runs, and return the module."""
    module = minitvm.build(graph, engines="ncnn", threads=threads)
    for seed in range(2):
        inputs = [weights(seed + k, *map(int, v.shape)) * 8 for k, v in enumerate(graph.inputs)]
        before = [array.copy() for array in inputs]
        results = module(*inputs)
        own = results if isinstance(results, tuple) else (results,)
        for found, expected in zip(own, interpreter.run(graph, inputs), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * max(1, np.abs(expected).max()))
        for array, old in zip(inputs, before, strict=True):
            np.testing.assert_array_equal(array, old), "ncnn changed an input"
    found = sessions(module)
    assert regions is None or len(found) == regions
    return module


def draw_layer(b: GraphBuilder, x: Value, others: list[Value], data: st.DataObject, seed: int) -> Value:
    """Add one operator that ncnn supports."""
    _, channels, height, width = (int(d) for d in x.shape)
    same = [y for y in others if y.shape == x.shape]
    kinds = ["conv", "depthwise", "relu", "clip", "sigmoid", "tanh", "max", "avg", "bias", "concat", "scale"]
    kind = data.draw(st.sampled_from([*kinds, "add", "mul"] if same else kinds))
    if kind in ("conv", "depthwise"):
        kernel = data.draw(st.tuples(st.integers(1, min(3, height)), st.integers(1, min(3, width))))
        padding = data.draw(st.tuples(*[st.integers(0, k // 2) for k in (*kernel, *kernel)]))
        strides = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
        groups = channels if kind == "depthwise" else data.draw(st.sampled_from([1, 2] if channels % 2 == 0 else [1]))
        out = channels if kind == "depthwise" else groups * data.draw(st.integers(1, 9))
        x = b.op(
            "nn.conv2d", x, weights(seed, out, channels // groups, *kernel), padding=padding, strides=strides,
            groups=groups,
        )  # fmt: skip
        if data.draw(st.booleans()):
            x = b.op("nn.bias_add", x, weights(seed + 1, out))
        return b.op("nn.relu", x) if data.draw(st.booleans()) else x  # type: ignore[no-any-return]
    if kind in ("max", "avg"):
        size = data.draw(st.integers(1, min(3, height, width)))
        pad = data.draw(st.integers(0, size // 2))
        attrs: dict[str, Any] = {"pool_size": size, "strides": data.draw(st.integers(1, 2)), "padding": pad}
        attrs |= {"count_include_pad": data.draw(st.booleans())} if kind == "avg" else {}
        attrs["ceil_mode"] = data.draw(st.booleans())
        return b.op(f"nn.{kind}_pool2d", x, **attrs)  # type: ignore[no-any-return]
    if kind in ("add", "mul"):
        return b.op({"add": "add", "mul": "multiply"}[kind], x, data.draw(st.sampled_from(same)))  # type: ignore[no-any-return]
    if kind == "concat":
        fits = [y for y in others if y.shape[2:] == x.shape[2:]] or [x]
        return b.op("concatenate", x, data.draw(st.sampled_from(fits)), axis=1)  # type: ignore[no-any-return]
    if kind == "bias":
        return b.op("nn.bias_add", x, weights(seed, channels))  # type: ignore[no-any-return]
    if kind == "scale":
        return b.op("multiply", x, weights(seed, *map(int, x.shape)))  # type: ignore[no-any-return]
    attrs = {"a_min": -0.5, "a_max": 0.75} if kind == "clip" else {}
    return b.op(f"nn.{kind}" if kind == "relu" else kind, x, **attrs)  # type: ignore[no-any-return]


@given(data=st.data())
@examples(6, 300)
def test_drawn_networks(data: st.DataObject) -> None:
    b = GraphBuilder("drawn")
    shape = (1, *data.draw(st.tuples(st.integers(1, 20), st.integers(1, 9), st.integers(1, 9))))
    values = [b.input("x", shape)]
    for k in range(data.draw(st.integers(1, 7))):
        values.append(draw_layer(b, data.draw(st.sampled_from(values[-2:])), values[:], data, 10 * k))
    outputs = [values[-1], *data.draw(st.lists(st.sampled_from(values[1:]), max_size=1))]
    if data.draw(st.booleans()):
        outputs[0] = b.op("nn.batch_flatten", outputs[0])
        outputs[0] = b.op("nn.dense", outputs[0], weights(99, 7, int(outputs[0].shape[1])))
        outputs[0] = b.op("nn.softmax", b.op("add", outputs[0], weights(98, 7)), axis=-1)
    check(b.build(list(dict.fromkeys(outputs))), threads=data.draw(st.sampled_from([1, 2])))


@pytest.mark.parametrize("flat", [False, True])
def test_a_global_pool(flat: bool) -> None:
    b = GraphBuilder("pooled")
    x = b.op("nn.global_avg_pool", b.op("nn.relu", b.input("x", (1, 20, 5, 3))))
    if flat:
        result = b.op("nn.dense", b.op("reshape", x, newshape=(1, 20)), weights(0, 4, 20))
    else:
        result = b.op("sigmoid", b.op("nn.conv2d", x, weights(0, 7, 20, 1, 1)))
    check(b.build(result), regions=1)


@pytest.mark.parametrize("limits", [(-np.inf, 0.5), (-0.5, np.inf)])
def test_a_limit_may_be_infinite(limits: tuple[float, float]) -> None:
    b = GraphBuilder("limited")
    x = b.op("nn.conv2d", b.input("x", (1, 3, 4, 4)), weights(0, 4, 3, 1, 1))
    limited = dict(zip(("a_min", "a_max"), limits, strict=True))
    check(b.build([b.op("clip", x, **limited), b.op("clip", b.op("tanh", b.input("y", (1, 8))), **limited)]))


def test_results_are_in_our_arena() -> None:
    """A result that another step reads is computed in its place, and every block of ncnn is in the workspace."""
    b = GraphBuilder("two_regions")
    x = b.op("nn.relu", b.op("nn.conv2d", b.input("x", (1, 8, 8, 8)), weights(0, 16, 8, 3, 3), padding=1))
    y = b.op("nn.conv2d", b.op("trunc", x), weights(1, 8, 16, 1, 1))
    module = check(b.build(b.op("add", b.op("nn.global_avg_pool", y), 1.0)), regions=2)
    first, second = sessions(module)
    arena = module._program.arena(0, 0)
    places = range(address(arena), address(arena) + arena.nbytes)
    assert first.direct == [True]
    assert first.copies == 0
    for session in (first, second):
        assert session.own is None
        assert session.allocator.base in places
        assert session.allocator.base + session.plan.size in places
        assert set(session.allocator.elsewhere.values()) <= set(places)
        assert session.allocator.count == len(session.plan.sizes)


def test_squeezenet_is_one_region() -> None:
    graph = squeezenet.squeezenet1_1()
    module = minitvm.build(graph, engines="ncnn", threads=1)
    (session,) = sessions(module)
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    expected = minitvm.build(graph, threads=1)(image)
    np.testing.assert_allclose(module(image), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    assert session.plan.size < sum(session.plan.sizes) / 4, "the plan reuses memory"
    assert session.copies == 0, "the module allocates its result with the room that ncnn needs"


def test_the_results_of_a_network_need_no_copy(tmp_path: Path) -> None:
    """Results of several regions are computed in the arrays that the module returns, also in those of an artifact.

    An array of the caller has no room after it: its result is copied, and nothing after it is overwritten.
    """
    b = GraphBuilder("two_results")
    x = b.op("nn.relu", b.op("nn.conv2d", b.input("x", (1, 8, 8, 8)), weights(0, 16, 8, 3, 3), padding=1))
    y = b.op("nn.conv2d", b.op("trunc", x), weights(1, 8, 16, 1, 1))
    graph = b.build([x, y])
    module = check(graph)
    module.export(tmp_path / "net.tvm")
    data = weights(5, 1, 8, 8, 8)
    expected = interpreter.run(graph, [data])
    for own in (module, minitvm.runtime.load(tmp_path / "net.tvm")):
        assert [spec.room for spec in own.executable.outputs] == [4, 4]
        for result, other in zip(own(data), expected, strict=True):
            np.testing.assert_allclose(result, other, rtol=1e-4, atol=1e-4)
        assert [session.copies for session in sessions(own)] == [0] * len(sessions(own))
        around = [np.full(2 + other.size, 7, np.float32) for other in expected]
        outputs = [array[1:-1].reshape(other.shape) for array, other in zip(around, expected, strict=True)]
        own(data, out=outputs)
        for array, result, other in zip(around, outputs, expected, strict=True):
            np.testing.assert_allclose(result, other, rtol=1e-4, atol=1e-4)
            assert array[0] == array[-1] == 7, "the memory of the caller around a result"


def test_another_processor_gets_a_plan_of_its_own() -> None:
    """If ncnn allocates other blocks than in the stored plan, the session plans again, in memory of its own."""
    from minitvm.engines.ncnn.memory import BlockPlan
    from minitvm.engines.ncnn.session import Session
    from minitvm.engines.ncnn.writer import network_of

    b = GraphBuilder("net")
    graph = b.build(b.op("nn.conv2d", b.input("x", (1, 4, 6, 6)), weights(0, 8, 4, 3, 3), padding=1))
    constants = {c.value.name: c.data for c in graph.constants}
    session = Session(network_of(graph), constants, 1, BlockPlan((64,), (0,), 64, (0,)), (4,))
    assert session.own is not None
    x, y = weights(1, 1, 4, 6, 6), np.empty((1, 8, 6, 6), np.float32)
    session([x], [y], None)
    np.testing.assert_allclose(y, interpreter.run(graph, [x])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "text"),
    [
        ("erf", [(1, 8)], {}, "ncnn has no layer for erf"),
        ("nn.relu", [(2, 8)], {}, r"wanted [1, n] or [1, c, h, w], found [2, 8]"),
        ("add", [(1, 8), (1, 1)], {}, "operands of different shapes"),
        (
            "nn.max_pool2d",
            [(1, 2, 5, 5)],
            {"pool_size": 2, "padding": 1, "ceil_mode": True},
            "whose size is rounded up",
        ),
        ("nn.softmax", [(1, 2)], {"axis": 0}, "its axis is the batch"),
    ],
)
def test_refusals(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], text: str) -> None:
    from minitvm.engines import find

    b = GraphBuilder()
    b.op(op, *(b.input(f"x{k}", shape) for k, shape in enumerate(shapes)), **attrs)
    assert text in find("ncnn").supports(b.nodes[-1])
