"""The steps of an executable as three functions of WebAssembly, and a description of them for JavaScript.

    int measure(sizes, figures)        checks sizes; writes what JavaScript needs to lay out the memory of a run
    int run(places, sizes, figures)    runs the steps
    int shapes(sizes, figures)         writes the dimensions of outputs, some of which a run determines

All three return 0, or the number of a text in the description's `errors`, counted from 1; the numbers for the text's
{found} and {most} are then the first two words of `figures`. A pointer is 32 bits wide and leads to a table of 64-bit
words:

    places     the addresses of inputs, outputs, states, constants and arenas, in this order
    sizes      the values of symbolic sizes and scalar inputs, in the order of the description's `sizes`
    figures    two numbers for an error, then the results of `measure` or `shapes`
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ... import executable as exe
from ...executable.memory_report import data_sizes, shape_variables
from ...expr import Var
from ...expr.largest import largest, multiple
from ...runtime.shapes import guard_text, product, shape_text, spec_text
from ..own_kernels import require_own_kernels
from .expressions import BIT, DOUBLE, WORD, SizeExpressions
from .shared_kernels import SharedCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...expr import DType

CODE, BYTE = ir.IntType(32), ir.IntType(8)
POINTER = WORD.as_pointer()
ERROR_WORDS = 2  # the first words of `figures`: found, most
EXPORTS = ("measure", "run", "shapes")


@dataclass
class _SizeTable:
    """The variables of an executable, and where in the table `sizes` their values are."""

    words: dict[Var, int] = field(default_factory=dict)
    floats: set[Var] = field(default_factory=set)  # scalar inputs


class StepProgram:
    """The module of the three functions. Other modules define the functions of `calls[k]`, which compute kernel k.

    Raises `Unsupported` for an executable with steps or kernels of other machines.
    """

    def __init__(self, executable: exe.Executable, calls: Sequence[SharedCall], triple: str, layout: str) -> None:
        self.executable = executable
        require_own_kernels(executable, f"{executable.name} in a browser")
        self.module = ir.Module("program")
        self.module.triple, self.module.data_layout = triple, layout
        self.calls = calls
        self.functions: dict[str, ir.Function] = {}
        self.late = data_sizes(executable)
        self.sizes = _sizes_of(executable)
        self.errors: list[str] = []
        self.figures = 0  # the most results of a function
        self._measure()
        self._run()
        self._shapes()

    def _function(self, name: str, *parameters: str) -> _FunctionWriter:
        function = ir.Function(self.module, ir.FunctionType(CODE, [POINTER] * len(parameters)), name)
        tables = dict(zip(parameters, function.args, strict=True))
        return _FunctionWriter(self, ir.IRBuilder(function.append_basic_block("entry")), tables)

    def _measure(self) -> None:
        x = self.executable
        write = self._function("measure", "sizes", "figures")
        write.load_sizes(before_run=True)
        tensors = [spec for spec in x.inputs if isinstance(spec, exe.TensorSpec)]
        for dim in (dim for spec in tensors for dim in spec.shape):
            write.figure(dim)
        for spec in x.outputs:
            write.figure(largest(product(spec.shape), self.late))
        for arena in x.arenas:
            write.figure(arena.size)
        for bound in x.bounds:
            write.figure(bound.low)
            write.figure(bound.high)
        for guard in x.guards:
            if not guard.sizes() & self.late.keys():
                write.require(guard)
        write.succeed()

    def _run(self) -> None:
        x = self.executable
        write = self._function("run", "places", "sizes", "figures")
        write.load_sizes(before_run=True)
        most = max((len(step.args) for step in x.steps if isinstance(step, exe.CallKernel)), default=0)
        write.arguments = write.builder.alloca(WORD, max(most, 1), "arguments")
        write.steps(0, len(x.steps))
        write.succeed()

    def _shapes(self) -> None:
        write = self._function("shapes", "sizes", "figures")
        write.load_sizes(before_run=False)
        for dim in (dim for spec in self.executable.outputs for dim in spec.shape):
            write.figure(dim)
        write.succeed()

    def kernel(self, index: int) -> tuple[ir.Function, list[ir.Constant]]:
        """Return the function that computes a kernel, and its arguments before the table of the kernel's arguments."""
        call = self.calls[index]
        numbers = [ir.Constant(ir.IntType(bits), value) for bits, value in call.numbers]
        if call.symbol not in self.functions:
            kind = ir.FunctionType(ir.VoidType(), [*(number.type for number in numbers), POINTER])
            self.functions[call.symbol] = ir.Function(self.module, kind, call.symbol)
        return self.functions[call.symbol], numbers

    def error(self, text: str) -> int:
        """Return the code of an error with this text."""
        if text not in self.errors:
            self.errors.append(text)
        return self.errors.index(text) + 1

    def description(self) -> dict[str, Any]:
        """Return what JavaScript must know to call the functions, as JSON."""
        x, words = self.executable, self.sizes.words
        inputs: list[dict[str, Any]] = []
        for spec in x.inputs:
            entry = {"name": spec.name, "dtype": str(spec.dtype), "text": spec_text(spec)}
            if isinstance(spec, exe.TensorSpec):
                inputs.append({**entry, "shape": [self._dim(dim) for dim in spec.shape]})
            else:
                inputs.append({**entry, "scalar": words[spec.var]})
        return {
            "name": x.name,
            "sizes": [var.name for var in words],
            "inputs": inputs,
            "outputs": [_tensor(spec) for spec in x.outputs],
            "states": [_tensor(spec) | ({} if spec.first is None else {"first": spec.first}) for spec in x.states],
            "arenas": [arena.alignment for arena in x.arenas],
            "bounds": [_bound(x, bound) for bound in x.bounds],
            "errors": self.errors,
            "figures": self.figures,
        }

    def _dim(self, dim: exe.Dim) -> int | list[int] | None:
        """A dimension: a number, [place in `sizes`, factor] if it determines a size, or None."""
        if isinstance(dim, int):
            return dim
        if isinstance(dim, Var):
            return [self.sizes.words[dim], 1]
        factors = multiple(dim)
        return None if factors is None else [self.sizes.words[factors[0]], factors[1]]


class _FunctionWriter:
    """Writes one of the functions."""

    def __init__(self, program: StepProgram, builder: ir.IRBuilder, tables: dict[str, ir.Value]) -> None:
        self.program, self.builder, self.tables = program, builder, tables
        self.expressions = SizeExpressions(builder, {})
        self.arguments: ir.Value | None = None
        self.bound: list[Var] = []  # sizes that steps have bound
        self.figures = ERROR_WORDS

    # -- tables

    def _entry(self, table: ir.Value, index: int) -> ir.Value:
        return self.builder.gep(table, [ir.Constant(CODE, index)])

    def load_sizes(self, before_run: bool) -> None:
        """Load all sizes that have a value before a run, or all sizes."""
        for var, index in self.program.sizes.words.items():
            if before_run and var in self.program.late:
                continue
            value: ir.Value = self.builder.load(self._entry(self.tables["sizes"], index))
            is_float = var in self.program.sizes.floats
            self.expressions.values[var] = self.builder.bitcast(value, DOUBLE) if is_float else value

    def figure(self, number: exe.Dim) -> None:
        """Write the next result."""
        self.builder.store(self.expressions.word(number), self._entry(self.tables["figures"], self.figures))
        self.figures += 1

    def succeed(self) -> None:
        self.program.figures = max(self.program.figures, self.figures - ERROR_WORDS)
        self.builder.ret(ir.Constant(CODE, 0))

    def fail_unless(self, holds: ir.Value, text: str, size: ir.Value, most: ir.Value) -> None:
        """Return the error `text`, with its two numbers, unless `holds`."""
        b = self.builder
        with b.if_then(b.not_(holds), likely=False):
            b.store(size, self._entry(self.tables["figures"], 0))
            b.store(most, self._entry(self.tables["figures"], 1))
            b.ret(ir.Constant(CODE, self.program.error(text)))

    def require(self, guard: exe.Guard) -> None:
        """Return an error unless the two sides of a guard are equal."""
        left, right = self.expressions.word(guard.left), self.expressions.word(guard.right)
        text = f"{guard.where or 'the program'} does not take these sizes: {guard_text(guard)}"
        self.fail_unless(
            self.builder.icmp_signed("==", left, right), f"{text} (found {{found}} and {{most}})", left, right
        )

    # -- steps

    def address(self, place: exe.Location) -> ir.Value:
        """Return the address of a place as an i64."""
        x = self.program.executable
        starts = itertools.accumulate(map(len, (x.inputs, x.outputs, x.states, x.constants)), initial=0)
        start = dict(zip((exe.Input, exe.Output, exe.State, exe.ConstantRef, exe.ArenaSlice), starts, strict=True))
        if not isinstance(place, exe.ArenaSlice):
            return self._base(start[type(place)] + place.index)
        base = self._base(start[exe.ArenaSlice] + place.arena)
        if isinstance(place.offset, int) and place.offset == 0:
            return base
        return self.builder.add(base, self.expressions.word(place.offset))

    def _base(self, index: int) -> ir.Value:
        return self.builder.load(self._entry(self.tables["places"], index))

    def pointer(self, place: exe.Location, to: ir.Type = WORD) -> ir.Value:
        return self.builder.inttoptr(self.address(place), to.as_pointer())

    def argument(self, a: Any, dtype: DType) -> ir.Value:
        return self.address(a) if isinstance(a, exe.Location) else self.expressions.argument(a, dtype)

    def steps(self, first: int, last: int) -> None:
        at = first
        while at < last:
            step = self.program.executable.steps[at]
            at += 1
            if isinstance(step, exe.CallKernel):
                self._call(step)
            elif isinstance(step, exe.Copy):
                self._copy(step)
            elif isinstance(step, exe.BindSize):
                self._bind(step)
            elif isinstance(step, exe.Loop):
                self._loop(step, at)
                at += step.steps

    def _call(self, step: exe.CallKernel) -> None:
        params = self.program.executable.kernels[step.kernel].params
        for index, (a, param) in enumerate(zip(step.args, params, strict=True)):
            self.builder.store(self.argument(a, param.dtype), self._entry(self.arguments, index))
        function, numbers = self.program.kernel(step.kernel)
        self.builder.call(function, [*numbers, self.arguments])

    def _copy(self, step: exe.Copy) -> None:
        nbytes = self.builder.trunc(self.expressions.word(step.nbytes), CODE)
        byte = BYTE.as_pointer()
        copy = self.program.module.declare_intrinsic("llvm.memcpy", [byte, byte, CODE])
        places = self.pointer(step.dst, BYTE), self.pointer(step.src, BYTE)
        self.builder.call(copy, [*places, nbytes, ir.Constant(BIT, 0)])

    def _bind(self, step: exe.BindSize) -> None:
        b, values = self.builder, self.expressions
        size, most = b.load(self.pointer(step.place)), values.word(step.most)
        where = step.where or step.operator
        text = f"{where}: the size {step.var.name}, which data decide, is beyond the memory for it"
        text = f"{where}: {step.reason}" if step.reason else f"{text} (wanted 0 to {{most}}, found {{found}})"
        fits = b.and_(b.icmp_signed(">=", size, ir.Constant(WORD, 0)), b.icmp_signed("<=", size, most))
        self.fail_unless(fits, text, size, most)
        b.store(size, self._entry(self.tables["sizes"], self.program.sizes.words[step.var]))
        values.values[step.var] = size
        self.bound.append(step.var)
        for guard in self.program.executable.guards:
            late = guard.sizes() & self.program.late.keys()
            if step.var in late and late <= set(self.bound):
                self.require(guard)

    def _loop(self, step: exe.Loop, first: int) -> None:
        b, zero = self.builder, ir.Constant(WORD, 0)
        head, body, end = (b.append_basic_block(f"loop_{part}") for part in ("head", "body", "end"))
        b.store(zero, self.pointer(step.number))
        b.branch(head)
        b.position_at_end(head)
        with self._scope():
            number = b.load(self.pointer(step.number))
            continues = b.icmp_signed("<", number, b.load(self.pointer(step.limit)))
            if step.going is not None:
                going = b.load(self.pointer(step.going, BYTE))
                continues = b.and_(continues, b.icmp_signed("!=", going, ir.Constant(BYTE, 0)))
            b.cbranch(continues, body, end)
            b.position_at_end(body)
            if step.most is not None:
                most = self.expressions.word(step.most)
                where = step.where or step.operator
                text = f"{where}: the loop would go on beyond the memory for its results"
                text += " (wanted 0 to {most} iterations, found more)"
                self.fail_unless(b.icmp_signed("<", number, most), text, number, most)
            self.steps(first, first + step.steps)
            place = self.pointer(step.number)
            b.store(b.add(b.load(place), ir.Constant(WORD, 1)), place)
            b.branch(head)
        b.position_at_end(end)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        values, bound = dict(self.expressions.values), list(self.bound)
        yield
        self.expressions.values, self.bound = values, bound


def _tensor(spec: exe.TensorSpec) -> dict[str, Any]:
    shape = [dim if isinstance(dim, int) else None for dim in spec.shape]
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": shape, "text": shape_text(spec.shape)} | (
        {"inout": True} if spec.inout else {}
    )


def _bound(x: exe.Executable, bound: exe.Bound) -> dict[str, Any]:
    kind, specs = ("input", x.inputs) if isinstance(bound.place, exe.Input) else ("state", x.states)
    name = specs[bound.place.index].name
    return {"kind": kind, "index": bound.place.index, "name": name, "where": bound.where}


def _sizes_of(x: exe.Executable) -> _SizeTable:
    """All variables: scalar inputs, those in the shapes of inputs, and those that steps bind."""
    sizes = _SizeTable()
    for spec in x.inputs:
        if isinstance(spec, exe.ScalarSpec):
            sizes.words.setdefault(spec.var, len(sizes.words))
            if spec.dtype.is_float:
                sizes.floats.add(spec.var)
    for var in (*shape_variables(x), *data_sizes(x)):
        sizes.words.setdefault(var, len(sizes.words))
    return sizes
