"""Move work out of loops that is the same in each iteration, and move constants into their bodies.

- A constant from outside becomes a constant of the body, so that passes can fold it there, and pack weights once.
- A carried value that the body returns unchanged becomes a value from outside.
- An operator whose inputs are values from outside, perhaps with constants, is moved before the loop, so that it runs
  once. Legal, because operators have no side effects: if there is no iteration, it only costs time. An operator that
  costs less than the memory of its result stays: a change of shape, or an operator that reads only constants, because a
  later pass folds it.
- Values from outside that the body does not read are removed, and equal ones are merged.

All of this happens before the other passes, from the outermost loop to the innermost.
"""

from __future__ import annotations

from ...expr import replace
from ...topi import registry
from ..loop_bodies import carried_inputs, outside_inputs, own_carried, own_outside, with_body
from ..nodes import BIND_SIZE, LOOP, MATCH_CAST, Constant, Graph, OpNode, Value
from ..rewrite import rebuild


def loop_bodies(graph: Graph) -> Graph:
    """Move operators that compute the same in every iteration out of their loop, so that they run once. Values that a
    loop carries without changing them become inputs from outside, and constant inputs become constants of its body. An
    operator that reads only constants stays in the body, where a later pass folds it.

    before:
        x = b.input("x", (2, 3))
        def body(number, total):
            return True, [b.op("add", total, b.op("exp", x))]
        count, total = b.loop(body, [x], limit=8)
        return total
    after:
        def loop_body(number: int64[], x_1: float32[2, 3], exp: float32[2, 3]):
            const_2 = constant(bool[])  # True
            add: float32[2, 3] = add(x_1, exp)
            return const_2, add

        def main(x: float32[2, 3]):
            const = constant(bool[])  # True
            const_1 = constant(int64[])  # 8
            exp: float32[2, 3] = exp(x)
            loop_0, loop_1 = loop(const_1, const, x, exp, body=loop_body, carried=1)  # int64[], float32[2, 3]
            return loop_1
    """
    if not any(item.op == LOOP for item in graph.nodes):
        return graph
    constants = graph.arrays()
    nodes: list[OpNode] = []
    instead: dict[Value, Value] = {}
    added: list[Constant] = []
    for item in graph.nodes:
        if item.op == LOOP:
            item = _read_only(item, instead)
            item = _with_constants(item, {c: constants[c] for c in item.inputs if c in constants})
            item, moved = _without_invariants(item, added)
            nodes += moved
            item = _without_idle_inputs(item)
        nodes.append(item)
    return rebuild(graph, nodes, added, instead)


def _read_only(item: OpNode, instead: dict[Value, Value]) -> OpNode:
    """Turn carried values that no iteration changes into values from outside. Their results become their initial
    values.
    """
    body = item.body
    same = [old is new for old, new in zip(own_carried(item), body.outputs[1:], strict=True)]
    if not any(same):
        return item

    def changing(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(v for v, idle in zip(values, same, strict=True) if not idle)

    def idle(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(v for v, is_idle in zip(values, same, strict=True) if is_idle)

    instead.update(zip(idle(item.outputs[1:]), idle(carried_inputs(item)), strict=True))
    inputs = (*item.inputs[:2], *changing(carried_inputs(item)), *idle(carried_inputs(item)), *outside_inputs(item))
    own = (body.inputs[0], *changing(own_carried(item)), *idle(own_carried(item)), *own_outside(item))
    inner = replace(body, inputs=own, outputs=(body.outputs[0], *changing(body.outputs[1:])))
    attrs = {**item.attrs, "body": inner, "carried": same.count(False)}
    return OpNode(LOOP, inputs, attrs, (item.outputs[0], *changing(item.outputs[1:])))


def _with_constants(item: OpNode, arrays: dict[Value, object]) -> OpNode:
    """Turn constants from outside the loop, whose arrays are in `arrays`, into constants of the loop's body."""
    pairs = list(zip(outside_inputs(item), own_outside(item), strict=True))
    known = [(outer, own) for outer, own in pairs if outer in arrays]
    if not known:
        return item
    body = item.body
    gone = {own for _, own in known}
    constants = tuple(Constant(own, arrays[outer]) for outer, own in known)  # type: ignore[arg-type]
    inner = replace(
        body, inputs=tuple(v for v in body.inputs if v not in gone), constants=(*body.constants, *constants)
    )
    kept = [outer for outer, own in pairs if own not in gone]
    return with_body(item, inner, (*item.inputs[: 2 + item.attrs["carried"]], *kept))


def _without_invariants(item: OpNode, added: list[Constant]) -> tuple[OpNode, list[OpNode]]:
    """Return the loop without the operators that compute the same in each iteration, and new operators for them, which
    belong before the loop.

    The constants that the moved operators read are added to `added`.
    """
    body = item.body
    outer = dict(zip(own_outside(item), outside_inputs(item), strict=True))
    arrays = body.arrays()
    moved: dict[OpNode, OpNode] = {}
    bound = {size for inner in body.nodes for size in inner.bound_sizes()}
    for inner in body.nodes:
        read = [v for v in inner.inputs if v not in arrays]
        if not read or not all(v in outer for v in read) or _stays(inner):
            continue
        if bound.intersection(inner.mentioned()):
            continue
        for v in inner.inputs:
            if v not in outer:  # a constant
                outer[v] = Value(v.name, v.shape, v.dtype)
                added.append(Constant(outer[v], arrays[v]))
        made = tuple(Value(v.name, v.shape, v.dtype) for v in inner.outputs)
        moved[inner] = OpNode(inner.op, tuple(outer[v] for v in inner.inputs), inner.attrs, made)
        outer.update(zip(inner.outputs, made, strict=True))
    if not moved:
        return item, []
    results = [v for inner in moved for v in inner.outputs]
    nodes = tuple(inner for inner in body.nodes if inner not in moved)
    changed = replace(body, inputs=(*body.inputs, *results), nodes=nodes)
    return with_body(item, changed, (*item.inputs, *(outer[v] for v in results))), list(moved.values())


def _stays(inner: OpNode) -> bool:
    return inner.op in (BIND_SIZE, LOOP, MATCH_CAST) or registry.get(inner.op).view


def _without_idle_inputs(item: OpNode) -> OpNode:
    """Return the loop with unused outside inputs removed and duplicates merged."""
    body = item.body
    read = {*body.outputs, *(v for inner in body.nodes for v in inner.inputs)}
    first: dict[Value, Value] = {}
    instead: dict[Value, Value] = {}
    for outer, own in zip(outside_inputs(item), own_outside(item), strict=True):
        if own in read and first.setdefault(outer, own) is not own:
            instead[own] = first[outer]
    count = 1 + item.attrs["carried"]
    if len(first) == len(body.inputs) - count:
        return item
    inner = rebuild(replace(body, inputs=(*body.inputs[:count], *first.values())), body.nodes, instead=instead)
    return with_body(item, inner, (*item.inputs[: count + 1], *first))
