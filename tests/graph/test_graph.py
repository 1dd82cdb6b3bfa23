"""Nodes, builder, printer, registry and verifier of level 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minitvm import te
from minitvm.errors import InputError, UnsupportedOperator, VerificationError
from minitvm.expr import SizeVar, replace, structural_equal
from minitvm.graph import (
    Constant,
    Graph,
    GraphBuilder,
    OpNode,
    Pattern,
    Value,
    optimize,
    register,
    verify_graph,
)
from minitvm.graph.lower import to_prim_func, to_te
from minitvm.graph.passes.fuse import fuse
from minitvm.te import Tensor
from minitvm.topi import registry

from .graphs import by_te


def small(name: str = "x", weight: float = 2.0) -> Graph:
    b = GraphBuilder()
    x = b.input(name, (2, 3))
    return b.build(b.op("nn.relu", b.op("multiply", x, np.full(3, weight, "float32"))))


TEXT = """\
def multiply_leaky_relu(x: float32[2, 3], const: float32[3]):
    multiply: float32[2, 3] = multiply(x, const)
    leaky_relu: float32[2, 3] = nn.leaky_relu(multiply, alpha=0.2)
    return leaky_relu

def main(x: float32[2, 3]):
    const = constant(float32[3])  # [1.0, 1.0, 1.0]
    leaky_relu: float32[2, 3] = multiply_leaky_relu(x, const)
    return leaky_relu"""


def test_graph_prints_as_python() -> None:
    b = GraphBuilder()
    y = b.op("multiply", b.input("x", (2, 3)), np.ones(3, "float32"))
    assert fuse(b.build(b.op("nn.leaky_relu", y, alpha=0.2))).script() == TEXT


def test_symbolic_dimensions_print_by_name() -> None:
    b = GraphBuilder()
    n = te.size_var("n")
    x = b.input("x", (n, 2))
    graph = b.build(b.op("concatenate", x, x))
    assert graph.outputs[0].type == "float32[n * 2, 2]"
    assert graph.symbolic_dims() == (n,)


def test_structural_equality_is_up_to_names_and_sees_weights() -> None:
    assert structural_equal(small("x"), small("y"))
    assert not structural_equal(small(weight=2.0), small(weight=3.0))


def test_builder_makes_names_unique_and_infers_types() -> None:
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    parts = b.op("split", x, indices_or_sections=2, axis=1)
    assert [p.type for p in parts] == ["float32[4, 2]", "float32[4, 2]"]
    first, second = b.op("exp", x, name="y"), b.op("exp", x, name="y")
    assert (first.name, second.name) == ("y", "y_1")
    with pytest.raises(InputError, match="has a value x already"):
        b.input("x", (1,))


def test_numbers_take_the_dtype_of_the_value_beside_them() -> None:
    b = GraphBuilder()
    assert b.op("add", b.input("x", (2,), "int8"), 1).dtype == "int8"


@pytest.mark.parametrize(("dtype", "number"), [
    ("uint8", 0.5), ("uint8", -1), ("int8", 128), ("bool", 2), ("int32", float("nan")), ("int64", 2**63),
])  # fmt: skip
def test_a_number_that_its_dtype_cannot_hold_is_refused(dtype: str, number: float) -> None:
    """A scale of 0.5 was once 0 beside bytes, and every result was 0."""
    b = GraphBuilder()
    x = b.input("x", (2,), dtype)
    with pytest.raises(InputError) as error:
        b.op("add", x, number)
    assert str(error.value) == (
        f"add: {number} is no {dtype}, the dtype of the operator's first input\n"
        f"  try:    pass it as an array, such as np.float32({number})"
    )


def test_a_whole_number_may_be_a_float_and_a_float_is_rounded() -> None:
    b = GraphBuilder()
    numbers = [
        b.op("add", b.input(name, (2,), dtype), n) for name, dtype, n in (("x", "int8", 3.0), ("y", "float16", 0.1))
    ]
    assert [str(number.dtype) for number in numbers] == ["int8", "float16"]


def test_values_of_another_builder_are_refused() -> None:
    stranger = GraphBuilder().input("x", (1,))
    with pytest.raises(InputError, match="no value of this builder"):
        GraphBuilder().op("exp", stranger)


@pytest.mark.parametrize(
    "op, attrs, error, text",
    [
        ("nn.leky_relu", {}, UnsupportedOperator, "did you mean nn.leaky_relu"),
        ("nonzero", {}, UnsupportedOperator, "nonzero is not supported: argwhere returns all places"),
        ("nn.leaky_relu", {"alfa": 1}, InputError, "no attribute alfa; did you mean alpha"),
        ("cast", {}, InputError, "cast needs the attribute dtype"),
        ("add", {}, InputError, "add: wanted 2 inputs, found 1"),
        ("squeeze", {"axis": 0}, InputError, r"squeeze\(float32\[2, 3\]\): squeeze: axis 0"),
    ],
)
def test_errors_name_the_operator(op: str, attrs: dict[str, Any], error: type[Exception], text: str) -> None:
    b = GraphBuilder()
    with pytest.raises(error, match=text):
        b.op(op, b.input("x", (2, 3)), **attrs)


@pytest.fixture
def plug_in() -> Iterator[None]:
    """An operator as somebody else's module would add it: one function."""

    @register(
        "test.double_plus", pattern=Pattern.BROADCAST, fold=lambda x, y, bias: 2 * x + (0 if y is None else y) + bias
    )
    def double_plus(x: Tensor, y: Tensor | None = None, *, bias: float = 0.0) -> Any:
        """2 x + y + bias."""
        other = (lambda i: y[i]) if y is not None else (lambda i: te.const(0, x.dtype))
        return te.compute(x.shape, lambda *i: x[i] * 2.0 + other(i) + bias, name="double_plus")

    yield
    del registry.OPERATORS["test.double_plus"]


@pytest.mark.usefixtures("plug_in")
def test_an_operator_is_one_function_from_anywhere() -> None:
    operator = registry.get("test.double_plus")
    assert (operator.arity, operator.attrs, operator.doc) == ((1, 2), {"bias": 0.0}, "2 x + y + bias.")
    b = GraphBuilder()
    x, z = b.input("x", (3,)), b.input("z", (3,))
    graph = b.build(b.op("nn.relu", b.op("test.double_plus", x, z, bias=-1.0)))
    fused = optimize(graph)
    assert len(fused.nodes) == 1
    arrays = {"x": np.array([1, 2, -5], "float32"), "z": np.array([0, 1, 2], "float32")}
    np.testing.assert_array_equal(by_te(fused, arrays)[0], [1, 4, 0])


@pytest.mark.parametrize("op, attrs", [
    ("image.resize", {"size": (SizeVar("n"), 1, 3)}),
    ("nn.pad", {"pad_width": ((0, 0), (0, 0), (0, 0))}),
])  # fmt: skip
def test_an_operator_that_returns_its_input_has_a_result_of_its_own(op: str, attrs: dict[str, Any]) -> None:
    """In an operator of its own, in one with a second result, and twice in one."""
    b = GraphBuilder()
    x = b.input("x", (attrs["size"][0] if "size" in attrs else SizeVar("n"), 1, 3))
    same = b.op(op, x, **attrs)
    data = np.arange(6, dtype="float32").reshape(2, 1, 3)
    for outputs, expected in (
        ([same], [data]),
        ([same, b.op("nn.relu", same)], [data, data]),
        ([same, b.op(op, same, **attrs), b.op("negative", same)], [data, data, -data]),
    ):
        graph = b.build(outputs)
        tensors = to_te(graph)
        assert len({id(t) for t in tensors}) == len(tensors) == len(to_prim_func(graph).params)
        np.testing.assert_array_equal(by_te(optimize(graph), {"x": data}), expected)


@pytest.mark.usefixtures("plug_in")
def test_a_name_is_registered_once() -> None:
    with pytest.raises(InputError, match="registered already"):
        register("test.double_plus")(lambda x: x)


def test_attributes_have_one_form() -> None:
    b = GraphBuilder()
    b.op("reshape", b.input("x", (2, 3)), newshape=np.array([3, -1]))
    (node,) = b.build(b.input("y", (1,))).nodes
    assert node.attrs == {"newshape": (3, -1), "allowzero": False}


def _broken() -> dict[str, Graph]:
    good = small()
    multiply, relu = good.nodes
    x, late = good.inputs[0], Value("late", (2, 3))
    wrong = Value("relu", (2, 4))
    unknown = OpNode("nn.nothing", (x,), {}, (late,))
    unset = OpNode("nn.leaky_relu", (x,), {}, (late,))
    tall = Constant(good.constants[0].value, np.ones((4, 3), "float32"))
    return {
        "defined_once": replace(good, nodes=(multiply, multiply, relu)),
        "defined_before_use": replace(good, nodes=(relu, multiply)),
        "input_names_differ": replace(good, inputs=(x, Value("x", (1,)))),
        "constants_fit": replace(good, constants=(tall,)),
        "operators_known": replace(good, nodes=(*good.nodes, unknown)),
        "operators_known: attributes": replace(good, nodes=(*good.nodes, unset)),
        "types_follow": replace(good, nodes=(multiply, replace(relu, outputs=(wrong,))), outputs=(wrong,)),
    }


@pytest.mark.parametrize("rule", _broken())
def test_verifier_names_the_rule_and_marks_the_spot(rule: str) -> None:
    verify_graph(small())
    with pytest.raises(VerificationError, match=f"^{rule}") as caught:
        verify_graph(_broken()[rule])
    text = str(caught.value)
    assert "wanted: " in text
    assert "def main" in text
    assert "^ here" in text or rule == "input_names_differ"


def test_verifier_looks_into_groups() -> None:
    fused = fuse(small())
    (node,) = fused.nodes
    inner = node.graph
    bad = replace(inner, nodes=(inner.nodes[0], replace(inner.nodes[1], op="sum")))
    with pytest.raises(VerificationError, match="in the group"):
        verify_graph(replace(fused, nodes=(replace(node, attrs={"graph": bad}),)))
