"""Generate `methods.pyi`: the types of a `Schedule`'s methods, for editors and type checkers.

The methods come from registrations, which type checkers do not see. `make docs` writes the file, and a test checks that
it is up to date.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Union

from ..nodes import BlockRealize, For
from .handles import BlockRV, ExprRV, LoopRV
from .registry import PRIMITIVES, Primitive

# The results of sampling; the registered functions only have the type of their decision.
_SAMPLED = {
    "sample_categorical": "ExprRV", "sample_perfect_tile": "list[ExprRV]", "sample_partitioned_tile": "list[ExprRV]",
    "sample_compute_location": "LoopRV",
}  # fmt: skip
_HANDLES = {For: (LoopRV,), BlockRealize: (BlockRV, str)}  # a caller may give the name of a block


def method_types() -> str:
    """Return the text of `methods.pyi`: a class `Methods` that has the package's own primitives."""
    classes: set[type] = {BlockRV, ExprRV, LoopRV}
    own = [one for one in PRIMITIVES.values() if one.function.__module__.startswith("minitvm.")]
    methods = [text for one in own for text in _methods(one, classes)]
    modules: dict[str, list[str]] = {}
    for cls in classes:
        modules.setdefault(cls.__module__, []).append(cls.__name__)
    lines = ["# Written by `make docs` from the registered primitives (method_types.py).", ""]
    lines += ["from collections.abc import Callable, Sequence", "from typing import Any", ""]
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items())]
    return "\n".join([*lines, "", "class Methods:", *methods, ""])


def _methods(primitive: Primitive, classes: set[type]) -> list[str]:
    parameters = ["self"]
    keyword_only = False
    for name, parameter in primitive.signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not parameters[-1].startswith("*"):
                parameters.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is inspect.Parameter.empty else " = ..."
        parameters.append(f"{star}{name}: {_text(primitive.hints.get(name, Any), classes, as_parameter=True)}{default}")
    returned = _SAMPLED.get(primitive.name) or _text(primitive.hints.get("return", Any), classes, as_parameter=False)
    names = [primitive.name, *(alias for who, alias in primitive.aka.items() if who == "TVM")]
    summary = inspect.cleandoc(primitive.function.__doc__ or "").splitlines()[0]
    return [f'    def {name}({", ".join(parameters)}) -> {returned}:\n        """{summary}"""' for name in names]


def _text(hint: Any, classes: set[type], as_parameter: bool) -> str:
    """Return a type as text. With `as_parameter`, it is written as the type of a parameter, otherwise as a
    return type.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is type(None):
        return "None"
    if hint is Any or hint is ...:
        return "Any" if hint is Any else "..."
    if hint in _HANDLES:
        handles = _HANDLES[hint] if as_parameter else _HANDLES[hint][:1]
        return " | ".join(cls.__name__ for cls in handles)
    if origin in (Union, types.UnionType):
        return " | ".join(
            dict.fromkeys(part for one in inner for part in _text(one, classes, as_parameter).split(" | "))
        )
    if origin is Callable or origin is typing.get_origin(Callable[..., Any]):
        return "Callable[..., Any]"
    if origin is not None:
        name = (
            "Sequence" if origin is list and as_parameter else origin.__name__
        )  # a list of names is a list of blocks, too
        return f"{name}[{', '.join(_text(one, classes, as_parameter) for one in inner)}]"
    if hint.__module__ != "builtins":
        classes.add(hint)
    return str(hint.__name__)
