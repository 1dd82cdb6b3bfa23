"""TVM's `tvm.relax.transform`: passes over modules of graphs. `minitvm.build` runs its own passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....absent import absent
from ....frontends.relax import RelaxModule

__all__ = ["BindParams"]


def BindParams(func_name: str, params: Mapping[str, Any]) -> Callable[[RelaxModule], RelaxModule]:
    """Return the pass that replaces inputs of a function by constants."""
    return lambda module: module.bind(params, func_name)


def __getattr__(name: str) -> Any:
    raise absent("minitvm.relax.transform", name, __all__)
