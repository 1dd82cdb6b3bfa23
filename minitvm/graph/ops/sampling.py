"""Operators that only frontends ask for: pictures sampled at points, running products, reinterpreted bits."""

from __future__ import annotations

from typing import Any

from ... import topi
from ...expr import DType
from ..registry import Pattern, register


def _reinterpret(x: Any, dtype: str) -> Any:
    return x.view(DType(dtype).numpy)


register("cumprod", pattern=Pattern.OPAQUE)(topi.cumprod)
register("image.grid_sample", pattern=Pattern.OPAQUE)(topi.grid_sample)
register("reinterpret", pattern=Pattern.ELEMENTWISE, fold=_reinterpret)(topi.reinterpret)
