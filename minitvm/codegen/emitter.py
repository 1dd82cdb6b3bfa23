"""The walk over a kernel's statements that all source dialects share, with scopes, names and registers.

A dialect (such as `numba_cpu`) subclasses `Emitter` and spells expressions, accesses and headers. The source is a list
of indented lines; `registers` decides which local buffers become variables.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

from .. import expr as ex
from ..errors import Unsupported, report
from ..expr.conditions import is_const
from ..target import Target
from ..tir import nodes as tir
from ..tir.analysis.registers import Register, registers_of, stored_first
from ..tir.script.printer import script
from ..tir.tensor_intrin import TensorIntrin
from .expressions import Expressions


class Emitter(Expressions):
    """Walks the statements of a kernel and collects lines of source code."""

    indent_text = "    "
    dialect = ""  # the name under which an intrinsic has the text of its instruction
    declares_all = False  # whether a variable must be declared before it is stored

    def __init__(self, kernel: tir.PrimFunc, target: Target | None, reserved: Iterable[str]) -> None:
        super().__init__(kernel, target, reserved)
        self.lines: list[str] = []
        self.depth = 0
        self.handlers: dict[type, Callable[[Any], None]] = {
            tir.Seq: self.seq, tir.For: self.loop, tir.While: self.while_loop, tir.If: self.branch,
            tir.LetStmt: self.let,
            tir.BufferStore: self.store, tir.Allocate: self.allocate, tir.Assert: self.check,
            tir.Evaluate: self.evaluate,
            tir.Prefetch: self.prefetch, tir.Instruction: self.instruction, tir.Async: self.begun,
        }  # fmt: skip

    # -- lines

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append(self.indent_text * self.depth + text if text else "")

    @contextmanager
    def block(self, header: str) -> Any:
        """Write a header line, and indent the lines that are added within this context. An empty body gets a no-op
        statement.
        """
        self.line(header)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line(self.syntax.nothing)
        self.depth -= 1
        if self.syntax.close:
            self.line(self.syntax.close)

    # -- the kernel

    def header(self) -> list[str]:
        """Return comment lines for the reader that list the kernel's parameters and the schedule that produced it."""
        params = ", ".join(
            f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}]"
            if isinstance(p, tir.Buffer)
            else f"{p.name}: {p.dtype}"
            for p in self.kernel.params
        )
        trace = self.kernel.attrs.get("schedule_trace", ())
        steps = trace.split("\n") if isinstance(trace, str) else [str(step) for step in trace]
        rows = [f"kernel {self.kernel.name}({params})"]
        rows += ["schedule:", *("  " + step for step in steps)] if steps else []
        return [self.syntax.comment + line for row in rows for line in row.splitlines()]

    # -- statements

    def stmt(self, stmt: tir.Stmt) -> None:
        """Emit a statement. Raises `Unsupported` for a kind of statement that lowering should have removed."""
        handler = self.handlers.get(type(stmt))
        if handler is None:
            raise Unsupported(f"{type(stmt).__name__} in a kernel: lowering should have removed it")
        handler(stmt)

    def seq(self, stmt: tir.Seq) -> None:
        for part in stmt.stmts:
            self.stmt(part)

    def branch(self, stmt: tir.If) -> None:
        with self.block(self.syntax.branch.format(self.value(stmt.condition))):
            self.stmt(stmt.then_case)
        if stmt.else_case is not None:
            with self.block(self.syntax.otherwise):
                self.stmt(stmt.else_case)

    def loop(self, stmt: tir.For) -> None:
        """Emit a loop. Its variable counts as an index, and the analyzer learns its range."""
        self.wide.add(stmt.var)
        self.analyzer.bind(stmt)
        if stmt.kind is tir.ForKind.THREAD:
            self.thread(stmt)
            return
        if stmt.kind not in (tir.ForKind.SERIAL, tir.ForKind.PARALLEL, tir.ForKind.UNROLLED):
            raise Unsupported(f"a {stmt.kind} loop over {stmt.var.name} in {self.language}")
        first, end = self.share(stmt) if stmt.kind is tir.ForKind.PARALLEL else self.bounds(stmt)
        with self.block(self.loop_header(self.names[stmt.var], first, end)):
            self.stmt(stmt.body)

    def thread(self, stmt: tir.For) -> None:
        """Emit a loop over a grid axis: its variable is the position of the thread that runs the body."""
        raise Unsupported(f"a loop over {stmt.thread} in {self.language}")

    def bounds(self, stmt: tir.For) -> tuple[str, str]:
        """Return the first value of a loop variable and its exclusive upper bound, both as source text."""
        first, extent = self.index(stmt.start), self.index(stmt.extent)
        if isinstance(stmt.start, ex.IntImm) and isinstance(stmt.extent, ex.IntImm):
            return first, str(stmt.start.value + stmt.extent.value)
        return first, f"{self.offset(stmt)}{extent}"

    def share(self, stmt: tir.For) -> tuple[str, str]:
        """Return the bounds of the iterations that one thread runs in a parallel loop.

        In a language without threads, these are all iterations.
        """
        return self.bounds(stmt)

    def offset(self, stmt: tir.For) -> str:
        """Return the text `start + ` for a loop, or "" if the loop starts at 0."""
        return "" if is_const(stmt.start, 0) else f"{self.index(stmt.start)} + "

    def let(self, stmt: tir.LetStmt) -> None:
        if self.notes_index(stmt):
            text, dtype = self.index(stmt.value), self.index_dtype
        else:
            text, dtype = self.value(stmt.value), stmt.value.dtype
        self.define(stmt.var, self.definition(stmt.var, text, dtype), stmt.body)

    def define(self, var: ex.Var, line: str, body: tir.Stmt) -> None:  # noqa: ARG002
        """Emit the line that defines a variable, followed by the statements that use it."""
        self.line(line)
        self.stmt(body)

    def definition(self, var: ex.Var, text: str, dtype: ex.DType) -> str:  # noqa: ARG002
        return f"{self.names[var]} = {text}{self.syntax.end}"

    def while_loop(self, stmt: tir.While) -> None:
        with self.block(self.syntax.repeat.format(self.value(stmt.condition))):
            self.stmt(stmt.body)

    def store(self, stmt: tir.BufferStore) -> None:
        """Emit a store to a register, a scalar store (under its condition, if any), or a vector store (with its
        mask, if any).
        """
        buffer, index, value = stmt.buffer, stmt.indices[0], self.value(stmt.value)
        if buffer in self.registers:
            self.line(f"{self.register(buffer, index)} = {value}{self.syntax.end}")
            return
        if index.dtype.lanes > 1:
            base = self.contiguous(index)
            text = self.scatter(stmt, value) if base is None else self.store_neighbours(stmt, base, value)
            self.line(text + self.syntax.end)
            return
        text = self.store_element(stmt, value) + self.syntax.end
        if stmt.predicate is None:
            self.line(text)
            return
        with self.block(self.syntax.branch.format(self.value(stmt.predicate))):
            self.line(text)

    def store_neighbours(self, stmt: tir.BufferStore, base: str, value: str) -> str:  # noqa: ARG002
        """Return the text of a vector store to consecutive elements from `base` on, with or without a mask."""
        raise self.lacking(stmt.value)

    def scatter(self, stmt: tir.BufferStore, value: str) -> str:  # noqa: ARG002
        """Return the text of a vector store to elements at arbitrary indices, with or without a mask."""
        raise self.lacking(stmt.value)

    def check(self, stmt: tir.Assert) -> None:
        # Kernels do not raise: the caller of the host function checks its conditions.
        self.line(f"{self.syntax.comment}holds: {' '.join(str(stmt.condition).split())}")

    def prefetch(self, stmt: tir.Prefetch) -> None:
        """Emit a prefetch hint.

        By default, emit nothing: for most languages, the compiler or other threads hide the latency.
        """

    def allocate(self, stmt: tir.Allocate) -> None:
        registers = registers_of(stmt.buffer, stmt.body)
        if registers is None:
            self.registers.pop(stmt.buffer, None)  # a copy of this nest may have kept the buffer in registers
            self.stack_array(stmt.buffer)
        else:
            names = {r: self.names.fresh(f"{stmt.buffer.name}_{r.start}") for r in registers}
            self.registers[stmt.buffer] = names
            for register, name in names.items():
                if self.declares_all or not stored_first(stmt.buffer, register, stmt.body):
                    self.declare_register(stmt.buffer, register, name)
        self.stmt(stmt.body)

    def begun(self, stmt: tir.Async) -> None:
        """Emit an asynchronous copy. In a language without asynchronous copies, the code copies immediately and needs
        no wait.
        """
        self.store(stmt.body)

    def instruction(self, stmt: tir.Instruction) -> None:
        """Emit a machine instruction as its intrinsic spells it. Raises `Unsupported` if it has no spelling in this
        language.
        """
        intrin = TensorIntrin.get(stmt.name, allow_missing=True)
        spell = None if intrin is None else intrin.spelling(self.dialect)
        if spell is None:
            languages = ", ".join(sorted(intrin.instruction)) if intrin is not None else ""
            raise Unsupported(
                report(
                    f"{self.kernel.name}: the instruction {stmt.name} has no spelling in {self.dialect}",
                    program=script(self.kernel, mark={stmt: "here"}, context=3),
                    wanted=f"an instruction of {languages or 'this machine'}"
                    + (f", of which {stmt.name} is one" if languages else ""),
                    found=f"code for {self.dialect}" + ("" if intrin is not None else "; no intrinsic has this name"),
                    tries=(f'TensorIntrin.register(..., instruction={{"{self.dialect}": spell}})',),
                )
            )
        spell(self, stmt)

    # -- methods that each dialect implements

    @abstractmethod
    def loop_header(self, name: str, first: str, end: str) -> str: ...
    @abstractmethod
    def store_element(self, stmt: tir.BufferStore, value: str) -> str: ...
    @abstractmethod
    def evaluate(self, stmt: tir.Evaluate) -> None: ...
    @abstractmethod
    def stack_array(self, buffer: tir.Buffer) -> None: ...
    @abstractmethod
    def declare_register(self, buffer: tir.Buffer, register: Register, name: str) -> None: ...
