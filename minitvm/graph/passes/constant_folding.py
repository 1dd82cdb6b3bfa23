"""Compute values at build time if they depend only on constants or on known shapes.

The value is computed by the operator's NumPy function `fold` if it has one; otherwise by `evaluate`, which `build`
passes in, and which compiles the node and runs it. The reference interpreters are not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import InputError
from ...topi import registry
from ..nodes import BIND_SIZE, CALL_PACKED, FUSED, LOOP, MATCH_CAST, Constant, Graph, OpNode, Value
from ..rewrite import rebuild

Evaluate = Callable[[OpNode, list[np.ndarray]], list[np.ndarray]]

# A result that is large, and much larger than its operands (a `full`, a `tile`), is not folded. Packed weights may grow
# by the zeros that fill their last block. Elements are counted, not bytes: a conversion adds none.
_GROWN_ELEMENTS = 1 << 14
_GROWTH = 2


def constant_folding(
    graph: Graph, evaluate: Evaluate | None = None, skips: Callable[[OpNode], bool] = lambda item: False
) -> Graph:
    """Replace each node whose inputs are all constants with constants, if its operator can be folded.

    A node for which `skips` returns True stays.

    before:
        x = b.input("x", (2,))
        c = b.constant(np.array([1, 4], "float32"))
        return b.op("add", x, b.op("sqrt", c))
    after:
        def main(x: float32[2]):
            sqrt = constant(float32[2])  # [1.0, 2.0]
            add: float32[2] = add(x, sqrt)
            return add
    """
    arrays: dict[Value, np.ndarray] = graph.arrays()
    constants: list[Constant] = []
    nodes: list[OpNode] = []
    for item in graph.nodes:
        stays = item.op in (BIND_SIZE, CALL_PACKED, FUSED, LOOP, MATCH_CAST) or skips(item)
        results = None if stays else _folded(item, arrays, evaluate)
        if results is None:
            nodes.append(item)
            continue
        for value, array in zip(item.outputs, results, strict=True):
            data = np.ascontiguousarray(np.asarray(array, value.dtype.numpy)).reshape(np.shape(array))
            arrays[value] = data
            constants.append(Constant(value, data))
    return rebuild(graph, nodes, constants)


def _folded(item: OpNode, arrays: dict[Value, np.ndarray], evaluate: Evaluate | None) -> list[np.ndarray] | None:
    operator = registry.get(item.op)
    if not all(value.is_static for value in item.outputs) or any(True for _ in item.symbols()):
        return None
    if all(0 in value.shape for value in item.outputs):
        return [np.zeros([int(d) for d in value.shape], value.dtype.numpy) for value in item.outputs]  # type: ignore[arg-type]
    if operator.fold_types is not None:
        array = operator.fold_types(*((v.shape, v.dtype) for v in item.inputs), **item.attrs)
        return None if array.dtype == object else [array]
    if not all(value in arrays for value in item.inputs) or _grows(item):
        return None
    operands = [arrays[value] for value in item.inputs]
    if operator.fold is not None:
        try:
            with np.errstate(all="ignore"):
                results: Any = operator.fold(*operands, **item.attrs)
        except IndexError as error:
            raise InputError(f"{item}: {error}") from error
        except ValueError:  # NumPy has no value for it (a maximum of nothing), but the operator has
            return None
        return list(results) if isinstance(results, tuple) else [results]
    return evaluate(item, operands) if evaluate is not None else None


def _grows(item: OpNode) -> bool:
    size = sum(map(_elements, item.outputs))
    return size > _GROWN_ELEMENTS and size > _GROWTH * sum(map(_elements, item.inputs))


def _elements(value: Value) -> int:
    return math.prod([extent for extent in value.shape if isinstance(extent, int)])
