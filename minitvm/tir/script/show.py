"""`mod.show()`: print the text of a program, in colour if the output is a terminal."""

from __future__ import annotations

import sys
from typing import Any

from ...expr import Node
from .printer import script


def show(node: Node, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
    """Print a program as TVMScript. `style` is a Pygments style for terminals; `options` are those of `script`.

    Output to a file or pipe is plain text, which can be parsed again. `black_format` exists for compatibility with TVM
    and has no effect.
    """
    del black_format
    text = script(node, **options)
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    theme = style or "ansi_dark"
    Console().print(Syntax(text, "python", theme=theme, background_color="default"), soft_wrap=True)
