"""`build(model, replace={"nn.softmax": ...})`: compute operators of a network with your own programs.

A replacement is one of

    a PrimFunc     it is called for each such operator; its parameters are the inputs, followed by the results
    f(sch)         it schedules the operator's own loop program; its first parameter is named `sch`, and it returns
                   nothing or a `Schedule`. These loops are final
    f(*inputs)     a te function like that of the operator: it gets placeholders, and the operator's attributes by
                   name, and returns tensors. It may also return a `PrimFunc`

A program with final loops is never fused. The result of `f(*inputs)` and an unscheduled `PrimFunc` are fused like the
operator itself if their loops show that this is legal (`topi.fusion_class`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import InputError, nearest, report
from ..tir.analysis.by_hand import SCHEDULED
from ..tir.nodes import PrimFunc
from ..tir.schedule import Schedule
from ..topi import registry
from ..topi.called import finds_its_sizes, signature
from ..topi.shapes import differ
from .calls import one_function, te_function
from .loop_bodies import everywhere
from .nodes import CALL_TIR, LOOP, Graph, OpNode, Value
from .rewrite import Rewriter


def replaced(graph: Graph, replacements: Mapping[str, Any]) -> Graph:
    """Return the graph with each operator that `replacements` names computed by its replacement.

    Raises `InputError` for a name that no operator of the graph has, and for a replacement whose results have other
    types than the operator's.
    """
    present = {item.op for item in _operators(graph)}
    for name, replacement in replacements.items():
        if name not in present:
            registry.get(name)  # raises for a name that no operator has
            raise InputError(f"replace: {graph.name} has no operator {name}; {nearest(name, sorted(present))}")
        if not isinstance(replacement, PrimFunc | Schedule) and not callable(replacement):
            raise InputError(
                report(
                    f"replace: {name}", wanted="a PrimFunc, f(sch) or f(*inputs, **attrs)",
                    found=type(replacement).__name__,
                )
            )  # fmt: skip

    def change(part: Graph) -> Graph:
        b = Rewriter(part)
        for item in part.nodes:
            b.where = item.where
            if item.op in replacements:
                _replace(b, item, replacements[item.op])
            else:
                b.keep(item)
        return b.result()

    return everywhere(change)(graph)


def _operators(graph: Graph) -> Iterator[OpNode]:
    for item in graph.nodes:
        yield item
        if item.op == LOOP:
            yield from _operators(item.body)


def _replace(b: Rewriter, item: OpNode, replacement: Any) -> None:
    func, sizes = _function(item, replacement)
    shapes = None if finds_its_sizes(func) else tuple(v.shape for v in item.outputs)
    result = b.op(CALL_TIR, *item.inputs, name=item.outputs[0].name, func=func, shapes=shapes, tir_vars=sizes)
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(item.outputs) or any(_misfit(a, v) for a, v in zip(results, item.outputs, strict=True)):
        types = ", ".join(v.type for v in item.outputs)
        raise InputError(
            report(
                f"replace: {item.op} by {signature(func)}", wanted=f"the results of {item.op}: {types}",
                found=", ".join(v.type for v in results),
            )
        )  # fmt: skip
    b.instead.update(zip(item.outputs, results, strict=True))


def _misfit(a: Value, b: Value) -> bool:
    """Return whether the types of two values differ in rank, in dtype, or provably in a dimension."""
    return a.dtype != b.dtype or a.ndim != b.ndim or any(differ(m, n) for m, n in zip(a.shape, b.shape, strict=True))


def _function(item: OpNode, replacement: Any) -> tuple[PrimFunc, tuple[Any, ...]]:
    """Return the loop program that replaces an operator, and the values of its scalar parameters."""
    if isinstance(replacement, PrimFunc | Schedule):
        return one_function(replacement), ()
    types = [(v.shape, v.dtype) for v in item.inputs]
    label = item.op.split(".")[-1]
    if _takes_schedule(replacement):
        operator = registry.get(item.op)
        own, sizes = te_function(lambda *inputs: operator.to_te(inputs, item.attrs), types, {}, label)
        sch = Schedule(own)
        returned = replacement(sch)
        sch = returned if isinstance(returned, Schedule) else sch
        return sch.func.with_attr(SCHEDULED, True), sizes
    attrs = {name: value for name, value in item.attrs.items() if _takes_attribute(replacement, name)}
    try:
        inspect.signature(replacement).bind(*types, **attrs)
    except TypeError as error:
        parameters = [*registry.get(item.op).input_names, *(["*", *item.attrs] if item.attrs else [])]
        raise InputError(
            report(
                f"replace: {item.op} by {label}{inspect.signature(replacement)}: {error}",
                wanted=f"f({', '.join(parameters)})",
            )
        ) from None
    return te_function(replacement, types, attrs, label)


def _takes_schedule(function: Any) -> bool:
    """Return whether a replacement is a function `f(sch)`: its first parameter is named `sch`, or annotated as a
    schedule.
    """
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and (first.name == "sch" or "Schedule" in str(first.annotation))


def _takes_attribute(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
