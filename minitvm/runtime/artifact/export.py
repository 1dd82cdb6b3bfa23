"""A compiled module into a file: `module.export(path)`.

Sections: `program` is the executable with its kernels' sources as JSON, `weights` the bytes of its constants, `code`
says as JSON what `machine_code` holds: one linked image (see `cpu.link`), or, where that format is not ours to link,
the object files as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import Unsupported
from ...executable import Executable
from ...executable.serialize import blob, to_json
from ..cpu import executor, identity, kernel_cache
from ..cpu.compile_pool import compile_kernels
from ..cpu.link import link
from . import format, sign

if TYPE_CHECKING:
    from ..function import Function
    from ..module import GraphModule

IMAGE, OBJECTS = "image", "objects"


def export(module: GraphModule | Function, path: str | os.PathLike[str], key: sign.Key | None = None) -> None:
    """Write the module to one file, signed with `key`: at least 16 bytes, or a file of them; default: this user's.

    Raises `InputError` for a path that cannot be written, `ArtifactError` where there is no key, `Unsupported` for a
    program whose external calls have attributes that JSON has no form for.
    """
    from ... import __version__
    from ..function import Function

    executable = module.executable
    secret = sign.make_user_key() if key is None else sign.key_bytes(key)
    about = {"minitvm": __version__, "kind": "function" if isinstance(module, Function) else "graph"}
    index, machine_code = _machine_code(executable)
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


def _machine_code(executable: Executable) -> tuple[dict[str, Any], bytes]:
    """What the kernels' code is for and where each begins, and the code; the last one is the executor."""
    jobs = [*((k.source, k.entry) for k in executable.kernels), (executor.SOURCE, executor.ENTRY)]
    distinct = list(dict.fromkeys(jobs))
    codes = kernel_cache.compiled(distinct, lambda absent: compile_kernels(absent))
    about = {
        "cpu": identity.describe(),
        "executor": hashlib.sha256(executor.SOURCE.encode()).hexdigest(),
        "kernels": [distinct.index(job) for job in jobs],
    }
    try:
        return _image(about, [(code, entry) for code, (_, entry) in zip(codes, distinct, strict=True)])
    except Unsupported:
        sizes = [len(code) for code in codes]
        return {**about, "form": OBJECTS, "entries": [entry for _, entry in distinct], "sizes": sizes}, b"".join(codes)


def _image(about: Mapping[str, Any], objects: Sequence[tuple[bytes, str]]) -> tuple[dict[str, Any], bytes]:
    image = link(objects)
    externals = [list(external) for external in image.externals]
    return {**about, "form": IMAGE, "entries": list(image.entries), "externals": externals}, bytes(image.data)
