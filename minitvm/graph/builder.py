"""`GraphBuilder`: build a graph operator by operator, by hand or from a frontend. Types are inferred."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, report
from ..expr import DType, Expr, free_vars
from ..expr.printer import fresh
from ..global_functions import name_of
from ..topi import registry
from .loop_bodies import UNLIMITED, body_of
from .nodes import CALL_PACKED, CALL_TIR, LOOP, Constant, Dim, Graph, GraphState, OpNode, Value

_MOST_DIMS = 64  # the most dimensions of a NumPy array
_MOST_BYTES = 1 << 47  # the most bytes that a process can address


class GraphBuilder:
    """Collects inputs, constants and nodes, from which `build` makes a graph.

        b = GraphBuilder()
        x = b.input("x", (1, 8), "float32")
        y = b.op("nn.relu", b.op("add", x, 1.0))
        graph = b.build(y)

    If a name is already taken, a number is appended to it.
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
        """Add an input to the graph and return it.

        Raises `InputError` if the name is taken, because callers pass inputs by name.
        """
        if name in self._names:
            raise InputError(f"the graph has a value {name} already")
        value = self._value(name, tuple(shape), DType(dtype))
        self._inputs.append(value)
        return value

    def constant(self, array: Any, name: str | None = None) -> Value:
        """Add a constant to the graph and return its value."""
        data = np.ascontiguousarray(array).reshape(np.shape(array))
        value = self._value(name or "const", data.shape, DType(data.dtype.name))
        self._constants.append(Constant(value, data))
        return value

    def op(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        """Add an operator and return its output, or a tuple if it has several outputs.

        An array or number among the inputs becomes a constant; a number gets the dtype of the first value. Raises
        `UnsupportedOperator` for an unknown name, and `InputError` for inputs or attributes that do not fit.
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

    def call_tir(
        self,
        func: Any,
        inputs: Value | Sequence[Any],
        shapes: Any = None,
        tir_vars: Sequence[Dim] = (),
        name: str | None = None,
    ) -> Any:
        """Add a call of a loop program, and return its result, or a tuple if it has several results.

        `func` is a `PrimFunc`, a module that contains one, or a `Schedule` of one. Its first parameters are `inputs`,
        and the others are the results, which it must write. Its symbolic sizes get their values from the inputs.
        `shapes` are the shapes of the results; you need them only if a result has a size that no input has. `tir_vars`
        are the values of scalar parameters. If you have scheduled the function, its loops stay as they are
        (`tir.analysis.by_hand` tells how this is decided). For example:

            sch = tir.Schedule(matmul)                            # A[8, 16], B[16, 4], C[8, 4]
            sch.parallel(sch.get_loops(sch.get_block("C"))[0])
            c = b.call_tir(sch, [a, w])

        Raises `InputError` for inputs that do not fit, and shows the function's signature.
        """
        from .calls import one_function

        called = one_function(func)
        values = [inputs] if isinstance(inputs, Value) else list(inputs)
        attrs = {"func": called, "shapes": shapes, "tir_vars": tuple(tir_vars)}
        return self.op(CALL_TIR, *values, name=name or called.name, **attrs)

    def call_te(self, fcompute: Callable[..., Any], *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        """Add tensor expressions, and return their result, or a tuple if there are several results.

        `fcompute` gets a `te.placeholder` for each input, and `attrs`; it returns a tensor, or a list of tensors. For
        example, the sum of each row of x:

            k = te.reduce_axis((0, 16), "k")
            rows = b.call_te(lambda x: te.compute((8,), lambda i: te.sum(x[i, k], axis=k)), x)

        Raises `InputError` if `fcompute` returns anything else.
        """
        from .calls import te_function

        values = self._values("call_te", inputs)
        called, sizes = te_function(fcompute, [(v.shape, v.dtype) for v in values], attrs, name)
        return self.op(CALL_TIR, *values, name=called.name, func=called, tir_vars=sizes)

    def call_packed(self, func: str | Callable[..., Any], inputs: Value | Sequence[Any], types: Any) -> Any:
        """Add a call of a Python function, and return its result, or a tuple if it has several results.

        `func` is a function, or the name under which one is registered (`minitvm.register_func`). A run calls it with
        the arrays of the inputs and then of the results, which it must fill. `types` is the (shape, dtype) of the
        result, or a list of such pairs. The function must not change its inputs, and must compute the same results for
        the same inputs. For example:

            y = b.call_packed(lambda x, out: np.copyto(out, np.sort(x)), [x], ((8,), "float32"))
        """
        from .calls import result_types

        if not isinstance(func, str) and not callable(func):
            raise InputError(f"call_packed calls a Python function, found {func!r}")
        name = func if isinstance(func, str) else name_of(func)
        values = [inputs] if isinstance(inputs, Value) else list(inputs)
        named = result_types(types)
        last = name.split(".")[-1]
        label = last if last.isidentifier() else CALL_PACKED  # a lambda has no name
        return self.op(CALL_PACKED, *values, name=label, func=name, types=named)

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
        """Add a loop, and return its number of iterations, its carried values, and the rows of all iterations.

        `graph.loop_bodies` describes the meaning of a loop. `body(number, *carried)` is called once, to add the
        operators of one iteration. It returns the condition for the next iteration, the new carried values, and
        optionally rows. Other values that it reads come from outside the loop. Rows of shape [..] are collected as
        [most, ..]: first the rows of the iterations, then zeros. For example, the powers of x that are below 100, at
        most 8 of them:

            small = lambda number, x: (b.op("less", b.op("sum", x), 100.0), [b.op("multiply", x, x)], [x])
            count, power, powers = b.loop(small, [x], limit=8, most=8)

        Raises `InputError` for values of another builder, and for rows without a bound or with a shape that differs
        from iteration to iteration.
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
        """Return the shape of the memory for the rows of all iterations, in the form that `nn.cache_update` needs.

        Raises `InputError` if there is no bound on the number of rows, or if their shape depends on data.
        """
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
        """The operators that have been added so far."""
        return tuple(self._nodes)

    @property
    def length(self) -> int:
        """The number of operators that have been added so far. You can pass it to `undo`."""
        return len(self._nodes)

    def undo(self, length: int) -> list[OpNode]:
        """Remove all operators but the first `length`, and return the removed ones."""
        nodes = self._nodes[length:]
        del self._nodes[length:]
        self._known.difference_update(v for item in nodes for v in item.outputs)
        return nodes

    def build(
        self,
        outputs: Value | Sequence[Value],
        states: Mapping[Value, Value] | None = None,
        first: Mapping[Value, Any] | None = None,
    ) -> Graph:
        """Return the graph whose outputs are `outputs`.

        `states` maps inputs to values: in each run, the input is the value that the previous run computed. The value
        may be an output as well. In the first run, the input is its array in `first`, which may be a number, or zeros
        if it has none. For example, a counter:

            b = GraphBuilder()
            count = b.input("count", (1,), "int32")
            graph = b.build(b.op("multiply", count, 2), states={count: b.op("add", count, 1)}, first={count: 5})
            module = minitvm.build(graph)
            module(), module()                  # [10], [12]
            module.state["count"]               # [7]

        Raises `InputError` for a state whose input, value and first value differ in type, or whose shape is not
        constant.
        """
        values = (outputs,) if isinstance(outputs, Value) else tuple(outputs)
        for value in values:
            if value not in self._known:
                raise InputError(f"{value} is no value of this builder")
        states, first = states or {}, first or {}
        for value in first:
            if value not in states:
                raise InputError(f"a first value is for a state, found {value}")
        listed = [
            GraphState(self._position(old, new), len(values) + k, _first(old, first.get(old)))
            for k, (old, new) in enumerate(states.items())
        ]
        outputs = (*values, *states.values())
        return Graph(
            tuple(self._inputs), tuple(self._constants), tuple(self._nodes), outputs, self.name, tuple(listed)
        )  # fmt: skip

    def _position(self, old: Value, new: Value) -> int:
        """Return the index of the input `old`, which holds a state. Raises `InputError` if `new`, the next value of the
        state, has another type.
        """
        if old not in self._inputs or new not in self._known:
            raise InputError(f"a state is an input and a value of this builder, found {old} and {new}")
        if old.dtype != new.dtype or old.shape != new.shape or not old.is_static:
            raise InputError(
                f"the state {old.name}: wanted one type of constant shape, found {old.type} and {new.type}"
            )
        return self._inputs.index(old)

    def data(self, value: Value) -> np.ndarray | None:
        """Return the array of a constant, or None for any other value."""
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
            values.append(self.constant(_as_dtype(op, operand, first.dtype) if number and first else operand))
        return tuple(values)

    def _value(self, name: str, shape: tuple[Dim, ...], dtype: DType) -> Value:
        size = math.prod(dim for dim in shape if isinstance(dim, int)) * dtype.bytes
        if len(shape) > _MOST_DIMS or size > _MOST_BYTES:
            what = f"{len(shape)} dimensions" if len(shape) > _MOST_DIMS else f"{dtype}[{', '.join(map(str, shape))}]"
            raise InputError(f"{name} has {what}: an array has at most {_MOST_DIMS}, and {_MOST_BYTES} bytes")
        value = Value(fresh(name, self._names), shape, dtype)
        self._known.add(value)
        return value


def _as_dtype(op: str, number: float, dtype: DType) -> np.ndarray:
    """Return a Python number in the dtype of an operator's first input. Only a float may be rounded."""
    try:
        with np.errstate(over="ignore"):
            result = np.array(number, dtype.numpy)
        holds = dtype.is_float or result.item() == number
    except (OverflowError, ValueError):
        holds = False
    if not holds:
        raise InputError(
            f"{op}: {number} is no {dtype}, the dtype of the operator's first input\n"
            f"  try:    pass it as an array, such as np.float32({number})"
        )
    return result


def _first(state: Value, value: Any) -> np.ndarray | None:
    """Return the first value of a state as an array of the state's type, or None if it is zero."""
    if value is None:
        return None
    dtype = state.dtype.numpy
    is_number = isinstance(value, int | float) and not isinstance(value, np.generic)
    array = np.array(_as_dtype(f"the state {state.name}", value, state.dtype) if is_number else value)
    shape = tuple(dim for dim in state.shape if isinstance(dim, int))
    if array.dtype != dtype or array.shape not in ((), shape):
        raise InputError(
            report(
                f"the first value of the state {state.name}",
                wanted=f"{state.type}, or a number",
                found=f"{array.dtype.name}[{', '.join(map(str, array.shape))}]",
            )
        )
    array = np.array(np.broadcast_to(array, shape))
    return array if array.tobytes().strip(b"\0") else None
