"""Find inputs on which a program computes without rounding, in any order of its additions. See `domains.exact`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitvm.tir import nodes as t

from ...domains.analysis import prepared
from ...domains.exact import MagnitudeKernels, MagnitudeStatements, Peaks, exact_inputs, with_peaks
from ...domains.exact_te import measure_tensors
from ...meaning.runner import Run
from ..programs import Program
from .arguments import random_inputs


def exact_arguments(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None) -> list[Any]:
    """Return arguments on which a program computes without rounding; raises `Unsupported` if there are none."""
    return exact_inputs(
        lambda magnitude: random_inputs(program, seed, sizes, magnitude),
        lambda inputs, peaks: measure(program, inputs, peaks, sizes),
    )


def measure(program: Program, args: Sequence[Any], peaks: Peaks, sizes: Mapping[str, int] | None = None) -> None:
    """Run a program on magnitudes, and report the largest to `peaks`."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        measure_tensors(program, args, peaks)
        return
    compilers = with_peaks(MagnitudeStatements, peaks), with_peaks(MagnitudeKernels, peaks)
    refusal = "exact mode: the magnitudes of this program cannot be computed"
    prepared(Run, program, args, sizes, compilers, refusal).start("fast")
