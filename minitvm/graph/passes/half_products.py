"""Products of 16-bit floats are summed in float32, from operands as they are stored or as float32.

    dense(x, w) in bfloat16             ->  cast(dense(x, w, out_dtype="float32"), "bfloat16")
    dense(cast(x), cast(w)) in float32  ->  dense(x, w, out_dtype="float32")
    conv2d(x, w) in float16             ->  cast(conv2d(cast(x), cast(w)), "float16")

A product of two such floats is exact in float32, and the sum is rounded there once for each addition and at the end,
where the tensor expression rounds each sum to 16 bits: no result has a larger bound. That is what the interpreter of
graphs, ONNX Runtime and our importers do. Matrices are read as they are stored, which halves what a product with few
rows waits for; a convolution reads each element often, so it reads float32, unless the machine multiplies matrices of
that dtype (tensor cores) or pairs of bfloat16. A constant that was widened before counts as one of 16 bits if its
elements are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ...expr import DType
from ...target import Target
from ..builder import GraphBuilder
from ..nodes import Graph, OpNode, Value
from .rebuild import with_replaced

_HALVES = ("float16", "bfloat16")
_MATRICES = frozenset(("nn.batch_matmul", "nn.dense", "nn.matmul"))
_PRODUCTS = _MATRICES | {"nn.conv1d", "nn.conv2d", "nn.conv3d"}


def half_products(graph: Graph, target: Target, accuracy: str = "fast") -> Graph:
    """The graph whose products of 16-bit floats are summed in float32, each in the form that the target computes."""
    arrays, producers = graph.arrays(), graph.producers()
    direct = {half for half in _HALVES if _multiplies(target, accuracy, half)}
    plans = {item: plan for item in graph.nodes if (plan := _plan(item, arrays, producers, direct)) is not None}
    new: dict[Value, Value] = {}

    def make(b: GraphBuilder, item: OpNode, inputs: list[Value]) -> Value:
        half, stored = plans[item]

        def operand(old: Value, value: Value) -> Value:
            if stored and value.dtype == "float32":
                found = _narrow(old, arrays, producers, half)
                assert found is not None
                return new[found] if isinstance(found, Value) else b.constant(found, f"{old.name}_{half}")
            return value if stored else b.op("cast", value, dtype="float32", name=f"{old.name}_float32")

        operands = [operand(old, value) for old, value in zip(item.inputs, inputs, strict=True)]
        name = item.output.name
        is_half = item.output.dtype.is_half
        attrs = {**item.attrs, "out_dtype": "float32"}
        total: Value = b.op(item.op, *operands, name=f"{name}_float32" if is_half else name, **attrs)
        return b.op("cast", total, dtype=half, name=name) if is_half else total

    return with_replaced(graph, plans.__contains__, make, new)


def _plan(
    item: OpNode, arrays: Mapping[Value, np.ndarray], producers: Mapping[Value, OpNode], direct: Collection[str]
) -> tuple[DType, bool] | None:
    """The 16-bit dtype of a product that is to be changed, and whether it reads its operands as they are stored.

    The machine multiplies elements of `direct` dtypes without widening them.
    """
    if item.op not in _PRODUCTS or len(item.inputs) != 2:
        return None
    dtypes, result = [v.dtype for v in item.inputs], item.output.dtype
    if dtypes[0] == dtypes[1] and dtypes[0].is_half:
        half = dtypes[0]
        stored = _reads_halves(item, half, direct)
        is_done = result == "float32" and stored
        return (half, stored) if result in (half, "float32") and not is_done else None
    if result != "float32" or dtypes != ["float32", "float32"]:
        return None
    makers = [producers.get(v) for v in item.inputs]
    sources = {m.inputs[0].dtype for m in makers if m is not None and m.op == "cast" and m.inputs[0].dtype.is_half}
    if len(sources) != 1:
        return None
    (half,) = sources
    if not _reads_halves(item, half, direct):
        return None
    return (half, True) if all(_narrow(v, arrays, producers, half) is not None for v in item.inputs) else None


def _reads_halves(item: OpNode, half: DType, direct: Collection[str]) -> bool:
    if item.op in _MATRICES:
        return True
    return item.op == "nn.conv2d" and item.attrs["groups"] == 1 and half in direct


def _multiplies(target: Target, accuracy: str, half: str) -> bool:
    """Whether the machine multiplies two elements of a 16-bit dtype, or matrices of them, without widening them."""
    return target.multiplies_matrices(half) or (half == "bfloat16" and target.multiplies_pairs and accuracy != "strict")


def _narrow(
    value: Value, arrays: Mapping[Value, np.ndarray], producers: Mapping[Value, OpNode], half: DType
) -> Value | np.ndarray | None:
    """What a float32 value was widened from: a value, or a constant whose elements are all of that dtype."""
    maker = producers.get(value)
    if maker is not None:
        return maker.inputs[0] if maker.op == "cast" and maker.inputs[0].dtype == half else None
    if value not in arrays:
        return None
    wide = arrays[value]
    with np.errstate(over="ignore"):
        stored = wide.astype(half.numpy)
    return stored if np.array_equal(stored.astype(np.float32), wide, equal_nan=True) else None
