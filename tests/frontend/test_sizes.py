"""Sizes that do not fit: refused in plain words, and no access is outside of its array, whatever the sizes are."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from .random_nodes import OPERATORS, random_node
from .sizes.changes import Model, changes, models_of_onnx, of_node, with_known_numbers
from .sizes.fences import Fences
from .sizes.judging import BAD, OUTSIDE, REFUSED, RIGHT, VALID_REFUSED, Judgement, accepted, judge
from .sizes.workers import judged

F, I = "float32", "int64"


def ones(*shape: int, dtype: str = F) -> np.ndarray:
    return np.ones(shape, dtype)


# Sizes that do not fit, each as the arrays of an operator; most of them read or wrote outside of an array.
MISFITS = {
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
}  # fmt: skip


@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_that_do_not_fit_are_refused_in_plain_words(is_open: bool) -> None:
    models = [model.with_("misfit", open=is_open) for model in MISFITS.values()]
    faults = [f"{m}: {found}" for m, found in judged(models, judge) if found.verdict != REFUSED]
    assert faults == []


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
    for number, at_end in enumerate((True, False)):
        for model, judgement in judged(models[number::2], partial(judge, at_end=at_end)):
            if judgement.verdict in BAD:
                faults.append(f"{judgement.verdict}: {model}\n    {judgement.text}")
    return faults


@pytest.mark.parametrize("family", ["gather", "topk", "quantize", "blocks"])
def test_changed_sizes_are_right_or_refused(family: str) -> None:
    base = with_known_numbers(of_node(random_node(family, 1)))
    every = list(changes(base))
    assert _faults([every[k] for k in np.random.default_rng(0).permutation(len(every))[:5]]) == []


@pytest.mark.full
@pytest.mark.parametrize("family", OPERATORS)
def test_many_changed_sizes_of_random_nodes(family: str) -> None:
    for seed in range(3):
        assert _faults(list(changes(with_known_numbers(of_node(random_node(family, seed)))))) == []


@pytest.mark.full
def test_changed_sizes_of_every_operator() -> None:
    draw = np.random.default_rng(0)
    models = []
    for base in map(with_known_numbers, models_of_onnx()):
        if accepted(base):
            every = list(changes(base))
            models += [every[k] for k in draw.permutation(len(every))[:10]]
    assert _faults(models) == []
    refused = [m for m, judgement in judged(models, judge) if judgement.verdict == VALID_REFUSED]
    assert len(refused) <= len(models) * 40 // 1700
