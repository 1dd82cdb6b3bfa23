"""Nothing is linked that leaves an output, or what a step reads, unwritten; a part is not the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.build import compile_executable
from minitvm.errors import InternalError
from minitvm.executable import Input, Output, TensorSpec
from minitvm.expr import DType
from minitvm.link import Linker, Slot, link_function
from minitvm.link.steps import CopyStep
from minitvm.lowering import lower_function
from minitvm.reference import check
from minitvm.reference.strategies import graphs
from minitvm.reference.strategies.graphs import RandomGraph
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.analysis.kernel_access import buffer_access
from minitvm.tir.transform.pipeline import lower

CPU = Target.of("cpu")
MOVES = ("unary", "arithmetic", "transpose", "concatenate", "stack", "split", "slice", "reduction")


@given(graphs(largest=4, moves=MOVES, symbolic=False, empty=False), st.integers(0, 99))
@settings(max_examples=8)
def test_a_graph_without_one_of_its_steps_is_not_linked(drawn: RandomGraph, choice: int) -> None:
    """As after a wrong fusion: nobody computes a value that is read, or given out."""
    finish: Callable[..., Any] = Linker.finish
    dropped: list[Any] = []

    def without_a_step(linker: Linker, *args: Any, **kwargs: Any) -> Any:
        if linker.steps:
            dropped.append(linker.steps.pop(choice % len(linker.steps)))
        return finish(linker, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Linker, "finish", without_a_step)
        try:
            compile_executable(drawn.graph, CPU)
        except InternalError:
            return
    # A step of no bytes is not missed.
    assert not dropped or _no_bytes(dropped[0])


def _no_bytes(step: Any) -> bool:
    slots = [step.dst] if isinstance(step, CopyStep) else [a for a in step.args if isinstance(a, Slot)]
    return any(slot.nbytes == 0 for slot in slots)


def test_an_output_that_no_step_writes_is_refused() -> None:
    spec = TensorSpec("y", DType("float32"), (4,))
    with pytest.raises(InternalError, match="no step writes the output y"):
        Linker("cpu").finish("main", [], [spec])
    linker = Linker("cpu")
    linker.copy(Slot("y", 16, Output(0)), Slot("between", 16))
    with pytest.raises(InternalError, match="reads between, which no step before it writes"):
        linker.finish("main", [], [spec])


def test_a_part_is_not_the_whole() -> None:
    func = from_source("""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B[0] = A[0]
    for i in range(4):
        C[i] = B[i]
""")
    lowered = lower_function(func, CPU)
    access = {p.name: p.access for kernel in lowered.kernels.values() for p in kernel.params}
    assert access == {"A": "r", "B": "rw", "C": "w"}
    assert {spec.name: spec.inout for spec in link_function(lowered, "cpu").outputs} == {"B": True, "C": False}


GAPS = {
    "every second element": ("for i in range(3):\n        B[2 * i] = A[i]", 5),
    "those that data picks": ("for i in range(5):\n        if A[i] > T.float32(0):\n            B[i] = A[i]", 5),
    "all but one in the middle": ("for i in range(5):\n        if i != 2:\n            B[i] = A[i]", 5),
}


@pytest.mark.parametrize("kind", GAPS)
def test_what_is_read_between_the_parts_that_are_written_is_passed_in(kind: str) -> None:
    writes, n = GAPS[kind]
    func = from_source(f"""
@T.prim_func
def f(A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "float32"), C: T.Buffer(({n},), "float32")):
    {writes}
    for i in range({n}):
        C[i] = B[i]
""")
    assert buffer_access(func.body)[func.buffers[1]] == "rw"
    assert {spec.name: spec.inout for spec in link_function(lower_function(func, CPU), "cpu").outputs}["B"]


def _copies(name: str, n: int) -> Any:
    func = from_source(f"""
@T.prim_func
def {name}(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range({n}):
        B[i] = A[i]
""")
    return lower_function(func, CPU)


@given(st.lists(st.integers(1, 16), min_size=1, max_size=2), st.integers(1, 16))
@settings(max_examples=8, deadline=None)
def test_a_step_that_reads_more_than_was_written_is_not_linked(written: list[int], read: int) -> None:
    linker = Linker("cpu")
    spec = TensorSpec("y", DType("float32"), (16,))
    between, y = Slot("between", 64), Slot("y", 64, Output(0))
    for number, n in enumerate(written):
        linker.call(_copies(f"part{number}", n), [Slot("x", 64, Input(0)), between], {})
    linker.call(_copies("whole", read), [between, y], {})
    linker.copy(y, Slot("x", 64, Input(0)))
    if sum(written) >= read:
        linker.finish("main", [TensorSpec("x", DType("float32"), (16,))], [spec])
        return
    with pytest.raises(InternalError, match=f"whole reads {4 * read} bytes of between, .* write {4 * sum(written)} at"):
        linker.finish("main", [TensorSpec("x", DType("float32"), (16,))], [spec])


NEVER = {
    "empty loop": "for i in range(0):\n        B[i] = A[i]",
    "false condition": "for i in range(4):\n        if i > 5:\n            B[i] = A[i]",
    "empty inner loop": "for i in range(4):\n        for j in range(i - i):\n            B[j] = A[i]",
    "contradiction": "for i in range(4):\n        if i < 2:\n            if i > 3:\n                B[i] = A[i]",
    "view": "for i in range(0):\n        with T.block('b'):\n            vi = T.axis.spatial(4, i)\n"
    "            v = T.match_buffer(B[0:4], (4,))\n            v[vi] = A[vi]",
}


@pytest.mark.parametrize("kind", NEVER)
@pytest.mark.parametrize("besides", ["", "for i in range(4):\n        C[i] = A[i] + B[i]"])
def test_a_write_that_never_happens_makes_an_output(kind: str, besides: str) -> None:
    func = from_source(f"""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    {NEVER[kind]}
    {besides or "T.evaluate(0)"}
""")
    verdict = check(func, lower(func, None, "f"), inout=["B"])
    assert verdict, verdict
    a, b, c = (np.full(4, k, "float32") for k in (1, 2, 3))
    tvm.build(func)(a, b, c)
    assert b.tolist() == [2] * 4 and c.tolist() == [3] * 4


def test_a_buffer_of_no_elements_stays_an_output() -> None:
    func = from_source("""
@T.prim_func
def f(A: T.Buffer((0, 4), "float32"), B: T.Buffer((0, 4), "float32")):
    for i, j in T.grid(0, 4):
        B[i, j] = A[i, j] + T.float32(1)
""")
    verdict = check(func, lower(func, None, "f"))
    assert verdict, verdict
    assert [spec.name for spec in link_function(lower_function(func, CPU), "cpu").outputs] == ["B"]
