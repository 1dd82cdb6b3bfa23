"""Small functions of every family that has a rule, of random extents: the properties of candidates hold for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from minitvm import strategy, te, topi
from minitvm.machines.simd.topi.blocked import conv2d_nchwc, dense_packed, depthwise_conv2d_nchwc, unblock_axis
from minitvm.machines.simd.topi.window_rows import avg_pool_rows, depthwise_conv2d_rows, max_pool_rows
from minitvm.machines.simd.topi.winograd import winograd_conv2d_nchwc
from minitvm.reference.judging.inputs.sizes import size_names
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

from ..machines.cuda.strategy.tensor_core_programs import product

LANES = 4
TARGET = "cpu -vector_bits=128 -vector_registers=16 -cores=2"
GPUS = ("cuda -arch=sm_80", "opencl -device=amd", "opencl -device=mali")
Draw = Callable[..., Any]


@dataclass(frozen=True)
class Family:
    """A rule's name, and how to draw a function that it is the first to fit on each of some targets.

    `examples` is how many of them `make test` tries; 0 where each takes seconds. Candidates are drawn of those whose
    knobs are `among` the family's.
    """

    rule: str
    draw: Callable[[Draw], PrimFunc]
    examples: int = 2
    targets: tuple[str, ...] = (TARGET,)
    among: Callable[[Mapping[str, Any]], bool] = lambda knobs: True
    what: str = ""  # of a rule's candidates, where a rule has several families

    def __str__(self) -> str:
        return "-".join(filter(None, (self.targets[0].split()[0], self.rule, self.what)))


def sizes(func: PrimFunc, data: Any) -> dict[str, int]:
    """A size for each open extent: less than a tile, a whole one, or more."""
    return {name: data.draw(st.sampled_from((1, 2, 3, 5, 16, 17, 64, 67))) for name in sorted(size_names(func, func))}


def _size(draw: Draw, low: int, high: int) -> int:
    return int(draw(st.integers(low, high)))


def _perhaps_open(draw: Draw, name: str, size: int) -> Any:
    """One extent in four is open."""
    return te.size_var(name) if draw(st.integers(0, 3)) == 0 else size


def _with_epilogue(draw: Draw, inputs: list[Any], result: Any) -> PrimFunc:
    if draw(st.booleans()):
        return te.create_prim_func([*inputs, result])
    other = te.placeholder(tuple(result.shape), name="other")
    return te.create_prim_func([*inputs, other, topi.relu(topi.add(result, other))])


def _attention(draw: Draw) -> PrimFunc:
    """Panels of keys that may stick out, a scale or a mask, and values."""
    heads, rows, keys = _size(draw, 1, 2), _size(draw, 6, 12), _size(draw, 5, 12)
    depth, width, panel = _size(draw, 2, 4), _size(draw, 2, 9), 4 * _size(draw, 1, 2)
    q = te.placeholder((heads, rows, depth), name="q")
    k = te.placeholder((heads, math.ceil(keys / panel), depth, panel), name="k")
    v, m = te.placeholder((heads, keys, width), name="v"), te.placeholder((rows, keys), name="m")
    scores = dense_packed(q, k, units=keys)
    scores = topi.add(scores, m) if draw(st.booleans()) else topi.multiply(scores, te.const(0.5, "float32"))
    result = topi.matmul(topi.softmax(scores), v)
    return te.create_prim_func([q, k, v, m, result])


def _conv(draw: Draw) -> PrimFunc:
    side, kernel = (_size(draw, 3, 5), _size(draw, 3, 6)), (_size(draw, 1, 3), _size(draw, 1, 2))
    x = te.placeholder((1, _size(draw, 1, 2), *side, LANES), name="x")
    w = te.placeholder((_size(draw, 1, 3), x.shape[1], *kernel, LANES, LANES), name="w")
    channels = int(x.shape[1]) * LANES - _size(draw, 0, LANES - 1)
    many: dict[str, int] = {"channels": channels}
    if draw(st.integers(0, 2)) == 0:  # groups, each with as many blocks
        groups = _size(draw, 2, 3)
        x = te.placeholder((1, groups * int(x.shape[1]), *side, LANES), name="x")
        w = te.placeholder((groups * int(w.shape[0]), *w.shape[1:]), name="w")
        many = {"groups": groups}
    y = conv2d_nchwc(x, w, padding=_size(draw, 0, 1), strides=_size(draw, 1, 2), **many)
    if draw(st.booleans()):
        return _with_epilogue(draw, [x, w], y)
    plain = unblock_axis(y, axis=1, extent=w.shape[0].value * LANES)
    return te.create_prim_func([x, w, plain])


def _winograd(draw: Draw) -> PrimFunc:
    tile, inner, outer = 2, 1, _size(draw, 1, 2)
    panel = draw(st.sampled_from([p for p in (1, 2) if outer % p == 0]))
    sides = [_perhaps_open(draw, name, _size(draw, 4, 6)) for name in "hw"]
    x = te.placeholder((1, inner, *sides, LANES), name="x")
    w = te.placeholder((outer // panel, tile + 2, tile + 2, inner, LANES, panel, LANES), name="w")
    dilation = _size(draw, 1, 2)
    made = winograd_conv2d_nchwc(x, w, tile=tile, padding=dilation, dilation=dilation)
    return te.create_prim_func([x, w, made])


def _depthwise(draw: Draw) -> PrimFunc:
    image = (_size(draw, 3, 6), _size(draw, 3, 6))
    x = te.placeholder((_perhaps_open(draw, "n", 1), _size(draw, 1, 3), *image, LANES), name="x")
    w = te.placeholder((x.shape[1], 3, 3, LANES), name="w")
    y = depthwise_conv2d_nchwc(x, w, padding=1, strides=_size(draw, 1, 2))
    return _with_epilogue(draw, [x, w], y)


def _window_rows(draw: Draw) -> PrimFunc:
    """Depthwise convolutions and pools of one to three axes, whose last two may be open."""
    op, stride = draw(st.sampled_from(["depthwise", "max", "avg"])), draw(st.integers(1, 3))
    rank = 2 if op == "depthwise" else draw(st.integers(1, 3))
    sides = [_perhaps_open(draw, name, _size(draw, 3, 8)) for name in ("z", "h", "w")[-rank:]]
    sides = [side if position >= rank - 2 else _size(draw, 3, 4) for position, side in enumerate(sides)]
    x = te.placeholder((1, _size(draw, 1, 3), *sides), name="x")
    attrs = {"lanes": LANES, "tile": draw(st.sampled_from([1, 3, 4])), "strides": stride, "padding": 1}
    if op == "depthwise":
        w = te.placeholder((x.shape[1], 1, 3, 3), name="w")
        return _with_epilogue(draw, [x, w], depthwise_conv2d_rows(x, w, **attrs))
    size = {"pool_size": draw(st.integers(2, 3)), "ceil_mode": draw(st.booleans())}
    return _with_epilogue(draw, [x], {"max": max_pool_rows, "avg": avg_pool_rows}[op](x, **size, **attrs))


def _dense(draw: Draw) -> PrimFunc:
    rows: Any = te.size_var("m") if draw(st.integers(0, 2)) == 0 else _size(draw, 1, 9)
    leading = draw(st.sampled_from([(rows,), (rows, 3), (2, rows), (rows, 2, 2)]))
    x = te.placeholder((*leading, _size(draw, 1, 9)), name="x")
    w = te.placeholder((_size(draw, 1, 9), x.shape[-1], LANES), name="w")
    cut = draw(st.integers(0, LANES - 1))
    return _with_epilogue(draw, [x, w], dense_packed(x, w, units=int(w.shape[0]) * LANES - cut))


def _matmul(draw: Draw) -> PrimFunc:
    """Products of matrices in all their forms, some of the extents open."""
    known = {"m": _size(draw, 1, 9), "n": _size(draw, 2, 40), "k": _size(draw, 1, 9)}
    rows, columns, k = (_perhaps_open(draw, name, size) for name, size in known.items())
    across, turned = draw(st.booleans()), draw(st.booleans())
    batch = (_size(draw, 1, 3),) if draw(st.integers(0, 2)) == 0 else ()
    a = te.placeholder((*batch, k, rows) if across else (*batch, rows, k), name="a")
    b = te.placeholder((columns, k) if turned else (k, columns), name="b")
    return _with_epilogue(draw, [a, b], topi.matmul(a, b, transpose_a=across, transpose_b=turned))


def _plain_conv(draw: Draw) -> PrimFunc:
    """Convolutions on plain layouts, of any rank, grouped, dilated, with steps; the batch may be open."""
    rank, groups = _size(draw, 1, 3), _size(draw, 1, 2)
    kernel = [_size(draw, 1, 3) for _ in range(rank)]
    image = [_size(draw, 5, 7) for _ in range(rank - 1)] + [_size(draw, 5, 20)]
    batch: Any = te.size_var("b") if draw(st.integers(0, 3)) == 0 else 1
    inner, outer = groups * _size(draw, 1, 3), groups * _size(draw, 1, 5)
    x = te.placeholder((batch, inner, *image), name="x")
    w = te.placeholder((outer, inner // groups, *kernel), name="w")
    conv = (topi.conv1d, topi.conv2d, topi.conv3d)[rank - 1]
    attrs = {"strides": _size(draw, 1, 2), "padding": _size(draw, 0, 1), "dilation": _size(draw, 1, 2)}
    return _with_epilogue(draw, [x, w], conv(x, w, groups=groups, **attrs))


def _phases(draw: Draw) -> PrimFunc:
    """A convolution whose results interleave, as those of the phases of a transposed one; maybe not all of them."""
    rank = _size(draw, 1, 2)
    strides = [_size(draw, 1, 3) for _ in range(rank)]
    image = [_size(draw, 1, 4) for _ in range(rank - 1)] + [_size(draw, 4, 20)]
    inner, outer = _size(draw, 1, 3), math.prod(strides) * _size(draw, 1, 3)
    x = te.placeholder((1, inner, *image), name="x")
    w = te.placeholder((outer, inner, *[1] * rank), name="w")
    cut = draw(st.sampled_from([0, 0, 0, 1]))
    size = [n * s for n, s in zip(image, strides)]
    size[-1] -= min(cut, size[-1] - 1)
    convolved = (topi.conv1d, topi.conv2d)[rank - 1](x, w)
    whole = topi.interleave(
        convolved, strides=strides, size=size, phases_last=draw(st.sampled_from([True, True, False]))
    )
    return _with_epilogue(draw, [x, w], whole)


def _blocked_phases(draw: Draw) -> PrimFunc:
    """The same on blocks."""
    strides = (_size(draw, 1, 2), _size(draw, 1, 3))
    image, inner = (_size(draw, 2, 3), _size(draw, 2, 6)), _size(draw, 1, 2)
    outer = math.prod(strides) * _size(draw, 1, 2)
    x = te.placeholder((1, inner, *image, LANES), name="x")
    w = te.placeholder((outer, inner, 1, 1, LANES, LANES), name="w")
    size = [n * s for n, s in zip(image, strides)]
    whole = topi.interleave(conv2d_nchwc(x, w), strides=(*strides, 1), size=(*size, LANES))
    if draw(st.booleans()):
        return _with_epilogue(draw, [x, w], whole)
    channels = outer // math.prod(strides) * LANES
    return te.create_prim_func([x, w, unblock_axis(whole, axis=1, extent=channels)])


def contractions(draw: Draw) -> PrimFunc:
    """Sums of products in many forms, some of their extents open; not those that a rule of their own takes."""
    func: PrimFunc = draw(st.sampled_from([_matmul, _plain_conv, _dense, _phases]))(draw)
    assume(strategy.candidates(func, Target(TARGET))[0].rule == "contraction")
    return func


def _matvec(draw: Draw) -> PrimFunc:
    a = te.placeholder((_size(draw, 1, 9), _size(draw, 1, 80)), name="a")
    b = te.placeholder((a.shape[1], 1), name="b")
    return _with_epilogue(draw, [a, b], topi.matmul(a, b))


def _pool(draw: Draw) -> PrimFunc:
    x = te.placeholder((1, _size(draw, 1, 3), _size(draw, 3, 8), _size(draw, 3, 20)), name="x")
    pool = draw(st.sampled_from([topi.max_pool2d, topi.avg_pool2d]))
    return te.create_prim_func([x, pool(x, pool_size=_size(draw, 2, 3), strides=_size(draw, 1, 2), padding=1)])


def _rows(draw: Draw) -> PrimFunc:
    leading = [_perhaps_open(draw, "n", size) for size in draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))]
    x = te.placeholder((*leading, _perhaps_open(draw, draw(st.sampled_from("nm")), _size(draw, 2, 40))), name="x")
    weight, bias = (te.placeholder(x.shape[-1:], name=name) for name in ("weight", "bias"))
    kind = draw(st.sampled_from(["softmax", "log_softmax", "layer_norm", "rms_norm", "l2_normalize"]))
    if kind == "layer_norm":
        return te.create_prim_func([x, weight, bias, topi.layer_norm(x, weight, bias)])
    if kind == "rms_norm":
        return te.create_prim_func([x, weight, topi.rms_norm(x, weight)])
    return te.create_prim_func([x, getattr(topi, kind)(x, axis=-1)])


def channel_norms(draw: Draw) -> PrimFunc:
    """Channels that are normalised over an image, alone or in groups; plain, or in blocks."""
    batch, image = _perhaps_open(draw, "n", _size(draw, 1, 2)), (_size(draw, 1, 4), _size(draw, 1, 9))
    groups, size = _size(draw, 1, 3), _size(draw, 1, 6)
    channels: tuple[int, ...] = (groups * size,)
    shape, axis = (batch, *channels, *image), (1,)
    if draw(st.booleans()):
        channels = (groups * size, LANES)
        size *= LANES
        shape, axis = (batch, channels[0], *image, LANES), (1, -1)
    x, gamma, beta = (te.placeholder(s, name=n) for s, n in ((shape, "x"), (channels, "gamma"), (channels, "beta")))
    if draw(st.booleans()):
        return _with_epilogue(draw, [x, gamma, beta], topi.instance_norm(x, gamma, beta, axis=axis))
    many = draw(st.sampled_from([g for g in range(1, groups * size + 1) if groups * size % g == 0]))
    return _with_epilogue(draw, [x, gamma, beta], topi.group_norm(x, gamma, beta, num_groups=many, axis=axis))


def _generic(draw: Draw) -> PrimFunc:
    rows, columns = (_perhaps_open(draw, name, _size(draw, 1, 40)) for name in ("m", "n"))
    x = te.placeholder((rows, columns), name="x")
    kind = draw(st.sampled_from(["softmax", "transpose", "sum", "place", "chain"]))
    if kind == "softmax":
        return te.create_prim_func([x, topi.softmax(x, axis=0)])
    if kind == "transpose":
        return te.create_prim_func([x, topi.transpose(x, axes=(1, 0))])
    if kind == "sum":
        return te.create_prim_func([x, topi.sum(x, axis=draw(st.sampled_from([0, 1])))])
    if kind == "place":
        return te.create_prim_func([x, topi.argmax(x, axis=draw(st.sampled_from([0, 1, 1])))])
    return te.create_prim_func([x, topi.relu(topi.add(x, topi.sigmoid(x)))])


def _channel_sums(draw: Draw) -> PrimFunc:
    """Sums and maxima over channels in blocks, which lie far apart, and in these side by side."""
    x = te.placeholder((1, _size(draw, 1, 3), _perhaps_open(draw, "h", _size(draw, 1, 3)), 5, LANES), name="x")
    reduce = draw(st.sampled_from([topi.sum, topi.max, topi.mean]))
    return _with_epilogue(draw, [x], reduce(x, axis=(1, 4)))


FAMILIES = [
    Family("conv2d_nchwc", _conv),
    Family("conv2d_nchwc", _blocked_phases, what="phases"),
    Family("winograd_conv2d_nchwc", _winograd, examples=0),
    Family("depthwise_conv2d_nchwc", _depthwise),
    Family("window_rows", _window_rows),
    Family("contraction", contractions, examples=3),
    Family("attention", _attention),
    Family("matvec", _matvec),
    Family("pool", _pool),
    Family("rows", _rows),
    Family("rows", channel_norms, what="channels"),
    Family("generic", _generic),
    Family("generic", _channel_sums, what="channels"),
]


# -- GPUs


def _first_on_gpus(rule: str, *draws: Callable[[Draw], PrimFunc]) -> Callable[[Draw], PrimFunc]:
    """Functions that a rule is the first to fit on all GPUs."""

    def drawn(draw: Draw) -> PrimFunc:
        func: PrimFunc = draw(st.sampled_from(draws))(draw)
        for target in GPUS:
            assume(strategy.candidates(func, Target(target))[0].rule == rule)
        return func

    return drawn


def _reduced(draw: Draw) -> PrimFunc:
    """Long sums and maxima of rows, along either axis."""
    x = te.placeholder((_perhaps_open(draw, "n", _size(draw, 1, 5)), _size(draw, 2, 90)), name="x")
    reduce = draw(st.sampled_from([topi.sum, topi.max]))
    return _with_epilogue(draw, [x], reduce(x, axis=draw(st.sampled_from([0, 1]))))


def _half_product(draw: Draw) -> PrimFunc:
    """Products of 16-bit floats, summed in float32, whose extents tiles of tensor cores divide, or nearly so."""
    m, n, k = (16 * _size(draw, 1, 3) - draw(st.sampled_from([0, 0, 1])) for _ in range(3))
    return product(
        m, n, k, draw(st.sampled_from(["float16", "bfloat16"])), transposed=draw(st.booleans()),
        followed=draw(st.booleans()), batch=draw(st.sampled_from([None, 2])),
    )  # fmt: skip


def _few(knobs: Mapping[str, Any]) -> bool:
    """Blocks of few threads: interpreters run each of them."""
    return int(knobs.get("threads", 1)) <= 32


_GPU_PRODUCTS = _first_on_gpus("contraction", _matmul, _plain_conv, _conv, _phases, _blocked_phases)
GPU_FAMILIES = [
    Family("contraction", _GPU_PRODUCTS, 2, GPUS, lambda knobs: knobs.get("shared") and _few(knobs), "in shared tiles"),
    Family("contraction", _GPU_PRODUCTS, 1, GPUS, lambda knobs: knobs.get("shared") is False, "in registers"),
    Family("windows", _first_on_gpus("windows", _pool, _depthwise), 3, GPUS),
    Family("rows", _first_on_gpus("rows", _rows), 1, GPUS, _few),
    Family("reduction", _first_on_gpus("reduction", _reduced), 2, GPUS, _few),
    Family("tensor_core", _half_product, 1, GPUS[:1]),
    Family("fallback", _first_on_gpus("fallback", _generic), 2, GPUS, _few),
]
FAMILIES += GPU_FAMILIES
