"""The walk over a kernel that every source dialect shares: statements, scopes, names and registers.

A dialect (`numba_cpu`) subclasses `Emitter` and spells expressions, accesses and headers. Source is indented lines;
`registers` decides which local buffers become variables.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

from ..errors import Unsupported, report
from ..tir.analysis.registers import Register, registers_of, stored_first
from ..tir.nodes import (
    Allocate,
    Assert,
    Async,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    If,
    Instruction,
    LetStmt,
    Prefetch,
    PrimFunc,
    Seq,
    Stmt,
    While,
)
from ..tir.script.printer import script
from ..tir.tensor_intrin import TensorIntrin
from .expressions import Expressions


class Emitter(Expressions):
    """Walks a kernel's statements and collects lines of source."""

    indent_text = "    "
    dialect = ""  # by which an intrinsic has a spelling of its instruction
    declares_all = False  # whether the language wants a declaration of a variable that is stored first

    def __init__(self, kernel: PrimFunc, target: Any, reserved: Iterable[str]) -> None:
        super().__init__(kernel, target, reserved)
        self.lines: list[str] = []
        self.depth = 0
        self.handlers: dict[type, Callable[[Any], None]] = {
            Seq: self.seq, For: self.loop, While: self.while_loop, If: self.branch, LetStmt: self.let,
            BufferStore: self.store, Allocate: self.allocate, Assert: self.check, Evaluate: self.evaluate,
            Prefetch: self.prefetch, Instruction: self.instruction, Async: self.begun,
        }  # fmt: skip

    # -- lines

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self.lines.append(self.indent_text * self.depth + text if text else "")

    @contextmanager
    def block(self, header: str) -> Any:
        """A header line; the lines added inside are indented, and an empty body is a statement that does nothing."""
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
        """Comment lines for people: the kernel's parameters and the schedule that made it."""
        params = ", ".join(
            f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}]" if isinstance(p, Buffer) else f"{p.name}: {p.dtype}"
            for p in self.kernel.params
        )
        trace = self.kernel.attrs.get("schedule_trace", ())
        steps = trace.split("\n") if isinstance(trace, str) else [str(step) for step in trace]
        rows = [f"kernel {self.kernel.name}({params})"]
        rows += ["schedule:", *("  " + step for step in steps)] if steps else []
        return [self.syntax.comment + line for row in rows for line in row.splitlines()]

    # -- statements

    def stmt(self, stmt: Stmt) -> None:
        """Emit one statement."""
        handler = self.handlers.get(type(stmt))
        if handler is None:
            raise Unsupported(f"{type(stmt).__name__} in a kernel: lowering should have removed it")
        handler(stmt)

    def seq(self, stmt: Seq) -> None:
        for part in stmt.stmts:
            self.stmt(part)

    def branch(self, stmt: If) -> None:
        with self.block(self.syntax.branch.format(self.value(stmt.condition))):
            self.stmt(stmt.then_case)
        if stmt.else_case is not None:
            with self.block(self.syntax.otherwise):
                self.stmt(stmt.else_case)

    def while_loop(self, stmt: While) -> None:
        with self.block(self.syntax.repeat.format(self.value(stmt.condition))):
            self.stmt(stmt.body)

    def store(self, stmt: BufferStore) -> None:
        """A store of a register, of a scalar behind its condition, or of a vector with its mask."""
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

    def store_neighbours(self, stmt: BufferStore, base: str, value: str) -> str:  # noqa: ARG002
        """A store of a vector, with or without a mask, to elements that lie together from `base` on."""
        raise self.lacking(stmt.value)

    def scatter(self, stmt: BufferStore, value: str) -> str:  # noqa: ARG002
        """A store of a vector, with or without a mask, to elements anywhere."""
        raise self.lacking(stmt.value)

    def check(self, stmt: Assert) -> None:
        # Kernels do not raise: the caller of the host function checks its conditions.
        self.line(f"{self.syntax.comment}holds: {' '.join(str(stmt.condition).split())}")

    def prefetch(self, stmt: Prefetch) -> None:
        """A hint: most languages leave it to their compilers, or to threads that run while others wait."""

    def allocate(self, stmt: Allocate) -> None:
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

    def begun(self, stmt: Async) -> None:
        """A copy that may arrive later. A language without such copies does it at once; then no wait is needed."""
        self.store(stmt.body)

    def instruction(self, stmt: Instruction) -> None:
        """One instruction of the machine, as its intrinsic spells it; raises `Unsupported` if it does not."""
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

    # -- what a dialect spells

    @abstractmethod
    def loop(self, stmt: For) -> None: ...
    @abstractmethod
    def let(self, stmt: LetStmt) -> None: ...
    @abstractmethod
    def store_element(self, stmt: BufferStore, value: str) -> str: ...
    @abstractmethod
    def evaluate(self, stmt: Evaluate) -> None: ...
    @abstractmethod
    def stack_array(self, buffer: Buffer) -> None: ...
    @abstractmethod
    def declare_register(self, buffer: Buffer, register: Register, name: str) -> None: ...
