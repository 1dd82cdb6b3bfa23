"""`build(graph, replace={...})`, and which calls of loop programs are fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm import te, tir
from minitvm.errors import InputError, MinitvmError
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder, Pattern, verify_graph
from minitvm.reference import graph as interpreter
from minitvm.topi import registry
from minitvm.topi.fusion_class import fusion_class
from tests.fewer import examples

X = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")
W = np.random.default_rng(1).standard_normal((8, 16)).astype("float32")


def network(rows: Any = 4) -> Graph:
    b = GraphBuilder("net")
    y = b.op("nn.relu", b.op("nn.dense", b.input("x", (rows, 16)), W))
    return b.build(b.op("nn.softmax", y, name="y"))


def relu(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: te.maximum(x[i], 0.0), name="relu")


def dense(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0], w.shape[0]), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="dense")


def softmax(x: te.Tensor, *, axis: int) -> te.Tensor:
    assert axis == -1
    k = te.reduce_axis((0, x.shape[1]), "k")
    e = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), name="e")
    s = te.compute((x.shape[0],), lambda i: te.sum(e[i, k], axis=k), name="s")
    return te.compute(x.shape, lambda i, j: e[i, j] / s[i], name="softmax")


def on_threads(sch: tir.Schedule) -> None:
    for block in sch.get_child_blocks(sch.get_block("root")):
        sch.parallel(sch.get_loops(block)[0])


def returned(sch: tir.Schedule) -> tir.Schedule:
    other = sch.copy()
    on_threads(other)
    return other


def primfunc(x: te.Tensor) -> Any:
    return te.create_prim_func([x, relu(x)], name="my_relu")


@pytest.mark.parametrize("rows", [4, SizeVar("n")], ids=str)
@pytest.mark.parametrize(
    "replace",
    [
        {"nn.softmax": softmax}, {"nn.softmax": on_threads}, {"nn.softmax": returned}, {"nn.relu": primfunc},
        {"nn.dense": dense, "nn.relu": relu, "nn.softmax": on_threads},
    ],
    ids=["te", "schedule", "returned", "primfunc", "all"],
)  # fmt: skip
def test_a_replaced_operator_is_computed_by_its_replacement(replace: dict[str, Any], rows: Any) -> None:
    graph = network(rows)
    (expected,) = interpreter.run(graph, [X])
    after = minitvm.lower(graph, replace=replace, stop_at="graph")
    verify_graph(after)
    assert [item.op for item in after.nodes] == ["call_tir" if n.op in replace else n.op for n in graph.nodes]
    assert [v.name for v in after.outputs] == ["y"]
    np.testing.assert_allclose(interpreter.run(after, [X])[0], expected, rtol=1e-5)
    np.testing.assert_allclose(minitvm.build(graph, replace=replace)(X), expected, rtol=1e-5)


def test_only_a_program_with_final_loops_is_excluded_from_fusion() -> None:
    def groups(replace: dict[str, Any]) -> list[str]:
        return [item.graph.name and "_".join(n.op.split(".")[-1] for n in item.graph.nodes)
                for item in minitvm.lower(network(), replace=replace, stop_at="fused").nodes]  # fmt: skip

    assert groups({"nn.dense": dense, "nn.relu": relu}) == ["call_tir_call_tir", "softmax"]
    assert groups({"nn.relu": on_threads}) == ["dense", "call_tir", "softmax"]


def test_one_function_replaces_an_operator_in_the_body_of_a_loop() -> None:
    b = GraphBuilder()
    x = b.input("x", (2, 4))
    graph = b.build(b.loop(lambda number, x: (True, [b.op("nn.relu", b.op("add", x, -1.0))]), [x], limit=2)[1])
    after = minitvm.lower(graph, replace={"nn.relu": relu}, stop_at="graph")
    assert [n.op for n in after.nodes[0].body.nodes] == ["add", "call_tir"]
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(minitvm.build(graph, replace={"nn.relu": relu})(x), np.maximum(x - 2, 0))


@pytest.mark.parametrize(
    ("replace", "text"),
    [
        ({"nn.sofmax": softmax}, "operator nn.sofmax is not registered; did you mean nn.softmax or"),
        ({"nn.conv2d": dense}, "replace: net has no operator nn.conv2d; known: nn.dense, nn.relu, nn.softmax"),
        ({"nn.softmax": 3}, "replace: nn.softmax\n  wanted: a PrimFunc, f(sch) or f(*inputs, **attrs)\n  found:  int"),
        (
            {"nn.relu": dense},
            "replace: nn.relu by relu(x: 'te.Tensor', w: 'te.Tensor') -> 'te.Tensor': missing a required argument: "
            "'w'\n  wanted: f(x)",
        ),
        (
            {"nn.relu": lambda x: te.compute((x.shape[0],), lambda i: x[i, 0], name="column")},
            "replace: nn.relu by relu(p0: float32[4, 8], column: float32[4])\n"
            "  wanted: the results of nn.relu: float32[4, 8]\n  found:  float32[4]",
        ),
    ],
    ids=["unknown", "absent", "kind", "arguments", "results"],
)
def test_a_replacement_that_does_not_fit_is_refused(replace: dict[str, Any], text: str) -> None:
    with pytest.raises(MinitvmError) as refused:
        minitvm.build(network(), replace=replace)
    assert str(refused.value).startswith(text)


def test_a_loop_program_has_no_operators_to_replace() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, relu(x)], name="f")
    with pytest.raises(InputError, match="replace= goes with a model; f has no operators"):
        minitvm.build(func, replace={"nn.relu": relu})


def _class(fcompute: Any, *shapes: tuple[int, ...]) -> Pattern:
    inputs = [te.placeholder(shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    return fusion_class(te.create_prim_func([*inputs, fcompute(*inputs)]))


def test_the_fusion_class_follows_from_the_loops() -> None:
    square = (4, 4)
    k = te.reduce_axis((0, 4), "k")
    assert _class(relu, square) is Pattern.ELEMENTWISE
    assert _class(lambda x, b: te.compute(square, lambda i, j: x[i, j] + b[j]), square, (4,)) is Pattern.BROADCAST
    assert _class(lambda x: te.compute(square, lambda i, j: x[j, i]), square) is Pattern.INJECTIVE
    assert _class(lambda x: te.compute((4,), lambda i: te.sum(x[i, k], axis=k)), square) is Pattern.COMM_REDUCE
    assert _class(dense, square, square) is Pattern.COMPLEX_OUT_FUSABLE
    assert _class(lambda x: softmax(x, axis=-1), square) is Pattern.OPAQUE
    window = _class(lambda x: te.compute((3,), lambda i: x[i] + x[i + 1]), (4,))
    tiled = _class(lambda x: te.compute((8,), lambda i: x[i % 4]), (4,))
    assert window is tiled is Pattern.OPAQUE  # a fused producer would be computed twice


SAME = ("nn.relu", "abs", "add", "multiply", "nn.softmax", "transpose", "nn.dense", "max", "sum")


@st.composite
def chains(draw: st.DrawFn) -> tuple[Graph, dict[str, Any]]:
    """A chain of operators on small matrices, and replacements of some of them by their own te functions."""
    b = GraphBuilder()
    x = y = b.input("x", (4, 4))
    for _ in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from(SAME))
        two = op in ("add", "multiply", "nn.dense")
        attrs = {"axis": 1, "keepdims": True} if op in ("max", "sum") else {}
        y = b.op(
            op, y, *([x] if two and not (op == "nn.dense" and y.shape != x.shape) else [y] if two else []), **attrs
        )
        if y.shape != x.shape:
            y = b.op("add", y, x)
    names = draw(st.sets(st.sampled_from(sorted({item.op for item in b.nodes})), min_size=1))
    own = {name: registry.get(name).compute for name in names}
    scheduled = {name: on_threads for name in names if draw(st.booleans())}
    return b.build(y), {**own, **scheduled}


@examples(6, 60)
@given(chains())
def test_replacing_operators_by_themselves_changes_nothing(drawn: tuple[Graph, dict[str, Any]]) -> None:
    graph, replace = drawn
    x = np.random.default_rng(3).uniform(-0.5, 0.5, (4, 4)).astype("float32")
    (expected,) = interpreter.run(graph, [x])
    after = minitvm.lower(graph, replace=replace, stop_at="graph")
    verify_graph(after)
    scale = np.abs(expected).max() + 1
    np.testing.assert_allclose(interpreter.run(after, [x])[0] / scale, expected / scale, atol=1e-5)
    np.testing.assert_allclose(minitvm.build(graph, replace=replace)(x) / scale, expected / scale, atol=1e-5)
