"""Open dimensions: arithmetic on them, and those that are taken for equal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import minitvm as tvm
from minitvm import runtime
from minitvm.errors import InputError, UnsupportedOperator
from minitvm.executable import evaluate
from minitvm.expr import SizeVar, as_expr, free_vars
from minitvm.frontends import from_onnx
from minitvm.graph import GraphBuilder
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter
from tests.fewer import examples

from .models import model
from .shape_arithmetic import shape_arithmetics

F32 = TensorProto.FLOAT
N = helper.make_node
sizes = st.integers(1, 13)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- arithmetic ---


@given(proto=shape_arithmetics(), shape=st.tuples(sizes, sizes, sizes))
@examples(50, 150)
def test_arithmetic_on_shapes_is_what_onnx_computes(proto: onnx.ModelProto, shape: tuple[int, int, int]) -> None:
    x = np.zeros(shape, np.float32)
    data, zeros = ReferenceEvaluator(proto).run(None, {"x": x})
    found, length = interpreter.run(from_onnx(proto), {"x": x})
    np.testing.assert_array_equal(found, data)
    assert length.shape == zeros.shape


def test_what_a_dimension_is_not_is_known() -> None:
    """`seq == -1`, `batch < 0` and `min(seq, INT_MAX)` do not depend on the sizes."""
    constants = {"minus": np.array([-1]), "zero": np.array([0]), "big": np.array([2**31 - 1]), "one": np.array([1])}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Equal", ["s", "minus"], ["unknown"]),
        helper.make_node("Less", ["s", "zero"], ["negative"]),
        helper.make_node("Or", ["unknown", "negative"], ["never"]),
        helper.make_node("Where", ["never", "one", "s"], ["sizes"]),
        helper.make_node("Min", ["sizes", "big"], ["bounded"]),
        helper.make_node("Expand", ["x", "bounded"], ["y"]),
    ]
    graph = from_onnx(model(nodes, [("x", F32, ["n", "t"])], ["y"], constants))
    assert [item.op for item in graph.nodes] == ["broadcast_to"]
    assert graph.outputs[0].shape == graph.inputs[0].shape


def test_sizes_are_data_where_a_model_computes_with_them() -> None:
    """The mean by hand: the sum divided by the length, which a kernel gets as an argument."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["total"], keepdims=0),
        helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
        helper.make_node("Cast", ["s"], ["length"], to=F32),
        helper.make_node("Sqrt", ["length"], ["root"]),
        helper.make_node("Div", ["total", "root"], ["y"]),
    ]
    proto = model(nodes, [("x", F32, ["n", "t"])], ["y"], {"axes": np.array([1])})
    module = tvm.build(proto, threads=1)
    for t in (1, 7):
        x = floats(3, t)
        np.testing.assert_allclose(module(x), x.sum(1) / np.sqrt(t), rtol=1e-5)


def test_a_scalar_becomes_empty_where_a_size_of_at_most_one_is_none() -> None:
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Equal", ["s", "two"], ["equal"]),
        N("Cast", ["equal"], ["size"], to=TensorProto.INT64),
        N("Expand", ["one", "size"], ["y"]),
    ]
    constants = {"two": np.array([2]), "one": np.float32(1)}
    module = tvm.build(model(nodes, [("x", F32, ["n"])], ["y"], constants), threads=1)
    for n in (1, 2, 3):
        assert module(floats(n)).shape == (n == 2,)


@pytest.mark.parametrize("divisor", [7.0, 4.0])
def test_quotients_of_known_and_open_dimensions_are_data_together(divisor: float) -> None:
    nodes = [N("Shape", ["x"], ["s"]), N("Cast", ["s"], ["f"], to=F32), N("Div", ["f", "c"], ["y"])]
    declared = helper.make_tensor_value_info("x", F32, ["n", 3])
    constant = numpy_helper.from_array(np.float32([divisor]), "c")
    graph = helper.make_graph(nodes, "g", [declared], [helper.make_tensor_value_info("y", F32, [2])], [constant])
    module = tvm.build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), threads=1)
    for n in (1, 5):
        np.testing.assert_array_equal(module(floats(n, 3)), np.float32([n, 3]) / np.float32(divisor))


@given(n=sizes, m=sizes)
@settings(max_examples=10)
def test_attributes_may_hold_dimensions_that_no_operand_has(n: int, m: int) -> None:
    b, (first, second) = GraphBuilder(), (SizeVar("n"), SizeVar("m"))
    x = b.input("x", (first, second))
    positions = b.op("arange", start=first, stop=first + second)
    padded = b.op("nn.pad", b.op("nn.relu", b.op("strided_slice", x, begin=(1,), end=(first,), axes=(0,))),
                  pad_width=((0, second), (0, 0)))  # fmt: skip
    graph = b.build([positions, padded, b.op("trilu", x, k=first - second)])
    data = floats(n, m)
    for found, wanted in zip(interpreter.run(tvm.lower(graph, stop_at="fused"), [data]),
                             interpreter.run(graph, [data]), strict=True):  # fmt: skip
        np.testing.assert_array_equal(found, wanted)
    if (n, m) in ((1, 1), (2, 3)):
        for found, wanted in zip(tvm.build(graph, threads=1)(data), interpreter.run(graph, [data]), strict=True):
            np.testing.assert_array_equal(found, wanted)


@given(step=st.sampled_from([-3, -2, -1, 1, 2, 5]), n=sizes)
@settings(max_examples=20)
def test_ranges_with_symbolic_ends_have_any_step(step: int, n: int) -> None:
    """Positions that count down, as relative attention has them, or every few, as frames have them."""
    ends = ("length", "none") if step > 0 else ("length", "below")
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Squeeze", ["s"], ["length"]),
        helper.make_node("Neg", ["length"], ["below"]),
        helper.make_node("Add", ["length", "length"], ["none"]),
        helper.make_node("Range", [ends[0], ends[1], "step"], ["places"]),
        helper.make_node("Identity", ["x"], ["y"]),
    ]
    proto = model(nodes, [("x", F32, ["n"])], ["places", "y"], {"step": np.array(step)})
    found = interpreter.run(from_onnx(proto), [floats(n)])[0]
    np.testing.assert_array_equal(found, np.arange(n, 2 * n if step > 0 else -n, step))


@pytest.mark.parametrize("name, inputs, attributes, constants, opset", [
    ("STFT", {"x": ("n", "t")}, {}, {"hop": np.array(3), "window": np.hanning(8).astype(np.float32)}, 17),
    ("DeformConv", {"x": ("n", 2, 5, 4), "moved": ("n", 18, 3, 2)}, {"kernel_shape": [3, 3]},
     {"w": floats(3, 2, 3, 3)}, 19),
])  # fmt: skip
def test_batches_and_signals_of_open_size(
    name: str, inputs: dict[str, Any], attributes: dict[str, Any], constants: dict[str, np.ndarray], opset: int
) -> None:
    """As a build for the sizes computes it; `random_nodes` holds those against the standard."""
    order = ["x", *constants] if name == "STFT" else ["x", *constants, "moved"]
    node = helper.make_node(name, order, ["y"], **attributes)
    proto = model([node], [(key, F32, list(dims)) for key, dims in inputs.items()], ["y"], constants, opset=opset)
    graph = from_onnx(proto)
    for n, t in ((1, 8), (3, 25)):
        shapes = {key: tuple({"n": n, "t": t}.get(d, d) for d in dims) for key, dims in inputs.items()}
        data = [floats(*shape) for shape in shapes.values()]
        fixed = from_onnx(proto, shapes=shapes)
        np.testing.assert_allclose(
            interpreter.run(graph, data)[0], interpreter.run(fixed, data)[0], rtol=1e-5, atol=1e-5
        )


# --- dimensions taken for equal ---


@st.composite
def pyramids(draw: Any) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """An image made smaller in steps, and grown back to be added to or put behind what it was: U-Nets and pyramids."""
    nodes, levels, constants = [], ["x"], {"scales": np.array([1, 1, 2, 2], np.float32), "two": np.array([2, 4])}
    for depth in range(draw(st.integers(1, 2))):
        kernel, pads = draw(st.sampled_from([(2, 0), (3, 1), (1, 0)]))
        nodes.append(helper.make_node("MaxPool", [levels[-1]], [f"p{depth}"], kernel_shape=[kernel, kernel],
                                      strides=[2, 2], pads=[pads] * 4))  # fmt: skip
        levels.append(f"p{depth}")
    current = levels.pop()
    for k, level in enumerate(reversed(levels)):
        grown, attrs = f"g{k}", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                 "nearest_mode": "floor"}  # fmt: skip
        if draw(st.booleans()):
            nodes.append(helper.make_node("Resize", [current, "", "scales"], [grown], **attrs))
        else:
            nodes += [
                helper.make_node("Shape", [level], [f"s{k}"]),
                helper.make_node("Resize", [current, "", "", f"s{k}"], [grown], **attrs),
            ]
        current = f"o{k}"
        if draw(st.booleans()):
            nodes.append(helper.make_node("Add", [level, grown], [current]))
        else:
            nodes.append(helper.make_node("Concat", [level, grown], [current], axis=2))
    shape = (1, 1, draw(st.integers(8, 20)), draw(st.integers(8, 20)))
    return model(nodes, [("x", F32, [1, 1, "h", "w"])], [current], constants), shape


@given(pyramids())
@examples(30, 100)
def test_pyramids_are_right_or_refused_at_every_size(drawn: tuple[onnx.ModelProto, tuple[int, ...]]) -> None:
    proto, shape = drawn
    x = floats(*shape)
    try:
        graph = from_onnx(proto)
    except UnsupportedOperator as error:
        # Two sizes that are never equal: no size fits.
        assert "do not fit" in str(error) or "do not broadcast" in str(error)
        with pytest.raises(Exception, match=r".*"):
            ReferenceEvaluator(proto).run(None, {"x": x})
        return
    try:
        (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    except (ValueError, TypeError):
        with pytest.raises(InputError, match="taken for equal"):
            interpreter.run(graph, {"x": x})
        return
    (found,) = interpreter.run(graph, {"x": x})
    np.testing.assert_array_equal(found, wanted)


@given(
    b=st.integers(1, 3), h=st.integers(1, 12), w=st.integers(1, 12), window=st.integers(1, 3),
    inferred=st.integers(-1, 5), flat=st.booleans(),
)  # fmt: skip
@examples(50, 150)
def test_windows_are_right_or_refused_at_every_size(
    b: int, h: int, w: int, window: int, inferred: int, flat: bool
) -> None:
    """[b, h, w, 2] as windows: [b, h / k, k, w / k, k, 2] with -1 somewhere, all but the windows perhaps joined."""
    k = np.array([window])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        *(helper.make_node("Slice", ["s", f"c{a}", f"c{a + 1}"], [name]) for a, name in enumerate("bhw")),
        helper.make_node("Div", ["h", "k"], ["rows"]),
        helper.make_node("Div", ["w", "k"], ["columns"]),
        helper.make_node("Mul", ["rows", "columns"], ["tiles"]),
        helper.make_node("Mul", ["tiles", "b"], ["all"]),
    ]
    parts = ["all", "k", "k", "two"] if flat else ["b", "rows", "k", "columns", "k", "two"]
    if 0 <= inferred < len(parts):
        parts[inferred] = "minus"
    nodes.append(helper.make_node("Concat", parts, ["shape"], axis=0))
    nodes.append(helper.make_node("Reshape", ["x", "shape"], ["y"]))
    constants = {"k": k, "two": np.array([2]), "minus": np.array([-1]), **{f"c{a}": np.array([a]) for a in range(4)}}
    graph = from_onnx(model(nodes, [("x", F32, ["b", "h", "w", 2])], ["y"], constants))
    x = floats(b, h, w, 2)
    known = {"k": window, "two": 2, "b": b, "rows": h // window, "columns": w // window,
             "all": b * (h // window) * (w // window), "minus": -1}  # fmt: skip
    target = [known[p] for p in parts]
    if h % window == 0 and w % window == 0:
        np.testing.assert_array_equal(interpreter.run(graph, [x])[0], x.reshape(target))
    elif -1 not in target:
        with pytest.raises(InputError, match="taken for equal"):
            interpreter.run(graph, [x])


def windows_joined(window: int) -> onnx.ModelProto:
    """[b, h, w, 2], padded to whole windows, cut into windows, and put together again as [b, H, W, 2]."""
    k = np.array([window])
    rest = [
        N("Shape", ["x"], ["b"], end=1), N("Shape", ["x"], ["s"], start=1, end=3), N("Neg", ["s"], ["t"]),
        N("Mod", ["t", "k"], ["more"]), N("Concat", ["zeros", "more", "zero"], ["pads"], axis=0),
        N("Pad", ["x", "pads"], ["p"]), N("Add", ["s", "more"], ["whole"]), N("Div", ["whole", "k"], ["tiles"]),
        N("Split", ["tiles"], ["rows", "columns"], num_outputs=2),
        N("Concat", ["b", "rows", "k", "columns", "k", "two"], ["six"], axis=0), N("Reshape", ["p", "six"], ["r"]),
        N("Transpose", ["r"], ["v"], perm=[0, 1, 3, 2, 4, 5]), N("Exp", ["v"], ["e"]),
        N("Transpose", ["e"], ["u"], perm=[0, 1, 3, 2, 4, 5]),
        N("Concat", ["b", "whole", "two"], ["four"], axis=0), N("Reshape", ["u", "four"], ["y"]),
    ]  # fmt: skip
    constants = {"k": k, "two": np.array([2]), "zeros": np.zeros(5, np.int64), "zero": np.array([0])}
    return model(rest, [("x", F32, ["b", "h", "w", 2])], ["y"], constants, opset=18)


@given(b=st.integers(1, 3), h=st.integers(1, 9), w=st.integers(1, 9), window=st.integers(1, 4))
@examples(13, 40)
def test_windows_are_put_together(b: int, h: int, w: int, window: int) -> None:
    proto, x = windows_joined(window), floats(b, h, w, 2)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(interpreter.run(from_onnx(proto), [x])[0], wanted, rtol=1e-6)


def test_rows_that_are_joined_divide_by_no_size_for_each_element() -> None:
    """(n, h, w, 16) to (n, h * w, 16): the last axis is copied as it lies. Windows divide by their own size alone."""
    b, n, h, w = GraphBuilder(), *map(SizeVar, "nhw")
    x = b.input("x", (n, h, w, 16))
    graph = b.build(b.op("reshape", b.op("exp", x), newshape=(n, h * w, 16)))
    (source,) = tvm.lower(graph, stop_at="source").values()
    assert "//" not in source.split("for i0")[1].replace("// threads", "") and "gather" not in source
    x_ = floats(2, 3, 5, 16)
    np.testing.assert_allclose(tvm.build(graph, threads=1)(x_), np.exp(x_).reshape(2, 15, 16), rtol=1e-5)
    proto = windows_joined(4)
    module = tvm.build(proto, threads=1)
    for shape in ((2, 7, 9, 2), (1, 4, 8, 2)):
        x_ = floats(*shape)
        np.testing.assert_allclose(module(x_), ReferenceEvaluator(proto).run(None, {"x": x_})[0], rtol=1e-5)


def two_lengths() -> onnx.ModelProto:
    return model(
        [helper.make_node("Add", ["x", "y"], ["z"], name="the_sum")],
        [("x", F32, ["n", 4]), ("y", F32, ["m", 4])],
        ["z"],
    )


@pytest.mark.parametrize("sizes", [(3, 3), (3, 1), (1, 3), (1, 1), (0, 1), (1, 0)])
def test_an_open_size_of_one_is_repeated(sizes: tuple[int, int]) -> None:
    x, y = floats(sizes[0], 4), floats(sizes[1], 4)
    for result in (tvm.build(two_lengths(), threads=1)(x, y), *interpreter.run(from_onnx(two_lengths()), [x, y])):
        np.testing.assert_array_equal(result, x + y)


def test_a_guard_names_the_node_the_dimensions_and_both_values(tmp_path: Path) -> None:
    module = tvm.build(two_lengths(), threads=1)
    x = floats(3, 4)
    np.testing.assert_array_equal(module(x, x), x + x)
    module.export(tmp_path / "saved")
    for program in (module, runtime.load(tmp_path / "saved")):
        untouched = np.full((3, 4), 7, np.float32)
        with pytest.raises(InputError) as error:
            program(x, floats(5, 4), out=untouched)
        assert str(error.value).splitlines()[:2] == [
            "test: operator Add (node the_sum) does not take these sizes: n == 1 or m == 1 or n == m must hold",
            "  found:  n = 3, m = 5",
        ]
        assert (untouched == 7).all()
    with pytest.raises(InputError, match="Add"):
        interpreter.run(from_onnx(two_lengths()), [x, floats(5, 4)])
    with pytest.raises(InputError, match=r"n == 1 or m == 1 or n == m"):
        executables.run(module.executable, {"x": x, "y": floats(5, 4)})


def test_sizes_at_which_a_tensor_inside_would_have_a_negative_extent_are_refused(tmp_path: Path) -> None:
    """The output's shape does not show that the kernel is longer than the data."""
    weight = np.ones((2, 1, 4), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[4]),
        helper.make_node("ReduceSum", ["c", "axis"], ["y"], keepdims=0),
    ]
    proto = model(nodes, [("x", F32, ["n", 1, "t"])], ["y"], {"w": weight, "axis": np.array([2])})
    module = tvm.build(proto, threads=1)
    module.export(tmp_path / "saved")
    for program in (module, runtime.load(tmp_path / "saved")):
        for length in (9, 4, 3):
            np.testing.assert_array_equal(
                program(np.ones((2, 1, length), np.float32)), np.full((2, 2), 4 * (length - 3))
            )
        for length in (2, 0):
            with pytest.raises(InputError, match=r"Conv \(node c\) does not take these sizes: t - 3 >= 0 must hold"):
                program(np.ones((2, 1, length), np.float32))
    with pytest.raises(InputError, match=r"t - 3 >= 0"):
        executables.run(module.executable, {"x": np.ones((2, 1, 2), np.float32)})


def test_what_is_taken_for_equal_joins_the_operators_around_it() -> None:
    """A cast moves nothing and parts no group: one kernel computes the sum of both."""
    b, n, m = GraphBuilder(), SizeVar("n"), SizeVar("m")
    x, y = b.input("x", (n, 4)), b.input("y", (m, 4))
    same = b.op("match_cast", b.op("exp", y), dims=((m, n),), where="here")
    executable = tvm.lower(b.build(b.op("nn.relu", b.op("add", b.op("exp", x), same))), stop_at="executable")
    assert len(executable.kernels) == 1 and len(executable.guards) == 1


# --- names of dimensions, contents of inputs, branches ---


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), name, [], [onnx.ValueInfoProto(name=nodes[-1].output[0])])


def choice(condition: str, then: Sequence[onnx.NodeProto], other: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
    branches = {"then_branch": branch("then", *then), "else_branch": branch("other", *other)}
    return helper.make_node("If", [condition], ["y"], name="choice", **branches)


def test_shapes_name_dimensions() -> None:
    """One name is one dimension, of all inputs; a size that a model fixes may be opened."""
    proto = model([helper.make_node("Add", ["x", "y"], ["z"])], [("x", F32, [1, "t"]), ("y", F32, ["m", 4])], ["z"])
    module = tvm.build(proto, shapes={"x": ("b", 4), "y": ("b", 4)}, threads=1)
    x = floats(5, 4)
    np.testing.assert_array_equal(module(x, x), x + x)
    assert not module.executable.guards
    with pytest.raises(InputError, match="wanted a size, a name or None, found 2.5"):
        from_onnx(proto, shapes={"x": (2.5, 4)})  # type: ignore[dict-item]


def test_a_branch_on_a_parameter_is_taken_or_the_error_says_how() -> None:
    """The branches have different types, so that only one can be part of the program."""
    total = helper.make_node("ReduceSum", ["x"], ["b"], keepdims=0)
    nodes = [choice("flag", [helper.make_node("Relu", ["x"], ["a"])], [total])]
    proto = model(nodes, [("x", F32, [3]), ("flag", TensorProto.BOOL, [])], ["y"])
    x = np.array([1, -2, 3], np.float32)
    for flag, wanted in ((True, [1, 0, 3]), (False, 2)):
        np.testing.assert_array_equal(tvm.build(proto, params={"flag": np.array(flag)}, threads=1)(x), wanted)
    with pytest.raises(UnsupportedOperator) as error:
        tvm.build(proto)
    assert str(error.value).splitlines() == [
        "operator If (node choice): the condition of branches with results of different types, float32[3] and"
        " float32[], depends on the contents of the input flag",
        "  try:    params={'flag': ...}",
    ]


@given(flag=st.booleans(), n=sizes)
@settings(max_examples=10)
def test_a_branch_on_data_is_a_select(flag: bool, n: int) -> None:
    nodes = [choice("flag", [helper.make_node("Relu", ["x"], ["a"])], [helper.make_node("Neg", ["x"], ["b"])])]
    proto = model(nodes, [("x", F32, ["n"]), ("flag", TensorProto.BOOL, [1])], ["y"])
    inputs = {"x": floats(n), "flag": np.array([flag])}
    np.testing.assert_array_equal(interpreter.run(from_onnx(proto), inputs)[0],
                                  ReferenceEvaluator(proto).run(None, inputs)[0])  # fmt: skip


def test_a_branch_on_sizes_is_that_of_usual_sizes() -> None:
    """How TorchScript writes squeeze(1): the axis goes if its size is 1."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
        helper.make_node("Equal", ["s", "one"], ["single"]),
        choice("single", [helper.make_node("Squeeze", ["x", "one"], ["a"])], [helper.make_node("Relu", ["x"], ["b"])]),
    ]
    proto = model(nodes, [("x", F32, ["n", "m"])], ["y"], {"one": np.array([1])})
    graph = from_onnx(proto)
    x = floats(2, 3)
    np.testing.assert_array_equal(interpreter.run(graph, [x])[0], np.maximum(x, 0))
    module = tvm.build(graph, threads=1)
    np.testing.assert_array_equal(module(x), np.maximum(x, 0))
    with pytest.raises(InputError, match=r"operator If \(node choice\) .*: m == 1 must not hold"):
        module(floats(2, 1))


def test_an_axis_that_goes_has_one_element() -> None:
    node = helper.make_node("Squeeze", ["x", "one"], ["y"], name="gone")
    graph = from_onnx(model([node], [("x", F32, ["n", "m"])], ["y"], {"one": np.array([1])}))
    assert interpreter.run(graph, [floats(5, 1)])[0].shape == (5,)
    with pytest.raises(InputError, match="gone"):
        interpreter.run(graph, [floats(5, 2)])


# --- what is not supported ---


def half_supported() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node("Bernoulli", ["r"], ["u"], name="second"),
        choice("flag", [helper.make_node("StringSplit", ["u"], ["a"])], [helper.make_node("Exp", ["r"], ["b"])]),
        helper.make_node("Neg", ["r"], ["n"]),
        helper.make_node("Add", ["y", "n"], ["z"]),
    ]
    return model(nodes, [("x", F32, ["n"]), ("flag", TensorProto.BOOL, [])], ["z"], opset=20)


def test_all_unsupported_operators_are_listed_those_in_branches_too() -> None:
    with pytest.raises(UnsupportedOperator, match=r"Bernoulli \(node second\) [\s\S]*operator StringSplit \(node a\)"):
        from_onnx(half_supported())


@pytest.mark.parametrize("stop", ["unsupported", "Bernoulli", "second"])
def test_a_model_is_compiled_up_to_a_node(stop: str) -> None:
    module = tvm.build(half_supported(), stop_before=stop, threads=1)
    x = floats(4)
    assert module.output_names == ["r"] or tuple(module.output_names) == ("r",)
    np.testing.assert_array_equal(module(x=x, flag=np.array(True)), np.maximum(x, 0))


def test_a_node_to_stop_before_exists_and_has_something_before_it() -> None:
    with pytest.raises(InputError, match="no such node or operator; did you mean second"):
        tvm.build(half_supported(), stop_before="secnd")
    with pytest.raises(InputError, match=r"nothing is computed before operator Relu \(node first\)"):
        tvm.build(half_supported(), stop_before="first")


# --- windows over open images ---


@given(
    op=st.sampled_from(["Conv", "MaxPool", "AveragePool"]), mode=st.sampled_from(["SAME_UPPER", "SAME_LOWER"]),
    kernel=st.integers(1, 4), stride=st.integers(1, 3), h=st.integers(1, 9), w=st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=60)
def test_windows_that_are_padded_to_the_same_size(op: str, mode: str, kernel: int, stride: int, h: int, w: int) -> None:
    """The padding depends on the size if the stride is not 1: what TensorFlow's exporter writes."""
    attrs: dict[str, Any] = {"auto_pad": mode, "kernel_shape": [kernel, kernel], "strides": [stride, stride]}
    attrs |= {"count_include_pad": 1} if op == "AveragePool" else {}
    inputs = ["x", "filters"] if op == "Conv" else ["x"]
    nodes = [helper.make_node(op, inputs, ["y"], **attrs)]

    def proto(*spatial: int | str) -> onnx.ModelProto:
        constants = {"filters": floats(3, 2, kernel, kernel)} if op == "Conv" else {}
        return model(nodes, [("x", F32, [1, 2, *spatial])], ["y"], constants)

    x = floats(1, 2, h, w)
    (found,) = interpreter.run(from_onnx(proto("h", "w")), [x])
    (wanted,) = interpreter.run(from_onnx(proto(h, w)), [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@given(n=st.integers(1, 13), count=st.integers(1, 4), listed=st.booleans())
@settings(max_examples=40)
def test_an_open_axis_is_split(n: int, count: int, listed: bool) -> None:
    """Into equal parts, the last one smaller; or into n // 2 and the rest, which a model computes."""
    results = [f"y{k}" for k in range(2 if listed else count)]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Div", ["s", "two"], ["half"]),
        helper.make_node("Sub", ["s", "half"], ["rest"]),
        helper.make_node("Concat", ["half", "rest"], ["sizes"], axis=0),
        helper.make_node("Split", ["x", "sizes"], results, axis=0)
        if listed
        else helper.make_node("Split", ["x"], results, axis=0, num_outputs=count),
    ]
    graph = from_onnx(model(nodes, [("x", F32, ["n"])], results, {"two": np.array([2])}))
    chunk = -(-n // count)
    ends = [n // 2, n] if listed else [min(n, chunk * (k + 1)) for k in range(count)]
    x = floats(n)
    for found, wanted in zip(interpreter.run(graph, [x]), np.split(x, ends), strict=False):
        np.testing.assert_array_equal(found, wanted)


ENDS = st.one_of(st.integers(-8, 8), st.sampled_from([2**31 - 1, 2**63 - 1, -(2**31), -(2**63) + 1]))


@given(n=st.integers(1, 7), begin=ENDS, end=ENDS, step=st.sampled_from([-1, -2, -3, 1, 2]))
@settings(max_examples=100)
def test_a_part_of_an_open_axis_forwards_and_backwards(n: int, begin: int, end: int, step: int) -> None:
    """As NumPy has it, but that what goes backwards from in front of the axis begins with its first entry."""
    constants = {"b": np.array([begin]), "e": np.array([end]), "a": np.array([0]), "s": np.array([step])}
    nodes = [helper.make_node("Slice", ["x", "b", "e", "a", "s"], ["y"])]
    graph = from_onnx(model(nodes, [("x", F32, ["n", 2])], ["y"], constants))
    x = floats(n, 2)
    (found,) = interpreter.run(graph, [x])
    first = max(begin, -n) if step < 0 else begin
    np.testing.assert_array_equal(found, x[first:end:step])
    (shape,) = (value.shape for value in graph.outputs)
    assert evaluate(shape[0], dict.fromkeys(free_vars(as_expr(shape[0])), n)) == len(found)


def test_a_compiled_part_of_an_open_axis_backwards() -> None:
    constants = {"b": np.array([-2, 4]), "e": np.array([1, -(2**62)]), "a": np.array([0, 1]), "s": np.array([-2, -1])}
    nodes = [helper.make_node("Slice", ["x", "b", "e", "a", "s"], ["y"])]
    module = tvm.build(model(nodes, [("x", F32, ["n", "m"])], ["y"], constants), threads=1)
    for shape in ((7, 6), (2, 2), (1, 9)):
        x = floats(*shape)
        np.testing.assert_array_equal(module(x), x[-2:1:-2, 4::-1])


# --- operators that count along an open dimension ---

ALONG = {
    "Hardmax": (helper.make_node("Hardmax", ["x"], ["y"], axis=1), {}),
    "ReverseSequence": (
        helper.make_node("ReverseSequence", ["x", "l"], ["y"], time_axis=1, batch_axis=2),
        {"l": [2, 1, 3, 2]},
    ),
    "EyeLike": (helper.make_node("EyeLike", ["s"], ["y"], k=1, dtype=F32), {"axis": [0]}),
}


@pytest.mark.parametrize("op", ALONG)
def test_operators_that_count_along_an_open_dimension(op: str) -> None:
    node, constants = ALONG[op]
    nodes = [node]
    if op == "EyeLike":
        nodes.insert(0, helper.make_node("ReduceSum", ["x", "axis"], ["s"], keepdims=0))
    arrays = {name: np.array(value) for name, value in constants.items()}
    proto = model(nodes, [("x", F32, [2, "n", 4])], ["y"], arrays)
    module, graph = tvm.build(proto, threads=1), from_onnx(proto)
    for n in (3, 5, 9):
        x = floats(2, n, 4)
        (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
        np.testing.assert_array_equal(interpreter.run(graph, [x])[0], wanted)
        np.testing.assert_array_equal(module(x), wanted)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd", "ReduceMax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduction_over_what_a_run_finds_empty_is_its_initial_value(op: str, axis: int) -> None:
    """The extent of the part is max(n - 12, 0): nothing is summed where n is 9."""
    known = {"begin": np.array([12]), "end": np.array([99]), "axes": np.array([axis])}
    nodes = [
        helper.make_node("Slice", ["x", "begin", "end", "axes"], ["part"]),
        helper.make_node(op, ["part", "axes"], ["y"], keepdims=0),
    ]
    shape: list[int | str] = [3, 3]
    shape[axis] = "n"
    graph = helper.make_graph(
        nodes, "empty", [helper.make_tensor_value_info("x", 1, shape)], [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(value, name) for name, value in known.items()],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    module = tvm.build(proto, threads=1)
    for extent in (9, 12, 14):
        x = np.random.default_rng(0).standard_normal([extent if d == "n" else d for d in shape]).astype("float32")
        part = x[12:] if axis == 0 else x[:, 12:]
        initial = {"ReduceSum": 0.0, "ReduceProd": 1.0, "ReduceMax": -np.inf}[op]
        function = {"ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max}[op]
        expected = function(part, axis) if part.size else np.full(3, initial, np.float32)
        np.testing.assert_allclose(module(x), expected, rtol=1e-6)
