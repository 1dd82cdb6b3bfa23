"""Graphs whose sizes are open, each imported once and run at several sizes, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import minitvm as tvm
from minitvm.errors import InputError, UnsupportedOperator
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter
from tests.fewer import examples

from .models import model
from .open_cases import CASES, N, difference, floats, ints, unlike
from .sequence_programs import sequence_programs

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", CASES)
def test_what_onnx_runtime_computes_at_each_size(name: str) -> None:
    assert difference(name) == ""


@given(drawn=sequence_programs(), width=st.integers(1, 3))
@examples(10, 60)
def test_sequences_are_joined_and_cut(drawn: tuple[onnx.ModelProto, int], width: int) -> None:
    import onnxruntime

    proto, rows = drawn
    feeds = {"x": floats(rows, 2), "w": -floats(width, 2)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert unlike(interpreter.run(from_onnx(proto), feeds), session.run(None, feeds), 0) == ""


FULL = [pytest.param(name, marks=pytest.mark.full) for name in ("RoiAlign, avg, half_pixel", "antialias, ratio kept")]


@pytest.mark.parametrize("name", [*FULL, "a loop that appends", "a shape with 0 where there are three rows, at 0"])
def test_compiled_at_each_size(name: str) -> None:
    case = CASES[name]
    graph = from_onnx(case.model())
    module = tvm.build(graph, threads=1)
    for size in case.sizes:
        found, feeds = module(**case.feeds(size)), case.feeds(size)
        listed = list(found) if isinstance(found, list | tuple) else [found]
        assert unlike(listed, interpreter.run(graph, feeds), 1e-4) == ""


def test_a_reshape_that_would_divide_by_zero_names_its_node() -> None:
    nodes = [
        N("Shape", ["w"], ["rows"]),
        N("Concat", ["rows", "rest"], ["shape"], axis=0),
        N("Reshape", ["x", "shape"], ["y"], name="rows_of_w"),
    ]
    infos = [("x", TensorProto.FLOAT, ["n", 6]), ("w", TensorProto.FLOAT, ["k"])]
    graph = from_onnx(model(nodes, infos, ["y"], {"rest": ints(-1)}))
    assert interpreter.run(graph, [floats(2, 6), floats(3)])[0].shape == (3, 4)
    with pytest.raises(InputError, match=r"Reshape \(node rows_of_w\) does not take these sizes"):
        interpreter.run(graph, [floats(2, 6), floats(0)])


def test_a_sequence_that_a_loop_extends_is_read_behind_it_only() -> None:
    value, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [N("SequenceInsert", ["list", "x"], ["list1"]), N("SequenceLength", ["list1"], ["l"], name="inside"),
         N("Identity", ["c"], ["c2"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []),
         sequence("list", TensorProto.FLOAT, None)],
        [value("c2", TensorProto.BOOL, []), sequence("list1", TensorProto.FLOAT, None),
         value("l", TensorProto.INT64, [])],
    )  # fmt: skip
    nodes = [N("Size", ["x"], ["s"]), N("SequenceEmpty", [], ["e"]),
             N("Loop", ["s", "true", "e"], ["all", "y"], body=body)]  # fmt: skip
    infos = [("x", TensorProto.FLOAT, ["n"])]
    with pytest.raises(UnsupportedOperator, match=r"node inside.*can be read behind the loop only"):
        from_onnx(model(nodes, infos, ["y"], {"true": np.array(True)}))
