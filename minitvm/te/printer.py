"""Print tensor expressions as Python text: `script(outputs)` returns the statements that build them.

    p0 = te.placeholder((4, 8), "float32", name="p0")
    k = te.reduce_axis((0, 8), "k")
    rows = te.compute((4,), lambda i: te.sum(p0[i, k], axis=[k]), name="rows")

The text runs after `from minitvm import te`, and builds tensors with the same elements. An attribute of an operation is
printed only if Python can write its value as a literal.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from fractions import Fraction

from .. import expr as ex
from ..expr.conditions import is_const
from ..expr.printer import fresh, identifier
from .nodes import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, TensorLoad
from .tensors import post_order

__all__ = ["script"]

WIDTH = 116  # characters; a longer statement is broken into one argument per line
_ATOM = 20  # the precedence of a name or call
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<", "shift_right": ">>"}
_BUILT_IN = frozenset({"sum", "prod", "min", "max"})


def script(outputs: Tensor | Iterable[Tensor]) -> str:
    """Return the statements that build the outputs, one per line. Each tensor comes after the tensors that it reads."""
    tensors = post_order([outputs] if isinstance(outputs, Tensor) else list(outputs))
    return "\n".join(_Script(tensors).lines)


def statements(tensors: Iterable[Tensor]) -> tuple[list[str], dict[Tensor, str]]:
    """Return the statements that build `tensors`, and the name of each of these tensors in the statements."""
    results = list(tensors)
    script = _Script(post_order(results))
    return script.lines, {one: script.names[_key(one.op, one.value_index)] for one in results}


class _Script(ex.ExprPrinter):
    """Collects the lines of a te program.

    Tensors, sizes and reduction axes share one namespace, and the parameters of lambdas avoid its names.
    """

    prefix = "te."

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__()
        self.extra = {
            TensorLoad: self._load,
            ex.Reduce: self._reduce,
            ex.And: lambda e: f"te.all({', '.join(map(self.expr, _chain(e, ex.And)))})",
            ex.Or: lambda e: f"te.any({', '.join(map(self.expr, _chain(e, ex.Or)))})",
            ex.Not: lambda e: f"~{self._print(e.a, _ATOM)}",
            ex.Call: self._call,
            ex.Min: lambda e: f"te.minimum({self.expr(e.a)}, {self.expr(e.b)})",
            ex.Max: lambda e: f"te.maximum({self.expr(e.a)}, {self.expr(e.b)})",
            ex.Cast: self._cast,
            ex.Select: lambda e: (
                f"te.select({self.expr(e.condition)}, {self.expr(e.true_value)}, {self.expr(e.false_value)})"
            ),
        }
        self.names: dict[object, str] = {}
        self.used_names = {"te", *keyword.kwlist}
        self.lines: list[str] = []
        self._define(tensors)
        done: set[Operation] = set()
        for tensor in tensors:
            if tensor.op not in done:
                done.add(tensor.op)
                self._operation(tensor.op)

    def name(self, var: ex.Var) -> str:
        return self.names.get(var, var.name)

    def _define(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            self._fresh(_key(tensor.op, tensor.value_index), tensor.name)
        for tensor in tensors:
            for dim in tensor.shape:
                for size in ex.free_vars(dim):
                    if size not in self.names:
                        kind = "size_var" if type(size).__name__ == "SizeVar" else "var"
                        self._fresh(size, size.name)
                        self.lines.append(f'{self.names[size]} = te.{kind}("{size.name}", "{size.dtype}")')
            axes = tensor.op.reduce_axis if isinstance(tensor.op, ComputeOp) else ()
            for axis in axes:
                self._fresh(axis.var, axis.var.name)

    def _fresh(self, key: object, wish: str) -> str:
        if key not in self.names:
            self.names[key] = fresh(identifier(wish), self.used_names)
        return self.names[key]

    def _operation(self, op: Operation) -> None:
        if isinstance(op, ExternOp):
            self._extern(op)
            return
        if isinstance(op, PlaceholderOp):
            self.lines.append(
                f'{self._fresh(_key(op, 0), op.name)} = te.placeholder({self._tuple(op.shape)}, "{op.dtype}", '
                f'name="{op.name}")'
            )
            return
        assert isinstance(op, ComputeOp)
        for axis in op.reduce_axis:
            end = axis.dom.extent if is_const(axis.dom.min, 0) else axis.dom.min + axis.dom.extent
            ends = f"({self.expr(axis.dom.min)}, {self.expr(end)})"
            self.lines.append(f'{self.names[axis.var]} = te.reduce_axis({ends}, "{axis.var.name}")')
        first = op.body[0]
        if isinstance(first, ex.Reduce) and first.combiner.name not in _BUILT_IN:
            self._reducer(first.combiner)
        before = set(self.used_names)
        params = ", ".join(self._fresh(axis.var, axis.var.name) for axis in op.axis)
        self._compute(op, params, self._body(op))
        for axis in op.axis:
            self.names.pop(axis.var)
        self.used_names = before

    def _compute(self, op: ComputeOp, params: str, body: str) -> None:
        results = ", ".join(self.names.get(_key(op, k), "_") for k in range(len(op.body)))
        head = f"lambda {params}:" if params else "lambda:"
        rest = [f'name="{op.name}"']
        attrs = {k: v for k, v in op.attrs.items() if _is_literal(v)}
        if attrs:
            rest.append(f"attrs={attrs!r}")
        shape = self._tuple(tuple(axis.dom.extent for axis in op.axis))
        line = f"{results} = te.compute({', '.join([shape, f'{head} {body}', *rest])})"
        if len(line) <= WIDTH:
            self.lines.append(line)
            return
        parts = [f"{shape},", f"{head} {body},", f"{', '.join(rest)},"]
        if len(parts[1]) + 4 > WIDTH:
            parts[1:2] = [head, f"    {body},"]
        self.lines += [f"{results} = te.compute(", *("    " + part for part in parts), ")"]

    def _extern(self, op: ExternOp) -> None:
        names = [self._fresh(_key(op, k), buffer.name) for k, buffer in enumerate(op.results)]
        inputs = ", ".join(self.names[_key(one.op, one.value_index)] for one in op.inputs)
        self.lines += [
            f'{", ".join(names)} = te.extern_primfunc([{inputs}], """',
            *op.func.script().splitlines(),
            '""")',
        ]

    def _body(self, op: ComputeOp) -> str:
        if isinstance(op.body[0], ex.Reduce):
            return self._reduce(op.body[0])
        parts = [self.expr(value) for value in op.body]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def _reducer(self, combiner: ex.CommReducer) -> None:
        name = self._fresh(combiner, combiner.name)
        before = set(self.used_names)
        several = len(combiner.lhs) > 1
        for var in (*combiner.lhs, *combiner.rhs):
            self._fresh(var, var.name)
        if several:  # the function takes two tuples
            for side, row in (("x", combiner.lhs), ("y", combiner.rhs)):
                self.names.update({var: f"{side}[{k}]" for k, var in enumerate(row)})
            params = "x, y"
        else:
            params = f"{self.names[combiner.lhs[0]]}, {self.names[combiner.rhs[0]]}"
        result, identity = self._values(combiner.results), self._values(combiner.identity)
        self.used_names = before
        self.lines.append(
            f'{name} = te.comm_reducer(lambda {params}: {result}, lambda *dtypes: {identity}, "{combiner.name}")'
        )

    def _values(self, values: tuple[ex.Expr, ...]) -> str:
        parts = [self.expr(value) for value in values]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def _load(self, e: TensorLoad) -> str:
        return f"{self.names[_key(e.tensor.op, e.tensor.value_index)]}[{', '.join(map(self.expr, e.indices))}]"

    def _reduce(self, e: ex.Reduce) -> str:
        called = f"te.{e.combiner.name}" if e.combiner.name in _BUILT_IN else self.names[e.combiner]
        axes = ", ".join(self._axis(axis) for axis in e.axes)
        parts = [self._values(e.sources), f"axis=[{axes}]"]
        if not (isinstance(e.condition, ex.IntImm) and e.condition.value):
            parts.append(f"where={self.expr(e.condition)}")
        if e.init:
            parts.append(f"init={self._values(e.init)}")
        return f"{called}({', '.join(parts)})"

    def _cast(self, e: ex.Cast) -> str:
        value = e.value
        if isinstance(value, ex.IntImm | ex.FloatImm):  # a Python number has no `astype`
            return f'te.const({value.value}, "{value.dtype}").astype("{e.dtype}")'
        return f'{self._print(value, _ATOM)}.astype("{e.dtype}")'

    def _call(self, e: ex.Call) -> str:
        if e.op in _BITS:
            return f"({self._print(e.args[0], _ATOM)} {_BITS[e.op]} {self._print(e.args[1], _ATOM)})"
        if e.op == "bitwise_not":
            return f"~{self._print(e.args[0], _ATOM)}"
        called, *args = self._call_arguments(e)
        return f"te.{called}({', '.join(args)})"

    def _axis(self, axis: ex.IterVar) -> str:
        return self.names[axis.var]

    def _parts(self, e: ex.Expr) -> tuple[str, int]:
        # Python's `and` needs a truth value at once, which an expression does not have.
        return (self.extra[type(e)](e), _ATOM) if isinstance(e, ex.And | ex.Or | ex.Not) else super()._parts(e)

    def _atom(self, e: ex.Expr) -> str:
        if isinstance(e, ex.IntImm):
            return str(bool(e.value)) if e.dtype == "bool" else f'te.const({e.value}, "{e.dtype}")'
        return super()._atom(e)

    def float(self, e: ex.FloatImm) -> str:
        if isinstance(e.value, Fraction):
            return super().float(e)
        text = repr(e.value)
        if text in ("inf", "-inf"):
            return f'te.infinity("{e.dtype}"{", negative=True" if text == "-inf" else ""})'
        if text == "nan":
            return f'te.const(float("nan"), "{e.dtype}")'
        return text if e.dtype == "float32" else f'te.const({text}, "{e.dtype}")'

    def _tuple(self, dims: tuple[ex.Expr, ...]) -> str:
        return f"({', '.join(map(self.expr, dims))}{',' if len(dims) == 1 else ''})"


def _key(op: Operation, index: int) -> tuple[Operation, int]:
    return op, index


def _chain(e: ex.Expr, kind: type) -> list[ex.Expr]:
    return [*_chain(e.a, kind), e.b] if isinstance(e, kind) else [e]  # type: ignore[attr-defined]


def _is_literal(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_literal, value))
    return isinstance(value, bool | int | float | str) or value is None
