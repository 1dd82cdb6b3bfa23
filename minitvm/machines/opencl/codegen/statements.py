"""Write kernels in OpenCL C 1.2: the kernel and its statements.

    __kernel void add_kernel_0(__global const uchar *restrict A_base, const ulong A_at, ...) {
        __global const float *A = (__global const float *)(A_base + A_at);
        const int bx = get_group_id(0);
        const int tx = get_local_id(0);
        C[bx * 64 + tx] = A[bx * 64 + tx] + B[bx * 64 + tx];
    }

A buffer is passed as a pointer and an offset in bytes, so that one allocation can hold many buffers. Integers are
passed as `long`, 16-bit floats as `float`, and other floats in their own type. Loops over blockIdx and threadIdx are
the grid that the host launches. A parallel loop is shared out among all work-items, like the threads of a CPU.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any

from .... import expr as ex
from ....codegen.index_width import index_dtype
from ....codegen.spelling import atom, is_index
from ....codegen.vector_pieces import in_pieces, widest
from ....expr.conditions import is_const
from ....target import Target
from ....tir import nodes as tir
from ....tir.analysis.registers import Register, registers_of
from ....tir.analysis.threads import grid_of, is_shared
from ...gpu.codegen.grids import GridEmitter
from .expressions import OpenCLExpressions
from .library import put
from .types import LANES, array_type, memory_type, value_type

_WORD = ex.DType("int64")
_WIDEST_BITS = 256  # of a value, where the target has no wider vectors


def generate(kernel: tir.PrimFunc, target: Target | None = None) -> str:
    """Return the source of a kernel, including the functions that it uses.

    Raises `Unsupported` for features that OpenCL C does not have, and for a grid or storage beyond the limits of the
    target.
    """
    return _OpenCL(kernel.with_body(in_pieces(kernel.body, _lanes(kernel, target))), target).source()


def _lanes(kernel: tir.PrimFunc, target: Target | None) -> int:
    """Return the largest number of lanes for which no value is wider than the target's vectors or `_WIDEST_BITS`.

    PoCL 3.0 passes wider vectors to its own functions incorrectly, unless its compiler knows that the processor has
    AVX-512. It does not know this for any AMD processor: there, `exp(float16)` crashes at run time, and `vstore16` of
    floats makes the compiler loop forever.
    """
    bits, places = max(_WIDEST_BITS, getattr(target, "vector_bits", 0)), index_dtype(kernel).bits

    def fit(x: ex.Expr) -> int:
        kind = x.dtype
        width = 8 if kind.is_bool else 32 if kind.is_half else min(kind.bits, places) if is_index(x) else kind.bits
        return bits // width

    return widest(kernel.body, LANES[-1], fit)


class _OpenCL(GridEmitter, OpenCLExpressions):
    declares_all = True
    dialect = "opencl"
    language = "an OpenCL kernel"

    def __init__(self, kernel: tir.PrimFunc, target: Target | None) -> None:
        super().__init__(kernel, target)
        self.shared: list[str] = []  # declarations, which stand at the top of a kernel
        self.scopes: list[set[str]] = [set()]  # the names that each pair of braces around here declares

    @contextmanager
    def block(self, header: str) -> Any:
        """Write a block as in all languages. Names that are declared inside are forgotten after it."""
        self.scopes.append(set())
        with super().block(header):
            yield
        self.scopes.pop()

    # -- the kernel

    def source(self) -> str:
        self.check_grid()
        self.depth = 1
        parameters = [text for param in self.kernel.params for text in self.parameter(param)]
        begin = len(self.lines)
        self.stmt(self.kernel.body)
        body = [*self.lines[:begin], *self.shared, *self.lines[begin:]]
        head = self.header()
        if self.uses_double:
            head.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        if self.library.uses_half:
            head.append("#pragma OPENCL EXTENSION cl_khr_fp16 : enable")
        head.append("#pragma OPENCL FP_CONTRACT OFF")
        listed = ",\n    ".join(parameters) or "void"
        signature = f"__kernel {self.work_group()}void {self.kernel.name}(\n    {listed}\n) {{"
        return "\n".join([*head, "", *self.library.text(), signature, *body, "}", ""])

    def work_group(self) -> str:
        """Return the attribute that fixes the number of threads of a block if it is constant, for the compiler's
        benefit.
        """
        extents = [d.value for d in grid_of(self.kernel.body)[3:] if isinstance(d, ex.IntImm)]
        return f"__attribute__((reqd_work_group_size({', '.join(map(str, extents))}))) " if len(extents) == 3 else ""

    def parameter(self, param: tir.Buffer | ex.Var) -> list[str]:
        """Return the declarations of a parameter. Lines of the body convert it to the form that statements use."""
        name = self.names[param]
        if isinstance(param, tir.Buffer):
            memory = memory_type(param.dtype)
            self.type_of(param.dtype)
            self.line(f"__global {memory} *{name} = (__global {memory} *)({name}_base + {name}_at);")
            return [f"__global uchar *restrict {name}_base, const ulong {name}_at"]
        if param.dtype.is_float:
            return [f"const {self.type_of(param.dtype)} {name}"]
        kept = self.index_dtype if is_index(param) else param.dtype
        if is_index(param):
            self.wide.add(param)
        self.line(f"const {value_type(kept)} {name} = {self.converted(f'{name}_given', _WORD, kept)};")
        return [f"const long {name}_given"]

    # -- statements

    def loop_header(self, name: str, first: str, end: str) -> str:
        return f"for ({value_type(self.index_dtype)} {name} = {first}; {name} < {end}; ++{name}) {{"

    def offset(self, stmt: tir.For) -> str:
        return "" if is_const(stmt.start, 0) else f"{atom(self.index(stmt.start))} + "

    def share(self, stmt: tir.For) -> tuple[str, str]:
        offset, kind = self.offset(stmt), value_type(self.index_dtype)
        n = f"(long){atom(self.index(stmt.extent))}"
        share = f"({kind})({n} * (long)(get_global_id(0){{}}) / (long)get_global_size(0))"
        return f"{offset}{share.format('')}", f"{offset}{share.format(' + 1')}"

    def thread(self, stmt: tir.For) -> None:
        """Write a loop over the grid: its variable is the position of the work-item."""
        index, axis = self.axis(stmt)
        place = f"{'get_group_id' if index == 'blockIdx' else 'get_local_id'}({'xyz'.index(axis)})"
        offset = "" if is_const(stmt.start, 0) else f" + {atom(self.index(stmt.start))}"
        kind = value_type(self.index_dtype)
        self.define(stmt.var, self.definition(stmt.var, f"({kind}){place}{offset}", self.index_dtype), stmt.body)

    def definition(self, var: ex.Var, text: str, dtype: ex.DType) -> str:
        return f"const {self.type_of(dtype)} {self.names[var]} = {text};"

    def define(self, var: ex.Var, line: str, body: tir.Stmt) -> None:
        """Write a definition and the statements that use it, in separate braces if the name is already declared here.

        For example, a copy of a loop's body for its last iterations declares the same names as the body.
        """
        if self.names[var] in self.scopes[-1]:
            with self.block("{"):
                self.define(var, line, body)
            return
        self.scopes[-1].add(self.names[var])
        super().define(var, line, body)

    def store_element(self, stmt: tir.BufferStore, value: str) -> str:
        at = atom(self.index(stmt.indices[0]))
        return put(self.library, stmt.value.dtype, self.pointer(stmt.buffer), at, value)

    def scatter(self, stmt: tir.BufferStore, value: str) -> str:
        dtype, places = stmt.value.dtype, stmt.indices[0]
        mask = f"(char{dtype.lanes})(-1)" if stmt.predicate is None else self.value(stmt.predicate)
        function = self.use("scatter_masked", dtype, self.space(stmt.buffer))
        return f"{function}({self.pointer(stmt.buffer)}, {self.vector_index(places)}, {value}, {mask})"

    def store_neighbours(self, stmt: tir.BufferStore, base: str, value: str) -> str:
        dtype, pointer, space = stmt.value.dtype, self.pointer(stmt.buffer), self.space(stmt.buffer)
        if stmt.predicate is not None:
            function = self.use("store_masked", dtype, space)
            return f"{function}({pointer} + {base}, {value}, {self.value(stmt.predicate)})"
        if self.whole(stmt.buffer, stmt.indices[0]):
            return f"{self.word(dtype, space, pointer, base)} = {value}"
        if dtype.scalar == "float16":
            return f"vstore_half{dtype.lanes}_rte({value}, 0, {pointer} + {base})"
        if dtype.scalar == "bfloat16":
            value = f"{self.use('bits', dtype)}({value})"
        elif dtype.is_bool:
            value = f"as_uchar{dtype.lanes}(-({value}))"
        return f"vstore{dtype.lanes}({value}, 0, {pointer} + {base})"

    def evaluate(self, stmt: tir.Evaluate) -> None:
        if isinstance(stmt.value, ex.Call) and stmt.value.op == "tvm_storage_sync":
            common = any(isinstance(arg, ex.StringImm) and arg.value == "global" for arg in stmt.value.args)
            self.line(f"barrier(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' if common else ''});")

    # -- storage

    def allocate(self, stmt: tir.Allocate) -> None:
        if is_shared(stmt.buffer.scope):
            self.registers.pop(stmt.buffer, None)
            self.shared_array(stmt.buffer)
            self.stmt(stmt.body)
            return
        with self.block("{") if self.takes_name(stmt) else nullcontext():
            super().allocate(stmt)

    def takes_name(self, stmt: tir.Allocate) -> bool:
        """Return whether the storage is in memory, under a name that is already declared in this scope. Registers get
        new names.
        """
        name = self.names[stmt.buffer]
        again = name in self.scopes[-1] and registers_of(stmt.buffer, stmt.body) is None
        self.scopes[-1].add(name)
        return again

    def shared_array(self, buffer: tir.Buffer) -> None:
        """Declare an array that a block's threads share. OpenCL C requires it at the top of the kernel."""
        count = self.count_shared(buffer)
        self.shared.append(f"    __local {self.array(buffer, count)}")

    def stack_array(self, buffer: tir.Buffer) -> None:
        self.on_stack.add(buffer)
        self.line(self.array(buffer, self.length(buffer)))

    def array(self, buffer: tir.Buffer, count: int) -> str:
        """Return the declaration of storage, with its buffer's alignment."""
        aligned = f"__attribute__((aligned({buffer.align})))"
        return f"{array_type(buffer.dtype)} {self.names[buffer]}[{max(1, count)}] {aligned};"

    def length(self, buffer: tir.Buffer) -> int:
        self.type_of(buffer.dtype)
        return super().length(buffer)

    def declare_register(self, buffer: tir.Buffer, register: Register, name: str) -> None:
        self.line(f"{self.type_of(buffer.dtype.with_lanes(register.lanes))} {name};")
