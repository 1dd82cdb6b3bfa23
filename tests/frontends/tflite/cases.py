"""One or more calls of each builtin operator that minitvm imports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .writing import Case, Tensor, constant


def _f(*shape: int) -> Tensor:
    return Tensor(shape)


def _i(*shape: int, dtype: str = "int32") -> Tensor:
    return Tensor(shape, dtype)


def _w(*shape: int, seed: int = 5) -> Tensor:
    return constant(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def _c(values: Any, dtype: str = "int32") -> Tensor:
    return constant(values, dtype)


def maps() -> Iterator[Case]:
    """Functions of one number."""
    positive = {0: (0.1, 5.0)}
    for op in (
        "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1",
        "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH",
    ):  # fmt: skip
        yield Case(op, [_f(2, 3, 4)], [_f(2, 3, 4)], ranges={0: (-4.0, 4.0)})
    for op in ("LOG", "RSQRT", "SQRT"):
        yield Case(op, [_f(2, 5)], [_f(2, 5)], ranges=positive)
    yield Case("LOGICAL_NOT", [_i(7, dtype="bool")], [_i(7, dtype="bool")])
    yield Case("LEAKY_RELU", [_f(2, 5)], [_f(2, 5)], "LeakyReluOptions", {"alpha": 0.3})
    for approximate in (False, True):
        yield Case("GELU", [_f(2, 5)], [_f(2, 5)], "GeluOptions", {"approximate": approximate})
    yield Case("PRELU", [_f(1, 3, 4, 5), _w(1, 1, 5)], [_f(1, 3, 4, 5)])
    yield Case("ZEROS_LIKE", [_f(2, 5)], [_f(2, 5)], "ZerosLikeOptions")
    yield Case("CAST", [_f(2, 5)], [_i(2, 5)], "CastOptions", {"inDataType": 0, "outDataType": 2}, {0: (-9.0, 9.0)})
    yield Case("BITCAST", [_f(2, 5)], [_i(2, 5)], "BitcastOptions")
    yield Case(
        "FAKE_QUANT", [_f(3, 7)], [_f(3, 7)], "FakeQuantOptions",
        {"min": -1.1, "max": 2.3, "numBits": 8, "narrowRange": False},
    )  # fmt: skip
    yield Case("DEQUANTIZE", [constant(np.arange(6).reshape(2, 3), "float16")], [_f(2, 3)])
    yield Case("BUCKETIZE", [_f(3, 4)], [_i(3, 4)], "BucketizeOptions", {"boundaries": [-1.0, 0.0, 0.7]})


def pairs() -> Iterator[Case]:
    """Functions of two numbers."""
    for op, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
        for activation in (0, 1, 2, 3):
            yield Case(
                op, [_f(2, 3, 4), _f(1, 4)], [_f(2, 3, 4)], table, {"fusedActivationFunction": activation},
                {1: (0.5, 4.0)},
            )  # fmt: skip
    yield Case("ADD", [_i(2, 3), _i(3)], [_i(2, 3)], "AddOptions")
    yield Case("DIV", [_i(2, 3), _i(2, 3)], [_i(2, 3)], "DivOptions", ranges={1: (1, 9)})
    for op in ("MAXIMUM", "MINIMUM"):
        yield Case(op, [_f(2, 3, 1), _f(4)], [_f(2, 3, 4)], "MaximumMinimumOptions")
    yield Case("POW", [_f(2, 3), _f(2, 3)], [_f(2, 3)], "PowOptions", ranges={0: (0.1, 3.0)})
    yield Case("SQUARED_DIFFERENCE", [_f(2, 3), _f(3)], [_f(2, 3)], "SquaredDifferenceOptions")
    for op, table in (("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")):
        yield Case(op, [_i(2, 9), _i(2, 9)], [_i(2, 9)], table, ranges={1: (1, 7)})
        yield Case(op, [_f(2, 9), _f(2, 9)], [_f(2, 9)], table, ranges={0: (-9.0, 9.0), 1: (0.5, 3.0)})
    for op, table in (
        ("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"), ("LESS", "LessOptions"),
        ("LESS_EQUAL", "LessEqualOptions"), ("GREATER", "GreaterOptions"), ("GREATER_EQUAL", "GreaterEqualOptions"),
    ):  # fmt: skip
        yield Case(op, [_i(4, 9), _i(9)], [_i(4, 9, dtype="bool")], table, ranges={0: (0, 3), 1: (0, 3)})
    for op, table in (("LOGICAL_AND", "LogicalAndOptions"), ("LOGICAL_OR", "LogicalOrOptions")):
        yield Case(op, [_i(4, 9, dtype="bool"), _i(9, dtype="bool")], [_i(4, 9, dtype="bool")], table)
    yield Case("ATAN2", [_f(3, 4), _f(3, 4)], [_f(3, 4)], "ATan2Options")
    yield Case("BITWISE_XOR", [_i(3, 4), _i(3, 4)], [_i(3, 4)], "BitwiseXorOptions")
    yield Case("RIGHT_SHIFT", [_i(3, 4), _i(3, 4)], [_i(3, 4)], "RightShiftOptions", ranges={1: (0, 5)})
    yield Case("ADD_N", [_f(3, 4)] * 3, [_f(3, 4)], "AddNOptions")
    yield Case("SELECT", [_i(3, dtype="bool"), _f(3, 4), _f(3, 4)], [_f(3, 4)], "SelectOptions")
    yield Case("SELECT_V2", [_i(3, 1, dtype="bool"), _f(3, 4), _f(4)], [_f(3, 4)], "SelectV2Options")


def images() -> Iterator[Case]:
    """Convolutions, pools and resizes."""
    for padding, stride, dilation, out in ((0, 1, 1, (5, 6)), (1, 2, 1, (2, 2)), (0, 2, 1, (3, 3)), (1, 1, 2, (1, 2))):
        common = {"padding": padding, "strideH": stride, "strideW": stride}
        dilated = {**common, "dilationHFactor": dilation, "dilationWFactor": dilation, "fusedActivationFunction": 1}
        yield Case("CONV_2D", [_f(1, 5, 6, 4), _w(3, 3, 3, 4), _w(3)], [_f(1, *out, 3)], "Conv2DOptions", dilated)
        yield Case(
            "DEPTHWISE_CONV_2D", [_f(2, 5, 6, 4), _w(1, 3, 3, 8), _w(8)], [_f(2, *out, 8)], "DepthwiseConv2DOptions",
            {**dilated, "depthMultiplier": 2},
        )  # fmt: skip
        if dilation == 1:
            pool = {**common, "filterHeight": 3, "filterWidth": 3}
            for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"):
                yield Case(op, [_f(1, 5, 6, 4)], [_f(1, *out, 4)], "Pool2DOptions", pool)
    whole = {"padding": 1, "strideH": 1, "strideW": 1}
    yield Case("CONV_2D", [_f(2, 3, 4, 5), _w(6, 3, 4, 5), _w(6)], [_f(2, 1, 1, 6)], "Conv2DOptions", whole)
    yield Case("CONV_2D", [_f(1, 3, 4, 6), _w(4, 2, 2, 3), _w(4)], [_f(1, 2, 3, 4)], "Conv2DOptions", whole)
    yield Case(
        "DEPTHWISE_CONV_2D", [_f(2, 3, 4, 5), _w(1, 3, 4, 5), _w(5)], [_f(2, 1, 1, 5)], "DepthwiseConv2DOptions",
        {**whole, "depthMultiplier": 1},
    )  # fmt: skip
    for padding, shape in ((0, (1, 6, 8, 3)), (1, (1, 7, 9, 3)), (0, (1, 5, 7, 3))):
        yield Case(
            "TRANSPOSE_CONV", [_c(shape), _w(3, 3, 3, 4), _f(1, 3, 4, 4)], [_f(*shape)], "TransposeConvOptions",
            {"padding": padding, "strideH": 2, "strideW": 2},
        )  # fmt: skip
    volume = {"strideD": 1, "strideH": 1, "strideW": 1}
    for padding, out in ((0, (3, 4, 5)), (1, (2, 3, 4))):
        yield Case(
            "CONV_3D", [_f(1, 3, 4, 5, 2), _w(2, 2, 2, 2, 3), _w(3)], [_f(1, *out, 3)], "Conv3DOptions",
            {**volume, "padding": padding},
        )  # fmt: skip
    yield Case(
        "CONV_3D_TRANSPOSE", [_c((1, 4, 5, 6, 3)), _w(2, 2, 2, 3, 2), _f(1, 3, 4, 5, 2)], [_f(1, 4, 5, 6, 3)],
        "Conv3DOptions", {**volume, "padding": 1},
    )  # fmt: skip
    for aligned, half in ((False, False), (True, False), (False, True)):
        settings = {"alignCorners": aligned, "halfPixelCenters": half}
        for op, table in (
            ("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
        ):  # fmt: skip
            for size in ((7, 9), (3, 2)):
                yield Case(op, [_f(1, 4, 5, 3), _c(size)], [_f(1, *size, 3)], table, settings)
    yield Case("SPACE_TO_DEPTH", [_f(1, 4, 6, 2)], [_f(1, 2, 3, 8)], "SpaceToDepthOptions", {"blockSize": 2})
    yield Case("DEPTH_TO_SPACE", [_f(1, 2, 3, 8)], [_f(1, 4, 6, 2)], "DepthToSpaceOptions", {"blockSize": 2})
    yield Case(
        "SPACE_TO_BATCH_ND", [_f(2, 3, 4, 2), _c([2, 2]), _c([[1, 0], [0, 0]])], [_f(8, 2, 2, 2)],
        "SpaceToBatchNDOptions",
    )  # fmt: skip
    yield Case(
        "BATCH_TO_SPACE_ND", [_f(8, 2, 2, 2), _c([2, 2]), _c([[1, 0], [0, 1]])], [_f(2, 3, 3, 2)],
        "BatchToSpaceNDOptions",
    )  # fmt: skip
    yield Case(
        "LOCAL_RESPONSE_NORMALIZATION", [_f(1, 2, 3, 7)], [_f(1, 2, 3, 7)], "LocalResponseNormalizationOptions",
        {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6}, optimised=True,  # the reference leaves out a neighbour
    )  # fmt: skip


def products() -> Iterator[Case]:
    """Products of matrices, reductions and normalisations."""
    for keep, out in ((False, (6, 5)), (True, (2, 3, 5))):
        yield Case(
            "FULLY_CONNECTED", [_f(2, 3, 4), _w(5, 4), _w(5)], [_f(*out)], "FullyConnectedOptions",
            {"keepNumDims": keep, "fusedActivationFunction": 1},
        )  # fmt: skip
    for x, y in ((False, False), (True, True)):
        a, b = ((2, 4, 3) if x else (2, 3, 4)), ((5, 4) if y else (4, 5))
        yield Case("BATCH_MATMUL", [_f(*a), _f(2, *b)], [_f(2, 3, 5)], "BatchMatMulOptions", {"adjX": x, "adjY": y})
    for keep, out in ((False, (2, 4)), (True, (2, 1, 1, 4))):
        for op in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
            yield Case(op, [_f(2, 3, 5, 4), _c([1, -2])], [_f(*out)], "ReducerOptions", {"keepDims": keep})
        for op in ("REDUCE_ANY", "REDUCE_ALL"):
            flags = _i(2, 3, 5, 4, dtype="bool")
            yield Case(op, [flags, _c([1, 2])], [_i(*out, dtype="bool")], "ReducerOptions", {"keepDims": keep})
    for op, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        yield Case(op, [_f(3, 4, 5), _c(1)], [_i(3, 5)], table, {"outputType": 2})
    yield Case("SOFTMAX", [_f(3, 5)], [_f(3, 5)], "SoftmaxOptions", {"beta": 0.7})
    yield Case("LOG_SOFTMAX", [_f(3, 5)], [_f(3, 5)], "LogSoftmaxOptions")
    yield Case("L2_NORMALIZATION", [_f(3, 5)], [_f(3, 5)], "L2NormOptions")
    for exclusive, reverse in ((False, False), (True, True)):
        yield Case(
            "CUMSUM", [_f(3, 5), _c(1)], [_f(3, 5)], "CumsumOptions", {"exclusive": exclusive, "reverse": reverse}
        )


def shapes() -> Iterator[Case]:
    """Operators that move elements."""
    yield Case("RESHAPE", [_f(2, 6), _c([3, -1])], [_f(3, 4)], "ReshapeOptions", {"newShape": [3, 4]})
    yield Case("SQUEEZE", [_f(1, 3, 1, 2)], [_f(3, 2)], "SqueezeOptions", {"squeezeDims": [0, -2]})
    yield Case("EXPAND_DIMS", [_f(3, 2), _c(-1)], [_f(3, 2, 1)], "ExpandDimsOptions")
    yield Case("TRANSPOSE", [_f(2, 3, 4), _c([2, 0, 1])], [_f(4, 2, 3)], "TransposeOptions")
    yield Case("CONCATENATION", [_f(2, 3), _f(2, 4)], [_f(2, 7)], "ConcatenationOptions", {"axis": -1})
    yield Case("PACK", [_f(2, 3)] * 2, [_f(2, 2, 3)], "PackOptions", {"axis": 1, "valuesCount": 2})
    yield Case("UNPACK", [_f(2, 3)], [_f(2)] * 3, "UnpackOptions", {"axis": 1, "num": 3})
    yield Case("SPLIT", [_c(1), _f(2, 6)], [_f(2, 2)] * 3, "SplitOptions", {"numSplits": 3})
    yield Case(
        "SPLIT_V", [_f(2, 6), _c([1, -1, 2]), _c(1)], [_f(2, 1), _f(2, 3), _f(2, 2)], "SplitVOptions", {"numSplits": 3}
    )
    yield Case("PAD", [_f(2, 3), _c([[1, 0], [0, 2]])], [_f(3, 5)], "PadOptions")
    yield Case("PADV2", [_f(2, 3), _c([[1, 0], [0, 2]]), constant(np.float32(0.5))], [_f(3, 5)], "PadV2Options")
    for mode in (0, 1):
        pairs_ = _c([[1, 2], [2, 1]])
        yield Case("MIRROR_PAD", [_f(3, 4), pairs_], [_f(6, 7)], "MirrorPadOptions", {"mode": mode})
    yield Case("TILE", [_f(2, 3), _c([2, 3])], [_f(4, 9)], "TileOptions")
    yield Case("SLICE", [_f(4, 5), _c([1, 2]), _c([2, -1])], [_f(2, 3)], "SliceOptions")
    yield Case(
        "STRIDED_SLICE", [_f(4, 5, 3), _c([1, 3, 0]), _c([4, 0, 1]), _c([2, -1, 1])], [_f(2, 4)],
        "StridedSliceOptions", {"endMask": 2, "shrinkAxisMask": 4},
    )  # fmt: skip
    yield Case(
        "STRIDED_SLICE", [_f(4, 5, 3), _c([0, 0, -1]), _c([0, 1, 3]), _c([1, 1, 1])], [_f(4, 1, 5, 1)],
        "StridedSliceOptions", {"ellipsisMask": 1, "newAxisMask": 2},
    )  # fmt: skip
    yield Case("REVERSE_V2", [_f(2, 3, 4), _c([1])], [_f(2, 3, 4)], "ReverseV2Options")
    yield Case(
        "REVERSE_SEQUENCE", [_f(3, 4, 2), _c([2, 4, 1])], [_f(3, 4, 2)], "ReverseSequenceOptions",
        {"seqDim": 1, "batchDim": 0},
    )  # fmt: skip
    yield Case("BROADCAST_TO", [_f(3, 1), _c([2, 3, 4])], [_f(2, 3, 4)], "BroadcastToOptions", version=2)
    yield Case("BROADCAST_ARGS", [_c([3, 1]), _c([2, 3, 4])], [_i(3)], "BroadcastToOptions")
    yield Case("SHAPE", [_f(2, 3, 4)], [_i(3)], "ShapeOptions", {"outType": 2})
    yield Case("RANK", [_f(2, 3, 4)], [_i()], "RankOptions")
    yield Case("FILL", [_c([2, 3]), _f()], [_f(2, 3)], "FillOptions")
    yield Case("RANGE", [_c(1), _c(9), _c(3)], [_i(3)], "RangeOptions")
    yield Case(
        "ONE_HOT", [_i(2, 3), _c(4), constant(np.float32(2.0)), constant(np.float32(-1.0))], [_f(2, 3, 4)],
        "OneHotOptions", {"axis": -1}, {0: (-1, 4)},
    )  # fmt: skip
    yield Case("MATRIX_DIAG", [_f(2, 3)], [_f(2, 3, 3)], "MatrixDiagOptions")
    for rows, columns in ((3, 3), (4, 3), (2, 3)):
        yield Case(
            "MATRIX_SET_DIAG", [_f(2, rows, columns), _f(2, min(rows, columns))], [_f(2, rows, columns)],
            "MatrixSetDiagOptions",
        )  # fmt: skip


def places() -> Iterator[Case]:
    """Operators that read or write elements at computed places."""
    yield Case("GATHER", [_f(5, 3), _i(2, 4)], [_f(2, 4, 3)], "GatherOptions", {"axis": 0}, {1: (0, 4)})
    yield Case("GATHER", [_f(2, 5, 3), _i(4)], [_f(2, 5, 4)], "GatherOptions", {"axis": 2}, {1: (0, 2)})
    yield Case(
        "GATHER", [_f(2, 3, 5), _i(2, 4)], [_f(2, 3, 4)], "GatherOptions", {"axis": 2, "batchDims": 1}, {1: (0, 4)}
    )
    yield Case("GATHER_ND", [_f(3, 4, 2), _i(5, 2)], [_f(5, 2)], "GatherNdOptions", ranges={1: (0, 2)})
    yield Case("SCATTER_ND", [_i(4, 1), _f(4, 2), _c([5, 2])], [_f(5, 2)], "ScatterNdOptions", ranges={0: (0, 4)})
    yield Case("EMBEDDING_LOOKUP", [_i(3), _w(5, 4)], [_f(3, 4)], ranges={0: (0, 4)})
    yield Case("WHERE", [_i(3, 4, dtype="bool")], [_i(12, 2, dtype="int64")])
    yield Case("UNIQUE", [_i(9)], [_i(9), _i(9)], "UniqueOptions", {"idxOutType": 2}, {0: (0, 4)})
    yield Case("TOPK_V2", [_f(2, 7), _c(3)], [_f(2, 3), _i(2, 3)], "TopKV2Options")
    yield Case("SEGMENT_SUM", [_f(4, 2), _c([0, 0, 1, 2])], [_f(3, 2)], "SegmentSumOptions")
    for kind in ("Sum", "Prod", "Max", "Min"):
        yield Case(
            f"UNSORTED_SEGMENT_{kind.upper()}", [_f(4, 2), _c([2, 0, 2, 0]), _c(3)], [_f(3, 2)],
            f"UnsortedSegment{kind}Options",
        )  # fmt: skip
    yield Case(
        "SPARSE_TO_DENSE", [_c([[0, 1], [2, 0]]), _c([3, 2]), _f(2), constant(np.float32(-1.0))], [_f(3, 2)],
        "SparseToDenseOptions",
    )  # fmt: skip
    for start in ([1, 0], [9, -3]):
        yield Case("DYNAMIC_UPDATE_SLICE", [_f(4, 5), _f(2, 3), _c(start)], [_f(4, 5)], "DynamicUpdateSliceOptions")


def _lstm(*parts: str, op: str = "UNIDIRECTIONAL_SEQUENCE_LSTM", **options: Any) -> Case:
    """An LSTM of 4 cells for a batch of 2, over 5 steps, with some of its optional parts."""
    rows = 3 if any(part.startswith("projection") for part in parts) else 4  # elements of the state
    gates = range("coupled" in parts, 4)

    def gated(seed: int, *shape: int, given: bool = True, among: Sequence[int] = range(4)) -> list[Tensor | None]:
        return [_w(*shape, seed=seed + k) if given and k in gates else None for k in among]

    single = op == "LSTM"
    data = (2, 3) if single else (5, 2, 3) if options.get("timeMajor") else (2, 5, 3)
    projection = [
        _w(3, 4, seed=40) if rows == 3 else None,
        _w(3, seed=41) if "projection_bias" in parts else None,
    ]
    inputs = [
        _f(*data), *gated(0, 4, 3), *gated(10, 4, rows),
        *gated(20, 4, given="peepholes" in parts, among=(0, 1, 3)), *gated(30, 4), *projection,
        Tensor((2, rows), variable=True), Tensor((2, 4), variable=True), *gated(50, 4, given="norms" in parts),
    ]  # fmt: skip
    table = "LSTMOptions" if single else "UnidirectionalSequenceLSTMOptions"
    return Case(op, inputs, [_f(*data[:-1], rows)], table, {"fusedActivationFunction": 4, **options})


def layers() -> Iterator[Case]:
    """Recurrent layers, with variable tensors as states."""
    state = Tensor((2, 4), variable=True)
    for options in ({}, {"timeMajor": True}, {"cellClip": 0.5}, {"fusedActivationFunction": 1}):
        yield _lstm(**options)
    for parts in ("coupled", "peepholes", "coupled peepholes", "projection", "projection_bias", "norms",
                  "coupled peepholes projection projection_bias norms"):  # fmt: skip
        for clips in ({}, {"cellClip": 0.4, "projClip": 0.2}):
            yield _lstm(*parts.split(), **clips)
    for parts in ("", "coupled peepholes", "projection norms"):
        yield _lstm(*parts.split(), op="LSTM", cellClip=0.5)
    for activation in (0, 1, 4):
        row = [_w(4, 3), _w(4, 4), _w(4), state]
        yield Case("RNN", [_f(2, 3), *row], [_f(2, 4)], "RNNOptions", {"fusedActivationFunction": activation})
        yield Case(
            "UNIDIRECTIONAL_SEQUENCE_RNN", [_f(2, 5, 3), *row], [_f(2, 5, 4)], "SequenceRNNOptions",
            {"fusedActivationFunction": activation, "timeMajor": False},
        )  # fmt: skip
    yield Case(
        "SVDF", [_f(2, 3), _w(6, 3), _w(6, 4), _w(3), Tensor((2, 24), variable=True)], [_f(2, 3)], "SVDFOptions",
        {"rank": 2, "fusedActivationFunction": 1},
    )  # fmt: skip


def bytes_() -> Iterator[Case]:
    """Quantised tensors."""

    def q(*shape: int, dtype: str = "int8", scale: float = 0.05, zero: int = 3) -> Tensor:
        return Tensor(shape, dtype, scale=scale, zero=zero if dtype == "int8" else zero + 128)

    rng = np.random.default_rng(3)
    for dtype in ("int8", "uint8"):
        per_channel = dtype == "int8"
        filters = rng.integers(-120, 120, (5, 3, 3, 4))
        scale: Any = [0.01, 0.02, 0.03, 0.02, 0.01] if per_channel else 0.02
        w = constant(filters if per_channel else filters + 128, dtype, scale=scale, zero=0 if per_channel else 120)
        total = np.asarray(scale) * np.float32(0.05)
        bias = constant(rng.integers(-500, 500, 5), "int32", scale=total)
        for activation in (0, 1, 3):
            yield Case(
                "CONV_2D", [q(1, 5, 6, 4, dtype=dtype), w, bias], [q(1, 5, 6, 5, dtype=dtype, scale=0.2, zero=-9)],
                "Conv2DOptions", {"padding": 0, "strideH": 1, "strideW": 1, "fusedActivationFunction": activation},
            )  # fmt: skip
        rows = rng.integers(-120, 120, (5, 8))
        matrix = constant(rows if per_channel else rows + 128, dtype, scale=0.02, zero=0 if per_channel else 120)
        offsets = constant(rng.integers(-500, 500, 5), "int32", scale=0.001)
        yield Case(
            "FULLY_CONNECTED", [q(3, 8, dtype=dtype), matrix, offsets], [q(3, 5, dtype=dtype, scale=0.3)],
            "FullyConnectedOptions",
        )  # fmt: skip
        for op, table in (("ADD", "AddOptions"), ("MUL", "MulOptions"), ("SUB", "SubOptions")):
            yield Case(
                op, [q(2, 9, dtype=dtype), q(2, 9, dtype=dtype, scale=0.1)], [q(2, 9, dtype=dtype, scale=0.2)], table
            )
        for op in ("LOGISTIC", "TANH"):
            low = 0.0078125 if op == "TANH" else 0.00390625
            zero = 0 if op == "TANH" else -128
            yield Case(op, [q(4, 9, dtype=dtype)], [q(4, 9, dtype=dtype, scale=low, zero=zero)])
        yield Case("AVERAGE_POOL_2D", [q(1, 4, 4, 3, dtype=dtype)], [q(1, 2, 2, 3, dtype=dtype)], "Pool2DOptions", {
            "padding": 1, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2,
        })  # fmt: skip
        yield Case("PAD", [q(2, 3, dtype=dtype), _c([[1, 0], [0, 2]])], [q(3, 5, dtype=dtype)], "PadOptions")
        yield Case("QUANTIZE", [_f(4, 9)], [q(4, 9, dtype=dtype)], "QuantizeOptions")
        yield Case("QUANTIZE", [q(4, 9, dtype=dtype)], [q(4, 9, dtype=dtype, scale=0.07, zero=5)], "QuantizeOptions")
        yield Case("DEQUANTIZE", [q(4, 9, dtype=dtype)], [_f(4, 9)], "DequantizeOptions")
    yield Case("CONCATENATION", [q(2, 3), q(2, 4)], [q(2, 7)], "ConcatenationOptions", {"axis": 1})


CASES = [*maps(), *pairs(), *images(), *products(), *shapes(), *places(), *layers(), *bytes_()]
