"""Random calls of operators: shapes, dtypes and attributes.

Each family draws its operators' whole space of attributes: uneven and negative pads, windows that hang over the end,
even sizes, extents of 1, axes from either end, narrow integers with wider sums, equal elements and NaN among the data,
indices from the end. Data are small integers in their dtype, or fill a narrow one, so that sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitvm.expr import DType, SizeVar
from minitvm.topi.formats import FORMATS
from tests.drawing import Drawing, Seeded

from .calls import Call

FLOATS, INTEGERS = ("float32", "float32", "float64"), ("int8", "uint8", "int16", "int32", "int64")


def _any(d: Drawing, shape: Sequence[int], *dtypes: str) -> np.ndarray:
    """Data of one of these dtypes, negative and repeated numbers among them; bytes over their whole range."""
    dtype = d.one(*(dtypes or (*FLOATS, *INTEGERS)))
    if dtype in ("int8", "uint8"):
        return d.data(shape, dtype, -128, 255 if dtype == "uint8" else 127)
    return d.data(shape, dtype, -5, 4)


def _with_nan(d: Drawing, x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f" and d.flag():
        x[d.rng.random(x.shape) < 0.3] = np.nan
    return x


# ---- windows ---------------------------------------------------------------------------------------------------------


def _window(d: Drawing, extents: Sequence[int], widest: int = 3) -> tuple[list[int], dict[str, Any]]:
    """A kernel that fits, strides, dilation, and a pad of its own at each end."""
    kernel, strides, dilation = [], [], []
    for n in extents:
        k, t = d.int(1, widest), d.one(1, 1, 2)
        while (k - 1) * t + 1 > n:
            k -= 1
        kernel.append(k)
        strides.append(d.one(1, 1, 2, 3))
        dilation.append(t)
    before, after = ([d.int(0, k // 2) for k in kernel] for _ in range(2))
    padding = d.one((*before, *after), (*before, *after), tuple(before))
    return kernel, {"strides": tuple(strides), "dilation": tuple(dilation), "padding": padding}


def _turned(x: np.ndarray, letters: str, layout: str) -> np.ndarray:
    return np.ascontiguousarray(x.transpose([letters.index(c) for c in layout]))


def _pool(d: Drawing) -> Call:
    rank = d.one(1, 2, 2, 3)
    extents = [d.int(1, 6) for _ in range(rank)]
    kernel, attrs = _window(d, extents)
    op = d.one("max", "avg")
    attrs |= {"pool_size": tuple(kernel), "ceil_mode": d.flag()}
    if op == "avg":
        attrs["count_include_pad"] = d.flag()
    elif d.flag():  # windows of padding alone have a maximum, but no mean
        attrs["padding"] = tuple(d.int(0, 4) for _ in 2 * kernel)
    x = _any(d, [d.int(1, 2), d.int(1, 3), *extents])
    if rank == 2:
        attrs["layout"] = d.one("NCHW", "NHWC", "CHWN")
        x = _turned(x, "NCHW", attrs["layout"])
    return Call(f"nn.{op}_pool{rank}d", (x,), attrs)


def _conv(d: Drawing) -> Call:
    rank = d.one(1, 2, 2, 3)
    extents = [d.int(1, 5) for _ in range(rank)]
    kernel, attrs = _window(d, extents)
    groups, each, more = d.one(1, 1, 2, 3), d.one(1, 2), d.one(1, 2)
    x = _any(d, [d.int(1, 2), groups * each, *extents], "float32", "int8", "uint8", "int32")
    w = _any(d, [groups * more, each, *kernel], x.dtype.name)
    attrs["groups"] = groups
    if x.dtype.itemsize == 1:
        attrs["out_dtype"] = "int32"
    if rank == 2:
        attrs |= {"data_layout": d.one("NCHW", "NHWC", "HWNC"), "kernel_layout": d.one("OIHW", "HWIO", "OHWI")}
        x, w = _turned(x, "NCHW", attrs["data_layout"]), _turned(w, "OIHW", attrs["kernel_layout"])
    return Call(f"nn.conv{rank}d", (x, w), attrs)


def _conv_transpose(d: Drawing) -> Call:
    rank = d.one(1, 2, 2, 3)
    groups, each, more = d.one(1, 1, 2), d.int(1, 2), d.int(1, 2)
    kernel, strides = [d.int(1, 3) for _ in range(rank)], [d.int(1, 3) for _ in range(rank)]
    dilation = [d.one(1, 1, 2) for _ in range(rank)]
    extents = [d.int(2, 4) for _ in range(rank)]
    pads = [d.int(0, (k - 1) // 2) for k in (*kernel, *kernel)]
    attrs = {"strides": tuple(strides), "dilation": tuple(dilation), "padding": tuple(pads), "groups": groups,
             "output_padding": tuple(d.int(0, max(s, t) - 1) for s, t in zip(strides, dilation))}  # fmt: skip
    x, w = d.data([1, groups * each, *extents]), d.data([groups * each, more, *kernel])
    return Call(f"nn.conv{rank}d_transpose", (x, w), attrs)


def _words(d: Drawing, blocks: int) -> Call:
    """Words of four bytes, which are all that an int32 can be."""

    def data(*shape: int) -> np.ndarray:
        return d.rng.integers(-(2**31), 2**31, shape).astype("int32")

    kind, k = d.one("words", "dense", "conv", "blocks"), d.int(1, 3)
    if kind == "words":
        return Call("layout.words", (_any(d, [*d.shape(0, 2), 4 * k], "int8", "uint8"),))
    if kind == "dense":
        units = d.one(0, 2 * blocks)
        return Call("qnn.contrib_dense_packed", (data(d.int(1, 4), k), data(blocks, k, 2)), {"units": units})
    if kind == "blocks":
        m, b, bits, minima = d.int(1, 3), d.int(1, 3), d.one(4, 5, 6, 8), d.flag()
        words = k * {4: 2, 5: 8, 6: 4, 8: 1}[bits]
        weight, kinds = data(blocks, b, words * bits // 8, 2), 2 if minima else 1
        shift = d.data([m, b]) if minima else d.rng.integers(-9999, 9999, (m, b)).astype("int32")
        numbers = [d.data([blocks, b, 2]).astype(d.one("float32", "float16")) for _ in range(kinds)]
        if d.flag():
            numbers = [d.rng.integers(0, 64, (blocks, b, 2)).astype(d.one("uint8", "int8")) for _ in range(kinds)]
            numbers += [d.data([blocks, d.one(1, b), 2]).astype("float16") for _ in range(kinds)]
        attrs = {"bits": bits, "units": d.one(0, 2 * blocks - 1)}
        return Call("qnn.contrib_dense_of_blocks", (data(m, b, words), d.data([m, b]), shift, weight, *numbers), attrs)
    extents = [d.int(1, 5), d.int(1, 5)]
    kernel, attrs = _window(d, extents)
    w = data(d.int(1, 2), blocks, *kernel, k, d.int(1, 3))
    return Call("qnn.contrib_conv2d_NCHWc", (data(1, blocks, *extents, k), w), {**attrs, "pad_value": d.int(0, 255)})


def _bytes(d: Drawing) -> Call:
    """Products of bytes less a zero point."""
    dtype = d.one("int8", "uint8")
    zero = d.int(-128, 127) if dtype == "int8" else d.int(0, 255)
    if d.flag():
        m, k, n = d.int(1, 4), d.int(1, 9), d.int(1, 5)
        return Call("qnn.dense", (_any(d, [m, k], dtype), _any(d, [n, k], "int8")), {"zero_point": zero})
    extents, groups = [d.int(1, 5), d.int(1, 5)], d.int(1, 2)
    kernel, attrs = _window(d, extents)
    channels = groups * d.int(1, 3)
    w = _any(d, [groups * d.int(1, 2), channels // groups, *kernel], "int8")
    x = _any(d, [1, channels, *extents], dtype)
    return Call("qnn.conv2d", (x, w), {**attrs, "groups": groups, "zero_point": zero})


def _pairs(d: Drawing, blocks: int) -> Call:
    """Words of two bfloat16, whole numbers."""

    def data(*shape: int) -> np.ndarray:
        halves = d.rng.integers(-3, 4, (*shape, 2)).astype(DType("bfloat16").numpy)
        return halves.view(np.int32)[..., 0]

    kind, k = d.one("words", "dense", "conv", "matmul"), d.int(1, 3)
    if kind == "words":
        return Call("layout.words", (d.data([*d.shape(0, 2), 2 * k]).astype(DType("bfloat16").numpy),))
    if kind == "dense":
        units = d.one(0, 2 * blocks)
        return Call("nn.contrib_dense_packed_words", (data(d.int(1, 4), k), data(blocks, k, 2)), {"units": units})
    if kind == "matmul":
        batch = d.one((), (2,))
        return Call("nn.contrib_matmul_words", (data(*batch, d.int(1, 4), k), data(d.int(1, 4), k)))
    extents = [d.int(1, 5), d.int(1, 5)]
    kernel, attrs = _window(d, extents)
    w = data(d.int(1, 2), blocks, *kernel, k, d.int(1, 3))
    return Call("nn.contrib_conv2d_NCHWc_words", (data(1, blocks, *extents, k), w), attrs)


def _summed(d: Drawing, blocks: int, block: int) -> dict[str, int]:
    """How many channels of blocks are summed: all, or some of the last block's."""
    return {"channels": d.one(0, blocks * block - d.int(0, block - 1))}


def _blocked(d: Drawing) -> Call:
    blocks, block = d.int(1, 2), d.one(1, 2, 3)
    kind = d.one(
        "block", "unblock", "pack", "conv", "depthwise", "rows", "winograd", "winograd", "dense", "words", "words",
        "pairs", "pairs",
    )  # fmt: skip
    if kind == "block":
        shape = d.shape(1, 4)
        return Call("layout.block_axis", (d.data(shape),), {"axis": d.int(0, len(shape) - 1), "block": d.int(1, 4)})
    if kind == "unblock":
        shape = [*d.shape(1, 3), block]
        axis = d.int(0, len(shape) - 2)
        most = shape[axis] * block
        return Call("layout.unblock_axis", (d.data(shape),), {"axis": axis, "extent": d.int(most - block + 1, most)})
    if kind == "pack":
        attrs = {"in_block": d.int(1, 4), "out_block": d.int(1, 4)}
        return Call("layout.pack_weights", (d.data([d.int(1, 5), d.int(1, 5), d.int(1, 2), d.int(1, 3)]),), attrs)
    if kind == "dense":
        m, k = d.int(1, 4), d.int(1, 5)
        return Call("nn.contrib_dense_packed", (d.data([m, k]), d.data([blocks, k, block])))
    if kind in ("words", "pairs"):
        return (_words if kind == "words" else _pairs)(d, blocks)
    extents = [d.int(1, 5), d.int(1, 5)]
    if kind == "winograd":
        tile = d.one(2, 4)
        apart = [d.int(1, 2), d.int(1, 3)] if d.int(0, 1) else [1, 1]
        lowest = [max(0, 2 * k + 1 - n) for n, k in zip(extents, apart, strict=True)]
        padding = tuple(d.int(low, low + 2) for low in (*lowest, *lowest))
        w = d.data([d.int(1, 2), tile + 2, tile + 2, blocks, block, d.int(1, 2), d.int(1, 2)], low=-1, high=1)
        return Call("nn.contrib_winograd_conv2d_NCHWc", (d.data([1, blocks, *extents, block]), w),
                    {"tile": tile, "padding": padding, "dilation": apart, **_summed(d, blocks, block)})  # fmt: skip
    kernel, attrs = _window(d, extents)
    if kind == "conv":
        if d.int(0, 2) == 0:
            extents = [d.int(1, 3), *extents]
            kernel, attrs = _window(d, extents)
        groups = d.one(1, 1, 2, 3)
        w = d.data([groups * d.int(1, 2), blocks, *kernel, block, d.int(1, 3)])
        attrs |= {"groups": groups} if groups > 1 else _summed(d, blocks, block)
        x = d.data([1, groups * blocks, *extents, block])
        return Call(f"nn.contrib_conv{len(extents)}d_NCHWc", (x, w), attrs)
    if kind == "depthwise":
        w = d.data([blocks, *kernel, block])
        return Call("nn.contrib_depthwise_conv2d_NCHWc", (d.data([1, blocks, *extents, block]), w), attrs)
    rows = {"lanes": d.one(2, 4), "tile": d.one(1, 3)}
    if d.int(0, 1):
        size = [min(k, n) for k, n in zip(kernel, extents, strict=True)]
        rows["padding"] = min(d.int(0, 1), min(size) - 1)
        window = {"pool_size": size, "strides": attrs["strides"], "ceil_mode": bool(d.int(0, 1)), **rows}
        return Call(f"nn.contrib_{d.one('max', 'avg')}_pool_rows", (d.data([1, blocks, *extents]),), window)
    inputs = (d.data([1, blocks, *extents]), d.data([blocks, 1, *kernel]))
    return Call("nn.contrib_depthwise_conv2d_rows", inputs, {**attrs, **rows})


# ---- sums and order --------------------------------------------------------------------------------------------------


def _products(d: Drawing) -> Call:
    m, k, n = d.int(1, 4), d.int(1, 5), d.int(1, 4)
    dtype = d.one("float32", "int8", "uint8", "int32")
    attrs: dict[str, Any] = {"out_dtype": "int32"} if dtype in ("int8", "uint8") else {}
    op = d.one("nn.dense", "nn.matmul", "nn.batch_matmul")
    if op == "nn.dense":
        return Call(op, (_any(d, [*d.shape(0, 1), m, k], dtype), _any(d, [n, k], dtype)), attrs)
    a, b = d.flag(), d.flag()
    lead = [d.int(1, 3)] if op == "nn.batch_matmul" else d.shape(0, 2)
    own = [[x if d.int(0, 3) else 1 for x in lead] for _ in range(2)]
    left, right = ([m, k] if not a else [k, m]), ([k, n] if not b else [n, k])
    inputs = (_any(d, [*own[0], *left], dtype), _any(d, [*own[1], *right], dtype))
    return Call(op, inputs, {**attrs, "transpose_a": a, "transpose_b": b})


def _reduce(d: Drawing) -> Call:
    op = d.one("sum", "prod", "mean", "mean", "max", "min", "l1", "l2", "sum_square", "variance", "logsumexp", "all",
               "any")  # fmt: skip
    shape = d.shape(1, 4)
    axis = d.one(None, tuple(d.axes(len(shape))), tuple(d.axes(len(shape))), d.axis(len(shape)))
    attrs: dict[str, Any] = {"axis": axis, "keepdims": d.flag()}
    if op in ("all", "any"):
        return Call(op, (d.data(shape, "bool", 0, 1),), attrs)
    only_float = op in ("logsumexp", "variance")
    x = d.data(shape, d.one("float32", "float64") if only_float else d.one(*FLOATS, "int32", "int64"), -3, 3)
    if op == "prod":
        x = d.rng.choice(np.array([-2, -1, 1, 1, 3], x.dtype), shape)
    if op == "variance":
        attrs["unbiased"] = False
    if op in ("max", "min"):
        x = _with_nan(d, x)
    return Call(op, (x,), attrs)


def _arg(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    x = _with_nan(d, d.data(shape, d.one("float32", "float32", "int32", "uint8"), -1, 1))
    attrs = {"axis": d.one(None, d.axis(len(shape))), "keepdims": d.flag(), "select_last_index": d.flag(),
             "dtype": d.one("int32", "int64")}  # fmt: skip
    return Call(d.one("argmax", "argmin"), (x,), attrs)


def _sort(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    attrs = {"axis": axis, "is_ascend": d.flag(), "dtype": d.one("int32", "int64")}
    long = d.flag()  # so long that the first few are found without sorting all
    shape[axis] = d.int(16, 24) if long else shape[axis]
    x = _with_nan(d, d.data(shape, d.one("float32", "int32", "uint8"), -2, 2))
    if d.flag():
        return Call("argsort", (x,), attrs)
    return Call("topk", (x,), {**attrs, "k": d.int(0, 2 if long else shape[axis])})


def _cumulative(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    if d.flag():
        x = _with_nan(d, d.data(shape, d.one("float32", "int32", "uint8"), -2, 3))
        return Call(d.one("cummax", "cummin"), (x,), {"axis": d.axis(len(shape))})
    attrs = {"axis": d.axis(len(shape)), "exclusive": d.flag(), "reverse": d.flag()}
    return Call(d.one("cumsum", "cumprod"), (d.data(shape, d.one("float32", "int32"), -2, 3),), attrs)


# ---- norms -----------------------------------------------------------------------------------------------------------


def _norm(d: Drawing) -> Call:
    kind = d.one("softmax", "log_softmax", "batch_norm", "layer_norm", "instance_norm", "group_norm", "rms_norm",
                 "l2_normalize", "lrn", "lrn")  # fmt: skip
    groups, each = d.int(1, 3), d.int(1, 2)
    x = d.data([d.int(1, 2), groups * each, d.int(1, 4), *([d.int(1, 3)] if d.flag() else [])])
    axis = d.axis(x.ndim)
    if kind in ("softmax", "log_softmax"):
        return Call(f"nn.{kind}", (x,), {"axis": axis})
    if kind == "lrn":
        attrs = {"size": d.int(1, 6), "axis": axis % x.ndim, "alpha": 0.5, "beta": d.one(0.5, 1.0), "bias": 1.0}
        return Call("nn.lrn", (x,), attrs)
    if kind == "l2_normalize":
        return Call("nn.l2_normalize", (x,), {"axis": tuple(d.axes(x.ndim)), "ord": d.int(1, 2), "eps": 0.5})
    count = x.shape[axis] if kind == "batch_norm" else x.shape[1]
    some = [d.data([count]) for _ in range(3)]
    if kind == "batch_norm":
        return Call("nn.batch_norm", (x, *some, d.data([count], low=1)), {"axis": axis % x.ndim, "epsilon": 0.5})
    if kind in ("instance_norm", "group_norm"):
        many: dict[str, Any] = {"num_groups": groups} if kind == "group_norm" else {}
        if d.flag():  # channels in blocks
            x, many = d.data([*x.shape, d.int(1, 3)]), {**many, "axis": (1, -1)}
            some = [d.data([count, x.shape[-1]]) for _ in range(2)]
        return Call(f"nn.{kind}", (x, *some[:2]), {"epsilon": 0.5, **many})
    last = d.int(1, x.ndim)
    over = tuple(range(x.ndim - last, x.ndim))
    parameters = [d.data(x.shape[-last:]) for _ in range(d.int(1, 2) if kind == "layer_norm" else 1)]
    return Call(f"nn.{kind}", (x, *parameters), {"axis": over, "epsilon": 0.5})


def _quantize(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    axis, dtype, whole = d.axis(len(shape)), d.one("uint8", "int8"), d.flag()
    own = [] if whole else [shape[axis]]
    scale = np.asarray(d.rng.choice(np.array([0.5, 1.0, 2.0, 4.0], np.float32), own), np.float32)
    zero = [np.asarray(_any(d, own, dtype))] if d.flag() or dtype == "int8" else []
    if d.flag():
        x = d.data(shape, "float32", -600, 600) / np.float32(2)
        return Call("qnn.quantize", (x, scale, *zero), {"axis": axis, **({"out_dtype": dtype} if d.flag() else {})})
    return Call("qnn.dequantize", (_any(d, shape, dtype), scale, *zero), {"axis": axis})


# ---- recurrences ----------------------------------------------------------------------------------------------------

CELLS = {"nn.rnn": (1, 1, 1), "nn.gru": (3, 1, 2), "nn.lstm": (4, 2, 3)}  # gates, states, functions
ACTIVATIONS = ("affine", "elu", "hard_sigmoid", "leaky_relu", "relu", "scaled_tanh", "sigmoid", "softplus", "softsign",
               "tanh", "thresholded_relu")  # fmt: skip


def _recurrent(d: Drawing) -> Call:
    return recurrent(d, hidden=(1, 2, 3), batch=(1, 1, 2, 3, 4, 5, 7), steps=(0, 1, 2, 3))


def recurrent(d: Drawing, hidden: Sequence[int], batch: Sequence[int], steps: Sequence[int]) -> Call:
    """A layer of one of these sizes, with any of the attributes."""
    return _layer(d, d.one(*hidden), d.one(*batch), d.one(*steps))


def _layer(d: Drawing, hidden: int, batch: int, steps: int) -> Call:
    op = d.one(*CELLS)
    gates, states, functions = CELLS[op]
    direction = d.one("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    inputs = [[steps, batch, ways, gates * hidden], [ways, hidden, gates * hidden], *[[ways, batch, hidden]] * states]
    attrs: dict[str, Any] = {"direction": direction, "clip": d.one(0.0, 0.0, 0.75)}
    if d.flag():
        attrs["activations"] = tuple(d.one(*ACTIVATIONS) for _ in range(functions))
        if d.flag():
            attrs["alpha"] = tuple(d.one(0.3, 0.6, 0.8, 1.4) for _ in range(functions))
            attrs["beta"] = tuple(d.one(0.3, 0.6, 0.8, 1.4) for _ in range(functions))
    if op == "nn.gru" and d.flag():
        attrs["linear_before_reset"] = True
        inputs.append([ways, hidden])
    if op == "nn.lstm" and d.flag():
        attrs["peepholes"] = True
        inputs.append([ways, 3 * hidden])
    if op == "nn.lstm":
        attrs["input_forget"] = d.flag()
        attrs["cell_clip"] = d.one(0.0, 0.0, 0.5)
    data = [d.data(shape, "float32", -4, 4) / np.float32(4) for shape in inputs]
    if d.flag():
        attrs["lengths"] = True
        data.append(d.data([batch], d.one("int32", "int64"), 0, steps + 1))
    return Call(op, tuple(data), attrs)


# ---- places ----------------------------------------------------------------------------------------------------------


def _pad(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    mode = d.one("constant", "constant", "edge", "reflect", "wrap")
    widths = []
    for n in shape:
        least = 1 - n if mode == "constant" else 0
        before = d.int(least, 3)
        widths.append((before, d.int(least if before >= 0 else 0, 3)))
    attrs: dict[str, Any] = {"pad_width": tuple(widths), "pad_mode": mode}
    x = d.data(shape, d.one("float32", "int32", "int8"))
    if mode == "constant" and d.flag():
        return Call("nn.pad", (x, d.data([], x.dtype.name)), attrs)
    return Call("nn.pad", (x,), {**attrs, "pad_value": d.int(-2, 2)} if mode == "constant" else attrs)


def _slice(d: Drawing) -> Call:
    shape = d.shape(1, 4)
    axes = d.one(None, d.axes(len(shape)))
    over = list(range(d.int(1, len(shape)))) if axes is None else axes
    begin, end, strides = [], [], []
    for a in over:
        n = shape[a]
        # The first and the last element, from either end, and the places beside them tell bounds that are one off.
        ends = (0, -1, n - 1, n, -n, -n - 1)
        places = [*range(-n - 2, n + 3), *ends, *ends, -(2**31), 2**31 - 1]
        step = d.one(1, 1, 2, 3, -1, -2)
        first, last = d.one(*places), d.one(*places)
        if not range(n)[first:last:step]:
            first, last = (0, n) if step > 0 else (n - 1, -n - 1)
        begin.append(first)
        end.append(last)
        strides.append(step)
    attrs = {"begin": tuple(begin), "end": tuple(end), "strides": tuple(strides)}
    return Call("strided_slice", (d.data(shape),), attrs if axes is None else {**attrs, "axes": tuple(axes)})


def _rearrange(d: Drawing) -> Call:
    shape = d.shape(1, 4)
    x, rank = d.data(shape), len(shape)
    kind = d.one("transpose", "reverse", "repeat", "tile", "concatenate", "stack", "split", "trilu", "expand_dims",
                 "broadcast_to", "depth_to_space", "space_to_depth", "interleave")  # fmt: skip
    if kind == "transpose":
        return Call(kind, (x,), {"axes": d.one(None, tuple(d.permuted(range(rank))))})
    if kind == "reverse":
        return Call(kind, (x,), {"axis": tuple(d.axes(rank))})
    if kind == "repeat":
        return Call(kind, (x,), {"repeats": d.int(1, 3), "axis": d.axis(rank)})
    if kind == "tile":
        return Call(kind, (x,), {"reps": tuple(d.int(1, 3) for _ in range(d.int(1, rank + 1)))})
    if kind == "concatenate":
        axis = d.axis(rank)
        parts = [x]
        for _ in range(d.int(0, 2)):
            own = list(shape)
            own[axis] = d.int(1, 4)
            parts.append(d.data(own))
        return Call(kind, tuple(parts), {"axis": axis})
    if kind == "stack":
        return Call(kind, tuple(d.data(shape) for _ in range(d.int(1, 3))), {"axis": d.int(-rank - 1, rank)})
    if kind == "split":
        axis = d.axis(rank)
        n = shape[axis]
        cuts = tuple(sorted({d.int(1, n - 1) for _ in range(d.int(1, 2))})) if n > 1 else ()
        sections = d.one(*(c for c in range(1, n + 1) if n % c == 0))
        return Call(kind, (x,), {"indices_or_sections": cuts if cuts and d.flag() else sections, "axis": axis})
    if kind == "trilu":
        x = d.data([*shape[:2], d.int(1, 5), d.int(1, 5)])
        return Call(kind, (x,), {"k": d.int(-4, 4), "upper": d.flag()})
    if kind == "expand_dims":
        return Call(kind, (x,), {"axis": d.int(-rank - 1, rank), "num_newaxis": 1})
    if kind == "broadcast_to":
        own = [n if d.flag() else 1 for n in shape][d.int(0, rank - 1) :]
        return Call(kind, (d.data(own),), {"shape": tuple(shape)})
    if kind == "interleave":
        image = [d.int(1, 3) for _ in range(d.int(1, 3))]
        strides = [d.int(1, 3) for _ in image]
        size = tuple(d.int(1, n * s) for n, s in zip(image, strides))
        x = d.data([d.int(1, 2), math.prod(strides) * d.int(1, 2), *image])
        return Call("nn.interleave", (x,), {"strides": tuple(strides), "size": size, "phases_last": d.flag()})
    b, c, h, w = d.int(1, 3), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    if kind == "depth_to_space":
        x = d.data([1, c * b * b, h, w])
        return Call("nn.depth_to_space", (x,), {"block_size": b, "mode": d.one("DCR", "CRD")})
    return Call("nn.space_to_depth", (d.data([1, c, h * b, w * b]),), {"block_size": b})


def _index(d: Drawing) -> Call:
    shape = [d.int(1, 4) for _ in range(d.int(1, 4))]
    rank = len(shape)
    axis, dtype = d.axis(rank), d.one("int32", "int64")
    n = shape[axis]
    kind = d.one("take", "gather", "gather_nd", "scatter_elements", "scatter_nd", "one_hot")
    x = d.data(shape)
    if kind == "take":
        if d.int(0, 3) == 0:
            return Call(kind, (x, d.data(d.shape(0, 2), dtype, 0, x.size - 1)))
        return Call(kind, (x, d.data(d.shape(0, 2), dtype, -n, n - 1)), {"axis": axis})
    other = list(shape)
    other[axis] = d.int(1, 4)
    if kind == "gather":
        return Call(kind, (x, d.data(other, dtype, -n, n - 1)), {"axis": axis})
    if kind == "one_hot":
        depth = d.int(1, 4)
        attrs = {"depth": depth, "on_value": d.int(-2, 3), "off_value": d.int(-2, 3), "axis": d.int(-rank - 1, rank),
                 "dtype": d.one("float32", "int64")}  # fmt: skip
        return Call(kind, (d.data(shape, dtype, -depth - 1, depth),), attrs)
    reduction = d.one("none", "add", "mul", "max", "min")
    if kind == "scatter_elements":
        low, high = (-n - 1, n) if reduction != "none" else (0, 0)  # nothing is written outside of the data
        index = d.data(other, dtype, low, high)
        if reduction == "none":  # each place at most once
            other[axis] = min(other[axis], n)
            index = np.argsort(d.rng.random(shape), axis=axis).take(np.arange(other[axis]), axis).astype(dtype)
        return Call(kind, (x, index, d.data(other)), {"axis": axis, "reduction": reduction})
    if kind == "gather_nd":
        batch = d.int(0, min(2, rank - 1))
        lead = [*shape[:batch], *d.shape(1 if not batch else 0, 1)]
        size = d.int(1, rank - batch)
        points = np.stack([d.data(lead, dtype, -m, m - 1) for m in shape[batch : batch + size]], -1)
        return Call(kind, (x, points), {"batch_dims": batch})
    size = d.int(1, rank)
    every = np.array(list(np.ndindex(*shape[:size])))
    chosen = d.rng.choice(len(every), d.int(1, len(every)), replace=reduction != "none")
    points = every[chosen] - np.array(shape[:size]) * d.rng.integers(0, 2, (len(chosen), size))
    if d.flag():  # nothing is written there
        points[0, d.int(0, size - 1)] = d.one(-7, 6)
    return Call(kind, (x, points.astype(dtype), d.data([len(chosen), *shape[size:]])), {"reduction": reduction})


def _sample(d: Drawing) -> Call:
    extents = [d.int(1, 5), d.int(1, 5)]
    attrs: dict[str, Any] = {"method": d.one("nearest", "linear", "cubic"), "align_corners": d.flag(),
                             "padding_mode": d.one("zeros", "border", "reflection")}  # fmt: skip
    # Eighths and an odd number of steps: no point lies between two places alike far away.
    grid = (d.rng.integers(-20, 20, (1, d.int(1, 3), d.int(1, 3), 2)) * 2 + 1).astype(np.float32) / np.float32(17)
    if d.flag():
        grid, attrs["in_elements"] = grid * np.float32(17 / 8), True
    return Call("image.grid_sample", (d.data([1, d.int(1, 2), *extents]), grid), attrs)


def _resize(d: Drawing) -> Call:
    shape = [1, 1, d.int(1, 5), d.int(1, 5)]
    attrs: dict[str, Any] = {
        "size": (*shape[:2], d.int(1, 8), d.int(1, 8)), "method": d.one("nearest_neighbor", "linear", "cubic"),
        "coordinate_transformation_mode": d.one("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"),
        "rounding_method": d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "cubic_alpha": d.one(-0.75, -0.5), "cubic_exclude": d.flag(),
    }  # fmt: skip
    if d.int(0, 3) == 0:
        axis, table = d.axis(len(shape)), [d.int(1, 3), d.int(1, 6)]
        tables = d.data(table, d.one("int8", "int32", "int64"), -7, 7), d.data(table, "float32", -3, 3)
        return Call("image.interpolate", (d.data(shape, "float32"), *tables), {"axis": axis})
    return Call("image.resize", (d.data(shape),), attrs)


def _elementwise(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    other = [n if d.flag() else 1 for n in shape][d.int(0, len(shape) - 1) :]
    kind = d.one("binary", "binary", "divide", "cast", "clip", "activation", "channel", "where")
    if kind == "where":
        parts = d.permuted([shape, other, d.one([], other)])
        dtype = d.one("float32", "int32")
        return Call(kind, (d.data(parts[0], "bool", 0, 1), d.data(parts[1], dtype), d.data(parts[2], dtype)))
    if kind == "binary":
        x = _any(d, shape)
        pair = d.permuted([x, _any(d, other, x.dtype.name)])
        return Call(d.one("add", "subtract", "multiply", "maximum", "minimum", "less", "less_equal", "greater",
                          "greater_equal", "equal", "not_equal"), tuple(pair))  # fmt: skip
    if kind == "divide":
        x = _any(d, shape, "float32", "int8", "int32", "uint8")
        by = d.data(other, x.dtype.name, 1, 5)
        by = by if x.dtype.kind == "u" else by * d.rng.choice(np.array([-1, 1], x.dtype), other)
        return Call(d.one("divide", "floor_divide", "mod", "floor_mod"), (x, by))
    if kind == "cast":
        x = d.data(shape, d.one("int32", "int64"), -70000, 70000)
        return Call(kind, (x,), {"dtype": d.one("int8", "uint8", "int16", "float32", "bool", "int64")})
    if kind == "clip":
        low = d.int(-4, 3)
        return Call(kind, (d.data(shape, d.one("float32", "int32")),), d.attrs(a_min=low, a_max=low + d.int(0, 3)))
    if kind == "channel":
        axis, x = d.axis(len(shape)), d.data(shape)
        return Call(d.one("nn.bias_add", "nn.prelu"), (x, d.data([shape[axis]])), {"axis": axis})
    limit = float(d.int(0, 3))
    op, attrs = d.one(("nn.shrink", {"lambd": limit, "bias": float(d.int(-2, 2))}),
                      ("nn.hard_sigmoid", {"alpha": 0.25}), ("nn.thresholded_relu", {"alpha": limit}),
                      ("nn.leaky_relu", {"alpha": 0.5}), ("nn.elu", {}),
                      ("nn.celu", {"alpha": 2.0}), ("sign", {}), ("round", {}), ("trunc", {}),
                      ("round_to_format", {"format": d.one(*FORMATS), "saturate": d.flag()}))  # fmt: skip
    return Call(op, (d.data(shape) / np.float32(2),), attrs)


UNARY = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "log10", "log1p",
         "log2", "nn.gelu", "nn.hard_swish", "nn.mish", "nn.relu", "nn.selu", "nn.silu", "nn.softplus", "nn.softsign",
         "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "abs", "ceil", "floor", "isfinite",
         "isinf", "isnan", "negative", "copy")  # fmt: skip


def _function(d: Drawing) -> Call:
    """A function of one number or of two, at halves, ends and what is no number; and of bits."""
    shape = d.shape(1, 3)
    kind = d.one("one", "one", "one", "two", "logical", "bits", "shift")
    if kind == "one":
        x = d.data(shape, "float32", -9, 9) / np.float32(d.one(1, 2, 4))
        return Call(d.one(*UNARY), (_with_nan(d, x),))
    if kind == "two":
        x, y = (d.data(shape, "float32", -6, 6) / np.float32(2) for _ in range(2))
        return d.one(Call("atan2", (x, y)), Call("power", (np.abs(x) + np.float32(0.5), y)))
    if kind == "logical":
        pair = (d.data(shape, "bool", 0, 1), d.data(shape, "bool", 0, 1))
        return d.one(Call("logical_not", pair[:1]), Call(d.one("logical_and", "logical_or", "logical_xor"), pair))
    dtype = d.one("uint8", "int8", "int32") if kind == "bits" else "uint8"
    x = _any(d, shape, dtype)
    if kind == "bits":
        return d.one(
            Call("bitwise_not", (x,)),
            Call(d.one("bitwise_and", "bitwise_or", "bitwise_xor"), (x, _any(d, shape, dtype))),
        )
    return Call(d.one("left_shift", "right_shift"), (x, d.data(shape, dtype, 0, 7)))


def _caches(d: Drawing) -> Call:
    """Rows written to a cache, and attention to those that are there. Half of the batches choose their slots."""
    batch, groups, places, width = d.int(1, 3), d.int(1, 2), d.int(1, 19), d.int(1, 5)
    entries = d.int(1, 4) if d.flag() else batch
    slots = () if entries == batch and d.flag() else (d.data([batch], d.one("int32", "int64"), 0, entries - 1),)
    rows, dtype = d.int(1, min(3, places)), d.one("int32", "int64")
    if d.flag():
        shape, other = [batch, *d.shape(1, 3)], d.one("linear", "circular")
        axis = d.int(1, len(shape) - 1)
        rows = d.int(1, shape[axis])
        new = [rows if a == axis else n for a, n in enumerate(shape)]
        at = d.data([batch], dtype, -7, 9) if other == "circular" else d.data([batch], dtype, 0, shape[axis] - rows)
        kind = d.one("float32", "float16", "int8", "int64")
        attrs = {"axis": axis - len(shape) if d.flag() else axis, "mode": other}
        return Call("nn.cache_update", (d.data([entries, *shape[1:]], kind), d.data(new, kind), at, *slots), attrs)
    width = d.one(width, 16)
    cache = [groups, places]
    query = d.data([batch, groups * d.int(1, 5), rows, width], "float32", -2, 2)
    stored = d.one("float32", "float16")
    key, value = (d.data([entries, *cache, n], stored, -2, 2) for n in (width, d.one(width, 3, 16, 40)))
    return Call("nn.cached_attention", (query, key, value, d.data([batch], dtype, 0, places - rows), *slots),
                {"scale": d.one(0.125, 0.5, 1.0)})  # fmt: skip


# ---- sizes that data decide ------------------------------------------------------------------------------------------


def _counted(d: Drawing) -> Call:
    """Few different values, so that some are equal; few places that count, or all."""
    kind = d.one("argwhere", "unique", "leading", "bind_size", "suppress", "suppress")
    if kind == "argwhere":
        x = _with_nan(
            d, d.data(d.shape(1, 3), d.one("float32", "int32", "uint8", "int64"), *d.one((0, 0), (0, 1), (-1, 1)))
        )
        return Call("argwhere", (x > 0 if d.flag() else x,))
    if kind == "unique":
        x = _with_nan(d, d.data(d.shape(1, 2), d.one("float32", "int32", "uint8"), 0, d.int(0, 4)))
        return Call("unique", (x,), {"sorted": d.flag()})
    if kind == "leading":
        x = _any(d, d.shape(1, 3))
        axis = d.axis(x.ndim)
        return Call("leading", (x,), {"size": d.int(0, x.shape[axis]), "axis": axis})
    if kind == "bind_size":
        most = d.int(0, 9)
        return Call("bind_size", (np.array(d.int(0, most)),), {"size": SizeVar("n"), "most": most})
    images, classes, boxes = d.int(1, 2), d.int(1, 3), d.int(1, 7)
    corners = d.data((images, boxes, 4), "float32", 0, 4) / 2
    scores = d.data((images, classes, boxes), "float32", 0, 4) / 4
    limits = (
        np.array([d.int(0, boxes + 1)]),
        np.float32(d.one(0.0, 0.3, 0.75)),
        np.array([d.one(-1.0, 0.25)], np.float32),
    )
    attrs = {"most": d.int(1, boxes), "box_format": d.one("corner", "center")}
    return Call(
        "vision.all_class_non_max_suppression", (corners, scores, limits[0], np.array(limits[1]), limits[2]), attrs
    )


FAMILIES: dict[str, Callable[[Drawing], Call]] = {
    "pool": _pool, "conv": _conv, "conv_transpose": _conv_transpose, "blocked": _blocked, "products": _products,
    "reduce": _reduce, "arg": _arg, "sort": _sort, "cumulative": _cumulative, "norm": _norm, "quantize": _quantize,
    "bytes": _bytes,
    "pad": _pad, "slice": _slice, "rearrange": _rearrange, "index": _index, "sample": _sample, "resize": _resize,
    "elementwise": _elementwise, "function": _function, "recurrent": _recurrent, "caches": _caches,
    "counted": _counted,
}  # fmt: skip


def random_call(family: str, seed: int) -> Call:
    """The call of that family that comes with the seed."""
    return FAMILIES[family](Seeded(seed, *family.encode()))
