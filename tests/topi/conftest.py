"""`run(operator, *arrays, **attrs)`: an operator of topi on arrays, through the te interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm import te
from minitvm.reference.te import evaluate


def run_operator(operator: Callable[..., Any], *arrays: np.ndarray, **attrs: Any) -> Any:
    """The output array, or the list of them; their shapes and dtypes are those that the tensors declare."""
    inputs = [te.placeholder(a.shape, a.dtype.name, name=f"x{k}") for k, a in enumerate(arrays)]
    made = operator(*inputs, **attrs)
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    results = evaluate(outputs, dict(zip(inputs, arrays, strict=True)))
    for tensor, array in zip(outputs, results, strict=True):
        assert array.shape == tuple(int(d) for d in tensor.shape)
        assert array.dtype == tensor.dtype.numpy
    return results if isinstance(made, list | tuple) else results[0]


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    return run_operator
