"""Products of quantised tensors: what TFLite's integer kernels compute, to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import NodeContext
from ..quantized import quantization
from .activations import NotBounds, limits_of


@dataclass(frozen=True, slots=True)
class Quantised:
    """The parameters of a product of a quantised tensor and constant quantised weights.

    `factors` are the scales of the sums of integers, relative to the scale of the result: one, or one per channel.
    `limits` bounds the results.
    """

    zero: np.ndarray
    weight_zero: np.ndarray
    factors: np.ndarray
    limits: tuple[float, float] | None

    @staticmethod
    def of(n: NodeContext, channel_axes: tuple[int, ...] = (0, 3)) -> Quantised | None:
        """Return the parameters of a node with the inputs data, weights and bias, or None if it computes in floats.

        All tensors must be of 8 bits; the scales of the weights are along one of `channel_axes`.
        """
        infos = [n.info(0), n.info(1), n.result()]
        data, weights, result = map(quantization, infos)
        if data is None or weights is None or result is None or data.per_channel or result.per_channel:
            return None
        if any(n.laid(k).operand.dtype not in ("int8", "uint8") for k in (0, 1)) or n[1].data is None:
            return None
        if n.result_dtype() not in ("int8", "uint8") or (weights.per_channel and weights.axis not in channel_axes):
            return None
        if n.has(2) and n.laid(2).operand.dtype != "int32":
            return None
        try:
            limits = limits_of(n)
        except NotBounds:
            return None
        if weights.per_channel:
            scales = data.scale[0].astype(np.float64) * weights.scale.astype(np.float64)
            zeros = weights.zero_point.astype(infos[1].data.dtype if infos[1].data is not None else np.int8)
        else:  # TFLite multiplies these two as float32
            scales = np.float64(np.float32(data.scale[0]) * np.float32(weights.scale[0])).reshape(())
            zeros = weights.zero_point[0].astype(n[1].dtype.numpy)
        factors = np.asarray(scales / result.scale[0].astype(np.float64))
        zero = data.zero_point[0].astype(n.laid(0).operand.dtype.numpy)
        return Quantised(np.asarray(zero), np.asarray(zeros), factors, limits)
