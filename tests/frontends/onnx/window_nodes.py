"""Random nodes that slide a window: pooling and convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .one_node import Drawing, Node


def window(d: Drawing, extents: Sequence[int], dilated: bool = True) -> tuple[list[int], dict[str, Any]]:
    """A kernel that fits into these extents, strides, dilations, and pads or auto_pad."""
    kernel, strides, dilations, pads = [], [], [], []
    for n in extents:
        k, t = d.one(1, 2, 3), d.one(1, 1, 2) if dilated else 1
        while (k - 1) * t + 1 > n:
            k -= 1
        kernel.append(k)
        strides.append(d.one(1, 1, 2, 3))
        dilations.append(t)
        pads.append((d.int(0, k // 2), d.int(0, k // 2)))
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations if dilated else None}
    mode = d.one("pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", None)
    if mode == "pads":
        attrs["pads"] = [p[0] for p in pads] + [p[1] for p in pads]
    elif mode is not None:
        attrs["auto_pad"] = mode
    return kernel, {k: v for k, v in attrs.items() if v is not None}


def pool(d: Drawing) -> Node:
    extents = [d.int(3, 7) for _ in range(d.one(1, 2, 2))]
    op = d.one("MaxPool", "AveragePool", "AveragePool", "LpPool")
    kernel, attrs = window(d, extents)
    attrs["kernel_shape"] = kernel
    if "auto_pad" not in attrs and d.flag():
        attrs["ceil_mode"] = 1
    if op == "AveragePool":
        attrs["count_include_pad"] = d.int(0, 1)
    if op == "LpPool":
        attrs["p"] = d.int(1, 3)
    x = d.data([d.int(1, 2), d.int(1, 3), *extents])
    # ONNX's evaluator mixes up axes, ends and dilations.
    return d.node(op, {"x": x}, attrs, opset=19, definition=lambda: [_pooled(op, x, attrs)])


def _pooled(op: str, x: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """A pool of each window, element by element."""
    extents, kernel, strides = x.shape[2:], attrs["kernel_shape"], attrs["strides"]
    dilations, rank = attrs.get("dilations", [1] * len(kernel)), len(kernel)
    pads, mode = list(attrs.get("pads", [0] * 2 * rank)), attrs.get("auto_pad", "")
    counts = []
    for a, (n, k, s, t) in enumerate(zip(extents, kernel, strides, dilations)):
        reach = (k - 1) * t + 1
        if mode.startswith("SAME"):
            total = max(0, (-(-n // s) - 1) * s + reach - n)
            small, large = total // 2, total - total // 2
            pads[a], pads[rank + a] = (small, large) if mode == "SAME_UPPER" else (large, small)
        room = n + pads[a] + pads[rank + a] - reach
        count = -(-room // s) + 1 if attrs.get("ceil_mode") else room // s + 1
        counts.append(count - ((count - 1) * s >= n + pads[a]))  # no window begins behind the data
    y = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*counts):
        taps = [[o * s - before + k * t for k in range(size)]
                for o, s, before, t, size in zip(place, strides, pads, dilations, kernel)]  # fmt: skip
        inside = [[p for p in line if 0 <= p < n] for line, n in zip(taps, extents)]
        padded = [[p for p in line if p < n + after] for line, n, after in zip(taps, extents, pads[rank:])]
        part = x[(slice(None), slice(None), *np.ix_(*inside))].reshape(*x.shape[:2], -1).astype(np.float64)
        if op == "MaxPool":
            value = part.max(-1)
        elif op == "LpPool":
            value = (np.abs(part) ** attrs["p"]).sum(-1) ** (1 / attrs["p"])
        else:
            counted = padded if attrs["count_include_pad"] else inside
            value = part.sum(-1) / math.prod(map(len, counted))
        y[(slice(None), slice(None), *place)] = value
    return y.astype(x.dtype)


def conv(d: Drawing) -> Node:
    extents = [d.int(3, 7) for _ in range(d.one(1, 2, 2))]
    group, each = d.one(1, 1, 2, 3), d.int(1, 2)
    kernel, attrs = window(d, extents)
    filters = group * d.int(1, 2)
    inputs = {
        "x": d.data([d.int(1, 2), group * each, *extents]), "w": d.data([filters, each, *kernel]),
        "b": d.data([filters]) if d.flag() else None,
    }  # fmt: skip
    return d.node("Conv", inputs, {**attrs, "group": group, **d.attrs(kernel_shape=kernel)})


def conv_transpose(d: Drawing) -> Node:
    extents = [d.int(2, 5) for _ in range(d.one(1, 2))]
    group, each, more = d.one(1, 1, 2), d.int(1, 2), d.int(1, 2)
    kernel = [d.int(1, 3) for _ in extents]
    strides, dilations = [d.int(1, 3) for _ in extents], [d.one(1, 1, 2) for _ in extents]
    extra = [d.int(0, max(s, t) - 1) for s, t in zip(strides, dilations)]
    pads = [d.int(0, k // 2) for k in (*kernel, *kernel)]
    attrs = {"strides": strides, "dilations": dilations, "output_padding": extra, "group": group}
    natural = [(n - 1) * s + e + (k - 1) * t + 1 for n, s, e, k, t in zip(extents, strides, extra, kernel, dilations)]
    if all(full - d0 - d1 > 0 for full, d0, d1 in zip(natural, pads, pads[len(extents) :])):
        attrs["pads"] = pads
    inputs = {
        "x": d.data([d.int(1, 2), group * each, *extents]), "w": d.data([group * each, more, *kernel]),
        "b": d.data([more]) if group == 1 and d.flag() else None,  # the evaluator adds it once a group
    }  # fmt: skip
    if d.flag():
        return d.node("ConvTranspose", inputs, attrs)
    # The size is asked for: what is too much is cut off, an odd one in front unless the mode is SAME_UPPER.
    asked = {k: v for k, v in attrs.items() if k != "pads"}
    mode = d.one(None, "NOTSET", "SAME_UPPER", "SAME_LOWER")
    strided = [n * s for n, s in zip(extents, strides)]
    by_strides = (mode or "").startswith("SAME") and all(s <= full for s, full in zip(strided, natural)) and d.flag()
    shape = strided if by_strides else [d.int(1, full) for full in natural]
    total = [full - size for full, size in zip(natural, shape)]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    same = d.node("ConvTranspose", inputs, {**asked, "pads": less + more if mode == "SAME_UPPER" else more + less})
    asked |= {} if mode is None else {"auto_pad": mode}
    return d.node("ConvTranspose", inputs, asked if by_strides else {**asked, "output_shape": shape}, twin=(same, list))
