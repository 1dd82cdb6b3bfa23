"""`build` and `lower`: from tir functions and graphs to something that runs, and what they refuse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.build_options import BuildOptions, ForBuild, ForLower
from minitvm.errors import InputError, TargetError
from minitvm.expr import IntImm, Var
from minitvm.graph import GraphBuilder
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, with_root


def matmul_relu(m, k, n):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: te.maximum(c[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, d])


def integers(rng, *shape):
    return rng.integers(-4, 5, shape).astype(np.float32)


def test_a_function_writes_its_destination_last(rng):
    function = tvm.build(matmul_relu(5, 7, 3))
    a, b, out = integers(rng, 5, 7), integers(rng, 7, 3), np.full((5, 3), np.nan, np.float32)
    assert function(a, b, out) is None
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_symbolic_dimensions_take_their_sizes_from_each_call(rng, threads):
    n = te.size_var("n")
    function = tvm.build(matmul_relu(n, 4, n * 2), threads=threads)
    for size in (1, 6, 33, 6):
        a, b, out = integers(rng, size, 4), integers(rng, 4, 2 * size), np.empty((size, 2 * size), np.float32)
        function(a, b, out)
        np.testing.assert_array_equal(out, np.maximum(a @ b, 0))


def small_graph():
    b = GraphBuilder("small")
    x = b.input("x", (2, 8))
    w = b.constant(np.arange(32, dtype=np.float32).reshape(4, 8) - 16, "w")
    y = b.op("nn.dense", x, w, name="y")
    z = b.op("nn.relu", b.op("add", y, 1.0), name="z")
    return b.build([z, b.op("reshape", z, newshape=(8,), name="flat"), x, z])


def test_a_graph_may_return_inputs_views_and_one_value_twice(rng):
    module = tvm.build(small_graph())
    x = integers(rng, 2, 8)
    z, flat, same, again = module(x)
    weight = np.arange(32, dtype=np.float32).reshape(4, 8) - 16
    expected = np.maximum(x @ weight.T + 1, 0)
    np.testing.assert_array_equal(z, expected)
    np.testing.assert_array_equal(flat, expected.reshape(8))
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(again, expected)
    outputs = [z, flat, same, again]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(outputs) for b in (*outputs[:i], x))


def test_params_make_inputs_constant(rng):
    b = GraphBuilder()
    x, w = b.input("x", (2, 3)), b.input("w", (4, 3))
    graph = b.build(b.op("nn.dense", x, w))
    data, weight = integers(rng, 2, 3), integers(rng, 4, 3)
    module = tvm.build(graph, params={"w": weight})
    np.testing.assert_array_equal(module(x=data), data @ weight.T)
    with pytest.raises(InputError, match=r"params: w wanted float32\[4, 3\], found float32\[3, 4\]"):
        tvm.build(graph, params={"w": weight.T})
    with pytest.raises(InputError, match="params: the graph has no input v"):
        tvm.build(graph, params={"v": weight})


def test_constants_without_a_numpy_fold_are_folded_by_compiled_kernels(rng):
    b = GraphBuilder()
    x, w = b.input("x", (2, 3)), b.constant(integers(rng, 3, 4), "w")
    part = b.op("strided_slice", b.op("nn.softmax", w), begin=(0, 0), end=(2, 3))
    graph = b.build(b.op("add", x, part))
    fused = tvm.lower(graph, stop_at="fused")
    assert [[n.op for n in group.graph.nodes] for group in fused.nodes] == [["add"]]
    weights = np.exp(graph.constants[0].data) / np.exp(graph.constants[0].data).sum(-1, keepdims=True)
    data = integers(rng, 2, 3)
    np.testing.assert_allclose(tvm.build(graph)(data), data + weights[:2, :3], rtol=1e-5)


def test_every_stop_gives_its_level():
    graph = small_graph()
    assert tvm.lower(graph, stop_at="graph") is graph
    fused = tvm.lower(graph, stop_at="fused")
    assert {n.op for n in fused.nodes} <= {"fused"} | {n.op for n in graph.nodes}
    by_operator = {stop: tvm.lower(graph, stop_at=stop) for stop in ("te", "tir", "schedule", "kernel", "source")}
    names = list(by_operator["tir"])
    assert all(list(level) == names for level in by_operator.values())
    assert all(isinstance(f, tvm.tir.PrimFunc) for f in by_operator["tir"].values())
    assert all(isinstance(m, tvm.IRModule) for m in by_operator["kernel"].values())
    assert all("def " in text for text in by_operator["source"].values())
    assert len(tvm.lower(graph, stop_at="executable").steps) > 0
    only = tvm.lower(graph, stop_at="source", only=names[0])
    assert only == {names[0]: by_operator["source"][names[0]]}


def test_the_same_model_gives_the_same_source():
    first, second = (tvm.lower(small_graph(), stop_at="source") for _ in range(2))
    assert first == second


def test_passes_are_reported_in_order():
    seen = []
    tvm.lower(matmul_relu(4, 4, 4), callback=lambda name, before, after: seen.append(name))
    assert seen[0] == "dense_parameters" and seen[-1] == "split_host"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: tvm.build(3),
            "build takes a Graph, a GGUF model, a folder of Hugging Face, an ONNX model, a Relax module, a TFLite "
            "model, a PyTorch program, the path of one of these, or a tir function; found int",
        ),
        (lambda: tvm.build(small_graph(), threads=0), "threads=0: wanted a number from 1"),
        (
            lambda: tvm.build(small_graph(), shapes={"x": (1,)}),
            "shapes= goes with a GGUF model, a folder of Hugging Face, an ONNX model, a TFLite model or a PyTorch "
            "program; a Graph has its own",
        ),
        (lambda: tvm.lower(small_graph(), stop_at="tire"), "did you mean tir or te?"),
        (lambda: tvm.build(small_graph(), accuracy="exact"), "accuracy='exact': wanted fast or strict"),
        (lambda: tvm.lower(small_graph(), accuracy="Strict"), "accuracy='Strict': wanted fast or strict"),
        (lambda: tvm.lower(matmul_relu(2, 2, 2), stop_at="te"), "a tir function begins at 'tir'"),
        (lambda: tvm.lower(small_graph(), stop_at="tir", only="conv"), "no operator conv"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(InputError) as error:
        call()
    assert text in str(error.value)


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(TypeError, match=r"^build has no option 'thread': did you mean threads\?$"):
        tvm.build(None, thread=1)
    with pytest.raises(
        TypeError, match="^lower has no option 'checked': known: accuracy, cache_dtype, callback, engines"
    ):
        tvm.lower(None, checked=True)


def test_the_options_for_type_checkers_are_those_that_there_are():
    names = {field.name for field in dataclasses.fields(BuildOptions)}
    assert {*ForBuild.__annotations__, *ForLower.__annotations__} == names


def test_an_unknown_target_names_the_known_ones():
    with pytest.raises(TargetError, match="cpu"):
        tvm.build(matmul_relu(2, 2, 2), target="abacus")


SCALARS = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool")


@pytest.mark.parametrize("dtype", SCALARS)
def test_scalar_parameters_arrive_as_they_are(dtype):
    a, out = Buffer("A", (IntImm(3, "int32"),), dtype), Buffer("B", (IntImm(3, "int32"),), dtype)
    scalar, i = Var("scalar", dtype), Var("i")
    value = scalar if dtype == "bool" else a[i] + scalar
    loop = For(i, IntImm(0, "int32"), IntImm(3, "int32"), ForKind.SERIAL, BufferStore(out, value, (i,)))
    func = with_root((scalar, a, out), loop, {"global_symbol": "main"})
    function = tvm.build(func, threads=1)
    data, found = np.arange(3).astype(dtype), np.zeros(3, dtype)
    given = {
        "float16": 0.1,
        "bfloat16": 0.1,
        "float32": -0.1,
        "float64": 1e300,
        "int8": -3,
        "uint64": 2**63 + 1,
        "int64": -(2**40),
    }
    number = np.dtype(dtype).type(given.get(dtype, 1))
    function(number, data, found)
    np.testing.assert_array_equal(found, np.full(3, number) if dtype == "bool" else data + number)


@pytest.mark.parametrize("name", ["my-func", "3d", "lambda", "load", "ns::f", "größe", "a\nimport nothing"])
def test_functions_and_buffers_of_any_name_compile(rng, name):
    a = te.placeholder((4,), name=name)
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name=f"{name} too")], name=name)
    function = tvm.build(func, threads=1)
    data, out = integers(rng, 4), np.zeros(4, np.float32)
    function(data, out)
    np.testing.assert_array_equal(out, data + 1)
    assert function.name == name
