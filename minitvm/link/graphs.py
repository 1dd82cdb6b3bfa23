"""The executable of an optimized graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import VerificationError
from ..executable import nodes as x
from ..expr import Expr, Var, as_expr, structural_equal
from ..expr.names import fresh
from ..graph.lower import own_graph, own_scalars
from ..graph.nodes import BIND_SIZE, FUSED, MATCH_CAST
from ..lowering.lowered import LoweredFunc
from ..lowering.units import Unit
from ..tir.nodes import Buffer
from .bounds import Requirement
from .in_place import InPlace
from .joined import Joined, joined
from .linker import Linker
from .slots import Slot, constant, tensor_bytes


def link_graph(
    fused: Any,
    units: Iterable[Unit],
    lowered: Mapping[bytes, LoweredFunc],
    kind: str,
    updates: InPlace | None = None,
    bounds: Iterable[Requirement] = (),
) -> x.Executable:
    """The executable of an optimized graph whose functions are lowered, by their keys.

    `updates` are the operators that change a state where it lies; other states are copied at the end of a run.
    """
    linker = Linker(kind)
    updates = updates or InPlace()
    together = joined(fused, writes_its_output, updates.states)
    slots, outputs, copies = _slots(fused, together, updates)
    for unit in units:
        if unit.node not in together.nodes:
            _link(linker, unit, slots, outputs, lowered)
    for place, value in copies:
        linker.copy(place, slots[value])
    _leave_states(linker, fused, slots, updates)
    states = {old: number for number, (old, _) in enumerate(fused.state_pairs())}
    inputs = [v for v in fused.inputs if v not in states]
    specs = [x.TensorSpec(v.name, v.dtype, v.shape) for v in inputs]
    results = [x.TensorSpec(name, v.dtype, v.shape) for name, v in _output_names(fused)]
    constants = [constant(c.value.name, c.data) for c in fused.constants]
    places: dict[str, x.Input | x.State] = {v.name: x.Input(number) for number, v in enumerate(inputs)}
    places.update({v.name: x.State(number) for v, number in states.items()})
    return linker.finish(
        fused.name, specs, results, constants, guards=guards(fused),
        states=[x.TensorSpec(v.name, v.dtype, v.shape) for v in states],
        bounds=[x.Bound(places[b.name], b.low, b.high, b.where) for b in bounds],
    )  # fmt: skip


def _leave_states(linker: Linker, fused: Any, slots: dict[Any, Slot], updates: InPlace) -> None:
    """The copies of new states that were not computed in their places.

    Such a value may lie in the memory of another state, which one of these copies overwrites: those are moved first.
    """
    late = [(number, old, new) for number, (old, new) in enumerate(fused.state_pairs()) if number not in updates.kept]
    sources: dict[int, Slot] = {}
    for number, _, new in late:
        sources[number] = slots[new]
        if isinstance(slots[new].storage()[0].location, x.State):
            sources[number] = _slot(new)
            linker.copy(sources[number], slots[new], "state")
    for number, old, _ in late:
        linker.copy(_slot(old, x.State(number)), sources[number], "state")


def guards(graph: Any) -> list[x.Guard]:
    """The equalities of dimensions on which a graph relies, each once, under the first operator that needs it."""
    listed: list[x.Guard] = []
    for item in graph.nodes:
        if item.op == FUSED:
            new = guards(item.graph)
        else:
            pairs = item.attrs["dims"] if item.op == MATCH_CAST else ()
            new = [x.Guard(left, right, item.attrs["where"]) for left, right in pairs]
        for guard in new:
            if not any(_same_guard(guard, other) for other in listed):
                listed.append(guard)
    return listed


def _same_guard(a: x.Guard, b: x.Guard) -> bool:
    return structural_equal(as_expr(a.left), as_expr(b.left)) and structural_equal(as_expr(a.right), as_expr(b.right))


def _slots(
    fused: Any, together: Joined, updates: InPlace
) -> tuple[dict[Any, Slot], dict[Any, Slot], list[tuple[Slot, Any]]]:
    """The places of inputs, constants and joined values; outputs that are written in place; outputs that are copied."""
    slots: dict[Any, Slot] = {}
    for value, number in updates.states.items():
        slots[value] = _slot(value, x.State(number))
    for number, value in enumerate(v for v in fused.inputs if v not in slots):
        slots[value] = _slot(value, x.Input(number))
    for number, item in enumerate(fused.constants):
        slots[item.value] = Slot(item.value.name, item.data.nbytes, x.ConstantRef(number))
    outputs: dict[Any, Slot] = {}
    copies: list[tuple[Slot, Any]] = []
    for number, (_, value) in enumerate(_returned(fused)):
        place = _slot(value, x.Output(number))
        if value not in slots and value not in outputs:
            outputs[value] = place
        else:  # an input, a constant, or a value that is an output twice
            copies.append((place, value))
    for value in [*reversed(together.wholes), *together.parts]:  # a result may be a part of a later one
        if value not in slots:
            within, size = together.parts.get(value), tensor_bytes(value.shape, value.dtype)
            home, offset = (slots[within.whole], within.offset) if within is not None else (None, 0)
            slots[value] = Slot(value.name, size, home=home, offset=offset)
    return slots, outputs, copies


def _slot(value: Any, location: x.Location | None = None) -> Slot:
    return Slot(value.name, tensor_bytes(value.shape, value.dtype), location)


def _link(
    linker: Linker,
    unit: Unit,
    slots: dict[Any, Slot],
    outputs: Mapping[Any, Slot],
    lowered: Mapping[bytes, LoweredFunc],
) -> None:
    """The steps of one operator; its results are added to `slots`."""
    binding = binding_of(unit.node)
    if binding is not None:
        attrs, count = binding.attrs, slots[unit.node.inputs[0]]
        linker.bind_size(attrs["size"], count, attrs["most"], attrs["where"], unit.name)
    if binding is not None or is_view(unit.node):
        source, result = slots[unit.node.inputs[0]], unit.node.output
        slots[result] = outputs.get(result, source)
        if result in outputs:
            linker.copy(outputs[result], source, unit.name)
        return
    for value in unit.node.outputs:
        if value not in slots:
            slots[value] = outputs.get(value) or _slot(value)
    updated = unit.function.updated
    values = [*(v for k, v in enumerate(unit.node.inputs) if k != updated), *unit.node.outputs]
    func = lowered[unit.function.key]
    args: list[Slot | Expr] = [slots[v] for v in values]
    if any(isinstance(param, Var) for param in func.params):
        args += own_scalars(own_graph(unit.node))
    results = [] if updated is not None else [slots[value] for value in unit.node.outputs]
    linker.call(func, args, _symbolic(func, values), unit.name, results)


def _symbolic(func: LoweredFunc, values: Iterable[Any]) -> dict[Var, Expr]:
    """The function's own symbolic dimensions in terms of the values that it is called on."""
    dims: dict[Var, Expr] = {}
    buffers = [param for param in func.params if isinstance(param, Buffer)]
    for param, value in zip(buffers, values, strict=True):
        if len(param.shape) != len(value.shape):
            rank, actual_rank = len(param.shape), len(value.shape)
            raise VerificationError(f"{func.name}: {param.name} has {rank} dimensions, {value.name} has {actual_rank}")
        for own, actual in zip(param.shape, value.shape, strict=True):
            if isinstance(own, Var):
                dims.setdefault(own, as_expr(actual))
    return dims


def _returned(fused: Any) -> list[tuple[int, Any]]:
    """The outputs that a run returns, with their numbers: not the states."""
    left = {number for _, number in fused.states}
    return [(number, value) for number, value in enumerate(fused.outputs) if number not in left]


def _output_names(fused: Any) -> list[tuple[str, Any]]:
    """The returned outputs with unique names, even if one value is returned twice."""
    used: set[str] = set()
    return [(fresh(value.name, used), value) for _, value in _returned(fused)]


def binding_of(node: Any) -> Any:
    """The `bind_size` that a node is, or None: it is a step of the executable, and no function."""
    inner = node.graph.nodes[0] if node.op == FUSED and len(node.graph.nodes) == 1 else node
    return inner if inner.op == BIND_SIZE else None


def is_view(node: Any) -> bool:
    """Whether a node only gives its one input another shape: no data moves."""
    from ..graph import registry

    parts = node.graph.nodes if node.op == "fused" else (node,)
    return len(node.inputs) == 1 and len(node.outputs) == 1 and all(registry.get(part.op).view for part in parts)


def writes_its_output(node: Any) -> bool:
    return not is_view(node) and binding_of(node) is None
