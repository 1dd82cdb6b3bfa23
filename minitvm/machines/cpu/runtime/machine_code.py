"""Convert the compiled kernels of an executable to bytes for an artifact, and back.

A JSON index has the CPU and the offset of each kernel. The bytes are one linked image (see `link_kernels`), or the
object files themselves if `link_kernels` does not support their format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....errors import InputError, TargetError, Unsupported
from ....executable import Executable
from ....runtime.program import Progress
from ....target.isas import NATIVE
from . import executor, identity
from .compiled_for import isa_of
from .image import CodeImage, map_image
from .link_kernels import link
from .segments import LANGUAGE

if TYPE_CHECKING:
    from .program import LoadedCode

IMAGE, OBJECTS = "image", "objects"


def pack(
    executable: Executable, architectures: Sequence[str] = (), progress: Progress | None = None
) -> tuple[dict[str, Any], bytes] | None:
    """Return an index of the machine code of CPU kernels, and the code itself. The last kernel is the executor.

    Returns None if this machine cannot run the kernels. The machine that can compiles the source.
    """
    if architectures:
        raise InputError(f"code for {', '.join(architectures)}: an artifact for CPUs has code for this CPU alone")
    from . import kernel_cache  # needed to save code, not to load it
    from .compile_pool import compile_kernels

    own = [k for k in executable.kernels if k.language == LANGUAGE]
    try:
        jobs = [(k.source, k.entry, isa_of(k, executable)) for k in own]
    except TargetError:
        return None
    isa = jobs[0][2] if jobs else NATIVE
    jobs.append((executor.SOURCE, executor.ENTRY, isa))
    distinct = list(dict.fromkeys(jobs))
    codes = kernel_cache.compiled(distinct, lambda absent: compile_kernels(absent, None, progress))
    about = {
        "cpu": identity.describe(isa),
        "executor": hashlib.sha256(executor.SOURCE.encode()).hexdigest(),
        "kernels": [distinct.index(job) for job in jobs],
    }
    try:
        return _image(about, [(code, entry) for code, (_, entry, _) in zip(codes, distinct, strict=True)])
    except Unsupported:
        entries, sizes = [entry for _, entry, _ in distinct], [len(code) for code in codes]
        return {**about, "form": OBJECTS, "entries": entries, "sizes": sizes}, b"".join(codes)


def _image(about: Mapping[str, Any], objects: Sequence[tuple[bytes, str]]) -> tuple[dict[str, Any], bytes]:
    image = link(objects)
    externals = [list(external) for external in image.externals]
    return {**about, "form": IMAGE, "entries": list(image.entries), "externals": externals}, bytes(image.data)


def unpack(about: Mapping[str, Any], data: memoryview, count: int) -> list[LoadedCode] | None:
    """Return the kernels, ready to be called, or None if the machine code is for another CPU."""
    if not identity.is_here(about["cpu"]):
        return None
    loaded = _from_image(about, data) if about["form"] == "image" else _from_objects(about, data)
    kernels = [loaded[number] for number in about["kernels"]]
    if len(kernels) != count + 1:
        raise ValueError(f"{len(kernels)} kernels with code, {count} in the program")
    if about["executor"] == hashlib.sha256(executor.SOURCE.encode()).hexdigest():
        executor.adopt(kernels[-1])
    return kernels[:-1]


def _from_image(about: Mapping[str, Any], data: memoryview) -> list[LoadedCode]:
    externals = tuple((name, slot) for name, slot in about["externals"])
    return [*map_image(CodeImage(data, tuple(about["entries"]), externals))]


def _from_objects(about: Mapping[str, Any], data: memoryview) -> list[LoadedCode]:
    from .loader import load_kernel

    kernels: list[LoadedCode] = []
    for entry, size in zip(about["entries"], about["sizes"], strict=True):
        kernels.append(load_kernel(bytes(data[:size]), entry))
        data = data[size:]
    return kernels
