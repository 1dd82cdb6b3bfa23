"""Loops of a graph: the inputs and outputs of a `loop` and its body, and functions that build and change loops.

    count, *results = loop(limit, going, *carried, *outside, body=graph, carried=k, most=m)

        number = 0
        while number < limit and going:             a run in which number reaches `most` here stops with an error
            going, *carried = body(number, *carried, *outside)
            number = number + 1
        count, *results = number, *carried

`limit` and `number` are int64, `going` is bool, each one element. A carried value has one type in all iterations.
`outside` are values that the body only reads. To read a slice of such a value in each iteration, the body uses a `take`
at `number`. To collect results of all iterations, a carried value has room for all, and each iteration replaces a slice
of it; linking shows that this needs no copy (`link.in_place`). The semantics are those of XLA's While. `most`, a
dimension or None, is an upper bound of the number of iterations, and so of the memory for their results.

A size that is bound in the body (`bind_size`) has a value until the end of an iteration. No node after the loop uses
it, because carried values keep the types that they begin with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..expr import DType, Expr, free_vars, replace
from .nodes import LOOP, Constant, Graph, OpNode, Value

UNLIMITED = 2**63 - 1  # the limit of a loop that a condition ends


def carried_inputs(item: OpNode) -> tuple[Value, ...]:
    """Return the initial values of a loop's carried values."""
    return item.inputs[2 : 2 + item.attrs["carried"]]


def outside_inputs(item: OpNode) -> tuple[Value, ...]:
    """Return the values from outside the loop that the body only reads, in the order of its last inputs."""
    return item.inputs[2 + item.attrs["carried"] :]


def own_carried(item: OpNode) -> tuple[Value, ...]:
    """Return the inputs of the body that stand for the carried values."""
    return item.body.inputs[1 : 1 + item.attrs["carried"]]


def own_outside(item: OpNode) -> tuple[Value, ...]:
    """Return the inputs of the body that stand for values from outside the loop."""
    return item.body.inputs[1 + item.attrs["carried"] :]


def with_body(item: OpNode, body: Graph, inputs: Sequence[Value] | None = None) -> OpNode:
    """Return the loop with another body and, if `inputs` is given, other inputs."""
    values = item.inputs if inputs is None else tuple(inputs)
    return replace(item, inputs=values, attrs={**item.attrs, "body": body})


def with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Apply `change` to the body of each loop in a graph, and return the graph (unchanged if no body changed)."""
    nodes = []
    changed = False
    for item in graph.nodes:
        body = change(item.body) if item.op == LOOP else None
        changed = changed or (body is not None and body is not item.body)
        nodes.append(item if body is None or body is item.body else with_body(item, body))
    return replace(graph, nodes=tuple(nodes)) if changed else graph


def everywhere(change: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """Turn a pass into one that also runs on the bodies of loops, including nested loops."""

    def run(graph: Graph) -> Graph:
        return with_bodies(change(graph), run)

    return run


def body_of(
    nodes: Sequence[OpNode], inputs: Sequence[Value], outputs: Sequence[Value], constants: Sequence[Constant], name: str
) -> tuple[Graph, tuple[Value, ...]]:
    """Build a loop body that computes `outputs` from `inputs` with `nodes`; return it and the outside values that it
    reads.

    An outside value that is one of `constants` becomes a constant of the body.
    """
    defined = {*inputs, *(v for item in nodes for v in item.outputs)}
    read = dict.fromkeys(v for item in nodes for v in item.inputs if v not in defined)
    read.update((v, None) for v in outputs if v not in defined)
    arrays = {c.value: c.data for c in constants}
    own = {v: Value(v.name, v.shape, v.dtype) for v in read}
    kept = tuple(Constant(own[v], arrays[v]) for v in read if v in arrays)
    outside = tuple(v for v in read if v not in arrays)
    inner = tuple(replace(item, inputs=tuple(own.get(v, v) for v in item.inputs)) for item in nodes)
    returned = tuple(own.get(v, v) for v in outputs)
    return Graph((*inputs, *(own[v] for v in outside)), kept, inner, returned, name), outside


def misfits(item: OpNode, same_type: Callable[[Value, Value], bool]) -> list[str]:
    """Return the type errors of a loop, as sentences."""
    count, body = item.attrs["carried"], item.body
    if len(item.inputs) < 2 + count:
        return [f"a loop with {count} carried values has {len(item.inputs)} inputs"]
    wanted = [Value("number", (), DType("int64")), *item.inputs[2:]]
    if len(body.inputs) != len(wanted):
        return [f"the body takes {len(body.inputs)} values, it is given {len(wanted)}"]
    results = [Value("going", (), DType("bool")), *carried_inputs(item)]
    if len(body.outputs) != len(results):
        return [f"the body returns {len(body.outputs)} values, wanted {len(results)}"]
    found = [
        f"the {what} is {v.type}"
        for what, v, dtype in (("limit", item.inputs[0], "int64"), ("condition", item.inputs[1], "bool"))
        if v.shape != () or v.dtype != dtype
    ]
    pairs = [*zip(body.inputs, wanted, strict=True), *zip(body.outputs, results, strict=True)]
    found += [f"the body has {a.type} for {b.name}: {b.type}" for a, b in pairs if not same_type(a, b)]
    found += ["the body has states"] if body.states else []
    bound = {size for inner in body.nodes for size in inner.bound_sizes()}
    used: Any = (v for value in item.inputs for d in value.shape if isinstance(d, Expr) for v in free_vars(d))
    found += [f"{size.name} is bound in the body and used around it" for size in dict.fromkeys(used) if size in bound]
    return found
