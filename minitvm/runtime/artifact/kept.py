"""Compiled models that are kept on disk, so that the next process loads them instead of building them again.

A kept model is an artifact without weights. The weights are in a second file under the hash of their contents, so
programs with the same weights share them: for example, the programs of a language model for prompts and for single
tokens. The weights stay in the mapped file. A file that is damaged counts as absent, and the model is built again.

Both files are in the folder of compiled kernels (see `store`), which contains machine code too, so they are not signed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ...errors import MinitvmError
from ...executable.serialize import blob
from ...store import FileStore
from . import format
from .export import contents
from .load import module_of

if TYPE_CHECKING:
    from ..module import GraphModule
    from ..program import Progress

PROGRAMS = FileStore(".program", "programs of models")
WEIGHTS = FileStore(".weights", "weights of models")
WEIGHTS_LIMIT = 4 << 30  # bytes of all weights that are kept; a model with more is not kept
VERSION = 1  # of the layout of these files
_PACKAGE = Path(__file__).resolve().parents[2]
_LIBRARIES = ("numpy", "numba", "llvmlite", "sympy", "islpy", "z3")

_mapped: WeakValueDictionary[bytes, Any] = WeakValueDictionary()  # the files of weights that this process uses


@cache
def code_state() -> bytes:
    """Return a hash of the state of this package's code, Python's version, and the libraries that a build uses.

    The state of a source file is its size and its time of change, as in Python's own cache of compiled modules.
    """
    h = hashlib.sha256(sys.version.encode())
    for library in _LIBRARIES:
        spec = find_spec(library)
        h.update(_state(spec.origin) if spec is not None and spec.origin else b"-")
    for folder, folders, files in os.walk(_PACKAGE):
        folders.sort()
        h.update(folder.encode())
        for file in sorted(files):
            if file.endswith(".py"):
                h.update(_state(os.path.join(folder, file)))
    return h.digest()


def key_of(*parts: Any) -> bytes:
    """Return the 32-byte key for plain data that, together with the code, decide a program.

    Raises `TypeError` for any other data.
    """
    text = json.dumps([VERSION, parts], sort_keys=True)
    return hashlib.sha256(code_state() + text.encode()).digest()


def _state(path: str) -> bytes:
    stat = os.stat(path)
    return f"{path} {stat.st_size} {stat.st_mtime_ns}\0".encode()


def get(key: bytes, name: str, threads: int | None = None, progress: Progress | None = None) -> GraphModule | None:
    """Return the module that is kept under a key, ready to run, or None. `name` is as in `store.FileStore`."""
    data = PROGRAMS.get(key, name)
    if data is None:
        return None
    try:
        container = format.parsed(memoryview(data), f"the program of {name}")
        weights = _weights(container.about, name)
        if weights is None:
            return None
        module: Any = module_of(
            replace(container, sections={**container.sections, "weights": weights}), threads, progress
        )
    except (MinitvmError, KeyError, TypeError, ValueError):  # of another version
        return None
    return module


def _weights(about: Mapping[str, Any], name: str) -> memoryview | None:
    """Return the weights of a program, which programs in this process share."""
    checksum = bytes.fromhex(about["weights"])
    mapped = _mapped.get(checksum)
    if mapped is None:
        view = WEIGHTS.view(checksum, name)
        if view is None:
            return None
        mapped = _mapped[checksum] = view.obj
    everything = memoryview(mapped)
    return everything[len(everything) - about["size"] :]


def put(key: bytes, name: str, module: GraphModule) -> None:
    """Keep a module under a key. Nothing is kept if it cannot be saved, or if it has too many weights."""
    try:
        about, sections = contents(module)
    except MinitvmError:
        return
    size, pieces = sections.pop("weights")
    if size > WEIGHTS_LIMIT:
        return
    hashed = hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
    checksum = hashed.digest()
    if not WEIGHTS.path(checksum, name).exists():
        if not WEIGHTS.put_large(name, checksum, size, blob(module.executable)[1]):
            return
        WEIGHTS.trim(WEIGHTS_LIMIT)
    file = io.BytesIO()
    format.write_to(file, {**about, "weights": checksum.hex(), "size": size}, sections, lambda head: bytes(32))
    PROGRAMS.put(key, name, file.getvalue())
    PROGRAMS.trim()
