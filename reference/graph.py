"""Interpret graphs: run operators on whole tensors. Each is a NumPy function written from its definition
(`operators/`).

Reductions, normalisations, softmax, interpolation and transcendental functions are computed in float64 and rounded once
to the declared dtype. Convolutions and matrix products of float32 are summed in float32 by NumPy's BLAS, those of
float16 in float32. Integers wrap in their dtype. So the interpreter is at least as exact as the code that it judges,
but not bit-equal to it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, MinitvmError, Unsupported, nearest
from minitvm.free_memory import out_of_memory, require_memory
from minitvm.graph.nodes import BIND_SIZE, FUSED, LOOP, Graph, OpNode, Value

from .formulas import formula
from .meaning.scalar import evaluate as evaluate_scalar
from .operators import OPERATORS

Arrays = dict[Value, np.ndarray]


def run(
    graph: Graph,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    listeners: Sequence[events.Listener] = (),
    states: dict[str, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Run a graph on arrays, given by the inputs' names or in their order, and return its outputs.

    With `states`, the graph's states are neither inputs nor outputs of the run. It begins with their values in
    `states`, by the names of their inputs (a missing one has its first value), and stores the new values there. So a
    module runs like this:

        states = {}
        first, second = (reference.graph.run(graph, x, states=states) for x in (x1, x2))

    Symbolic dimensions get their values from the arrays. An operator without a meaning in NumPy is computed from its
    own formula or loops (`formulas`). Raises `InputError` for arrays that do not fit, `Unsupported` for an unknown
    operator, and `ExecutionError` if the shape or dtype of a result differs from the graph's.
    """
    if states is not None:
        return _run_with_states(graph, inputs, listeners, states)
    values = evaluate(graph, inputs, listeners=listeners, keep_all=False)
    return [values[v] for v in graph.outputs]


def _run_with_states(
    graph: Graph,
    inputs: Mapping[str, Any] | Sequence[Any],
    listeners: Sequence[events.Listener],
    states: dict[str, np.ndarray],
) -> list[np.ndarray]:
    begin = {old.name: old for old, _ in graph.state_pairs()}
    unknown = set(states) - set(begin)
    if unknown:
        raise InputError(f"{graph.name} has no state {', '.join(sorted(unknown))}")
    old = {
        value.name: states[value.name] if value.name in states else state.beginning(value)
        for state, value in zip(graph.states, begin.values(), strict=True)
    }
    if not isinstance(inputs, Mapping):
        names = [v.name for v in graph.inputs if v.name not in begin]
        if len(names) != len(inputs):
            raise InputError(f"{graph.name} takes {len(names)} inputs ({', '.join(names)}), found {len(inputs)}")
        inputs = dict(zip(names, inputs, strict=True))
    clash = set(inputs) & set(begin)
    if clash:
        raise InputError(f"{graph.name}: {', '.join(sorted(clash))} is a state, not an input")
    results = run(graph, {**inputs, **old}, listeners=listeners)
    states.update({graph.inputs[state.input].name: results[state.output] for state in graph.states})
    return [array for number, array in enumerate(results) if number not in graph.left()]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    listeners: Sequence[events.Listener] = (),
    keep_all: bool = True,
) -> Arrays:
    """Like `run`, but return all values of the graph; without `keep_all`, drop each value after its last use."""
    arrays, dims = _bind(graph, inputs)
    arrays.update({c.value: c.data for c in graph.constants})
    last = _last_uses(graph)
    begin, end = events.heard(listeners, "step_begin"), events.heard(listeners, "step_end")
    with np.errstate(all="ignore"):
        for index, item in enumerate(graph.nodes):
            step = events.Step(index, "op", item.op)
            if begin is not None:
                begin(step, time.perf_counter())
            _node(item, arrays, dims)
            if end is not None:
                end(step, time.perf_counter())
            if not keep_all:
                for value in last.get(index, ()):
                    del arrays[value]
    return arrays


def _bind(graph: Graph, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[Arrays, dict[x.Var, Any]]:
    names = [v.name for v in graph.inputs]
    if not isinstance(inputs, Mapping):
        if len(inputs) != len(names):
            raise InputError(f"{graph.name} takes {len(names)} inputs ({', '.join(names)}), found {len(inputs)}")
        inputs = dict(zip(names, inputs, strict=True))
    for name in inputs:
        if name not in names:
            raise InputError(f"{graph.name} has no input {name}; {nearest(name, names or ['(none)'])}")
    arrays: Arrays = {}
    dims: dict[x.Var, Any] = {}
    for value in graph.inputs:
        if value.name not in inputs:
            raise InputError(f"{graph.name}: input {value.name} is missing")
        array = np.asarray(inputs[value.name])
        if array.dtype != value.dtype.numpy or array.ndim != value.ndim:
            raise InputError(f"input {value.name}: wanted {value.type}, found {array.dtype}{list(array.shape)}")
        for dim, size in zip(value.shape, array.shape, strict=True):
            if isinstance(dim, x.Var):
                dims.setdefault(dim, int(size))
        arrays[value] = array
    for value in graph.inputs:
        for dim, size in zip(value.shape, arrays[value].shape, strict=True):
            quotient = x.divided(dim, int(size))
            if quotient is not None:
                dims.setdefault(*quotient)
    for value in graph.inputs:
        if arrays[value].shape != _concrete(value.shape, dims):
            raise InputError(f"input {value.name}: wanted {value.type}, found the shape {arrays[value].shape}")
    return arrays, dims


def _node(item: OpNode, arrays: Arrays, dims: dict[x.Var, Any]) -> None:
    inputs = [arrays[v] for v in item.inputs]
    if item.op == BIND_SIZE:
        _learn(item, inputs[0], dims)
    if item.op == LOOP:
        results = _loop(item, inputs, dims)
    else:
        results = _fused(item.graph, inputs, dims) if item.op == FUSED else _operator(item, inputs, dims)
    for value, array in zip(item.outputs, results, strict=True):
        shape = _concrete(value.shape, dims)
        if array.dtype != value.dtype.numpy or array.shape != shape:
            raise ExecutionError(
                f"{item}\n  wanted: {value.dtype}{list(shape)} as the graph declares\n"
                f"  found:  {array.dtype}{list(array.shape)}"
            )
        arrays[value] = array


def _learn(item: OpNode, count: np.ndarray, dims: dict[x.Var, Any]) -> None:
    """Store the value of a size that data decide."""
    size, value, most = item.attrs["size"], int(count), _concrete(item.attrs["most"], dims)
    if not 0 <= value <= most and item.attrs.get("reason"):
        raise InputError(f"{item.attrs['where']}: {item.attrs['reason'].format(found=value, most=most)}")
    if not 0 <= value <= most:
        raise InputError(f"{item.attrs['where'] or 'bind_size'}: {size.name} is {value}; wanted 0 to {most}")
    dims[size] = value


def _fused(graph: Graph, inputs: Sequence[np.ndarray], dims: dict[x.Var, Any]) -> list[np.ndarray]:
    inner: Arrays = {**dict(zip(graph.inputs, inputs, strict=True)), **{c.value: c.data for c in graph.constants}}
    bound = dict(dims)
    for value in graph.inputs:
        for dim, size in zip(value.shape, inner[value].shape, strict=False):
            if isinstance(dim, x.Var):
                bound.setdefault(dim, int(size))
    for item in graph.nodes:
        _node(item, inner, bound)
        dims.update({size: bound[size] for size in item.bound_sizes()})
    return [inner[v] for v in graph.outputs]


def _loop(item: OpNode, inputs: Sequence[np.ndarray], dims: dict[x.Var, Any]) -> list[np.ndarray]:
    """Run a loop; return the number of iterations, and the carried values after the last one."""
    (limit, going), count = inputs[:2], item.attrs["carried"]
    carried, outside = list(inputs[2 : 2 + count]), list(inputs[2 + count :])
    most = None if item.attrs["most"] is None else _concrete(item.attrs["most"], dims)
    body: Graph = item.attrs["body"]
    number = 0
    while number < int(limit) and bool(going):
        if most is not None and number >= most:
            raise InputError(f"{item.attrs['where'] or 'loop'}: more than {most} iterations")
        going, *carried = _body(body, [np.array(number, np.int64), *carried, *outside], dims)
        number += 1
    return [np.array(number, np.int64), *carried]


def _body(body: Graph, inputs: Sequence[np.ndarray], dims: Mapping[x.Var, Any]) -> list[np.ndarray]:
    """Run one iteration. It knows the sizes around the loop; the sizes that it binds itself are dropped afterwards."""
    own = dict(dims)
    arrays: Arrays = {c.value: c.data for c in body.constants}
    for value, array in zip(body.inputs, inputs, strict=True):
        shape = _concrete(value.shape, own)
        if array.dtype != value.dtype.numpy or array.shape != shape:
            raise ExecutionError(
                f"{body.name} takes {value.name}: {value.type}, which is {list(shape)}\n"
                f"  found:  {array.dtype}{list(array.shape)}"
            )
        arrays[value] = array
    for item in body.nodes:
        _node(item, arrays, own)
    return [arrays[v] for v in body.outputs]


def _operator(item: OpNode, inputs: Sequence[np.ndarray], dims: dict[x.Var, Any]) -> list[np.ndarray]:
    what = f"{item.op} of {', '.join(f'{a.dtype}{list(a.shape)}' for a in inputs)}"
    nbytes = sum(math.prod(_concrete(v.shape, dims)) * v.dtype.bytes for v in item.outputs)
    require_memory(item.where or item.op, what, nbytes)
    attrs = _attributes(item, inputs, dims)
    try:
        results = OPERATORS[item.op](*inputs, **attrs) if item.op in OPERATORS else formula(item, inputs, attrs)
    except MemoryError:
        raise out_of_memory(item.where or item.op, what, nbytes) from None
    except (ArithmeticError, IndexError, ValueError) as error:
        if isinstance(error, MinitvmError):
            raise
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in inputs)
        raise InputError(f"{item.where or item.op} does not take {shapes}: {error}") from error
    return [np.asarray(m) for m in results] if isinstance(results, list | tuple) else [np.asarray(results)]


def _attributes(item: OpNode, inputs: Sequence[np.ndarray], dims: Mapping[x.Var, Any]) -> dict[str, Any]:
    """Return the operator's attributes for this run.

    In the target of a reshape, only a literal 0 copies a dimension; an open size whose value is 0 means 0.
    """
    attrs = {name: _concrete(value, dims) for name, value in item.attrs.items()}
    if item.op == "reshape" and not attrs["allowzero"]:
        copied = [isinstance(d, int) and d == 0 for d in item.attrs["newshape"]]
        shape = zip(copied, attrs["newshape"], strict=True)
        attrs.update(newshape=tuple(inputs[0].shape[k] if copy else d for k, (copy, d) in enumerate(shape)))
        attrs.update(allowzero=True)
    return attrs


def _concrete(value: Any, dims: Mapping[x.Var, Any]) -> Any:
    """Return an attribute or shape in which symbolic dimensions are replaced by their values."""
    if isinstance(value, x.Expr):
        unbound = [v.name for v in x.walk(value) if isinstance(v, x.Var) and v not in dims]
        if unbound:
            raise Unsupported(f"the dimension {value}: no input's shape gives {', '.join(unbound)}")
        needed = {v: dims[v] for v in x.walk(value) if isinstance(v, x.Var)}
        found = evaluate_scalar(value, needed)
        return bool(found) if value.dtype.is_bool else int(found)
    if isinstance(value, tuple):
        return tuple(_concrete(v, dims) for v in value)
    return value


def _last_uses(graph: Graph) -> dict[int, list[Value]]:
    """Return the values that are not needed after the node at each position."""
    last: dict[Value, int] = {}
    for index, item in enumerate(graph.nodes):
        for value in (*item.inputs, *item.outputs):
            last[value] = index
    kept = set(graph.outputs)
    unused_after: dict[int, list[Value]] = {}
    for value, index in last.items():
        if value not in kept:
            unused_after.setdefault(index, []).append(value)
    return unused_after
