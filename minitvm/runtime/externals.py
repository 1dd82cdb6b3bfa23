"""Engines for `CallExternal` steps: functions on arrays, which any module may register under a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InputError, nearest

# engine(arrays and scalars in order of the step's arguments, the step's attrs); it writes its outputs in place
Engine = Callable[[list[Any], Mapping[str, Any]], None]
_engines: dict[str, Engine] = {}


def register_engine(name: str, engine: Engine) -> Engine:
    """Make `engine` callable from programs under a name, and return it. Registering a name again replaces the
    engine.
    """
    _engines[name] = engine
    return engine


def engine(name: str) -> Engine:
    """Return the engine registered as `name`. Raises `InputError` if there is none."""
    if name not in _engines:
        raise InputError(
            f"the program calls the engine {name}, which is not registered; {nearest(name, list(_engines))}"
        )
    return _engines[name]
