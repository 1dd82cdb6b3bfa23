"""`GraphBuilder`: a graph written by hand, or by a frontend, one operator after the other, types inferred."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..expr import DType, Expr, free_vars
from ..expr.printer import fresh
from ..topi import registry
from .loops import UNLIMITED, body_of
from .nodes import LOOP, Constant, Dim, Graph, OpNode, Value

_MOST_DIMS = 64  # of NumPy's arrays
_MOST_BYTES = 1 << 47  # that a process can address


class GraphBuilder:
    """Collects inputs, constants and nodes; `build` makes the graph.

        b = GraphBuilder()
        x = b.input("x", (1, 8), "float32")
        y = b.op("nn.relu", b.op("add", x, 1.0))
        graph = b.build(y)

    A name is kept where it is free; otherwise it gets a number.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.where = ""  # the node of a model that the operators added now belong to
        self._inputs: list[Value] = []
        self._constants: list[Constant] = []
        self._nodes: list[OpNode] = []
        self._names: set[str] = set()
        self._known: set[Value] = set()

    def input(self, name: str, shape: Sequence[Dim], dtype: str = "float32") -> Value:
        """A new input of the graph; raises `InputError` when the name is taken, as callers use it."""
        if name in self._names:
            raise InputError(f"the graph has a value {name} already")
        value = self._value(name, tuple(shape), DType(dtype))
        self._inputs.append(value)
        return value

    def constant(self, array: Any, name: str | None = None) -> Value:
        """A new constant."""
        data = np.ascontiguousarray(array).reshape(np.shape(array))
        value = self._value(name or "const", data.shape, DType(data.dtype.name))
        self._constants.append(Constant(value, data))
        return value

    def op(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        """The output of an operator, or the tuple of its outputs where there are several.

        An array or number among the inputs becomes a constant; a number takes the dtype of the first value.
        Raises `UnsupportedOperator` for an unknown name, `InputError` for inputs or attributes that do not fit.
        """
        operator = registry.get(op)
        values = self._values(op, inputs)
        complete = operator.normalize(attrs)
        types = operator.output_types([(v.shape, v.dtype) for v in values], complete)
        base = name or op.split(".")[-1]
        outputs = tuple(
            self._value(base if len(types) == 1 else f"{base}_{k}", shape, dtype)
            for k, (shape, dtype) in enumerate(types)
        )
        self._nodes.append(OpNode(op, values, complete, outputs, self.where))
        return outputs[0] if len(outputs) == 1 else outputs

    def loop(
        self,
        body: Callable[..., tuple[Any, ...]],
        carried: Sequence[Any],
        *,
        limit: Any = UNLIMITED,
        going: Any = True,
        most: Dim | None = None,
        where: str = "",
        name: str = "loop",
    ) -> tuple[Value, ...]:
        """The number of iterations of a loop, its carried values, and the rows of all iterations.

        `graph.loops` has the meaning. `body(number, *carried)` is called once, to add the operators of an iteration; it
        returns whether to go on, the new carried values and, if it has any, rows. What else it reads is read from
        outside. Rows of shape [..] are put together as [most, ..]: those of the iterations, then zeros. The powers of
        x that are below 100, at most 8 of them:

            small = lambda number, x: (b.op("less", b.op("sum", x), 100.0), [b.op("multiply", x, x)], [x])
            count, power, powers = b.loop(small, [x], limit=8, most=8)

        Raises `InputError` for values that are not this builder's, and for rows without a bound, or whose shape
        differs from iteration to iteration.
        """
        condition, *begin = self._values(LOOP, [np.array(going) if isinstance(going, bool) else going, *carried])
        (bound,) = self._values(LOOP, [np.array(limit, np.int64) if isinstance(limit, int) else limit])
        first = self.length
        number = self._value("number", (), DType("int64"))
        own = [self._value(v.name, v.shape, v.dtype) for v in begin]
        try:
            again, results, *more = body(number, *own)
            rows = self._values(LOOP, more[0] if more else [])
            buffers = [self._value("rows", self._room(row, most, first), row.dtype) for row in rows]
            own += buffers
            results = [*results, *(self._with_row(*pair, number) for pair in zip(buffers, rows, strict=True))]
            outputs = self._values(LOOP, [np.array(again) if isinstance(again, bool) else again, *results])
        finally:
            nodes = self.undo(first)
        self._known -= {number, *own}
        begin += [self.op("full", shape=v.shape, fill_value=0, dtype=str(v.dtype)) for v in buffers]
        inner, outside = body_of(nodes, [number, *own], outputs, self._constants, f"{name}_body")
        attrs = {"body": inner, "carried": len(begin), "most": most, "where": where}
        found = self.op(LOOP, bound, condition, *begin, *outside, name=name, **attrs)
        values = found if isinstance(found, tuple) else (found,)
        kept = len(values) - len(buffers)
        return (*values[:kept], *(self.op("reshape", v, newshape=v.shape[1:], allowzero=True) for v in values[kept:]))

    def _room(self, row: Value, most: Dim | None, first: int) -> tuple[Dim, ...]:
        """The shape of the memory for the rows of all iterations, as `nn.cache_update` takes it."""
        if most is None:
            raise InputError(f"the loop has rows {row.type}, and no bound of how many\n  try:    most=...")
        bound = {size for item in self._nodes[first:] for size in item.bound_sizes()}
        if any(v in bound for d in row.shape if isinstance(d, Expr) for v in free_vars(d)):
            raise InputError(f"the rows of a loop, {row.type}, have a size that each iteration decides")
        return (1, most, *row.shape)

    def _with_row(self, buffer: Value, row: Value, number: Value) -> Value:
        update = self.op("reshape", row, newshape=(1, 1, *row.shape), allowzero=True)
        changed: Value = self.op("nn.cache_update", buffer, update, self.op("reshape", number, newshape=(1,)), axis=1)
        return changed

    @property
    def nodes(self) -> tuple[OpNode, ...]:
        """The operators so far."""
        return tuple(self._nodes)

    @property
    def length(self) -> int:
        """The number of operators so far, for `undo`."""
        return len(self._nodes)

    def undo(self, length: int) -> list[OpNode]:
        """Take back all operators but the first `length`, and return them."""
        nodes = self._nodes[length:]
        del self._nodes[length:]
        self._known.difference_update(v for item in nodes for v in item.outputs)
        return nodes

    def build(self, outputs: Value | Sequence[Value], states: Mapping[Value, Value] | None = None) -> Graph:
        """The graph with those outputs.

        `states` are inputs whose value is what the run before computed: each with that value, which may be an output
        as well. A counter:

            b = GraphBuilder()
            count = b.input("count", (1,), "int32")
            graph = b.build(b.op("multiply", count, 2), states={count: b.op("add", count, 1)})
            module = minitvm.build(graph)
            module(), module()                  # [0], [2]
            module.state["count"]               # [2]

        Raises `InputError` for a state whose types differ, or whose shape is not constant.
        """
        values = (outputs,) if isinstance(outputs, Value) else tuple(outputs)
        for value in values:
            if value not in self._known:
                raise InputError(f"{value} is no value of this builder")
        pairs = [(self._position(old, new), len(values) + k) for k, (old, new) in enumerate((states or {}).items())]
        outputs = (*values, *(states or {}).values())
        return Graph(
            tuple(self._inputs), tuple(self._constants), tuple(self._nodes), outputs, self.name, tuple(pairs)
        )  # fmt: skip

    def _position(self, old: Value, new: Value) -> int:
        """The number of the input of a state."""
        if old not in self._inputs or new not in self._known:
            raise InputError(f"a state is an input and a value of this builder, found {old} and {new}")
        if old.dtype != new.dtype or old.shape != new.shape or not old.is_static:
            raise InputError(
                f"the state {old.name}: wanted one type of constant shape, found {old.type} and {new.type}"
            )
        return self._inputs.index(old)

    def data(self, value: Value) -> np.ndarray | None:
        """The array of a value that is a constant, else None."""
        return next((c.data for c in self._constants if c.value is value), None)

    def _values(self, op: str, inputs: Sequence[Any]) -> tuple[Value, ...]:
        first = next((v for v in inputs if isinstance(v, Value)), None)
        values = []
        for operand in inputs:
            if isinstance(operand, Value):
                if operand not in self._known:
                    raise InputError(f"{op}: {operand} is no value of this builder")
                values.append(operand)
                continue
            number = isinstance(operand, bool | int | float)
            values.append(self.constant(np.array(operand, first.dtype.numpy if number and first else None)))
        return tuple(values)

    def _value(self, name: str, shape: tuple[Dim, ...], dtype: DType) -> Value:
        size = math.prod(dim for dim in shape if isinstance(dim, int)) * dtype.bytes
        if len(shape) > _MOST_DIMS or size > _MOST_BYTES:
            what = f"{len(shape)} dimensions" if len(shape) > _MOST_DIMS else f"{dtype}[{', '.join(map(str, shape))}]"
            raise InputError(f"{name} has {what}: an array has at most {_MOST_DIMS}, and {_MOST_BYTES} bytes")
        value = Value(fresh(name, self._names), shape, dtype)
        self._known.add(value)
        return value
