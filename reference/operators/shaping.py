"""Rearrangements."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np

from minitvm.errors import OTHER_SIZES, InputError, report

from .table import axes_of, operator

_PAD: Any = np.pad
_AXES = re.compile(r"([A-Z])|(\d+)([a-z])")


@operator("reshape")
def reshape(x: np.ndarray, newshape: tuple[int, ...], allowzero: bool) -> np.ndarray:
    shape = tuple(x.shape[k] if d == 0 and not allowzero else d for k, d in enumerate(newshape))
    if -1 in shape and x.size == 0:
        shape = tuple(0 if d == -1 else d for d in shape)
    return x.reshape(shape)


@operator("match_cast")
def match_cast(x: np.ndarray, dims: tuple[tuple[int, int], ...], where: str) -> np.ndarray:
    for a, b in dims:
        if a != b:
            why = "must hold" if isinstance(a, bool | np.bool_) else "are taken for equal"
            pair = "a condition on sizes" if isinstance(a, bool | np.bool_) else f"{int(a)} and {int(b)}"
            raise InputError(
                report(f"{where or 'match_cast'} does not take these sizes: {pair} {why}", tries=OTHER_SIZES)
            )
    return x


@operator("shape_to_tensor")
def shape_to_tensor(values: tuple[int, ...], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.array(values).astype(dtype).reshape(shape)


@operator("nn.batch_flatten")
def batch_flatten(x: np.ndarray) -> np.ndarray:
    return x.reshape(x.shape[0], int(np.prod(x.shape[1:])))


@operator("transpose")
def transpose(x: np.ndarray, axes: tuple[int, ...] | None) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(x, axes)).reshape([x.shape[a] for a in axes or range(x.ndim)[::-1]])


@operator("layout_transform")
def layout_transform(x: np.ndarray, src_layout: str, dst_layout: str) -> np.ndarray:
    """Move each element from its place in one layout to its place in the other."""
    layouts = (src_layout, dst_layout)
    source, target = ([(m[1] or m[3].upper(), int(m[2] or 0)) for m in _AXES.finditer(text)] for text in layouts)
    joined, split = ({letter: block for letter, block in axes if block} for axes in (source, target))
    whole = {c: n * joined.get(c, 1) for (c, block), n in zip(source, x.shape, strict=True) if not block}
    shape = [block or whole[c] // split.get(c, 1) for c, block in target]
    place: dict[tuple[str, int], Any] = dict(zip(target, np.ogrid[tuple(slice(n) for n in shape)], strict=True))
    along = {c: place[c, 0] * split.get(c, 1) + (place[c, split[c]] if c in split else 0) for c in whole}
    return x[tuple(along[c] % block if block else along[c] // joined.get(c, 1) for c, block in source)]


@operator("expand_dims")
def expand_dims(x: np.ndarray, axis: Any, num_newaxis: int) -> np.ndarray:
    if isinstance(axis, int):
        first = axis % (x.ndim + 1)
        return x.reshape(*x.shape[:first], *(1,) * num_newaxis, *x.shape[first:])
    return np.expand_dims(x, tuple(axis))


@operator("squeeze")
def squeeze(x: np.ndarray, axis: Any) -> np.ndarray:
    return np.squeeze(x, None if axis is None else axes_of(axis, x.ndim))


@operator("concatenate")
def concatenate(*data: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(data, axis)


@operator("stack")
def stack(*data: np.ndarray, axis: int) -> np.ndarray:
    return np.stack(data, axis)


@operator("split")
def split(x: np.ndarray, indices_or_sections: Any, axis: int) -> list[np.ndarray]:
    cuts = indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections)
    return np.split(x, cuts, axis)


@operator("strided_slice")
def strided_slice(x: np.ndarray, begin: Any, end: Any, strides: Any, axes: Any) -> np.ndarray:
    where = range(len(begin)) if axes is None else axes
    steps = (1,) * len(begin) if strides is None else tuple(strides)
    steps = steps * len(begin) if len(steps) < len(begin) else steps
    slices = [slice(None)] * x.ndim
    for a, first, last, step in zip(where, begin, end, steps, strict=True):
        # With a negative step, an end before the front means up to the very first element.
        slices[a] = slice(first, None if step < 0 and last < -x.shape[a] else last, step)
    return x[tuple(slices)]


@operator("reverse")
def reverse(x: np.ndarray, axis: Any) -> np.ndarray:
    return np.flip(x, axes_of(axis, x.ndim))


@operator("tile")
def tile(x: np.ndarray, reps: tuple[int, ...]) -> np.ndarray:
    return np.tile(x, reps)


@operator("repeat")
def repeat(x: np.ndarray, repeats: int, axis: int) -> np.ndarray:
    return np.repeat(x, repeats, axis)


@operator("nn.depth_to_space")
def depth_to_space(x: np.ndarray, block_size: int, mode: str) -> np.ndarray:
    n, c, h, w = x.shape
    b = block_size
    if mode == "DCR":
        moved = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(n, c // (b * b), h * b, w * b)


@operator("nn.interleave")
def interleave(x: np.ndarray, strides: tuple[int, ...], size: tuple[int, ...], phases_last: bool) -> np.ndarray:
    batch, both, *image = x.shape
    count = math.prod(strides)
    channels = both // count
    whole = np.empty((batch, channels, *(n * s for n, s in zip(image, strides, strict=True))), x.dtype)
    for number, phase in enumerate(itertools.product(*map(range, strides))):
        places: Any = tuple(slice(p, None, s) for p, s in zip(phase, strides, strict=True))
        own = x[:, number::count] if phases_last else x[:, number * channels : (number + 1) * channels]
        whole[(slice(None), slice(None), *places)] = own
    return whole[(slice(None), slice(None), *map(slice, size))]


@operator("nn.space_to_depth")
def space_to_depth(x: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = x.shape
    b = block_size
    moved = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return moved.reshape(n, c * b * b, h // b, w // b)


@operator("trilu")
def trilu(x: np.ndarray, k: int, upper: bool) -> np.ndarray:
    rows, columns = x.shape[-2:]
    offset = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    return np.where(offset >= k if upper else offset <= k, x, np.zeros((), x.dtype))


@operator("shape_of")
def shape_of(x: np.ndarray, dtype: str) -> np.ndarray:
    return np.array(x.shape, dtype)


@operator("nn.pad")
def pad(
    x: np.ndarray, value: np.ndarray | None = None, *, pad_width: Any, pad_value: float, pad_mode: str
) -> np.ndarray:
    """Pad; negative widths cut off elements, after the other widths have padded."""
    widths = [(max(b, 0), max(a, 0)) for b, a in pad_width]
    cut = tuple(slice(max(-b, 0), None if a >= 0 else a) for b, a in pad_width)
    if pad_mode == "constant":
        fill = np.asarray(pad_value if value is None else value.reshape(())).astype(x.dtype)
        return np.pad(x, widths, constant_values=fill)[cut]
    return np.asarray(_PAD(x, widths, mode=pad_mode))[cut]
