"""The methods that a compiled module has in TVM: entries by name, timing, source text, saving."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import InputError, nearest
from ..executable import Executable
from .time_evaluator import BenchmarkResult, evaluator


class TvmMethods:
    """TVM's methods for a compiled module that can be called. `entry_names` lists the names under which its only entry
    can be looked up.
    """

    executable: Executable
    entry_names: tuple[str, ...] = ("main", "run", "default_function")

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def export(self, path: str | os.PathLike[str]) -> None:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        """Return the entry called `name`: the function's own name, or "main".

        If there is no such entry, raise an `InputError` that suggests existing names.
        """
        names = list(dict.fromkeys((self.executable.name, *self.entry_names)))
        if name not in names:
            raise InputError(f"the module has no function {name!r}; {nearest(str(name), names)}")
        return self

    get_function = __getitem__

    @property
    def entry_func(self) -> Any:
        """The only function of the module."""
        return self

    entry_name = "main"

    def time_evaluator(
        self, func_name: str = "main", dev: Any = None, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0,
        **others: Any,
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """Return a function that times calls of an entry with its arguments; see `runtime.time_evaluator.evaluator`.

        `others` are options that only TVM has: its limits, and flushing the cache between calls. They are not
        supported.
        """
        _require_known(others)
        return evaluator(self[func_name], number, repeat, min_repeat_ms)

    def benchmark(
        self, dev: Any = None, *args: Any, func_name: str = "main", repeat: int = 5, number: int = 5,
        min_repeat_ms: float = 0, end_to_end: bool = False, **named: Any,
    ) -> BenchmarkResult:  # fmt: skip
        """Time calls and return the result: `f.benchmark(tvm.cpu(), a, b)`."""
        return evaluator(self[func_name], number, repeat, min_repeat_ms)(*args, **named)

    def get_source(self, fmt: str = "") -> str:
        """Return the source of the kernels in the language of the target's code generator, or their programs for
        "tir".
        """
        if fmt in ("tir", "script", "ir"):
            return "\n\n".join(kernel.script for kernel in self.executable.kernels)
        return "\n\n".join(kernel.source for kernel in self.executable.kernels)

    inspect_source = get_source

    def export_library(self, file_name: str | os.PathLike[str], **options: Any) -> None:
        """Write the module to a single file that `minitvm.runtime.load` (or `load_module`) can run."""
        if options:
            raise InputError(f"export_library has no option {next(iter(options))}: it calls no other compiler")
        self.export(file_name)

    @property
    def imported_modules(self) -> tuple[Any, ...]:
        """The imported modules of device code. The list is always empty, because kernels are not separate modules
        here.
        """
        return ()


_TIMING_OPTIONS = (
    "limit_zero_time_iterations", "cooldown_interval_ms", "repeats_to_cooldown", "cache_flush_bytes",
    "f_preproc",
)  # fmt: skip


def _require_known(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if name not in _TIMING_OPTIONS:
            raise InputError(f"time_evaluator has no option {name}: {nearest(name, _TIMING_OPTIONS)}")
        if value and name in ("cache_flush_bytes", "f_preproc"):
            raise InputError(f"time_evaluator({name}={value!r}): nothing runs between the calls here")
