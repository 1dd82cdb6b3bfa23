"""Graphs whose sizes are open, each imported once and run at several sizes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter

from .models import model

N = helper.make_node
Make = Callable[[int], np.ndarray]


@dataclass(frozen=True)
class Case:
    """Nodes from inputs to `outputs`; an input has declared dimensions, and an array for each size."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, tuple[Sequence[Any], Make]]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    sizes: Sequence[int] = (1, 2, 7)
    opset: int = 18
    tolerance: float = 2e-5

    def model(self) -> onnx.ModelProto:
        infos = [
            (name, helper.np_dtype_to_tensor_dtype(make(2).dtype), dims) for name, (dims, make) in self.inputs.items()
        ]
        return model(self.nodes, infos, self.outputs, self.constants, opset=self.opset)

    def feeds(self, size: int) -> dict[str, np.ndarray]:
        return {name: make(size) for name, (_, make) in self.inputs.items()}


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values)


def boxes(count: int) -> np.ndarray:
    """Boxes of any size, some of them outside and some turned around."""
    draw = np.random.default_rng(count)
    corner = draw.uniform(-4, 20, (count, 2))
    return np.concatenate([corner, corner + draw.uniform(-1, 30, (count, 2))], 1).astype(np.float32)


PICTURE = ([1, 2, "h", "w"], lambda n: floats(1, 2, n + 1, 2 * n + 3))


def resized(sizes: np.ndarray | None, scales: Sequence[float] | None = None, **attrs: Any) -> Case:
    names = ["x", "", "", "s"] if sizes is not None else ["x", "", "s"]
    wanted = sizes if sizes is not None else np.array(scales, np.float32)
    return Case([N("Resize", names, ["y"], **attrs)], {"x": PICTURE}, {"s": wanted}, sizes=(0, 1, 7), tolerance=1e-3)


def loop_that_appends() -> Case:
    """Elements of a sequence are read by the number of the iteration, and put behind another one."""
    value, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [N("SequenceAt", ["s", "i"], ["e"]), N("Mul", ["e", "sum"], ["p"]), N("Add", ["sum", "e"], ["sum2"]),
         N("SequenceInsert", ["list", "p"], ["list1"]), N("SequenceInsert", ["list1", "e"], ["list2"]),
         N("Identity", ["c"], ["c2"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("sum", TensorProto.FLOAT, [2]),
         sequence("list", TensorProto.FLOAT, None)],
        [value("c2", TensorProto.BOOL, []), value("sum2", TensorProto.FLOAT, [2]),
         sequence("list2", TensorProto.FLOAT, None)],
    )  # fmt: skip
    return Case(
        [N("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0), N("SequenceLength", ["s"], ["l"]),
         N("SequenceConstruct", ["z"], ["begin"]), N("Loop", ["l", "true", "z", "begin"], ["last", "all"], body=body),
         N("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)],
        {"x": (["n", 2], lambda n: floats(n, 2))},
        {"true": np.array(True), "z": np.zeros(2, np.float32)}, ["y", "last"],
    )  # fmt: skip


def loop_over_rest() -> Case:
    """`for i in range(1, n)`, as exporters write the number of its iterations: the ceiling of a float."""
    value, sequence = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [N("Add", ["i", "one"], ["k"]), N("Gather", ["x", "k"], ["row"], axis=0), N("Add", ["sum", "row"], ["sum2"]),
         N("SequenceInsert", ["list", "sum2"], ["list2"]), N("Identity", ["c"], ["c2"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("sum", TensorProto.FLOAT, [2]),
         sequence("list", TensorProto.FLOAT, None)],
        [value("c2", TensorProto.BOOL, []), value("sum2", TensorProto.FLOAT, [2]),
         sequence("list2", TensorProto.FLOAT, None)],
    )  # fmt: skip
    return Case(
        [N("Shape", ["x"], ["s"], end=1), N("Squeeze", ["s"], ["l"]), N("Sub", ["l", "one"], ["rest"]),
         N("Cast", ["rest"], ["f"], to=TensorProto.FLOAT), N("Div", ["f", "step"], ["q"]), N("Ceil", ["q"], ["up"]),
         N("Cast", ["up"], ["count"], to=TensorProto.INT64), N("Gather", ["x", "zero"], ["first"], axis=0),
         N("SequenceEmpty", [], ["begin"]), N("Loop", ["count", "true", "first", "begin"], ["last", "all"], body=body),
         N("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)],
        {"x": (["n", 2], lambda n: floats(n, 2))},
        {"true": np.array(True), "one": np.array(1), "zero": np.array(0), "step": np.float32(1)}, ["y", "last"],
        sizes=(2, 3, 7),
    )  # fmt: skip


def mapped_sequence() -> Case:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [N("Add", ["e", "w"], ["q"]), N("ReduceSum", ["q"], ["t"], keepdims=0)], "body",
        [value("e", TensorProto.FLOAT, None), value("w", TensorProto.FLOAT, None)],
        [value("q", TensorProto.FLOAT, None), value("t", TensorProto.FLOAT, None)],
    )  # fmt: skip
    return Case(
        [N("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0), N("SequenceMap", ["s", "ones"], ["m", "t"], body=body),
         N("ConcatFromSequence", ["m"], ["y"], axis=0, new_axis=1),
         N("ConcatFromSequence", ["t"], ["z"], axis=0, new_axis=1)],
        {"x": ([3, "n", 2], lambda n: floats(3, n, 2))}, {"ones": np.ones((3, 2), np.float32)}, ["y", "z"],
    )  # fmt: skip


CASES: dict[str, Case] = {
    **{
        f"RoiAlign, {mode}, {place}": Case(
            [N("RoiAlign", ["x", "b", "i"], ["y"], output_height=3, output_width=2, sampling_ratio=0, mode=mode,
               spatial_scale=0.5, coordinate_transformation_mode=place)],
            {"x": ([2, 3, "h", "w"], lambda _: floats(2, 3, 9, 11)), "b": (["k", 4], boxes),
             "i": (["m"], lambda k: np.arange(k) % 2)}, sizes=(0, 1, 3), tolerance=1e-4,
        )
        for mode, place in (("avg", "half_pixel"), ("avg", "output_half_pixel"), ("max", "half_pixel"))
    },
    **{
        f"ratio kept, {mode}, {policy}": resized(
            ints(13, 20), mode=mode, keep_aspect_ratio_policy=policy, axes=[2, 3], coordinate_transformation_mode=place
        )
        for mode, policy, place in (
            ("nearest", "not_larger", "half_pixel"), ("nearest", "not_smaller", "asymmetric"),
            ("linear", "not_larger", "align_corners"), ("linear", "not_smaller", "pytorch_half_pixel"),
            ("cubic", "not_larger", "half_pixel"),
        )
    },
    "antialias, linear": resized(ints(5, 9), mode="linear", antialias=1, axes=[2, 3]),
    "antialias, cubic": resized(ints(5, 9), mode="cubic", antialias=1, axes=[2, 3], exclude_outside=1),
    "antialias, ratio kept": resized(
        ints(3, 30), mode="cubic", antialias=1, axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    ),
    "antialias, scales": resized(None, [1, 1, 0.4, 0.7], mode="linear", antialias=1),
    "antialias, half": Case(
        [N("Shape", ["x"], ["sh"], start=2), N("Div", ["sh", "two"], ["h"]), N("Add", ["h", "one"], ["s"]),
         N("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=1, axes=[2, 3])],
        {"x": PICTURE}, {"two": ints(2), "one": ints(1)}, tolerance=1e-3,
    ),
    **{
        f"DFT, inverse {inverse}, onesided {half}, of {parts}": Case(
            [N("DFT", ["x", "", "axis"], ["y"], inverse=inverse, onesided=half)],
            {"x": ([2, "n", parts], lambda n, parts=parts: floats(2, n + 1, parts))}, {"axis": np.array(1)}, opset=20,
            tolerance=1e-4,
        )
        for inverse, half, parts in ((0, 0, 2), (0, 1, 1), (1, 0, 2), (1, 1, 2))
    },
    "scaled so that the shorter side is 8": Case(
        [N("Shape", ["x"], ["sh"], start=2), N("Cast", ["sh"], ["sides"], to=TensorProto.FLOAT),
         N("ReduceMin", ["sides"], ["short"], keepdims=1), N("Div", ["eight", "short"], ["by"]),
         N("Concat", ["ones", "by", "by"], ["s"], axis=0), N("Resize", ["x", "", "s"], ["y"], mode="linear")],
        {"x": PICTURE}, {"eight": np.array([8], np.float32), "ones": np.ones(2, np.float32)}, tolerance=1e-3,
    ),
    "as deep as there are different numbers": Case(
        [N("Unique", ["x"], ["u", "", "places"]), N("Size", ["u"], ["k"]), N("OneHot", ["places", "k", "v"], ["y"])],
        {"x": (["n"], lambda n: np.arange(n) % 4 * 3)}, {"v": np.array([0, 1], np.float32)},
    ),
    "DFT of twice the length": Case(
        [N("Shape", ["x"], ["l"], start=1, end=2), N("Squeeze", ["l"], ["l0"]), N("Mul", ["l0", "two"], ["l2"]),
         N("DFT", ["x", "l2", "axis"], ["y"])],
        {"x": ([2, "n", 1], lambda n: floats(2, n + 1, 1))}, {"axis": np.array(1), "two": np.array(2)}, opset=20,
        tolerance=1e-4,
    ),
    **{
        f"MaxPool with places, {'columns' if order else 'rows'}": Case(
            [N("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2],
               storage_order=order)],
            {"x": (["n", 2, "h", "w"], lambda n: np.round(floats(2, 2, n + 3, n + 4)))}, outputs=["y", "i"],
        )
        for order in (0, 1)
    },
    "MaxPool with places, no rows": Case(
        [N("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")],
        {"x": (["n", 2, "h", "w"], lambda n: floats(n, 2, n + 3, n + 4))}, outputs=["y", "i"], sizes=(0, 3),
    ),
    "a pool undone": Case(
        [N("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2]),
         N("MaxUnpool", ["p", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
        {"x": (["n", 2, "h", "w"], lambda n: floats(n, 2, 2 * n, 4))},
    ),
    "entries": Case(
        [N("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0), N("SequenceAt", ["s", "last"], ["a"]),
         N("SequenceAt", ["s", "one"], ["b"]), N("SequenceInsert", ["s", "a"], ["t"]),
         N("SequenceInsert", ["t", "b", "one"], ["u"]), N("SequenceErase", ["u", "zero"], ["v"]),
         N("SequenceErase", ["v"], ["w"]), N("ConcatFromSequence", ["w"], ["y"], axis=-1, new_axis=1),
         N("SequenceLength", ["w"], ["l"])],
        {"x": ([3, "n", 2], lambda n: floats(3, n, 2))},
        {"last": np.array(-1), "one": np.array(1), "zero": np.array(0)}, ["y", "l"], sizes=(2, 7),
    ),
    "a place that is data": Case(
        [N("SplitToSequence", ["x"], ["s"], axis=0), N("SequenceInsert", ["s", "w", "i"], ["t"]),
         N("SequenceErase", ["t", "k"], ["u"]), N("ConcatFromSequence", ["u"], ["y"], axis=1)],
        {"x": (["n", 2], lambda n: floats(n, 2)), "w": ([1, 2], lambda n: -floats(1, 2)),
         "i": ([], lambda n: np.array(-min(n, 2))), "k": ([], lambda n: np.array(n // 2))},
    ),
    "parts of two": Case(
        [N("SplitToSequence", ["x", "two"], ["s"], axis=0), N("SequenceAt", ["s", "last"], ["a"]),
         N("SequenceLength", ["s"], ["l"]), N("ConcatFromSequence", ["s"], ["y"], axis=0),
         N("SequenceAt", ["s", "k"], ["b"])],
        {"x": (["n", 2], lambda n: floats(n, 2)), "k": ([], lambda n: np.array(max(0, n // 2 - 1)))},
        {"two": np.array(2), "last": np.array(-1)}, ["a", "l", "y", "b"],
    ),
    **{
        f"a shape with {wanted} where there are three rows, at {axis}": Case(
            [N("Shape", ["x"], ["sh"]), N("Split", ["sh"], ["d0", "d1"], num_outputs=2),
             N("Equal", ["d0", "three"], ["c"]), N("Where", ["c", "special", f"d{axis}"], ["e"]),
             N("Concat", ["d0", "e"] if axis else ["e", "d1"], ["s"], axis=0), N("Reshape", ["x", "s"], ["y"])],
            {"x": (["n", "m"], lambda n: floats(n, 2 * n))}, {"three": ints(3), "special": ints(wanted)},
            sizes=(1, 2, 3, 7),
        )
        for wanted in (0, -1) for axis in (0, 1)
    },
    "a remainder that may be 0": Case(
        [N("Shape", ["x"], ["sh"]), N("Split", ["sh"], ["n", "m"], num_outputs=2), N("Mod", ["n", "two"], ["r"]),
         N("Mul", ["r", "n"], ["e"]), N("Concat", ["e", "minus"], ["s"], axis=0), N("Reshape", ["x", "s"], ["y"])],
        {"x": (["n", "m"], lambda n: floats(n, 2 * n))}, {"two": ints(2), "minus": ints(-1)},
    ),
    "a split by data": Case(
        [N("Split", ["x", "s"], ["a", "b"])],
        {"x": (["n"], lambda n: floats(n)), "s": ([2], lambda n: ints(n // 2, n - n // 2))}, outputs=["a", "b"],
    ),
    "a split of what is shorter": Case(
        [N("Split", ["x"], ["a", "b"], num_outputs=2)], {"x": (["n"], lambda n: floats(n))}, outputs=["a", "b"],
        sizes=(2, 3, 7),
    ),
    **{
        f"a slice between places that are data, every {step}": Case(
            [N("Slice", ["x", "a", "b", "axis", "step"], ["y"])],
            {"x": ([2, "n"], lambda n: floats(2, n)), "a": ([1], lambda n, a=a: ints(a(n))),
             "b": ([1], lambda n, b=b: ints(b(n)))},
            {"axis": ints(1), "step": ints(step)}, sizes=(1, 2, 3, 7, 8),
        )
        for step, a, b in (
            (2, lambda n: n % 3, lambda n: n + 5), (3, lambda n: -n, lambda n: -1),
            (-1, lambda n: n + 3, lambda n: n % 2), (-2, lambda n: -1, lambda n: -n - 9),
            (-3, lambda n: n // 2, lambda n: n),
        )
    },
    "a range whose step is a size": Case(
        [N("Shape", ["x"], ["s"]), N("Split", ["s"], ["n", "m"], num_outputs=2), N("Squeeze", ["n"], ["step"]),
         N("Squeeze", ["m"], ["limit"]), N("Range", ["one", "limit", "step"], ["y"])],
        {"x": (["n", "m"], lambda n: floats(n, 3 * n + 1))}, {"one": np.array(1)},
    ),
    "a range of floats": Case(
        [N("Shape", ["x"], ["s"]), N("Squeeze", ["s"], ["l"]), N("Cast", ["l"], ["f"], to=TensorProto.FLOAT),
         N("Sub", ["f", "one"], ["first"]), N("Neg", ["f"], ["limit"]), N("Range", ["first", "limit", "minus"], ["y"]),
         N("Range", ["zero", "f", "half"], ["z"])],
        {"x": (["n"], lambda n: floats(n))},
        {"one": np.float32(1), "minus": np.float32(-1), "zero": np.float32(0), "half": np.float32(0.5)}, ["y", "z"],
    ),
    "a loop over all but the first": loop_over_rest(),
    "parts of half the length": Case(
        [N("Shape", ["x"], ["sh"], start=0, end=1), N("Add", ["sh", "one"], ["more"]), N("Div", ["more", "two"], ["h"]),
         N("Squeeze", ["h"], ["size"]), N("SplitToSequence", ["x", "size"], ["s"], axis=0),
         N("SequenceAt", ["s", "zero"], ["y"]), N("SequenceLength", ["s"], ["l"])],
        {"x": (["n", 3], lambda n: floats(n, 3))}, {"one": ints(1), "two": ints(2), "zero": np.array(0)}, ["y", "l"],
    ),
    "a sequence of unlike elements, at a place that is data": Case(
        [N("SequenceConstruct", ["x", "w", "x"], ["s"]), N("SequenceAt", ["s", "k"], ["y"]),
         N("SequenceInsert", ["s", "v", "k"], ["t"]), N("SequenceErase", ["t", "i"], ["u"]),
         N("ConcatFromSequence", ["u"], ["z"], axis=0)],
        {"x": (["n", 3], lambda n: floats(n, 3)), "w": (["m", 3], lambda n: floats(n + 1, 3)),
         "k": ([], lambda n: np.array(n % 3)), "i": ([], lambda n: np.array(n % 4 - 4))}, {"v": floats(2, 3)},
        ["y", "z"], sizes=(1, 2, 3, 4, 7),
    ),
    "a loop that appends": loop_that_appends(),
    "a sequence mapped": mapped_sequence(),
    "LSTM with states of other names": Case(
        [N("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y", "yh"], hidden_size=3)],
        {"x": (["t", "b", 2], lambda n: floats(n, 2, 2)), "h": ([1, "b1", 3], lambda n: floats(1, 2, 3)),
         "c": ([1, "b2", 3], lambda n: floats(1, 2, 3))},
        {"w": floats(1, 12, 2), "r": floats(1, 12, 3)}, ["y", "yh"],
    ),
}  # fmt: skip


def difference(name: str) -> str:
    """Where the graph's interpreter differs from ONNX Runtime at one of a case's sizes; "" for nowhere."""
    import onnxruntime

    case = CASES[name]
    session = onnxruntime.InferenceSession(case.model().SerializeToString(), providers=["CPUExecutionProvider"])
    graph = from_onnx(case.model())
    for size in case.sizes:
        feeds = case.feeds(size)
        found = unlike(interpreter.run(graph, feeds), session.run(None, feeds), case.tolerance)
        if found:
            return f"{name} at {size}: {found}"
    return ""


def unlike(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float) -> str:
    """Where arrays differ in type, or by more than a tolerance."""
    for a, b in zip(found, wanted, strict=True):
        if (a.dtype, a.shape) != (b.dtype, b.shape) or not np.allclose(a, b, rtol=10 * tolerance, atol=tolerance):
            return f"{a.dtype}{list(a.shape)} {a} instead of {b.dtype}{list(b.shape)} {b}"
    return ""
