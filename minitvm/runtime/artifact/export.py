"""Writes a compiled module to a file: `module.export(path)`.

Sections: `program` is the executable with its kernels' sources as JSON, `weights` the bytes of its constants, `code`
describes, as JSON of the target's back end, what `machine_code` holds; both are empty if the back end saves no code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...backend import get
from ...errors import Unsupported
from ...executable.serialize import blob, to_json
from ..program import MachineCode
from . import format, sign

if TYPE_CHECKING:
    from ..function import Function
    from ..module import GraphModule


def export(module: GraphModule | Function, path: str | os.PathLike[str], key: sign.Key | None = None) -> None:
    """Write the module to one file, signed with `key`: at least 16 bytes, or a file of them; default: this user's.

    Raises `InputError` for a path that cannot be written, `ArtifactError` if there is no key, `Unsupported` for a
    program whose external calls have attributes that JSON cannot express.
    """
    from ... import __version__
    from ..function import Function

    executable = module.executable
    secret = sign.make_user_key() if key is None else sign.key_bytes(key)
    about = {"minitvm": __version__, "kind": "function" if isinstance(module, Function) else "graph"}
    code: MachineCode | None = get(executable.target).part("machine_code")
    index, machine_code = ({}, b"") if code is None else code.pack(executable)
    sections = {
        "program": _json(to_json(executable)),
        "code": _json(index),
        "machine_code": (len(machine_code), [machine_code]),
        "weights": blob(executable),
    }
    format.write(path, about, sections, lambda head: sign.signature(head, secret))


def _json(value: Mapping[str, Any]) -> tuple[int, list[bytes]]:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Unsupported(f"the program cannot be saved as JSON: {error}") from None
    return len(text), [text]
