"""The operators as pure tensor expressions, one file per family. Each function takes and returns te tensors.

Shapes may be symbolic. Attributes are keyword-only parameters. The decorator of each function (`registry.register`)
declares the operator for graphs, frontends and exports. For example, `minitvm.topi.relu` is the function of `nn.relu`.
"""

from __future__ import annotations

from typing import Any

from . import (
    boxes,
    broadcast,
    cached,
    called,
    conv,
    conv_transpose,
    counted,
    cumulative,
    einsum,
    elementwise,
    formats,
    gather,
    layouts,
    loop,
    matmul,
    norm,
    pad,
    pool,
    quantize,
    recurrent,
    reduce,
    registry,
    requantize,
    resize,
    sampling,
    scatter,
    slices,
    softmax,
    sort,
    transform,
)

# A function replaces the module of the same name: `topi.pad` is the operator.
globals().update({operator.compute.__name__: operator.compute for operator in registry.OPERATORS.values()})


def __getattr__(name: str) -> Any:
    """Return the function of an operator that was declared after this package was imported."""
    for operator in registry.OPERATORS.values():
        if operator.compute.__name__ == name:
            return operator.compute
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
