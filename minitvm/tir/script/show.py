"""`mod.show()`: the text of a program on the screen, in colour where that is a terminal."""

from __future__ import annotations

import sys
from typing import Any

from ...expr import Node
from .printer import script


def show(node: Node, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
    """Print a program as TVMScript. `style` is a Pygments style for terminals; `options` are those of `script`.

    Into a file or pipe goes the plain text, which reads back. `black_format` is TVM's and means nothing here.
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
