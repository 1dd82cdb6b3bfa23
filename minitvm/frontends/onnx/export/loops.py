"""Export loops as ONNX's Loop, and updates of a cache at a position as slices around the new entries.

ONNX's Loop does not return its number of iterations, so the body counts them. Names in a body must differ from the
names of the surrounding graph, so all of them begin with the loop's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....errors import UnsupportedOperator
from ....expr import replace
from ....graph import Graph, OpNode, Value
from ....graph.loop_bodies import carried_inputs, outside_inputs, own_carried, own_outside
from ....graph.nodes import LOOP, Constant

if TYPE_CHECKING:
    from .writer import Writer


def _loop(writer: Writer, node: OpNode) -> None:
    count, *results = node.outputs
    prefix = f"{count.name}_in_"
    body = _renamed(node.body, prefix)
    renamed = replace(node, attrs={**node.attrs, "body": body})
    scalar = writer.weight(f"{prefix}scalar", [])
    for kind, value in zip(("limit", "going"), node.inputs[:2], strict=True):
        writer.node("Reshape", [value.name, scalar], [f"{prefix}{kind}"])
    inside = writer.inside(body)
    for own, outer in zip(own_outside(renamed), outside_inputs(node), strict=True):
        inside.node("Identity", [outer.name], [own.name])
    inside.operators()
    inside.node("Add", [f"{prefix}count", inside.weight(f"{prefix}one", 1)], [f"{prefix}next"])
    again, *new = inside.outputs_of(body.outputs)
    inside.node("Reshape", [again.name, inside.weight(f"{prefix}body_scalar", [])], [f"{prefix}again"])
    number, states = body.inputs[0], own_carried(renamed)
    counter = Value(f"{prefix}count", (), number.dtype)
    flags = [Value(f"{prefix}{name}", (), node.inputs[1].dtype) for name in ("was_going", "again")]
    graph = inside.graph(
        body.name,
        [number, flags[0], counter, *states],
        [writer.info(flags[1]), writer.info(replace(counter, name=f"{prefix}next")), *new],
    )
    inputs = [f"{prefix}limit", f"{prefix}going", writer.weight(f"{prefix}zero", 0)]
    writer.node(
        "Loop", [*inputs, *(v.name for v in carried_inputs(node))], [count.name, *(v.name for v in results)], body=graph
    )


def _renamed(graph: Graph, prefix: str) -> Graph:
    """Return the graph with a prefix added to the names of all its values."""
    new = {v: Value(prefix + v.name, v.shape, v.dtype) for v in graph.values()}

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(new[v] for v in values)

    nodes = tuple(OpNode(item.op, of(item.inputs), item.attrs, of(item.outputs)) for item in graph.nodes)
    constants = tuple(Constant(new[c.value], c.data) for c in graph.constants)
    return replace(graph, inputs=of(graph.inputs), constants=constants, nodes=nodes, outputs=of(graph.outputs))


def _cache_update(writer: Writer, node: OpNode) -> None:
    """Write the entries before the position, the new entries, and the entries after them."""
    data, update, position, *slots = node.inputs
    output, axis = node.output.name, node.attrs["axis"] % data.ndim
    written = update.shape[axis]
    if node.attrs["mode"] != "linear" or data.shape[0] != 1 or slots or not isinstance(written, int):
        raise UnsupportedOperator(f"{node.op}: ONNX has it for one row of places, a known number of them, not circular")
    writer.node("Cast", [position.name], [f"{output}_at"], to=writer.integer)
    along = writer.weight(f"{output}_axis", [axis])
    writer.node("Slice", [data.name, writer.weight(f"{output}_begin", [0]), f"{output}_at", along], [f"{output}_front"])
    writer.node("Add", [f"{output}_at", writer.weight(f"{output}_written", [written])], [f"{output}_end"])
    last = writer.weight(f"{output}_last", [2**63 - 1])
    writer.node("Slice", [data.name, f"{output}_end", last, along], [f"{output}_back"])
    writer.node("Concat", [f"{output}_front", update.name, f"{output}_back"], [output], axis=axis)


LOOPS: dict[str, Callable[[Any, OpNode], None]] = {LOOP: _loop, "nn.cache_update": _cache_update}
