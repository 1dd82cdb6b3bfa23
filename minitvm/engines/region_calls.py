"""Run regions: prepare each one once, call its engine, and fall back to our kernels.

Our kernels compute a region instead of its engine

    if the engine is missing, or raises an error while it is prepared or called: from then on,
    if a result contains NaN where ours does not: in this call, and from then on. Before the first call, floating-point
    results are filled with NaN, so that this finds elements that the engine does not write, too.

Each of these gives one warning. Our kernels for a region are compiled when they are first needed, because they usually
never are: a network for an engine compiles as fast as the rest of it. To check a NaN, they are needed too.
"""

from __future__ import annotations

import functools
import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..executable import CallExternal, TensorSpec
from ..expr.dtypes import is_floating
from .engine import Prepared, Region, find

_forks = 0  # between the process that imported this module and this one
_calls: weakref.WeakSet[RegionCall] = weakref.WeakSet()
_abandoned: list[Any] = []  # functions of the parent process


def _after_fork() -> None:
    """Count the fork, and keep what the parent prepared: to destroy it, a library would wait for its threads."""
    global _forks
    _forks += 1
    _abandoned.extend(call.run for call in list(_calls))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def usable_threads(threads: int) -> int:
    """Return how many threads an engine may use: one in a forked child process.

    `os.fork` copies only the thread that calls it, so the threads of a library do not exist in the child, and the
    library would wait for them for ever.
    """
    return 1 if _forks else threads


def prepared(
    step: CallExternal, constants: Sequence[np.ndarray[Any, Any] | None], threads: int, target: str
) -> Callable[[list[Any]], None]:
    """Return the function that runs a step. It is called on the step's arrays without the constants.

    `constants` are the arrays of the step's arguments, with None for those that are no constants.
    """
    weights = {position: constants[position] for position in step.attrs["weights"]}
    return RegionCall(step, weights, threads, target)


class RegionCall:
    """A region that is ready to run. `reason` is why our kernels compute it, or "" if its engine does."""

    def __init__(self, step: CallExternal, weights: dict[int, Any], threads: int, target: str) -> None:
        attrs = step.attrs
        specs = list(zip(step.specs, step.access, strict=True))
        reads = [spec for spec, mode in specs if spec is not None and "w" not in mode]
        writes = [spec for spec, mode in specs if spec is not None and "w" in mode]
        self.workspace = bool(attrs.get("workspace"))
        outputs = writes[:-1] if self.workspace else writes
        names = attrs["names"]
        self.constants = {names[position]: array for position, array in weights.items() if array is not None}
        arguments = [_named(spec, name) for spec, name in zip(reads, names, strict=True)]
        inputs = [spec for position, spec in enumerate(arguments) if position not in weights]
        rooms = tuple(attrs.get("rooms", ()))
        self.region = Region(step.operator, tuple(inputs), tuple(outputs), attrs["code"], attrs["structure"], rooms)
        self.floats = [number for number, spec in enumerate(outputs) if is_floating(spec.dtype.numpy)]
        self.engine, self.threads, self.target, self.reason = step.engine, threads, target, ""
        self.is_symbolic = self.region.is_symbolic
        self.is_first, self.forks = True, _forks
        self.run: Prepared | None = self._prepared()
        _calls.add(self)

    def _prepared(self) -> Prepared | None:
        try:
            engine = find(self.engine)
            missing = engine.missing()
            if not missing:
                run = engine.prepare(self.region, self.constants, usable_threads(self.threads))
                if callable(run):
                    return run
                missing = f"prepare returned {type(run).__name__}, wanted a function"
        except Exception as error:
            missing = text_of(error)
        self.give_up(missing)
        return None

    def give_up(self, reason: str) -> None:
        """Let our kernels compute the region from now on, and warn."""
        self.reason, self.run = reason, None
        warnings.warn(
            f"{self.region.name}: {self.engine}: {reason}; minitvm's kernels compute the region",
            RuntimeWarning,
            stacklevel=2,
        )

    def __call__(self, arrays: list[Any]) -> None:
        """Compute the region. `arrays` are its inputs, its outputs and its workspace."""
        count = len(self.region.inputs)
        end = len(arrays) - self.workspace
        inputs, outputs = arrays[:count], arrays[count:end]
        if self.run is not None and self.forks != _forks:
            self.run, self.forks = self._prepared(), _forks
        empty = self.is_symbolic and any(array.size == 0 for array in (*inputs, *outputs))
        if self.run is not None and not empty:
            if self.is_first:
                self.is_first = False
                for number in self.floats:
                    outputs[number].fill(np.nan)
            try:
                self.run(inputs, outputs, arrays[end] if self.workspace else None)
            except Exception as error:
                self.give_up(text_of(error))
            else:
                if not any(np.isnan(outputs[number]).any() for number in self.floats):
                    return
        results = self.ours(*inputs)
        own = list(results) if isinstance(results, tuple) else [results]
        if self.run is not None and not empty:
            wrong = sum(int((is_nan(a) & ~is_nan(b)).sum()) for a, b in zip(outputs, own, strict=True))
            if not wrong:
                return
            self.give_up(f"it returned NaN, or wrote nothing, for {wrong} elements that are numbers")
        for array, result in zip(outputs, own, strict=True):
            array[...] = result

    @functools.cached_property
    def ours(self) -> Any:
        """The region compiled to our kernels."""
        from ..build import build

        target = self.target if self.target.split()[0] == "cpu" else "cpu"
        return build(self.region.graph(self.constants), target, threads=self.threads)


def is_nan(array: np.ndarray[Any, Any]) -> Any:
    """Return which elements are NaN. Integers never are."""
    return np.isnan(array) if is_floating(array.dtype) else np.zeros(array.shape, bool)


def text_of(error: Exception) -> str:
    """Return an error of a library as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


def _named(spec: TensorSpec, name: str) -> TensorSpec:
    return TensorSpec(name, spec.dtype, spec.shape)
