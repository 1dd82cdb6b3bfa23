"""Errors of the CUDA simulator for wrong accesses, and the sizes of parameters that it needs to detect them."""

from __future__ import annotations

from typing import Any

from ....errors import ExecutionError


class KernelFault(ExecutionError):
    """A kernel did something undefined. The message describes it and names the thread."""


class Address(int):
    """A word that is the address of a parameter of `nbytes` bytes (None: unknown size)."""

    parameter: str
    nbytes: int | None
    pointers: dict[Any, Any]  # made of it, by the dtype of their elements

    def __new__(cls, address: int, parameter: str, nbytes: int | None) -> Address:
        made = super().__new__(cls, address)
        made.parameter, made.nbytes, made.pointers = parameter, nbytes, {}
        return made
