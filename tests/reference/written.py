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


def softmax(start: str, step: str, shift: str = "M[i]") -> PrimFunc:
    """Three rows: exp(A[i, j] - shift) by its sum; M[i] begins as `start` and goes on as `step` with each A[i, j]."""
    return function(
        f"""
        S = T.alloc_buffer((3,), "float32")
        M = T.alloc_buffer((3,), "float32")
        for i in range(3):
            M[i] = {start}
            for j in range(8):
                M[i] = {step}
            S[i] = T.float32(0)
            for j in range(8):
                S[i] = S[i] + T.exp(A[i, j] - {shift})
            for j in range(8):
                B[i, j] = T.exp(A[i, j] - {shift}) / S[i]
        """,
        'A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 8), "float32")',
    )


BY_MAXIMUM = ('T.min_value("float32")', "T.max(M[i], A[i, j])")  # a softmax that does not overflow
BY_ZERO = ("T.float32(0)", "M[i]")  # one that does


def each(formula: str, dtype: str = "float32", out: str = "", n: int = 8) -> PrimFunc:
    """B[i] = formula, of A[i]."""
    signature = f'A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{out or dtype}")'
    return function(f"for i in range({n}):\n    B[i] = {formula}", signature)
