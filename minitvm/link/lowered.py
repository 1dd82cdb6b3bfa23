"""What lowering hands to linking: a function with its kernels and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..tir.nodes import IRModule, PrimFunc


@dataclass(frozen=True, slots=True)
class LoweredFunc:
    """A level-3 function with what it became: its host function and kernels, and the source of each kernel."""

    func: PrimFunc
    module: IRModule
    sources: Mapping[str, str]

    @property
    def host(self) -> PrimFunc:
        """The function that calls the kernels."""
        return next(f for _, f in self.module.items() if f.attrs.get("host"))

    @property
    def kernels(self) -> dict[str, PrimFunc]:
        """The kernels by name."""
        return {name: f for name, f in self.module.items() if not f.attrs.get("host")}
