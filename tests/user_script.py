"""What a user writes: a program, a schedule, a model, a check."""

from __future__ import annotations

import numpy as np

import minitvm as tvm
from minitvm import reference, te, tir
from minitvm.graph import Graph, GraphBuilder
from minitvm.script import ir as I
from minitvm.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.serial(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)


sch = tir.Schedule(matmul, seed=1)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
outer, inner = sch.split(i, factors=[None, 4])
sch.reorder(outer, j, k, inner)
sch.vectorize(inner)
tile: list[tir.schedule.ExprRV] = sch.sample_perfect_tile(j, n=2)
sch.mod.show()
verdict = reference.check(sch.func, sch.func)
print(bool(verdict), verdict.mode)

other = tir.Schedule(Module)

b = GraphBuilder("layer")
graph: Graph = b.build(b.op("nn.relu", b.input("x", (2, 3))))
module = tvm.build(graph, threads=1)
print(module(np.zeros((2, 3), "float32")), module.output_names)
text: str = tvm.lower(graph, stop_at="source")["relu"]
func: tir.PrimFunc = tvm.lower(graph, stop_at="tir")["relu"]
A = te.placeholder((4,), name="A")
double = te.create_prim_func([A, te.compute((4,), lambda i: A[i] * 2.0, name="B")])
run = tvm.build(double)
run(np.zeros(4, "float32"), np.zeros(4, "float32"))
