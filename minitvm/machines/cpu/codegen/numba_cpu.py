"""Python for Numba on CPUs: the module and its statements, over the SIMD vectors of `machines.simd.vectors.simd`.

A kernel becomes `def name(args, thread, threads)`: `args[i]` is the address of buffer parameter i or the value of
scalar parameter i (a float scalar as its bits, in the low end of the word). `numba_expressions` writes the expressions.
"""

from __future__ import annotations

from ....errors import Unsupported, report
from ....expr import Call
from ....target import Target
from ....tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, Evaluate, For, Prefetch, PrimFunc
from ....tir.script.printer import script
from ...simd.codegen.numba_statements import NumbaStatements, import_lines
from ...simd.codegen.operands import access_outside
from ...simd.tile_intrinsics import SCOPE


def generate(kernel: PrimFunc, target: Target | None = None) -> str:
    """Return a kernel's module text: an import line, and a function with the kernel's name.

    Raises `Unsupported` for features that a CPU kernel cannot express (thread axes, barriers, vector-typed buffers).
    """
    return _NumbaCPU(kernel, target).module()


class _NumbaCPU(NumbaStatements):
    language = "a CPU kernel"
    dialect = "numba-cpu"

    def __init__(self, kernel: PrimFunc, target: Target | None) -> None:
        super().__init__(kernel, target)
        self.tiles: dict[tuple[Buffer, int], str] = {}  # the variables of tiles, by buffer and place

    # -- the module

    def module(self) -> str:
        self.depth = 1
        for position, param in enumerate(self.kernel.params):
            self.bind_parameter(param, f"args[{position}]")
        self.stmt(self.kernel.body)
        if not any(not line.strip().startswith("#") for line in self.lines):
            self.line("pass")
        names = sorted(self.imports - {"INF", "NAN"})
        lines = [*self.header(), *import_lines(names, "minitvm.machines.simd.vectors.simd")]
        lines += [*self.constants(), "", "", f"def {self.kernel.name}(args, thread, threads):", *self.lines, ""]
        return "\n".join(lines)

    def team(self) -> tuple[str, str]:
        return "thread", "threads"

    def thread(self, stmt: For) -> None:
        raise self.on_a_grid(stmt)

    def on_a_grid(self, stmt: For) -> Unsupported:
        """Return the error for a loop over the blocks or threads of a GPU."""
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

    def allocate(self, stmt: Allocate) -> None:
        if stmt.buffer.scope != SCOPE:
            super().allocate(stmt)
            return
        touched = access_outside(stmt.buffer, stmt.body)
        if touched is not None:
            raise self.on_a_tile(touched)
        self.stmt(stmt.body)

    def tile(self, buffer: Buffer, place: int) -> str:
        """Return the variable for the tile that begins at a place of a buffer of tile registers."""
        if (buffer, place) not in self.tiles:
            self.tiles[buffer, place] = self.names.fresh(f"{buffer.name}_{place}")
        return self.tiles[buffer, place]

    def on_a_tile(self, access: BufferLoad | BufferStore) -> Unsupported:
        """Return the error for an access of a single element of a tile register."""
        return Unsupported(
            report(
                f"{self.kernel.name}: {access.buffer.name} is held in tile registers, which only instructions touch",
                program=script(self.kernel, mark={access: "here"}, context=3),
                wanted="no other loads and stores of it",
                found=f"an element of {access.buffer.name}",
                tries=("tensorize the blocks that fill it and store it",),
            )
        )

    def evaluate(self, stmt: Evaluate) -> None:
        if isinstance(stmt.value, Call) and stmt.value.op == "tvm_storage_sync":
            raise Unsupported("a barrier in a CPU kernel: kernels are separated by barriers, they contain none")

    def prefetch(self, stmt: Prefetch) -> None:
        self.line(f"{self.use('prefetch')}({self.names[stmt.buffer]}, {self.index(stmt.index)})")
