"""The moves of `graphs`: each adds one operator (or a short pattern) on suitable values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm.graph import Value

from .graph_drawing import CHANNELS, EXACT_BELOW, LARGEST, Drawing, fixed
from .graph_indexing import INDEXING


def _unary(d: Drawing) -> None:
    x = d.pick()
    if x.dtype.is_bool:
        d.op("logical_not", x, peak=1)
        return
    smooth = ["negative", "abs", "copy", "nn.relu", "nn.dropout"]
    jumps = ["floor", "ceil", "round", "sign", "trunc"]
    kinds = smooth + (jumps if x.dtype.is_float and d.facts[x].exact else [])
    if not x.dtype.is_float:
        kinds = ["negative", "abs", "copy", "nn.relu", "bitwise_not", "sign"]
        if str(x.dtype).startswith("u"):
            kinds = ["copy", "nn.relu", "bitwise_not"]
    d.op(d.one_of(kinds), x, peak=max(1, d.peak(x)) if x.dtype.is_float else 2.0**63)


def _clip(d: Drawing) -> None:
    x = d.pick(lambda v: not v.dtype.is_bool)
    low = 0 if str(x.dtype).startswith("u") else d.draw(st.integers(-4, 0))
    d.op("clip", x, peak=4, a_min=low, a_max=d.draw(st.integers(1, 4)))


_FUNCTIONS = ("tanh", "sigmoid", "erf", "nn.silu", "nn.gelu", "nn.hard_swish", "nn.hard_sigmoid", "nn.elu",
              "nn.softplus", "nn.mish", "sin", "cos", "atan", "nn.leaky_relu", "nn.selu")  # fmt: skip


def _function(d: Drawing) -> None:
    x = d.floats()
    if d.peak(x) > 16:
        x = d.op("clip", x, peak=4, a_min=-4.0, a_max=4.0)
    d.op(d.one_of(_FUNCTIONS), x, peak=max(2.0, 2 * d.peak(x)), exact=False)


def _arithmetic(d: Drawing) -> None:
    x = d.pick(lambda v: not v.dtype.is_bool)
    kind = d.one_of(["add", "subtract", "multiply", "maximum", "minimum"])
    x = d.bounded(x, 2, square=kind == "multiply")
    y = d.bounded(d.partner(x), 2, square=kind == "multiply")
    if kind == "multiply" and not (d.facts[x].exact and d.facts[y].exact) and d.peak(x) * d.peak(y) > 256:
        kind = "maximum"  # keeps roundings small
    if not x.dtype.is_float:
        peak = 2.0**63
    elif kind == "multiply":
        peak = max(1, d.peak(x)) * max(1, d.peak(y))
    else:
        peak = d.peak(x) + d.peak(y)
    d.op(kind, *((x, y) if d.flag() else (y, x)), peak=peak)


def _integer_division(d: Drawing) -> None:
    x = d.pick(lambda v: v.dtype.is_int and not v.dtype.is_bool)
    if x.dtype.is_float or x.dtype.is_bool:
        x = d.fresh([d.extent(), d.extent()], d.one_of(["int32", "int64", "int8", "uint8"]), -9, 9)
    unsigned = str(x.dtype).startswith("u")
    by = d.one_of([1, 2, 3, 7] if unsigned else [-7, -2, -1, 1, 2, 3, 8])
    kind = d.one_of(["divide", "floor_divide", "mod", "floor_mod"])
    if by == -1:  # the most negative number has no quotient
        x = d.op("clip", x, peak=100, a_min=-100, a_max=100)
    d.op(kind, x, d.fresh([], str(x.dtype), by, by), peak=2.0**63)


def _bits(d: Drawing) -> None:
    x = d.pick(lambda v: not v.dtype.is_float)
    if x.dtype.is_float:
        x = d.fresh([d.extent(), d.extent()], d.one_of(["bool", "int32", "uint8", "int64"]), -9, 9)
    if x.dtype.is_bool:
        d.op(d.one_of(["logical_and", "logical_or", "logical_xor"]), x, d.partner(x), peak=1)
    elif d.flag():
        d.op(d.one_of(["bitwise_and", "bitwise_or", "bitwise_xor"]), x, d.partner(x), peak=2.0**63)
    else:
        by = d.fresh(d.shape_like(x), str(x.dtype), 0, 5)
        d.op(d.one_of(["left_shift", "right_shift"]), x, by, peak=2.0**63)


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _choice(d: Drawing) -> None:
    x = d.pick(lambda v: d.facts[v].exact)
    if not d.facts[x].exact:
        x = d.fresh([3, 5], "float32")
    y = d.partner(x)
    if not d.facts[y].exact or x.dtype.is_bool:
        return
    condition = d.op(d.one_of(_COMPARISONS), x, y, peak=1)
    if d.flag():
        d.op("where", condition, x, d.partner(x), peak=2 * d.peak(x) + 3)


def _cast(d: Drawing) -> None:
    x = d.pick(lambda v: d.facts[v].exact)
    if not d.facts[x].exact:
        return
    dtype = d.one_of(["float32", "int32", "int64", "float16", "bfloat16", "int8", "uint8", "bool", "float64"])
    fits = EXACT_BELOW.get(dtype, 2.0**63)
    unsigned = dtype.startswith("u")
    if x.dtype.is_float and dtype.endswith("int8"):
        x = d.op("clip", x, peak=100, a_min=0.0 if unsigned else -100.0, a_max=100.0)
    elif dtype != "bool" and d.peak(x) > min(fits, 100 if x.dtype.is_float else fits):
        x = d.op("clip", x, peak=100, a_min=0 if str(x.dtype).startswith("u") else -100, a_max=100)
    d.op("cast", x, peak=1 if dtype == "bool" else max(1, d.peak(x)) if dtype in EXACT_BELOW else 2.0**63, dtype=dtype)


def _axes(d: Drawing, x: Value) -> Any:
    if x.ndim == 0 or d.draw(st.integers(0, 3)) == 0:
        return None
    axes = st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=x.ndim, unique_by=lambda a: a % x.ndim)
    some = d.draw(axes)
    return some[0] if len(some) == 1 and d.flag() else tuple(some)


def _reduction(d: Drawing) -> None:
    x = d.pick()
    count = max(1, d.elements(x.shape))
    attrs = {"axis": _axes(d, x), "keepdims": d.flag()}
    if x.dtype.is_bool:
        d.op(d.one_of(["all", "any"]), x, peak=1, **attrs)
        return
    hollow = any(dim == 0 or (d.n is not None and dim is d.n and d.size == 0) for dim in x.shape)
    kinds = ["sum", "l1"] if hollow else ["sum", "max", "min", "l1", "sum_square", "mean"]
    kind = d.one_of(kinds if x.dtype.is_float else [k for k in kinds if k in ("sum", "max", "min")])
    x = d.bounded(x, count, square=kind == "sum_square")
    if kind == "sum_square" and not d.facts[x].exact:
        kind = "sum"
    top = d.peak(x) ** 2 if kind == "sum_square" else d.peak(x)
    peak = 2.0**63 if not x.dtype.is_float else top if kind in ("max", "min", "mean") else top * count
    d.op(kind, x, peak=peak, exact=kind != "mean", **attrs)


def _arg(d: Drawing) -> None:
    x = d.pick(lambda v: d.facts[v].exact and not v.dtype.is_bool and v.ndim > 0 and 0 not in v.shape)
    hollow = any(dim == 0 or (d.n is not None and dim is d.n and d.size == 0) for dim in x.shape)
    if hollow or not d.facts[x].exact or x.ndim == 0:
        return
    attrs: dict[str, Any] = {"axis": d.draw(st.integers(0, x.ndim - 1)), "keepdims": d.flag()}
    attrs["select_last_index"] = d.flag()
    d.op(d.one_of(["argmax", "argmin"]), x, peak=64, dtype=d.one_of(["int32", "int64"]), **attrs)


def _reshape(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim > 0)
    fixed = [k for k, dim in enumerate(x.shape) if isinstance(dim, int)]
    if len(fixed) < x.ndim:
        if list(fixed) != list(range(1, x.ndim)) or not fixed:
            return
        rest = x.shape[1:] if 0 in x.shape[1:] else (d.elements(x.shape[1:]) if d.flag() else -1,)
        d.op("reshape", x, peak=d.peak(x), newshape=(0, *rest), allowzero=False)
        return
    count = d.elements(x.shape)
    if count == 0:
        return
    divisors = [k for k in range(1, count + 1) if count % k == 0]
    first = d.one_of(divisors)
    d.op("reshape", x, peak=d.peak(x), newshape=d.one_of([(first, count // first), (first, -1), (-1,), (1, first, -1)]))


def _transpose(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim > 1)
    d.op("transpose", x, peak=d.peak(x), axes=tuple(d.draw(st.permutations(range(x.ndim)))))


def _new_axis(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim < 5)
    if d.flag():
        d.op("expand_dims", x, peak=d.peak(x), axis=d.draw(st.integers(0, x.ndim)))
    elif 1 in x.shape:
        d.op("squeeze", x, peak=d.peak(x), axis=(x.shape.index(1),))


def _concatenate(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim > 0)
    fixed = [k for k, dim in enumerate(x.shape) if isinstance(dim, int)]
    if not fixed:
        return
    axis = d.one_of(fixed)
    shape = list(x.shape)
    shape[axis] = d.extent()
    if d.elements(x.shape) + d.elements(shape) > LARGEST:
        return
    y = x if d.flag() else d.fresh(shape, str(x.dtype))
    d.op("concatenate", *((x, y) if d.flag() else (y, x)), peak=d.peak(x, y), axis=axis - (x.ndim if d.flag() else 0))


def _stack(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim < 4)
    if 2 * d.elements(x.shape) <= LARGEST:
        d.op("stack", x, x, peak=d.peak(x), axis=d.draw(st.integers(0, x.ndim)))


def _split(d: Drawing) -> None:
    x = d.pick(lambda v: any(isinstance(dim, int) and dim > 1 for dim in v.shape))
    axes = [k for k, dim in enumerate(x.shape) if isinstance(dim, int) and dim > 1]
    if not axes:
        return
    axis = d.one_of(axes)
    extent = fixed(x.shape[axis])
    parts: Any = d.one_of([k for k in range(2, extent + 1) if extent % k == 0][:3])
    if d.flag():
        parts = (d.draw(st.integers(1, extent - 1)),)
    d.op("split", x, peak=d.peak(x), indices_or_sections=parts, axis=axis)


def _slice(d: Drawing) -> None:
    x = d.pick(lambda v: any(isinstance(dim, int) and dim > 0 for dim in v.shape))
    axes = [k for k, dim in enumerate(x.shape) if isinstance(dim, int) and dim > 0]
    if not axes:
        return
    axis = d.one_of(axes)
    extent = fixed(x.shape[axis])
    begin, step = d.draw(st.integers(0, extent - 1)), d.draw(st.integers(1, 3))
    if d.flag():
        d.op("strided_slice", x, peak=d.peak(x), begin=(begin,), end=(d.draw(st.integers(begin + 1, extent + 2)),),
             strides=(step,), axes=(axis,))  # fmt: skip
    else:
        d.op("strided_slice", x, peak=d.peak(x), begin=(begin,), end=(-99,), strides=(-step,), axes=(axis,))


def _pad(d: Drawing) -> None:
    x = d.pick(lambda v: 0 < v.ndim < 5 and not v.dtype.is_bool)
    if x.dtype.is_bool:
        return
    mode = "constant" if d.flag() or 0 in x.shape else "edge"

    def pair(dim: Any) -> tuple[int, int]:
        # Negative padding crops, at most the whole extent.
        least = st.integers(-min(fixed(dim) // 2, 2) if mode == "constant" else 0, 2)
        return d.draw(least), d.draw(least)

    widths = [pair(dim) if isinstance(dim, int) else (0, 0) for dim in x.shape]
    padded = [dim + sum(w) if isinstance(dim, int) else dim for dim, w in zip(x.shape, widths, strict=True)]
    if d.elements(padded) > LARGEST:
        return
    d.op("nn.pad", x, peak=d.peak(x) + 2, pad_width=tuple(widths), pad_value=d.draw(st.integers(0, 2)), pad_mode=mode)


def _repeat(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim > 0 and d.elements(v.shape) * 3 <= LARGEST)
    if d.elements(x.shape) * 3 > LARGEST or x.ndim == 0:
        return
    kind = d.one_of(["tile", "repeat", "reverse"])
    if kind == "tile":
        d.op("tile", x, peak=d.peak(x), reps=tuple(d.draw(st.integers(1, 3)) if k == 0 else 1 for k in range(x.ndim)))
    elif kind == "repeat":
        d.op("repeat", x, peak=d.peak(x), repeats=d.draw(st.integers(1, 3)), axis=d.draw(st.integers(0, x.ndim - 1)))
    else:
        d.op("reverse", x, peak=d.peak(x), axis=d.draw(st.integers(0, x.ndim - 1)))


def _cumsum(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim > 0 and not v.dtype.is_bool)
    if x.dtype.is_bool or x.ndim == 0:
        return
    count = max(1, d.elements(x.shape))
    x = d.bounded(x, count)
    peak = d.peak(x) * count if x.dtype.is_float else 2.0**63
    d.op("cumsum", x, peak=peak, axis=d.draw(st.integers(0, x.ndim - 1)), exclusive=d.flag(), reverse=d.flag())


def _conv2d(d: Drawing) -> None:
    x = d.image()
    channels, height, width = map(fixed, x.shape[1:])
    groups = d.one_of(sorted({1, channels, *(g for g in (2, 4) if channels % g == 0)}))
    outputs = channels * d.one_of([1, 1, 2]) if groups == channels else d.one_of(CHANNELS)
    outputs = -(-outputs // groups) * groups
    kernel = [d.one_of([1, 2, 3]), d.one_of([1, 2, 3])]
    dilation = [d.one_of([1, 1, 2]), d.one_of([1, 1, 2])]
    room = [(k - 1) * s + 1 for k, s in zip(kernel, dilation, strict=True)]
    least = [max(0, -(-(r - size) // 2)) for r, size in zip(room, (height, width), strict=True)]
    pads = [low + d.one_of([0, 1]) for low in least]
    x = d.bounded(x, 3 * kernel[0] * kernel[1] * channels // groups)
    w = d.fresh([outputs, channels // groups, *kernel], "float32", constant=d.one_of([True, True, False]))
    strides = (d.one_of([1, 1, 2]), d.one_of([1, 2]))
    peak = 3 * d.peak(x) * kernel[0] * kernel[1] * channels // groups
    attrs: dict[str, Any] = {"strides": strides, "padding": tuple(pads), "dilation": tuple(dilation)}
    y = d.op("nn.conv2d", x, w, peak=peak, groups=groups, **attrs)
    if d.flag():
        y = d.op("nn.bias_add", y, d.fresh([outputs], "float32"), peak=peak + 3)
    if d.flag():
        y = d.op("nn.relu", y, peak=d.peak(y))
    others = [v for v in d.alike(y) if v is not y]
    if others and d.flag():
        other = d.one_of(others)
        if d.peak(y) + d.peak(other) <= EXACT_BELOW["float32"]:
            d.op("add", y, other, peak=d.peak(y) + d.peak(other))


def _dense(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim == 2 and v.dtype.is_float and isinstance(v.shape[1], int))
    if x.ndim != 2 or not x.dtype.is_float or not isinstance(x.shape[1], int):
        x = d.fresh(
            [d.n if d.n is not None else d.extent(), d.extent()],
            d.one_of(["float32", "float32", "float16", "bfloat16"]),
        )
    k, units = fixed(x.shape[1]), d.one_of([1, 3, 8, 16, 17, 24, 33])
    x = d.bounded(x, 3 * max(k, 1))
    w = d.fresh([units, k], str(x.dtype), constant=d.one_of([True, True, False]))
    y = d.op("nn.dense", x, w, peak=3 * d.peak(x) * max(k, 1))
    if d.flag():
        d.op("nn.bias_add", y, d.fresh([units], str(x.dtype)), peak=d.peak(y) + 3, axis=-1)


def _matmul(d: Drawing) -> None:
    x = d.pick(lambda v: v.ndim in (2, 3) and not v.dtype.is_bool and isinstance(v.shape[-1], int))
    if x.ndim not in (2, 3) or x.dtype.is_bool or not isinstance(x.shape[-1], int):
        return
    k, columns = fixed(x.shape[-1]), d.extent()
    x = d.bounded(x, 3 * max(k, 1))
    peak = 3 * d.peak(x) * max(k, 1) if x.dtype.is_float else 2.0**63
    if x.ndim == 3 and d.flag():
        y = d.fresh([x.shape[0], columns, k], str(x.dtype))
        d.op("nn.batch_matmul", x, y, peak=peak)
        return
    turned = d.flag()
    shape = [columns, k] if turned else [k, columns]
    y = d.fresh([*([] if x.ndim == 2 or d.flag() else [x.shape[0]]), *shape], str(x.dtype))
    d.op("nn.matmul", x, y, peak=peak, transpose_b=turned)


def _pool(d: Drawing) -> None:
    x = d.image()
    if d.draw(st.integers(0, 3)) == 0:
        kind = d.one_of(["nn.global_avg_pool", "nn.global_max_pool"])
        d.op(kind, d.bounded(x, 64), peak=64 * d.peak(x), exact=kind.endswith("max_pool"))
        return
    size = [min(d.one_of([1, 2, 3]), fixed(v)) for v in x.shape[2:]]
    attrs = {
        "pool_size": tuple(size), "strides": (d.one_of([1, 2]), d.one_of([1, 2])), "ceil_mode": d.flag(),
        "padding": tuple(d.draw(st.integers(0, k // 2)) for k in size),
    }  # fmt: skip
    kind = d.one_of(["max", "avg"])
    if kind == "avg":
        attrs["count_include_pad"] = d.flag()
    d.op(f"nn.{kind}_pool2d", d.bounded(x, 9), peak=9 * d.peak(x), exact=kind == "max", **attrs)


def _normalisation(d: Drawing) -> None:
    kind = d.one_of(["nn.softmax", "nn.log_softmax", "nn.batch_norm", "nn.layer_norm"])
    if kind == "nn.batch_norm":
        x = d.image(exact=True)
        channels = x.shape[1]
        x = d.bounded(x, 2**12)
        scale, shift, mean = (d.fresh([channels], "float32", constant=True) for _ in range(3))
        variance = d.fresh([channels], "float32", 1, 3, constant=True)
        d.op(kind, x, scale, shift, mean, variance, peak=4 * (d.peak(x) + 4), exact=False)
        return
    x = d.pick(lambda v: v.dtype.is_float and v.ndim > 0 and d.facts[v].exact and isinstance(v.shape[-1], int))
    if x.ndim == 0 or not isinstance(x.shape[-1], int) or x.shape[-1] == 0 or not x.dtype.is_float:
        return
    if not d.facts[x].exact:
        return
    x = d.op("clip", x, peak=4, a_min=-4.0, a_max=4.0) if d.peak(x) > 8 else x
    if kind == "nn.layer_norm":
        scale = d.fresh([x.shape[-1]], str(x.dtype))
        d.op(kind, x, scale, d.fresh([x.shape[-1]], str(x.dtype)), peak=3 * d.peak(x) + 9, exact=False, epsilon=1.0)
    else:
        d.op(kind, x, peak=max(16, 2 * d.peak(x)), exact=False, axis=d.one_of([-1, x.ndim - 1]))


MOVES: dict[str, Callable[[Drawing], None]] = {
    "unary": _unary, "clip": _clip, "function": _function, "arithmetic": _arithmetic, "division": _integer_division,
    "bits": _bits, "choice": _choice, "cast": _cast, "reduction": _reduction, "arg": _arg, "reshape": _reshape,
    "transpose": _transpose, "new_axis": _new_axis, "concatenate": _concatenate, "stack": _stack, "split": _split,
    "slice": _slice, "pad": _pad, "repeat": _repeat, "cumsum": _cumsum, "conv2d": _conv2d,
    "dense": _dense, "matmul": _matmul, "pool": _pool, "normalisation": _normalisation, **INDEXING,
}  # fmt: skip
WEIGHTED = [*MOVES, "arithmetic", "arithmetic", "conv2d", "conv2d", "conv2d", "dense", "pool", "unary"]
