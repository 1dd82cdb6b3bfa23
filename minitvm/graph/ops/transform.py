"""Operators that move or pick elements: reshapes, slices, gathers, scatters, resizes. Shapes are computed with many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import topi
from ...expr import DType
from ..registry import Pattern, TensorType, register

INJECTIVE, OPAQUE = Pattern.INJECTIVE, Pattern.OPAQUE


def _reshape(x: Any, newshape: Sequence[int], allowzero: bool) -> Any:
    shape = [x.shape[k] if d == 0 and not allowzero else d for k, d in enumerate(newshape)]
    return x.reshape(shape)


def _expand_dims(x: Any, axis: int | Sequence[int], num_newaxis: int) -> Any:
    if not isinstance(axis, int):
        return np.expand_dims(x, tuple(axis))
    first = axis if axis >= 0 else axis + x.ndim + 1
    return np.expand_dims(x, tuple(range(first, first + num_newaxis)))


def _squeeze(x: Any, axis: int | Sequence[int] | None) -> Any:
    return np.squeeze(x, tuple(axis) if isinstance(axis, list | tuple) else axis)


def _split(x: Any, indices_or_sections: int | Sequence[int], axis: int) -> Any:
    cuts = indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections)
    return tuple(np.split(x, cuts, axis))


def _strided_slice(x: Any, begin: Any, end: Any, strides: Any, axes: Any) -> Any:
    where = range(len(begin)) if axes is None else axes
    steps = (1,) * len(begin) if strides is None else strides
    steps = steps * len(begin) if len(steps) == 1 else steps
    slices = [slice(None)] * x.ndim
    for a, first, last, step in zip(where, begin, end, steps, strict=True):
        stop = None if step < 0 and last < -x.shape[a] else last
        slices[a] = slice(first, stop, step)
    return x[tuple(slices)]


def _take(data: Any, indices: Any, axis: int | None) -> Any:
    return np.take(data, indices, axis, mode="raise")


def _shape_to_tensor(values: Sequence[int], shape: Sequence[int], dtype: str) -> Any:
    return np.array(values).astype(DType(dtype).numpy).reshape(shape)


def _shape_of(kind: TensorType, dtype: str) -> Any:
    static = all(isinstance(d, int) for d in kind[0])
    if static:
        return np.array(kind[0], DType(dtype).numpy)
    dims = np.empty(len(kind[0]), object)
    dims[:] = kind[0]
    return dims


def _dequantize(
    x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, *, axis: int, block_size: int, out_dtype: str
) -> np.ndarray:
    def spread(parameter: np.ndarray) -> np.ndarray:
        if block_size and parameter.ndim:
            return np.repeat(parameter, block_size, axis).take(np.arange(x.shape[axis]), axis)
        return parameter.reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)] if parameter.ndim else ())

    steps = x.astype(np.int32) if zero is None else x.astype(np.int32) - spread(zero).astype(np.int32)
    wide = np.result_type(DType(out_dtype).numpy, np.float32) if DType(out_dtype).bytes > 4 else np.float32
    result: np.ndarray = (steps.astype(wide) * spread(scale).astype(wide)).astype(DType(out_dtype).numpy)
    return result


register("nn.batch_flatten", pattern=INJECTIVE, fold=lambda x: x.reshape(x.shape[0], -1), view=True)(topi.batch_flatten)
register("concatenate", pattern=INJECTIVE, fold=lambda *data, axis: np.concatenate(data, axis))(topi.concatenate)
register("expand_dims", pattern=INJECTIVE, fold=_expand_dims, view=True)(topi.expand_dims)
register("gather", pattern=INJECTIVE)(topi.gather)
register("gather_nd", pattern=INJECTIVE)(topi.gather_nd)
register("match_cast", pattern=Pattern.ELEMENTWISE, view=True)(topi.match_cast)
register("nn.depth_to_space", pattern=INJECTIVE)(topi.depth_to_space)
register("nn.pad", pattern=INJECTIVE)(topi.pad)
register("nn.space_to_depth", pattern=INJECTIVE)(topi.space_to_depth)
register("one_hot", pattern=INJECTIVE)(topi.one_hot)
register("repeat", pattern=INJECTIVE, fold=lambda x, repeats, axis: np.repeat(x, repeats, axis))(topi.repeat)
register("reshape", pattern=INJECTIVE, fold=_reshape, view=True)(topi.reshape)
register("reverse", pattern=INJECTIVE, fold=lambda x, axis: np.flip(x, axis))(topi.reverse)
register("shape_of", pattern=INJECTIVE, fold_types=_shape_of)(topi.shape_of)
register("shape_to_tensor", pattern=INJECTIVE, fold=_shape_to_tensor)(topi.shape_to_tensor)
register("split", pattern=INJECTIVE, fold=_split)(topi.split)
register("squeeze", pattern=INJECTIVE, fold=_squeeze, view=True)(topi.squeeze)
register("stack", pattern=INJECTIVE, fold=lambda *data, axis: np.stack(data, axis))(topi.stack)
register("strided_slice", pattern=INJECTIVE, fold=_strided_slice)(topi.strided_slice)
register("take", pattern=INJECTIVE, fold=_take)(topi.take)
register("tile", pattern=INJECTIVE, fold=lambda x, reps: np.tile(x, reps))(topi.tile)
register("transpose", pattern=INJECTIVE, fold=lambda x, axes: np.transpose(x, axes))(topi.transpose)
register("trilu", pattern=INJECTIVE)(topi.trilu)

# A copy that takes no producers: those of its phases write where it reads.
register("nn.interleave", pattern=Pattern.COMPLEX_OUT_FUSABLE)(topi.interleave)

register("argsort", pattern=OPAQUE)(topi.argsort)
register("image.grid_sample", pattern=OPAQUE)(topi.grid_sample)
register("image.interpolate", pattern=Pattern.COMPLEX_OUT_FUSABLE)(topi.interpolate)
register("image.resize", pattern=OPAQUE)(topi.resize)
register("image.resize2d", pattern=OPAQUE)(topi.resize2d)
register("scatter_elements", pattern=OPAQUE, updates=True)(topi.scatter_elements)
register("scatter_nd", pattern=OPAQUE, updates=True)(topi.scatter_nd)
register("topk", pattern=OPAQUE)(topi.topk)

register("einsum", pattern=Pattern.COMPLEX_OUT_FUSABLE)(topi.einsum)

register("qnn.dequantize", pattern=Pattern.BROADCAST, fold=_dequantize, sought=True)(topi.dequantize)
register("qnn.quantize", pattern=Pattern.BROADCAST)(topi.quantize)
register("qnn.lookup", pattern=Pattern.ELEMENTWISE)(topi.lookup)
