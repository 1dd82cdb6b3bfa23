"""What ONNX Runtime computes, and where the compiler's levels differ from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minitvm
from minitvm.frontends import from_onnx
from minitvm.graph import optimize
from minitvm.reference import graph as interpreter

from .growing import SIZES, OpenGraph

_NEAR = 2e-3  # of the largest element: graphs have many steps, and float32 sums in any order
_NUDGE = np.float32(1 + 1e-6)

Run = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]


def difference(graph: OpenGraph, *, compiled: bool = False) -> str:
    """Where a level differs from ONNX Runtime at one of `SIZES`; "" for nowhere.

    The levels are the imported graph, interpreted; the optimised one, interpreted; and a module, if `compiled`.
    A result that ONNX Runtime itself changes when inputs change by 1e-6 (a rounding step, the place of the larger of
    two) is not compared. Raises what the importer, or the build, raises: every move is supported.
    """
    proto = graph.model()
    judge = _runtime(proto)
    imported = from_onnx(proto)
    runs: dict[str, Run] = {
        "graph": lambda data: interpreter.run(imported, data),
        "optimized": lambda data, g=optimize(imported): interpreter.run(g, data),  # type: ignore[misc]
    }
    if compiled:
        module = minitvm.build(proto, threads=1)
        runs["compiled"] = lambda data: _tuple(module(**data))
    for position, sizes in enumerate(SIZES):
        data = graph.data(position)
        wanted = judge(data)
        moved = judge({name: array * _NUDGE for name, array in data.items()})
        for name, run in runs.items():
            for number, (a, b, c) in enumerate(zip(run(data), wanted, moved, strict=True)):
                found = _unlike(np.asarray(a), b, c)
                if found:
                    return f"{graph}: {name} at {sizes}: output {number}: {found}"
    return ""


def _runtime(proto: Any) -> Run:
    """ONNX Runtime without its own rewriting, some of which drops roundings."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda data: session.run(None, data)


def _tuple(results: Any) -> Sequence[np.ndarray]:
    return results if isinstance(results, list | tuple) else (results,)


def _unlike(found: np.ndarray, wanted: np.ndarray, moved: np.ndarray) -> str:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    a, b, c = (array.astype(np.float64) for array in (found, wanted, moved))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        near = _NEAR * (np.abs(b[np.isfinite(b)]).max(initial=0) + 1e-2)
        steady = ~(np.abs(b - c) > near / 8) & (np.isfinite(b) == np.isfinite(c))
        same = np.isclose(a, b, rtol=0, atol=near, equal_nan=True) | (np.isinf(b) & (a == b))
    wrong = steady & ~same
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements differ: {a[place]} instead of {b[place]} at {list(place)}"
