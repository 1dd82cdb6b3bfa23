"""Pickles of modules: they contain the bytes of an artifact, so that `multiprocessing` and data loaders can send a
module.

Loading any pickle runs code of its author, so the artifact in a pickle needs no signature. `copy.copy` and
`copy.deepcopy` use the same functions.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...executable.alignment import aligned_empty
from . import format
from .export import contents
from .load import module_of

if TYPE_CHECKING:
    from ..function import Function
    from ..module import GraphModule

_UNSIGNED = bytes(32)


def pickled(module: GraphModule | Function) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the result of `__reduce__` for a module: its artifact, the size of its thread team, and its states.

    Raises `Unsupported` in the same cases as `export`.
    """
    file = io.BytesIO()
    format.write_to(file, *contents(module), lambda head: _UNSIGNED)
    return unpickled, (file.getvalue(), module.threads, dict(getattr(module, "state", {})))


def unpickled(artifact: bytes, threads: int, states: Mapping[str, Any]) -> GraphModule | Function:
    """Rebuild a module that `pickled` reduced. Like `load`, it needs no compiler if the machine code is for this
    CPU.
    """
    data = aligned_empty(len(artifact))  # weights are at multiples of a cache line in the artifact
    data[:] = np.frombuffer(artifact, np.uint8)
    data.flags.writeable = False
    container = format.parsed(data.data, "the pickled module", mapped=("weights",))
    module = module_of(container, threads)
    if states:
        module.state.update(states)  # type: ignore[union-attr]
    return module
