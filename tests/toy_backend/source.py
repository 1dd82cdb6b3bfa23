"""Kernels as Python over NumPy: a scalar is one of NumPy's, a vector an array, a buffer a flat array.

def add_kernel_0(x, y, out):
    for i in range(8):
        out[i * 64:i * 64 + 64] = x[i * 64:i * 64 + 64] + y[i * 64:i * 64 + 64]
"""

from __future__ import annotations

import math
from typing import Any

from minitvm import expr as e
from minitvm.codegen.emitter import Emitter
from minitvm.errors import Unsupported
from minitvm.tir import nodes as t
from minitvm.tir.analysis.registers import slot

OPERATORS = {
    e.Add: "+", e.Sub: "-", e.Mul: "*", e.FloorDiv: "//", e.FloorMod: "%", e.EQ: "==", e.NE: "!=", e.LT: "<",
    e.LE: "<=", e.GT: ">", e.GE: ">=", e.And: "&", e.Or: "|",
}  # fmt: skip
FUNCTIONS = {
    "exp": "np.exp", "log": "np.log", "sqrt": "np.sqrt", "tanh": "np.tanh", "abs": "np.abs", "floor": "np.floor",
    "bitwise_and": "np.bitwise_and", "vector_reduce_add": "np.sum", "vector_reduce_max": "np.max",
    "vector_reduce_min": "np.min",
}  # fmt: skip
HEADER = """import numpy as np


def load_masked(buffer, lanes, mask):
    values = np.zeros(len(lanes), buffer.dtype)
    values[mask] = buffer[lanes[mask]]
    return values


def store_masked(buffer, lanes, mask, value):
    buffer[lanes[mask]] = np.broadcast_to(value, len(lanes))[mask]


"""


def generate(kernel: t.PrimFunc, target: Any) -> str:
    """The module of a kernel; raises `Unsupported` for what the toy has no word for."""
    return _Source(kernel, target).module()


class _Source(Emitter):
    def __init__(self, kernel: t.PrimFunc, target: Any) -> None:
        super().__init__(kernel, target, ("np", "range", "min", "max", "load_masked", "store_masked", kernel.name))

    def module(self) -> str:
        parameters = ", ".join(self.names[p] for p in self.kernel.params)
        with self.block(f"def {self.kernel.name}({parameters}):"):
            self.stmt(self.kernel.body)
        return HEADER + "\n".join(self.lines) + "\n"

    # -- statements

    def no_op(self) -> str:
        return "pass"

    def if_header(self, condition: e.Expr) -> str:
        return f"if {self.value(condition)}:"

    def else_header(self) -> str:
        return "else:"

    def loop(self, stmt: t.For) -> None:
        if stmt.kind is t.ForKind.THREAD:
            raise Unsupported(f"a loop over {stmt.thread} in a kernel of the toy")
        start, extent = self.value(stmt.start), self.value(stmt.extent)
        limits = extent if start == "0" else f"{start}, {start} + {extent}"
        with self.block(f"for {self.names[stmt.var]} in range({limits}):"):
            self.stmt(stmt.body)

    def while_loop(self, stmt: t.While) -> None:
        with self.block(f"while {self.value(stmt.condition)}:"):
            self.stmt(stmt.body)

    def let(self, stmt: t.LetStmt) -> None:
        self.line(f"{self.names[stmt.var]} = {self.own(stmt.value)}")
        self.stmt(stmt.body)

    def store(self, stmt: t.BufferStore) -> None:
        (index,) = stmt.indices
        if stmt.buffer in self.registers:
            self.line(f"{self.register(stmt.buffer, index)} = {self.own(stmt.value)}")
        elif stmt.predicate is None:
            self.line(f"{self.names[stmt.buffer]}[{self.place(index)}] = {self.value(stmt.value)}")
        elif index.dtype.lanes == 1:
            with self.block(f"if {self.value(stmt.predicate)}:"):
                self.line(f"{self.names[stmt.buffer]}[{self.place(index)}] = {self.value(stmt.value)}")
        else:
            mask, value = self.value(stmt.predicate), self.value(stmt.value)
            self.line(f"store_masked({self.names[stmt.buffer]}, {self.value(index)}, {mask}, {value})")

    def check(self, stmt: t.Assert) -> None:
        self.line(f"# holds: {' '.join(str(stmt.condition).split())}")

    def evaluate(self, stmt: t.Evaluate) -> None:
        raise Unsupported(f"{stmt.value} in a kernel of the toy")

    def prefetch(self, stmt: t.Prefetch) -> None:
        """Means nothing."""

    def stack_array(self, buffer: t.Buffer) -> None:
        self.line(f"{self.names[buffer]} = np.empty({self.value(buffer.shape[0])}, {buffer.dtype.numpy.name!r})")

    def declare_register(self, buffer: t.Buffer, register: Any, name: str) -> None:
        self.line(f"{name} = None")

    # -- expressions

    def own(self, value: e.Expr) -> str:
        """A value that keeps what it is when memory changes: a slice of NumPy is the memory itself."""
        text = self.value(value)
        return text if value.dtype.lanes == 1 or isinstance(value, e.BinaryOp | e.Broadcast) else f"np.array({text})"

    def register(self, buffer: t.Buffer, index: e.Expr) -> str:
        at = slot(index)
        assert at is not None
        return self.registers[buffer][at]

    def place(self, index: e.Expr) -> str:
        """What goes between the brackets of an access."""
        if isinstance(index, e.Ramp) and isinstance(index.stride, e.IntImm) and index.stride.value == 1:
            base = self.value(index.base)
            return f"{base}:{base} + {index.lanes}"
        return self.value(index)

    def value(self, x: e.Expr) -> str:
        if isinstance(x, e.IntImm):
            return f"np.bool_({x.value})" if x.dtype.is_bool else str(x.value)
        if isinstance(x, e.FloatImm):
            number = float(x.value)
            return f"np.{x.dtype.scalar}({number if math.isfinite(number) else repr(str(number))})"
        if isinstance(x, e.Var):
            return self.names[x]
        if isinstance(x, t.BufferLoad):
            return self.load(x)
        if isinstance(x, e.Min | e.Max):
            return f"np.{'minimum' if isinstance(x, e.Min) else 'maximum'}({self.value(x.a)}, {self.value(x.b)})"
        if isinstance(x, e.Div) and x.dtype.is_float:
            return f"({self.beside(x.a, x.b)} / {self.beside(x.b, x.a)})"
        if type(x) in OPERATORS:
            return f"({self.beside(x.a, x.b)} {OPERATORS[type(x)]} {self.beside(x.b, x.a)})"  # type: ignore[attr-defined]
        if isinstance(x, e.Not):
            return f"np.logical_not({self.value(x.a)})"
        if isinstance(x, e.Cast):
            return f"np.{x.dtype.scalar.numpy.name}({self.value(x.value)})"
        if isinstance(x, e.Ramp):
            return f"({self.value(x.base)} + {self.value(x.stride)} * np.arange({x.lanes}))"
        if isinstance(x, e.Broadcast):
            return f"np.full({x.lanes}, {self.value(x.value)}, {x.dtype.scalar.numpy.name!r})"
        if isinstance(x, e.Select) or (isinstance(x, e.Call) and x.op == "if_then_else"):
            condition, a, b = x.args if isinstance(x, e.Call) else (x.condition, x.true_value, x.false_value)
            if condition.dtype.lanes > 1:
                return f"np.where({self.value(condition)}, {self.value(a)}, {self.value(b)})"
            return f"({self.value(a)} if {self.value(condition)} else {self.value(b)})"
        if isinstance(x, e.Call) and x.op in FUNCTIONS:
            return f"{FUNCTIONS[x.op]}({', '.join(map(self.value, x.args))})"
        raise Unsupported(f"{x} in a kernel of the toy")

    def beside(self, x: e.Expr, other: e.Expr) -> str:
        """An operand: beside a vector NumPy broadcasts a scalar by itself."""
        alone = isinstance(x, e.Broadcast) and not isinstance(other, e.Broadcast)
        return self.value(x.value if alone else x)  # type: ignore[attr-defined]

    def load(self, x: t.BufferLoad) -> str:
        (index,) = x.indices
        if x.buffer in self.registers:
            return self.register(x.buffer, index)
        name = self.names[x.buffer]
        if x.predicate is None:
            return f"{name}[{self.place(index)}]"
        if index.dtype.lanes == 1:
            return f"({name}[{self.value(index)}] if {self.value(x.predicate)} else {name}.dtype.type(0))"
        return f"load_masked({name}, {self.value(index)}, {self.value(x.predicate)})"
