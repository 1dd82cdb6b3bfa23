"""Reductions, and running sums, products and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import topi
from ..registry import Pattern, register


def _numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy reduction that keeps the dtype, as the operator does."""

    def fold(x: Any, axis: Any, keepdims: bool) -> Any:
        reduced = function(x, axis=axis, keepdims=keepdims)
        return np.asarray(reduced, x.dtype)

    return fold


_REDUCE: list[tuple[str, Callable[..., Any], Callable[..., Any] | None]] = [
    ("all", topi.all, np.all),
    ("any", topi.any, np.any),
    ("argmax", topi.argmax, None),
    ("argmin", topi.argmin, None),
    ("l1", topi.l1, None),
    ("l2", topi.l2, None),
    ("log_sum", topi.log_sum, None),
    ("logsumexp", topi.logsumexp, None),
    ("max", topi.max, _numpy(np.max)),
    ("mean", topi.mean, None),
    ("min", topi.min, _numpy(np.min)),
    ("prod", topi.prod, _numpy(np.prod)),
    ("sum", topi.sum, _numpy(np.sum)),
    ("sum_square", topi.sum_square, None),
]
for _name, _te, _fold in _REDUCE:
    register(_name, pattern=Pattern.COMM_REDUCE, fold=_fold)(_te)

register("variance", pattern=Pattern.OPAQUE)(topi.variance)
register("cummax", pattern=Pattern.OPAQUE)(topi.cummax)
register("cummin", pattern=Pattern.OPAQUE)(topi.cummin)
register("cumprod", pattern=Pattern.OPAQUE)(topi.cumprod)
register("cumsum", pattern=Pattern.OPAQUE)(topi.cumsum)
