"""Write a network as a folder for browsers: `export`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...executable import Executable
from ..constants import packed
from ..folders import fill, new_folder

if TYPE_CHECKING:
    from os import PathLike

    from .compile import WasmModule

CODE = {True: "net.wasm", False: "net.plain.wasm"}  # with relaxed SIMD, and without it
WEIGHTS, SCRIPT, PAGE = "net.weights.bin", "net.js", "index.html"
NODE = "package.json"  # without it, some versions of node do not read net.js as a module
_PLACEHOLDER = "const NET = {};"


def export(
    executable: Executable,
    folder: str | PathLike[str],
    progress: Callable[[int, int, str], None] | None = None,
    *,
    fallback: bool = True,
) -> dict[str, int]:
    """Write `executable` as files into a new or empty folder. Returns the sizes of the files in bytes.

    With `fallback`, there is also a module for engines without relaxed SIMD. It takes a second compilation.

    Lower the executable for `TARGET`, which has vectors of 128 bits. The same executable gives the same files.
    `progress(done, total, name)` is called after each kernel. Raises `Unsupported` for an executable that calls
    engines, or kernels of other machines, and `InputError` if the folder has files or cannot be created.
    """
    from .compile import compile_modules

    place = new_folder(folder)
    kinds = [True, False] if fallback else [True]
    modules, description = compile_modules(executable, kinds, progress)
    offsets, weights = packed(executable.constants)
    places = [(offset, constant.data.nbytes) for offset, constant in zip(offsets, executable.constants, strict=True)]
    here = Path(__file__).parent
    files = {
        **{CODE[relaxed]: module.code for relaxed, module in zip(kinds, modules, strict=True)},
        WEIGHTS: weights,
        SCRIPT: _script((here / SCRIPT).read_text(), modules, description, places).encode(),
        PAGE: (here / PAGE).read_bytes(),
        NODE: b'{"type": "module"}\n',
    }
    fill(place, files)
    return {name: len(data) for name, data in files.items()}


def _script(
    template: str, modules: Sequence[WasmModule], description: dict[str, Any], places: Sequence[tuple[int, int]]
) -> str:
    """The text of net.js, with the description of this network, and the offset and size of each constant."""
    net = {
        **description,
        "constants": places,
        "weights": WEIGHTS,
        "modules": [
            {"code": name, "dataBytes": module.data_bytes, "stackBytes": module.stack_bytes}
            for name, module in zip(CODE.values(), modules, strict=False)
        ],
    }
    # JSON is JavaScript, with any character in a string.
    return template.replace(_PLACEHOLDER, f"const NET = {json.dumps(net, indent=1)};")
