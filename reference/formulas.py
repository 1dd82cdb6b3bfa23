"""Operators without a meaning in NumPy: an operator from outside the package, or a loop program that a graph calls.

The interpreter of tensor expressions then computes the operator's own formula, and the interpreter of loop programs its
loops. A Python function (`call_packed`) is called. So a mistake in them is not detected: such a result only shows that
the levels below agree with it. `without_numpy` lists these operators, so that a verdict can name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm.errors import Unsupported, nearest
from minitvm.expr import DType
from minitvm.graph.nodes import BIND_SIZE, CALL_PACKED, CALL_TIR, FUSED, LOOP, Graph, OpNode
from minitvm.te import nodes as te

from .operators import OPERATORS


def formula(item: OpNode, inputs: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the results of an operator, computed from its tensor expressions or loops. `attrs` has no open sizes.

    Raises `Unsupported` if nothing of this name is registered.
    """
    if item.op == CALL_PACKED:
        return _python(inputs, attrs)
    from minitvm.te import placeholder
    from minitvm.topi import registry

    from .te import evaluate

    if item.op not in registry.OPERATORS:
        raise Unsupported(f"the graph interpreter has no operator {item.op}; {nearest(item.op, list(OPERATORS))}")
    arrays = {
        placeholder(array.shape, DType(array.dtype.name), name=f"x{number}"): array
        for number, array in enumerate(inputs)
    }
    outputs: list[te.Tensor] = registry.OPERATORS[item.op].to_te(list(arrays), attrs)
    return evaluate(outputs, arrays)


def _python(inputs: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> list[np.ndarray]:
    from minitvm.runtime.externals import call_python

    outputs = [np.zeros(shape, DType(dtype).numpy) for shape, dtype in attrs["types"]]
    call_python(attrs["func"], [*(array.copy() for array in inputs), *outputs])
    return outputs


def has_numpy_meaning(item: OpNode) -> bool:
    """Return whether the interpreter has a definition of the operator that is independent of the compiler's."""
    return item.op in OPERATORS or item.op in (FUSED, LOOP, BIND_SIZE)


def without_numpy(graph: Graph) -> list[str]:
    """Return a line for each operator of a graph whose own formula or loops are the only definition of its meaning."""
    lines: dict[str, None] = {}
    for item in _operators(graph):
        if item.op == CALL_TIR:
            lines.setdefault(f"call_tir {item.attrs['func'].name} has only its loops: the tir interpreter ran them")
        elif item.op == CALL_PACKED:
            lines.setdefault(f"call_packed {item.attrs['func']} is a Python function: it ran itself")
        elif not has_numpy_meaning(item):
            lines.setdefault(f"{item.op} has no meaning in NumPy: the te interpreter computed its formula")
    return list(lines)


def _operators(graph: Graph) -> Iterator[OpNode]:
    for item in graph.nodes:
        if item.op in (FUSED, LOOP):
            yield from _operators(item.graph if item.op == FUSED else item.body)
        else:
            yield item
