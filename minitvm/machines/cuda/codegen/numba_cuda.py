"""Write kernels as Python for Numba CUDA, with the same vector operations as CPU kernels.

    from numba import cuda
    from minitvm.machines.simd.vectors.simd import load_whole, pointer_f32, store_whole

    def add_kernel_0(A_word, B_word, C_word):
        A = pointer_f32(A_word)
        ...
        bx = i32(cuda.blockIdx.x)
        tx = i32(cuda.threadIdx.x)
        at = i32(bx * 256 + tx * 4)
        store_whole(C, at, load_whole(A, at, 4) + load_whole(B, at, 4))

Indices have 32 bits if all indices of a kernel fit, and 64 bits otherwise. Python's operators compute in int64, but if
a complete index is converted to 32 bits, the compiler does all steps in 32 bits.

A parameter is a word of 64 bits: a buffer's address, an integer, or the bits of a float in the low end. Loops over
blockIdx and threadIdx are the grid that the host launches. A parallel loop is shared out among all threads.
"""

from __future__ import annotations

from math import prod

from .... import expr as ex
from ....codegen.index_width import index_dtype
from ....errors import Unsupported
from ....expr.conditions import is_const
from ....expr.intrin import COLLECTIVES
from ....target import Target
from ....tir import nodes as tir
from ....tir.analysis.dynamic_shared import dynamic_storage
from ....tir.analysis.threads import LANES, is_hardware_thread, is_of_a_warp, is_shared
from ....tir.async_copies import COMMIT, SIZES, WAIT
from ...gpu.codegen.grids import GridEmitter
from ...simd.codegen.numba_expressions import short_name
from ...simd.codegen.numba_statements import NumbaStatements, import_lines
from ...simd.codegen.operands import access_outside
from ..capability import has_asynchronous_copies
from ..tensor_intrin.warpgroups import reads_by_proxy
from . import warpgroups
from .tensor_cores import refuse_other_accesses

SHARED_BYTES = 48 << 10  # of the arrays that a kernel declares; a launch gives more, of scope shared.dyn
_WARP = 32
THREADS = "THREADS_OF_A_BLOCK"  # the constant of a module text by which runtime.cuda.compiler knows it
_EVERYBODY = "i64(cuda.blockIdx.x) * i64(cuda.blockDim.x) + i64(cuda.threadIdx.x)"
_ALL = "i64(cuda.gridDim.x) * i64(cuda.blockDim.x)"


def generate(kernel: tir.PrimFunc, target: Target | None = None) -> str:
    """Return the module text of a kernel: import lines, and a function with the kernel's name.

    Raises `Unsupported` for features that a CUDA kernel cannot express, and for a grid or storage beyond the target's
    limits.
    """
    return _NumbaCUDA(kernel, target).module()


class _NumbaCUDA(GridEmitter, NumbaStatements):
    dialect = "numba-cuda"
    language = "a CUDA kernel"
    static_shared_bytes = SHARED_BYTES
    whole_vectors = True

    def __init__(self, kernel: tir.PrimFunc, target: Target | None) -> None:
        super().__init__(kernel, target)
        self.index_dtype = index_dtype(kernel)
        self.names.used_names |= {"cuda"}
        self.dynamic, _ = dynamic_storage(kernel)  # where each buffer begins in what the launch gives
        self.operations: set[str] = set()  # of CUDA alone
        self.has_products = any(isinstance(n, tir.Instruction) and reads_by_proxy(n.name) for n in ex.walk(kernel.body))
        # The variables of tiles of fragments, with the places of their pieces, by the place of each piece.
        self.fragments: dict[tuple[tir.Buffer, int], tuple[str, tuple[int, ...]]] = {}
        self.lane = "0"  # the thread in its warp
        self.shared: dict[tir.Buffer, str] = {}  # declarations, which stand at the top of a kernel

    def module(self) -> str:
        self.check_grid()
        self.depth = 1
        words = [self.names.fresh(f"{param.name}_word") for param in self.kernel.params]
        for param, word in zip(self.kernel.params, words, strict=True):
            self.bind_parameter(param, word)
        begin = len(self.lines)
        self.stmt(self.kernel.body)
        lines = [*self.lines[:begin], *self.shared.values(), *self.lines[begin:]]
        if not any(not line.strip().startswith("#") for line in lines):
            lines.append("    pass")
        text = self.header()
        if any("cuda." in line for line in lines):
            text.append("from numba import cuda")
        self.operations |= {
            f"{'dynamic' if buffer in self.dynamic else 'shared'}_{short_name(buffer.dtype)}" for buffer in self.shared
        }
        text += import_lines(sorted(self.operations), "minitvm.machines.cuda.runtime.operations")
        text += import_lines(sorted(self.imports - {"INF", "NAN"}), "minitvm.machines.simd.vectors.simd")
        threads = self.threads_of_a_block()
        text += [] if threads is None else ["", f"{THREADS} = {threads}"]
        text += [*self.constants(), "", "", f"def {self.kernel.name}({', '.join(words)}):", *lines, ""]
        return "\n".join(text)

    def threads_of_a_block(self) -> int | None:
        """Return the number of threads of a block for the assembler, or None if no warps of the kernel run instructions
        together.

        Without this number, the assembler leaves registers for larger blocks, and loads fragments only when they are
        needed instead of in advance. With it, a product of 4096 x 4096 x 4096 uses 208 registers per thread instead of
        167.
        """
        if not any(isinstance(n, tir.Instruction) and n.together == _WARP for n in ex.walk(self.kernel.body)):
            return None
        extents = {n.thread: n.extent for n in ex.find(self.kernel.body, tir.For) if is_hardware_thread(n)}
        sizes = [extent.value for extent in extents.values() if isinstance(extent, ex.IntImm)]
        return prod(sizes) if len(sizes) == len(extents) else None

    def team(self) -> tuple[str, str]:
        self.use("i64")
        me, all_of_them = self.names.fresh("worker"), self.names.fresh("workers")
        self.line(f"{me} = {_EVERYBODY}")
        self.line(f"{all_of_them} = {_ALL}")
        return me, all_of_them

    def thread(self, stmt: tir.For) -> None:
        """Write a loop over the grid: its variable is the position of the thread."""
        index, axis = self.axis(stmt)
        start = "" if is_const(stmt.start, 0) else f" + {self.index(stmt.start)}"
        self.line(f"{self.names[stmt.var]} = {self.to_index(f'cuda.{index}.{axis}{start}')}")
        if stmt.thread == LANES:
            self.lane = self.names[stmt.var]
        self.stmt(stmt.body)

    def evaluate(self, stmt: tir.Evaluate) -> None:
        if isinstance(stmt.value, ex.Call) and stmt.value.op == "tvm_storage_sync":
            if self.has_products:
                warpgroups.finish(self)
                self.line(f"{self.operation('proxy_fence')}()")  # they see what was written to shared storage
            self.line("cuda.syncthreads()")
        elif isinstance(stmt.value, ex.Call) and stmt.value.op in (COMMIT, WAIT) and self.has_async_copies:
            pending = ", ".join(self.index(arg) for arg in stmt.value.args)
            self.line(f"{self.operation('async_commit' if stmt.value.op == COMMIT else 'async_wait')}({pending})")

    def operation(self, name: str) -> str:
        """Return the name of one of CUDA's operations, and add it to the import statement."""
        self.operations.add(name)
        return name

    @property
    def has_async_copies(self) -> bool:
        """Return whether the target has the instruction `cp.async`."""
        return has_asynchronous_copies(self.target)

    def begun(self, stmt: tir.Async) -> None:
        """Write `cp.async` of 4, 8 or 16 bytes from global to shared storage, or of zeros. Any other copy is done
        immediately.
        """
        store, load = stmt.body, tir.copied_load(stmt.body.value)
        lanes = store.value.dtype.lanes
        condition = store.value.args[0] if isinstance(store.value, ex.Call) else None
        fits = (
            self.has_async_copies
            and load is not None
            and (condition is None or condition.dtype.lanes == 1)
            and is_shared(store.buffer.scope)
            and load.buffer in self.kernel.params
            and store.predicate is None
            and load.predicate is None
            and lanes * store.buffer.dtype.bytes in SIZES
            and (lanes == 1 or all(self.whole(a.buffer, a.indices[0]) for a in (store, load)))
        )
        if not fits or load is None:
            self.store(store)
            return
        to, source = (
            f"{self.names[a.buffer]}, {self.place(a.indices[0]) if lanes == 1 else self.contiguous(a.indices[0])}"
            for a in (store, load)
        )
        if condition is None:
            self.line(f"{self.operation('async_copy')}({to}, {source}, {lanes})")
        else:
            self.line(f"{self.operation('async_copy_if')}({to}, {source}, {lanes}, {self.value(condition)})")

    def call(self, x: ex.Call) -> str:
        if x.op not in COLLECTIVES:
            return super().call(x)
        if x.op == "tvm_warp_activemask":
            return f"{self.operation('warp_active')}()"
        if not is_const(x.args[4], _WARP) or not isinstance(x.args[3], ex.IntImm):
            raise Unsupported(f"{x}: a warp of CUDA has {_WARP} threads, and a section a constant number of them")
        name = self.operation(x.op.removeprefix("tvm_"))
        mask, value, by = (self.value(a) for a in x.args[:3])
        return f"{name}({mask}, {value}, {by}, {x.args[3].value})"

    def tile(self, buffer: tir.Buffer, places: tuple[int, ...]) -> str:
        """Return the variable for a tile of a fragment: a tuple of the registers of its pieces, which begin at
        `places`.

        Raises `Unsupported` if other instructions divide the fragment into different tiles. (One variable per register
        would need four times as many variables, and Numba's compile time grows with the number of variables and
        statements.)
        """
        if (buffer, places[0]) not in self.fragments:
            fresh = self.names.fresh(f"{buffer.name}_{places[0]}")
            self.fragments.update({(buffer, place): (fresh, places) for place in places})
        held = {self.fragments.get((buffer, place)) for place in places}
        if held != {(self.fragments[buffer, places[0]][0], places)}:
            raise Unsupported(
                f"{buffer.name}[{places[0]}]: its registers are those of one tile for some instructions and of another"
                " for others\n  wanted: instructions that cut a fragment into the same tiles"
            )
        return self.fragments[buffer, places[0]][0]

    def fragment(self, stmt: tir.Allocate) -> None:
        """Allocate a fragment, which needs no storage. Raises `Unsupported` if other statements access it."""
        if access_outside(stmt.buffer, stmt.body) is not None:
            raise refuse_other_accesses(self.kernel.name, stmt.buffer)
        self.stmt(stmt.body)

    def allocate(self, stmt: tir.Allocate) -> None:
        if is_of_a_warp(stmt.buffer.scope):
            self.fragment(stmt)
            return
        if not is_shared(stmt.buffer.scope):
            super().allocate(stmt)
            return
        buffer = stmt.buffer
        self.registers.pop(buffer, None)
        if buffer not in self.shared:
            count, kind = max(1, self.count_shared(buffer)), short_name(self.scalar(buffer))
            offset = self.dynamic.get(buffer)
            array = f"shared_{kind}({count})" if offset is None else f"dynamic_{kind}({offset}, {count})"
            self.shared[buffer] = f"    {self.names[buffer]} = {array}"
        self.stmt(stmt.body)
