"""Random programs on sequences: elements come, go and are read at known places, while the lengths of lists are open."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from .models import model

STEPS = 4
LEAST = 15  # rows of x, at least: no place that a program names is beyond the end


@st.composite
def sequence_programs(draw: Any) -> tuple[onnx.ModelProto, int]:
    """A model of the inputs x [n, 2] and w [m, 2], and a number of rows of x."""
    constants: dict[str, np.ndarray] = {}
    nodes = []

    def place(least: int, most: int) -> str:
        name = f"p{len(constants)}"
        constants[name] = np.array(draw(st.integers(least, most)))
        return name

    size = draw(st.sampled_from([None, 1, 2, 3]))
    if size is not None:
        constants["size"] = np.array(size)
    nodes.append(helper.make_node("SplitToSequence", ["x", *(["size"] if size else [])], ["s0"], axis=0))
    count = -(-LEAST // (size or 1)) - STEPS
    for k in range(1, draw(st.integers(2, STEPS + 1))):
        here, there = f"s{k - 1}", f"s{k}"
        if draw(st.integers(0, 2)):
            where = [place(-count, count)] if draw(st.booleans()) else []
            nodes.append(helper.make_node("SequenceInsert", [here, "w", *where], [there]))
        else:
            where = [place(-count, count - 1)] if draw(st.booleans()) else []
            nodes.append(helper.make_node("SequenceErase", [here, *where], [there]))
        last = there
    nodes += [
        helper.make_node("SequenceAt", [last, place(-count, count - 1)], ["element"]),
        helper.make_node("SequenceLength", [last], ["length"]),
        helper.make_node("ConcatFromSequence", [last], ["all"], axis=0),
    ]
    inputs = [("x", TensorProto.FLOAT, ["n", 2]), ("w", TensorProto.FLOAT, ["m", 2])]
    proto = model(nodes, inputs, ["element", "length", "all"], constants, opset=18)
    return proto, draw(st.integers(LEAST, LEAST + 9))
