"""Relax as text: programs as the courses write them, drawn graphs there and back, and errors at their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

import minitvm as tvm
from minitvm import relax, te
from minitvm.errors import InputError, ParseError, UnsupportedOperator
from minitvm.expr import replace, structural_equal
from minitvm.frontends.relax import RelaxModule, from_graph, script
from minitvm.frontends.relax.operators import row_of
from minitvm.frontends.relax.printer import _is_scalar
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.reference import graph as interpreter
from minitvm.reference.strategies import graphs
from minitvm.script import ir as I
from minitvm.script import relax as R
from minitvm.script import tir as T
from minitvm.script.relax import Tensor
from tests.fewer import examples

# The weights of a two-layer network on images of 28 x 28 pixels, in the layout of PyTorch.
_RNG = np.random.default_rng(0)
X, W0, B0, W1, B1 = (
    _RNG.standard_normal(shape).astype("float32") for shape in ((1, 784), (128, 784), (128,), (10, 128), (10,))
)
EXPECTED = np.maximum(X @ W0.T + B0, 0) @ W1.T + B1


@tvm.script.ir_module
class Loops:
    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n = T.int64(), T.int64()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        Y = T.alloc_buffer((1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, n):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, "m"), "float32"),
        w0: R.Tensor(("n", "m"), "float32"),
        b0: R.Tensor(("n",), "float32"),
        w1: R.Tensor(("k", "n"), "float32"),
        b1: R.Tensor(("k",), "float32"),
    ):
        m, n, k = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            lv0 = R.call_dps_packed("linear0", (x, w0, b0), R.Tensor((1, n), "float32"))
            lv1 = R.call_tir(Loops.relu0, (lv0,), out_sinfo=R.Tensor((1, n), "float32"))
            out = R.call_tir(linear0, (lv1, w1, b1), R.Tensor((1, k), dtype="float32"))
            R.output(out)
        return out


@tvm.script.ir_module
class Functions:
    @R.function
    def main(
        x: Tensor((1, 784), "float32"),
        w0: Tensor((128, 784), "float32"),
        b0: Tensor((128,), "float32"),
        w1: Tensor((10, 128), "float32"),
        b1: Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir("env.linear", (x, w0, b0), (1, 128), dtype="float32")
            lv1 = R.call_tir("env.relu", (lv0,), (1, 128), dtype="float32")
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, 10), "float32"))
            R.output(out)
        return out


@I.ir_module
class Operators:
    @R.function
    def linear(x: R.Tensor(("r", "c"), "float32"), w: R.Tensor(("n", "c"), "float32"), b: R.Tensor(("n",), "float32")):
        return R.matmul(x, R.permute_dims(w, axes=[1, 0])) + b

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ) -> R.Tensor((1, 10), "float32"):
        cls = Operators
        lv0 = cls.linear(x, w0, b0)
        lv1: R.Tensor((1, 128), "float32") = R.nn.relu(lv0)
        lv2 = (lv1, w1)
        return cls.linear(lv2[0], lv2[1], b1)


@pytest.fixture
def functions() -> Iterator[None]:
    """The Python functions that `Functions` calls."""
    from minitvm import global_functions

    known = dict(global_functions._FUNCTIONS)

    @tvm.register_func("env.linear", override=True)
    def linear(x: tvm.nd.NDArray, w: tvm.nd.NDArray, b: tvm.nd.NDArray, out: tvm.nd.NDArray) -> None:
        np.matmul(x, w.T, out=out)
        np.add(out, b, out=out)

    @tvm.register_func("env.relu", override=True)
    def relu(x: tvm.nd.NDArray, out: tvm.nd.NDArray) -> None:
        np.maximum(x.numpy(), 0, out=out)

    yield
    global_functions._FUNCTIONS.clear()
    global_functions._FUNCTIONS.update(known)


@pytest.mark.parametrize("module", [Loops, Functions, Operators], ids=lambda module: str(module.name))
def test_a_module_as_the_courses_write_it_runs(module: RelaxModule, functions: None) -> None:
    args = [tvm.nd.array(a) for a in (X, W0, B0, W1, B1)]
    vm = relax.VirtualMachine(relax.build(module, target="llvm"), tvm.cpu())
    np.testing.assert_allclose(vm["main"](*args).numpy(), EXPECTED, rtol=1e-4, atol=1e-3)
    bound = relax.transform.BindParams("main", dict(zip(("w0", "b0", "w1", "b1"), args[1:], strict=True)))(module)
    np.testing.assert_allclose(tvm.compile(bound)(X), EXPECTED, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(interpreter.run(module.graph, args)[0], EXPECTED, rtol=1e-4, atol=1e-3)
    again = tvm.script.from_source(module.script())
    assert structural_equal(again.graph, module.graph) and again.script() == module.script()


def test_a_function_alone_is_a_graph() -> None:
    @R.function
    def mlp(data: R.Tensor(("n", 784), "float32"), w0: R.Tensor((784, 128), "float32"), b0: R.Tensor((128,))):
        with R.dataflow():
            lv0 = R.matmul(data, w0) + b0
            lv1 = R.nn.relu(lv0)
            R.output(lv1)
        return lv1

    assert isinstance(mlp, Graph) and mlp.outputs[0].type == "float32[n, 128]"
    rows = np.concatenate([X, X])
    np.testing.assert_allclose(tvm.build(mlp)(rows, W0.T.copy(), B0), np.maximum(rows @ W0.T + B0, 0), rtol=1e-4)


def test_match_cast_names_sizes_or_compares_them() -> None:
    @R.function
    def f(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")):
        n, m, k = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            lv = R.match_cast(R.concat((x, x), axis=0), R.Tensor((k, 4), "float32"))
            lv1 = R.reshape(lv, R.shape([k * 4]))
            lv2 = R.match_cast(y, R.Tensor((n, 4), "float32"))
            lv3 = R.add(x, lv2)
            R.output(lv1, lv3)
        return (lv1, lv3)

    assert [v.type for v in f.outputs] == ["float32[n * 8]", "float32[n, 4]"]
    module = tvm.build(f)
    x = np.ones((3, 4), "float32")
    assert module(x, x)[0].shape == (24,)
    with pytest.raises(InputError):
        module(x, np.ones((2, 4), "float32"))


def test_a_file_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "net.relax.py"
    path.write_text(Operators.script())
    np.testing.assert_allclose(tvm.build(path)(X, W0, B0, W1, B1), EXPECTED, rtol=1e-4, atol=1e-3)


def test_check_names_what_has_no_meaning_in_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from minitvm.tools.cli import main

    b = GraphBuilder("net")
    y = b.call_te(lambda x: te.compute((4, 8), lambda i, j: x[i, j] * x[i, j]), b.input("x", (4, 8)), name="squared")
    path = tmp_path / "net.relax.py"
    path.write_text(script(b.build(b.op("nn.softmax", y))))
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "  call_tir squared has only its loops: the tir interpreter ran them\n" in printed
    assert "all levels agree" in printed


def _bound(text: str, graph: Graph) -> Graph:
    """The graph of a text, with the weights of another graph as the constants that the text leaves out."""
    module = tvm.script.from_source(text)
    weights = [c.data for c in graph.constants if not _is_scalar(c)]
    names = [v.name for v in module.graph.inputs[len(graph.inputs) :]]
    bound: Graph = module.bind(dict(zip(names, weights, strict=True))).graph if weights else module.graph
    return bound


def _text(graph: Graph, dialect: str = "tvm-0.23") -> str:
    try:
        return script(graph, dialect)
    except UnsupportedOperator:
        assume(False)
        raise


def _same_results(a: Graph, b: Graph, inputs: list[Any], tolerances: tuple[float, ...]) -> None:
    for x, y, tolerance in zip(interpreter.run(a, inputs), interpreter.run(b, inputs), tolerances, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        wide = x.astype("float64")
        scale = float(np.abs(wide[np.isfinite(wide)]).max(initial=1.0))
        np.testing.assert_allclose(y.astype("float64"), wide, rtol=0, atol=2 * tolerance * scale)


@examples(10, 60)
@given(graphs())
def test_a_drawn_graph_is_printed_and_read_back(drawn: Any) -> None:
    graph, inputs = drawn.graph, list(drawn.inputs.values())
    text = _text(graph)
    again = _bound(text, graph)
    verify_graph(again)
    _same_results(graph, again, inputs, drawn.tolerances)
    module = tvm.script.from_source(text)
    assert structural_equal(tvm.script.from_source(module.script()).graph, module.graph, map_free_vars=True)


def test_operators_that_relax_has_stay_operators() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 3, 8, 8))
    y = b.op("nn.conv2d", x, np.ones((4, 3, 3, 3), "float32"), padding=(1, 1))
    y = b.op("nn.max_pool2d", b.op("nn.relu", y), pool_size=(2, 2), strides=(2, 2))
    first, second = b.op("split", y, indices_or_sections=2, axis=1)
    z = b.op("concatenate", b.op("add", first, np.float32(1.5)), second, axis=1)
    graph = b.build(b.op("sum", b.op("nn.softmax", z, axis=1), axis=(2, 3), keepdims=True))
    assert all(row_of(item) for item in graph.nodes) and "call_tir" not in script(graph)
    again = _bound(script(graph), graph)
    by_name = sorted(again.constants, key=lambda constant: constant.value.name)
    assert structural_equal(replace(again, constants=tuple(by_name)), graph)


def test_an_onnx_model_is_a_module() -> None:
    onnx = pytest.importorskip("onnx")
    from minitvm.relax.frontend.onnx import from_onnx

    layer = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "layer",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4])],
    )  # fmt: skip
    module = from_onnx(onnx.helper.make_model(layer), shape_dict={"x": (2, 4)})
    x = np.array([[-1, 2, -3, 4]] * 2, "float32")
    vm = relax.VirtualMachine(relax.build(module, "llvm"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.nd.array(x)).numpy(), np.maximum(x, 0))
    assert "R.nn.relu(x)" in module.script()


ERRORS = {
    "operator": ("    return R.nn.rellu(x)", "R.nn.rellu is not supported; did you mean nn.relu"),
    "types": ("    return R.matmul(x, x)", "nn.matmul(float32[3, 4], float32[3, 4])"),
    "name": ("    return R.add(x, z)", "z is not defined"),
    "statement": ("    while True:\n        pass\n    return x", "a graph has no statement `while`"),
    "annotation": ('    y: R.Tensor((3, 5), "float32") = R.nn.relu(x)\n    return y', "the value has another type"),
    "function": ('    return R.call_tir(cls.f, (x,), R.Tensor((3, 4), "float32"))', "cls is not defined"),
    "constant": ('    return R.add(x, metadata["relax.expr.Constant"][0])', "the text does not contain this constant"),
    "attribute": ("    return R.sum(x, axes=[1])", "R.sum has no parameter axes"),
    "nothing": ("    y = R.nn.relu(x)", "f returns nothing"),
}


@pytest.mark.parametrize(("body", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_shown_at_its_place(body: str, message: str) -> None:
    with pytest.raises(ParseError) as refused:
        tvm.script.from_source(f'@R.function\ndef f(x: R.Tensor((3, 4), "float32")):\n{body}\n')
    assert message in str(refused.value) and "^" in str(refused.value) and "<text>:" in str(refused.value)


RETURNS = [  # an annotation, a value, and the type of the value if it does not fit
    ('R.Tensor((3, 5), "float32")', "R.nn.relu(x)", "float32[3, 4]"),
    ('R.Tensor((3, 4), "float16")', "R.nn.relu(x)", "float32[3, 4]"),
    ("R.Tensor(ndim=3)", "R.nn.relu(x)", "float32[3, 4]"),
    ('R.Tensor(("n", 4), "float32")', "R.nn.relu(y)", "float32[m, 4]"),
    ('R.Tensor((3, 4), "float32")', "(x, y)", "(float32[3, 4], float32[m, 4])"),
    ('R.Tuple(R.Tensor((3, 4), "float32"))', "R.nn.relu(x)", "float32[3, 4]"),
    ('R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor((3, 4), "float32"))', "(x,)", "(float32[3, 4])"),
    ('R.Tensor((3, 4), "float32")', "R.nn.relu(x)", ""),
    ('R.Tensor((3, 4), "float32")', "R.nn.relu(y)", ""),  # m may be 3
    ("R.Tensor(ndim=2)", "R.nn.relu(x)", ""),
    ("R.Object", "R.nn.relu(x)", ""),
    ('R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor(("m", 4), "float32"))', "(x, y)", ""),
]


@pytest.mark.parametrize(("annotation", "value", "found"), RETURNS)
def test_a_function_returns_the_type_that_it_declares(annotation: str, value: str, found: str) -> None:
    types = 'x: R.Tensor((3, 4), "float32"), y: R.Tensor(("m", 4), "float32"), z: R.Tensor(("n", 4), "float32")'
    text = f"@R.function\ndef f({types}) -> {annotation}:\n    return {value}\n"
    if not found:
        assert isinstance(tvm.script.from_source(text), Graph)
        return
    with pytest.raises(ParseError) as refused:
        tvm.script.from_source(text)
    message = str(refused.value)
    assert "the function returns another type" in message and "^" in message
    assert f"wanted: {found}\n" in message


def test_a_loop_program_that_the_module_lacks_is_named() -> None:
    text = """
@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        return R.call_tir(Net.f, (x,), R.Tensor((3, 4), "float32"))
"""
    with pytest.raises(ParseError, match="the module has no loop program f; known: none"):
        tvm.script.from_source(text)


def test_a_loop_is_refused_when_it_is_printed() -> None:
    b = GraphBuilder()
    graph = b.build(b.loop(lambda number, x: (True, [b.op("nn.relu", x)]), [b.input("x", (2,))], limit=2)[1])
    with pytest.raises(UnsupportedOperator, match="loop has no form in the text of a Relax function"):
        from_graph(graph).script()
