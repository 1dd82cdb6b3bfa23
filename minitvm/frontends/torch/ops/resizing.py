"""Convert operators that resize pictures or sample them at points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter
from .pooling import along

_SPATIAL = {
    "upsample_linear1d": ("linear", 1), "upsample_bilinear2d": ("linear", 2), "upsample_trilinear3d": ("linear", 3),
    "upsample_bicubic2d": ("cubic", 2), "upsample_nearest1d": ("nearest_neighbor", 1),
    "upsample_nearest2d": ("nearest_neighbor", 2), "upsample_nearest3d": ("nearest_neighbor", 3),
    "_upsample_nearest_exact1d": ("nearest_exact", 1), "_upsample_nearest_exact2d": ("nearest_exact", 2),
    "_upsample_nearest_exact3d": ("nearest_exact", 3),
}  # fmt: skip


def _register(aten: str, method: str, rank: int) -> None:
    @converter(f"{aten}.vec")
    def _(n: TorchNodeContext) -> Any:
        n.ignore("output_size")
        factors = n.attr("scale_factors")
        return _resized(n, method, rank, factors)

    @converter(f"{aten}.default")
    def _(n: TorchNodeContext) -> Any:
        n.ignore("output_size")
        names = ("scales",) if rank == 1 else ("scales_d", "scales_h", "scales_w")[3 - rank :]
        factors = [n.attr(name) for name in names]
        return _resized(n, method, rank, None if None in factors else factors)


def _resized(n: TorchNodeContext, method: str, rank: int, factors: Any) -> Any:
    """Resize by interpolation. Pixel i is at (i + 1/2) / scale - 1/2, at i / scale for `nearest`, or, if corners are
    aligned, the corner pixels coincide.
    """
    x = n["input"] if "input" in n.values else n["self"]
    scales = None if factors is None else (1.0,) * (x.ndim - rank) + tuple(map(float, factors))
    attrs: dict[str, Any] = {"size": n.shape, "scales": scales, "method": method}
    if method == "nearest_exact":
        attrs |= {"method": "nearest_neighbor", "rounding_method": "round_prefer_ceil"}
        mode = "half_pixel"
    elif method == "nearest_neighbor":
        attrs["rounding_method"] = "floor"
        mode = "asymmetric"
    else:
        mode = "align_corners" if n.attr("align_corners") else "half_pixel"
        if mode == "align_corners" and all(isinstance(d, int) for d in n.shape[-rank:]):
            attrs["scales"] = None  # the corners determine it
    if x.dtype.is_float or attrs["method"] == "nearest_neighbor":
        return n.op("image.resize", x, coordinate_transformation_mode=mode, **attrs)
    return _resized_bytes(n, x, rank, coordinate_transformation_mode=mode, **attrs)


def _resized_bytes(n: TorchNodeContext, x: Operand, rank: int, size: Any, scales: Any, **attrs: Any) -> Operand:
    """Resize integers along one axis after the other, last axis first, rounding each time with halves up.

    PyTorch does the same with weights of 14 bits, so a result may differ by 1 if it is near a half.
    """
    ends = np.iinfo(x.dtype.numpy)
    for axis in range(x.ndim - 1, x.ndim - 1 - rank, -1):
        shape = tuple(size[a] if a == axis else extent for a, extent in enumerate(x.shape))
        factors = None if scales is None else tuple(f if a == axis else 1.0 for a, f in enumerate(scales))
        pixels = n.op("image.resize", n.cast(x, "float32"), size=shape, scales=factors, **attrs)
        rounded = n.op("floor", n.op("add", pixels, 0.5))
        x = n.cast(n.op("clip", rounded, a_min=int(ends.min), a_max=int(ends.max)), x.dtype)
    return x


for _aten, (_method, _rank) in _SPATIAL.items():
    _register(_aten, _method, _rank)


def _register_smooth(aten: str, reach: int) -> None:
    @converter(f"{aten}.vec", f"{aten}.default")
    def _(n: TorchNodeContext) -> Any:
        """Resize with antialiasing: each pixel is a weighted mean of the old pixels that it covers, by a matrix product
        along each axis.
        """
        x = n["input"] if "input" in n.declared else n["self"]
        n.ignore("output_size")
        factors = n.attr("scale_factors") if "scale_factors" in n.declared else (n.attr("scales_h"), n.attr("scales_w"))
        if not x.dtype.is_float:
            n.refuse_dtype(x.dtype)
        for axis, factor in zip((2, 3), factors or (None, None), strict=True):
            extent, size = n.size(x, axis), n.shape[axis]
            if not isinstance(size, int):
                n.refuse(f"the open size {size} is not supported")
            if n.attr("align_corners"):
                scale = (extent - 1) / (size - 1) if size > 1 else 0.0
            else:
                scale = 1 / factor if factor else extent / size
            x = along(n, x, axis, _smooth(extent, size, scale, reach))
        return x


def _smooth(extent: int, size: int, scale: float, reach: int) -> np.ndarray:
    """Return the matrix [extent, size] of each new pixel's weights for the old ones: a triangle, or a cubic if `reach`
    is 2.
    """
    wide = max(scale, 1.0)
    matrix = np.zeros((extent, size))
    for k in range(size):
        center = scale * (k + 0.5)
        first, stop = max(int(center - reach * wide + 0.5), 0), min(int(center + reach * wide + 0.5), extent)
        t = np.abs((np.arange(first, stop) - center + 0.5) / wide)
        if reach == 1:
            weights = np.maximum(1 - t, 0)
        else:
            near, far = (1.5 * t - 2.5) * t * t + 1, ((-0.5 * t + 2.5) * t - 4) * t + 2
            weights = np.where(t < 1, near, np.where(t < 2, far, 0))
        matrix[first:stop, k] = weights / weights.sum()
    return matrix


for _aten, _reach in {"_upsample_bilinear2d_aa": 1, "_upsample_bicubic2d_aa": 2}.items():
    _register_smooth(_aten, _reach)


_METHODS = ("linear", "nearest", "cubic")
_BORDERS = ("zeros", "border", "reflection")


@converter("grid_sampler_2d.default", "grid_sampler_3d.default", "grid_sampler.default")
def grid_sample(n: TorchNodeContext) -> Any:
    method, border = _METHODS[n.attr("interpolation_mode")], _BORDERS[n.attr("padding_mode")]
    grid = n["grid"]
    if method != "cubic" and border != "zeros":  # PyTorch clips what is no number to the first pixel
        odd = n.op("isnan", grid) if border == "border" else n.op("logical_not", n.op("isfinite", grid))
        grid = n.op("where", odd, n.of_dtype(-1.0, grid.dtype), grid)
    return n.op(
        "image.grid_sample", n["input"], grid, method=method, padding_mode=border,
        align_corners=bool(n.attr("align_corners")),
    )  # fmt: skip


@converter("pixel_shuffle.default")
def pixel_shuffle(n: TorchNodeContext) -> Any:
    """Rearrange [n, c r r, h, w] as [n, c, h r, w r]."""
    return n.op("nn.depth_to_space", n["self"], block_size=n.attr("upscale_factor"), mode="CRD")
