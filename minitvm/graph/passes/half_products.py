"""Sum products of 16-bit floats in float32. The operands are read as 16-bit floats or converted to float32 first.

    dense(x, w) in bfloat16             ->  cast(dense(x, w, out_dtype="float32"), "bfloat16")
    dense(cast(x), cast(w)) in float32  ->  dense(x, w, out_dtype="float32")
    conv2d(x, w) in float16             ->  cast(conv2d(cast(x), cast(w)), "float16")

A product of two 16-bit floats is exact in float32. The sum is rounded to float32 at each addition and to 16 bits once
at the end, while the tensor expression rounds each sum to 16 bits; so no error bound becomes larger. The graph
interpreter, ONNX Runtime and our importers do the same. Matrices are read as 16-bit floats, because a product with few
rows waits for memory, and this halves the bytes. A convolution reads each element often, so it reads float32, unless
the machine multiplies matrices of this dtype (tensor cores) or pairs of bfloat16. A float32 constant counts as a 16-bit
constant if all of its elements are 16-bit floats.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...expr import DType
from ...target import Target
from ..nodes import Graph, OpNode, Value
from ..pattern import GraphFacts, Match, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite

_HALVES = ("float16", "bfloat16")
_MATRICES = frozenset(("nn.batch_matmul", "nn.dense", "nn.matmul"))
_PRODUCTS = _MATRICES | {"nn.conv1d", "nn.conv2d", "nn.conv3d"}


def half_products(graph: Graph, target: Target, accuracy: str = "fast") -> Graph:
    """Make products of 16-bit floats sum in float32, in the form that suits the target best.

    before:
        x = b.input("x", (2, 8), "float16")
        w = b.input("w", (4, 8), "float16")
        return b.op("nn.dense", x, w)
    after:
        def main(x: float16[2, 8], w: float16[4, 8]):
            dense_float32: float32[2, 4] = nn.dense(x, w, out_dtype='float32')
            dense: float16[2, 4] = cast(dense_float32, dtype=float16)
            return dense
    """
    direct = {half for half in _HALVES if _multiplies(target, accuracy, half)}
    half = value("half", when=lambda v: v.dtype.is_half)
    return rewrite(graph, [
        RewriteRule(op(_PRODUCTS, half, value("other")), lambda b, match: _of_halves(b, match, direct)),
        RewriteRule(
            op(_PRODUCTS, op("cast", half), value(), any_order=True), lambda b, match: _of_widened(b, match, direct)
        ),
    ])  # fmt: skip


def _of_halves(b: Rewriter, match: Match, direct: Collection[str]) -> Value | None:
    """Rewrite a product of two 16-bit operands. Returns None if the product has the best form already, or if the dtypes
    do not fit.

    The machine multiplies operands of the dtypes in `direct` without widening.
    """
    item, half, result = match.root, match.root.inputs[0].dtype, match.root.output.dtype
    stored = _reads_halves(item, half, direct)
    if match["other"].dtype != half or result not in (half, "float32") or (result == "float32" and stored):
        return None
    operands = item.inputs
    if not stored:
        operands = tuple(b.op("cast", v, dtype="float32", name=f"{v.name}_float32") for v in operands)
    name = item.output.name
    total: Value = b.op(
        item.op, *operands, name=f"{name}_float32" if result == half else name, **{**item.attrs, "out_dtype": "float32"}
    )
    return b.op("cast", total, dtype=half, name=name) if result == half else total


def _of_widened(b: Rewriter, match: Match, direct: Collection[str]) -> Value | None:
    """Rewrite a product whose two operands were widened from the same 16-bit dtype, so that it reads the narrow
    operands.

    Returns None if an operand was not widened.
    """
    item, half = match.root, match["half"].dtype
    if any(v.dtype != "float32" for v in (*item.inputs, item.output)) or not _reads_halves(item, half, direct):
        return None
    operands = [_narrow(v, match.facts, half) for v in item.inputs]
    if any(v is None for v in operands):
        return None
    stored = [
        v if isinstance(v, Value) else b.constant(v, f"{old.name}_{half}")
        for v, old in zip(operands, item.inputs, strict=True)
    ]
    total: Value = b.op(item.op, *stored, name=item.output.name, **{**item.attrs, "out_dtype": "float32"})
    return total


def _reads_halves(item: OpNode, half: DType, direct: Collection[str]) -> bool:
    if item.op in _MATRICES:
        return True
    return item.op == "nn.conv2d" and item.attrs["groups"] == 1 and half in direct


def _multiplies(target: Target, accuracy: str, half: str) -> bool:
    """Return whether the machine multiplies matrices of the 16-bit dtype `half`, or pairs of bfloat16, without widening
    them.

    Pairs do not count if `accuracy` is "strict", because their instruction may flush denormal numbers.
    """
    return target.multiplies_matrices(half) or (half == "bfloat16" and target.multiplies_pairs and accuracy != "strict")


def _narrow(wide_value: Value, facts: GraphFacts, half: DType) -> Value | np.ndarray | None:
    """Return the 16-bit value or constant that a float32 value was widened from, or None if there is none."""
    maker = facts.producers.get(wide_value)
    if maker is not None:
        return maker.inputs[0] if maker.op == "cast" and maker.inputs[0].dtype == half else None
    if wide_value not in facts.arrays:
        return None
    wide = facts.arrays[wide_value]
    with np.errstate(over="ignore"):
        stored = wide.astype(half.numpy)
    return stored if np.array_equal(stored.astype(np.float32), wide, equal_nan=True) else None
