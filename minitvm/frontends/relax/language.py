"""The language that `R` refers to: `from minitvm.script import relax as R`.

A function under `@R.function` is parsed, not run. Only the types in its annotations are evaluated by Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, nearest
from ...tir.script.source import GRAPH_FUNCTION, MODULE_LANGUAGE, source_of, visible_names


@dataclass(frozen=True, slots=True)
class Tensor:
    """The type of a tensor. In a dimension, a string is an expression over symbolic sizes."""

    shape: Sequence[Any] | None = None
    dtype: str = "float32"
    vdevice: Any = None
    ndim: int = -1


@dataclass(frozen=True, slots=True, init=False)
class Tuple:
    """The type of a tuple."""

    fields: tuple[Any, ...]

    def __init__(self, *fields: Any) -> None:
        object.__setattr__(self, "fields", fields)


class Object:
    """The type of anything else. A graph has no such values."""


def function(func: Any = None, *, private: bool = False, pure: bool = True, check_well_formed: bool = True) -> Any:
    """`@R.function`: read a Python function as a graph, without running it. In a class, `@I.ir_module` reads it."""
    del private, pure, check_well_formed  # TVM's options, which do not change the meaning
    if func is None:
        return function
    captured = visible_names(func, sys._getframe(1))
    parent, _, _ = func.__qualname__.rpartition(".")
    if parent and not parent.endswith("<locals>"):
        setattr(func, GRAPH_FUNCTION, captured)
        return func
    from .parser import RelaxParser

    source, node = source_of(func)
    return RelaxParser(source, {**captured, "I": MODULE_LANGUAGE}).function(node)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"R has no name {name}")
    from .operators import names

    of_language = [*names(), "Tensor", "Tuple", "Object", "function"]
    if name in of_language or any(other.startswith(f"{name}.") for other in of_language):
        raise InputError(f"R.{name} is for the text of an R.function, which is not run")
    raise AttributeError(f"R has no name {name}: {nearest(name, of_language)}")
