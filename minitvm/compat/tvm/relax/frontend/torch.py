"""TVM's `relax.frontend.torch.from_exported_program`."""

from __future__ import annotations

from typing import Any

from .....errors import InputError
from .....frontends import from_torch
from .....frontends.relax import RelaxModule

__all__ = ["from_exported_program"]


def from_exported_program(
    exported_program: Any, *, keep_params_as_input: bool = False, unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> RelaxModule:  # fmt: skip
    """Return the module of a program of `torch.export`. The parameters are constants.

    Raises `InputError` for `keep_params_as_input`, which minitvm does not have.
    """
    del unwrap_unit_return_tuple, no_bind_return_tuple  # a graph returns a flat tuple
    if keep_params_as_input:
        raise InputError("from_exported_program: parameters are constants\n  try:    from_exported_program(program)")
    return RelaxModule("Module", {"main": from_torch(exported_program)})
