"""One declaration makes an operator: topi, graphs, ONNX, PyTorch and the compiler have it at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import minitvm
from minitvm import te, topi
from minitvm.errors import UnsupportedOperator
from minitvm.frontends.onnx import from_onnx
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import GraphBuilder, Pattern, register
from minitvm.reference import graph as interpreter
from minitvm.reference.operators.table import OPERATORS, operator
from minitvm.topi import registry

X = np.linspace(-2, 2, 10, dtype="float32").reshape(2, 5)


@pytest.fixture
def without_sinh(monkeypatch: pytest.MonkeyPatch) -> None:
    """minitvm as it would be if nobody had declared `sinh`, which ONNX and PyTorch have."""
    monkeypatch.setattr(registry, "OPERATORS", {n: o for n, o in registry.OPERATORS.items() if n != "sinh"})


@pytest.fixture
def declared(without_sinh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The declaration, and the oracle's meaning: nothing else."""
    monkeypatch.setattr(registry, "_NAMED", {pair: list(names) for pair, names in registry._NAMED.items()})

    @register("test.half_difference", pattern=Pattern.ELEMENTWISE, onnx="Sinh", aten="sinh")
    def half_difference(x: te.Tensor) -> te.Tensor:
        """(exp(x) - exp(-x)) / 2."""
        return te.compute(x.shape, lambda *i: (te.exp(x[i]) - te.exp(-x[i])) / 2.0, name="half_difference")

    @operator("test.half_difference")
    def meaning(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.sinh(x.astype("float64")).astype(x.dtype))

    yield
    del OPERATORS["test.half_difference"]


def sinh_in_onnx() -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, X.shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Sinh", ["x"], ["y"])], "net", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def agrees(graph: Any) -> None:
    """The operator is in the graph, and means the same interpreted and compiled."""
    assert [node.op for node in graph.nodes] == ["test.half_difference"]
    np.testing.assert_allclose(interpreter.run(graph, [X])[0], np.sinh(X), rtol=1e-6)
    np.testing.assert_allclose(minitvm.build(graph, threads=1)(X), np.sinh(X), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("without_sinh")
def test_an_operator_that_is_not_declared_is_nowhere() -> None:
    assert registry.named("onnx", "Sinh") is registry.named("aten", "sinh.default") is None
    with pytest.raises(UnsupportedOperator, match=r"operator Sinh \(node y\) of opset 17 is not supported"):
        from_onnx(sinh_in_onnx())
    b = GraphBuilder()
    with pytest.raises(UnsupportedOperator, match="operator sinh is not registered"):
        b.op("sinh", b.input("x", X.shape))


@pytest.mark.usefixtures("declared")
def test_graphs_and_topi_have_it() -> None:
    b = GraphBuilder()
    graph = b.build(b.op("test.half_difference", b.input("x", X.shape)))
    agrees(graph)
    result = topi.half_difference(te.placeholder(X.shape, name="x"))
    assert (result.name, result.dtype) == ("half_difference", "float32")


@pytest.mark.usefixtures("declared")
def test_it_comes_from_onnx_and_goes_there() -> None:
    graph = from_onnx(sinh_in_onnx())
    agrees(graph)
    model = to_onnx(graph)
    assert [node.op_type for node in model.graph.node] == ["Sinh"]
    agrees(from_onnx(model))


@pytest.mark.usefixtures("declared")
@pytest.mark.filterwarnings("ignore")
def test_it_comes_from_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.sinh(x)

    agrees(minitvm.from_torch(Net(), (torch.tensor(X),)))


def test_what_was_undone_leaves_nothing_behind() -> None:
    names = [registry.named("onnx", "Sinh"), registry.named("aten", "sinh.default")]
    assert [row and row.name for row in names] == ["sinh", "sinh"]
    assert "test.half_difference" not in registry.names()
    with pytest.raises(AttributeError, match="half_difference"):
        _ = topi.half_difference


def test_what_is_declared_are_operators_of_onnx_with_the_same_attributes() -> None:
    """With the same defaults, too, unless ONNX wants the attribute. None, no limit, is the largest number there."""
    for name, row in registry.all_named("onnx").items():
        assert row.onnx is not None
        # From opset 11 on the limits of Clip are inputs, and a converter reads them.
        schema = onnx.defs.get_schema(name, 10 if name == "Clip" else max(row.onnx.since, 20))
        least, most = row.arity
        assert schema.min_input <= max(least, 1) and (most is None or most <= schema.max_input), name
        for ours, theirs in row.onnx.attrs.items():
            default = schema.attributes[theirs].default_value
            if row.attrs[ours] is not None and default.type != onnx.AttributeProto.UNDEFINED:
                value = helper.get_attribute_value(default)
                value = value.decode() if isinstance(value, bytes) else value
                assert row.attrs[ours] == (value if isinstance(value, str) else pytest.approx(value)), (name, theirs)
