"""An attribute that is left out means its default: that of the operator's schema, in every version of the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from minitvm.errors import MinitvmError
from minitvm.frontends import from_onnx
from minitvm.frontends.onnx.registry import find

from .one_node import Node
from .random_nodes import OPERATORS, random_node

OPSETS = (9, 11, 13)  # beside the node's own: defaults changed, and operators did
SEEDS, EACH = 60, 2  # seeds that are tried, nodes of each operator that are looked at
# Of these the schema's default is no value of every node: one list for one and for two directions, bounds that only
# infinities exceed.
LOOSE = {("RNN", "activations"), ("GRU", "activations"), ("LSTM", "activations"), ("Clip", "min"), ("Clip", "max")}


def imported(node: Node) -> str:
    """The operators of a node's graph with all attributes, and its constants; or that it is refused."""
    try:
        graph = from_onnx(node.model())
    except MinitvmError as error:
        return f"refused: {type(error).__name__}"
    lines = [f"{i.op}({rounded(dict(i.attrs))}): {', '.join(v.type for v in i.outputs)}" for i in graph.nodes]
    return "\n".join([*lines, *(repr(rounded(constant.data.tolist())) for constant in graph.constants)])


def rounded(value: Any) -> Any:
    """Floats to six digits: a model holds them in 32 bits."""
    if isinstance(value, dict):
        return {key: rounded(value[key]) for key in sorted(value)}
    if isinstance(value, tuple | list):
        return tuple(map(rounded, value))
    return f"{value:.6g}" if isinstance(value, float) else value


def plain(op: str) -> Node:
    """A node of an operator on pictures, with numbers for the attributes that it must have."""
    schema = onnx.defs.get_schema(op, 18)
    kinds = onnx.defs.OpSchema.AttrType
    numbers = {kinds.INT: 3, kinds.FLOAT: 1.5, kinds.INTS: (2, 2)}
    attrs = {name: numbers.get(a.type, "") for name, a in schema.attributes.items() if a.required}
    arrays = {f"x{k}": np.ones((1, 4, 6, 6), np.float32) for k in range(schema.min_input)}
    return Node(op, arrays, attrs, outputs=max(schema.min_output, 1))


def plain_operators() -> list[str]:
    """The operators that take some tensors and no graphs, and have attributes with defaults."""
    names = []
    for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}):
        if onnx.defs.has(name, 18) and find("", name, 18) is not None:
            attributes = onnx.defs.get_schema(name, 18).attributes.values()
            names += [] if any(a.type in _GRAPHS for a in attributes) else [name]
    return names


_GRAPHS = (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS, onnx.defs.OpSchema.AttrType.TENSOR)


def defaults(node: Node) -> Iterator[tuple[str, Any]]:
    """The attributes of a node's operator that have a default, and what it is."""
    try:
        schema = onnx.defs.get_schema(node.op, node.opset)
    except onnx.defs.SchemaError:
        return
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED and (node.op, name) not in LOOSE:
            value = helper.get_attribute_value(attribute.default_value)
            yield name, value.decode() if isinstance(value, bytes) else value


def drawn_nodes(family: str) -> Iterator[Node]:
    """Some nodes of each operator of a family."""
    seen = Counter[str]()
    for seed in range(SEEDS):
        drawn = random_node(family, seed)
        seen[drawn.op] += 1
        if seen[drawn.op] <= EACH:
            yield drawn


def left_out_means_the_default(nodes: Iterable[Node]) -> int:
    """How many attributes were left out. Raises `AssertionError` where one means something else then."""
    compared = 0
    for drawn in nodes:
        for opset in dict.fromkeys((drawn.opset, *OPSETS)):
            node = replace(drawn, opset=opset)
            for name, value in defaults(node):
                others = {key: own for key, own in node.attrs.items() if key != name}
                silent = imported(replace(node, attrs=others))
                explicit = imported(replace(node, attrs={**others, name: value}))
                assert silent == explicit, (
                    f"{node.op} of opset {opset}: {name} left out is not {value}: {silent} {explicit}"
                )
                compared += not silent.startswith("refused")
    return compared


def all_plain_defaults() -> None:
    """A check without arguments, by which faults are noticed."""
    assert left_out_means_the_default(map(plain, plain_operators())) > 150


@pytest.mark.parametrize("family", OPERATORS)
def test_what_drawn_nodes_leave_out_means_the_default(family: str) -> None:
    left_out_means_the_default(drawn_nodes(family))


def test_what_plain_nodes_leave_out_means_the_default() -> None:
    all_plain_defaults()
