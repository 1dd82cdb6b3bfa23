"""If: the sizes of both branches, and what a branch that is not taken may not refuse."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import minitvm as tvm
from minitvm.errors import InputError, UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

from .branch_models import BRANCHES, CONDITIONS, Case, N, choosing, inputs, wanted


@given(
    case=st.builds(
        Case, condition=st.sampled_from(list(CONDITIONS)), then=st.sampled_from(list(BRANCHES)),
        other=st.sampled_from(list(BRANCHES)), n=st.integers(1, 5), m=st.integers(1, 5), flag=st.booleans(),
        sign=st.sampled_from([1, -1]),
    ),
)  # fmt: skip
@settings(max_examples=120)
def test_a_size_is_that_of_the_branch_which_is_taken(case: Case) -> None:
    assert not case.difference()


@pytest.mark.parametrize("condition, then, other", [
    ("data", "all", "first"), ("n is even", "pairs", "two"), ("positive", "all", "none"), ("n = 1", "only", "twice"),
])  # fmt: skip
def test_compiled_branches_of_different_sizes(condition: str, then: str, other: str) -> None:
    proto = choosing(condition, BRANCHES[then], BRANCHES[other], [N("Relu", ["z"], ["r"])])
    module = tvm.build(proto, threads=1)
    for n in (1, 2, 3, 8):
        for sign in (1, -1):
            arrays = inputs(n, 4, n > 2, sign)
            np.testing.assert_allclose(module(**arrays), wanted(proto, arrays), rtol=1e-6)


def test_sizes_that_a_condition_makes_equal_are_one_number() -> None:
    """Rows are cut or padded to three: the product behind knows its length, and nothing is left to check."""
    behind = [N("MatMul", ["z", "weight"], ["r"])]
    short = [N("Sub", ["three", "n"], ["more"]), N("Concat", ["zero", "zero", "zero", "more"], ["w"], axis=0),
             N("Transpose", ["x"], ["t"]), N("Pad", ["t", "w"], ["y"])]  # fmt: skip
    long = [N("Slice", ["x", "zero", "three", "zero"], ["s"]), N("Transpose", ["s"], ["y"])]
    proto = choosing("n < 3", short, long, behind)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((3, 2), np.float32), "weight"))
    module = tvm.build(proto, threads=1)
    assert not module.executable.guards
    for n in (1, 3, 4, 7):
        np.testing.assert_allclose(module(**inputs(n, 5)), wanted(proto, inputs(n, 5)), rtol=1e-6)


def test_the_taken_branch_still_checks_its_sizes() -> None:
    module = tvm.build(choosing("n < 3", BRANCHES["two"], BRANCHES["pairs"]), threads=1)
    with pytest.raises(InputError, match=r"operator Reshape .* does not take these sizes: .*n // 2 \* 2"):
        module(**inputs(5, 2))


def test_branches_of_different_ranks_need_sizes() -> None:
    flat = [N("ReduceMax", ["x", "zero"], ["y"], keepdims=0)]
    with pytest.raises(UnsupportedOperator, match=r"(?s)selects results of different types.*try:    shapes="):
        from_onnx(choosing("n < 3", flat, BRANCHES["all"]))
    proto = choosing("n < 3", flat, BRANCHES["all"], shape=(2, "m"))
    np.testing.assert_allclose(interpreter.run(from_onnx(proto), inputs(2, 4))[0], wanted(proto, inputs(2, 4)))


@pytest.mark.parametrize(
    "behind", [
        [N("ReduceSum", ["z"], ["r"], keepdims=0)],
        [N("Flatten", ["z"], ["flat"], axis=0), N("Tanh", ["flat"], ["r"])],
        [N("Add", ["z", "x"], ["sum"]), N("Mul", ["sum", "sum"], ["r"])],
    ], ids=lambda nodes: nodes[0].op_type,
)  # fmt: skip
def test_ranks_that_data_decide_meet_behind_the_branches(behind: list[onnx.NodeProto]) -> None:
    """The nodes behind the branches are compiled for each rank, until both results have one again."""
    flat = [N("ReduceMax", ["x", "zero"], ["y"], keepdims=0)]
    proto = choosing("data", flat, BRANCHES["all"], behind)
    graph, module = from_onnx(proto), tvm.build(proto, threads=1)
    for n in (1, 3):
        for flag in (True, False):
            arrays = inputs(n, 4, flag)
            expected = wanted(proto, arrays)
            np.testing.assert_allclose(interpreter.run(graph, arrays)[0], expected, rtol=1e-5)
            np.testing.assert_allclose(module(**arrays), expected, rtol=1e-5)


def test_ranks_that_data_decide_are_no_result() -> None:
    flat = [N("ReduceMax", ["x", "zero"], ["y"], keepdims=0)]
    with pytest.raises(UnsupportedOperator, match="the condition of branches with results of different types"):
        from_onnx(choosing("data", flat, BRANCHES["all"]))
