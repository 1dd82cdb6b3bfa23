"""Python functions that programs call by name: `@minitvm.register_func("env.linear")` (TVM's name).

A node `call_packed` of a graph calls such a function with the arrays of its inputs, and then with those of its results,
which the function must fill. For example:

    @minitvm.register_func("env.linear")
    def linear(x, w, b, out):
        np.add(x @ w.T, b, out=out)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import InputError, nearest, report

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_func(name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a Python function under a name, and return it; without a function, return the decorator for it.

    Raises `InputError` if the name is taken, unless `override` is set.
    """
    if callable(name):
        return register_func(name.__name__, name, override)
    if f is None:
        return lambda function: register_func(name, function, override)
    if name in _FUNCTIONS and not override:
        raise InputError(f"a function {name} is registered already\n  try:    register_func({name!r}, override=True)")
    _FUNCTIONS[name] = f
    return f


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """Return the function registered under a name. If there is none, raise `InputError`, or return None if
    `allow_missing` is set.
    """
    if name in _FUNCTIONS or allow_missing:
        return _FUNCTIONS.get(name)
    raise InputError(
        report(
            f"no Python function {name} is registered; {nearest(name, list(_FUNCTIONS))}",
            tries=[f"@minitvm.register_func({name!r}), above a function of the inputs and then the results"],
        )
    )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a function is registered; register it under its own name if it is not."""
    for name, other in _FUNCTIONS.items():
        if other is function:
            return name
    base = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    name, count = base, 0
    while name in _FUNCTIONS:
        count += 1
        name = f"{base}_{count}"
    register_func(name, function)
    return name
