"""`from minitvm.script import ir as I, relax as R, tir as T`: write programs as Python, under TVM's names.

`T.prim_func`, `R.function` and `I.ir_module` (also `tvm.script.ir_module`) are decorators; `from_source` parses a text.
"""

from __future__ import annotations

import importlib
from typing import Any

from .absent import absent
from .doors import RELAX
from .tir.script import builtins as tir
from .tir.script.source import MODULE_LANGUAGE as ir
from .tir.script.source import from_source, ir_module, prim_func

__all__ = ["from_source", "ir", "ir_module", "parse", "prim_func", "tir"]

__path__: list[str] = []  # `import minitvm.script.relax` reaches the finder of public names

parse = from_source


def __getattr__(name: str) -> Any:
    if name == "relax":
        return importlib.import_module(f"{RELAX}.language")
    raise absent(__name__, name, __all__)
