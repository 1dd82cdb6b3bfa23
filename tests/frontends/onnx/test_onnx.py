"""ONNX models as graphs: shapes, what is computed while importing, versions, functions, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from minitvm.errors import InputError, MissingExtra, ModelError, UnsupportedOperator
from minitvm.expr import Expr, SizeVar
from minitvm.frontends import from_onnx
from minitvm.frontends.onnx import ValueDependent, converter, registry
from minitvm.reference import graph as interpreter

from .models import model, one

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def _ops(graph: object) -> list[str]:
    return [item.op for item in graph.nodes]  # type: ignore[attr-defined]


# --- inputs and shapes ---


def test_open_dimensions_become_variables_and_named_ones_are_shared() -> None:
    node = helper.make_node("Concat", ["a", "b"], ["y"], axis=1)
    graph = from_onnx(model([node], [("a", F32, ["n", 3]), ("b", F32, ["n", "?"])], ["y"]))
    (n, three), (n2, other) = (v.shape for v in graph.inputs)
    assert isinstance(n, SizeVar) and n is n2 and three == 3
    assert isinstance(other, SizeVar) and other is not n


def test_a_fixed_dimension_fixes_the_others_of_its_name() -> None:
    proto = model([helper.make_node("Add", ["a", "b"], ["y"])], [("a", F32, ["n", 3]), ("b", F32, ["n", 1])], ["y"])
    graph = from_onnx(proto, shapes={"a": (4, 3)})
    assert [v.shape for v in graph.inputs] == [(4, 3), (4, 1)]


def test_dimensions_given_as_none_or_by_name_stay_open() -> None:
    graph = from_onnx(one("Relu", ["?", "?", "?"]), shapes={"x0": (None, "w", 3)})
    free, width, three = graph.inputs[0].shape
    assert isinstance(free, SizeVar) and isinstance(width, SizeVar) and width.name == "w" and three == 3


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"y": (1,)}, "no input y"),
        ({"x0": (2, 3, 4)}, "has 2 dimensions"),
        ({"x0": (2, 4)}, "dimension 1: wanted 3"),
        ({"x0": (-2, 3)}, "negative"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        from_onnx(one("Relu", ["n", 3]), shapes=shapes)
    assert "\n" not in str(caught.value)


def test_an_input_with_an_initializer_is_a_constant_unless_the_caller_says_more() -> None:
    """As models of IR 3 list all initializers."""
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", F32, [2]), ("w", F32, [2])], ["y"])
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    x, w = np.array([10, 20], np.float32), np.array([5, 6], np.float32)
    for graph, inputs, wanted in (
        (from_onnx(proto), [x], [11, 22]),
        (from_onnx(proto, values={"w": w}), [x], [15, 26]),
        (from_onnx(proto, shapes={"w": (2,)}), [x, w], [15, 26]),
    ):
        np.testing.assert_array_equal(interpreter.run(graph, inputs)[0], wanted)


def test_weights_in_a_file_that_was_not_loaded(tmp_path: Path) -> None:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", F32, [2])], ["y"], {"w": np.ones(2, np.float32)})
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="d.bin", size_threshold=0)
    with pytest.raises(
        ModelError, match=r"initializer w: its contents are in the file d\.bin, which was not loaded\n  try"
    ):
        from_onnx(onnx.load(tmp_path / "m.onnx", load_external_data=False))
    assert from_onnx(tmp_path / "m.onnx").constants


def test_pictures_of_an_open_batch_are_put_together() -> None:
    proto = model([helper.make_node("Col2Im", ["x", "p", "b"], ["y"])], [("x", F32, ["n", 12, 20])], ["y"],
                  {"p": np.array([6, 5]), "b": np.array([2, 2])}, opset=18)  # fmt: skip
    x = np.arange(720, dtype=np.float32).reshape(3, 12, 20)
    np.testing.assert_array_equal(
        interpreter.run(from_onnx(proto), [x])[0], ReferenceEvaluator(proto).run(None, {"x": x})[0]
    )


def test_contradicting_shapes_of_one_name_are_refused() -> None:
    proto = model([helper.make_node("Add", ["a", "b"], ["y"])], [("a", F32, ["n"]), ("b", F32, ["n"])], ["y"])
    with pytest.raises(InputError, match="dimension n is 2 elsewhere, found 3"):
        from_onnx(proto, shapes={"a": (2,), "b": (3,)})


def test_outputs_keep_the_models_names_and_order() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["first"]), helper.make_node("Neg", ["first"], ["second"])]
    graph = from_onnx(model(nodes, [("x", F32, [2])], ["second", "first"]))
    assert [v.name for v in graph.outputs] == ["second", "first"]


def test_dead_nodes_are_not_even_looked_at() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Bernoulli", ["x"], ["unused"])]
    assert _ops(from_onnx(model(nodes, [("x", F32, [2])], ["y"]))) == ["nn.relu"]


# --- arithmetic on shapes ---


def _flatten_by_arithmetic(shape: list[object]) -> onnx.ModelProto:
    """What exporters write for x.reshape(x.shape[0], -1): Shape, Gather, Unsqueeze, Concat, Reshape."""
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    return model(nodes, [("x", F32, shape)], ["y"], constants)


def test_shape_arithmetic_folds_away() -> None:
    graph = from_onnx(_flatten_by_arithmetic([2, 3, 4]))
    assert _ops(graph) == ["reshape"] and graph.outputs[0].shape == (2, 12)


def test_shape_arithmetic_folds_away_with_symbolic_dimensions() -> None:
    graph = from_onnx(_flatten_by_arithmetic(["n", 3, 4]))
    assert _ops(graph) == ["reshape"]
    n, rest = graph.outputs[0].shape
    assert isinstance(n, Expr) and rest == 12
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(interpreter.run(graph, [x])[0], x.reshape(2, 12))


def test_symbolic_dimensions_may_be_computed_with() -> None:
    constants = {"two": np.array([2]), "start": np.array([0]), "stop": np.array([1]), "four": np.array([4])}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "start", "stop"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["n2"]),
        helper.make_node("Concat", ["n2", "two"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    graph = from_onnx(model(nodes, [("x", F32, ["n", 4])], ["y"], constants))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(interpreter.run(graph, [x])[0], x.reshape(6, 2))


def test_symbolic_dimensions_may_be_data() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Identity", ["s"], ["y"])]
    graph = from_onnx(model(nodes, [("x", F32, ["n", 3])], ["y"]))
    np.testing.assert_array_equal(interpreter.run(graph, [np.zeros((7, 3), np.float32)])[0], [7, 3])


def test_constants_may_have_symbolic_shapes() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["zeros"]),
        helper.make_node("Expand", ["one", "s"], ["ones"]),
        helper.make_node("Range", ["start", "n", "step"], ["range"]),
        helper.make_node("Gather", ["s", "start"], ["n"]),
    ]
    nodes = [nodes[0], nodes[4], nodes[3], *nodes[1:3]]
    constants = {"one": np.ones((1, 1), np.float32), "start": np.array(0), "step": np.array(1)}
    graph = from_onnx(model(nodes, [("x", F32, ["n", 2])], ["zeros", "ones", "range"], constants))
    zeros, ones, counted = interpreter.run(graph, [np.full((3, 2), 7, np.float32)])
    np.testing.assert_array_equal(zeros, np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(ones, np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(counted, [0, 1, 2])


def test_a_shape_that_depends_on_an_input_names_it_and_can_be_fixed() -> None:
    proto = model(
        [helper.make_node("Expand", ["x", "s"], ["y"], name="r")], [("x", F32, [1, 1]), ("s", I64, [2])], ["y"]
    )
    with pytest.raises(ValueDependent, match=r"operator Expand \(node r\): the shape depends on .* input s") as caught:
        from_onnx(proto)
    assert caught.value.inputs == {"s"} and "max_length=...: a bound" in str(caught.value)
    graph = from_onnx(proto, values={"s": np.array([2, 3])})
    assert [v.name for v in graph.inputs] == ["x"] and graph.outputs[0].shape == (2, 3)
    open_one = from_onnx(proto, max_length=4)
    x, s = np.ones((1, 1), np.float32), np.array([2, 4])
    assert interpreter.run(open_one, {"x": x, "s": s})[0].shape == (2, 4)
    with pytest.raises(InputError, match=r"operator Expand \(node r\): size_?1? is 5; wanted 0 to 4"):
        interpreter.run(open_one, {"x": x, "s": s + 1})


@pytest.mark.parametrize("shape", [[2, 3, 4], [0, -1, 2], [-1, 6, 1], [0, 3, 0], [8, 0, -1]])
def test_a_reshape_by_data(shape: list[int]) -> None:
    """0 copies a dimension, -1 is what remains; both are found in a run."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    proto = model(nodes, [("x", F32, ["a", "b", "c"]), ("s", I64, [3])], ["y"])
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (found,) = interpreter.run(from_onnx(proto), {"x": x, "s": np.array(shape)})
    np.testing.assert_array_equal(
        found, x.reshape([own if d == 0 else d for d, own in zip(shape, x.shape, strict=True)])
    )


def test_values_of_another_dtype_are_refused() -> None:
    proto = model([helper.make_node("Reshape", ["x", "s"], ["y"])], [("x", F32, [6]), ("s", I64, [2])], ["y"])
    with pytest.raises(InputError, match="s wanted int64, found int32"):
        from_onnx(proto, values={"s": np.array([2, 3], np.int32)})


# --- versions ---


def test_softmax_before_opset_13_is_over_all_axes_from_its_own() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    powers = np.exp(x)
    old = interpreter.run(from_onnx(one("Softmax", (2, 3, 4), opset=11)), [x])[0]
    np.testing.assert_allclose(old, powers / powers.sum(axis=(1, 2), keepdims=True), rtol=1e-5)
    new = interpreter.run(from_onnx(one("Softmax", (2, 3, 4), opset=13)), [x])[0]
    np.testing.assert_allclose(new, powers / powers.sum(axis=2, keepdims=True), rtol=1e-5)


def test_clip_takes_limits_as_attributes_and_later_as_inputs() -> None:
    x = np.linspace(-2, 2, 5, dtype=np.float32)
    old = interpreter.run(from_onnx(one("Clip", (5,), opset=6 + 1, min=-1.0, max=0.5)), [x])[0]
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    proto = model([node], [("x", F32, [5]), ("high", F32, [])], ["y"])
    new = interpreter.run(from_onnx(proto), [x, np.float32(0.5)])[0]
    np.testing.assert_array_equal(old, np.clip(x, -1, 0.5))
    np.testing.assert_array_equal(new, np.minimum(x, 0.5))


@pytest.mark.parametrize("opset", [11, 13])
def test_axes_as_attribute_and_as_input(opset: int) -> None:
    x = np.ones((1, 3, 1), np.float32)
    if opset < 13:
        proto = one("Squeeze", (1, 3, 1), opset=opset, axes=[2])
    else:
        node = helper.make_node("Squeeze", ["x", "axes"], ["y"])
        proto = model([node], [("x", F32, [1, 3, 1])], ["y"], {"axes": np.array([-1])}, opset)
    assert interpreter.run(from_onnx(proto), [x])[0].shape == (1, 3)


@pytest.mark.parametrize(("auto_pad", "before"), [("SAME_UPPER", 0), ("SAME_LOWER", 1)])
def test_auto_pad_puts_the_odd_element_on_its_side(auto_pad: str, before: int) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    proto = one("MaxPool", (1, 1, 4), kernel_shape=[2], auto_pad=auto_pad)
    padded = np.pad(x, [(0, 0), (0, 0), (before, 1 - before)], constant_values=-np.inf)
    wanted = np.maximum(padded[..., :-1], padded[..., 1:])
    np.testing.assert_array_equal(interpreter.run(from_onnx(proto), [x])[0], wanted)


def test_what_has_changed_since_an_old_opset_is_refused() -> None:
    message = r"opset 5 is not supported, 7 .*\(operators that have changed since: Relu\)"
    with pytest.raises(UnsupportedOperator, match=message):
        from_onnx(one("Relu", (2,), opset=5))
    assert [n.op for n in from_onnx(one("Relu", (2,), opset=6)).nodes] == ["nn.relu"]


# --- functions and branches ---


def test_an_operator_with_a_function_body_is_expanded() -> None:
    graph = from_onnx(one("MeanVarianceNormalization", (2, 3, 4, 5), opset=13))
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    centred = x - x.mean(axis=(0, 2, 3), keepdims=True)
    wanted = centred / (x.std(axis=(0, 2, 3), keepdims=True) + 1e-9)
    np.testing.assert_allclose(interpreter.run(graph, [x])[0], wanted, rtol=1e-4, atol=1e-5)
    assert "power" in _ops(graph)


def test_a_function_of_the_model_is_expanded_with_its_attributes() -> None:
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    attribute = inner.attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = helper.make_function("mine", "Leak", ["a"], ["b"], [inner], [helper.make_opsetid("", 18)], ["slope"])
    node = helper.make_node("Leak", ["x"], ["y"], domain="mine", slope=0.5)
    proto = model([node], [("x", F32, [3])], ["y"], functions=[function], domains={"mine": 1})
    x = np.array([-2, 0, 2], np.float32)
    np.testing.assert_array_equal(interpreter.run(from_onnx(proto), [x])[0], [-1, 0, 2])


def test_functions_of_one_name_are_told_apart_by_their_overload() -> None:
    def function(overload: str, op: str) -> onnx.FunctionProto:
        opsets = [helper.make_opsetid("", 21)]
        return helper.make_function(
            "mine", "F", ["a"], ["b"], [helper.make_node(op, ["a", "a"], ["b"])], opsets, overload=overload
        )

    calls = [helper.make_node("F", ["x"], [y], domain="mine", overload=over) for y, over in (("y", "p"), ("z", "q"))]
    functions = [function("p", "Add"), function("q", "Mul")]
    proto = model(calls, [("x", F32, [1])], ["y", "z"], functions=functions, domains={"mine": 1})
    y, z = interpreter.run(from_onnx(proto), [np.array([3], np.float32)])
    assert (y.item(), z.item()) == (6, 9)


@pytest.mark.parametrize(("op", "opset", "wanted"), [("Flatten", 21, (3, 0)), ("Softmax", 11, (3, 2, 0))])
def test_the_shape_of_an_empty_tensor_is_no_copy_of_another(op: str, opset: int, wanted: tuple[int, ...]) -> None:
    proto = model([helper.make_node(op, ["x"], ["y"], axis=1)], [("x", F32, [3, 2, 0])], ["y"], opset=opset)
    assert interpreter.run(from_onnx(proto), [np.zeros((3, 2, 0), np.float32)])[0].shape == wanted


def test_what_numpy_cannot_fold_is_left_to_the_operator() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["c", "axes"], ["p"], keepdims=0),
        helper.make_node("Pow", ["i", "j"], ["r"]),
        helper.make_node("Add", ["p", "x"], ["y"]),
    ]
    constants = {
        "c": np.zeros((0, 2), np.float32), "axes": np.array([0]), "i": np.array([2, -1]), "j": np.array([-1, -3])
    }  # fmt: skip
    graph = from_onnx(model(nodes, [("x", F32, [2])], ["y", "r"], constants))
    y, r = interpreter.run(graph, [np.ones(2, np.float32)])
    assert y.tolist() == [-np.inf, -np.inf] and r.tolist() == [0, -1]


def test_a_constant_that_is_returned_has_its_name() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = from_onnx(model(nodes, [("x", F32, [2])], ["y", "w"], {"w": np.ones(2, np.float32)}))
    assert [value.name for value in graph.outputs] == ["y", "w"]


def test_a_vector_is_normalized_as_a_batch_of_one_channel() -> None:
    one_number = np.array([2], np.float32)
    node = helper.make_node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"])
    graph = from_onnx(model([node], [("x", F32, [4])], ["y"], {"s": one_number}))
    found = interpreter.run(graph, [np.arange(4, dtype=np.float32)])[0]
    np.testing.assert_allclose(found, (np.arange(4) - 2) / np.sqrt(2) * 2 + 2, rtol=1e-5)


def _branching() -> onnx.ModelProto:
    def branch(op: str) -> onnx.GraphProto:
        out = [onnx.ValueInfoProto(name=f"{op}_out")]
        return helper.make_graph([helper.make_node(op, ["x"], [f"{op}_out"])], op, [], out)

    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch("Neg"), else_branch=branch("Abs"))
    return model([node], [("x", F32, [2]), ("c", TensorProto.BOOL, [])], ["y"])


def test_a_branch_is_taken_when_its_condition_is_known() -> None:
    assert _ops(from_onnx(_branching(), values={"c": np.array(True)})) == ["negative"]
    assert _ops(from_onnx(_branching(), values={"c": np.array(False)})) == ["abs"]
    assert _ops(from_onnx(_branching())) == ["reshape", "negative", "abs", "where"]


def _graph(name: str, nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> onnx.GraphProto:
    def infos(names: list[str]) -> list[onnx.ValueInfoProto]:
        return [onnx.ValueInfoProto(name=n) for n in names]

    return helper.make_graph(nodes, name, infos(inputs), infos(outputs))


def test_a_loop_of_known_length_is_written_out() -> None:
    nodes = [
        helper.make_node("Identity", ["going"], ["go_on"]),
        helper.make_node("Add", ["total", "x"], ["more"]),
        helper.make_node("Identity", ["more"], ["row"]),
    ]
    body = _graph("body", nodes, ["i", "going", "total"], ["go_on", "more", "row"])
    node = helper.make_node("Loop", ["n", "yes", "start"], ["end", "rows"], body=body)
    constants = {"n": np.array(3), "yes": np.array(True), "start": np.zeros(2, np.float32)}
    graph = from_onnx(model([node], [("x", F32, [2])], ["end", "rows"], constants))
    x = np.array([1, 2], np.float32)
    end, rows = interpreter.run(graph, [x])
    np.testing.assert_array_equal(end, 3 * x)
    np.testing.assert_array_equal(rows, [x, 2 * x, 3 * x])


def test_a_scan_runs_backwards_along_another_axis() -> None:
    nodes = [helper.make_node("Add", ["sum", "v"], ["next"]), helper.make_node("Identity", ["next"], ["out"])]
    body = _graph("body", nodes, ["sum", "v"], ["next", "out"])
    node = helper.make_node(
        "Scan", ["start", "x"], ["end", "sums"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1],
    )  # fmt: skip
    proto = model([node], [("x", F32, [2, 3])], ["end", "sums"], {"start": np.zeros(2, np.float32)})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    end, sums = interpreter.run(from_onnx(proto), [x])
    np.testing.assert_array_equal(end, x.sum(axis=1))
    np.testing.assert_array_equal(sums, x[:, ::-1].cumsum(axis=1)[:, ::-1])


@pytest.mark.parametrize("equation", ["...ij,...jk->...ik", "...ij,jk", "bij,...->b...j"])
def test_an_ellipsis_in_einsum(equation: str) -> None:
    shapes = {"...ij,jk": ((4, 2, 3), (3, 5)), "bij,...->b...j": ((2, 3, 4), (6, 5))}.get(
        equation, ((4, 1, 2, 3), (6, 3, 5))
    )
    a, b = (np.random.default_rng(k).standard_normal(s).astype(np.float32) for k, s in enumerate(shapes))
    graph = from_onnx(one("Einsum", *shapes, equation=equation))
    np.testing.assert_allclose(interpreter.run(graph, [a, b])[0], np.einsum(equation, a, b), rtol=1e-4, atol=1e-5)


# --- files ---


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        from_onnx(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="folder"):
        from_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"certainly not a model", b"\x00" * 64])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not an ONNX model") as caught:
        from_onnx(path)
    assert "\n" not in str(caught.value)


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", F32, [2, 64])], ["y"], {"w": weights})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    assert (tmp_path / "weights.bin").stat().st_size >= weights.nbytes
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(interpreter.run(from_onnx(path), [x])[0], x @ weights, rtol=1e-5)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError):
        from_onnx(path)


def test_without_onnx_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"pip install 'minitvm\[onnx\]'"):
        from_onnx("model.onnx")


def test_open_dimensions_are_not_taken_for_1() -> None:
    graph = from_onnx(one("Squeeze", ["n", 1], opset=11))
    assert interpreter.run(graph, [np.zeros((5, 1), np.float32)])[0].shape == (5,)
    with pytest.raises(InputError, match="Squeeze"):
        interpreter.run(graph, [np.zeros((1, 1), np.float32)])
    assert from_onnx(one("Squeeze", ["n", 1], opset=11, axes=[1])).outputs[0].ndim == 1


def test_something_that_is_no_model() -> None:
    with pytest.raises(InputError, match="found int"):
        from_onnx(3)


# --- refusals ---


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (one("Bernoulli", (3,)), r"operator Bernoulli \(node the_node\) is not supported: it is random"),
        (one("RandomNormalLike", (3,)), "it is random"),
        (one("NoSuchThing", (3,)), r"operator NoSuchThing \(node the_node\) of opset 18"),
        (one("Relu", (3,), surprise=1), r"operator Relu \(node the_node\): attribute surprise"),
        (one("Relu", (3,), dtype=TensorProto.FLOAT8E8M0), "input x0: dtype float8e8m0"),
        (one("Identity", (3,), dtype=TensorProto.STRING), "input x0: dtype string"),
        (one("Cast", (3,), to=TensorProto.COMPLEX64), r"Cast \(node the_node\), attribute to: dtype complex64"),
        (one("Conv", (1, 1, 4, 4), (1, 1, 2, 2), auto_pad="ODD"), "attribute auto_pad='ODD'"),
        (one("BatchNormalization", *((1, 2), *[(2,)] * 4), opset=7, spatial=0), "attribute spatial=0"),
        (one("LSTM", (1, 1, 1), (1, 4, 1), (1, 4, 1), hidden_size=1, direction="sideways"), "direction='sideways'"),
    ],
    ids=lambda v: v.graph.node[0].op_type if isinstance(v, onnx.ModelProto) else "",
)
def test_what_is_not_supported_is_named(proto: onnx.ModelProto, text: str) -> None:
    with pytest.raises(UnsupportedOperator, match=text):
        from_onnx(proto)


def test_a_sequence_is_refused() -> None:
    proto = one("SequenceAt", (3,))
    proto.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, [3])))
    with pytest.raises(UnsupportedOperator, match="dtype sequence"):
        from_onnx(proto)


def test_a_model_that_contradicts_itself() -> None:
    with pytest.raises(ModelError, match=r"Add \(node the_node\)"):
        from_onnx(one("Add", (2, 3), (4,)))


def test_a_name_that_nothing_defines() -> None:
    with pytest.raises(ModelError, match="nothing defines ghost"):
        from_onnx(model([helper.make_node("Relu", ["ghost"], ["y"])], [("x", F32, [2])], ["y"]))


def test_all_operators_that_nothing_converts_are_named_at_once() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Bernoulli", ["a"], ["b"], name="first"),
        helper.make_node("UnheardOf", ["b"], ["c"]),
        helper.make_node("UnheardOf", ["c"], ["d"]),
        helper.make_node("RandomUniformLike", ["d"], ["y"]),
        helper.make_node("Bernoulli", ["x"], ["unused"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedOperator) as refusal:
        from_onnx(model)
    assert str(refusal.value) == (
        "3 operators are not supported\n"
        "    operator Bernoulli (node first) is not supported: it is random\n"
        "    operator UnheardOf (node c) and 1 more of opset 17 is not supported\n"
        "    operator RandomUniformLike (node y) is not supported: it is random\n"
        '  try:    stop_before="unsupported" in build(): the part of the model in front of them\n'
        "          @minitvm.frontends.onnx.converter('UnheardOf'): a converter of your own, as those in "
        "minitvm/frontends/onnx/ops\n"
        "          an export in which what is random is an input, or in evaluation mode"
    )


def test_a_converter_of_your_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out that the error names."""
    monkeypatch.setattr(registry, "CONVERTERS", dict(registry.CONVERTERS))

    @converter("Twice", domain="mine")
    def twice(n):
        return n.op("add", n[0], n[0])

    node = helper.make_node("Twice", ["x"], ["y"], domain="mine")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=8)
    assert [item.op for item in from_onnx(model).nodes] == ["add"]
