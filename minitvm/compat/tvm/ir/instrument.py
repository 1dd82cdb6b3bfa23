"""TVM's `tvm.ir.instrument`: what a `PassContext` tells of the passes that run; see `tir.passes`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ....absent import absent

__all__ = ["PassInstrument", "PassPrintingInstrument", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll",
           "pass_instrument"]  # fmt: skip


class PassInstrument:
    """Base of instruments: override what you want to hear."""

    def enter_pass_ctx(self) -> None:
        """The context begins."""

    def exit_pass_ctx(self) -> None:
        """The context ends."""

    def should_run(self, mod: Any, info: Any) -> bool:
        """Whether a pass that is called by itself shall run."""
        return True

    def run_before_pass(self, mod: Any, info: Any) -> None:
        """A pass is about to run on `mod`."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        """A pass has made `mod`."""


def pass_instrument(cls: Any = None) -> Any:
    """Decorator: a class with some of the methods of `PassInstrument` as an instrument."""
    if cls is None:
        return pass_instrument
    return type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__})


class PrintBeforeAll(PassInstrument):
    """Print the program before each pass."""

    def run_before_pass(self, mod: Any, info: Any) -> None:
        _show("before", mod, info)


class PrintAfterAll(PassInstrument):
    """Print the program after each pass."""

    def run_after_pass(self, mod: Any, info: Any) -> None:
        _show("after", mod, info)


class PassPrintingInstrument(PassInstrument):
    """Print the program before and after the passes of these names."""

    def __init__(self, print_before_pass_names: Any = (), print_after_pass_names: Any = ()) -> None:
        self.before, self.after = tuple(print_before_pass_names), tuple(print_after_pass_names)

    def run_before_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.before:
            _show("before", mod, info)

    def run_after_pass(self, mod: Any, info: Any) -> None:
        if info.name in self.after:
            _show("after", mod, info)


class PassTimingInstrument(PassInstrument):
    """Seconds of each pass; `render()` is a table, the slowest first."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = {}
        self._started: list[float] = []

    def enter_pass_ctx(self) -> None:
        self.seconds.clear()

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self._started.append(self.clock())

    def run_after_pass(self, mod: Any, info: Any) -> None:
        self.seconds[info.name] = self.seconds.get(info.name, 0.0) + self.clock() - self._started.pop()

    def render(self) -> str:
        """One line a pass, with milliseconds."""
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        return "\n".join(f"{name}: {seconds * 1e3:.3f} ms" for name, seconds in rows)


def _show(when: str, mod: Any, info: Any) -> None:
    script = getattr(mod, "script", None)
    print(f"# {when} {info.name}\n{script() if script is not None else mod}\n")


def __getattr__(name: str) -> Any:
    raise absent("minitvm.ir.instrument", name, __all__)
