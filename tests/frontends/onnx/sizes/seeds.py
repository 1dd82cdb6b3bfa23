"""Valid models of the operators that ONNX's own tests lack: those of ONNX Runtime, and those of tables (ai.onnx.ml)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contrib_nodes import CASES
from .changes import Model

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
OPSET = 18
_draw = np.random.default_rng(0)


def contributed() -> list[Model]:
    """Operators of com.microsoft and ai.onnx.ml, with weights that are constants of the model."""
    attention = {"MoE": 2, "QMoE": 2, "GroupQueryAttention": 2}
    models = []
    for op, inputs, fed, outputs, attrs in CASES:
        domain = "" if op == "SimplifiedLayerNormalization" else MICROSOFT
        version = OPSET if not domain else 1
        models.append(_model(op, domain, version, inputs, attrs, outputs, fed))
        if fed < len(inputs) and op not in attention:
            models.append(_model(op, domain, version, inputs, attrs, outputs, len(inputs)))
    models += [_model(op, MICROSOFT, 1, inputs, attrs, outputs, fed) for op, inputs, fed, outputs, attrs in _others()]
    models += [_model(op, ML, version, [x], attrs, outputs, 1) for op, version, x, attrs, outputs in _tables()]
    return models


def _model(
    op: str, domain: str, version: int, inputs: Sequence[Any], attrs: dict[str, Any], outputs: int, fed: int
) -> Model:
    arrays = {f"x{k}": None if a is None else np.asarray(a) for k, a in enumerate(inputs)}
    constants = frozenset(f"x{k}" for k, a in enumerate(inputs) if a is not None and k >= fed)
    return Model(op, domain, version, arrays, attrs, outputs, constants)


def _f(*shape: int) -> np.ndarray:
    return _draw.standard_normal(shape).astype(np.float32)


def _q(dtype: str, *shape: int) -> np.ndarray:
    return _draw.integers(-50 if dtype == "int8" else 0, 50, shape).astype(dtype)


def _scaled(x: np.ndarray, scale: float = 0.1, zero: int = 3) -> list[np.ndarray]:
    return [x, np.float32(scale), np.array(zero, x.dtype)]  # type: ignore[list-item]


def _others() -> list[tuple[str, list[Any], int, int, dict[str, Any]]]:
    """Operator, inputs, how many are no weights, number of outputs, attributes."""
    byte, small = "uint8", "int8"
    image, rows = _q(byte, 1, 2, 4, 5), _q(byte, 3, 4)
    to = [np.float32(0.2), np.array(5, byte)]
    packed = [_q(byte, 4, 1, 8), np.abs(_f(4))]
    qkv = [_f(2, 1, 16), _f(2, 1, 8), _f(2, 1, 8), _f(2, 1, 5, 8), _f(2, 1, 5, 8)]
    lengths = [np.array([5, 5], np.int32), np.array([6], np.int32)]
    tables = [np.cos(_f(12, 4)), np.sin(_f(12, 4))]
    return [
        ("ExpandDims", [_f(2, 3), np.array(1, np.int32)], 1, 1, {}),
        ("GridSample", [_f(1, 1, 3, 4), _f(1, 2, 3, 2)], 2, 1, {"align_corners": 1}),
        ("GroupQueryAttention", [*qkv, *lengths], 5, 3, {"num_heads": 2, "kv_num_heads": 1}),
        ("GroupQueryAttention", [*qkv, *lengths, *tables], 5, 3, {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}),
        ("MatMulNBits", [_f(3, 16), *packed], 1, 1, {"K": 16, "N": 4, "bits": 4, "block_size": 16}),
        ("NhwcMaxPool", [_q(byte, 1, 4, 5, 2)], 1, 1, {"kernel_shape": [2, 2], "strides": [1, 2]}),
        ("Pad", [_f(2, 3), np.array([1, 0, 0, 2]), np.float32(1)], 1, 1, {"mode": "constant"}),
        ("QGemm", [*_scaled(rows), *_scaled(_q(small, 4, 5)), _q(small, 5).astype("int32"), *to], 1, 1, {}),
        ("QGemm", [*_scaled(rows), *_scaled(_q(small, 5, 4))], 1, 1, {"transB": 1}),
        ("QGemm", [*_scaled(rows), _q(small, 4, 5), np.abs(_f(5)), _q(small, 5)], 1, 1, {}),
        ("QLinearAdd", [*_scaled(rows), *_scaled(_q(byte, 4)), *to], 8, 1, {}),
        ("QLinearMul", [*_scaled(rows), *_scaled(_q(byte, 3, 1)), *to], 8, 1, {}),
        ("QLinearAveragePool", [*_scaled(image), *to], 1, 1, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
        ("QLinearAveragePool", [*_scaled(image), *to], 1, 1,
         {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1, "channels_last": 1}),
        ("QLinearGlobalAveragePool", [*_scaled(image), *to], 1, 1, {"channels_last": 0}),
        ("QLinearGlobalAveragePool", [*_scaled(image), *to], 5, 1, {"channels_last": 1}),
        ("QLinearConcat", [*to, *_scaled(rows), *_scaled(_q(byte, 3, 2))], 8, 1, {"axis": 1}),
        ("QLinearLeakyRelu", [*_scaled(rows), *to], 5, 1, {"alpha": 0.1}),
        ("QLinearSigmoid", [*_scaled(rows), *to], 1, 1, {}),
        ("QLinearSoftmax", [*_scaled(rows), np.float32(1 / 256), np.array(0, byte)], 1, 1, {"opset": 13, "axis": 1}),
        ("QLinearWhere", [_f(3, 4) > 0, *_scaled(rows), *_scaled(_q(byte, 4)), *to], 9, 1, {}),
        ("MatMulIntegerToFloat", [rows, _q(small, 4, 5), np.float32(0.1), np.abs(_f(5)), np.array(3, byte),
                                  _q(small, 5), _f(5)], 1, 1, {}),
        ("MatMulIntegerToFloat", [rows, _q(small, 4, 5), np.float32(0.1), np.float32(0.2)], 4, 1, {}),
        ("DynamicQuantizeMatMul", [_f(3, 4), _q(small, 4, 5), np.abs(_f(5)), _q(small, 5), _f(5)], 1, 1, {}),
        ("DynamicQuantizeLSTM", [_f(3, 2, 4), _q(small, 1, 4, 12), _q(small, 1, 3, 12), _f(1, 24), None, _f(1, 2, 3),
                                 _f(1, 2, 3), None, np.abs(_f(1)), np.zeros(1, small), np.abs(_f(1)),
                                 np.zeros(1, small)], 1, 3, {"hidden_size": 3}),
        ("Range", [np.int64(1), np.int64(9), np.int64(2)], 0, 1, {}),
        ("TransposeMatMul", [_f(2, 3, 4), _f(2, 3, 5)], 2, 1, {"transA": 1}),
        ("Trilu", [_f(3, 4), np.array(1)], 1, 1, {"upper": 1}),
        ("Unique", [np.array([1, 3, 1, 2], np.float32)], 1, 3, {}),
    ]  # fmt: skip


def _tables() -> list[tuple[str, int, np.ndarray, dict[str, Any], int]]:
    """Operator, version, rows, attributes, number of outputs."""
    rows = _f(3, 2)
    tree: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "nodes_missing_value_tracks_true": [0, 0, 0],
    }  # fmt: skip
    votes = {
        "treeids": [0] * 4, "nodeids": [1, 1, 2, 2], "ids": [0, 1, 0, 1], "weights": [1.0, 2.0, 3.0, 4.0],
    }  # fmt: skip
    return [
        ("FeatureVectorizer", 1, rows, {"inputdimensions": [2]}, 1),
        ("Imputer", 1, rows, {"imputed_value_floats": [1.0, 2.0], "replaced_value_float": float("nan")}, 1),
        ("LabelEncoder", 2, np.array([1, 5, 2]), {"keys_int64s": [1, 2], "values_int64s": [7, 8]}, 1),
        ("LinearClassifier", 1, rows,
         {"coefficients": [1.0, 2.0, 3.0, 4.0], "intercepts": [0.0, 1.0], "classlabels_ints": [4, 5]}, 2),
        ("LinearRegressor", 1, rows, {"coefficients": [1.0, 2.0], "intercepts": [1.0]}, 1),
        ("Normalizer", 1, rows, {"norm": "L2"}, 1),
        ("OneHotEncoder", 1, np.array([1, 5, 2]), {"cats_int64s": [1, 2], "zeros": 1}, 1),
        ("SVMRegressor", 1, rows,
         {"coefficients": [1.0, 2.0], "support_vectors": [1.0, 2.0, 3.0, 4.0], "n_supports": 2, "rho": [0.5],
          "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}, 1),
        ("Scaler", 1, rows, {"offset": [1.0, 2.0], "scale": [2.0, 0.5]}, 1),
        ("TreeEnsembleRegressor", 3, rows,
         {**tree, "n_targets": 2, **{f"target_{k}": v for k, v in votes.items()}}, 1),
        ("TreeEnsembleClassifier", 3, rows,
         {**tree, "classlabels_int64s": [4, 5], **{f"class_{k}": v for k, v in votes.items()}}, 2),
    ]  # fmt: skip
