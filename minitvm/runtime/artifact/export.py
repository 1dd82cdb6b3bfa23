"""Write a compiled module to a file: `module.export(path)`.

You can also export an executable, without a device to run it. The sections of the file: `program` is the executable
with its kernels' sources as JSON, `weights` are the bytes of its constants, and `code` describes the contents of
`machine_code` (see `code`). The last two are empty if no back end saves code.
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
    """Write the module to a single file, signed with `key`.

    `key` is at least 16 bytes, or the path of a file that contains them; by default it is this user's key. For a CUDA
    module, `architectures` are the architectures for which machine code is saved (default: the target's).
    `progress(done, total, name)` is called for each kernel that is compiled. Raises `InputError` if the path cannot be
    written, or if the target has no architectures; `ArtifactError` if there is no key; `Unsupported` if external calls
    of the program have attributes that JSON cannot express.
    """
    secret = sign.make_user_key() if key is None else sign.key_bytes(key)
    about, sections = contents(module, architectures, progress)
    format.write(path, about, sections, lambda head: sign.signature(head, secret))


def contents(
    module: GraphModule | Function | Executable, architectures: Sequence[str] = (), progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, tuple[int, format.Pieces]]]:
    """Return the description of an artifact, and its sections."""
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
