"""Python for Numba on CPUs: the module and its statements, over the SIMD vectors of `runtime.vectors.simd`.

A kernel becomes `def name(args, thread, threads)`: `args[i]` is the address of buffer parameter i or the value of
scalar parameter i (a float scalar as its bits, in the low end of the word). `numba_expressions` spells the
expressions.
"""

from __future__ import annotations

from typing import Any

from ..errors import InternalError, Unsupported, report
from ..expr import Call, Expr, IntImm, Var
from ..expr.conditions import is_const
from ..tir.analysis.registers import Register
from ..tir.nodes import (
    Assert,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    Prefetch,
    PrimFunc,
    While,
)
from ..tir.script.printer import script
from ..tir.verifier.kernel_rules import STACK_BYTES
from .numba_expressions import NumbaExpressions, short_name
from .spelling import atom, is_index


def generate(kernel: PrimFunc, target: Any = None) -> str:
    """The module text of a kernel: an import line and the function, named as the kernel.

    Raises `Unsupported` for what a CPU kernel cannot express (thread axes, barriers, vector-typed buffers).
    """
    return _NumbaCPU(kernel, target).module()


class _NumbaCPU(NumbaExpressions):
    def __init__(self, kernel: PrimFunc, target: Any) -> None:
        super().__init__(kernel, target)
        self.stack_bytes = 0

    # -- the module

    def module(self) -> str:
        self.depth = 1
        for position, param in enumerate(self.kernel.params):
            self.parameter(position, param)
        self.stmt(self.kernel.body)
        if not any(not line.strip().startswith("#") for line in self.lines):
            self.line("pass")
        names = sorted(self.imports - {"INF", "NAN"})
        header = [f"# {line}" for text in self.header() for line in text.splitlines()]
        lines = [*header, *import_lines(names)]
        lines += [f"{n} = float({n.lower()!r})" for n in ("INF", "NAN") if n in self.imports]
        lines += ["", "", f"def {self.kernel.name}(args, thread, threads):", *self.lines, ""]
        return "\n".join(lines)

    def parameter(self, position: int, param: Buffer | Var) -> None:
        name = self.names[param]
        if isinstance(param, Buffer):
            self.line(f"{name} = {self.use('pointer_' + short_name(self.scalar(param)))}(args[{position}])")
        elif param.dtype.is_float:
            self.line(f"{name} = {self.use('scalar_' + short_name(param.dtype))}(args[{position}])")
        else:
            self.wide.add(param)
            self.line(f"{name} = args[{position}]")

    def no_op(self) -> str:
        return "pass"

    # -- statements

    def if_header(self, condition: Expr) -> str:
        return f"if {self.value(condition)}:"

    def else_header(self) -> str:
        return "else:"

    def loop(self, stmt: For) -> None:
        if stmt.kind is ForKind.THREAD:
            raise self.on_a_grid(stmt)
        if stmt.kind not in (ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED):
            raise Unsupported(f"a {stmt.kind} loop over {stmt.var.name} in a CPU kernel")
        self.wide.add(stmt.var)
        self.analyzer.bind(stmt)
        with self.block(f"for {self.names[stmt.var]} in range({self.loop_bounds(stmt)}):"):
            self.stmt(stmt.body)

    def on_a_grid(self, stmt: For) -> Unsupported:
        """The error for a loop over the blocks or threads of a GPU."""
        name = stmt.var.name
        return Unsupported(
            report(
                f"{self.kernel.name} cannot become code for a CPU",
                program=script(self.kernel, mark={stmt: f"bound to {stmt.thread}"}, context=3),
                wanted="loops that are serial, parallel, vectorised, unrolled or virtual threads",
                found=f"{name} is bound to {stmt.thread}, an axis of a GPU's grid",
                tries=(f"parallel({name}) in the place of bind", "minitvm.reference.tir.run interprets the function"),
            )
        )

    def loop_bounds(self, stmt: For) -> str:
        zero = is_const(stmt.start, 0)
        start, extent = self.index(stmt.start), self.index(stmt.extent)
        if stmt.kind != ForKind.PARALLEL:
            constant = isinstance(stmt.start, IntImm) and isinstance(stmt.extent, IntImm)
            stop = str(stmt.start.value + stmt.extent.value) if constant else f"{start} + {extent}"  # type: ignore[attr-defined]
            return extent if zero else f"{start}, {stop}"
        offset = "" if zero else f"{start} + "
        n = atom(extent)
        return f"{offset}{n} * thread // threads, {offset}{n} * (thread + 1) // threads"

    def while_loop(self, stmt: While) -> None:
        with self.block(f"while {self.value(stmt.condition)}:"):
            self.stmt(stmt.body)

    def let(self, stmt: LetStmt) -> None:
        if is_index(stmt.value):
            self.wide.add(stmt.var)
            self.analyzer.bind_value(stmt.var, stmt.value)
            text = self.index(stmt.value)
        else:
            text = self.value(stmt.value)
        self.line(f"{self.names[stmt.var]} = {text}")
        self.stmt(stmt.body)

    def store(self, stmt: BufferStore) -> None:
        value, index = stmt.value, stmt.indices[0]
        if stmt.buffer in self.registers:
            self.line(f"{self.register(stmt.buffer, index)} = {self.value(value)}")
            return
        name = self.names[stmt.buffer]
        if index.dtype.lanes == 1:
            self.scalar_store(stmt, name)
            return
        base = self.contiguous(index)
        mask = "" if stmt.predicate is None else f", {self.value(stmt.predicate)}"
        if base is None:
            self.line(f"{self.use('scatter')}({name}, {self.vector_index(index)}, {self.vector(value)}{mask})")
        else:
            op = self.use("store_masked" if mask else "store")
            self.line(f"{op}({name}, {base}, {self.vector(value)}{mask})")

    def scalar_store(self, stmt: BufferStore, name: str) -> None:
        text = f"{name}[{self.index(stmt.indices[0])}] = {self.value(stmt.value)}"
        if stmt.predicate is None:
            self.line(text)
            return
        with self.block(f"if {self.value(stmt.predicate)}:"):
            self.line(text)

    def check(self, stmt: Assert) -> None:
        # Kernels do not raise: the caller of the host function checks its conditions.
        self.line(f"# holds: {' '.join(str(stmt.condition).split())}")

    def evaluate(self, stmt: Evaluate) -> None:
        if isinstance(stmt.value, Call) and stmt.value.op == "tvm_storage_sync":
            raise Unsupported("a barrier in a CPU kernel: kernels are separated by barriers, they contain none")

    def prefetch(self, stmt: Prefetch) -> None:
        self.line(f"{self.use('prefetch')}({self.names[stmt.buffer]}, {self.index(stmt.index)})")

    def stack_array(self, buffer: Buffer) -> None:
        size = buffer.shape[0]
        if not isinstance(size, IntImm):
            raise InternalError(f"local buffer {buffer.name} has size {size}: only constant sizes fit on the stack")
        self.stack_bytes += size.value * buffer.dtype.bytes
        if self.stack_bytes > STACK_BYTES:
            limit = f"{STACK_BYTES >> 20} MiB of stack"
            raise InternalError(f"kernel {self.kernel.name} needs more than {limit}, at buffer {buffer.name}")
        self.line(f"{self.names[buffer]} = {self.use('stack_' + short_name(self.scalar(buffer)))}({size.value})")

    def declare_register(self, buffer: Buffer, register: Register, name: str) -> None:
        # Numba needs the variable's type on every path; LLVM removes the value if it is not read.
        self.line(f"{name} = {self.use(short_name(buffer.dtype.with_lanes(register.lanes)))}(0)")


def import_lines(names: list[str], width: int = 116) -> list[str]:
    """One import of everything that is used, wrapped."""
    if not names:
        return []
    text = f"from minitvm.runtime.vectors.simd import {', '.join(names)}"
    if len(text) <= width:
        return [text]
    lines, row = ["from minitvm.runtime.vectors.simd import ("], "   "
    for name in names:
        if len(row) + len(name) + 2 > width:
            lines.append(row)
            row = "   "
        row += f" {name},"
    return [*lines, row, ")"]
