"""Several compiled functions of one module, by name: `rt["add"](a, b, c)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import InputError, nearest
from .function import Function


class Functions(Mapping[str, Function]):
    """The result of `build` for a module of several functions."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = dict(functions)

    def __getitem__(self, name: str) -> Function:
        """The function of that name; raises `InputError` that lists the existing names."""
        if name not in self._functions:
            raise InputError(f"the module has no function {name!r}; {nearest(str(name), list(self._functions))}")
        return self._functions[name]

    get_function = __getitem__

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __repr__(self) -> str:
        return f"Functions({', '.join(f.signature for f in self._functions.values())})"
