"""`from minitvm.script import ir as I, tir as T`: programs written as Python, under TVM's names.

`T.prim_func` and `I.ir_module` (also `tvm.script.ir_module`) decorate; `from_source` reads a text.
"""

from __future__ import annotations

from .tir.script import builtins as tir
from .tir.script.source import MODULE_LANGUAGE as ir
from .tir.script.source import from_source, ir_module, prim_func

__all__ = ["from_source", "ir", "ir_module", "parse", "prim_func", "tir"]

parse = from_source
