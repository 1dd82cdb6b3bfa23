"""The operators of graphs in NumPy, one family per file, each written from its definition."""

from __future__ import annotations

from . import (
    activation,
    arithmetic,
    blocked,
    caches,
    convolution,
    counted,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resizing,
    sampling,
    shaping,
    words,
)
from .table import OPERATORS

__all__ = ["OPERATORS"]
