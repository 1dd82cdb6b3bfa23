"""Write the statements of kernels as Python for Numba, for any machine."""

from __future__ import annotations

from abc import abstractmethod

from ....codegen.spelling import atom, is_index
from ....errors import InternalError
from ....expr import DType, IntImm, Var
from ....target import Target
from ....tir.analysis.registers import Register
from ....tir.nodes import Buffer, BufferStore, For, PrimFunc
from ....tir.verifier.kernel_rules import STACK_BYTES
from .numba_expressions import NumbaExpressions, short_name


class NumbaStatements(NumbaExpressions):
    """Writes loops over ranges, conditions, stores and storage. A machine's dialect adds the header, parallel loops and
    barriers.
    """

    def __init__(self, kernel: PrimFunc, target: Target | None) -> None:
        super().__init__(kernel, target)
        self.stack_bytes = 0

    def bind_parameter(self, param: Buffer | Var, word: str) -> None:
        """Convert a parameter to the form that statements use. `word` is the int64 that the caller passes."""
        name = self.names[param]
        if isinstance(param, Buffer):
            self.line(f"{name} = {self.use('pointer_' + short_name(self.scalar(param)))}({word})")
        elif param.dtype.is_float:
            self.line(f"{name} = {self.use('scalar_' + short_name(param.dtype))}({word})")
        else:
            fits = self.index_dtype == "int64" or not is_index(param)
            self.line(f"{name} = {word if fits else self.to_index(word)}")
            if self.index_dtype == "int64" or is_index(param):
                self.wide.add(param)

    def constants(self) -> list[str]:
        """Return the lines that define numbers without a literal, such as infinity."""
        return [f"{n} = float({n.lower()!r})" for n in ("INF", "NAN") if n in self.imports]

    # -- statements

    def loop_header(self, name: str, first: str, end: str) -> str:
        bounds = (end,) if first == "0" else (first, end)
        # The type of the bounds is the loop variable's.
        return (
            f"for {name} in range({', '.join(bounds if self.index_dtype == 'int64' else map(self.to_index, bounds))}):"
        )

    def share(self, stmt: For) -> tuple[str, str]:
        n, offset, (thread, threads) = atom(self.index(stmt.extent)), self.offset(stmt), self.team()
        return f"{offset}{n} * {thread} // {threads}", f"{offset}{n} * ({thread} + 1) // {threads}"

    @abstractmethod
    def team(self) -> tuple[str, str]:
        """Return the number of this thread, and the number of threads that share a parallel loop."""

    def definition(self, var: Var, text: str, dtype: DType) -> str:
        complete = var not in self.wide or self.index_dtype == "int64"
        return super().definition(var, text if complete else self.to_index(text), dtype)

    def store_element(self, stmt: BufferStore, value: str) -> str:
        return f"{self.names[stmt.buffer]}[{self.place(stmt.indices[0])}] = {value}"

    def store_neighbours(self, stmt: BufferStore, base: str, value: str) -> str:
        operands = f"{self.names[stmt.buffer]}, {base}, {value}"
        if stmt.predicate is not None:
            return f"{self.use('store_masked')}({operands}, {self.value(stmt.predicate)})"
        return f"{self.use('store_whole' if self.whole(stmt.buffer, stmt.indices[0]) else 'store')}({operands})"

    def scatter(self, stmt: BufferStore, value: str) -> str:
        mask = "" if stmt.predicate is None else f", {self.value(stmt.predicate)}"
        place = self.vector_index(stmt.indices[0])
        return f"{self.use('scatter')}({self.names[stmt.buffer]}, {place}, {value}{mask})"

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
        # The first assignment stands in front of all uses and says the type; LLVM removes a value that nobody reads.
        self.line(f"{name} = {self.use(short_name(buffer.dtype.with_lanes(register.lanes)))}(0)")


def import_lines(names: list[str], module: str, width: int = 116) -> list[str]:
    """Return one import statement for all names, wrapped to `width`."""
    if not names:
        return []
    text = f"from {module} import {', '.join(names)}"
    if len(text) <= width:
        return [text]
    lines, row = [f"from {module} import ("], "   "
    for name in names:
        if len(row) + len(name) + 2 > width:
            lines.append(row)
            row = "   "
        row += f" {name},"
    return [*lines, row, ")"]
