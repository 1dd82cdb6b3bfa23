"""Writes a compiled module to a file: `module.export(path)`, or an executable, which needs no device to run on.

Sections: `program` is the executable with its kernels' sources as JSON, `weights` the bytes of its constants, `code`
describes what `machine_code` holds (see `code`); both are empty if no back end saves code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import Unsupported, needed
from ...executable import Executable
from ...executable.serialize import blob, to_json
from ..program import Progress
from . import code, format, sign

if TYPE_CHECKING:
    from ..function import Function
    from ..module import GraphModule


def export(
    module: GraphModule | Function | Executable,
    path: str | os.PathLike[str],
    key: sign.Key | None = None,
    architectures: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Write the module to one file, signed with `key`: at least 16 bytes, or a file of them; default: this user's.

    `architectures` of a CUDA module are those that it has machine code for (default: that of its target).
    `progress(done, total, name)` is called for each kernel that is compiled. Raises `InputError` for a path that cannot
    be written, and for architectures where the target has none; `ArtifactError` if there is no key, `Unsupported` for a
    program whose external calls have attributes that JSON cannot express.
    """
    secret = sign.make_user_key() if key is None else sign.key_bytes(key)
    about, sections = contents(module, architectures, progress)
    format.write(path, about, sections, lambda head: sign.signature(head, secret))


def contents(
    module: GraphModule | Function | Executable, architectures: Sequence[str] = (), progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, tuple[int, format.Pieces]]]:
    """What an artifact says about itself, and its sections."""
    from ... import __version__

    executable = module if isinstance(module, Executable) else module.executable
    about = {"minitvm": __version__, "kind": "function" if executable.calling else "graph"}
    with needed(
        f"to save the machine code of {executable.name}",
        "the file that the module was loaded from: another process loads it too",
    ):
        index, machine_code = code.pack(executable, architectures, progress)
    return about, {
        "program": _json(to_json(executable)),
        "code": _json(index),
        "machine_code": (len(machine_code), [machine_code]),
        "weights": blob(executable),
    }


def _json(value: Any) -> tuple[int, format.Pieces]:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Unsupported(f"the program cannot be saved as JSON: {error}") from None
    return len(text), [text]
