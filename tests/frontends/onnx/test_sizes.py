"""Sizes that do not fit: refused in plain words, and no access is outside of its array, whatever the sizes are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from onnx import numpy_helper

import minitvm
from minitvm.errors import MinitvmError
from minitvm.frontends import from_onnx
from tests.fewer import number

from .random_nodes import OPERATORS, random_node
from .sizes.changes import Model, changes, models_of_onnx, of_node, with_known_numbers
from .sizes.fences import Fences
from .sizes.judging import accepted, judge
from .sizes.seeds import contributed
from .sizes.verdicts import BAD, OUTSIDE, REFUSED, RIGHT, VALID_REFUSED, Judgement
from .sizes.workers import judged

F, I = "float32", "int64"


def ones(*shape: int, dtype: str = F) -> np.ndarray:
    return np.ones(shape, dtype)


# Sizes that do not fit, each as the arrays of an operator; most of them read or wrote outside of an array.
MISFITS = {
    "Attention": Model(
        "Attention", "", 23, {"q": ones(2, 2, 3, 4), "k": ones(1, 2, 3, 4), "v": ones(1, 2, 3, 4)}
    ),
    "TopK": Model("TopK", "", 18, {"x": ones(3, 4), "k": np.array([6])}, {"axis": 0}, 2, frozenset({"k"})),
    "Gather": Model("Gather", "", 18, {"x": ones(0, 4), "i": np.zeros(2, I)}),
    "GatherND": Model("GatherND", "", 18, {"x": ones(0, 4), "i": np.zeros((2, 1), I)}),
    "GatherElements": Model("GatherElements", "", 18, {"x": ones(3, 2), "i": np.zeros((2, 900), I)}),
    "ScatterElements": Model(
        "ScatterElements", "", 18, {"x": ones(3, 2), "i": np.zeros((2, 900), I), "u": ones(2, 900)}
    ),
    "ScatterND": Model("ScatterND", "", 18, {"x": ones(3, 4), "i": np.zeros((3, 1), I), "u": ones(1, 4)}),
    "DequantizeLinear": Model("DequantizeLinear", "", 19, {"x": ones(2, 5, dtype="int8"), "s": ones(3)}),
    "QuantizeLinear": Model("QuantizeLinear", "", 19, {"x": ones(2, 5), "s": ones(3), "z": ones(3, dtype="int8")}),
    "Pad": Model(
        "Pad", "", 19, {"x": ones(0, 3), "p": np.array([2, 0, 2, 0])}, {"mode": "wrap"}, known=frozenset({"p"})
    ),
    "DepthToSpace": Model("DepthToSpace", "", 18, {"x": ones(1, 6, 2, 2)}, {"blocksize": 2}),
    "SpaceToDepth": Model("SpaceToDepth", "", 18, {"x": ones(1, 2, 3, 3)}, {"blocksize": 2}),
    "GroupNormalization": Model(
        "GroupNormalization", "", 21, {"x": ones(1, 6, 5), "s": ones(6), "b": ones(6)}, {"num_groups": 4}
    ),
    "GridSample": Model("GridSample", "", 18, {"x": ones(3, 1, 3, 3), "g": ones(1, 2, 2, 2)}),
    "NegativeLogLikelihoodLoss": Model(
        "NegativeLogLikelihoodLoss", "", 18, {"x": ones(3, 5), "t": np.zeros(2, I)}, {"reduction": "sum"}
    ),
    "SwiGLU": Model("SwiGLU", "", 28, {"a": ones(2, 4), "b": ones(1, 4)}),
    "RoiAlign": Model(
        "RoiAlign", "", 18, {"x": ones(1, 1, 5, 5), "r": ones(2, 4), "b": np.array([0, 9])}, known=frozenset({"b"})
    ),
    "GlobalMaxPool": Model("GlobalMaxPool", "", 18, {"x": ones(1, 1, 3, 0)}),
    "Conv": Model("Conv", "", 18, {"x": ones(1, 1, 5, 5), "w": ones(1, 1, 4, 4)}, {"kernel_shape": [3, 3]}),
    "Resize": Model(
        "Resize", "", 19, {"x": ones(1, 1, 0, 2), "": None, "n": None, "s": np.array([1, 1, 7, 8])},
        known=frozenset({"s"}),
    ),
    "TopK of several": Model("TopK", "", 18, {"x": ones(3, 4), "k": np.array([2, 1])}, {}, 2, frozenset({"k"})),
    "EmbedLayerNormalization": Model(
        "EmbedLayerNormalization", "com.microsoft", 1,
        {"w": np.zeros((2, 3), "int32"), "s": np.zeros((2, 3), "int32"), "a": ones(4, 8), "b": ones(5, 8),
         "c": ones(2, 1), "g": ones(8), "h": ones(8)}, {}, 2,
    ),
    "MoE": Model(
        "MoE", "com.microsoft", 1, {"x": ones(9, 8), "r": ones(9, 3), "a": ones(3, 16, 8), "": None,
                                    "b": ones(4, 8, 16)}, {"k": 2}, known=frozenset({"a", "b"}),
    ),
    "MatMulNBits": Model(
        "MatMulNBits", "com.microsoft", 1, {"x": ones(3, 16), "w": ones(4, 1, 8, dtype="uint8"), "s": ones(4)},
        {"K": 16, "N": 900, "bits": 4, "block_size": 16}, known=frozenset({"w", "s"}),
    ),
    "FastGelu": Model("FastGelu", "com.microsoft", 1, {"x": ones(2, 9), "b": ones(1)}),
    "SoftmaxCrossEntropyLoss": Model(
        "SoftmaxCrossEntropyLoss", "", 18, {"x": ones(3, 5), "y": np.array([1, 9, 3])}, known=frozenset({"y"})
    ),
    "GroupQueryAttention": Model(
        "GroupQueryAttention", "com.microsoft", 1,
        {"q": ones(1, 1, 16), "k": ones(1, 1, 8), "v": ones(1, 1, 8), "a": ones(1, 1, 5, 8), "b": ones(1, 1, 5, 8),
         "s": np.array([900], "int32"), "t": np.array([901], "int32")},
        {"num_heads": 2, "kv_num_heads": 1}, 3, frozenset({"s", "t"}),
    ),
    "ReverseSequence": Model(
        "ReverseSequence", "", 18, {"x": ones(3, 2), "n": np.array([4, 1])}, {"time_axis": 0, "batch_axis": 1}
    ),
    "Slice": Model(
        "Slice", "", 18, {"x": ones(3, 2), "b": np.array([0]), "e": np.array([3]), "a": np.array([0]),
                          "s": np.array([0])}, known=frozenset("bea"),
    ),
}  # fmt: skip

# Misfits that showed as invented numbers, or as a crash of the import: the interpreter of graphs runs them.
ROTARY = {"x": ones(2, 5, 8), "p": np.zeros((2, 5), I), "c": ones(4, 2), "s": ones(4, 2)}
INVENTED = [
    Model("Conv", "", 18, {"x": ones(1, 1, 5, 5), "w": ones(1, 1, 3, 3)}, {"pads": [-1, 1, 1, 1]}),
    Model("MaxPool", "", 18, {"x": ones(1, 1, 5, 5)}, {"kernel_shape": [3, 3], "pads": [-1, 1, 1, 1]}),
    Model(
        "ConvTranspose", "", 18, {"x": ones(1, 1, 5, 5), "w": ones(1, 1, 3, 3)}, {"strides": [2, 2],
                                                                                 "output_shape": [13, 13]},
    ),
    Model(
        "Attention", "com.microsoft", 1,
        {"x": ones(2, 5, 8), "w": ones(8, 24), "b": ones(24), "": None, "p": ones(9, 2, 2, 3, 4)}, {"num_heads": 2}, 2,
    ),
    Model(
        "MultiHeadAttention", "com.microsoft", 1, {"q": ones(1, 3, 8), "k": ones(2, 5, 8), "v": ones(2, 5, 8)},
        {"num_heads": 2},
    ),
    Model("Attention", "", 24, {"q": ones(1, 2, 2, 8), "k": ones(1, 2, 4, 8), "v": ones(1, 2, 1, 8)}),
    Model("Attention", "", 23, {"q": ones(1, 2, 2, 8), "k": ones(1, 2, 0, 8), "v": ones(1, 2, 0, 8)}),
    Model(
        "GroupQueryAttention", "com.microsoft", 1,
        {"q": ones(2, 1, 16), "k": ones(2, 1, 8), "v": ones(2, 1, 8), "a": ones(2, 1, 5, 8), "b": ones(2, 1, 5, 8),
         "s": np.array([4, 4], "int32"), "t": np.zeros(0, "int32")},
        {"num_heads": 2, "kv_num_heads": 1}, 3, frozenset({"t"}),
    ),
    Model(
        "SkipSimplifiedLayerNormalization", "com.microsoft", 1, {"x": ones(2, 5, 8), "s": ones(2, 1, 8), "g": ones(8)}
    ),
    Model("BiasAdd", "com.microsoft", 1, {"x": ones(2, 5, 8), "b": ones(8), "s": ones(2, 1, 8)}),
    Model("RotaryEmbedding", "com.microsoft", 1, ROTARY, known=frozenset("cs")),
    Model("RotaryEmbedding", "", 23, ROTARY | {"p": None, "c": ones(2, 5, 2)}, {"num_heads": 1}),
    Model("Upsample", "", 9, {"x": ones(1, 1, 2, 2), "s": ones(3)}),
    Model("AveragePool", "", 18, {"x": ones(1, 1, 5, 5)}, {"kernel_shape": [2, 3], "pads": [2, 1, 1, 1]}),
    Model("GRU", "", 22, {"x": ones(0, 3, 2), "w": ones(1, 15, 2), "r": ones(1, 15, 5)}, {"hidden_size": 5}, 2),
    Model(
        "LSTM", "", 22, {"x": ones(2, 3, 2), "w": ones(1, 20, 2), "r": ones(1, 20, 5), "": None,
                         "n": np.array([2, 1, 7], "int32")}, {"hidden_size": 5}, 2,
    ),
    Model(
        "MatMulIntegerToFloat", "com.microsoft", 1,
        {"x": ones(3, 4, dtype="uint8"), "w": ones(4, 9, dtype="int8"), "a": np.array(1, F), "b": np.array(1, F),
         "z": np.array(3, "uint8"), "y": ones(5, dtype="int8")}, known=frozenset("wby"),
    ),
    Model("DFT", "", 20, {"x": ones(1, 0, 2)}, {"onesided": 1, "axis": 1}),
    Model("Scaler", "ai.onnx.ml", 1, {"x": ones(3, 2)}, {"offset": [1.0], "scale": [2.0, 0.5]}),
    Model(
        "Col2Im", "", 18, {"x": ones(1, 5, 5), "p": np.array([5, 5]), "b": np.array([1, 2**31])}, known=frozenset("pb")
    ),
    Model(
        "LinearAttention", "", 27,
        {"q": ones(2, 1, 32), "k": ones(2, 1, 32), "v": ones(2, 1, 32), "s": ones(2, 1, 8, 8), "d": ones(2, 1, 32),
         "b": ones(2, 1, 1)},
        {"q_num_heads": 4, "kv_num_heads": 4}, 2,
    ),
    Model("Range", "", 18, {"a": np.array(0), "b": np.array(2**62), "c": np.array(1)}, known=frozenset("abc")),
    Model("Tile", "", 18, {"x": ones(2, 3), "r": np.array([2**31, 1])}, known=frozenset("xr")),
    Model("Tile", "", 18, {"x": ones(2, 3), "r": np.array([2**31 - 1, 10**4])}, known=frozenset("r")),
]  # fmt: skip

TREES = {
    "nodes_splits": np.array([0.5, 0.5], F), "nodes_modes": np.array([0, 0], "uint8"), "nodes_featureids": [0, 1],
    "nodes_truenodeids": [1, 1], "nodes_trueleafs": [0, 1], "nodes_falsenodeids": [0, 2], "nodes_falseleafs": [1, 1],
    "leaf_targetids": [0, 0, 0], "leaf_weights": np.array([1, 2, 3], F), "tree_roots": [0], "n_targets": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"nodes_featureids": [0, 900]}, {"nodes_featureids": [0, -1]}, {"nodes_truenodeids": [900, 1]},
        {"leaf_targetids": [0, 0, 7]}, {"tree_roots": [2**31]}, {"nodes_truenodeids": [0, 1]},
        {"nodes_falseleafs": [1]}, {"aggregate_function": 9}, {},
    ],
    ids=lambda change: ", ".join(f"{k}={v}" for k, v in change.items()) or "valid",
)  # fmt: skip
def test_trees_name_features_nodes_and_outputs_that_exist(change: dict[str, object]) -> None:
    attrs = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in (TREES | change).items()}
    model = Model("TreeEnsemble", "ai.onnx.ml", 5, {"x": ones(3, 2)}, attrs)
    if change:
        with pytest.raises(MinitvmError, match="operator ai.onnx.ml.TreeEnsemble .*: (nodes|leaf|tree_|agg|a )"):
            from_onnx(model.proto())
    else:
        assert judge(model, interpret=True).verdict == RIGHT


@pytest.mark.parametrize(
    ("op", "name"), [("TopK", "largest"), ("ReduceMax", "keepdims"), ("Mod", "fmod"), ("CumSum", "reverse"),
     ("HannWindow", "periodic")]
)  # fmt: skip
@pytest.mark.parametrize("value", [2, -1, 2**63 - 1])
def test_a_flag_is_0_or_1(op: str, name: str, value: int) -> None:
    model = Model(op, "", 18, {"x": np.array(9), "y": np.array(0)}, {name: value})
    with pytest.raises(MinitvmError, match=f"operator {op} .*: attribute {name}={value}: wanted 0 or 1"):
        from_onnx(model.proto())


def shared(models: Sequence[Model], is_open: bool) -> Sequence[Model]:
    """Every second one in `make test`: the others are in the other form, with open sizes or without."""
    return models[number(int(is_open), 0) :: number(2, 1)]


@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_that_do_not_fit_are_refused_in_plain_words(is_open: bool) -> None:
    models = [model.with_("misfit", open=is_open) for model in shared(list(MISFITS.values()), is_open)]
    faults = [f"{m}: {found}" for m, found in judged(models, judge) if found.verdict != REFUSED]
    assert faults == []


@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_that_do_not_fit_invent_no_numbers(is_open: bool) -> None:
    models = [model.with_("misfit", open=is_open) for model in shared(INVENTED, is_open)]
    judged_models = judged(models, partial(judge, interpret=True))
    assert [f"{m}: {judgement}" for m, judgement in judged_models if judgement.verdict != REFUSED] == []


@pytest.mark.parametrize("is_open", [False, True])
def test_valid_sizes_and_flags_are_right(is_open: bool) -> None:
    models = []
    for size in (6, 7, 9, 10, 12):  # of 2 to 5 elements and a stride of 3: from less than they reach to more
        inputs = {"x": np.arange(4, dtype=F).reshape(1, 1, 4), "w": np.array([[[1, 2]]], F)}
        models.append(Model("ConvTranspose", "", 18, inputs, {"strides": [3], "output_shape": [size]}))
    rows = np.arange(24, dtype=F).reshape(2, 6, 2)
    axis = frozenset({"a"})
    models += [
        Model("DFT", "", 20, {"x": rows, "": None, "a": np.array(1)}, {"inverse": 7}, known=axis),
        Model("DFT", "", 20, {"x": rows[..., :1], "": None, "a": np.array(1)}, {"onesided": -1}, known=axis),
        Model("Dropout", "", 18, {"x": rows, "r": np.array(0.5, F), "t": np.array(False)}, {}, 2),
        Model("Trilu", "", 18, {"x": rows}, {"upper": 2**63 - 1}),
        Model("ArgMax", "", 18, {"x": rows}, {"select_last_index": -2, "keepdims": 0}),
        Model("Gemm", "", 18, {"x": rows[0], "y": rows[1]}, {"transA": 5}),
        Model("Resize", "", 19, {"x": rows, "": None, "s": None, "n": np.array([2, 900, 3])}, known=frozenset("n")),
        Model("LRN", "", 18, {"x": rows[..., None]}, {"size": 901}),
    ]
    models = [model.with_("valid", open=is_open) for model in shared(models, is_open)]
    models.append(
        Model("AveragePool", "", 18, {"x": rows}, {"kernel_shape": [2], "strides": [2**63 - 1], "ceil_mode": 1})
    )
    judged_models = judged(models, partial(judge, interpret=True))
    assert [f"{m}: {judgement}" for m, judgement in judged_models if judgement.verdict != RIGHT] == []


def test_a_random_dropout_is_refused_by_a_run() -> None:
    inputs = {"x": ones(3, 4), "r": np.array(0.5, F), "t": np.array(True)}
    with pytest.raises(MinitvmError, match="operator Dropout .*: training_mode with a ratio other than 0"):
        minitvm.build(Model("Dropout", "", 18, inputs).proto(), threads=1)(**inputs)


def test_a_scale_of_open_length_may_be_one_for_all() -> None:
    models = []
    for channels, scales in [(5, 1), (5, 5), (1, 1), (0, 1)]:
        inputs = {"x": ones(2, channels, dtype="int8"), "s": np.arange(1, scales + 1, dtype=F)}
        models.append(Model("DequantizeLinear", "", 19, inputs, open=True))
    assert [f"{m}: {found}" for m, found in judged(models, judge) if found.verdict != RIGHT] == []


def test_a_fence_ends_a_process_that_reads_beyond_it() -> None:
    def read_beyond(at_end: bool) -> Judgement:
        array = Fences(at_end).copy(ones(16))
        address = array.__array_interface__["data"][0] + (array.nbytes if at_end else -1)
        return Judgement(RIGHT, str(np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 1).from_address(address))))

    verdicts = [judgement.verdict for _, judgement in judged([True, False], read_beyond)]
    assert verdicts == [OUTSIDE, OUTSIDE]


def test_a_byte_that_is_written_beside_an_array_is_noticed() -> None:
    fences = Fences(at_end=False)
    array = fences.copy(ones(3))
    assert not fences.written()
    np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * 1).from_address(
        array.__array_interface__["data"][0] + array.nbytes
    ))[0] = 1  # fmt: skip
    assert fences.written()


def _faults(models: list[Model]) -> list[str]:
    faults = []
    for half, at_end in enumerate((True, False)):
        for model, judgement in judged(models[half::2], partial(judge, at_end=at_end)):
            if judgement.verdict in BAD:
                faults.append(f"{judgement.verdict}: {model}\n    {judgement.text}")
    return faults


@pytest.mark.parametrize("family", ["gather", "topk", "quantize", "blocks"])
def test_changed_sizes_are_right_or_refused(family: str) -> None:
    base = with_known_numbers(of_node(random_node(family, 1)))
    every = list(changes(base))
    assert _faults([every[k] for k in np.random.default_rng(0).permutation(len(every))[:5]]) == []


def test_sizes_of_nothing_and_of_several_numbers_are_right() -> None:
    models = [
        Model("Tile", "", 18, {"x": ones(0, 2), "r": np.array([2, 2])}, known=frozenset({"r"})),
        Model("Det", "", 18, {"x": ones(2, 0, 0)}),
        Model("STFT", "", 18, {"x": ones(1, 64, 1), "s": np.array(8), "": None, "l": np.array(16)}, {}, 1,
              frozenset({"s", "l"}), open=True),
        Model("NonMaxSuppression", "", 18, {"b": ones(1, 6, 4), "s": ones(1, 1, 6), "k": np.array([3])}, {}, 1,
              frozenset({"k"}), open=True),
        Model("Trilu", "", 18, {"x": ones(2, 3), "k": np.array(2**63 - 1)}, known=frozenset({"k"})),
    ]  # fmt: skip
    assert [f"{m}: {found}" for m, found in judged(models, judge) if found.verdict != RIGHT] == []


@pytest.mark.full
@pytest.mark.parametrize("family", OPERATORS)
def test_many_changed_sizes_of_random_nodes(family: str) -> None:
    for seed in range(3):
        assert _faults(list(changes(with_known_numbers(of_node(random_node(family, seed)))))) == []


@pytest.mark.full
def test_changed_sizes_of_every_operator() -> None:
    draw = np.random.default_rng(0)
    models = []
    for base in map(with_known_numbers, [*models_of_onnx(), *contributed()]):
        if accepted(base):
            every = list(changes(base))
            models += [every[k] for k in draw.permutation(len(every))[:10]]
    assert _faults(models) == []
    refused = [m for m, judgement in judged(models, judge) if judgement.verdict == VALID_REFUSED]
    assert len(refused) <= len(models) * 40 // 1700
