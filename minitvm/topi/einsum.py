"""Einstein summation, which te can express directly, because te is index notation too."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, as_expr
from ..te import Tensor
from .registry import Pattern, register
from .shapes import Dim, agree, dims, is_one


@register("einsum", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def einsum(*data: Tensor, equation: str) -> Tensor:
    """Return products summed over the labels that are missing in the output, as in `numpy.einsum` but without ellipsis.

    Without `->`, the output has the labels that occur once, in alphabetical order.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if "." in text or len(terms) != len(data) or not data:
        raise InputError(f"einsum: {equation!r} is not understood for {len(data)} operands (no ellipsis)")
    labels = "".join(terms)
    output = right if arrow else "".join(sorted(c for c in set(labels) if labels.count(c) == 1))
    if len({t.dtype for t in data}) != 1:
        raise TypeMismatch(f"einsum: the operands differ in dtype: {[str(t.dtype) for t in data]}")
    extents: dict[str, Dim] = {}
    for term, tensor in zip(terms, data, strict=True):
        if len(term) != tensor.ndim:
            raise InputError(f"einsum: {term!r} does not fit {tensor}")
        for label, dim in zip(term, dims(tensor), strict=True):
            if label not in extents or is_one(extents[label]):
                extents[label] = dim
            elif not is_one(dim) and not agree(dim, extents[label]):
                raise InputError(f"einsum: {label} is {extents[label]} and {dim}")
    if not set(output) <= set(extents):
        raise InputError(f"einsum: {equation!r} has output labels that no operand has")
    taps = {c: te.reduce_axis((0, extents[c]), name=c) for c in dict.fromkeys(labels) if c not in output}

    def element(*i: Any) -> Any:
        at: dict[str, Expr] = {**dict(zip(output, i, strict=True)), **{c: t.var for c, t in taps.items()}}
        value: Any = None
        for term, tensor in zip(terms, data, strict=True):
            point = [
                as_expr(0) if is_one(d) and not is_one(extents[c]) else at[c]
                for c, d in zip(term, dims(tensor), strict=True)
            ]
            factor = tensor[tuple(point)]
            value = factor if value is None else value * factor
        return te.sum(value, axis=list(taps.values())) if taps else value

    return te.compute([extents[c] for c in output], element, name="T_einsum", varargs_names=list(output))
