"""The reference interpreter as a machine: it runs kernels as they are, so it needs no compiler besides minitvm's own.

    module = minitvm.build(model, target="interpreter")

Loops run as they are written, because this machine has no schedule rules. A run is slow and checks everything: see
`reference/executable.py`.
"""

from ...backend.parts import Backend
from ...target import Kind
from .machine import Interpreter

BACKEND = Backend(
    kind="interpreter",
    machine=Kind(("interpreter",), Interpreter, Interpreter, "interpreter"),
    language="tvmscript",
    generate=f"{__name__}.program:generate",
    program=f"{__name__}.program:InterpreterProgram",
)

__all__ = ["BACKEND"]
