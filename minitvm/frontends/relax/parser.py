"""Read the functions of Relax as graphs."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...errors import InputError, MinitvmError, ParseError, UnsupportedOperator, nearest
from ...expr import DType, Expr, SizeVar, Var, replace
from ...graph import Graph, GraphBuilder, Value
from ...tir.nodes import PrimFunc
from ...tir.script.evaluate import Source
from ...topi.shapes import differ, simple
from . import forms, states
from .language import Tensor, Tuple
from .operators import READ, names, our_attrs

_ARITHMETIC: dict[type, tuple[Callable[[Any, Any], Any], str]] = {
    ast.Add: (operator.add, "add"), ast.Sub: (operator.sub, "subtract"), ast.Mult: (operator.mul, "multiply"),
    ast.Div: (operator.truediv, "divide"), ast.FloorDiv: (operator.floordiv, "floor_divide"),
    ast.Mod: (operator.mod, "floor_mod"), ast.Pow: (operator.pow, "power"),
}  # fmt: skip


class RelaxParser:
    """Reads one function. `functions` are the loop programs of its module, and `others` the texts of the other graphs,
    whose calls are inlined.
    """

    def __init__(
        self,
        source: Source,
        captured: Mapping[str, Any],
        module: str = "",
        functions: Mapping[str, PrimFunc] | None = None,
        others: Mapping[str, ast.stmt] | None = None,
    ) -> None:
        self.source, self.captured, self.module = source, captured, module
        self.functions, self.others = dict(functions or {}), dict(others or {})
        self.env: dict[str, Any] = {}
        self.unbound: set[Var] = set()
        self.b = GraphBuilder()
        self.target: str | None = None
        self.within: tuple[str, ...] = ()

    def function(self, node: ast.stmt) -> Graph:
        """Return the graph of a function."""
        if not isinstance(node, ast.FunctionDef):
            raise self.source.error(node, "@R.function must be above a function")
        self.b = GraphBuilder(node.name)
        self.within = (node.name,)
        parameters = node.args.args
        for parameter in parameters:
            if parameter.annotation is None:
                raise self.source.error(parameter, f"{parameter.arg} has no type", wanted='R.Tensor((4,), "float32")')
        for parameter in parameters:
            self.declare(parameter.annotation)
        for parameter in parameters:
            shape, dtype = self.tensor_type(parameter.annotation)
            add_input = partial(self.b.input, parameter.arg, shape, dtype)
            self.env[parameter.arg] = self.safely(parameter, add_input)
        self.unbound.clear()
        result = self.body(node.body)
        if result is None:
            raise self.source.error(node, f"{node.name} returns nothing", wanted="return a tensor, or a tuple")
        attrs = self.env.pop(forms.ATTRIBUTES, {})
        self.check_returned(node.returns, result)
        outputs = self.tensors(node, result)
        graph = self.safely(node, lambda: self.b.build(outputs))
        return replace(graph, states=self.safely(node, lambda: states.read(attrs, graph)))

    # --- statements

    def body(self, statements: Sequence[ast.stmt]) -> Any:
        """Read statements in order, and return the value of the first `return`, or None."""
        for statement in statements:
            if isinstance(statement, ast.Return):
                if statement.value is None:
                    raise self.source.error(statement, "a function returns tensors")
                return self.expr(statement.value)
            if isinstance(statement, ast.With):
                self.dataflow(statement)
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self.assign(statement.targets[0], statement.value)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self.assign(statement.target, statement.value, statement.annotation)
            elif isinstance(statement, ast.Expr):
                self.alone(statement.value)
            elif not isinstance(statement, ast.Pass):
                what = self.source.word(statement)
                raise self.source.error(
                    statement, f"a graph has no statement `{what}`", wanted="assignments, dataflow blocks, and a return"
                )
        return None

    def dataflow(self, statement: ast.With) -> None:
        for item in statement.items:
            if self.path(getattr(item.context_expr, "func", item.context_expr)) != "R.dataflow":
                raise self.source.error(item.context_expr, "a graph has only blocks `with R.dataflow():`")
        if self.body(statement.body) is not None:
            raise self.source.error(statement, "a return inside of a dataflow block")

    def alone(self, node: ast.expr) -> None:
        """Read an expression that is a statement."""
        called = self.path(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return
        if called == "R.func_attr" and isinstance(node, ast.Call):
            self.env[forms.ATTRIBUTES] = self.expr(node.args[0]) if node.args else {}
        elif called != "R.output":
            raise self.source.error(node, "a value that is not used")

    def assign(self, target: ast.expr, value: ast.expr, annotation: ast.expr | None = None) -> None:
        if isinstance(target, ast.Tuple):
            self.unpack(target, value)
            return
        if not isinstance(target, ast.Name):
            raise self.source.error(target, "an assignment needs a name")
        if self.is_size(value):
            if target.id not in self.env:
                self.env[target.id] = SizeVar(target.id)
                self.unbound.add(self.env[target.id])
            return
        if isinstance(value, ast.Name) and value.id == self.module and value.id not in self.env:
            self.env[target.id] = forms.Global("")
            return
        self.target = target.id
        result = self.expr(value)
        self.target = None
        if annotation is not None and self.path(getattr(annotation, "func", annotation)) == "R.Tensor":
            self.check_type(annotation, result)
        self.env[target.id] = result

    def unpack(self, target: ast.Tuple, value: ast.expr) -> None:
        parts = value.elts if isinstance(value, ast.Tuple) else None
        if parts is not None and len(parts) == len(target.elts):
            for name, part in zip(target.elts, parts, strict=True):
                self.assign(name, part)
            return
        results = self.expr(value)
        if not isinstance(results, tuple) or len(results) != len(target.elts):
            raise self.source.error(target, "a tuple of another length", found=str(results))
        for name, result in zip(target.elts, results, strict=True):
            if not isinstance(name, ast.Name):
                raise self.source.error(name, "an assignment needs names")
            self.env[name.id] = result

    def is_size(self, node: ast.expr) -> bool:
        """Return whether an expression declares a size: `T.int64()`."""
        return isinstance(node, ast.Call) and not node.args and self.path(node.func).startswith(("T.int", "T.uint"))

    def check_type(self, annotation: ast.expr, result: Any) -> None:
        shape, dtype = self.tensor_type(annotation, open_shape=True)
        if not isinstance(result, Value) or (shape is None and dtype == result.dtype):
            return
        same = shape is None or (len(shape) == result.ndim and not any(map(differ, shape, result.shape)))
        if not same or dtype != result.dtype:
            raise self.source.error(annotation, "the value has another type", wanted=result.type,
                                    found=ast.unparse(annotation))  # fmt: skip

    def check_returned(self, annotation: ast.expr | None, result: Any) -> None:
        """Raise `ParseError` unless a function returns the type that it declares, if it declares one."""
        kind = None if annotation is None else self.expr(annotation)
        if annotation is not None and isinstance(kind, Tensor | Tuple) and not self.has_type(kind, annotation, result):
            raise self.source.error(annotation, "the function returns another type", wanted=_type_text(result),
                                    found=ast.unparse(annotation))  # fmt: skip

    def has_type(self, kind: Any, annotation: ast.expr, result: Any) -> bool:
        """Return whether a value may have a type. A type without a shape, and any other type than those of tensors and
        tuples, says nothing about it.
        """
        if isinstance(kind, Tuple):
            return isinstance(result, tuple) and len(result) == len(kind.fields) and all(
                self.has_type(field, annotation, part) for field, part in zip(kind.fields, result, strict=True)
            )  # fmt: skip
        if not isinstance(kind, Tensor):
            return True
        if not isinstance(result, Value) or DType(kind.dtype or "float32") != result.dtype:
            return False
        if kind.shape is None:
            return kind.ndim in (-1, result.ndim)
        shape = [self.dim(d, annotation) for d in kind.shape]
        return len(shape) == result.ndim and not any(map(_apart, shape, result.shape))

    # --- types and sizes

    def declare(self, annotation: ast.expr | None) -> None:
        """Declare the sizes that are dimensions of a parameter: the names in its shape that are strings."""
        for part in ast.walk(annotation) if annotation is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
                in_shape = part.value not in _DTYPES
                if in_shape:
                    self.env.setdefault(part.value, SizeVar(part.value))
            elif isinstance(part, ast.Name) and isinstance(self.captured.get(part.id), forms.OPEN_DIMENSION):
                self.env.setdefault(part.id, SizeVar(part.id))

    def tensor_type(self, node: ast.expr | None, open_shape: bool = False) -> tuple[Any, DType]:
        """Return the (shape, dtype) of a type such as `R.Tensor((n, 4), dtype="float32")`."""
        kind = self.expr(node) if node is not None else None
        if not isinstance(kind, Tensor) or (kind.shape is None and not open_shape):
            raise self.source.error(node or ast.Constant(0), "a graph needs the shape of each tensor",
                                    wanted='R.Tensor((n, 4), dtype="float32")',
                                    found=ast.unparse(node) if node else None)  # fmt: skip
        shape = None if kind.shape is None else tuple(self.dim(d, node) for d in kind.shape)
        return shape, DType(kind.dtype or "float32")

    def dim(self, value: Any, node: ast.expr | None) -> Any:
        """Return a dimension; a string is an expression over sizes."""
        if isinstance(value, str):
            value = self.expr(ast.parse(value, mode="eval").body)
        if isinstance(value, bool) or not isinstance(value, int | Expr):
            raise self.source.error(node or ast.Constant(0), f"a dimension is an integer or a size, found {value!r}")
        return simple(value)

    # --- expressions

    def expr(self, node: ast.expr) -> Any:
        """Return the value of an expression: a tensor, a tuple, a size, a type, or a Python value."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(map(self.expr, node.elts))
        if isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            return {self.expr(key): self.expr(value) for key, value in zip(keys, node.values, strict=True)}
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Subscript):
            return self.item(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.expr(node.operand)
            return self.op(node, "negative", value) if isinstance(value, Value) else -value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self.arithmetic(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise self.source.error(node, f"{ast.unparse(node)} is no expression of a graph")

    def name(self, node: ast.Name) -> Any:
        if node.id in self.env:
            return self.env[node.id]
        if node.id == self.module or node.id in self.functions or node.id in self.others:
            return forms.Global("" if node.id == self.module else node.id)
        if node.id in ("Tensor", "Tuple"):
            return node.id
        if node.id not in self.captured:
            names = [*self.env, *self.functions]
            raise self.source.error(node, f"{node.id} is not defined; {nearest(node.id, names)}")
        value = self.captured[node.id]
        return SizeVar(node.id) if isinstance(value, forms.OPEN_DIMENSION) else value

    def attribute(self, node: ast.Attribute) -> Any:
        path = self.path(node)
        if path.startswith(("R.", "T.", "I.")):
            return path
        owner = self.expr(node.value)
        if isinstance(owner, forms.Global):
            return forms.Global(node.attr)
        return getattr(owner, node.attr)

    def item(self, node: ast.Subscript) -> Any:
        if self.path(node.value).startswith("metadata"):
            raise self.source.error(
                node, "the text does not contain this constant", tries=("parameters instead of constants",)
            )
        owner, index = self.expr(node.value), self.expr(node.slice)
        if not isinstance(owner, tuple) or not isinstance(index, int) or not -len(owner) <= index < len(owner):
            raise self.source.error(node, "only a tuple has items", found=ast.unparse(node))
        return owner[index]

    def arithmetic(self, node: ast.BinOp) -> Any:
        target, self.target = self.target, None
        a, b = self.expr(node.left), self.expr(node.right)
        self.target = target
        function, ours = _ARITHMETIC[type(node.op)]
        if isinstance(a, Value) or isinstance(b, Value):
            if not isinstance(a, Value):
                a = self.b.constant(np.asarray(a, b.dtype.numpy))
            return self.op(node, ours, a, b)
        return function(a, b)

    def path(self, node: ast.AST) -> str:
        """Return a dotted name such as "R.nn.relu", or "". The names `tvm.script.relax` and `relax` also mean R."""
        if isinstance(node, ast.Name):
            return {"relax": "R"}.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.path(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    # --- calls

    def call(self, node: ast.Call) -> Any:
        path = self.path(node.func)
        if path in ("Tensor", "Tuple", "Shape"):
            path = f"R.{path}"
        if path.startswith("T."):
            return self.scalar(node, path)
        if not path.startswith("R."):
            if path == "float" and len(node.args) == 1:
                return float(self.expr(node.args[0]))
            return self.call_global(node)
        name = path[2:]
        target, self.target = self.target, None  # the name of this result, and not of an operand
        args = list(map(self.expr, node.args))
        more = {keyword.arg: self.expr(keyword.value) for keyword in node.keywords if keyword.arg}
        self.target = target
        if name in forms.TYPES:
            return Tensor(*args, **more) if name == "Tensor" else Tuple(*args)
        if name in forms.FORMS:
            return self.safely(node, lambda: forms.FORMS[name](self, node, *args, **more))
        if name not in READ:
            raise self.source.error(node.func, f"R.{name} is not supported; {nearest(name, names())}")
        return self.operator(node, name, args, more)

    def operator(self, node: ast.Call, name: str, args: list[Any], more: dict[str, Any]) -> Any:
        row = READ[name]
        if len(args) > len(row.parameters) or not set(more) <= set(row.parameters):
            unknown = sorted(set(more) - set(row.parameters))
            what = f"R.{name} has no parameter {unknown[0]}" if unknown else f"R.{name}: too many arguments"
            raise self.source.error(node, what, wanted=f"R.{name}({', '.join(row.parameters)})")
        arguments = {**dict(zip(row.parameters, args, strict=False)), **more}
        absent = [tensor for tensor in row.tensors if tensor not in arguments]
        if absent:
            raise self.source.error(
                node, f"R.{name} needs {absent[0]}", wanted=f"R.{name}({', '.join(row.parameters)})"
            )
        tensors = [arguments.pop(tensor) for tensor in row.tensors]
        if row.tensors == ("*",):
            tensors = list(tensors[0]) if isinstance(tensors[0], tuple) else tensors
        try:
            attrs = our_attrs(row, arguments)
        except ValueError as error:
            raise self.source.error(node, f"R.{name}: {error}") from None
        return self.op(node, row.ours, *tensors, **attrs)

    def op(self, node: ast.AST, ours: str, *tensors: Any, **attrs: Any) -> Any:
        """Add an operator. An error is shown at its place in the text."""
        for tensor in tensors:
            if not isinstance(tensor, Value | np.ndarray | int | float):
                raise self.source.error(node, f"wanted tensors, found {tensor!r}")
        name, self.target = self.target, None
        return self.safely(node, lambda: self.b.op(ours, *tensors, name=name, **attrs))

    def scalar(self, node: ast.Call, path: str) -> Any:
        """Read `T.int64(4)`, `T.max(n, 4)` and the like."""
        args = list(map(self.expr, node.args))
        name = path[2:]
        if name in ("min", "max") and len(args) == 2:
            from ...tir.script import builtins

            return getattr(builtins, name)(*args)
        if len(args) != 1:
            raise self.source.error(node, f"{path} is no size")
        return args[0] if isinstance(args[0], Expr) else int(args[0]) if "int" in name else float(args[0])

    def call_global(self, node: ast.Call) -> Any:
        """Inline a call of another function of the module."""
        owner = self.expr(node.func)
        if not isinstance(owner, forms.Global) or owner.name not in self.others:
            tries = ("R.call_tir(cls.NAME, (x,), R.Tensor(...)), for a loop program",)
            raise self.source.error(node.func, f"{ast.unparse(node.func)} is no function of the module", tries=tries)
        args = list(map(self.expr, node.args))
        called = self.others[owner.name]
        if owner.name in self.within:
            raise self.source.error(node, f"{owner.name} calls itself: a graph has no recursion")
        assert isinstance(called, ast.FunctionDef)
        if len(args) != len(called.args.args):
            raise self.source.error(node, f"{owner.name} has {len(called.args.args)} parameters, found {len(args)}")
        outer, self.env = self.env, dict(zip((p.arg for p in called.args.args), args, strict=True))
        self.within = (*self.within, owner.name)
        for parameter, value in zip(called.args.args, args, strict=True):
            self.bind_sizes(parameter.annotation, value)
        result = self.body(called.body)
        self.env, self.within = outer, self.within[:-1]
        return result

    def bind_sizes(self, annotation: ast.expr | None, value: Any) -> None:
        """Give the sizes in the type of a parameter their values in a call."""
        shape = self.expr(annotation).shape if annotation is not None and isinstance(value, Value) else None
        for dim, size in zip(shape or (), value.shape if isinstance(value, Value) else (), strict=False):
            if isinstance(dim, str) and dim.isidentifier():
                self.env.setdefault(dim, size)

    def tensors(self, node: ast.AST, value: Any) -> tuple[Value, ...]:
        """Return a tensor, or the tensors of a tuple (also of nested ones), as values of the graph."""
        if isinstance(value, tuple):
            return tuple(tensor for item in value for tensor in self.tensors(node, item))
        if not isinstance(value, Value):
            raise self.source.error(node, f"wanted a tensor, found {value!r}")
        return (value,)

    def safely(self, node: ast.AST, action: Callable[[], Any]) -> Any:
        """Show an error of the graph at its place in the text."""
        try:
            return action()
        except ParseError:
            raise
        except TypeError as error:
            raise self.source.error(node, str(error)) from None
        except (InputError, UnsupportedOperator, MinitvmError) as error:
            raise self.source.error(node, str(error)) from None


_DTYPES = frozenset(
    ["bool", "bfloat16", "global", "void", *(f"{k}{b}" for k in ("int", "uint", "float") for b in (8, 16, 32, 64))]
)


def _apart(a: Any, b: Any) -> bool:
    """Return whether two dimensions are different: for all values of their sizes, or because they are two sizes."""
    return differ(a, b) or (isinstance(a, Var) and isinstance(b, Var) and a is not b)


def _type_text(value: Any) -> str:
    """Return the type of a tensor, or of a tuple of values, as text."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_type_text, value))})"
    return value.type if isinstance(value, Value) else type(value).__name__
