"""Store index functions and small expressions as data: a trace can save `lambda i, j: (i, j // 4)` and read it back.

When you pass a function to a primitive, it is called once with variables, and the result is stored. The result can be
printed as Python, and a special parser reads that text (`eval` is never used).
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...arith import simplify
from ...errors import InputError
from ...expr import Expr, Var, as_expr, free_vars, substitute
from ..index_map import IndexMap, checked_indices, index_variables
from ..python_text import evaluated, parsed, python

_COUNT = "indices_taken"
FROM_FUNC = "tir.IndexMap.from_func"


@dataclass(frozen=True, slots=True)
class IndexLambda:
    """A function of index expressions: its parameters, and its results as an expression or lists of expressions.

    `inverse` is the inverse function if the caller's `IndexMap` has one.
    """

    parameters: tuple[Var, ...]
    results: Any
    inverse: IndexLambda | None = None

    def __post_init__(self) -> None:
        # Python folds `0 + 4` when it reads the text, so the results are simplified before they are kept.
        object.__setattr__(self, "results", _expressions(self.results))

    @staticmethod
    def of(function: Callable[..., Any] | IndexMap) -> IndexLambda:
        """Call a function with variables named like its parameters, and return the result as an `IndexLambda`. Raises
        `InputError` if the parameters cannot be determined.

        They cannot be determined for `*indices`, unless the function was wrapped by `counted` and has been called.
        """
        if isinstance(function, IndexLambda):
            return function
        if isinstance(function, IndexMap):
            back = None if function.inverse_index_map is None else IndexLambda.of(function.inverse_index_map)
            return IndexLambda(function.initial_indices, function.final_indices, back)
        variables = index_variables(function, getattr(function, _COUNT, None))
        return IndexLambda(variables, checked_indices(function(*variables)))

    @staticmethod
    def parse(text: str) -> IndexLambda:
        """Parse text such as `lambda i, j: (i + 1, j)` into a function; raise `ValueError` for any other text.

        A function with an inverse is written as `tir.IndexMap.from_func(lambda ..., inverse_index_map=lambda ...)`.
        """
        return IndexLambda._read(parsed(text), text)

    @staticmethod
    def _read(tree: ast.expr, text: str) -> IndexLambda:
        if isinstance(tree, ast.Call) and ast.unparse(tree.func) == FROM_FUNC and len(tree.args) == 1:
            if [keyword.arg for keyword in tree.keywords] == ["inverse_index_map"]:
                there = IndexLambda._read(tree.args[0], text)
                return IndexLambda(there.parameters, there.results, IndexLambda._read(tree.keywords[0].value, text))
        if not isinstance(tree, ast.Lambda) or tree.args.posonlyargs or tree.args.kwonlyargs or tree.args.vararg:
            raise ValueError(f"{text!r} is no function of named indices")
        variables = {argument.arg: Var(argument.arg) for argument in tree.args.args}
        return IndexLambda(tuple(variables.values()), evaluated(tree.body, variables))

    def __call__(self, *indices: Any) -> Any:
        if len(indices) != len(self.parameters):
            raise InputError(f"{self}: wanted {len(self.parameters)} indices, found {len(indices)}")
        values = {v: as_expr(e) for v, e in zip(self.parameters, indices, strict=True)}

        def go(result: Any) -> Any:
            return type(result)(map(go, result)) if isinstance(result, list | tuple) else substitute(result, values)

        return go(self.results)

    def __repr__(self) -> str:
        names = ", ".join(v.name for v in self.parameters)
        results = _text(self.results, self.parameters)
        there = f"lambda {names}: {results}" if names else f"lambda: {results}"
        return there if self.inverse is None else f"{FROM_FUNC}({there}, inverse_index_map={self.inverse})"


def counted(value: Any) -> Any:
    """Wrap a function of `*indices` so that it remembers how many indices it was called with; anything else is returned
    unchanged.
    """
    if not isinstance(value, types.FunctionType):
        return value
    if all(p.kind is not p.VAR_POSITIONAL for p in inspect.signature(value).parameters.values()):
        return value

    @functools.wraps(value)
    def called(*indices: Any) -> Any:
        setattr(called, _COUNT, len(indices))
        return value(*indices)

    return called


def require_text(value: Any) -> None:
    """Raise `InputError` if an argument contains an expression that cannot be written as text in a trace."""
    if isinstance(value, Expr):
        python(value)
    elif isinstance(value, IndexLambda):
        require_text(value.results)
    elif isinstance(value, list | tuple):
        for item in value:
            require_text(item)


def _expressions(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(map(_expressions, result))
    return simplify(as_expr(result))


def _text(result: Any, named: tuple[Var, ...]) -> str:
    if isinstance(result, list):
        return f"[{', '.join(_text(item, named) for item in result)}]"
    if isinstance(result, tuple):
        return f"({', '.join(_text(item, named) for item in result)}{',' if len(result) == 1 else ''})"
    return python(result, named)


def adopted(value: Any, variables: Callable[[], set[Var]]) -> Any:
    """Return an index function that uses the variables of a program for its outer variables; anything else is returned
    unchanged.

    `variables` returns the variables of the program. The text of a function in a trace creates new ones, such as
    `tir.Var("n", "int32")`. Each of them is replaced by the program's variable with the same name and dtype, if there
    is exactly one.
    """
    if isinstance(value, IndexLambda):
        return IndexLambda(value.parameters, _in_program(value.results, value.parameters, variables), value.inverse)
    if not isinstance(value, types.FunctionType):
        return value

    @functools.wraps(value)
    def called(*indices: Any) -> Any:
        return _in_program(value(*indices), indices, variables)

    return called


def _in_program(results: Any, indices: tuple[Any, ...], variables: Callable[[], set[Var]]) -> Any:
    used: set[Var] = set()
    _collect(results, used)
    outside = used.difference(*(free_vars(index) for index in indices if isinstance(index, Expr)))
    if not outside:
        return results
    own = variables()
    places: dict[Var, Expr] = {}
    for var in outside - own:
        same = [v for v in own if v.name == var.name and v.dtype == var.dtype]
        if len(same) == 1:
            places[var] = same[0]

    def go(result: Any) -> Any:
        if isinstance(result, list | tuple):
            return type(result)(map(go, result))
        return substitute(result, places) if isinstance(result, Expr) else result

    return go(results) if places else results


def _collect(results: Any, used: set[Var]) -> None:
    """Add the variables in a function's results, including nested lists of results, to `used`."""
    if isinstance(results, list | tuple):
        for result in results:
            _collect(result, used)
    elif isinstance(results, Expr):
        used.update(free_vars(results))
