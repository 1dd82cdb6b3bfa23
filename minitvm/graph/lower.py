"""From a fused group to te, and to its level-3 function.

A function knows its operator's structure, not its place in the network: `own_graph` is what is left, and
`function_key`, its hash, is equal for nodes that can share one function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..expr import Expr, Node, SizeVar, Var, const, free_vars, map_children, structural_equal, walk
from ..expr.structural_hash import structural_digest
from ..te import (
    ComputeOp,
    ExternOp,
    Operation,
    Tensor,
    TensorLoad,
    compute,
    create_prim_func,
    placeholder,
    post_order,
)
from ..te.nodes import PlaceholderOp
from ..tir.nodes import PrimFunc
from . import registry
from .nodes import FUSED, Constant, Dim, Graph, OpNode, Value


def to_prim_func(node: OpNode | Graph, name: str = "main") -> PrimFunc:
    """The level-3 function of a fused group, or of a single node: parameters are its inputs, then its outputs.

    `node` may be its `own_graph`.
    """
    return create_prim_func(to_te(node), name=name)


def to_te(node: OpNode | Graph) -> list[Tensor]:
    """The node's inputs as placeholders, then its outputs as tensor expressions over them."""
    graph = node if isinstance(node, Graph) else own_graph(node)
    tensors: dict[Value, Tensor] = {}
    scalars: dict[Tensor, Expr] = {}
    for value in graph.inputs:
        tensors[value] = placeholder(list(value.shape), value.dtype, name=value.name)
    for constant in graph.constants:
        tensor = placeholder(constant.value.shape, constant.value.dtype, name=constant.value.name)
        tensors[constant.value] = tensor
        scalars[tensor] = _scalar(constant)
    for item in graph.nodes:
        operator = registry.get(item.op)
        results = operator.to_te([tensors[v] for v in item.inputs], item.attrs)
        tensors.update(zip(item.outputs, results, strict=True))
    outputs = _with_scalars([tensors[v] for v in graph.outputs], scalars)
    return [*(tensors[v] for v in graph.inputs), *outputs]


def function_key(graph: OpNode | Graph) -> bytes:
    """A key of 32 bytes, equal for nodes that compute the same function of their inputs, whatever their names.

    It is the same in every process. `graph` is a node, or its `own_graph`.
    """
    own = graph if isinstance(graph, Graph) else own_graph(graph)
    return structural_digest(own, map_free_vars=True)


def own_graph(node: OpNode) -> Graph:
    """What a node computes as a graph of its own, with nothing in it of the network that the node is from.

    Inputs are `p0`, `p1`, ..., and symbolic dimensions are variables that the inputs' shapes tell.
    """
    graph = _as_graph(node)
    dims = _Dimensions(graph)
    names = {value: f"p{number}" for number, value in enumerate(graph.inputs)}
    own = {v: Value(names.get(v, ""), tuple(dims.of(d) for d in v.shape), v.dtype) for v in graph.values()}

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(own[v] for v in values)

    constants = tuple(Constant(own[c.value], c.data) for c in graph.constants)
    nodes = tuple(OpNode(n.op, of(n.inputs), dims.attrs(n.attrs), of(n.outputs)) for n in graph.nodes)
    return Graph(of(graph.inputs), constants, nodes, of(graph.outputs))


def _as_graph(node: OpNode) -> Graph:
    if node.op == FUSED:
        return node.graph
    inputs = tuple(dict.fromkeys(node.inputs))
    if inputs == node.inputs:
        return Graph(inputs, (), (node,), node.outputs)
    # A value that is read twice is one parameter for each reading: the caller hands over the node's inputs in order.
    fresh = tuple(Value(v.name, v.shape, v.dtype) for v in node.inputs)
    return Graph(fresh, (), (OpNode(node.op, fresh, node.attrs, node.outputs),), node.outputs)


def _scalar(constant: Constant) -> Expr:
    if constant.data.size != 1:
        raise InputError(f"{constant}: a constant inside a group has one element")
    return const(constant.data.reshape(())[()].item(), constant.value.dtype)


class _Dimensions:
    """The symbolic dimensions of one function.

    A variable that is by itself a dimension of an input stays. A dimension such as n // 4 becomes a variable of the
    function when the variables in it are not such dimensions: arguments could not tell their values.
    """

    def __init__(self, graph: Graph) -> None:
        self.renamed: list[tuple[Expr, Var]] = []
        symbolic = [d for value in graph.inputs for d in value.shape if isinstance(d, Expr)]
        named: set[Var] = {d for d in symbolic if isinstance(d, Var)}
        # Small ones first: n // 4 * 8 beside n // 4 is 8 times the same variable.
        for dim in sorted(symbolic, key=lambda d: sum(1 for _ in walk(d))):
            if all(v in named for v in free_vars(self._rewrite(dim))):
                continue
            own = SizeVar(f"d{len(self.renamed)}", dim.dtype)
            self.renamed.append((dim, own))
            named.add(own)
        self.named = named

    def find(self, dim: Node) -> Var | None:
        return next((var for replaced, var in self.renamed if structural_equal(replaced, dim)), None)

    def of(self, dim: Dim) -> Dim:
        return dim if isinstance(dim, int) else self._rewrite(dim)

    def attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes with their dimensions in terms of the function's own variables."""
        if not self.renamed:
            return dict(attrs)
        own = {key: self._attribute(value) for key, value in attrs.items()}
        if "newshape" in own:
            own["newshape"] = self._inferred(own["newshape"])
        return own

    def _inferred(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """A shape to reshape to, its one dimension that the function cannot name left to be inferred."""
        unknown = [a for a, d in enumerate(shape) if isinstance(d, Expr) and set(free_vars(d)) - self.named]
        return tuple(-1 if a in unknown else d for a, d in enumerate(shape)) if len(unknown) == 1 else shape

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return self._rewrite(value)
        return tuple(map(self._attribute, value)) if isinstance(value, tuple) else value

    def _rewrite(self, dim: Any) -> Any:
        own = self.find(dim)
        return own if own is not None else map_children(dim, self._rewrite)


def _with_scalars(outputs: list[Tensor], scalars: Mapping[Tensor, Expr]) -> list[Tensor]:
    """The outputs with every load of a scalar constant replaced by its value."""
    if not scalars:
        return outputs
    operations: dict[Operation, Operation] = {}
    tensors: dict[Tensor, Tensor] = {}

    def go(old: Any) -> Any:
        if isinstance(old, TensorLoad):
            if old.tensor in scalars:
                return scalars[old.tensor]
            indices = tuple(map(go, old.indices))
            tensor = tensors[old.tensor]
            same = tensor is old.tensor and all(a is b for a, b in zip(indices, old.indices, strict=True))
            return old if same else TensorLoad(tensor, indices)
        return map_children(old, go)

    for tensor in post_order(outputs):
        op = tensor.op
        if isinstance(op, PlaceholderOp):
            tensors[tensor] = _of_one_value(tensor, scalars[tensor]) if tensor in scalars else tensor
            continue
        if isinstance(op, ExternOp) and op not in operations:
            inputs = tuple(tensors[one] for one in op.inputs)
            same = all(a is b for a, b in zip(inputs, op.inputs, strict=True))
            operations[op] = op if same else ExternOp(op.name, inputs, op.func)
        if isinstance(op, ComputeOp) and op not in operations:
            body = tuple(map(go, op.body))
            same = all(a is b for a, b in zip(body, op.body, strict=True))
            operations[op] = op if same else ComputeOp(op.name, op.axis, body, op.attrs)
        new = operations[op]
        tensors[tensor] = tensor if new is op else Tensor(new, tensor.shape, tensor.dtype, tensor.value_index)
    return [tensors[tensor] for tensor in outputs]


def _of_one_value(tensor: Tensor, value: Expr) -> Tensor:
    """A tensor of one value, for a function of loops, which takes tensors."""
    filled: Tensor = compute(tensor.shape, lambda *_: value, name=tensor.name)
    return filled
