"""Functions written out as text, for tests."""

from __future__ import annotations

import textwrap

from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc


def function(body: str, signature: str) -> PrimFunc:
    """A function with this body and these parameters."""
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    made = from_source(f"@T.prim_func\ndef main({signature}):\n{text}\n")
    assert isinstance(made, PrimFunc)
    return made


def each(formula: str, dtype: str = "float32", out: str = "", n: int = 8) -> PrimFunc:
    """B[i] = formula, of A[i]."""
    signature = f'A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{out or dtype}")'
    return function(f"for i in range({n}):\n    B[i] = {formula}", signature)
