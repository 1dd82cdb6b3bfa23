"""Kernels as C11 functions. Vectors are those of GCC and Clang; a kernel without vectors is C99.

    static void add(const float *restrict A, float *restrict B, int64_t n, int64_t thread, int64_t threads) {
        for (int64_t i = n * thread / threads, i_end = n * (thread + 1) / threads; i < i_end; ++i) {
            store_f32x16(B + i * 16, (load_f32x16(A + i * 16) + all_f32x16(1.0f)));
        }
    }

A parameter is a buffer's address or a scalar; 16-bit floats come as their bits (`uint16_t`), bools in memory as bytes.
`thread` of `threads` threads runs its share of each parallel loop; a kernel without such loops has no `thread`.
Buffers do not overlap ("tir.noalias").

The results have the bits of the CPU back end's kernels, if the compiler does not contract products and sums
(`-ffp-contract=off`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from ... import expr as ex
from ...codegen.spelling import atom, is_index
from ...codegen.vector_pieces import in_pieces, widest
from ...errors import InternalError, Unsupported
from ...expr.conditions import is_const
from ...machines.simd.tile_intrinsics import SCOPE
from ...machines.simd.vectors.lanes import MAX_LANES
from ...target import Target
from ...tir import nodes as tir
from ...tir.analysis.registers import Register, registers_of
from . import instructions
from .expressions import CExpressions, pointer
from .library import APART, HEADERS, PROLOGUE
from .types import element_of, memory_type, shape_of


@dataclass(frozen=True)
class CKernel:
    """A kernel's function, and the types and functions that it uses, by name: each after those that it uses itself.

    If `is_shared`, threads share a loop, and the last two parameters are `int64_t thread, int64_t threads`.
    """

    name: str
    text: str
    definitions: dict[str, str]
    is_shared: bool


def generate(kernel: tir.PrimFunc, target: Target | None = None) -> CKernel:
    """Return a kernel of the CPU back end as a C function, named after the kernel.

    Raises `Unsupported` for what a CPU kernel cannot express (thread axes, barriers, vector-typed buffers).
    """
    return _CKernel(_narrowed(kernel, target), target).emitted()


def _narrowed(kernel: tir.PrimFunc, target: Target | None) -> tir.PrimFunc:
    """Return the kernel with no vectors wider than the target's, which GCC would keep in memory, if it can be split."""
    bits = getattr(target, "vector_bits", 0)
    if not bits:
        return kernel

    def fit(x: ex.Expr) -> int:
        dtype = x.dtype
        # Masks have lanes of 32 bits; 16-bit floats become float32; indices are read lane by lane.
        width = 32 if dtype.is_bool or dtype.is_half or is_index(x) else dtype.bits
        return max(1, bits // width)

    lanes = widest(kernel.body, MAX_LANES, fit)
    for call in ex.find(kernel.body, ex.Call):
        # Pieces are combined in the order of the lanes of one vector only if they are its halves, quarters, ...
        pieces = call.args[0].dtype.lanes // lanes if call.op.startswith("vector_reduce_") else 1
        if pieces & (pieces - 1):
            return kernel
    try:
        return kernel.with_body(in_pieces(kernel.body, lanes)) if lanes > 1 else kernel
    except Unsupported:
        return kernel


def library_text(kernels: Iterable[CKernel]) -> str:
    """Return the beginning of a file: headers, types and functions that these kernels use, each once."""
    definitions: dict[str, str] = {}
    for kernel in kernels:
        definitions.update({name: text for name, text in kernel.definitions.items() if name not in definitions})
    return "\n\n".join(["\n".join(HEADERS), PROLOGUE, *definitions.values()]) + "\n"


def source(kernels: Iterable[CKernel]) -> str:
    """Return the text of a file with all of these kernels."""
    listed = list(kernels)
    return "\n".join([library_text(listed), *(kernel.text for kernel in listed)])


class _CKernel(CExpressions):
    declares_all = True

    def __init__(self, kernel: tir.PrimFunc, target: Target | None) -> None:
        super().__init__(kernel, target)
        self.declared: list[tuple[str, int]] = []  # the registers of the innermost allocation, with their lines
        self.scopes: list[set[str]] = [set()]  # the names that each pair of braces around here declares
        # The body of an instruction is its meaning, so its stores count.
        self.written = {stmt.buffer for stmt in ex.find(kernel.body, tir.BufferStore)}

    @contextmanager
    def block(self, header: str) -> Any:
        """As in all languages; what is declared inside is forgotten after it.

        A condition has one pair of parentheses: clang takes two around `a == b` for a mistake.
        """
        self.scopes.append(set())
        condition = re.fullmatch(r"(if|while) \((\(.*\))\) \{", header)
        if condition and atom(condition[2]) == condition[2]:
            header = f"{condition[1]} {condition[2]} {{"
        with super().block(header):
            yield
        self.scopes.pop()

    # -- the kernel

    def emitted(self) -> CKernel:
        """Return the kernel's function and what it uses."""
        is_shared = any(loop.kind is tir.ForKind.PARALLEL for loop in ex.find(self.kernel.body, tir.For))
        parameters = [self.parameter(p) for p in self.kernel.params]
        parameters += ["int64_t thread", "int64_t threads"] if is_shared else []
        self.depth = 1
        self.stmt(self.kernel.body)
        names = [p.split()[-1].removeprefix("*").removeprefix("restrict ") for p in parameters]
        unused = [f"    (void){name};" for name in names if not self.is_read(name, self.lines)]
        # A kernel is never copied into its caller: it may read as int32 what another one wrote as bfloat16, and an
        # arena holds values of several types in turn. Inside one function, a compiler assumes that this never happens.
        head = f"{APART} void {self.kernel.name}(\n    {', '.join(parameters) or 'void'}\n) {{"
        text = "\n".join([*self.header(), head, *unused, *self.lines, "}", ""])
        return CKernel(self.kernel.name, text, self.library.definitions, is_shared)

    def parameter(self, param: tir.Buffer | ex.Var) -> str:
        """Return the declaration of a parameter."""
        if isinstance(param, tir.Buffer):
            self.scalar(param)
            return f"{pointer(param, param not in self.written)}restrict {self.names[param]}"
        if is_index(param):
            self.wide.add(param)
            return f"{self.index_type} {self.names[param]}"
        return f"{self.type_of(param.dtype)} {self.names[param]}"

    def is_read(self, name: str, lines: list[str]) -> bool:
        """Return whether lines mention a variable, other than by assigning to it."""
        word = re.compile(rf"\b{name}\b(?! = )")
        return any(word.search(line) for line in lines if not line.lstrip().startswith("//"))

    # -- statements

    def loop_header(self, name: str, first: str, end: str) -> str:
        self.scopes[-1].discard(name)
        if end.lstrip("-").isdigit() or end.isidentifier():
            return f"for ({self.index_type} {name} = {first}; {name} < {end}; ++{name}) {{"
        last = self.names.fresh(f"{name}_end")
        return f"for ({self.index_type} {name} = {first}, {last} = {end}; {name} < {last}; ++{name}) {{"

    def offset(self, stmt: tir.For) -> str:
        return "" if is_const(stmt.start, 0) else f"{atom(self.index(stmt.start))} + "

    def share(self, stmt: tir.For) -> tuple[str, str]:
        n, offset = f"(int64_t){atom(self.index(stmt.extent))}", self.offset(stmt)
        first, end = f"{n} * thread / threads", f"{n} * (thread + 1) / threads"
        if self.index_dtype != "int64":
            first, end = f"({self.index_type})({first})", f"({self.index_type})({end})"
        return f"{offset}{first}", f"{offset}{end}"

    def definition(self, var: ex.Var, text: str, dtype: ex.DType) -> str:
        return f"const {self.type_of(dtype)} {self.names[var]} = {text};"

    def define(self, var: ex.Var, line: str, body: tir.Stmt) -> None:
        """Emit a definition and its scope: in braces if the name is taken here, as in a copy of a loop's body."""
        name = self.names[var]
        if name in self.scopes[-1]:
            with self.block("{"):
                self.define(var, line, body)
            return
        self.scopes[-1].add(name)
        start = len(self.lines)
        super().define(var, line, body)
        self.silence(name, start)

    def silence(self, name: str, start: int) -> None:
        """Mark a variable that is declared in line `start` as used, if no later line reads it."""
        if not self.is_read(name, self.lines[start + 1 :]):
            self.lines[start] += f" (void){name};"

    def store_element(self, stmt: tir.BufferStore, value: str) -> str:
        return f"{self.names[stmt.buffer]}[{self.place(stmt.indices[0])}] = {value}"

    def store_neighbours(self, stmt: tir.BufferStore, base: str, value: str) -> str:
        at, dtype = self.address(stmt.buffer, base), stmt.value.dtype
        if stmt.predicate is not None:
            count = self.count_of_first(stmt.predicate)
            if count is not None:
                return f"{self.helper('store_first', dtype)}({at}, {value}, {count})"
            return f"{self.helper('store_masked', dtype)}({at}, {value}, {self.value(stmt.predicate)})"
        name = "store_whole" if self.whole(stmt.buffer, stmt.indices[0]) else "store"
        return f"{self.helper(name, dtype)}({at}, {value})"

    def scatter(self, stmt: tir.BufferStore, value: str) -> str:
        kind, at, places = self.places(stmt.buffer, stmt.indices[0])
        dtype = stmt.value.dtype
        if stmt.predicate is None:
            return f"{self.helper(f'scatter_{kind}', dtype)}({at}, {value}, {places})"
        mask = self.value(stmt.predicate)
        return f"{self.helper(f'scatter_masked_{kind}', dtype)}({at}, {value}, {places}, {mask})"

    def evaluate(self, stmt: tir.Evaluate) -> None:
        if isinstance(stmt.value, ex.Call) and stmt.value.op == "tvm_storage_sync":
            raise Unsupported("a barrier in a C kernel: kernels are separated by barriers, they contain none")

    def prefetch(self, stmt: tir.Prefetch) -> None:
        # The address may be outside of the buffer, where a pointer must not point.
        size = stmt.buffer.dtype.bytes
        at = f"(uintptr_t){self.names[stmt.buffer]} + (uintptr_t){atom(self.index(stmt.index))} * {size}"
        self.line(f"__builtin_prefetch((const void *)({at}));")

    def instruction(self, stmt: tir.Instruction) -> None:
        spell = instructions.spelling(stmt.name)
        if spell is None:
            super().instruction(stmt)
        else:
            spell(self, stmt)

    # -- storage

    def allocate(self, stmt: tir.Allocate) -> None:
        with self.block("{") if self.takes_name(stmt) else nullcontext():
            self.declared = []
            before, start = self.declared, len(self.lines)
            super().allocate(stmt)
            for name, line in before:
                self.silence(name, line)
            if self.lines[start:] and stmt.buffer not in self.registers:
                self.silence(self.names[stmt.buffer], start)

    def takes_name(self, stmt: tir.Allocate) -> bool:
        """Return whether an array has a name that is in this scope already; registers get new names."""
        name = self.names[stmt.buffer]
        again = name in self.scopes[-1] and registers_of(stmt.buffer, stmt.body) is None
        self.scopes[-1].add(name)
        return again

    def stack_array(self, buffer: tir.Buffer) -> None:
        size, kind = buffer.shape[0], element_of(self.scalar(buffer))
        if not isinstance(size, ex.IntImm):
            raise InternalError(f"local buffer {buffer.name} has size {size}: only constant sizes fit on the stack")
        aligned = ""
        if self.has_vectors(buffer):
            self.arrays.add(buffer)
            aligned = f"_Alignas({buffer.align}) "
        self.line(f"{aligned}{memory_type(kind)} {self.names[buffer]}[{max(1, size.value)}];")

    def has_vectors(self, buffer: tir.Buffer) -> bool:
        """Return whether the kernel has vectors or tiles: then arrays are aligned."""
        vectors = (e for e in ex.find(self.kernel.body, ex.Expr) if e.dtype.lanes > 1)
        return buffer.scope == SCOPE or next(vectors, None) is not None

    def declare_register(self, buffer: tir.Buffer, register: Register, name: str) -> None:
        dtype = buffer.dtype.with_lanes(register.lanes)
        start = "{0}" if shape_of(dtype)[1] else "0"
        self.line(f"{self.type_of(dtype)} {name} = {start};")
        self.declared.append((name, len(self.lines) - 1))
