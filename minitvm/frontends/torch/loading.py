"""Load a program, its file, or a module with example inputs, as a program of ATen's operators."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError, ModelError, missing_extra
from .registry import find

SUFFIX = ".pt2"


def load(program: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> Any:
    """Return the decomposed `ExportedProgram`. Raises the same errors as `from_torch`."""
    torch = torch_package()
    if isinstance(program, torch.nn.Module):
        program = _exported(torch, program, args, kwargs, dynamic_shapes)
    elif args is not None or kwargs is not None or dynamic_shapes is not None:
        raise InputError("from_torch: args, kwargs and dynamic_shapes go with an nn.Module, which they export")
    if isinstance(program, str | os.PathLike):
        program = _read(torch, Path(program))
    if not isinstance(program, torch.export.ExportedProgram):
        raise InputError(
            f"from_torch takes a torch.export.ExportedProgram, the path of one, or an nn.Module with example inputs; "
            f"found {_kind(program)}"
        )
    return decomposed(program)


def torch_package() -> Any:
    """Return the package torch with the modules that are used here. Raises `MissingExtra` if it is not installed."""
    try:
        import torch
        import torch.export
    except ImportError:
        raise missing_extra("torch", "torch") from None
    return torch


def decomposed(program: Any) -> Any:
    """Return the program in ATen's operators: those with a converter, and the operators into which others decompose."""
    table = decompositions()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about torch
            return program.run_decompositions(table)
    except Exception as error:  # torch raises errors of many kinds, most of them its own
        raise ModelError(f"torch.export cannot decompose the program: {headline(error)}") from error


def decompositions() -> Any:
    """Return PyTorch's table of decompositions, without the operators that have a converter."""
    from torch.export import default_decompositions

    table = default_decompositions()
    for target in [t for t in table if find(str(t)) is not None]:
        table.pop(target)
    return table


def _exported(
    torch: Any, module: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> Any:
    if args is None and not kwargs:
        raise InputError(
            f"from_torch: {_kind(module)} is an nn.Module, which is exported on example inputs\n"
            "  try:    from_torch(module, (x,))"
        )
    if isinstance(args, torch.Tensor):
        raise InputError("from_torch: args is a tuple of inputs, found one tensor\n  try:    from_torch(module, (x,))")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(module, tuple(args or ()), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    except Exception as error:  # torch raises errors of many kinds, most of them its own
        raise ModelError(f"torch.export refuses {_kind(module)}: {headline(error)}") from error


def _read(torch: Any, path: Path) -> Any:
    if not path.exists():
        raise ModelError(f"{path}: no such file")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not a program of torch.export")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(path)
    except Exception as error:  # zip's, pickle's, torch's own
        raise ModelError(f"{path} is not a program of torch.export, or a damaged one ({headline(error)})") from error


def headline(error: Exception) -> str:
    """Return the first part of an error message of torch, without its advice about torch."""
    if type(error).__name__ == "DataDependentOutputException":
        return f"{error} returns a Python value that depends on the contents of a tensor"
    lines = [line.strip() for line in str(error).split("\n\n")[0].splitlines() if line.strip()]
    return "\n    ".join(lines[:4]) if lines else type(error).__name__


def _kind(value: Any) -> str:
    return type(value).__name__
