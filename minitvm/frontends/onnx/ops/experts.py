"""Mixtures of experts as in ONNX Runtime: each token is processed by the few experts that a router selects.

    y[t] = sum over the chosen e of weight[t, e] * expert_e(x[t])

An expert consists of two dense layers with an activation between them. Its number of tokens depends on data. The tokens
are gathered, processed by the expert, and added to the result (Shazeer et al., "Outrageously large neural networks",
2017). The operators are specified in `ContribOperators.md` of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....expr import as_expr
from ....graph.nodes import Dim
from ....topi.shapes import product, simple
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .block_weights import unpacked
from .qlinear import DOMAIN

Layer = tuple[Operand, Operand | None]  # weights [experts, units, depth], and biases [experts, units]


@converter("MoE", domain=DOMAIN)
def moe(n: NodeContext) -> Any:
    layers = [(n[k], n.optional(k + 1)) for k in (2, 4)]
    gate = n.optional(6)
    # The weights of the selected experts are those of a softmax over all experts, without the others.
    return _mixture(n, layers, None if gate is None else (gate, n.optional(7)), among_all=True)


@converter("QMoE", domain=DOMAIN)
def qmoe(n: NodeContext) -> Any:
    """Convert a mixture of experts as `moe` does, with weights of 4 or 8 bits that become floats while importing."""
    if n.attr("quant_type", "int") != "int":
        n.refuse_attribute("quant_type")
    if n.attr("weights_prepacked", 0) not in (0, -1):
        n.refuse_attribute("weights_prepacked")
    if n.optional(14) is not None:
        n.refuse("router_weights beside router_probs are not supported")
    n.ignore("accuracy_level")
    layers = [(_floats(n, f"fc{k + 1}", 3 * k + 2, 11 + k), n.optional(3 * k + 4)) for k in range(2)]
    gate = None if n.optional(8) is None else (_floats(n, "fc3", 8, 13), n.optional(10))
    return _mixture(n, layers, gate, among_all=False)


def _floats(n: NodeContext, name: str, position: int, zeros_at: int) -> Operand:
    """Return (stored - zero point) * scale, with one scale per unit or per block of its weights."""
    bits, block = n.attr("expert_weight_bits", 4), n.attr("block_size", 0)
    bits = n.attr(f"{name}_expert_weight_bits", bits)
    if bits not in (4, 8):
        n.refuse(f"weights of {bits} bits are not supported: wanted 4 or 8")
    stored, scale = (n.static(n[k], what) for k, what in ((position, "weights"), (position + 1, "scales")))
    if stored.ndim != 3:
        n.refuse(f"{name} has weights of the shape {list(stored.shape)}, wanted [experts, units, depth]")
    whole = unpacked(stored, bits).astype(np.float32)
    experts, units, depth = whole.shape
    if block > 0 and depth % block:
        n.refuse(f"blocks of {block} weights do not divide {depth}")
    blocks = depth // block if block > 0 else 1
    if scale.size != experts * units * blocks:
        n.refuse(f"{name} has scales of the shape {list(scale.shape)}, wanted {[experts, units, blocks]}")
    scales = scale.astype(np.float32).reshape(experts, units, blocks, 1)
    offset: Any = np.float32(1 << (bits - 1))
    zeros = n.optional(zeros_at)
    if zeros is not None:
        codes = n.static(zeros, "zero points")
        per_unit = unpacked(codes, bits)[..., :blocks] if block > 0 else unpacked(codes, bits)[:, :units]
        if per_unit.size != scale.size:
            n.refuse(f"{name} has zero points of the shape {list(codes.shape)} for scales {list(scale.shape)}")
        offset = per_unit.astype(np.float32).reshape(experts, units, blocks, 1)
    weight = (whole.reshape(experts, units, blocks, -1) - offset) * scales
    return Operand.known(weight.reshape(experts, units, depth))


def _mixture(n: NodeContext, layers: list[Layer], gate: Layer | None, *, among_all: bool) -> Any:
    for name in ("use_sparse_mixer", "swiglu_limit_after_activation"):
        if n.attr(name, 0):
            n.refuse_attribute(name)
    x, router = n[0], n[1]
    tokens = n.reshape(x, (product(x.shape[:-1]), x.shape[-1]))
    activation = _activation(n, gated=gate is not None)
    if router.ndim != 2:
        n.refuse(f"the router must have the shape [tokens, experts], found {router}")
    experts = n.size(router, 1)
    router = n.fit(router, (tokens.shape[0], experts), "the router")
    if not 1 <= n.attr("k", 1) <= experts:
        n.refuse(f"k={n.attr('k', 1)} of {experts} experts")
    layers, gate = _fitting(n, experts, x.shape[-1], layers, gate)
    index, weight = _routed(n, router, among_all=among_all)
    total = n.op("full", shape=tokens.shape, fill_value=0.0, dtype=str(tokens.dtype))
    # All sizes are bound at one place of the program: between two such places a run goes through Python.
    shares, counted = [], []
    for number in range(experts):
        chosen = n.op("equal", index, number)
        nothing = np.array(0, weight.dtype.numpy)
        shares.append(n.op("sum", n.op("where", chosen, weight, nothing), axis=(1,), keepdims=True))
        counted.append(n.op("argwhere", n.op("any", chosen, axis=(1,), keepdims=False)))
    sizes = [n.bound(count, tokens.shape[0], "tokens") for _, count in counted]
    for number, (share, (places, _), size) in enumerate(zip(shares, counted, sizes, strict=True)):
        rows = n.op("leading", places, size=size)
        own = n.op("gather_nd", tokens, rows, batch_dims=0)
        inner = activation(_dense(n, own, layers[0], number), None if gate is None else _dense(n, own, gate, number))
        result = n.op("multiply", _dense(n, inner, layers[1], number), n.op("gather_nd", share, rows, batch_dims=0))
        total = n.op("scatter_nd", total, rows, result, reduction="add")
    return n.reshape(total, x.shape)


def _fitting(
    n: NodeContext, experts: int, width: Dim, layers: Sequence[Layer], gate: Layer | None
) -> tuple[list[Layer], Layer | None]:
    """Return the layers after checking their shapes: each expert has its own, from the width of the data and back to
    it.
    """
    (first, first_bias), (second, second_bias) = layers
    if first.ndim != 3 or second.ndim != 3:
        n.refuse(f"the weights must have the shape [experts, units, depth], found {first} and {second}")
    units = first.shape[1]
    halves = n.attr("activation_type", "relu") == "swiglu" and gate is None
    inner = simple(as_expr(units) // 2) if halves else units

    def layer(weight: Operand, bias: Operand | None, out: Dim, depth: Dim, what: str) -> Layer:
        weight = n.fit(weight, (experts, out, depth), f"the weights of the {what} layer")
        return weight, None if bias is None else n.fit(bias, (experts, out), f"the biases of the {what} layer")

    fitting = [
        layer(first, first_bias, units, width, "first"), layer(second, second_bias, width, inner, "second"),
    ]  # fmt: skip
    return fitting, None if gate is None else layer(*gate, units, width, "third")


def _routed(n: NodeContext, router: Operand, *, among_all: bool) -> list[Operand]:
    """Return the experts [tokens, k] of each token, and their weights, which sum to 1 per token if normalised."""
    count, normal = n.attr("k", 1), n.attr("normalize_routing_weights", 0)
    scores = n.op("nn.softmax", router, axis=1) if among_all else router
    values, index = n.op("topk", scores, k=count, axis=1, is_ascend=False)
    if not among_all:
        return [index, n.op("nn.softmax", values, axis=1)]
    return [index, n.op("divide", values, n.op("sum", values, axis=(1,), keepdims=True)) if normal else values]


def _dense(n: NodeContext, x: Operand, layer: Layer, number: int) -> Operand:
    """Return the dense layer of one expert."""
    weight, bias = layer
    product: Operand = n.op("nn.dense", x, n.entry(weight, number))
    return product if bias is None else n.op("add", product, n.entry(bias, number))


def _activation(n: NodeContext, *, gated: bool) -> Callable[[Operand, Operand | None], Operand]:
    """Return the activation between the layers, a function of the first layer's result and, with a gate, of the
    third's.
    """
    name, fusion = n.attr("activation_type", "relu"), n.attr("swiglu_fusion", 0)
    alpha, beta, limit = (n.attr(k, d) for k, d in (("activation_alpha", 1.0), ("activation_beta", 0.0),
                                                    ("swiglu_limit", np.inf)))  # fmt: skip
    simple: dict[str, Callable[[Operand], Operand]] = {
        "relu": lambda x: n.op("nn.relu", x),
        "gelu": lambda x: n.op("nn.gelu", x, approximate="tanh"),
        "silu": lambda x: n.op("multiply", x, n.op("sigmoid", x)),
        "identity": lambda x: x,
    }

    def swiglu(x: Operand, scale: Operand | None) -> Operand:
        if scale is None:
            half = n.size(x, 1) // 2
            cuts = (
                [(k, 2 * half, 2) for k in (0, 1)] if fusion == 1 else [(k * half, (k + 1) * half, 1) for k in (0, 1)]
            )
            x, scale = (n.part(x, 1, *cut) for cut in cuts)
        if np.isfinite(limit):
            x = n.op("minimum", x, limit)
            scale = n.op("clip", scale, a_min=-limit, a_max=limit)
        own = n.op("multiply", x, n.op("sigmoid", n.op("multiply", x, alpha)))
        scaled: Operand = n.op("multiply", own, n.op("add", scale, beta))
        return scaled

    if name == "swiglu" and (fusion in (1, 2) or gated):
        return swiglu
    if name not in simple:
        n.refuse_attribute("activation_type")
    own = simple[name]
    return lambda x, scale: own(x) if scale is None else n.op("multiply", own(x), scale)
