"""The text of a kernel as a Python function, for Numba to compile."""

from __future__ import annotations

import linecache
from typing import Any


def defined(source: str, entry: str) -> Any:
    """Run the module text and return its entry function; Numba's messages find the text in `linecache`."""
    filename = f"<kernel {entry}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": f"minitvm_kernel_{entry}", "__file__": filename}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[entry]


def numbered(source: str) -> str:
    """The text with the numbers of its lines, for errors."""
    return "\n".join(f"{n:4d}  {line}" for n, line in enumerate(source.split("\n"), 1))
