"""Exercise 04: a new operator, defined twice.

The operator "lesson.capped_relu" adds a bias. Then it replaces values below 0 by 0 and values above `cap` by `cap`:

    v = x + bias
    y = 0 where v < 0, cap where v > cap, v elsewhere

x is float32 and has at least one axis. bias is float32 and has one axis, which is as long as the last axis of x. y has
the shape and dtype of x. `cap` is a Python float; it is not negative, and it need not be a whole number. If an element
of x is NaN, the same element of y is NaN. Do not change x or bias.

    x = [[1, 2], [5, -9]], bias = [0, 3], cap = 4.0   ->   y = [[1, 4], [4, 0]]

Write

    meaning(x, bias, cap)      on NumPy arrays
    compute(x, bias, *, cap)   on te tensors: te.compute(shape, lambda *i: ...), where `i` is the tuple of indices,
                               x[i] is an element of x, and te.maximum(a, b) and te.minimum(a, b) are the larger and the
                               smaller of two values

Do not derive one function from the other: the check compares their results, and then compiles a model that uses your
operator.

Check it with: minitvm lesson 04 --check
"""

from __future__ import annotations

import numpy as np

from minitvm import te
from minitvm.graph import Pattern, register
from minitvm.reference.operators.table import operator


@operator("lesson.capped_relu")
def meaning(x: np.ndarray, bias: np.ndarray, cap: float) -> np.ndarray:
    """The meaning of the operator, on NumPy arrays."""
    raise NotImplementedError("meaning(x, bias, cap): the text at the top describes the task")


@register("lesson.capped_relu", pattern=Pattern.BROADCAST, override=True)
def compute(x: te.Tensor, bias: te.Tensor, *, cap: float) -> te.Tensor:
    """The operator as a tensor expression."""
    raise NotImplementedError("compute(x, bias, *, cap): the text at the top describes the task")
