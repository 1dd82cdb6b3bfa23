"""Wrong: min and max are exchanged, so everything below the cap becomes the cap."""

from __future__ import annotations

import numpy as np

from minitvm import te
from minitvm.graph import Pattern, register
from minitvm.reference.operators.table import operator


@operator("lesson.capped_relu")
def meaning(x: np.ndarray, bias: np.ndarray, cap: float) -> np.ndarray:
    """The meaning of the operator, on NumPy arrays."""
    return np.clip(x + bias, np.float32(0), np.float32(cap))


@register("lesson.capped_relu", pattern=Pattern.BROADCAST, override=True)
def compute(x: te.Tensor, bias: te.Tensor, *, cap: float) -> te.Tensor:
    """The operator as a tensor expression."""
    return te.compute(
        x.shape, lambda *i: te.maximum(te.minimum(x[i] + bias[i[-1]], 0.0), te.const(cap, x.dtype)), name="capped_relu"
    )
