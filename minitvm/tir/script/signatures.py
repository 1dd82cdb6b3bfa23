"""Parse signatures as TVM v0.27 prints them: symbolic dimensions are strings and are declared after they are used.

A dimension of dtype int64 is declared above the function as `n = TypeVar("n")`. A dimension of another dtype is
declared in the body, for example `m = T.int32()`. The signature then has `A: T.Buffer(("m", n), "float32")`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...expr import DType
from .descriptions import TypeName


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """`n = TypeVar("n")` above a program: declares a symbolic dimension of dtype int64 in the notation of TVM v0.27."""

    name: str


def declared_dimensions(
    node: ast.FunctionDef, captured: Mapping[str, Any], evaluate: Callable[[ast.expr], Any]
) -> Iterator[tuple[str, DType]]:
    """Yield the name and dtype of each dimension that a function, or the text above it, declares."""
    for name, value in captured.items():
        if isinstance(value, OpenDimension):
            yield name, DType("int64")
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = statement.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
            kind = evaluate(value.func)
            if isinstance(kind, TypeName):
                yield statement.targets[0].id, kind.dtype


_DECLARES = ("Buffer", "match_buffer", "alloc_buffer", "sblock_alloc_buffer", "decl_buffer")


def names_of_sizes(node: ast.FunctionDef) -> set[str]:
    """Return the names used in buffer shapes, strides and offsets. A scalar parameter with such a name is a symbolic
    size.
    """
    names: set[str] = set()
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and _last_name(call.func) in _DECLARES:
            for part in [*call.args, *(k.value for k in call.keywords)]:
                for item in ast.walk(part):
                    if isinstance(item, ast.Name):
                        names.add(item.id)
                    elif isinstance(item, ast.Constant) and isinstance(item.value, str):
                        names.add(item.value)
    return names


def _last_name(called: ast.expr) -> str:
    """Return the last part of the name of a called function: "sblock_alloc_buffer" for `T.sblock_alloc_buffer`."""
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def is_buffer(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Call) and _last_name(annotation.func).endswith("Buffer")


def with_names(annotation: ast.expr) -> ast.expr:
    """Replace the strings in `T.Buffer(("m", 4), ...)` by names. TVM prints dimensions as strings if the body declares
    them later.
    """
    if not isinstance(annotation, ast.Call) or not is_buffer(annotation):
        return annotation
    keywords = [
        ast.keyword(k.arg, _Unquoted().visit(k.value)) if k.arg in ("shape", "strides", "elem_offset") else k
        for k in annotation.keywords
    ]
    args = [_Unquoted().visit(annotation.args[0]), *annotation.args[1:]] if annotation.args else []
    return ast.copy_location(ast.Call(annotation.func, args, keywords), annotation)


def quoted_names(annotation: ast.expr) -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it is in the shape) for each string in a buffer annotation. Strings in the shape are
    dimensions.
    """
    if not isinstance(annotation, ast.Call) or not is_buffer(annotation):
        return
    parts = [(part, True) for part in annotation.args[:1]]
    parts += [(k.value, k.arg == "shape") for k in annotation.keywords if k.arg in ("shape", "strides", "elem_offset")]
    for part, in_shape in parts:
        for item in ast.walk(part):
            if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.isidentifier():
                yield item.value, in_shape


class _Unquoted(ast.NodeTransformer):
    """Replaces each string by the expression that it contains."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        parsed = ast.parse(node.value, mode="eval").body
        for part in ast.walk(parsed):
            ast.copy_location(part, node)
        return parsed
