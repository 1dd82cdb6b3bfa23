"""Magnitudes of tensor expressions, for exact mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.te import nodes as te

from .. import te as tensors
from .exact import MagnitudeCompiler, Peaks


def measure_tensors(program: Sequence[Any], args: Sequence[Any], peaks: Peaks) -> None:
    """Evaluate the tensors of a program on magnitudes, and report the largest to `peaks`."""

    class Compiler(MagnitudeCompiler, tensors.TensorCompiler):
        pass

    Compiler.peaks = peaks
    inputs: Mapping[te.Tensor, np.ndarray] = {
        one: a
        for one, a in zip(program, args, strict=True)
        if isinstance(one, te.Tensor) and isinstance(one.op, te.PlaceholderOp)
    }
    scalars = {
        one: abs(a) if one.dtype.is_float else a for one, a in zip(program, args, strict=True) if isinstance(one, x.Var)
    }
    outputs = [one for one in program if isinstance(one, te.Tensor) and not isinstance(one.op, te.PlaceholderOp)]
    tensors.evaluate(outputs, inputs, scalars, compiler=Compiler)
