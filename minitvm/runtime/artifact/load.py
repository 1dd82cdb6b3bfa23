"""Load a module from a file: `minitvm.runtime.load(path)`. Imports only NumPy and this package's runtime.

If the artifact contains machine code for this machine, that code runs. Otherwise the sources of the kernels are
compiled, as after a build.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import ArtifactError, InputError, InternalError, needed
from ...executable import Executable
from ...executable.serialize import from_json
from ...workers.cores import available_cores
from ..function import Function
from ..module import GraphModule
from ..program import ONLY_RUN, Progress
from . import code, format, sign
from .format import Container

_KINDS: dict[str, type[GraphModule] | type[Function]] = {"graph": GraphModule, "function": Function}


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    trust: bool = False,
    key: sign.Key | None = None,
    progress: Progress | None = None,
    device: str | int | None = None,
) -> GraphModule | Function:
    """Load a module that `export` wrote. Returns a `GraphModule`, or a `Function` if a tir function was exported.

    `threads` is the size of the thread team, as in `build`. The file must be signed with `key` (bytes, or a file that
    contains them; default: this user's key), unless you pass `trust=True`, which allows its code to run without a
    signature. Weights stay in the mapped file. `progress(done, total, name)` is called for each kernel that is
    compiled. `device` is as in `build`.

    Raises `ArtifactError` for a file that is truncated, altered, from another version, or not trusted.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads={threads}: wanted a number from 1")
    container = format.read(path, mapped=("weights",), threads=len(available_cores()))
    sign.demand_trust(container, trust, key)
    return module_of(container, threads, progress, device)


def module_of(
    container: Container, threads: int | None, progress: Progress | None = None, device: str | int | None = None
) -> GraphModule | Function:
    """Build the module of an artifact. `demand_trust` must have accepted the artifact."""
    with _put_together(container):
        executable = from_json(_json(container, "program"), container.sections["weights"])
        with needed(f"because {container.path} has no machine code for exactly this machine", ONLY_RUN):
            kernels = code.unpack(executable, _json(container, "code"), container.sections["machine_code"])
        kind = _KINDS[container.about["kind"]]
    if None in kernels:
        return _recompiled(container, executable, kind, threads, progress, kernels, device)
    return kind(executable, threads, progress=progress, kernels=kernels, device=device)


def look_at(path: str | os.PathLike[str]) -> Executable:
    """Read the program in an artifact, including the sources of its kernels. This runs no code and needs no trust."""
    container = format.read(path, mapped=("weights",), threads=len(available_cores()))
    with _put_together(container):
        return from_json(_json(container, "program"), container.sections["weights"])


@contextlib.contextmanager
def _put_together(container: Container) -> Iterator[None]:
    """Within this scope, report errors in the contents of sections as `ArtifactError`.

    The checksums are correct, so the contents must come from another program or version.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{container.path} is not put together as this minitvm does it ({type(error).__name__}: {error}); "
            f"it was made by minitvm {container.about.get('minitvm')}: export it again"
        ) from None


def _json(container: Container, name: str) -> Any:
    return json.loads(bytes(container.sections[name]))


def _recompiled(
    container: Container,
    executable: Executable,
    kind: type[GraphModule] | type[Function],
    threads: int | None,
    progress: Progress | None,
    kernels: Sequence[Any],
    device: str | int | None,
) -> GraphModule | Function:
    from ... import __version__

    made_by = container.about.get("minitvm")
    try:
        return kind(executable, threads, progress=progress, kernels=kernels, device=device)
    except InternalError as error:
        if made_by == __version__:
            raise
        raise ArtifactError(
            f"{container.path} was made for another machine by minitvm {made_by}, and minitvm {__version__} cannot "
            f"compile its kernels: export it again\n{error}"
        ) from error
