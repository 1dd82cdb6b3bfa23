"""Operators that ONNX Runtime's optimizer fuses from several: activations, products, normalisations with sums.

They are specified in `ContribOperators.md` of ONNX Runtime. Each is converted to the original operators, which minitvm
fuses again.
"""

from __future__ import annotations

from typing import Any

from ....topi.shapes import axis_of
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .qlinear import DOMAIN


@converter("Gelu", domain=DOMAIN)
def gelu(n: NodeContext) -> Any:
    return n.op("nn.gelu", n[0])


@converter("BiasGelu", domain=DOMAIN)
def bias_gelu(n: NodeContext) -> Any:
    return n.op("nn.gelu", n.onto("add", n[0], n.fit(n[1], (n[0].shape[-1],), "the bias")))


@converter("FastGelu", domain=DOMAIN)
def fast_gelu(n: NodeContext) -> Any:
    bias = n.optional(1)
    x = n[0] if bias is None else n.onto("add", n[0], n.fit(bias, n[0].shape[-1:], "the bias"))
    return n.op("nn.gelu", x, approximate="tanh")


@converter("QuickGelu", domain=DOMAIN)
def quick_gelu(n: NodeContext) -> Any:
    """Return x * sigmoid(alpha x)."""
    return n.op("multiply", n[0], n.op("sigmoid", n.op("multiply", n[0], n.attr("alpha", 1.702))))


@converter("BiasAdd", domain=DOMAIN)
def bias_add(n: NodeContext) -> Any:
    x = n[0]
    biased = n.op("add", x, n.fit(n[1], x.shape[-1:], "the bias"))
    return n.op("add", biased, n.fit(n[2], x.shape, "the skip"))


@converter("FusedConv", domain=DOMAIN)
def fused_conv(n: NodeContext) -> Any:
    """Add a convolution, its bias, a sum with Z, and an activation, in this order."""
    inputs = [n[0], n[1], *([] if n.optional(2) is None else [n[2]])]
    result = n.converted_as("Conv", *inputs)
    z = n.optional(3)
    total = result if z is None else n.op("add", result, n.fit(z, result.shape, "Z"))
    return _activated(n, total, n.attr("activation_params", ()))


@converter("FusedGemm", domain=DOMAIN)
def fused_gemm(n: NodeContext) -> Any:
    result = n.converted_as("Gemm", *n.inputs)
    n.ignore("activation_gamma")
    parameters = [n.attr(f"activation_{name}", None) for name in ("alpha", "beta")]
    return _activated(n, result, tuple(p for p in parameters if p is not None))


def _activated(n: NodeContext, x: Operand, parameters: tuple[float, ...]) -> Any:
    name = n.attr("activation", "")

    def parameter(position: int, default: float) -> float:
        return parameters[position] if position < len(parameters) else default

    match name:
        case "":
            return x
        case "Relu":
            return n.op("nn.relu", x)
        case "Tanh" | "Sigmoid":
            return n.op(name.lower(), x)
        case "LeakyRelu":
            return n.op("nn.leaky_relu", x, alpha=parameter(0, 0.01))
        case "Clip":
            return n.op(
                "clip", x, a_min=parameter(0, -3.4028234663852886e38), a_max=parameter(1, 3.4028234663852886e38)
            )
        case "HardSigmoid":
            return n.op("nn.hard_sigmoid", x, alpha=parameter(0, 0.2), beta=parameter(1, 0.5))
    n.refuse_attribute("activation")


@converter("TransposeMatMul", domain=DOMAIN)
@converter("FusedMatMul", domain=DOMAIN)
def fused_matmul(n: NodeContext) -> Any:
    """Return alpha A' B'. Attributes swap an operand's last two axes, or move its first axis after the other batch
    axes.
    """
    operands = []
    for x, name in ((n[0], "A"), (n[1], "B")):
        order = list(range(x.ndim))
        if n.attr(f"transBatch{name}", 0) and x.ndim > 2:
            order = [*order[1:-1], 0, order[-1]]
        if n.attr(f"trans{name}", 0) and x.ndim > 1:
            order = [*order[:-2], order[-1], order[-2]]
        operands.append(x if order == sorted(order) else n.op("transpose", x, axes=tuple(order)))
    product, alpha = n.op("nn.matmul", *operands), n.attr("alpha", 1.0)
    return product if alpha == 1 else n.op("multiply", product, alpha)


def normalized(n: NodeContext, x: Operand, gamma: Operand, beta: Operand | None) -> Operand:
    """Return the layer normalisation over the last axis."""
    attrs = {"axis": (x.ndim - 1,), "epsilon": n.attr("epsilon", 1e-12)}
    normal: Operand = n.op("nn.layer_norm", x, gamma, *([] if beta is None else [beta]), **attrs)
    return normal


@converter("SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain=DOMAIN)
def simplified_layer_norm(n: NodeContext) -> Any:
    n.ignore("stash_type")
    axis = axis_of(n.attr("axis", -1), n[0].ndim)
    return n.op("nn.rms_norm", n[0], n[1], axis=tuple(range(axis, n[0].ndim)), epsilon=n.attr("epsilon", 1e-5))


def _skip_sum(n: NodeContext, bias: Operand | None) -> Operand:
    total = n.onto("add", n[0], n.fit(n[1], (*[None] * (n[1].ndim - 2), *n[0].shape[-2:]), "the skip"))
    return total if bias is None else n.onto("add", total, n.fit(bias, total.shape[-1:], "the bias"))


def _outputs(n: NodeContext, result: Operand, total: Operand) -> Any:
    """Return the normalised sum, its mean and inverse deviation (read only in training), and the sum itself."""
    mean = n.op("mean", total, axis=(total.ndim - 1,), keepdims=True)
    variance = n.op("variance", total, axis=(total.ndim - 1,), keepdims=True)
    inverse = n.op("rsqrt", n.op("add", variance, n.attr("epsilon", 1e-12)))
    return [result, mean, inverse, total]


@converter("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_norm(n: NodeContext) -> Any:
    total = _skip_sum(n, n.optional(4))
    return _outputs(n, normalized(n, total, n[2], n.optional(3)), total)


@converter("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_norm(n: NodeContext) -> Any:
    total = _skip_sum(n, n.optional(3))
    axes = (total.ndim - 1,)
    return _outputs(n, n.op("nn.rms_norm", total, n[2], axis=axes, epsilon=n.attr("epsilon", 1e-12)), total)


@converter("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_norm(n: NodeContext) -> Any:
    """Return the normalised sum of word, position and segment embeddings; the lengths given by a mask; and the sum."""
    ids, segments, mask, positions = n[0], n.optional(1), n.optional(7), n.optional(8)
    n.ignore("mask_index_type")
    if ids.ndim != 2:
        n.refuse(f"the words must have two dimensions, found {ids}")
    batch, length = ids.shape
    width = (n[2].shape[1],) if n[2].ndim == 2 else n.refuse(f"the embeddings have two dimensions, found {n[2]}")
    words = n.enough(n[2], width[0], 1, "the embeddings have no elements")
    places = n.fit(n[3], (None, *width), "the embeddings of positions")
    parameters = [n.fit(n[k], width, what) for k, what in ((5, "gamma"), (6, "beta"))]
    if segments is not None:
        segments = n.fit(segments, ids.shape, "the segments")
    if mask is not None:
        mask = n.fit(mask, ids.shape, "the mask")
    if positions is None:
        places = n.enough(places, places.shape[0], length, f"{length} words have only {places.shape[0]} positions")
        positions = n.op("arange", start=0, stop=length, step=1, dtype="int32")
    total = n.op("add", n.op("take", words, ids, axis=0), n.op("take", places, positions, axis=0))
    if segments is not None:
        kinds = n.fit(n[4], (None, *width), "the embeddings of segments")
        total = n.op("add", total, n.op("take", kinds, segments, axis=0))
    if mask is None:
        lengths = n.op("full", shape=(batch,), fill_value=0, dtype="int32")
    else:
        lengths = n.op("sum", mask, axis=(1,), keepdims=False)
    return [normalized(n, total, *parameters), lengths, total]


@converter("ExpandDims", domain=DOMAIN)
def expand_dims(n: NodeContext) -> Any:
    return n.op("expand_dims", n[0], axis=n.ints(n[1], "the axis"))


@converter("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool(n: NodeContext) -> Any:
    """Convert a MaxPool of channels-last data."""
    x = n[0]
    inner = (0, x.ndim - 1, *range(1, x.ndim - 1))
    pooled = n.converted_as("MaxPool", n.op("transpose", x, axes=inner))
    return n.op("transpose", pooled, axes=(0, *range(2, x.ndim), 1))


@converter("Unique", domain=DOMAIN)
def unique(n: NodeContext) -> Any:
    """Return the distinct elements in order of first occurrence, the index of each element, and counts."""
    first, inverse, counts, number = n.op("unique", n[0], sorted=False)
    size = n.bound(number, n[0].shape[0], "different")
    return [n.op("take", n[0], n.op("leading", first, size=size), axis=0), inverse, n.op("leading", counts, size=size)]
