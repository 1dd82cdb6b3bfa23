# mypy: ignore-errors
"""Programs with instructions and asynchronous copies, each a check that raises `AssertionError` where it fails."""

from __future__ import annotations

import numpy as np

import minitvm
from minitvm import reference, te, tir
from minitvm.script import from_source
from minitvm.tir import TensorIntrin
from minitvm.tir.transform.pipeline import lower

DOT = "dot_4x16_u8i8i32"


def rows_of_words(n: int = 3, blocks: int = 2, words: int = 3) -> tir.PrimFunc:
    """A product of bytes, its second factor in blocks of 16 rows of words."""
    a = te.placeholder((n, 4 * words), "uint8", name="A")
    b = te.placeholder((blocks, words, 16, 4), "int8", name="B")
    k = te.reduce_axis((0, 4 * words), name="k")

    def term(i, j):
        return a[i, k].astype("int32") * b[j // 16, k // 4, j % 16, k % 4].astype("int32")

    return te.create_prim_func([a, b, te.compute((n, 16 * blocks), lambda i, j: te.sum(term(i, j), axis=k), name="C")])


def tensorized(func: tir.PrimFunc) -> tir.Schedule:
    """The product by the instruction on words."""
    sch = tir.Schedule(func)
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, [None, 16])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i, j_0, k_0, j_1, k_1)
    sch.decompose_reduction("C", k_0)
    sch.tensorize(j_1, DOT)
    return sch


def instruction_means_its_description() -> None:
    func = rows_of_words()
    sch = tensorized(func)
    module = lower(sch.func, "cpu")
    assert any(isinstance(n, tir.Instruction) for _, f in module.items() for n in minitvm.expr.walk(f.body))
    for after in (sch.func, module):
        verdict = reference.check(func, after, modes=("exact", "shadow"))
        assert verdict, verdict


def instruction_runs_as_it_says() -> None:
    func = rows_of_words()
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (3, 12)).astype("uint8")
    b = rng.integers(-128, 128, (2, 3, 16, 4)).astype("int8")
    wanted, found = (np.zeros((3, 32), "int32") for _ in range(2))
    reference.tir.run(func, a, b, wanted)
    minitvm.build(tensorized(func).func, target="cpu")(a, b, found)
    assert (found == wanted).all()


STEPS = """
@T.prim_func
def main(A: T.Buffer((2, N)), C: T.Buffer((2, N))):
    S = T.alloc_buffer((2, N), scope="shared")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for k in T.serial(N // 16, annotations={"software_pipeline_stage": STAGES, "software_pipeline_order": ORDER,
                                                "software_pipeline_async_stages": [0]}):
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                for v in T.vectorized(4):
                    with T.block("load"):
                        vi = T.axis.spatial(2, b)
                        vj = T.axis.spatial(N, k * 16 + tx * 4 + v)
                        S[vi, vj] = A[vi, vj]
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                for v in range(4):
                    with T.block("use"):
                        vi = T.axis.spatial(2, b)
                        vj = T.axis.spatial(N, k * 16 + tx * 4 + v)
                        C[vi, vj] = S[vi, vj // 16 * 16 + 15 - vj % 16] * 2.0
"""


def pipeline(length: int | None = 64, stages: tuple[int, int] = (0, 1), order: tuple[int, int] = (0, 1)):
    """Tiles that come asynchronously while those before are used, back to front; of symbolic length without one."""
    text = STEPS.replace("STAGES", str(list(stages))).replace("ORDER", str(list(order)))
    if length is None:
        head = "def main(a: T.handle, c: T.handle):\n    n = T.int32()\n"
        head += "    A = T.match_buffer(a, (n, 16))\n    C = T.match_buffer(c, (n, 16))\n"
        text = text.replace("def main(A: T.Buffer((2, N)), C: T.Buffer((2, N))):\n", head).replace("N // 16", "n")
        text = text.replace("T.alloc_buffer((2, N)", "T.alloc_buffer((n, 16)").replace(
            "thread_binding(2,", "thread_binding(1,"
        )
        text = text.replace("vi = T.axis.spatial(2, b)", "vi = T.axis.spatial(n, k)")
        text = text.replace("vj = T.axis.spatial(N, k * 16 + tx * 4 + v)", "vj = T.axis.spatial(16, tx * 4 + v)")
        return from_source(text.replace("vj // 16 * 16 + 15 - vj % 16", "15 - vj"))
    return from_source(text.replace("N", str(length)))


PIPELINES = [
    (64, (0, 1), (0, 1)), (64, (0, 2), (0, 1)), (64, (0, 1), (1, 0)), (80, (0, 3), (1, 0)), (16, (0, 1), (0, 1)),
    (32, (0, 2), (0, 1)), (64, (0, 0), (0, 1)), (None, (0, 1), (0, 1)), (None, (0, 2), (1, 0)),
]  # fmt: skip


def pipeline_keeps_its_meaning(k: int) -> None:
    func = pipeline(*PIPELINES[k])
    module = lower(func, "cuda -arch=sm_80")
    assert any(isinstance(n, tir.Async) for _, f in module.items() for n in minitvm.expr.walk(f.body))
    verdict = reference.check(func, module, modes=("exact", "shadow", "order"))
    assert verdict, verdict


def pipeline_runs(k: int) -> None:
    """The simulator lets copies arrive as late as they may."""
    if PIPELINES[k][0] is None:
        return
    func = pipeline(*PIPELINES[k])
    a = np.random.default_rng(k).random((2, PIPELINES[k][0]), "float32")
    wanted, found = np.zeros_like(a), np.zeros_like(a)
    reference.tir.run(func, a, wanted)
    minitvm.build(func, target="cuda -arch=sm_80")(a, found)
    assert (found == wanted).all()


CHECKS = [
    instruction_means_its_description,
    instruction_runs_as_it_says,
    *(lambda k=k: pipeline_keeps_its_meaning(k) for k in range(len(PIPELINES))),
    *(lambda k=k: pipeline_runs(k) for k in range(len(PIPELINES))),
]


def registered(name: str, dialects: tuple[str, ...] = ("nowhere",)) -> TensorIntrin:
    """A made-up machine's multiply-add of 2 x 2 tiles, with spellings that no test needs."""
    from minitvm.script import tir as T

    @T.prim_func
    def desc(A: T.Buffer((2, 2)), B: T.Buffer((2, 2)), C: T.Buffer((2, 2))) -> None:
        with T.block("root"):
            T.reads(C[0:2, 0:2], A[0:2, 0:2], B[0:2, 0:2])
            T.writes(C[0:2, 0:2])
            for i, j, k in T.grid(2, 2, 2):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    def spell(emitter, stmt) -> None:
        emitter.line(f"# {stmt.name}")

    return TensorIntrin.register(name, desc, override=True, instruction=dict.fromkeys(dialects, spell))


def product_of_tiles(name: str, n: int = 4) -> tuple[tir.PrimFunc, tir.Schedule]:
    """A matmul in float32 whose 2 x 2 tiles are instructions."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    r = te.reduce_axis((0, n), name="k")
    func = te.create_prim_func([a, b, te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")])
    sch = tir.Schedule(func)
    i, j, k = sch.get_loops("C")
    (i_0, i_1), (j_0, j_1), (k_0, k_1) = (sch.split(loop, [None, 2]) for loop in (i, j, k))
    sch.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
    sch.decompose_reduction("C", k_0)
    sch.tensorize(i_1, name)
    return func, sch
