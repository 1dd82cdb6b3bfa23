"""Build the executable of an optimized graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..arith import Analyzer
from ..errors import VerificationError
from ..executable import nodes as x
from ..expr import EQ, GE, DType, Expr, IntImm, Var, as_expr, const, match, structural_equal, substitute
from ..expr.conditions import is_const
from ..expr.printer import fresh
from ..graph import Graph
from ..graph.loop_bodies import carried_inputs, outside_inputs, own_carried, own_outside
from ..graph.lower import own_graph, own_scalars
from ..graph.nodes import BIND_SIZE, CALL_PACKED, ENGINE, FUSED, LOOP, MATCH_CAST, Constant, GraphState
from ..lowering.lowered import LoweredFunc
from ..lowering.units import Unit
from ..tir.nodes import Buffer
from ..topi import registry
from .bounds import InputBounds
from .levels import GraphLevel
from .linker import Linker
from .steps import Slot, binding_of, constant, is_view, tensor_bytes


def link_graph(
    level: GraphLevel,
    units: Mapping[Any, Unit],
    lowered: Mapping[bytes, LoweredFunc],
    kind: str,
    bounds: Iterable[InputBounds] = (),
    before: Any = None,
) -> x.Executable:
    """Build the executable of an optimized graph.

    `units` maps its nodes to their functions, and `lowered` maps the keys of functions to the lowered functions. An
    operator that the level lists as an update of a state works in place; other states are copied at the end of a run.
    `before` is the graph before it was optimized: it has the names of the outputs, and the relations between sizes that
    the model needs.
    """
    linker, fused = Linker(kind), level.graph
    arrays: dict[int, Any] = {}  # by identity: graphs may share constants
    for inner in level.all():
        for item in inner.graph.constants:
            arrays.setdefault(id(item.data), item)
    for state, (old, _) in zip(fused.states, fused.state_pairs(), strict=True):
        if state.first is not None:
            arrays.setdefault(id(state.first), Constant(replace(old, name=f"{old.name}_first"), state.first))
    numbers_of = {key: number for number, key in enumerate(arrays)}
    slots, outputs, copies = _slots(level, numbers_of)
    relied_on = guards(*([] if before is None else [before]), fused)
    linking = _Linking(linker, units, lowered, numbers_of, _facts(relied_on))
    linking.nodes(level, slots, outputs)
    for place, value in copies:
        linker.copy(place, slots[value])
    late = [pair for k, pair in enumerate(fused.state_pairs()) if k not in level.updates.kept]
    numbers = {old: number for number, (old, _) in enumerate(fused.state_pairs())}
    leave(linker, [(_slot(old, x.State(numbers[old])), slots[new]) for old, new in late], "state")
    names = [] if before is None else [v.name for v in before.outputs]
    inputs = [v for v in fused.inputs if v not in numbers]
    specs = list(map(_spec, inputs))
    results = [
        replace(x.TensorSpec(name, v.dtype, v.shape), room=linking.rooms.get(number, 0))
        for number, (name, v) in enumerate(_named_outputs(fused, names))
    ]
    used: set[str] = set()
    constants = [constant(fresh(item.value.name, used), item.data) for item in arrays.values()]
    places: dict[str, x.Input | x.State] = {v.name: x.Input(number) for number, v in enumerate(inputs)}
    places.update({v.name: x.State(number) for v, number in numbers.items()})
    executable = linker.finish(
        fused.name, specs, results, constants, guards=[*relied_on, *linking.conditions],
        states=[_state(old, state, numbers_of) for old, state in zip(numbers, fused.states, strict=True)],
        bounds=[x.Bound(places[b.name], b.low, b.high, b.where) for b in bounds],
    )  # fmt: skip
    return executable if before is None else replace(executable, model_nodes=_model_nodes(before, units.values()))


def _model_nodes(before: Any, units: Iterable[Unit]) -> dict[str, tuple[str, ...]]:
    """Return, for each operator of an optimized graph, the names of the model's nodes whose values it computes.

    Passes replace operators but keep the names of values, so the nodes are found by these names. Operators that only
    change layouts are ignored, because their results are named after the values that they move.
    """
    named = {value.name: item.model_node for item in _operators(before) for value in item.outputs if item.model_node}
    listed: dict[str, tuple[str, ...]] = {}
    for unit in units:
        values = [v.name for item in unit.node.operators if not item.op.startswith("layout.") for v in item.outputs]
        nodes = tuple(dict.fromkeys(named[name] for name in values if name in named))
        if nodes:
            listed[unit.name] = nodes
    return listed


def guards(*graphs: Any) -> list[x.Guard]:
    """Return the conditions on sizes that the operators of equivalent graphs need.

    Each condition is listed once, for the first operator that needs it.

    - Dimensions that a `match_cast` assumes to be equal are equal, and its conditions hold.
    - The relations of every operator hold. They are recomputed from `Operator.relations`, so that no frontend, pass
      or registration from outside can forget them.
    - No tensor has a negative extent. For example, the result of a convolution has one if the kernel is longer than the
      data. There is no memory for such a tensor, so its readers would read outside of it.

    The last graph is the one that runs. A guard about a size that this graph does not have is left out.
    """
    listed: list[x.Guard] = []
    seen: list[Expr] = []
    analyzer = Analyzer()
    for item in (item for graph in graphs for item in _operators(graph)):
        for guard in (*_relations(item), *_extents(item, seen, analyzer)):
            if not any(_same_guard(guard, other) for other in listed):
                listed.append(guard)
    sizes = {*graphs[-1].symbolic_dims(), *(v for item in _operators(graphs[-1]) for v in item.bound_sizes())}
    return [guard for guard in listed if sizes.issuperset(guard.sizes())]


def _relations(item: Any) -> Iterator[x.Guard]:
    """Yield a guard for each relation between symbolic sizes that an operator needs."""
    if item.op == MATCH_CAST:
        yield from (x.Guard(left, right, item.attrs["where"]) for left, right in item.attrs["dims"])
    elif item.op not in (LOOP, BIND_SIZE, CALL_PACKED):
        pairs = registry.get(item.op).relations([(v.shape, v.dtype) for v in item.inputs], item.attrs)
        yield from (x.Guard(left, right, _label(item)) for left, right in pairs)


def _extents(item: Any, seen: list[Expr], analyzer: Analyzer) -> Iterator[x.Guard]:
    """Yield guards against negative extents in an operator's results. Extents in `seen` already have a guard."""
    for dim in (d for value in item.outputs for d in value.shape):
        if isinstance(dim, Var | IntImm | int) or any(structural_equal(dim, other) for other in seen):
            continue
        seen.append(dim)
        if not analyzer.can_prove_nonnegative(dim):
            yield x.Guard(GE(dim, const(0, dim.dtype)), 1, _label(item))


def _label(item: Any) -> str:
    """Return the name of an operator for errors: the model's node it comes from, or its own name and its result's
    name.
    """
    return item.where or f"{item.op} {item.outputs[0].name}"


def _facts(relied_on: Iterable[x.Guard]) -> list[Expr]:
    """Return the conditions that hold if the guards hold."""
    facts: list[Expr] = []
    for guard in relied_on:
        left, right = as_expr(guard.left), as_expr(guard.right)
        if not left.dtype.is_bool:
            facts.append(EQ(*match(left, right)))
        elif is_const(right, 1):
            facts.append(left)
    return facts


def _operators(graph: Graph) -> Iterator[Any]:
    """Yield all operators of a graph, including those in fused groups and loop bodies."""
    for item in graph.nodes:
        if item.op == FUSED:
            yield from _operators(item.graph)
        else:
            if item.op == LOOP:
                yield from _operators(item.body)
            yield item


def _same_guard(a: x.Guard, b: x.Guard) -> bool:
    return structural_equal(as_expr(a.left), as_expr(b.left)) and structural_equal(as_expr(a.right), as_expr(b.right))


def _slots(
    level: GraphLevel, constants: Mapping[Any, int]
) -> tuple[dict[Any, Slot], dict[Any, Slot], list[tuple[Slot, Any]]]:
    """Return the slots of values with fixed places, the slots of outputs that are written in place, and the copies.

    Inputs, constants and joined values have fixed places. A copy pairs the slot of an output with the value that is
    copied there at the end of a run.
    """
    fused, together, slots = level.graph, level.together, {}
    for value, number in level.updates.states.items():
        slots[value] = _slot(value, x.State(number))
    for number, value in enumerate(v for v in fused.inputs if v not in slots):
        slots[value] = _slot(value, x.Input(number))
    slots.update(constant_slots(fused, constants))
    outputs: dict[Any, Slot] = {}
    copies: list[tuple[Slot, Any]] = []
    views = {node.output: node.inputs[0] for node in fused.nodes if is_view(node)}
    of_loops = {value for node in fused.nodes if node.op == LOOP for value in node.outputs}
    for number, (_, value) in enumerate(_returned(fused)):
        place = _slot(value, x.Output(number))
        source = value
        while source in views:
            source = views[source]
        if source in of_loops and source not in outputs and source not in together.parts:
            outputs[source] = place  # a loop's rows, reshaped at the end, are written to their final place
        elif value not in slots and value not in outputs:
            outputs[value] = place
        else:  # an input, a constant, or a value that is an output twice
            copies.append((place, value))
    return slots, outputs, copies


def _spec(value: Any) -> x.TensorSpec:
    return x.TensorSpec(value.name, value.dtype, value.shape)


def _state(value: Any, state: GraphState, numbers_of: Mapping[int, int]) -> x.StateSpec:
    first = None if state.first is None else numbers_of[id(state.first)]
    return x.StateSpec(value.name, value.dtype, value.shape, first=first)


def _slot(value: Any, location: x.Location | None = None, room: int = 0) -> Slot:
    nbytes = tensor_bytes(value.shape, value.dtype)
    return Slot(value.name, nbytes + room if room else nbytes, location)


def constant_slots(graph: Graph, constants: Mapping[int, int]) -> dict[Any, Slot]:
    """Return the slots of a graph's constants. `constants` maps the `id` of an array to the index of the constant."""
    return {
        item.value: Slot(item.value.name, item.data.nbytes, x.ConstantRef(constants[id(item.data)]))
        for item in graph.constants
    }


@dataclass(slots=True)
class _Linking:
    """Passes the steps of a graph, and of the bodies of its loops, to `linker`, operator by operator."""

    linker: Linker
    units: Mapping[Any, Unit]
    lowered: Mapping[bytes, LoweredFunc]
    constants: Mapping[int, int]
    facts: Sequence[Expr]
    conditions: list[x.Guard] = field(default_factory=list)
    rooms: dict[int, int] = field(default_factory=dict)  # bytes after outputs, by their indices

    def nodes(self, level: GraphLevel, slots: dict[Any, Slot], outputs: Mapping[Any, Slot]) -> None:
        """Add the steps of one graph, and add the slots of its values to `slots`. The slots in `outputs` are fixed."""
        together = level.together
        for value in [*reversed(together.wholes), *together.parts]:  # a result may be part of a later one
            if value not in slots:
                within = together.parts.get(value)
                home, offset = (slots[within.whole], within.offset) if within is not None else (None, 0)
                slots[value] = Slot(value.name, tensor_bytes(value.shape, value.dtype), home=home, offset=offset)
        for group in level.updates.groups:
            place = slots.get(group[-1]) or outputs.get(group[-1]) or _slot(group[-1])
            slots.update(dict.fromkeys(group, place))
        for begin, result in (level.taken or {}).items():
            if result not in slots:
                slots[result] = outputs.get(result) or _slot(result)
            slots[begin] = slots[result]
        for node in level.graph.nodes:
            if node.op == LOOP:
                self.loop(level, node, slots, outputs)
            elif node.op == CALL_PACKED:
                self.python(node, slots, outputs)
            elif node.engine:
                self.region(node, slots, outputs)
            elif node not in together.nodes:
                self.operator(self.units[node], slots, outputs)

    def operator(self, unit: Unit, slots: dict[Any, Slot], outputs: Mapping[Any, Slot]) -> None:
        """Add the steps of one operator, and add the slots of its results to `slots`."""
        linker = self.linker
        binding = binding_of(unit.node)
        if binding is not None:
            attrs, count = binding.attrs, slots[unit.node.inputs[0]]
            linker.bind_size(attrs["size"], count, attrs["most"], attrs["where"], unit.name, attrs.get("reason", ""))
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
        func = self.lowered[unit.function.key]
        args: list[Slot | Expr] = [slots[v] for v in values]
        if any(isinstance(param, Var) for param in func.params):
            args += own_scalars(own_graph(unit.node))
        results = [] if updated is not None else [slots[value] for value in unit.node.outputs]
        dims = _symbolic(func, values)
        self.require(
            func, {**dims, **{p: a for p, a in zip(func.params, args, strict=True) if isinstance(p, Var)}}, unit
        )
        linker.call(func, args, dims, unit.name, results)

    def region(self, node: Any, slots: dict[Any, Slot], outputs: Mapping[Any, Slot]) -> None:
        """Add the call of an engine, which computes a region into the places of its results: nothing is copied.

        The engine gets the region's inputs, and then its outputs and its working memory, if it needs any.
        """
        attrs = {key: value for key, value in node.attrs.items() if key not in ("graph", ENGINE, "seconds", "room")}
        room = node.attrs.get("room", 0)
        rooms = []
        for value in node.outputs:
            rooms.append(self._room(slots.get(value, outputs.get(value)), room))
            if value not in slots:
                slots[value] = outputs.get(value) or _slot(value, room=room)
        if any(rooms):
            attrs["rooms"] = rooms
        reads, writes = ([(slots[v], _spec(v)) for v in values] for values in (node.inputs, node.outputs))
        nbytes = attrs.get("workspace", 0)
        if nbytes:
            name = f"{node.graph.name}_workspace"
            writes.append((Slot(name, nbytes), x.TensorSpec(name, DType("uint8"), (nbytes,))))
        self.linker.call_engine(node.engine, reads, writes, {"region": node.graph.name, **attrs}, node.graph.name)

    def _room(self, slot: Slot | None, room: int) -> int:
        """Return the bytes after a result of a region that its engine may overwrite, out of the `room` that it needs.
        `slot` is the fixed place of the result, if it has one.
        """
        if slot is None:
            return room
        if not isinstance(slot.location, x.Output) or self.linker.target.split()[0] != "cpu":
            return 0
        self.rooms[slot.location.index] = room  # whoever allocates the output reserves these bytes
        return room

    def python(self, node: Any, slots: dict[Any, Slot], outputs: Mapping[Any, Slot]) -> None:
        """Add the call of a Python function, which writes into the places of its results."""
        for value in node.outputs:
            if value not in slots:
                slots[value] = outputs.get(value) or _slot(value)
        reads, writes = ([(slots[v], _spec(v)) for v in values] for values in (node.inputs, node.outputs))
        name = node.attrs["func"]
        self.linker.call_engine(x.PYTHON, reads, writes, {"function": name}, name)

    def require(self, func: LoweredFunc, sizes: Mapping[Any, Any], unit: Unit) -> None:
        """Add a guard for each condition on sizes that a function needs, unless the condition can be proved."""
        if not func.conditions:
            return
        analyzer = Analyzer()
        for var, most in self.linker.bounds.items():
            analyzer.bind(var, (0, most))
        with analyzer.constraint(*self.facts):
            for condition in func.conditions:
                here = substitute(condition, sizes)
                if analyzer.can_prove(here):
                    continue
                guard = x.Guard(here, 1, unit.name)
                if not any(_same_guard(guard, other) for other in self.conditions):
                    self.conditions.append(guard)

    def loop(self, level: GraphLevel, node: Any, slots: dict[Any, Slot], outputs: Mapping[Any, Slot]) -> None:
        """Add the steps of a loop.

        A carried value starts as a copy, unless it is computed in its place (`GraphLevel.taken`).
        """
        linker, body = self.linker, level.bodies[node]
        graph = body.graph
        for value in node.outputs:
            if value not in slots:
                slots[value] = outputs.get(value) or _slot(value)
        number, *carried = (slots[value] for value in node.outputs)
        for place, begin in zip(carried, carried_inputs(node), strict=True):
            if slots[begin] is not place:
                linker.copy(place, slots[begin], "loop")
        own: dict[Any, Slot] = {graph.inputs[0]: number, **constant_slots(graph, self.constants)}
        own.update(zip(own_carried(node), carried, strict=True))
        own.update({inner: slots[v] for inner, v in zip(own_outside(node), outside_inputs(node), strict=True)})
        own.update({value: carried[k] for value, k in body.updates.states.items()})
        results = graph.outputs[1:]
        own.update({results[k]: carried[k] for k in body.direct})
        always = _is_true(graph, graph.outputs[0])
        going: Slot | None = None if always and _is_true(level.graph, node.inputs[1]) else slots[node.inputs[1]]
        if not always:
            going = Slot("going", 1)
            linker.copy(going, slots[node.inputs[1]], "loop")
        attrs = node.attrs
        with linker.loop(number, slots[node.inputs[0]], going, attrs["most"], attrs["where"], "loop"):
            self.nodes(body, own, {} if going is None or always else {graph.outputs[0]: going})
            moved = [(place, own[value]) for place, value in zip(carried, results, strict=True)]
            if going is not None and not always:
                moved.append((going, own[graph.outputs[0]]))
            leave(linker, moved, "loop")


def leave(linker: Linker, moved: Iterable[tuple[Slot, Slot]], operator: str) -> None:
    """Copy the second slot of each pair to the first, as if all copies happened at the same time.

    A pair whose slots are the same place needs no copy. A value that another copy would overwrite is first copied to a
    temporary slot.
    """
    pairs = [(place, value) for place, value in moved if not _same_place(place, value)]
    sources = []
    for place, value in pairs:
        if any(_same_memory(other, value) for other, _ in pairs if other is not place):
            elsewhere = Slot(value.name, value.nbytes)
            linker.copy(elsewhere, value, operator)
            value = elsewhere
        sources.append(value)
    for (place, _), value in zip(pairs, sources, strict=True):
        linker.copy(place, value, operator)


def _same_memory(a: Slot, b: Slot) -> bool:
    (one, _), (other, _) = a.storage(), b.storage()
    return one is other or (one.location is not None and one.location == other.location)


def _same_place(a: Slot, b: Slot) -> bool:
    return _same_memory(a, b) and a.storage()[1] == b.storage()[1]


def _is_true(graph: Graph, value: Any) -> bool:
    return value in graph.arrays() and bool(graph.arrays()[value])


def _symbolic(func: LoweredFunc, values: Iterable[Any]) -> dict[Var, Expr]:
    """Return the function's symbolic dimensions, expressed by the dimensions of the values that it is called with."""
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
    """Return (index, value) for each output that a run returns. New values of states are not among them."""
    left = fused.left()
    return [(number, value) for number, value in enumerate(fused.outputs) if number not in left]


def _named_outputs(fused: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the outputs of a run under unique names, even if one value is returned twice."""
    used: set[str] = set()
    return [(fresh(names[number] if names else value.name, used), value) for number, value in _returned(fused)]
