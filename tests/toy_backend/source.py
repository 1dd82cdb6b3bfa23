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
from minitvm.codegen.spelling import COMPARISONS, PYTHON, atom
from minitvm.errors import Unsupported
from minitvm.tir import nodes as t

OPERATORS = {e.Add: "+", e.Sub: "-", e.Mul: "*", e.FloorDiv: "//", e.FloorMod: "%"}
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
    syntax = PYTHON
    language = "a kernel of the toy"
    functions = FUNCTIONS

    def __init__(self, kernel: t.PrimFunc, target: Any) -> None:
        super().__init__(kernel, target, ("np", "range", "min", "max", "load_masked", "store_masked", kernel.name))

    def module(self) -> str:
        parameters = ", ".join(self.names[p] for p in self.kernel.params)
        with self.block(f"def {self.kernel.name}({parameters}):"):
            self.stmt(self.kernel.body)
        return HEADER + "\n".join(self.lines) + "\n"

    # -- statements

    def loop_header(self, name: str, first: str, end: str) -> str:
        return f"for {name} in range({end if first == '0' else f'{first}, {end}'}):"

    def store_element(self, stmt: t.BufferStore, value: str) -> str:
        return f"{self.names[stmt.buffer]}[{self.index(stmt.indices[0])}] = {value}"

    def store_neighbours(self, stmt: t.BufferStore, base: str, value: str) -> str:
        if stmt.predicate is not None:
            return self.scatter(stmt, value)
        return f"{self.names[stmt.buffer]}[{base}:{base} + {stmt.value.dtype.lanes}] = {value}"

    def scatter(self, stmt: t.BufferStore, value: str) -> str:
        places = self.value(stmt.indices[0])
        if stmt.predicate is None:
            return f"{self.names[stmt.buffer]}[{places}] = {value}"
        return f"store_masked({self.names[stmt.buffer]}, {places}, {self.value(stmt.predicate)}, {value})"

    def evaluate(self, stmt: t.Evaluate) -> None:
        raise Unsupported(f"{stmt.value} in a kernel of the toy")

    def stack_array(self, buffer: t.Buffer) -> None:
        self.line(f"{self.names[buffer]} = np.empty({self.value(buffer.shape[0])}, {buffer.dtype.numpy.name!r})")

    def declare_register(self, buffer: t.Buffer, register: Any, name: str) -> None:
        self.line(f"{name} = None")

    # -- indices

    def to_index(self, text: str) -> str:
        return f"int({text})"

    def from_index(self, name: str, dtype: e.DType) -> str:
        return name

    def index_extreme(self, x: e.Min | e.Max) -> str:
        return f"{'min' if isinstance(x, e.Min) else 'max'}({self.index(x.a)}, {self.index(x.b)})"

    def index_division(self, x: Any) -> str:
        if type(x) not in OPERATORS:
            raise self.lacking(x)
        return f"({atom(self.index(x.a))} {OPERATORS[type(x)]} {atom(self.index(x.b))})"

    # -- values

    def constant(self, x: e.IntImm | e.FloatImm) -> str:
        if isinstance(x, e.IntImm):
            return f"np.bool_({x.value})" if x.dtype.is_bool else str(x.value)
        number = float(x.value)
        return f"np.{x.dtype.scalar}({number if math.isfinite(number) else repr(str(number))})"

    def zero(self, dtype: e.DType) -> str:
        return f"np.zeros({dtype.lanes if dtype.lanes > 1 else ()}, {dtype.numpy.name!r})[()]"

    def converted(self, text: str, source: e.DType, to: e.DType) -> str:
        return f"np.{to.scalar.numpy.name}({text})"

    def comparison(self, x: e.CompareOp) -> str:
        return f"({self.beside(x.a, x.b)} {COMPARISONS[type(x)]} {self.beside(x.b, x.a)})"

    def arithmetic(self, x: e.BinaryOp) -> str:
        if isinstance(x, e.Min | e.Max):
            return f"np.{'minimum' if isinstance(x, e.Min) else 'maximum'}({self.value(x.a)}, {self.value(x.b)})"
        operator = "/" if isinstance(x, e.Div) and x.dtype.is_float else OPERATORS.get(type(x))
        if operator is None:
            raise self.lacking(x)
        return f"({self.beside(x.a, x.b)} {operator} {self.beside(x.b, x.a)})"

    def beside(self, x: e.Expr, other: e.Expr) -> str:
        """An operand: beside a vector NumPy broadcasts a scalar by itself."""
        alone = isinstance(x, e.Broadcast) and not isinstance(other, e.Broadcast)
        return self.value(x.value if alone else x)  # type: ignore[attr-defined]

    def reinterpreted(self, x: e.Call) -> str:
        raise self.lacking(x)

    # -- vectors

    def broadcast(self, x: e.Broadcast) -> str:
        return f"np.full({x.lanes}, {self.value(x.value)}, {x.dtype.scalar.numpy.name!r})"

    def ramp(self, x: e.Ramp) -> str:
        return f"({self.value(x.base)} + {self.value(x.stride)} * np.arange({x.lanes}))"

    def choice_of_lanes(self, condition: e.Expr, yes: str, no: str, dtype: e.DType) -> str:
        return f"np.where({self.value(condition)}, {yes}, {no})"

    # -- memory

    def element(self, x: t.BufferLoad) -> str:
        return f"{self.names[x.buffer]}[{self.index(x.indices[0])}]"

    def neighbours(self, x: t.BufferLoad, base: str) -> str:
        if x.predicate is not None:
            return self.gather(x)
        # A copy: a slice of NumPy is the memory itself, and would change with it.
        return f"{self.names[x.buffer]}[{base}:{base} + {x.dtype.lanes}].copy()"

    def gather(self, x: t.BufferLoad) -> str:
        name, places = self.names[x.buffer], self.value(x.indices[0])
        return (
            f"{name}[{places}]" if x.predicate is None else f"load_masked({name}, {places}, {self.value(x.predicate)})"
        )
