"""The ways to run one call of an operator, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from minitvm.errors import InputError, TypeMismatch, Unsupported
from minitvm.expr import DType, Expr, SizeVar, as_expr
from minitvm.graph import Graph, GraphBuilder, verify_graph
from minitvm.graph.passes.constant_folding import _GROWN_ELEMENTS, constant_folding
from minitvm.reference import graph as interpreter
from minitvm.reference import te as te_interpreter
from minitvm.te.nodes import PlaceholderOp, Tensor
from minitvm.topi import registry

from .calls import Call


def by_te(call: Call, symbols: Mapping[int, SizeVar] = {}) -> list[np.ndarray]:
    """By the operator's tensor expression, interpreted; extents of these sizes are symbolic."""
    operator = registry.get(call.op)
    placeholders = []
    for number, array in enumerate(call.inputs):
        shape: tuple[Expr, ...] = tuple(as_expr(symbols.get(d, d)) for d in array.shape)
        dtype = DType(array.dtype.name)
        placeholders.append(Tensor(PlaceholderOp(f"x{number}", shape, dtype), shape, dtype))
    outputs = operator.to_te(placeholders, operator.normalize(call.attrs))
    return te_interpreter.evaluate(outputs, dict(zip(placeholders, call.inputs, strict=True)))


def by_symbolic_te(call: Call) -> list[list[np.ndarray]]:
    """The same with every extent of one size symbolic, for each size in turn; none where the operator refuses that.

    Extents that are equal become the same variable: what has to fit still does.
    """
    found = []
    for size in sorted({d for a in call.inputs for d in a.shape}):
        try:
            found.append(by_te(call, {size: SizeVar("n")}))
        except (InputError, TypeMismatch, Unsupported):
            continue  # an extent that has to be known, or one that is 1 and is broadcast
    return found


def graph_of(call: Call) -> Graph:
    """A network of the one call."""
    builder = GraphBuilder()
    inputs = [builder.input(f"x{k}", a.shape, a.dtype.name) for k, a in enumerate(call.inputs)]
    return builder.build(builder.op(call.op, *inputs, **call.attrs))


def by_graph(call: Call) -> list[np.ndarray]:
    """By the graph's interpreter; refuses results whose types are not the inferred ones."""
    graph = graph_of(call)
    verify_graph(graph)
    return interpreter.run(graph, call.inputs)


def by_folding(call: Call) -> list[np.ndarray]:
    """By constant folding, all inputs being constants; nothing for results that are kept as computation."""
    builder = GraphBuilder()
    graph = constant_folding(builder.build(builder.op(call.op, *call.inputs, **call.attrs)))
    if graph.nodes:
        small = sum(np.asarray(array).size for array in by_graph(call)) <= _GROWN_ELEMENTS
        assert not small, graph
        return []
    return [graph.arrays()[value] for value in graph.outputs]


def difference(call: Call) -> str:
    """Where tensor expression, of known extents or symbolic ones, or fold differ from the interpreter; "" for nowhere.

    Integers are the same; floats are within what another order of sums may change.
    """
    wanted = by_graph(call)
    ways = [("te", by_te(call)), *(("te of a symbolic extent", found) for found in by_symbolic_te(call))]
    operator = registry.get(call.op)
    if operator.fold or operator.fold_types:
        ways += [("fold", folded)] if (folded := by_folding(call)) else []
    for way, found in ways:
        for a, b in zip(found, wanted, strict=True):
            if (a.dtype, a.shape) != (b.dtype, b.shape) or not near(a, b):
                return f"{way}: {call}: {a.dtype}{list(a.shape)} {a} instead of {b.dtype}{list(b.shape)} {b}"
    return ""


def near(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether results agree: integers are the same, floats differ by what another order of sums may change."""
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    scale = float(np.max(np.abs(b), initial=1.0, where=np.isfinite(b)))
    return np.allclose(a, b, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)
