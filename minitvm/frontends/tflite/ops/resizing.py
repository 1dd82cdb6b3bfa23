"""Convert resizes of images, and exchanges between an image's channels and its places."""

from __future__ import annotations

from typing import Any

from ....expr import Expr
from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter


@converter("RESIZE_BILINEAR")
def resize_bilinear(n: NodeContext) -> Any:
    return _resized(n, "linear", "round_prefer_floor")


@converter("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest_neighbor(n: NodeContext) -> Any:
    """Take the nearest pixel. Halves are rounded away from zero, or down if corners are not aligned."""
    aligned = bool(n.option("AlignCorners", False))
    return _resized(n, "nearest_neighbor", "round_prefer_ceil" if aligned else "floor")


def _resized(n: NodeContext, method: str, rounding: str) -> Laid:
    x = n.first(n.laid(0))
    height, width = n.dims(n[1], "the size")
    mode = "asymmetric"
    if n.option("AlignCorners", False):
        mode = "align_corners"
    elif n.option("HalfPixelCenters", False):
        mode = "half_pixel" if method == "linear" else "tf_half_pixel_for_nn"
    resized: Operand = n.op(
        "image.resize", x, size=(*x.shape[:2], height, width), method=method, coordinate_transformation_mode=mode,
        rounding_method=rounding,
    )  # fmt: skip
    return Laid(first=resized)


@converter("DEPTH_TO_SPACE", bytes="stored")
def depth_to_space(n: NodeContext) -> Any:
    return Laid(first=n.op("nn.depth_to_space", n.first(n.laid(0)), block_size=_block(n)))


@converter("SPACE_TO_DEPTH", bytes="stored")
def space_to_depth(n: NodeContext) -> Any:
    return Laid(first=n.op("nn.space_to_depth", n.first(n.laid(0)), block_size=_block(n)))


def _block(n: NodeContext) -> int:
    size = int(n.option("BlockSize"))
    if size < 1 or any(isinstance(d, Expr) for d in n.laid(0).shape[1:]):
        n.refuse(f"blocks of {size} over {n.laid(0).operand} are not supported")
    return size
