"""Export recurrent layers as ONNX's RNN, GRU and LSTM.

ONNX's operators multiply the input by weights, while the graph's operators get this product as an input. If the
importer wrote this product (`nn.dense`, a bias, a reshape), its weights are passed to ONNX, and the product is not
written. Any other input is multiplied by a matrix of ones and zeros, which selects the columns of a direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ....errors import UnsupportedOperator
from ....expr import IntImm
from ....graph import OpNode, Value
from ..ops.recurrent import ACTIVATIONS

if TYPE_CHECKING:
    from .writer import Writer

GATES: Mapping[str, tuple[str, int]] = {"nn.rnn": ("RNN", 1), "nn.gru": ("GRU", 3), "nn.lstm": ("LSTM", 4)}
_INT32 = 6  # ONNX's number of the dtype


def write_recurrent(writer: Writer, node: OpNode) -> None:
    """Write a recurrent operator. Raises `UnsupportedOperator` if the size of a state is symbolic, or for a limit of
    the memory, which ONNX does not have.
    """
    op, gates = GATES[node.op]
    (x, r, *states), attrs, output = node.inputs, node.attrs, node.outputs[0].name
    if attrs.get("cell_clip"):
        raise UnsupportedOperator(f"{node.op}: ONNX has no cell_clip, found {attrs['cell_clip']}")
    directions, hidden = r.shape[:2]
    if not isinstance(directions, int) or not isinstance(hidden, int):
        raise UnsupportedOperator(f"{node.op}: ONNX wants the size of a state as a number, found {r.type}")
    columns = gates * hidden
    data, matrix, of_input = _product(writer, x) or (None, np.eye(directions * columns), None)
    if data is None:
        source = f"{output}_x"
        writer.node("Reshape", [x.name, writer.weight(f"{output}_shape", [0, 0, -1])], [source])
    else:
        source = data.name
    weights = writer.weight(f"{output}_w", matrix.reshape(directions, columns, -1), str(x.dtype))
    writer.node("Transpose", [r.name], [f"{output}_r"], perm=[0, 2, 1])
    last = 2 if node.op == "nn.lstm" else 1
    initial, others = [v.name for v in states[:last]], [v.name for v in states[last:]]
    lengths = bias = ""
    if attrs["lengths"]:
        lengths = f"{output}_lengths"
        writer.node("Cast", [others.pop()], [lengths], to=_INT32)
    late = attrs.get("linear_before_reset")
    if late or of_input is not None:
        known = np.zeros((directions, columns)) if of_input is None else of_input.reshape(directions, columns)
        bias = f"{output}_b"
        zeros = np.zeros((directions, 2 * hidden if late else columns))
        first = writer.weight(f"{bias}_known", np.concatenate([known, zeros], 1), str(x.dtype))
        if late:
            writer.node("Concat", [first, others.pop()], [bias], axis=1)
        else:
            bias = first
    names = {function: (name, defaults) for name, (function, defaults) in ACTIVATIONS.items()}
    parameters: dict[str, list[float]] = {"activation_alpha": [], "activation_beta": []}
    for number, function in enumerate(attrs["activations"]):
        given = (attrs["alpha"], attrs["beta"])
        for values, own, default in zip(parameters.values(), given, names[function][1], strict=False):
            values.append(float(own[number] if own else default))
    writer.node(
        op, [source, weights, f"{output}_r", bias, lengths, *initial, *others], [v.name for v in node.outputs],
        hidden_size=hidden, direction=attrs["direction"], clip=attrs["clip"] or None,
        activations=[names[function][0] for function in attrs["activations"]] * directions,
        **{key: values * directions or None for key, values in parameters.items()},
        input_forget=int(attrs["input_forget"]) if op == "LSTM" else None,
        linear_before_reset=int(attrs["linear_before_reset"]) if op == "GRU" else None,
    )  # fmt: skip


def _product(writer: Writer, x: Value) -> tuple[Value, np.ndarray, np.ndarray | None] | None:
    """Return the data [steps, batch, n], the weights and the bias whose product is `x`, or None if it is not a
    product.
    """
    reshape = writer.producers.get(x)
    if reshape is None or reshape.op != "reshape":
        return None
    product, bias = writer.producers.get(reshape.inputs[0]), None
    if product is not None and product.op == "add" and product.inputs[1] in writer.arrays:
        bias = writer.arrays[product.inputs[1]]
        product = writer.producers.get(product.inputs[0])
    if product is None or product.op != "nn.dense" or product.inputs[1] not in writer.arrays:
        return None
    data, weights = product.inputs[0], writer.arrays[product.inputs[1]]
    steps, batch = x.shape[:2]
    if data.ndim != 3 or not all(_same(a, b) for a, b in zip(data.shape, (steps, batch), strict=False)):
        return None
    if bias is not None and bias.shape != weights.shape[:1]:
        return None
    return data, weights, bias


def _same(a: object, b: object) -> bool:
    if isinstance(a, int | IntImm) and isinstance(b, int | IntImm):
        return int(a if isinstance(a, int) else a.value) == int(b if isinstance(b, int) else b.value)
    return a is b
