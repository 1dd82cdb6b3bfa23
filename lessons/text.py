"""The part of a program's text that a lesson talks about.

print(body_of(kernel))
"""

from __future__ import annotations

import textwrap

from minitvm.tir.nodes import IRModule, PrimFunc

_LEFT_OUT = ("T.func_attr(", "T.reads(", "T.writes(")


def body_of(program: PrimFunc | IRModule) -> str:
    """The statements of a function, or of the last one of a module, set in by four.

    Without the header, and without the lines on what blocks read and write.
    """
    lines = program.script().splitlines()
    start = max(at for at, line in enumerate(lines) if line.lstrip().startswith("def "))
    kept = [line for line in lines[start + 1 :] if not line.lstrip().startswith(_LEFT_OUT)]
    return textwrap.indent(textwrap.dedent("\n".join(kept)), "    ")
