"""Programs exported to WebAssembly compute, in node, the same bits as the same kernels on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given

import minitvm as tvm
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference.strategies.graphs import RandomGraph, graphs
from tests.executable import loop_graphs
from tests.executable.test_bind_size import X, first_rows
from tests.fewer import examples
from tests.runtime.test_states import log, row

from .node import Exported, NodeError


@examples(8, 300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(drawn=graphs())
def test_drawn_networks(exported: Exported, drawn: RandomGraph) -> None:
    exported.agree(drawn.graph, drawn.inputs)


@pytest.mark.parametrize("name", loop_graphs.CASES)
def test_loops(exported: Exported, name: str) -> None:
    make, runs = loop_graphs.CASES[name]
    exported.agree(make(), *runs)


def test_sizes_that_data_decide(exported: Exported) -> None:
    counts = (2, 0, 4, 1)
    results = exported.agree(first_rows(), *({"x": X, "count": np.array(count)} for count in counts))
    assert [outputs[0].shape for outputs in results] == [(2 * count, 3) for count in counts]


def open_sums(size: Any) -> Graph:
    b = GraphBuilder("sums")
    x = b.input("x", (size, 3 * size))
    return b.build([b.op("sum", b.op("exp", x), axis=1), b.op("concatenate", x, x)])


def test_sizes_that_inputs_decide(exported: Exported) -> None:
    """One module runs at several sizes, also after a smaller one, and its memory grows."""
    sizes = (2, 5, 1, 40, 2)
    runs = [{"x": np.random.rand(n, 3 * n).astype(np.float32)} for n in sizes]
    results = exported.agree(open_sums(SizeVar("n")), *runs)
    assert [outputs[1].shape for outputs in results] == [(2 * n, 3 * n) for n in sizes]


def test_states_outlive_a_run(exported: Exported) -> None:
    results = exported.agree(log(), row(3, 1), row(7, 4), row(1, 1))
    assert [outputs[0].flat[0] for outputs in results] == [3, 10, 8]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8"])
def test_states_begin_as_their_first_values(exported: Exported, dtype: str) -> None:
    b = GraphBuilder("counts")
    up, down = b.input("up", (3,), dtype), b.input("down", (3,), dtype)
    states = {up: b.op("add", up, 1), down: b.op("subtract", down, 1)}
    graph = b.build([b.op("copy", up), b.op("copy", down)], states, {down: np.array([5, 6, 7]).astype(dtype)})
    results = exported.agree(graph, {}, {})
    assert [[array.tolist() for array in outputs] for outputs in results] == [
        [[0, 0, 0], [5, 6, 7]],
        [[1, 1, 1], [4, 5, 6]],
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_elementary_functions(exported: Exported, dtype: str) -> None:
    b = GraphBuilder("functions")
    x = b.input("x", (64,), dtype)
    names = ("exp", "log", "tanh", "erf", "sin", "cos", "sqrt", "sigmoid", "floor", "round", "atan")
    graph = b.build([b.op(name, x) for name in names])
    near = np.linspace(-9, 9, 64)
    exported.agree(graph, {"x": near.astype(tvm.expr.DType(dtype).numpy)})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_engines_without_relaxed_simd(exported: Exported, dtype: str) -> None:
    """The other module has no instruction that rounds once, and is as exact."""
    b = GraphBuilder("functions")
    x, w = b.input("x", (8, 64), dtype), b.input("w", (64, 8), dtype)
    names = ("exp", "log", "tanh", "erf", "sin", "cos", "atan", "sinh")
    graph = b.build([*(b.op(name, x) for name in names), b.op("power", b.op("abs", x), 1.7), b.op("nn.matmul", x, w)])
    executable = exported.lower(graph)
    place, kind = exported.write(executable, fallback=True), tvm.expr.DType(dtype).numpy
    inputs = {
        "x": np.linspace(-9, 9, 512).reshape(8, 64).astype(kind),
        "w": np.linspace(-1, 1, 512).reshape(64, 8).astype(kind),
    }
    dtypes = [spec.dtype for spec in executable.outputs]
    with np.errstate(all="ignore"):
        outputs, expected = (exported.process.run(place, inputs, dtypes, relaxed=relaxed) for relaxed in (False, True))
    bound = {"float32": 4e-7, "float64": 8e-16, "float16": 1e-3}[dtype]
    for a, c in zip(outputs[:-1], expected[:-1], strict=True):
        np.testing.assert_allclose(a, c, rtol=bound)
    np.testing.assert_allclose(outputs[-1], expected[-1], rtol=0, atol=16 * bound * np.abs(expected[-1]).max())


def test_large_angles_and_remainders_that_javascript_computes(exported: Exported) -> None:
    b = GraphBuilder("far")
    x = b.input("x", (8,), "float64")
    graph = b.build([b.op("sin", x), b.op("cos", x), b.op("tan", x), b.op("mod", x, 0.7)])
    far = np.array([1e9, 1e15, -3e20, 1e300, 5e4, 2.5, -1e7, np.inf])
    executable = exported.lower(graph)
    outputs = exported.run(executable, exported.write(executable), {"x": far})
    with np.errstate(invalid="ignore"):
        for a, b in zip(outputs, (np.sin(far), np.cos(far), np.tan(far), np.fmod(far, 0.7)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_number_of_16_bits(exported: Exported, dtype: str) -> None:
    """Conversions from and to 16 bits, which are functions in the module: all numbers, and roundings between them."""
    b = GraphBuilder("converted")
    x, y = b.input("x", (1 << 16,), dtype), b.input("y", (3 << 16,), "float32")
    graph = b.build([b.op("cast", x, dtype="float32"), b.op("cast", y, dtype=dtype)])
    numbers = np.arange(1 << 16, dtype=np.uint16).view(tvm.expr.DType(dtype).numpy)
    wide = numbers.astype(np.float32)
    with np.errstate(all="ignore"):
        between = np.concatenate([wide, np.nextafter(wide, np.float32(9)), (wide + np.roll(wide, 1)) / 2])
    exported.agree(graph, {"x": numbers, "y": between})


def test_the_same_executable_gives_the_same_files(exported: Exported) -> None:
    executable = exported.lower(first_rows())
    first, second = (exported.write(program, fallback=True) for program in (executable, exported.lower(first_rows())))
    names = sorted(path.name for path in first.iterdir())
    assert names == ["index.html", "net.js", "net.plain.wasm", "net.wasm", "net.weights.bin", "package.json"]
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "sums: input x: float32(n, 3 * n) is missing"),
    "unknown": ({"z": 1}, "sums: there is no input z\n  inputs: x"),
    "dtype": ({"x": np.ones((2, 6))}, "sums: input x: float32(n, 3 * n): wanted a Float32Array, found Float64Array"),
    "rank": ({"x": np.ones(6, np.float32)}, "sums: input x has shape (6,)\n  wanted: x: float32(n, 3 * n)"),
    "size": (
        {"x": np.ones((2, 5), np.float32)},
        "sums: input x has shape (2, 5)\n  wanted: x: float32(n, 3 * n), here (2, 6)",
    ),
    "number": ({"x": 1.5}, "sums: input x: float32(n, 3 * n): wanted a Float32Array, found Number"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_errors_with_words(exported: Exported, name: str) -> None:
    inputs, text = MISTAKES[name]
    executable = exported.lower(open_sums(SizeVar("n")))
    place = exported.write(executable)
    with pytest.raises(NodeError) as caught:
        exported.run(executable, place, inputs)
    assert (caught.value.kind, str(caught.value)) == ("NetError", text)


RUN_ERRORS: dict[str, tuple[Graph, dict[str, Any], str]] = {
    "a size beyond its bound": (
        first_rows(),
        {"x": X, "count": np.array(5)},
        "first_rows: the rows: the size n, which data decide, is beyond the memory for it (wanted 0 to 4, found 5)",
    ),
    "too many iterations": (
        loop_graphs.bounded(False),
        {"x": loop_graphs.X, "n": np.array(4)},
        "bounded: the rows: the loop would go on beyond the memory for its results (wanted 0 to 3 iterations, found "
        "more)",
    ),
    "an element beyond its bound": (
        log(),
        row(1, 5),
        "log: cache_update writes 1 of 4 places of rows: at has the element 5\n  wanted: 1 to 4",
    ),
}


@pytest.mark.parametrize("name", RUN_ERRORS)
def test_a_run_that_cannot_go_on_is_an_error(exported: Exported, name: str) -> None:
    graph, inputs, text = RUN_ERRORS[name]
    executable = exported.lower(graph)
    place = exported.write(executable)
    for _ in range(2):
        with pytest.raises(NodeError) as caught:
            exported.run(executable, place, inputs)
        assert str(caught.value) == text


def test_sizes_that_do_not_fit_each_other_are_an_error(exported: Exported) -> None:
    b = GraphBuilder("pair")
    x, y = b.input("x", (SizeVar("n"),)), b.input("y", (SizeVar("m"),))
    graph = b.build(b.op("add", b.op("match_cast", x, dims=((y.shape[0], x.shape[0]),), where="their sum"), y))
    executable = exported.lower(graph)
    place = exported.write(executable)
    with pytest.raises(NodeError, match="their sum does not take these sizes"):
        exported.run(executable, place, {"x": np.ones(3, np.float32), "y": np.ones(4, np.float32)})


def test_an_engine_is_refused(exported: Exported) -> None:
    from minitvm.errors import Unsupported
    from minitvm.executable import CallExternal, Executable
    from minitvm.export.wasm import export

    call = CallExternal("onnxruntime", (), (), ())
    program = Executable("outside", "cpu", (), (), (), (), (), (call,))
    with pytest.raises(Unsupported, match="found:  a call of the engine onnxruntime"):
        export(program, exported.folder)
    assert list(exported.folder.iterdir()) == []


def test_the_command_line_writes_a_folder(exported: Exported, capsys: pytest.CaptureFixture[str]) -> None:
    from minitvm.frontends.onnx.export.to_onnx import to_onnx
    from minitvm.tools.cli import main

    model, place = exported.folder / "sums.onnx", exported.folder / "sums"
    model.write_bytes(to_onnx(open_sums(2)).SerializeToString())
    assert main(["export", str(model), "--as", "wasm", "-o", str(place)]) == 0
    assert f"{place}, " in capsys.readouterr().out
    x = np.arange(12, dtype=np.float32).reshape(2, 6) / 12
    outputs = exported.process.run(place, {"x": x}, ["float32", "float32"])
    np.testing.assert_allclose(outputs[0], np.exp(x).sum(1), rtol=1e-6)
    for wrong in (model, place):
        before = sorted(exported.folder.rglob("*"))
        assert main(["export", str(model), "--as", "wasm", "-o", str(wrong)]) == 2
        assert f"{wrong} exists\n  wanted: a new or empty folder" in capsys.readouterr().err
        assert sorted(exported.folder.rglob("*")) == before
