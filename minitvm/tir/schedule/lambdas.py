"""Functions of indices and small expressions as data: what a trace keeps of `lambda i, j: (i, j // 4)`, and reads back.

A function that a caller hands to a primitive is run once, on variables; what comes back is kept. It prints as Python,
and the text is read by a parser of its own, never by `eval`.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...arith import simplify
from ...errors import InputError
from ...expr import Expr, Max, Min, Var, as_expr, binary, substitute
from ..index_map import IndexMap, given, python

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitXor: operator.xor, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
FROM_FUNC = "tir.IndexMap.from_func"
_FUNCTIONS: dict[str, type] = {"min": Min, "max": Max, "T.min": Min, "T.max": Max, "tir.min": Min, "tir.max": Max}


@dataclass(frozen=True, slots=True)
class IndexLambda:
    """A function of index expressions, as its parameters and what it gives for them: expressions, lists of them.

    `inverse` is the way back, where the caller's `IndexMap` came with one.
    """

    parameters: tuple[Var, ...]
    results: Any
    inverse: IndexLambda | None = None

    def __post_init__(self) -> None:
        # Python folds `0 + 4` when it reads the text, so what is kept is simplified in the first place.
        object.__setattr__(self, "results", _expressions(self.results))

    @staticmethod
    def of(function: Callable[..., Any] | IndexMap) -> IndexLambda:
        """Run a function with named parameters on variables of these names; raises `InputError` for `*indices`."""
        if isinstance(function, IndexLambda):
            return function
        if isinstance(function, IndexMap):
            back = None if function.inverse_index_map is None else IndexLambda.of(function.inverse_index_map)
            return IndexLambda(function.initial_indices, function.final_indices, back)
        named = inspect.signature(function).parameters.values()
        for parameter in named:
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                raise InputError(f"a function of indices names them one by one; found {parameter}")
        variables = tuple(Var(parameter.name) for parameter in named)
        return IndexLambda(variables, given(function(*variables)))

    @staticmethod
    def parse(text: str) -> IndexLambda:
        """The function of a text `lambda i, j: (i + 1, j)`; raises `ValueError` where it is anything else.

        With its inverse it is `tir.IndexMap.from_func(lambda ..., inverse_index_map=lambda ...)`.
        """
        return IndexLambda._read(_parsed(text), text)

    @staticmethod
    def _read(tree: ast.expr, text: str) -> IndexLambda:
        if isinstance(tree, ast.Call) and ast.unparse(tree.func) == FROM_FUNC and len(tree.args) == 1:
            if [keyword.arg for keyword in tree.keywords] == ["inverse_index_map"]:
                there = IndexLambda._read(tree.args[0], text)
                return IndexLambda(there.parameters, there.results, IndexLambda._read(tree.keywords[0].value, text))
        if not isinstance(tree, ast.Lambda) or tree.args.posonlyargs or tree.args.kwonlyargs or tree.args.vararg:
            raise ValueError(f"{text!r} is no function of named indices")
        variables = {argument.arg: Var(argument.arg) for argument in tree.args.args}
        return IndexLambda(tuple(variables.values()), _evaluated(tree.body, variables))

    def __call__(self, *indices: Any) -> Any:
        if len(indices) != len(self.parameters):
            raise InputError(f"{self}: wanted {len(self.parameters)} indices, found {len(indices)}")
        values = {v: as_expr(e) for v, e in zip(self.parameters, indices)}

        def go(result: Any) -> Any:
            return type(result)(map(go, result)) if isinstance(result, list | tuple) else substitute(result, values)

        return go(self.results)

    def __repr__(self) -> str:
        names = ", ".join(v.name for v in self.parameters)
        there = f"lambda {names}: {_text(self.results)}" if names else f"lambda: {_text(self.results)}"
        return there if self.inverse is None else f"{FROM_FUNC}({there}, inverse_index_map={self.inverse})"


def parse_expression(text: str, names: Mapping[str, Expr]) -> Expr:
    """The expression of a text over known names; raises `ValueError` where it is anything else."""
    value = _evaluated(_parsed(text), names)
    if isinstance(value, list | tuple):
        raise ValueError(f"{text!r} is no single expression")
    return as_expr(value)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, UnicodeError) as error:
        raise ValueError(f"{text!r} is no Python expression") from error


def _evaluated(tree: ast.expr, names: Mapping[str, Expr]) -> Any:
    if isinstance(tree, ast.List | ast.Tuple):
        items = [_evaluated(item, names) for item in tree.elts]
        return items if isinstance(tree, ast.List) else tuple(items)
    if isinstance(tree, ast.Name) and tree.id in names:
        return names[tree.id]
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool | int | float):
        return as_expr(tree.value)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        if isinstance(tree.operand, ast.Constant) and isinstance(tree.operand.value, int | float):
            return as_expr(-tree.operand.value)
        return -_evaluated(tree.operand, names)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](_evaluated(tree.left, names), _evaluated(tree.right, names))
    if isinstance(tree, ast.Call) and len(tree.args) == 2 and not tree.keywords:
        made = _FUNCTIONS.get(ast.unparse(tree.func))
        if made is not None:
            return binary(made, *(as_expr(_evaluated(a, names)) for a in tree.args))
    raise ValueError(f"{ast.unparse(tree)!r} means nothing in an index expression")


def _expressions(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(map(_expressions, result))
    return simplify(as_expr(result))


def _text(result: Any) -> str:
    if isinstance(result, list):
        return f"[{', '.join(map(_text, result))}]"
    if isinstance(result, tuple):
        return f"({', '.join(map(_text, result))}{',' if len(result) == 1 else ''})"
    return python(result)
