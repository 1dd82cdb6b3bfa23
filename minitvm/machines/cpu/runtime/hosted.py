"""Run kernels for CPUs in the middle of another machine's program. This is the part "hosted" of the CPU's back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....executable import Kernel
from ....executable.alignment import address
from ....runtime.words import scalar_word
from .compiled_for import isa_of
from .executor import PARALLEL, SEQUENTIAL
from .step_table import step_table
from .team import default_threads, shared_team

if TYPE_CHECKING:
    from .program import LoadedCode


class HostedKernel:
    """Runs one kernel, on all threads of a team or only on the caller's, with step tables of one step."""

    def __init__(self, kernel: Kernel, threads: int | None, code: LoadedCode | None = None) -> None:
        """Prepare a kernel. `threads` is the size of the team (None: `default_threads`).

        `code` is the kernel's machine code from an artifact; without it the kernel is compiled.
        """
        self._params = kernel.params
        self._code = _loaded(kernel) if code is None else code
        self._team = shared_team(default_threads() if threads is None else threads)
        self._args = np.zeros(max(1, len(kernel.params)), np.int64)
        rows = [(kind, self._code.address, address(self._args), 0) for kind in (SEQUENTIAL, PARALLEL)]
        self._tables = [step_table([row], self._team.threads) for row in rows]
        self._commands = [self._team.command(table) for table in self._tables]

    def __call__(self, arguments: Sequence[Any], parallel: bool) -> None:
        for k, (value, param) in enumerate(zip(arguments, self._params, strict=True)):
            self._args[k] = address(value) if isinstance(value, np.ndarray) else scalar_word(value, param.dtype)
        self._commands[parallel]()


def _loaded(kernel: Kernel) -> LoadedCode:
    from . import kernel_cache
    from .compile_pool import compile_kernels
    from .loader import load_kernel

    (code,) = kernel_cache.compiled([(kernel.source, kernel.entry, isa_of(kernel))], compile_kernels)
    return load_kernel(code, kernel.entry)
