"""`from minitvm.script import ir as I, tir as T`: write programs as Python, under TVM's names.

`T.prim_func` and `I.ir_module` (also `tvm.script.ir_module`) are decorators; `from_source` parses a text.
"""

from __future__ import annotations

from typing import Any

from .absent import absent
from .tir.script import builtins as tir
from .tir.script.source import MODULE_LANGUAGE as ir
from .tir.script.source import from_source, ir_module, prim_func

__all__ = ["from_source", "ir", "ir_module", "parse", "prim_func", "tir"]

__path__: list[str] = []  # an import of `minitvm.script.relax` reaches the finder that says what takes its place

parse = from_source


def __getattr__(name: str) -> Any:
    raise absent(__name__, name, __all__)
