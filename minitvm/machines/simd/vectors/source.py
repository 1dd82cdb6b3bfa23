"""The text of a kernel as a Python function for Numba to compile, and the other facts that determine its machine
code.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import linecache
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def defined(source: str, entry: str) -> Any:
    """Run the module text and return its entry function. `linecache` gets the text, so that Numba's messages can quote
    it.
    """
    filename = f"<kernel {entry}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": f"minitvm_kernel_{entry}", "__file__": filename}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[entry]


def numbered(source: str) -> str:
    """Return the text with line numbers, for errors."""
    return "\n".join(f"{n:4d}  {line}" for n, line in enumerate(source.split("\n"), 1))


def support_of(files: Sequence[Path], packages: Sequence[str]) -> bytes:
    """Return a hash of these files of the support library, of the operations on vectors, and of the packages'
    versions.
    """
    h = hashlib.sha256()
    for file in (*files, *sorted(Path(__file__).parent.glob("*.py"))):
        h.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    for package in packages:
        h.update(f"{package} {importlib.metadata.version(package)}\0".encode())
    return h.digest()
