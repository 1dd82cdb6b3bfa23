"""Programs as JSON text: TVM's `tvm.ir.save_json` and `load_json`. What the text holds is the program's TVMScript."""

from __future__ import annotations

import json

from ....errors import InputError
from ....tir.nodes import IRModule, PrimFunc
from ....tir.script.printer import script
from ....tir.script.source import from_source

_FORMAT, _VERSION = "minitvm.program", 1


def save_json(node: IRModule | PrimFunc) -> str:
    """A module or function as JSON text that `load_json` reads back, structurally equal.

    Raises `InputError` for anything else.
    """
    if not isinstance(node, IRModule | PrimFunc):
        raise InputError(f"save_json takes a module or a function, found {type(node).__name__}")
    return json.dumps({"format": _FORMAT, "version": _VERSION, "script": script(node)}, indent=1)


def load_json(text: str) -> IRModule | PrimFunc:
    """The program that `save_json` wrote. Raises `InputError` for another text, TVM's own among them."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError) as problem:
        raise InputError(f"load_json: this is no JSON: {problem}") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("script"), str):
        raise InputError("load_json: this is no program that minitvm.compat.tvm.ir.save_json wrote")
    if data.get("version") != _VERSION:
        raise InputError(f"load_json: version {data.get('version')} of the format; wanted {_VERSION}")
    return from_source(data["script"])
