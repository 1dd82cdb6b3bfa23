"""The executable of an optimized graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import VerificationError
from ..executable import nodes as x
from ..expr import Expr, Var, as_expr
from ..expr.names import fresh
from ..lowering.lowered import LoweredFunc
from ..lowering.units import Unit
from ..tir.nodes import Buffer
from .joined import Joined, joined
from .linker import Linker
from .slots import Slot, constant, tensor_bytes


def link_graph(fused: Any, units: Iterable[Unit], lowered: Mapping[bytes, LoweredFunc], kind: str) -> x.Executable:
    """The executable of an optimized graph whose functions are lowered, by their keys."""
    linker = Linker(kind)
    together = joined(fused, writes_its_output)
    slots, outputs, copies = _slots(fused, together)
    for unit in units:
        if unit.node not in together.nodes:
            _link(linker, unit, slots, outputs, lowered)
    for place, value in copies:
        linker.copy(place, slots[value])
    specs = [x.TensorSpec(v.name, v.dtype, v.shape) for v in fused.inputs]
    results = [x.TensorSpec(name, v.dtype, v.shape) for name, v in _output_names(fused)]
    return linker.finish(fused.name, specs, results, [constant(c.value.name, c.data) for c in fused.constants])


def _slots(fused: Any, together: Joined) -> tuple[dict[Any, Slot], dict[Any, Slot], list[tuple[Slot, Any]]]:
    """Where inputs, constants and joined values lie; outputs that are written in place; outputs that are copied."""
    slots: dict[Any, Slot] = {}
    for number, value in enumerate(fused.inputs):
        slots[value] = _slot(value, x.Input(number))
    for number, item in enumerate(fused.constants):
        slots[item.value] = Slot(item.value.name, item.data.nbytes, x.ConstantRef(number))
    outputs: dict[Any, Slot] = {}
    copies: list[tuple[Slot, Any]] = []
    for number, value in enumerate(fused.outputs):
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
    """The steps of one operator; `slots` learns where its results lie."""
    if is_view(unit.node):
        source, result = slots[unit.node.inputs[0]], unit.node.output
        slots[result] = outputs.get(result, source)
        if result in outputs:
            linker.copy(outputs[result], source, unit.name)
        return
    for value in unit.node.outputs:
        if value not in slots:
            slots[value] = outputs.get(value) or _slot(value)
    values = [*unit.node.inputs, *unit.node.outputs]
    args: list[Slot | Expr] = [slots[v] for v in values]
    func = lowered[unit.function.key]
    linker.call(func, args, _symbolic(func, values), unit.name)


def _symbolic(func: LoweredFunc, values: Iterable[Any]) -> dict[Var, Expr]:
    """The function's own symbolic dimensions in terms of the values that it is called on."""
    dims: dict[Var, Expr] = {}
    for param, value in zip(func.params, values, strict=True):
        assert isinstance(param, Buffer)
        if len(param.shape) != len(value.shape):
            rank, actual_rank = len(param.shape), len(value.shape)
            raise VerificationError(f"{func.name}: {param.name} has {rank} dimensions, {value.name} has {actual_rank}")
        for own, actual in zip(param.shape, value.shape, strict=True):
            if isinstance(own, Var):
                dims.setdefault(own, as_expr(actual))
    return dims


def _output_names(fused: Any) -> list[tuple[str, Any]]:
    """The outputs with names that are their own even where one value is returned twice."""
    used: set[str] = set()
    return [(fresh(value.name, used), value) for value in fused.outputs]


def is_view(node: Any) -> bool:
    """Whether all that a node does is to see its one input in another shape: no data moves."""
    from ..graph import registry

    parts = node.graph.nodes if node.op == "fused" else (node,)
    return len(node.inputs) == 1 and len(node.outputs) == 1 and all(registry.get(part.op).view for part in parts)


def writes_its_output(node: Any) -> bool:
    return not is_view(node)
