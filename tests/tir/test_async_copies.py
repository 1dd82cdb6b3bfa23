"""Asynchronous copies: pipelines that begin them, and what an interpreter finds where nobody waits."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import reference, tir
from minitvm.errors import ExecutionError, InputError, ParseError, ScheduleError
from minitvm.expr import structural_equal, walk
from minitvm.script import from_source
from minitvm.tir import Async
from minitvm.tir.transform.pipeline import lower
from tests.tir.instruction_programs import PIPELINES, pipeline, pipeline_keeps_its_meaning

KERNEL = """
@T.prim_func(lowered=True)
def main(A: T.Buffer((64,)), C: T.Buffer((64,))):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        S = T.decl_buffer((32,), scope="shared")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.async_scope():
                S[tx] = A[b * 32 + tx]
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.tvm_storage_sync("shared")
            C[b * 32 + tx] = S[31 - tx]
"""


def run(text: str, order: str = "forward", shadow: bool = True) -> np.ndarray:
    a = np.arange(64, dtype="float32")
    c = np.full(64, -1, "float32")
    with np.errstate(all="ignore"):
        reference.kernel.run(from_source(text), a, c, order=order, shadow=shadow, mode="slow",
                             inout=["A"] if "A[b * 32 + tx] = 0" in text else [])  # fmt: skip
    return c


WANTED = np.arange(64, dtype="float32").reshape(2, 32)[:, ::-1].reshape(-1)


@pytest.mark.parametrize("k", range(len(PIPELINES)))
def test_pipeline_keeps_its_meaning(k: int) -> None:
    pipeline_keeps_its_meaning(k)


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_copies_arrive_by_the_wait(order: str) -> None:
    np.testing.assert_array_equal(run(KERNEL, order), WANTED)
    fast = np.zeros(64, "float32")
    reference.kernel.run(from_source(KERNEL), np.arange(64, dtype="float32"), fast, shadow=False)
    np.testing.assert_array_equal(fast, WANTED)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("            T.ptx_wait_group(0)\n", "", "read before the copy was waited for"),
        ("T.ptx_wait_group(0)", "T.ptx_wait_group(1)", "read before the copy was waited for"),
        ("            T.ptx_commit_group()\n", "", "read before the copy was waited for"),
        ('            T.tvm_storage_sync("shared")\n', "", "conflicting accesses|has not been written"),
        ("            T.ptx_commit_group()\n", "            S[tx] = 0.0\n            T.ptx_commit_group()\n",
         "written before"),
        ("            T.ptx_commit_group()\n", "            A[b * 32 + tx] = 0.0\n            T.ptx_commit_group()\n",
         "written before"),
        ("            C[b * 32 + tx] = S[31 - tx]\n", "            C[b * 32 + tx] = S[31 - tx]\n            with "
         "T.async_scope():\n                S[31 - tx] = A[b * 32 + tx]\n", "nothing waited for"),
        ("            T.ptx_wait_group(0)\n            T.tvm_storage_sync(\"shared\")\n",
         "            T.tvm_storage_sync(\"shared\")\n            T.ptx_wait_group(0)\n",
         "conflicting accesses|before the copy was waited for"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_what_is_not_waited_for_is_found(old: str, new: str, message: str, order: str) -> None:
    assert old in KERNEL
    with pytest.raises(ExecutionError, match=message):
        run(KERNEL.replace(old, new), order)


def test_orders_make_copies_early_and_late() -> None:
    text = KERNEL.replace("            T.ptx_wait_group(0)\n", "")
    np.testing.assert_array_equal(run(text, "forward", shadow=False), WANTED)
    assert not np.array_equal(run(text, "backward", shadow=False), WANTED)


def test_a_wait_leaves_the_newest_groups_under_way() -> None:
    two = KERNEL.replace(
        "            T.ptx_wait_group(0)\n",
        "            with T.async_scope():\n                T_[tx] = A[tx]\n            T.ptx_commit_group()\n"
        "            T.ptx_wait_group(1)\n",
    ).replace('scope="shared")\n', 'scope="shared")\n        T_ = T.decl_buffer((32,), scope="shared")\n', 1)
    done = two.rstrip("\n") + "\n            T.ptx_wait_group(0)\n"
    np.testing.assert_array_equal(run(done), WANTED)
    with pytest.raises(ExecutionError, match="nothing waited for"):
        run(two)


def test_text_reads_back() -> None:
    for func in (from_source(KERNEL), *(f for _, f in lower(pipeline(), "cuda").items())):
        assert structural_equal(from_source(func.script()), func)


def test_copies_of_tvm() -> None:
    text = """
    @T.prim_func
    def main(A: T.Buffer((2, 32)), C: T.Buffer((64,))):
        S = T.alloc_buffer((8, 8), scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("copy"):
                    vt = T.axis.spatial(16, tx)
                    T.reads(A[0:2, 0:32])
                    T.writes(S[0:8, 0:8])
                    T.ptx_cp_async("float32", S.data, vt * 4, A.data, vt * 4, 16)
                    T.ptx_commit_group()
                    T.ptx_wait_group(0)
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                for v in range(4):
                    with T.block("use"):
                        vi = T.axis.spatial(64, tx * 4 + v)
                        C[63 - vi] = S[vi // 8, vi % 8]
    """
    func = from_source(text)
    a, c = np.arange(64, dtype="float32").reshape(2, 32), np.zeros(64, "float32")
    reference.tir.run(func, a, c)
    np.testing.assert_array_equal(c, a.reshape(-1)[::-1])
    module = lower(func, "cuda")
    assert reference.check(func, module, modes=("exact", "shadow", "order"))
    copies = [n for _, f in module.items() for n in walk(f.body) if isinstance(n, Async)]
    assert [n.body.value.dtype.lanes for n in copies] == [4]
    for wrong in ("S.data, vt * 4, A.data, vt * 4, 12", "S, vt * 4, A.data, vt * 4, 16"):
        with pytest.raises((InputError, ParseError)):
            from_source(text.replace("S.data, vt * 4, A.data, vt * 4, 16", wrong))


def test_asynchronous_stages_are_stages() -> None:
    func = from_source(pipeline().script().replace('"software_pipeline_async_stages": [0]', "").replace(", }", "}"))
    sch = tir.Schedule(func)
    loop = sch.get_loops("load")[1]
    with pytest.raises(ScheduleError, match="numbers of stages"):
        sch.annotate(loop, "software_pipeline_async_stages", [4])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    assert structural_equal(lower(sch.func, "cuda")["main_kernel_0"], lower(pipeline(), "cuda")["main_kernel_0"])


def test_what_is_no_plain_copy_stays_as_it_is() -> None:
    text = pipeline().script()
    for old, new in (("A[vi, vj]\n", "A[vi, vj] * T.float32(1.5)\n"), ('scope="shared"', 'scope="local"')):
        assert old in text
        try:
            module = lower(from_source(text.replace(old, new)), "cuda")
        except Exception:
            continue
        assert not any(isinstance(n, Async) for _, f in module.items() for n in walk(f.body))
