"""Pooling over one, two or three spatial axes, in NCHW; in two dimensions, any order of the axes is possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, const
from ..te import Tensor
from ..tir.op import lowest
from .layouts import AxisOrder
from .pad import constant_pad
from .reduce import max as reduce_max
from .reduce import mean
from .registry import Pattern, register
from .shapes import Dim, dims, paddings, per_axis, plus, same, simple, times

Ints = int | Sequence[int]
_DEFAULT = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_SPATIAL = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}


class Windows:
    """The windows of a pooling operator: the shape of the output, and the padding, which includes the part of the last
    window beyond the data.
    """

    def __init__(self, op: str, data: Tensor, pool_size: Ints, strides: Ints, padding: Ints, dilation: Ints,
                 ceil_mode: bool, layout: str = "") -> None:  # fmt: skip
        self.rank = data.ndim - 2
        if self.rank not in _SPATIAL:
            raise TypeMismatch(f"{op}: wanted 1 to 3 spatial axes behind batch and channel, found {data}")
        self.order = AxisOrder.of(layout or _DEFAULT[self.rank], _DEFAULT[self.rank], f"{op} layout")
        self.size = per_axis(pool_size, self.rank, f"{op} pool_size")
        self.stride = per_axis(strides, self.rank, f"{op} strides")
        self.dilate = per_axis(dilation, self.rank, f"{op} dilation")
        self.before, self.declared_after = paddings(padding, self.rank)
        self.outer = self.order.as_defined(dims(data))[:2]
        self.spatial = self.order.as_defined(dims(data))[2:]
        self.out = tuple(self._count(op, axis, ceil_mode) for axis in range(self.rank))
        self.after = tuple(self._reached(axis, ceil_mode) for axis in range(self.rank))
        self.taps = [te.reduce_axis((0, k), name=f"r{a}") for k, a in zip(self.size, _SPATIAL[self.rank], strict=True)]

    def _count(self, op: str, axis: int, ceil_mode: bool) -> Dim:
        extent, k, s = self.spatial[axis], self.size[axis], self.stride[axis]
        room = extent + self.before[axis] + self.declared_after[axis] - (k - 1) * self.dilate[axis] - 1
        if not ceil_mode:
            count = simple(room // s + 1)
        else:
            # The last window has to start inside the input or the padding before it.
            rounded, starts = simple((room + (s - 1)) // s + 1), simple((extent + (self.before[axis] + s - 1)) // s)
            static = isinstance(rounded, int) and isinstance(starts, int)
            count = min(rounded, starts) if static else simple(te.minimum(rounded, starts))
        if isinstance(count, int) and count <= 0:
            raise InputError(f"{op}: the window {self.size} is larger than the padded input {tuple(self.spatial)}")
        return count

    def _reached(self, axis: int, ceil_mode: bool) -> Dim:
        if not ceil_mode:
            return self.declared_after[axis]
        last = (self.out[axis] - 1) * self.stride[axis] + (self.size[axis] - 1) * self.dilate[axis] + 1
        reach, declared = simple(last - self.spatial[axis] - self.before[axis]), self.declared_after[axis]
        return max(declared, reach) if isinstance(reach, int) else simple(te.maximum(reach, declared))

    def padded(self, data: Tensor, value: Expr) -> Tensor:
        before, after = ((0, 0, *amounts) for amounts in (self.before, self.after))
        return constant_pad(data, self.order.as_stored(before), self.order.as_stored(after), value)

    def compute(self, element: Callable[..., Any], name: str, attrs: Mapping[str, Any] | None = None) -> Tensor:
        """Return the tensor with the elements `element(n, c, *spatial indices)`, in the layout of the data."""
        names = ("n", "c", *(2 * a for a in _SPATIAL[self.rank]))
        return te.compute(
            self.order.as_stored((*self.outer, *self.out)),
            lambda *stored: element(*self.order.as_defined(stored)),
            name=name,
            attrs=attrs,
            varargs_names=self.order.as_stored(names),
        )

    def seen(self, data: Tensor, n: Any, c: Any, *indices: Any) -> Expr:
        """Return the element of the padded data that the window at `indices` reads at the current tap."""
        at = tuple(
            plus(times(i, s), times(t.var, l))
            for i, s, t, l in zip(indices, self.stride, self.taps, self.dilate, strict=True)
        )
        return data[self.order.as_stored((n, c, *at))]

    def attrs(self, op: str) -> dict[str, Any]:
        padding = (*self.before, *self.declared_after)
        layout = {} if self.order.is_default else {"layout": self.order.stored}
        return {
            "op": op, "pool_size": self.size, "strides": self.stride, "padding": padding, "dilation": self.dilate,
            **layout,
        }  # fmt: skip

    def counted(self, indices: Sequence[Any], include_pad: bool) -> Expr | int:
        """Return how many elements of the window at `indices` count towards the average."""
        total: Any = 1
        for axis, i in enumerate(indices):
            total = times(self._counted(axis, i, include_pad), total)
        return total

    def _counted(self, axis: int, index: Any, include_pad: bool) -> Any:
        k, s, l = self.size[axis], self.stride[axis], self.dilate[axis]
        low = -self.before[axis] if include_pad else 0
        high = self.spatial[axis] + (self.declared_after[axis] if include_pad else 0)
        inside_front = include_pad or self.before[axis] == 0
        inside_back = same(self.after[axis], self.declared_after[axis] if include_pad else 0)
        if inside_front and inside_back:
            return k
        start = plus(times(index, s), -self.before[axis])
        # Taps first..last of the window lie in [low, high): start + tap * l >= low, < high.
        first = 0 if inside_front else te.maximum((low - start + (l - 1)) // l, 0)
        last = k - 1 if inside_back else te.minimum((high - 1 - start) // l, k - 1)
        return last - first + 1


def _max_pool(rank: int, data: Tensor, pool_size: Ints, strides: Ints, padding: Ints, dilation: Ints,
              ceil_mode: bool, layout: str = "") -> Tensor:  # fmt: skip
    op = f"nn.max_pool{rank}d"
    _check_rank(op, data, rank)
    w = Windows(op, data, pool_size, strides, padding, dilation, ceil_mode, layout)
    x = w.padded(data, lowest(data.dtype))
    return w.compute(lambda *i: te.max(w.seen(x, *i), axis=w.taps), "pool_max", w.attrs(op))


def _avg_pool(rank: int, data: Tensor, pool_size: Ints, strides: Ints, padding: Ints, dilation: Ints,
              ceil_mode: bool, count_include_pad: bool, layout: str = "") -> Tensor:  # fmt: skip
    op = f"nn.avg_pool{rank}d"
    _check_rank(op, data, rank)
    w = Windows(op, data, pool_size, strides, padding, dilation, ceil_mode, layout)
    x = w.padded(data, const(0, data.dtype))
    # Neither the sum nor the count of a window fits an integer of fewer than 32 bits.
    wide = "int32" if data.dtype.is_int and data.dtype.bits < 32 else data.dtype
    total = w.compute(lambda *i: te.sum(w.seen(x, *i).astype(wide), axis=w.taps), "pool_sum", w.attrs(op))

    def average(n: Any, c: Any, *i: Any) -> Expr:
        count = w.counted(i, count_include_pad)
        divisor = const(count, wide) if isinstance(count, int) else count.astype(wide)
        value = total[w.order.as_stored((n, c, *i))]
        return (value / divisor if data.dtype.is_float else te.truncdiv(value, divisor)).astype(data.dtype)

    return w.compute(average, "pool_avg")


def _check_rank(op: str, data: Tensor, rank: int) -> None:
    if data.ndim != rank + 2:
        raise TypeMismatch(f"{op}: wanted data of {rank + 2} dimensions, found {data}")


# The last stage of each writes each element once, so element-wise operators that follow may join it.


@register("nn.max_pool1d", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def max_pool1d(
    data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Tensor:
    """Return the largest element of each window. Padding is never the largest."""
    return _max_pool(1, data, pool_size, strides, padding, dilation, ceil_mode)


@register("nn.max_pool2d", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def max_pool2d(data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
               ceil_mode: bool = False, layout: str = "NCHW") -> Tensor:  # fmt: skip
    """Return the largest element of each window. Padding is never the largest. `ceil_mode` rounds the number of windows
    up.

    `layout` is the order of the axes of data and result.
    """
    return _max_pool(2, data, pool_size, strides, padding, dilation, ceil_mode, layout)


@register("nn.max_pool3d", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def max_pool3d(
    data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Tensor:
    """Return the largest element of each window. Padding is never the largest."""
    return _max_pool(3, data, pool_size, strides, padding, dilation, ceil_mode)


@register("nn.avg_pool1d", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def avg_pool1d(data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
               ceil_mode: bool = False, count_include_pad: bool = False) -> Tensor:  # fmt: skip
    """Return the mean of each window."""
    return _avg_pool(1, data, pool_size, strides, padding, dilation, ceil_mode, count_include_pad)


@register("nn.avg_pool2d", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def avg_pool2d(data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
               ceil_mode: bool = False, count_include_pad: bool = False,
               layout: str = "NCHW") -> Tensor:  # fmt: skip
    """Return the mean of each window. With `count_include_pad`, elements of `padding` count as zeros; otherwise they
    are left out.

    `layout` is the order of the axes of data and result.
    """
    return _avg_pool(2, data, pool_size, strides, padding, dilation, ceil_mode, count_include_pad, layout)


@register("nn.avg_pool3d", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def avg_pool3d(data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
               ceil_mode: bool = False, count_include_pad: bool = False) -> Tensor:  # fmt: skip
    """Return the mean of each window."""
    return _avg_pool(3, data, pool_size, strides, padding, dilation, ceil_mode, count_include_pad)


@register("nn.global_max_pool", pattern=Pattern.COMM_REDUCE, onnx="GlobalMaxPool")
def global_max_pool(data: Tensor) -> Tensor:
    """Return the largest element over all axes after batch and channel. These axes stay, with extent 1."""
    return reduce_max(data, axis=tuple(range(2, data.ndim)), keepdims=True)


@register("nn.global_avg_pool", pattern=Pattern.COMM_REDUCE, onnx="GlobalAveragePool")
def global_avg_pool(data: Tensor) -> Tensor:
    """Return the mean over all axes after batch and channel. These axes stay, with extent 1."""
    return mean(data, axis=tuple(range(2, data.ndim)), keepdims=True)
