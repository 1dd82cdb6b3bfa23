"""What the simulator of CUDA knows of a kernel's parameters, and what it raises for a wrong access."""

from __future__ import annotations

from typing import Any

from ....errors import ExecutionError


class KernelFault(ExecutionError):
    """A kernel did what no kernel may: the text says what, and which thread did it."""


class Address(int):
    """A word that is the address of a parameter of `nbytes` bytes (None: unknown)."""

    parameter: str
    nbytes: int | None
    pointers: dict[Any, Any]  # made of it, by the dtype of their elements

    def __new__(cls, address: int, parameter: str, nbytes: int | None) -> Address:
        made = super().__new__(cls, address)
        made.parameter, made.nbytes, made.pointers = parameter, nbytes, {}
        return made
