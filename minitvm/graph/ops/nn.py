"""Neural network operators: convolutions, matrix products, pooling, normalisation, softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import topi
from ..registry import Pattern, register

_COMPLEX: list[tuple[str, Callable[..., Any]]] = [
    ("nn.batch_matmul", topi.batch_matmul),
    ("nn.conv1d", topi.conv1d),
    ("nn.conv1d_transpose", topi.conv1d_transpose),
    ("nn.conv2d", topi.conv2d),
    ("nn.conv2d_transpose", topi.conv2d_transpose),
    ("nn.conv3d", topi.conv3d),
    ("nn.conv3d_transpose", topi.conv3d_transpose),
    ("nn.dense", topi.dense),
    ("nn.matmul", topi.matmul),
    # Their last stage writes each element once: what follows element by element may join it.
    ("nn.avg_pool1d", topi.avg_pool1d),
    ("nn.avg_pool2d", topi.avg_pool2d),
    ("nn.avg_pool3d", topi.avg_pool3d),
    ("nn.max_pool1d", topi.max_pool1d),
    ("nn.max_pool2d", topi.max_pool2d),
    ("nn.max_pool3d", topi.max_pool3d),
    ("nn.group_norm", topi.group_norm),
    ("nn.instance_norm", topi.instance_norm),
]
# Phases that a convolution computes interleave as its results are written.
_INTERLEAVED = frozenset(("nn.conv1d", "nn.conv2d", "nn.conv3d"))
for _name, _te in _COMPLEX:
    _absorbs = ("nn.interleave",) if _name in _INTERLEAVED else ()
    register(_name, pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=_absorbs)(_te)

# Each has several stages, some of which read a whole axis: no other operator may join their group.
_OPAQUE: list[tuple[str, Callable[..., Any]]] = [
    ("nn.l2_normalize", topi.l2_normalize),
    ("nn.layer_norm", topi.layer_norm),
    ("nn.log_softmax", topi.log_softmax),
    ("nn.lrn", topi.lrn),
    ("nn.rms_norm", topi.rms_norm),
    ("nn.softmax", topi.softmax),
]
for _name, _te in _OPAQUE:
    register(_name, pattern=Pattern.OPAQUE)(_te)

register("nn.batch_norm", pattern=Pattern.BROADCAST)(topi.batch_norm)
register("nn.global_avg_pool", pattern=Pattern.COMM_REDUCE)(topi.global_avg_pool)
register("nn.global_max_pool", pattern=Pattern.COMM_REDUCE)(topi.global_max_pool)
